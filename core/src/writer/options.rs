//! Options of a writer.

use std::time::Duration;

use crate::autoreset::AutoresetMode;

/// Options of a writer.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct WriterOptions {
    pub(crate) lanes: u32,
    pub(crate) autoreset: Option<AutoresetMode>,
    pub(crate) timeout: Option<Duration>,
}

impl WriterOptions {
    /// Returns options for a writer of `n` lanes, one per sub-environment.
    ///
    /// A writer of one lane is in [disabled](AutoresetMode::Disabled) mode by default, since the
    /// caller resets a single environment. Several lanes need [`autoreset`](Self::autoreset):
    /// vector environments differ in when they reset, and a wrong guess would store wrong
    /// transitions.
    #[must_use]
    pub fn lanes(n: u32) -> Self {
        Self { lanes: n, autoreset: None, timeout: None }
    }

    /// Sets the autoreset mode of the environment.
    #[must_use]
    pub fn autoreset(mut self, mode: AutoresetMode) -> Self {
        self.autoreset = Some(mode);
        self
    }

    /// Sets the maximum wait of an append for the ring's rate limiter. By default an append waits
    /// without a limit.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Returns the mode; `None` if none was set for several lanes.
    pub(crate) fn mode(self) -> Option<AutoresetMode> {
        self.autoreset.or((self.lanes <= 1).then_some(AutoresetMode::Disabled))
    }
}
