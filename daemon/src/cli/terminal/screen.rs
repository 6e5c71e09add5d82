//! Switches the terminal to a full-screen view, and restores it however the view ends.

use std::cell::Cell;
use std::io::{self, BufWriter, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind, set_hook, take_hook};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::layout::Rect;
use ratatui::{Frame, Terminal, TerminalOptions, Viewport};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::cli::console::Stream;
use crate::cli::signals::Signals;

/// Interval of checks for signals while the terminal accepts no output.
const PIECE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// Maximum bytes of one write. A terminal that is ready accepts at least as many.
const PIECE_BYTES: usize = 256;

/// A terminal in raw mode, on its alternate screen, without a cursor. Dropping it undoes all three.
pub(crate) struct Screen<'a> {
    terminal: Terminal<CrosstermBackend<BufWriter<Restoring<'a>>>>,
    size: (u16, u16),
    ending: Rc<Cell<bool>>,
}

impl Drop for Screen<'_> {
    fn drop(&mut self) {
        self.ending.set(true);
    }
}

/// Output to the terminal that stops on signals.
///
/// A terminal may stop accepting output when its window is frozen or its connection hangs. Every
/// write waits until the terminal is ready, and a signal ends the wait.
struct Restoring<'a> {
    out: &'a mut dyn Stream,
    signals: &'a Signals,
    /// Set when the view is over, to ignore failed writes. On an error the library would write to
    /// stderr, which is the same terminal, and panic.
    ending: Rc<Cell<bool>>,
}

impl Restoring<'_> {
    fn put(&mut self, piece: &[u8]) -> io::Result<()> {
        self.wait_for_room()?;
        self.out.write_all(piece)?;
        // The buffer of `out` must not collect more than the terminal accepts.
        self.out.flush()
    }

    fn wait_for_room(&self) -> io::Result<()> {
        let stdout = io::stdout();
        loop {
            let over = self.signals.status().is_some();
            let patience = if over { Timespec::default() } else { PIECE };
            let mut ready = [PollFd::new(&stdout, PollFlags::OUT)];
            if poll(&mut ready, Some(&patience)).unwrap_or(0) > 0 {
                return Ok(());
            }
            if over {
                return Err(io::Error::other("a signal came while the terminal took nothing"));
            }
        }
    }
}

impl Write for Restoring<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = bytes.get(..PIECE_BYTES).unwrap_or(bytes);
        match self.put(piece) {
            Err(error) if !self.ending.get() => Err(error),
            _ => Ok(piece.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.out.flush() {
            Err(error) if !self.ending.get() => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for Restoring<'_> {
    fn drop(&mut self) {
        // If the terminal is gone, the error cannot be shown.
        let _ = execute!(self, LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}

impl<'a> Screen<'a> {
    /// Switches the terminal to raw mode and the alternate screen. A signal ends a wait for the
    /// terminal.
    pub(crate) fn enter(out: &'a mut dyn Stream, signals: &'a Signals) -> io::Result<Self> {
        let size = size();
        enable_raw_mode()?;
        // From here on a failure restores the terminal.
        let ending = Rc::new(Cell::new(false));
        let restoring = Restoring { out, signals, ending: Rc::clone(&ending) };
        let mut out = BufWriter::new(restoring);
        execute!(out, EnterAlternateScreen, Clear(ClearType::All), Hide)?;
        let viewport = Viewport::Fixed(area(size));
        let options = TerminalOptions { viewport };
        let terminal = Terminal::with_options(CrosstermBackend::new(out), options)?;
        // Not `terminal.clear()`: it queries the cursor, and some terminals do not answer.
        Ok(Self { terminal, size, ending })
    }

    /// Makes the next draw redraw everything, even if the size is the same.
    pub(crate) fn forget(&mut self) {
        self.size = (0, 0);
    }

    /// Draws at the current size of the terminal.
    pub(crate) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        let size = size();
        if size != self.size {
            self.size = size;
            self.terminal.resize(area(size))?;
        }
        self.terminal.draw(draw).map(drop)
    }
}

/// Returns columns and rows; 80 by 24 if the system does not tell.
fn size() -> (u16, u16) {
    let told = rustix::termios::tcgetwinsize(io::stdout()).ok();
    let told = told.map(|size| (size.ws_col, size.ws_row));
    told.filter(|(columns, rows)| *columns > 0 && *rows > 0).unwrap_or((80, 24))
}

fn area((columns, rows): (u16, u16)) -> Rect {
    Rect::new(0, 0, columns, rows)
}

/// Runs `body`, which has the terminal. The message of a panic is printed after the terminal is
/// restored, since the alternate screen would hide it.
pub(crate) fn guarded<R>(body: impl FnOnce() -> R) -> R {
    let said = Arc::new(Mutex::new(Vec::new()));
    let before = take_hook();
    let listener = Arc::clone(&said);
    set_hook(Box::new(move |panic| {
        listener.lock().unwrap_or_else(PoisonError::into_inner).push(panic.to_string());
    }));
    let result = catch_unwind(AssertUnwindSafe(body));
    set_hook(before);
    for line in said.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        let _ = writeln!(io::stderr(), "{line}");
    }
    result.unwrap_or_else(|panic| resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pty::Pty;

    const ROLE: &str = "BACKCAST_TEST_PANIC_ON_SCREEN";

    /// Runs in the child process of the test below.
    #[test]
    #[ignore = "a role: other tests start it as a process of its own"]
    fn a_view_that_panics() {
        assert!(std::env::var_os(ROLE).is_some(), "a role, and {ROLE} is not set");
        guarded(|| {
            let mut out = io::stdout();
            let signals = Signals::listen().expect("signals");
            let mut screen = Screen::enter(&mut out, &signals).expect("a terminal");
            screen.draw(|frame| frame.render_widget("in the view", frame.area())).unwrap();
            assert!(io::stdin().lines().next().is_none(), "the view broke");
        });
    }

    #[test]
    fn a_panic_gives_the_terminal_back_and_is_read_on_it() {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        let role = "cli::terminal::screen::tests::a_view_that_panics";
        command
            .args(["--exact", role, "--ignored", "--nocapture", "--test-threads=1"])
            .env(ROLE, "1");
        let mut pty = Pty::spawn(command, 24, 80);
        pty.wait_for("the view", |screen| {
            screen.alternate_screen()
                && screen.hide_cursor()
                && screen.contents().contains("in the")
        });
        assert!(pty.is_raw());
        pty.send("\r");
        pty.send("\n");
        let (status, screen) = pty.finish();
        assert!(!status.success());
        assert!(!screen.alternate_screen() && !screen.hide_cursor());
        assert!(screen.contents().contains("the view broke"), "{}", screen.contents());
        assert!(!screen.contents().contains("in the view"), "{}", screen.contents());
    }
}
