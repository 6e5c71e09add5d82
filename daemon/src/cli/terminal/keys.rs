//! Reads keys from the terminal with time-outs, and notices when it closes.

use std::fs::File;
use std::io::{self, IsTerminal, Stdin};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read};

/// Action of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Up,
    Down,
    PageUp,
    PageDown,
    Enter,
    Back,
    NextSort,
    PreviousSort,
    Reverse,
    Help,
    Quit,
}

/// Outcome of a wait for keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyWait {
    /// No key was typed until the time was over or a signal arrived.
    Nothing,
    /// Bytes arrived; [`Keyboard::action`] parses them.
    Typed,
    /// The terminal is closed.
    Closed,
}

/// Reader of keys.
#[derive(Debug)]
pub(crate) struct Keyboard {
    source: Source,
    /// Bytes that are not parsed yet.
    typed: Vec<u8>,
    /// An Escape key is pending.
    escape: bool,
}

#[derive(Debug)]
enum Source {
    Standard(Stdin),
    /// The session's terminal if stdin is not a terminal.
    Controlling(File),
}

impl Keyboard {
    pub(crate) fn open() -> io::Result<Self> {
        let stdin = io::stdin();
        let source = if stdin.is_terminal() {
            Source::Standard(stdin)
        } else {
            Source::Controlling(File::open("/dev/tty")?)
        };
        Ok(Self { source, typed: Vec::new(), escape: false })
    }

    /// Waits for keys, at most `patience`. A signal ends the wait.
    pub(crate) fn wait(&mut self, patience: Duration) -> io::Result<KeyWait> {
        let mut ready = [PollFd::from_borrowed_fd(self.source.as_fd(), PollFlags::IN)];
        let patience = Timespec {
            tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: patience.subsec_nanos().into(),
        };
        match poll(&mut ready, Some(&patience)) {
            Ok(0) | Err(Errno::INTR) => return Ok(self.quiet()),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut bytes = [0; 256];
        match read(self.source.as_fd(), &mut bytes) {
            Ok(0) | Err(Errno::IO) => Ok(KeyWait::Closed),
            Ok(count) => {
                self.typed.extend(bytes.iter().take(count));
                Ok(KeyWait::Typed)
            }
            // A signal arrived, or another process of the terminal read the bytes.
            Err(Errno::INTR | Errno::AGAIN) => Ok(KeyWait::Nothing),
            Err(error) => Err(error.into()),
        }
    }

    /// Handles a pause: no byte follows, so a lone Escape is a key.
    fn quiet(&mut self) -> KeyWait {
        match self.typed.as_slice() {
            [] => KeyWait::Nothing,
            [ESCAPE] => {
                self.typed.clear();
                self.escape = true;
                KeyWait::Typed
            }
            // The rest of a longer sequence will not arrive.
            _ => {
                self.typed.clear();
                KeyWait::Nothing
            }
        }
    }

    /// Removes the typed keys up to the next one with an action, and returns that action.
    pub(crate) fn action(&mut self) -> Option<Action> {
        if std::mem::take(&mut self.escape) {
            return Some(Action::Back);
        }
        while let Some((length, action)) = key(&self.typed) {
            self.typed.drain(..length);
            if action.is_some() {
                return action;
            }
        }
        None
    }
}

impl AsFd for Source {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Standard(stdin) => stdin.as_fd(),
            Self::Controlling(file) => file.as_fd(),
        }
    }
}

const ESCAPE: u8 = 0x1b;
const CTRL_C: u8 = 0x03;
const CTRL_D: u8 = 0x04;
const BACKSPACE: u8 = 0x7f;

/// Returns the number of bytes of the first key and its action, or `None` if it is incomplete.
fn key(typed: &[u8]) -> Option<(usize, Option<Action>)> {
    let (first, rest) = typed.split_first()?;
    let action = match *first {
        ESCAPE => return escaped(rest),
        CTRL_C | CTRL_D | b'q' => Action::Quit,
        b'?' | b'h' => Action::Help,
        b'k' => Action::Up,
        b'j' => Action::Down,
        b'\r' | b'\n' => Action::Enter,
        BACKSPACE | 0x08 => Action::Back,
        b'>' | b's' => Action::NextSort,
        b'<' => Action::PreviousSort,
        b'r' => Action::Reverse,
        _ => return Some((1, None)),
    };
    Some((1, Some(action)))
}

/// Parses a key that begins with Escape, followed by `rest`.
fn escaped(rest: &[u8]) -> Option<(usize, Option<Action>)> {
    let (introducer, sequence) = rest.split_first()?;
    if !matches!(introducer, b'[' | b'O') {
        // No sequence: the Escape key itself.
        return Some((1, Some(Action::Back)));
    }
    let end = sequence.iter().position(|byte| (0x40..=0x7e).contains(byte))?;
    let action = match sequence.get(..=end)? {
        b"A" => Some(Action::Up),
        b"B" => Some(Action::Down),
        b"C" => Some(Action::NextSort),
        b"D" => Some(Action::PreviousSort),
        b"5~" => Some(Action::PageUp),
        b"6~" => Some(Action::PageDown),
        _ => None,
    };
    Some((end + 3, action))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyboard(typed: &[u8]) -> Keyboard {
        let source = Source::Standard(io::stdin());
        Keyboard { source, typed: typed.to_owned(), escape: false }
    }

    fn all(typed: &[u8]) -> Vec<Action> {
        let mut keyboard = keyboard(typed);
        std::iter::from_fn(|| keyboard.action()).collect()
    }

    #[test]
    fn keys_mean_what_the_help_says() {
        for (typed, meant) in [
            (&b"q"[..], &[Action::Quit][..]),
            (b"\x03", &[Action::Quit]),
            (b"?", &[Action::Help]),
            (b"kj", &[Action::Up, Action::Down]),
            (b"\x1b[A\x1bOB", &[Action::Up, Action::Down]),
            (b"\x1b[C\x1b[D", &[Action::NextSort, Action::PreviousSort]),
            (b"\x1b[5~\x1b[6~", &[Action::PageUp, Action::PageDown]),
            (b"\r\n", &[Action::Enter, Action::Enter]),
            (b"\x7f\x08", &[Action::Back, Action::Back]),
            (b"><sr", &[Action::NextSort, Action::PreviousSort, Action::NextSort, Action::Reverse]),
            // Keys without an action.
            (b"cx\x1b[15~\x1b[1;5A\xc3\xa9q", &[Action::Quit]),
            // Escape before another key and before a sequence.
            (b"\x1bq", &[Action::Back, Action::Quit]),
            (b"\x1b\x1b[A", &[Action::Back, Action::Up]),
            // Incomplete sequences.
            (b"\x1b", &[]),
            (b"\x1b[", &[]),
            (b"r\x1b[5", &[Action::Reverse]),
        ] {
            assert_eq!(all(typed), meant, "{typed:?}");
        }
    }

    #[test]
    fn an_escape_that_nothing_follows_is_the_key() {
        let mut keyboard = keyboard(b"\x1b");
        assert_eq!(keyboard.action(), None);
        assert_eq!(keyboard.quiet(), KeyWait::Typed);
        assert_eq!((keyboard.action(), keyboard.action()), (Some(Action::Back), None));
        keyboard.typed = b"\x1b[1;".to_vec();
        assert_eq!((keyboard.quiet(), keyboard.typed.len()), (KeyWait::Nothing, 0));
    }
}
