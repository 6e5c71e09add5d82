//! The terminal while a view has it: taken as a whole, and given back however the view ends.

use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind, set_hook, take_hook};
use std::sync::{Arc, Mutex, PoisonError};

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::layout::Rect;
use ratatui::{Frame, Terminal, TerminalOptions, Viewport};

use crate::console::Stream;

/// A terminal in raw mode, on its other screen, without a cursor; dropping it undoes all three.
pub(crate) struct Screen<'a> {
    terminal: Terminal<CrosstermBackend<Restoring<'a>>>,
    size: (u16, u16),
}

/// The stream, and the duty to leave the terminal as it was.
struct Restoring<'a>(&'a mut dyn Stream);

impl Write for Restoring<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Drop for Restoring<'_> {
    fn drop(&mut self) {
        // Nobody is left to tell when the terminal itself is gone.
        let _ = execute!(&mut self.0, LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}

impl<'a> Screen<'a> {
    pub(crate) fn enter(out: &'a mut dyn Stream) -> io::Result<Self> {
        let size = size();
        enable_raw_mode()?;
        // From here on the terminal is given back whatever fails.
        let mut out = Restoring(out);
        execute!(out, EnterAlternateScreen, Clear(ClearType::All), Hide)?;
        let viewport = Viewport::Fixed(area(size));
        let options = TerminalOptions { viewport };
        let terminal = Terminal::with_options(CrosstermBackend::new(out), options)?;
        // Not `terminal.clear()`: it asks where the cursor is, and some terminals do not answer.
        Ok(Self { terminal, size })
    }

    /// The terminal was resized, and may be as large as before: what it shows is no longer known.
    pub(crate) fn forget(&mut self) {
        self.size = (0, 0);
    }

    /// Draws at the size that the terminal has now.
    pub(crate) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        let size = size();
        if size != self.size {
            self.size = size;
            self.terminal.resize(area(size))?;
        }
        self.terminal.draw(draw).map(drop)
    }
}

/// Columns and rows; what the standard terminal of old had, where nobody says.
fn size() -> (u16, u16) {
    let told = rustix::termios::tcgetwinsize(io::stdout()).ok();
    let told = told.map(|size| (size.ws_col, size.ws_row));
    told.filter(|(columns, rows)| *columns > 0 && *rows > 0).unwrap_or((80, 24))
}

fn area((columns, rows): (u16, u16)) -> Rect {
    Rect::new(0, 0, columns, rows)
}

/// Runs `body`, which has the terminal. What a panic says is kept until the terminal is given back,
/// and said then: on the other screen nobody would read it.
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

    /// The other process of the test below; does nothing in an ordinary run.
    #[test]
    fn a_view_that_panics() {
        if std::env::var_os(ROLE).is_none() {
            return;
        }
        guarded(|| {
            let mut out = io::stdout();
            let mut screen = Screen::enter(&mut out).expect("a terminal");
            screen.draw(|frame| frame.render_widget("in the view", frame.area())).unwrap();
            assert!(io::stdin().lines().next().is_none(), "the view broke");
        });
    }

    #[test]
    fn a_panic_gives_the_terminal_back_and_is_read_on_it() {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        let role = "top::screen::tests::a_view_that_panics";
        command.args(["--exact", role, "--nocapture", "--test-threads=1"]).env(ROLE, "1");
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
