//! The command line: parses arguments and runs a command. Each command owns its errors.

mod args;
mod column_table;
mod completions;
mod console;
mod demo;
mod exit_status;
mod man;
#[cfg(feature = "markets")]
mod markets;
mod python;
mod replay;
mod signals;
mod terminal;
mod watch;

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::PathBuf;

use backcast_core::Base;
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser, Subcommand};
use thiserror::Error;

use self::console::Console;
pub use self::console::Stream;
use self::exit_status::{CommandError, Exit, Fails};
#[cfg(feature = "markets")]
use self::markets::{panel, record, sim};
pub use self::python::{PageSettings, PythonCall, PythonLauncher};
use self::replay::{
    bench, clear, create, doctor, export, gc, import, limiter, load, ls, resize, rm, save, serve,
    stat, top, ui, verify,
};

/// Create, list, inspect, save, serve and remove experience rings in shared memory.
#[derive(Debug, Parser)]
#[command(
    name = "backcast",
    bin_name = "backcast",
    version,
    after_help = "\
Exit status: 0 done, 1 found problems, 2 wrong usage, 3 no such object, or an export that misses
rows, 128 plus the number of a signal that stopped the command.

Objects live in DIR/backcast-UID, where DIR is --dir, else the variable BACKCAST_DIR, else
/dev/shm (on macOS TMPDIR). Snapshots live in --store, else BACKCAST_STORE, else
XDG_DATA_HOME/backcast, else ~/.local/share/backcast. Results go to stdout, messages to stderr."
)]
struct Cli {
    /// Print one JSON object per line instead of a table; messages and errors are objects too.
    #[arg(long, global = true, help_heading = "Options of every command")]
    json: bool,
    /// Directory that holds the objects (default: `BACKCAST_DIR`, else /dev/shm).
    #[arg(long, global = true, value_name = "DIR", help_heading = "Options of every command")]
    dir: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Create(create::Args),
    Ls(ls::Args),
    Stat(stat::Args),
    Top(top::Args),
    Ui(ui::Args),
    Rm(rm::Args),
    Save(save::Args),
    Load(load::Args),
    Verify(verify::Args),
    Export(export::Args),
    Import(import::Args),
    Resize(resize::Args),
    Limiter(limiter::Args),
    Clear(clear::Args),
    Gc(gc::Args),
    #[cfg(feature = "markets")]
    Panel(panel::Args),
    #[cfg(feature = "markets")]
    Record(record::Args),
    #[cfg(feature = "markets")]
    Sim(sim::Args),
    Doctor(doctor::Args),
    Serve(serve::Args),
    Bench(bench::Args),
    Demo(demo::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// Runs the command line `args`, the program's name first, and returns its exit status.
///
/// `backcast demo` and `backcast ui` replace the calling process by a Python interpreter, so that
/// exit status and signals are its own. Python programs call [`run_with`] with their own launcher.
pub fn run(
    args: impl IntoIterator<Item = OsString>,
    out: &mut dyn Stream,
    err: &mut dyn Stream,
) -> u8 {
    // Called here and not in `run_with`, since Python ignores SIGXFSZ itself. If the call fails, a
    // write beyond `ulimit -f` still ends the process.
    let _ = signals::outlive_file_size_limit();
    let itself = std::env::current_exe().map(|program| vec![program.into_os_string()]);
    let args: Vec<OsString> = args.into_iter().collect();
    run_with(
        args.clone(),
        out,
        err,
        Host {
            python: &mut |call, err| python::exec(call, &args, err),
            itself: itself.unwrap_or_default(),
            ends_by_signal: &mut false,
        },
    )
}

/// Parts of the command line that the host program provides.
pub struct Host<'a> {
    /// Starts `backcast demo` and `backcast ui`.
    pub python: PythonLauncher<'a>,
    /// Command that starts this command line in another process, such as `["python", "-m",
    /// "backcast"]`. Empty if unknown.
    pub itself: Vec<OsString>,
    /// Set if a signal is the regular end of the command, as of `serve`. The host must not report
    /// the signal then.
    pub ends_by_signal: &'a mut bool,
}

impl std::fmt::Debug for Host<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("itself", &self.itself).finish_non_exhaustive()
    }
}

/// Runs a command line like [`run`], as a part of another program.
pub fn run_with(
    args: impl IntoIterator<Item = OsString>,
    out: &mut dyn Stream,
    err: &mut dyn Stream,
    host: Host<'_>,
) -> u8 {
    let args: Vec<OsString> = args.into_iter().collect();
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(refusal) => {
            return refuse(refusal, &args, Console::new(out, err, asks_for_json(&args)));
        }
    };
    let mut console = Console::new(out, err, cli.json);
    let status = match answer(cli, &mut console, host) {
        Ok(exit) => exit.status(),
        Err(error) => {
            let status = error.exit().status();
            console.error(&error.to_string(), status);
            status
        }
    };
    console.finish(status)
}

/// Returns whether arguments that cannot be parsed have `--json` before any `--`.
fn asks_for_json(args: &[OsString]) -> bool {
    args.iter().take_while(|arg| *arg != "--").any(|arg| arg == "--json")
}

/// Commands, each with the names that other programs give it, for suggestions.
const ELSEWHERE: [(&str, &[&str]); 11] = [
    ("ls", &["list", "ps", "dir"]),
    ("stat", &["show", "info", "describe", "inspect", "status"]),
    ("rm", &["remove", "delete", "del", "drop"]),
    ("save", &["snapshot", "checkpoint", "backup", "dump"]),
    ("load", &["restore", "recover"]),
    ("top", &["watch", "monitor", "htop"]),
    ("serve", &["daemon", "start", "server", "run"]),
    ("gc", &["clean", "prune", "cleanup", "collect"]),
    ("create", &["new", "make", "init"]),
    ("doctor", &["check", "diagnose"]),
    ("resize", &["grow", "expand"]),
];

/// Suggests the command whose name in another program was typed.
fn suggest(refusal: &mut clap::Error) {
    let typed = match refusal.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(typed)) => typed.clone(),
        _ => return,
    };
    let meant = ELSEWHERE.iter().find(|(_, words)| words.contains(&typed.as_str()));
    if let Some((meant, _)) = meant {
        let meant = ContextValue::Strings(vec![(*meant).to_owned()]);
        refusal.insert(ContextKind::SuggestedSubcommand, meant);
    }
}

/// Removes the advice to pass an unknown option as a value, except for a whole argument with one
/// dash. As a value, `--as` would be the name of a ring, and `-a` of `-as` was never typed.
fn drop_value_tip(refusal: &mut clap::Error, args: &[OsString]) {
    let unknown = match refusal.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(unknown)) => unknown.clone(),
        _ => return,
    };
    let may_be_value = !unknown.starts_with("--") && args.iter().any(|arg| *arg == *unknown);
    if may_be_value {
        return;
    }
    if let Some(ContextValue::StyledStrs(mut tips)) = refusal.remove(ContextKind::Suggested) {
        tips.retain(|tip| !tip.to_string().starts_with("to pass "));
        if !tips.is_empty() {
            refusal.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
    }
}

/// Prints help, the version or a usage error.
fn refuse(mut refusal: clap::Error, args: &[OsString], mut console: Console<'_>) -> u8 {
    suggest(&mut refusal);
    drop_value_tip(&mut refusal, args);
    let exit = if refusal.exit_code() == 0 { Exit::Done } else { Exit::WrongUsage };
    let text = refusal.render();
    if !refusal.use_stderr() {
        let text = if console.colours() { text.ansi().to_string() } else { text.to_string() };
        console.text_raw(&text);
    } else if console.json() {
        let text = text.to_string();
        let why = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
        console.error(why, exit.status());
    } else {
        let text = if console.styled_notes() { text.ansi().to_string() } else { text.to_string() };
        console.note_raw(&text);
    }
    console.finish(exit.status())
}

/// Error of the directory that holds the objects.
#[derive(Debug, Error)]
enum DirectoryError {
    #[error(
        "no directory {}; create it, or pass another one with --dir or BACKCAST_DIR",
        path.display()
    )]
    Missing { path: PathBuf },
    #[error(
        "this user may not read {}: {source}; ask its owner for access, or pass another directory \
         with --dir or BACKCAST_DIR",
        path.display()
    )]
    NoAccess { path: PathBuf, source: std::io::Error },
}

impl Fails for DirectoryError {
    fn exit(&self) -> Exit {
        Exit::WrongUsage
    }
}

fn answer(cli: Cli, console: &mut Console<'_>, host: Host<'_>) -> Result<Exit, CommandError> {
    let Host { python, itself, ends_by_signal } = host;
    *ends_by_signal = matches!(cli.command, Command::Serve(_));
    if let Command::Demo(args) = cli.command {
        return demo::run(&args, cli.dir.as_deref(), console, python);
    }
    // These commands need no directory.
    match &cli.command {
        Command::Completions(args) => return completions::run(args, Cli::command(), console),
        Command::Man(args) => return man::run(args, Cli::command(), console),
        #[cfg(feature = "markets")]
        Command::Sim(args) => return sim::run(args, console),
        _ => {}
    }
    let dir = cli.dir.as_deref();
    let base = dir.map_or_else(Base::standard, Base::at);
    let parent = base.path().parent().unwrap_or(base.path());
    match parent.metadata() {
        Err(source) if source.kind() == ErrorKind::PermissionDenied => {
            return Err(DirectoryError::NoAccess { path: parent.to_owned(), source }.into());
        }
        Ok(found) if found.is_dir() => {}
        _ => return Err(DirectoryError::Missing { path: parent.to_owned() }.into()),
    }
    match &cli.command {
        Command::Create(args) => create::run(args, &base, console),
        Command::Ls(args) => ls::run(args, &base, console),
        Command::Stat(args) => stat::run(args, &base, console),
        Command::Top(args) => top::run(args, &base, console),
        Command::Ui(args) => ui::run(args, dir, console, python),
        Command::Rm(args) => rm::run(args, &base, console),
        Command::Save(args) => save::run(args, &base, console),
        Command::Load(args) => load::run(args, &base, console),
        Command::Verify(args) => verify::run(args, console),
        Command::Export(args) => export::run(args, &base, console),
        Command::Import(args) => import::run(args, &base, console),
        Command::Resize(args) => resize::run(args, &base, console),
        Command::Limiter(args) => limiter::run(args, &base, console),
        Command::Clear(args) => clear::run(args, &base, console),
        Command::Gc(args) => gc::run(args, &base, console),
        #[cfg(feature = "markets")]
        Command::Panel(args) => panel::run(args, &base, console),
        #[cfg(feature = "markets")]
        Command::Record(args) => record::run(args, &base, console),
        Command::Serve(args) => serve::run(args, &base, console),
        Command::Doctor(args) => Ok(doctor::run(args, &base, console)),
        Command::Bench(args) => bench::run(args, &base, console, &itself),
        #[cfg(feature = "markets")]
        Command::Sim(_) => unreachable!("answered above"),
        Command::Demo(_) | Command::Completions(_) | Command::Man(_) => {
            unreachable!("answered above")
        }
    }
}
