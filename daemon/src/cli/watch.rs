//! Shows the progress of long work, and stops the work after a signal.

use std::ops::ControlFlow;

use backcast_files::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::cli::exit_status::{CommandError, Exit};
use crate::cli::signals::{ListenError, Signals};

/// Shows progress if stderr is a terminal, and listens to signals.
pub(crate) struct Watch {
    bar: ProgressBar,
    signals: Signals,
}

impl Watch {
    /// Starts a watch over work that is measured in bytes. `verb` names the work, such as `saving`.
    pub(crate) fn start(verb: &'static str) -> Result<Self, ListenError> {
        let signals = Signals::listen()?;
        // Hidden if stderr is not a terminal.
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
        let form = "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta} left";
        if let Ok(style) = ProgressStyle::with_template(form) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(verb);
        Ok(Self { bar, signals })
    }

    /// Shows progress in bytes. The work calls it repeatedly, and ends on `Break`.
    pub(crate) fn step(&self, progress: &Progress) -> ControlFlow<()> {
        if self.bar.length().is_none() && progress.total_bytes > 0 {
            self.bar.set_length(progress.total_bytes);
        }
        self.bar.set_position(progress.bytes);
        self.bar.tick();
        if self.signals.status().is_some() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

/// Work of markets, which is counted in steps.
#[cfg(feature = "markets")]
impl Watch {
    /// Starts a watch over work that is counted in steps.
    pub(crate) fn start_counting(verb: &'static str) -> Result<Self, ListenError> {
        let watch = Self::start(verb)?;
        let form = "{msg} {wide_bar} {pos}/{len} {eta} left";
        if let Ok(style) = ProgressStyle::with_template(form) {
            watch.bar.set_style(style.progress_chars("=> "));
        }
        Ok(watch)
    }

    /// Shows that `done` of `total` steps are done. The work calls it repeatedly, from any thread,
    /// and ends on `Break`.
    pub(crate) fn count(&self, done: usize, total: usize) -> ControlFlow<()> {
        self.bar.set_length(total as u64);
        self.bar.set_position(done as u64);
        self.bar.tick();
        if self.signals.status().is_some() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

impl Watch {
    /// Ends the watch and returns `result`. An interruption gets the exit status of its signal.
    pub(crate) fn end<T, E: Into<CommandError>>(
        self,
        result: Result<T, E>,
    ) -> Result<T, CommandError> {
        let error = match result {
            Ok(done) => return Ok(done),
            Err(error) => error.into(),
        };
        match self.signals.status() {
            Some(status) if error.exit() == Exit::Interrupted => {
                Err(error.with_exit(Exit::Status(status)))
            }
            _ => Err(error),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
