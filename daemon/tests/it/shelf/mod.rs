//! A private directory of rings and panels, and the real binary run on it.

pub(crate) mod pty;
mod signals;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use backcast_budget::{BoundedChild, BoundedCommand, Lines};
use backcast_core::{Base, DType, Exist, Ring, RingOptions, Schema};
use backcast_market::{PanelData, PanelOptions};
use serde_json::Value;
use tempfile::TempDir;

/// Prices of two days and two tickers, one of them a macro ticker.
pub(crate) const PRICES: &str = "\
date,tic,open,high,low,close,volume,rsi
2024-01-02,AAPL,10.0,11.0,9.5,10.5,1000,50
2024-01-02,VIX,13.0,13.5,12.5,13.2,0,55
2024-01-03,AAPL,10.5,12.0,10.0,11.5,1200,61
2024-01-03,VIX,13.1,13.6,12.6,13.3,0,54
";

/// Set in a process that [`Holder::spawn`] started: the directory to make its ring in.
const HOLD_IN: &str = "BACKCAST_TEST_HOLD_IN";

/// A directory for one test, removed with everything in it.
pub(crate) struct Shelf {
    dir: TempDir,
}

/// Exit status and output of a run of the binary.
pub(crate) struct Ran {
    pub status: i32,
    pub out: String,
    pub err: String,
}

impl Shelf {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a temporary directory") }
    }

    /// Returns a shelf with rings `pong` and `twin` and panels `prices` and `twin`, all persistent
    /// and idle.
    pub(crate) fn stocked() -> Self {
        let shelf = Self::new();
        for name in ["pong", "twin"] {
            drop(Ring::create(name, &schema(), shelf.options().persistent(true)).expect("a ring"));
        }
        for name in ["prices", "twin"] {
            shelf.panel(name);
        }
        shelf
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the directory of the snapshots.
    pub(crate) fn store(&self) -> PathBuf {
        self.path().join("store")
    }

    pub(crate) fn base(&self) -> Base {
        Base::at(self.path())
    }

    /// Returns the options of a small ring that is not persistent.
    pub(crate) fn options(&self) -> RingOptions {
        RingOptions::with_capacity(1_000u64).lanes(2).base(self.base())
    }

    pub(crate) fn panel(&self, name: &str) {
        let options = PanelOptions::default().macro_tickers(["VIX"]);
        let data = PanelData::from_reader(PRICES.as_bytes(), &options).expect("a good CSV");
        drop(data.share(name, &self.base(), Exist::Error, true).expect("a panel"));
    }

    /// Writes a file beside the objects, and returns its path.
    pub(crate) fn file(&self, name: &str, content: &str) -> String {
        let path = self.path().join(name);
        std::fs::write(&path, content).expect("writable");
        path.to_str().expect("an ordinary path").to_owned()
    }

    /// Returns the directory of an object.
    pub(crate) fn object(&self, directory: &str) -> PathBuf {
        self.base().path().join(directory)
    }

    /// Returns a command that runs the binary with this shelf in its environment and with default
    /// signal actions.
    pub(crate) fn command(&self) -> Command {
        signals::give_children_defaults();
        let mut command = Command::new(env!("CARGO_BIN_EXE_backcast"));
        command.env("BACKCAST_DIR", self.path()).env("BACKCAST_STORE", self.store());
        command.stdin(Stdio::null()).current_dir(self.path());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        self.command().args(args).output_bounded().expect("the binary runs").into()
    }

    /// Returns the results of `--json`, one JSON value per line. Panics if a line is not JSON.
    pub(crate) fn json(&self, args: &[&str]) -> Vec<Value> {
        let ran = self.run(&[&["--json"], args].concat());
        ran.out.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect()
    }

    /// Returns the names that `ls` shows, with their states.
    pub(crate) fn states(&self) -> Vec<(String, String)> {
        let text = |object: &Value, key: &str| object[key].as_str().unwrap_or_default().to_owned();
        self.json(&["ls"]).iter().map(|o| (text(o, "name"), text(o, "state"))).collect()
    }
}

/// A process that is killed if its test ends first.
pub(crate) struct Started(Child);

impl Started {
    /// Starts a command. Its output is read after [`ended`](Self::ended) is called.
    pub(crate) fn spawn(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(command.spawn().expect("it starts"))
    }

    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.0
    }

    /// Waits until the process has ended. Panics if that takes too long.
    pub(crate) fn ended(mut self) -> Ran {
        self.0.output_bounded().expect("it ends").into()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait_bounded();
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            status: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Ran {
    #[track_caller]
    pub(crate) fn expect(self, status: i32) -> Self {
        assert_eq!(self.status, status, "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }
}

/// Returns a command that runs one role of this test binary: a test that is ignored in an ordinary
/// run.
pub(crate) fn role(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this binary"));
    command.args(["--exact", name, "--ignored", "--nocapture"]);
    command
}

/// Returns the argument of a role from the test that started it.
pub(crate) fn set_by_the_parent(variable: &str) -> OsString {
    std::env::var_os(variable).unwrap_or_else(|| panic!("a role, and {variable} is not set"))
}

/// Returns every command that `--help` lists, except `help`.
pub(crate) fn commands(shelf: &Shelf) -> Vec<String> {
    commands_of(shelf, &[])
}

/// Returns every subcommand of a command, except `help`.
pub(crate) fn commands_of(shelf: &Shelf, above: &[&str]) -> Vec<String> {
    let help = shelf.run(&[above, &["--help"]].concat()).expect(0).out;
    let listed = help.split("Commands:\n").nth(1).unwrap_or_default().split("\n\n").next();
    let names =
        listed.unwrap_or_default().lines().filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// Returns the schema of the rings of the tests.
pub(crate) fn schema() -> Schema {
    Schema::builder()
        .column("obs", DType::F32, &[2, 3])
        .column("action", DType::I32, &[])
        .build()
        .expect("a good schema")
}

/// Another process that holds a ring called `held`, not persistent, until it is killed.
pub(crate) struct Holder {
    child: Child,
    _lines: Lines,
}

impl Holder {
    /// Runs this test binary in the role [`Holder::role`]. Returns once the ring exists.
    pub(crate) fn spawn(shelf: &Shelf) -> Self {
        let mut child = role("a_process_that_holds_a_ring")
            .env(HOLD_IN, shelf.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this binary runs");
        let mut lines = Lines::of(child.stdout.take().expect("piped"));
        lines.wait_for("holding");
        Self { child, _lines: lines }
    }

    /// Runs the role: holds the ring until the parent kills the process or ends.
    pub(crate) fn role() {
        let dir = set_by_the_parent(HOLD_IN);
        let options = RingOptions::with_capacity(1_000u64).base(Base::at(PathBuf::from(dir)));
        let _ring = Ring::create("held", &schema(), options).expect("a ring");
        println!("holding");
        // Waits until the parent kills this process, or ends and closes the pipe.
        let _ = std::io::stdin().lines().next();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills the process with SIGKILL, so that it cleans up nothing.
    pub(crate) fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait_bounded();
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.end();
    }
}
