//! Waits for a version.

use std::time::Duration;

use backcast_layout::protocol::listen;

use super::Params;
use crate::error::ParamsError;
use crate::wait::{Wait, WaitEnd, processes_in_words};

/// Maximum sleep between two checks.
pub(super) const SLICE: Duration = Duration::from_millis(50);

impl Params {
    /// Waits until a version of at least `version` is published, and returns the newest one.
    ///
    /// Sleeps in the kernel; the publisher wakes it. Fails if the time runs out, the handle's
    /// interrupt ends the wait ([`interrupted_by`](Self::interrupted_by)), or the parameters were
    /// removed or replaced. Copies nothing.
    pub fn wait(&self, version: u64, timeout: Option<Duration>) -> Result<u64, ParamsError> {
        if self.version() >= version {
            return Ok(self.version());
        }
        let mut wait = Wait::new(timeout, &self.interrupt);
        let notifier = self.store.published();
        loop {
            // From here on the publisher wakes the sleeper for versions after this check.
            let ticket = listen(&notifier);
            let newest = self.version();
            if newest >= version {
                return Ok(newest);
            }
            if self.is_unlinked() {
                return Err(ParamsError::Unlinked);
            }
            let waited = wait.waited();
            let late = |waited: Duration| ParamsError::TimedOut {
                want: version,
                newest,
                waited_ms: waited.as_millis(),
                reason: self.publisher_in_words(),
            };
            match wait.check(SLICE, || late(waited).to_string()) {
                Ok(time) => ticket.sleep(&notifier, time),
                Err(WaitEnd::TimedOut) => return Err(late(wait.waited())),
                Err(WaitEnd::Interrupted) => return Err(ParamsError::Interrupted),
            }
        }
    }

    /// Says which process publishes: none, this one, or the named one.
    fn publisher_in_words(&self) -> String {
        if !self.store.has_publisher() {
            return "no process has opened them to publish; `backcast stat` shows them".to_owned();
        }
        in_words(&self.store.publisher_pids(), self.name().is_none())
    }
}

/// Names the processes that hold the publisher's lock. Private parameters are published by this
/// process. Without a process that is seen, the publisher belongs to another user or container.
fn in_words(pids: &[u32], is_private: bool) -> String {
    if is_private || pids.contains(&std::process::id()) {
        return "their publisher is a handle of this process: a thread that waits cannot publish, \
                so publish in another thread or process"
            .to_owned();
    }
    format!("they are published by {}", processes_in_words(pids))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_publisher_that_is_not_seen_is_of_this_process_in_private_memory_only() {
        let ours = in_words(&[std::process::id()], false);
        assert_eq!(in_words(&[], true), ours);
        let unseen = in_words(&[], false);
        let seen = in_words(&[u32::MAX], false);
        assert!(unseen != ours && unseen != seen, "{unseen}");
        assert!(seen != ours && seen.contains(&u32::MAX.to_string()), "{seen}");
    }
}
