//! Waits for a version.

use std::time::{Duration, Instant};

use backcast_layout::protocol::listen;

use super::Params;
use crate::error::ParamsError;

/// Maximum sleep between two calls of `interrupted`.
const SLICE: Duration = Duration::from_millis(50);

impl Params {
    /// Waits until a version of at least `version` is published, and returns the newest one.
    ///
    /// Sleeps in the kernel; the publisher wakes it. `interrupted` is called at least every 50 ms,
    /// and ends the wait by returning `true`. Fails if the time runs out, the wait is
    /// interrupted, or the parameters were removed or replaced. Copies nothing.
    pub fn wait(
        &self,
        version: u64,
        timeout: Option<Duration>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<u64, ParamsError> {
        let start = Instant::now();
        let left = || timeout.map_or(Duration::MAX, |limit| limit.saturating_sub(start.elapsed()));
        if self.version() >= version {
            return Ok(self.version());
        }
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
            if left().is_zero() {
                let waited_ms = start.elapsed().as_millis();
                return Err(ParamsError::TimedOut { want: version, newest, waited_ms });
            }
            if interrupted() {
                return Err(ParamsError::Interrupted);
            }
            ticket.sleep(&notifier, left().min(SLICE));
        }
    }
}
