//! Keys of the person at the terminal, read by this process itself: every wait has an end, and a
//! terminal that closes is noticed.

use std::fs::File;
use std::io::{self, IsTerminal, Stdin};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read};

use super::app::Action;

/// What a wait for keys ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// The time is over, or a signal came.
    Nothing,
    /// Bytes came: [`Keyboard::action`] says what they ask for.
    Typed,
    /// The terminal is gone, and no key will come any more.
    Closed,
}

/// The terminal as the source of keys.
#[derive(Debug)]
pub(crate) struct Keyboard {
    source: Source,
    /// Bytes that came and were not taken as keys yet.
    typed: Vec<u8>,
    /// The Escape key was pressed, and is not taken yet.
    escape: bool,
}

#[derive(Debug)]
enum Source {
    Standard(Stdin),
    /// The terminal of the session, where stdin is something else.
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

    /// Waits until keys are typed, at most for `patience`. A signal ends the wait.
    pub(crate) fn wait(&mut self, patience: Duration) -> io::Result<Waited> {
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
            Ok(0) | Err(Errno::IO) => Ok(Waited::Closed),
            Ok(count) => {
                self.typed.extend(bytes.iter().take(count));
                Ok(Waited::Typed)
            }
            // Another process of the terminal was quicker.
            Err(Errno::INTR | Errno::AGAIN) => Ok(Waited::Nothing),
            Err(error) => Err(error.into()),
        }
    }

    /// No byte follows: an Escape that stands alone is a key of its own.
    fn quiet(&mut self) -> Waited {
        match self.typed.as_slice() {
            [] => Waited::Nothing,
            [ESCAPE] => {
                self.typed.clear();
                self.escape = true;
                Waited::Typed
            }
            // The rest of a longer sequence will not come any more.
            _ => {
                self.typed.clear();
                Waited::Nothing
            }
        }
    }

    /// Takes the next key that asks for something out of what was typed.
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

/// The length in bytes of the first key, and what it asks for. `None`: no key is whole yet.
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

/// A key that begins with Escape, of which `rest` follows.
fn escaped(rest: &[u8]) -> Option<(usize, Option<Action>)> {
    let (introducer, sequence) = rest.split_first()?;
    if !matches!(introducer, b'[' | b'O') {
        // Nothing that follows belongs to it: somebody pressed the key itself.
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
            // Keys without a meaning: letters, function keys, letters of other alphabets.
            (b"cx\x1b[15~\x1b[1;5A\xc3\xa9q", &[Action::Quit]),
            // Escape itself, before another key and before a sequence.
            (b"\x1bq", &[Action::Back, Action::Quit]),
            (b"\x1b\x1b[A", &[Action::Back, Action::Up]),
            // Not whole yet.
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
        assert_eq!(keyboard.quiet(), Waited::Typed);
        assert_eq!((keyboard.action(), keyboard.action()), (Some(Action::Back), None));
        keyboard.typed = b"\x1b[1;".to_vec();
        assert_eq!((keyboard.quiet(), keyboard.typed.len()), (Waited::Nothing, 0));
    }
}
