//! Detects that a ring has lost its name, and reports it once per handle.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use thiserror::Error;

use super::Ring;
use super::notices::NoticeKind;
use crate::wait::Wait;

/// Behaviour of the writers, samplers and waits of a handle once their ring was removed, or
/// replaced by another one of its name.
///
/// Such a ring stays in memory for its holders, and appends and draws work as before. But a process
/// that attaches by name finds another ring or none, so rows of the two never meet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnUnlinked {
    /// Go on, and warn once: a `tracing` event, [`Ring::notices`], [`Ring::take_unlinked`], and
    /// [`WaitReport::Unlinked`](crate::WaitReport::Unlinked) of a call that waits.
    #[default]
    Warn,
    /// Fail, before anything is written or drawn.
    Error,
    /// Go on.
    Ignore,
}

impl OnUnlinked {
    const ALL: [OnUnlinked; 3] = [OnUnlinked::Warn, OnUnlinked::Error, OnUnlinked::Ignore];

    /// Returns `"warn"`, `"error"` or `"ignore"`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            OnUnlinked::Warn => "warn",
            OnUnlinked::Error => "error",
            OnUnlinked::Ignore => "ignore",
        }
    }
}

impl fmt::Display for OnUnlinked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that names no [`OnUnlinked`].
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("on_unlinked is `{0}`; use \"warn\", \"error\" or \"ignore\"")]
pub struct BadOnUnlinked(pub String);

impl FromStr for OnUnlinked {
    type Err = BadOnUnlinked;

    fn from_str(text: &str) -> Result<Self, BadOnUnlinked> {
        let mut all = Self::ALL.into_iter();
        all.find(|choice| choice.as_str() == text).ok_or_else(|| BadOnUnlinked(text.to_owned()))
    }
}

/// Nothing to report.
const QUIET: u8 = 0;
/// The name is lost, and the caller was not warned yet.
const NEWS: u8 = 1;
/// The caller was warned, or removed the name itself.
const REPORTED: u8 = 2;

/// State of one handle and its clones about the name of their ring.
#[derive(Debug, Default)]
pub(crate) struct NameWatch {
    /// An [`OnUnlinked`], by its index in `ALL`.
    choice: AtomicU8,
    state: AtomicU8,
    /// 1 if this handle removed the name.
    ours: AtomicU8,
    /// 1 if a wait has reported the loss to its listener.
    told: AtomicU8,
}

impl NameWatch {
    fn choice(&self) -> OnUnlinked {
        OnUnlinked::ALL.get(usize::from(self.choice.load(Relaxed))).copied().unwrap_or_default()
    }
}

impl Ring {
    /// Sets what writers, samplers and waits of this handle and its clones do once the ring was
    /// removed or replaced.
    #[must_use]
    pub fn on_unlinked(self, choice: OnUnlinked) -> Self {
        self.name_watch().choice.store(choice as u8, Relaxed);
        self
    }

    /// Returns the behaviour that [`on_unlinked`](Self::on_unlinked) set.
    #[must_use]
    pub fn unlinked_choice(&self) -> OnUnlinked {
        self.name_watch().choice()
    }

    /// Returns whether the ring was removed or replaced, so that no process can attach to it any
    /// more. `false` on the heap. Makes one system call, or three if the loss is marked.
    #[must_use]
    pub fn is_unlinked(&self) -> bool {
        self.store().is_unlinked()
    }

    /// Returns whether to warn that the ring was removed or replaced. `true` once per handle, after
    /// a writer, a sampler or a wait of it has found out.
    #[must_use]
    pub fn take_unlinked(&self) -> bool {
        let state = &self.name_watch().state;
        self.has_unlinked_warning()
            && state.compare_exchange(NEWS, REPORTED, Relaxed, Relaxed).is_ok()
    }

    /// Returns whether [`take_unlinked`](Self::take_unlinked) will return `true`. Makes one relaxed
    /// load.
    #[inline]
    #[must_use]
    pub fn has_unlinked_warning(&self) -> bool {
        self.name_watch().state.load(Relaxed) == NEWS
    }

    /// Records that this handle is about to remove the name, unless it is lost already.
    pub(crate) fn expect_unlink(&self) {
        if !self.is_unlinked() {
            self.name_watch().ours.store(1, Relaxed);
        }
    }

    /// Checks whether the ring has lost its name, and records it for a warning. Returns `true` if
    /// calls must fail.
    #[cold]
    pub(crate) fn refuses_as_unlinked(&self) -> bool {
        let watch = self.name_watch();
        let choice = watch.choice();
        let heeded = choice != OnUnlinked::Ignore && watch.ours.load(Relaxed) == 0;
        if !heeded || !self.is_unlinked() {
            return false;
        }
        if choice == OnUnlinked::Error {
            return true;
        }
        if watch.state.compare_exchange(QUIET, NEWS, Relaxed, Relaxed).is_ok() {
            self.notice_log().warn(NoticeKind::Unlinked, self.unlinked_text());
        }
        false
    }

    /// Checks like [`refuses_as_unlinked`](Self::refuses_as_unlinked) during a wait. The first wait
    /// of the handle that finds the name lost reports it to its listener.
    #[cold]
    pub(crate) fn refuses_wait(&self, wait: Option<&mut Wait<'_>>) -> bool {
        let refuses = self.refuses_as_unlinked();
        if let Some(wait) = wait
            && wait.can_report()
            && self.has_unlinked_warning()
            && self.name_watch().told.swap(1, Relaxed) == 0
        {
            wait.report_unlinked(self.unlinked_text());
        }
        refuses
    }

    fn unlinked_text(&self) -> String {
        let ring = self.name().unwrap_or_default();
        format!(
            "ring `{ring}` was removed or replaced while this process holds it: processes that \
             attach by name do not see its rows; attach again"
        )
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use super::*;
    use crate::{
        AppendError, Base, BatchesOptions, DType, Exist, Interrupt, LimitError, ObjectKind,
        RateLimiter, RingOptions, SampleError, SamplerOptions, Schema, SegmentError, Selector,
        Step, TableOptions, WaitError, WaitReport, Writer, WriterOptions, remove_object,
    };

    /// Time after which a call that nothing ends fails.
    const LIMIT: Duration = Duration::from_secs(60);

    fn create(base: &Base, exist: Exist) -> Ring {
        let schema = Schema::builder().column("obs", DType::U8, &[]).build().unwrap();
        let options = RingOptions::with_capacity(64).base(base.clone()).exist(exist);
        Ring::create("pong", &schema, options).unwrap()
    }

    fn append(writer: &mut Writer) -> Result<(), AppendError> {
        let (flags, columns) = ([false], [&[7_u8][..]]);
        let schema = writer.schema().clone();
        let step = Step {
            schema: &schema,
            columns: &columns,
            terminated: &flags,
            truncated: &flags,
            next_obs: None,
            final_obs: None,
        };
        writer.append(step).map(drop)
    }

    type Way = (&'static str, fn(&Base));

    /// Returns the ways in which a ring loses its name while it is held.
    fn ways() -> [Way; 3] {
        [
            ("replaced", |base| drop(create(base, Exist::Replace))),
            ("removed", |base| drop(remove_object(base, ObjectKind::Ring, "pong", true).unwrap())),
            ("unlinked by another handle", |base| {
                Ring::attach_in(base, "pong").unwrap().unlink().unwrap();
            }),
        ]
    }

    #[test]
    fn the_next_append_draw_and_wait_find_out_and_tell_once() {
        for (way, lose) in ways() {
            let dir = tempfile::tempdir().unwrap();
            let base = Base::at(dir.path());
            let kept = create(&base, Exist::Error);
            let (write, draw, wait) = (attach(&base), attach(&base), attach(&base));
            let mut writer = write.writer(WriterOptions::lanes(1)).unwrap();
            let mut sampler = draw.sampler(SamplerOptions::seeded(1)).unwrap();
            for _ in 0..5 {
                append(&mut writer).unwrap();
            }
            sampler.sample(4).unwrap();
            assert!(![&write, &draw, &wait].iter().any(|ring| ring.take_unlinked()), "{way}");
            lose(&base);
            append(&mut writer).unwrap();
            sampler.sample(4).unwrap();
            let _ = wait.wait_for(50, Some(Duration::from_millis(2)));
            for ring in [&write, &draw, &wait] {
                assert!(ring.is_unlinked() && ring.stats().unlinked, "{way}");
                assert!(ring.take_unlinked(), "{way}");
            }
            append(&mut writer).unwrap();
            sampler.sample(4).unwrap();
            assert!(![&write, &draw, &wait].iter().any(|ring| ring.take_unlinked()), "{way}: once");
            assert_eq!(kept.len(), 6, "{way}: holders keep its rows");
            // Programs without a `tracing` subscriber can ask at any time, and again.
            for _ in 0..5_000 {
                append(&mut writer).unwrap();
            }
            for told in [writer.notices(), write.notices(), write.stats().notices] {
                let [notice] = &*told else { panic!("{way}: {told:?}") };
                assert_eq!((notice.kind, notice.count), (NoticeKind::Unlinked, 1), "{way}");
                assert!(notice.to_string().contains("`pong`"), "{way}: {notice}");
            }
            assert_eq!(sampler.notices()[0].kind, NoticeKind::Unlinked, "{way}");
            assert_eq!(kept.notices(), [], "{way}: this handle met nothing");
        }
    }

    fn attach(base: &Base) -> Ring {
        Ring::attach_in(base, "pong").unwrap()
    }

    /// A call that waits, the limiter of its ring, and a function that makes it and returns whether
    /// an interrupt ended it.
    type WaitingCall = (&'static str, Option<RateLimiter>, fn(&Ring) -> bool);

    fn waiting_calls() -> [WaitingCall; 6] {
        let held_back = Some(RateLimiter::queue(1));
        [
            ("an append", held_back, |ring| {
                let mut writer = ring.writer(WriterOptions::lanes(1).timeout(LIMIT)).unwrap();
                let held = (0..9).find_map(|_| append(&mut writer).err());
                matches!(held, Some(AppendError::Limited(LimitError::Interrupted { .. })))
            }),
            ("a draw", held_back, |ring| {
                let mut sampler = ring.sampler(SamplerOptions::seeded(1)).unwrap();
                sampler.set_timeout(Some(LIMIT));
                is_interrupted(&sampler.sample(4).unwrap_err())
            }),
            ("an iterator without a thread", held_back, |ring| next_is_interrupted(ring, 0)),
            ("an iterator with a thread", held_back, |ring| next_is_interrupted(ring, 2)),
            ("a draw of new rows", None, |ring| {
                let queue = Selector::Table(TableOptions::consume("queue"));
                let mut sampler = ring.sampler(SamplerOptions::seeded(1).selector(queue)).unwrap();
                sampler.set_timeout(Some(LIMIT));
                is_interrupted(&sampler.sample(4).unwrap_err())
            }),
            ("a wait for transitions", None, |ring| {
                ring.wait_for(50, Some(LIMIT)) == Err(WaitError::Interrupted)
            }),
        ]
    }

    fn next_is_interrupted(ring: &Ring, prefetch: usize) -> bool {
        let mut sampler = ring.sampler(SamplerOptions::seeded(1)).unwrap();
        sampler.set_timeout(Some(LIMIT));
        let mut batches = sampler.batches(4, BatchesOptions::prefetch(prefetch)).unwrap();
        is_interrupted(&batches.next().unwrap().unwrap_err())
    }

    fn is_interrupted(error: &SampleError) -> bool {
        matches!(error, SampleError::Limited(LimitError::Interrupted { .. }))
    }

    #[test]
    fn a_wait_that_finds_out_tells_its_listener_once() {
        for (way, lose) in ways() {
            for (call, limiter, wait) in waiting_calls() {
                let dir = tempfile::tempdir().unwrap();
                let base = Base::at(dir.path());
                let schema = Schema::builder().column("obs", DType::U8, &[]).build().unwrap();
                let mut options = RingOptions::with_capacity(64).base(base.clone());
                if let Some(limiter) = limiter {
                    options = options.limiter(limiter);
                }
                let _kept = Ring::create("pong", &schema, options).unwrap();
                let reports = Arc::new(Mutex::new(Vec::new()));
                let (told, place, lost) =
                    (Arc::clone(&reports), base.clone(), AtomicBool::new(false));
                // The name is lost while the call waits: a listener is called by waits only.
                let interrupt = Interrupt::told(move |report| {
                    if !lost.swap(true, Relaxed) {
                        lose(&place);
                    }
                    let Some(WaitReport::Unlinked(text)) = report else { return false };
                    told.lock().unwrap().push(text.to_owned());
                    true
                });
                let ring = attach(&base).interrupted_by(interrupt);
                assert!(wait(&ring), "{call}, {way}");
                let again = ring.wait_for(50, Some(Duration::from_millis(2)));
                assert!(matches!(again, Err(WaitError::TimedOut { .. })), "{call}, {way}");
                let told = reports.lock().unwrap();
                let [text] = &told[..] else { panic!("{call}, {way}: {told:?}") };
                assert!(text.contains("ring `pong` was removed or replaced"), "{call}: {text}");
                assert!(ring.take_unlinked(), "{call}, {way}: a report takes nothing away");
            }
        }
    }

    #[test]
    fn every_call_fails_where_errors_were_asked_for_and_changes_nothing() {
        for (way, lose) in ways() {
            let dir = tempfile::tempdir().unwrap();
            let base = Base::at(dir.path());
            let kept = create(&base, Exist::Error);
            let ring = attach(&base).on_unlinked(OnUnlinked::Error);
            let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
            let mut sampler = ring.sampler(SamplerOptions::seeded(1)).unwrap();
            for _ in 0..5 {
                append(&mut writer).unwrap();
            }
            let state = sampler.state();
            lose(&base);
            for _ in 0..2 {
                let refused = append(&mut writer).unwrap_err();
                assert!(matches!(refused, AppendError::Unlinked { .. }), "{way}: {refused}");
                let refused = writer.reserve().unwrap_err();
                assert!(matches!(refused, AppendError::Unlinked { .. }), "{way}: {refused}");
                let (flags, columns) = ([false; 3], [&[7_u8; 3][..]]);
                let steps = Step {
                    schema: ring.schema(),
                    columns: &columns,
                    terminated: &flags,
                    truncated: &flags,
                    next_obs: None,
                    final_obs: None,
                };
                let refused = writer.extend(steps).unwrap_err();
                assert!(matches!(refused, AppendError::Unlinked { .. }), "{way}: {refused}");
                for refused in [sampler.sample(4).unwrap_err(), sampler.gather(&[1]).unwrap_err()] {
                    let SampleError::Segment(SegmentError::Unlinked { .. }) = refused else {
                        panic!("{way}: {refused}");
                    };
                }
                let waited = ring.wait_for(50, Some(backcast_budget::WATCHDOG));
                assert_eq!(waited, Err(WaitError::Unlinked), "{way}");
            }
            assert_eq!((kept.rows_published(), sampler.state()), (5, state), "{way}");
            assert!(!ring.take_unlinked(), "{way}: errors need no warning");
        }
    }

    #[test]
    fn files_deleted_by_hand_are_found_by_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let base = Base::at(dir.path());
        let ring = create(&base, Exist::Error);
        let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
        append(&mut writer).unwrap();
        std::fs::remove_dir_all(ring.path().unwrap()).unwrap();
        // Appends make no system call, so they cannot detect it; a restart checks.
        append(&mut writer).unwrap();
        assert!(!ring.take_unlinked());
        writer.restart(&[true]).unwrap();
        append(&mut writer).unwrap();
        assert!(ring.take_unlinked());
    }

    #[test]
    fn a_mark_that_is_a_lie_is_not_believed() {
        use std::os::unix::fs::FileExt;
        let dir = tempfile::tempdir().unwrap();
        let base = Base::at(dir.path());
        let ring = create(&base, Exist::Error).on_unlinked(OnUnlinked::Error);
        let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
        append(&mut writer).unwrap();
        let file = ring.path().unwrap().join("ring.rdr");
        let file = std::fs::File::options().write(true).open(file).unwrap();
        // The highest byte of `resizes` in the first notifier, as in docs/layout.md.
        file.write_all_at(&[1], 0x80 + 0x00b).unwrap();
        append(&mut writer).unwrap();
        assert!(!ring.is_unlinked() && !ring.stats().unlinked);
        // A removal after the false mark is still found, when the writer restarts.
        drop(remove_object(&base, ObjectKind::Ring, "pong", true).unwrap());
        writer.restart(&[true]).unwrap();
        let refused = append(&mut writer).err();
        assert!(matches!(refused, Some(AppendError::Unlinked { .. })), "{refused:?}");
    }

    #[test]
    fn own_or_ignored_removals_are_not_reported() {
        let dir = tempfile::tempdir().unwrap();
        let base = Base::at(dir.path());
        for choice in [OnUnlinked::Warn, OnUnlinked::Error, OnUnlinked::Ignore] {
            let ring = create(&base, Exist::Error).on_unlinked(choice);
            let other = attach(&base).on_unlinked(OnUnlinked::Ignore);
            let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
            ring.unlink().unwrap();
            for _ in 0..3 {
                append(&mut writer).unwrap();
            }
            other.sampler(SamplerOptions::seeded(1)).unwrap().sample(2).unwrap();
            assert!(ring.stats().unlinked && other.stats().unlinked);
            assert!(!ring.take_unlinked() && !other.take_unlinked());
        }
    }

    #[test]
    fn the_words_are_those_of_the_choices() {
        for choice in OnUnlinked::ALL {
            assert_eq!(choice.as_str().parse(), Ok(choice));
        }
        let refused = "raise".parse::<OnUnlinked>().unwrap_err();
        assert_eq!(refused, BadOnUnlinked("raise".to_owned()));
    }
}
