//! Ctrl-C while a command works on something that must not be left half: progress is shown, and the
//! work is asked to stop, which then clears up after itself.

use std::io;
use std::ops::ControlFlow;

use backcast_files::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::signals::Signals;

/// Shows how far the work has come, on a terminal alone, and listens to signals until it is dropped.
pub(crate) struct Watch {
    bar: ProgressBar,
    signals: Signals,
}

impl Watch {
    /// `verb` says what is done: `saving`.
    pub(crate) fn start(verb: &'static str) -> io::Result<Self> {
        let signals = Signals::listen()?;
        // Hidden where stderr is no terminal.
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
        let form = "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta} left";
        if let Ok(style) = ProgressStyle::with_template(form) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(verb);
        Ok(Self { bar, signals })
    }

    /// Starts a watch over work that is counted in whole steps.
    pub(crate) fn start_counting(verb: &'static str) -> io::Result<Self> {
        let watch = Self::start(verb)?;
        let form = "{msg} {wide_bar} {pos}/{len} {eta} left";
        if let Ok(style) = ProgressStyle::with_template(form) {
            watch.bar.set_style(style.progress_chars("=> "));
        }
        Ok(watch)
    }

    /// Shows that `done` of `total` steps are done; called after each, from any thread.
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

    /// To be called now and then by the work.
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

impl Drop for Watch {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
