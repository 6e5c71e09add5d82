//! Loss of a ring's name: warnings, refused calls, and reports of waits.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;
use crate::{
    AppendError, Base, BatchesOptions, DType, Exist, Interrupt, LimitError, ObjectKind,
    RateLimiter, RingOptions, SampleError, SamplerOptions, Schema, SegmentError, Selector, Step,
    TableOptions, WaitError, WaitReport, Writer, WriterOptions, remove_object,
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
            let (told, place, lost) = (Arc::clone(&reports), base.clone(), AtomicBool::new(false));
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
            assert!(text.contains("`pong`"), "{call}: {text}");
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
    // Appends make no system call, so they cannot detect the loss. A restart checks.
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
    for &choice in OnUnlinked::ALL {
        assert_eq!(choice.as_str().parse(), Ok(choice));
    }
    let refused = "raise".parse::<OnUnlinked>().unwrap_err();
    assert_eq!(refused, BadOnUnlinked("raise".to_owned()));
}
