//! Detects that a ring has lost its name, and reports it once per handle.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use super::Ring;
use super::notices::NoticeKind;
use crate::variant_words::variant_words;
use crate::wait::Wait;

/// Behaviour of the writers, samplers and waits of a handle once their ring was removed, or
/// replaced by another one of its name.
///
/// Such a ring stays in memory for its holders, and appends and draws work as before. But a process
/// that attaches by name finds another ring or none, so the rows of the two rings never meet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnUnlinked {
    /// Go on, and warn once: a `tracing` event, [`Ring::notices`], [`Ring::take_unlinked`], and
    /// [`WaitReport::Unlinked`](crate::WaitReport::Unlinked) of a call that waits. The default.
    #[default]
    Warn,
    /// Fail, before anything is written or drawn.
    Error,
    /// Go on.
    Ignore,
}

variant_words! {
    /// Returns `"warn"`, `"error"` or `"ignore"`.
    OnUnlinked { Warn = "warn", Error = "error", Ignore = "ignore" }

    /// A word that names no [`OnUnlinked`].
    #[error("on_unlinked is `{0}`; use \"warn\", \"error\" or \"ignore\"")]
    BadOnUnlinked(pub String)
}

/// Nothing to report.
const QUIET: u8 = 0;
/// The name is lost, and the caller was not warned yet.
const NEWS: u8 = 1;
/// The caller was warned.
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
mod tests;
