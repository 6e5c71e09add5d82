//! Warnings of a handle, kept so that programs without a `tracing` subscriber can ask for them.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use super::Ring;

/// Kind of a [`Notice`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NoticeKind {
    /// The ring was removed or replaced: processes that attach by name find another one, or none.
    Unlinked,
    /// A lane was relocated by a resize, and this handle cannot map its new memory: it reads none
    /// of the lane's rows.
    UnreadableLane,
    /// A writer cannot relocate its lane to the memory of a resize yet, and writes the old one.
    UnmovedLane,
    /// Rows may differ in meaning from what the caller intends: see
    /// [`WriterWarning`](crate::WriterWarning).
    SuspectRows,
    /// A lease made an append wait, or drop its row: see [`Stall`](crate::Stall).
    Stall,
}

impl NoticeKind {
    /// Returns `"unlinked"`, `"unreadable_lane"`, `"unmoved_lane"`, `"suspect_rows"` or `"stall"`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unlinked => "unlinked",
            Self::UnreadableLane => "unreadable_lane",
            Self::UnmovedLane => "unmoved_lane",
            Self::SuspectRows => "suspect_rows",
            Self::Stall => "stall",
        }
    }
}

impl fmt::Display for NoticeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The last warning of one kind from a handle, its clones, and their writers and samplers. Every
/// warning is also a `tracing` event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Notice {
    /// Kind of the warning.
    pub kind: NoticeKind,
    /// Warnings of this kind so far.
    pub count: u64,
    /// Text of the last one.
    pub text: String,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        if self.count > 1 { write!(f, " ({} times)", self.count) } else { Ok(()) }
    }
}

/// The last warning of each kind, in the order in which the kinds came first.
#[derive(Debug, Default)]
pub(crate) struct Notices(Mutex<Vec<Notice>>);

impl Notices {
    /// Warns by a `tracing` event, and keeps the text.
    #[cold]
    pub(crate) fn warn(&self, kind: NoticeKind, text: String) {
        tracing::warn!(%kind, "{text}");
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match kept.iter_mut().find(|notice| notice.kind == kind) {
            Some(notice) => (notice.count, notice.text) = (notice.count.saturating_add(1), text),
            None => kept.push(Notice { kind, count: 1, text }),
        }
    }

    pub(crate) fn list(&self) -> Vec<Notice> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Ring {
    /// Returns what this handle, its clones, and their writers and samplers warned of: the last
    /// warning of each kind, with the number of warnings of its kind. Empty if all is well.
    ///
    /// A call removes none of them. Long waits are reported to the [`Interrupt`](crate::Interrupt)
    /// of the handle instead.
    ///
    /// ```
    /// use backcast_core::{Base, DType, Exist, NoticeKind, Ring, RingOptions, Schema, StepColumns};
    /// use backcast_core::WriterOptions;
    ///
    /// # let dir = tempfile::tempdir()?;
    /// let schema = Schema::builder().column("obs", DType::F32, &[]).build()?;
    /// let options = RingOptions::with_capacity(100).base(Base::at(dir.path()));
    /// let ring = Ring::create("pong", &schema, options.clone())?;
    /// let mut writer = ring.writer(WriterOptions::lanes(1))?;
    /// let step = StepColumns::of(&schema).with("obs", &[0.5_f32])?.step(&[false], &[false])?;
    /// writer.append(&step)?;
    /// assert!(ring.notices().is_empty());
    ///
    /// // Another program takes the name: no process will see the rows of this writer.
    /// let _other = Ring::create("pong", &schema, options.exist(Exist::Replace))?;
    /// writer.append(&step)?;
    /// assert_eq!(writer.notices()[0].kind, NoticeKind::Unlinked);
    /// assert_eq!(ring.stats().notices, ring.notices());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn notices(&self) -> Vec<Notice> {
        self.notice_log().list()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_text_of_each_kind_is_kept_with_the_number_of_its_kind() {
        let notices = Notices::default();
        assert_eq!(notices.list(), []);
        for (kind, text) in [
            (NoticeKind::Stall, "first"),
            (NoticeKind::Unlinked, "gone"),
            (NoticeKind::Stall, "second"),
        ] {
            notices.warn(kind, text.to_owned());
        }
        let kept: Vec<_> = notices.list().iter().map(|n| (n.kind, n.to_string())).collect();
        assert_eq!(
            kept,
            [
                (NoticeKind::Stall, "second (2 times)".to_owned()),
                (NoticeKind::Unlinked, "gone".to_owned())
            ]
        );
    }
}
