//! A program in a pseudo-terminal, and the screen that a person would see.
#![allow(dead_code, reason = "the unit tests use a part")]

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZero;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use backcast_budget::{BoundedChild, until};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::ioctl_fionread;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

/// Time after which a wait of a test counts as hung.
const WATCHDOG: Duration = Duration::from_secs(60);

/// Both ends of a pseudo-terminal: the program has one, the test reads the other.
pub(crate) struct Pty {
    master: File,
    slave: File,
    child: Child,
    parser: vt100::Parser,
}

impl Pty {
    pub(crate) fn spawn(mut command: Command, rows: u16, columns: u16) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
        // A child of another test that had this end too would keep the terminal open.
        #[cfg(target_os = "linux")]
        let flags = flags | OpenptFlags::CLOEXEC;
        let master = openpt(flags).expect("a pseudo-terminal");
        grantpt(&master).and_then(|()| unlockpt(&master)).expect("ours");
        let name = ptsname(&master, Vec::new()).expect("it has a name");
        // The test keeps its own controlling terminal.
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let slave: File = open(name, flags, Mode::empty()).expect("the other end").into();
        let end = || Stdio::from(slave.try_clone().expect("a descriptor"));
        tcsetwinsize(&slave, size(rows, columns)).expect("a size");
        let spawned =
            command.env("TERM", "xterm-256color").stdin(end()).stdout(end()).stderr(end()).spawn();
        let child = spawned.expect("the program runs");
        let parser = vt100::Parser::new(some(rows), some(columns), 0);
        Self { master: File::from(master), slave, child, parser }
    }

    /// Reads until `seen` accepts the screen. Panics after the watchdog's time.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, what: &str, seen: impl Fn(&vt100::Screen) -> bool) {
        let began = Instant::now();
        while !seen(self.parser.screen()) {
            self.read();
            let gone = self.child.try_wait().expect("a child of ours");
            if gone.is_some() {
                while self.read() {}
                assert!(seen(self.parser.screen()), "{what}: ended {gone:?}\n{}", self.text());
                return;
            }
            assert!(began.elapsed() < WATCHDOG, "{what} never came:\n{}", self.text());
        }
    }

    /// Reads output if there is some within 50 ms.
    fn read(&mut self) -> bool {
        let wait = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        let mut ready = [PollFd::new(&self.master, PollFlags::IN)];
        if poll(&mut ready, Some(&wait)).unwrap_or(0) == 0 {
            return false;
        }
        let mut bytes = [0; 4096];
        let count = self.master.read(&mut bytes).unwrap_or(0);
        self.parser.process(&bytes[..count]);
        count > 0
    }

    pub(crate) fn text(&self) -> String {
        self.parser.screen().contents()
    }

    /// Sends keys as a keyboard does.
    pub(crate) fn send(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).expect("the terminal takes keys");
    }

    pub(crate) fn resize(&mut self, rows: u16, columns: u16) {
        tcsetwinsize(&self.slave, size(rows, columns)).expect("a size");
        self.parser.screen_mut().set_size(some(rows), some(columns));
        // Clears the test's screen, so that what was drawn for the old size does not end a wait.
        self.parser.process(b"\x1b[2J");
        self.signal(Signal::WINCH);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, signal).expect("a child of ours");
    }

    /// Returns whether the terminal is in raw mode: no line editing, no echo.
    pub(crate) fn is_raw(&self) -> bool {
        let modes = tcgetattr(&self.slave).expect("a terminal").local_modes;
        !modes.intersects(LocalModes::ICANON | LocalModes::ECHO)
    }

    /// Closes the terminal, as a window or a connection that closes does, and waits for the end.
    pub(crate) fn close(mut self) -> ExitStatus {
        let nothing = || File::open("/dev/null").expect("every machine has it");
        (self.master, self.slave) = (nothing(), nothing());
        self.end_unread()
    }

    /// Makes the program redraw until the terminal accepts no more output, since the test does not
    /// read it. The program then waits in a write.
    pub(crate) fn fill_up(&mut self) {
        while self.has_room() {
            self.signal(Signal::WINCH);
            // The program reads its keys before it draws. A signal sooner than that could interrupt
            // each of its writes.
            self.send("x");
            until("a key is read", || self.unread_keys() == 0 || !self.has_room());
        }
    }

    fn has_room(&self) -> bool {
        let mut ready = [PollFd::new(&self.slave, PollFlags::OUT)];
        poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).expect("a terminal") > 0
    }

    fn unread_keys(&self) -> u64 {
        ioctl_fionread(&self.slave).expect("a terminal")
    }

    /// Waits for the end without reading the terminal.
    pub(crate) fn end_unread(mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child of ours") {
                return status;
            }
            assert!(began.elapsed() < WATCHDOG, "it never ended");
            std::thread::yield_now();
        }
    }

    /// Waits for the end. Panics if the terminal is not as the program found it.
    #[track_caller]
    pub(crate) fn finish(mut self) -> (ExitStatus, vt100::Screen) {
        let began = Instant::now();
        let status = loop {
            self.read();
            if let Some(status) = self.child.try_wait().expect("a child of ours") {
                break status;
            }
            assert!(began.elapsed() < WATCHDOG, "it never ended:\n{}", self.text());
        };
        while self.read() {}
        assert!(!self.is_raw(), "the terminal is still raw:\n{}", self.text());
        (status, self.parser.screen().clone())
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait_bounded();
    }
}

fn some(count: u16) -> NonZero<u16> {
    NonZero::new(count).expect("a terminal has rows and columns")
}

fn size(rows: u16, columns: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}
