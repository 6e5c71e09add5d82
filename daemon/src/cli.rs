//! What can be typed, and which command answers it.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::PathBuf;

use backcast_core::{Base, Kind};
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser, Subcommand, ValueEnum};

use crate::console::{Console, Stream};
use crate::demo::{self, DemoLauncher};
use crate::error::{CliError, Exit};
use crate::{
    bench, completions, create, doctor, export, gc, import, load, ls, man, panel, resize, rm, save,
    serve, signals, sim, stat, top, verify,
};

/// Create, list, inspect, save and remove experience rings in shared memory, and look after them.
#[derive(Debug, Parser)]
#[command(
    name = "backcast",
    bin_name = "backcast",
    version,
    after_help = "\
Exit status: 0 done, 1 found problems, 2 wrong usage, 3 no such object, or an export that misses rows.

Objects live in DIR/backcast-UID, where DIR is --dir, else the variable BACKCAST_DIR, else
/dev/shm (on macOS TMPDIR). Snapshots live in --store, else BACKCAST_STORE, else
XDG_DATA_HOME/backcast, else ~/.local/share/backcast. Results go to stdout, messages to stderr."
)]
pub(crate) struct Cli {
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
    Rm(rm::Args),
    Save(save::Args),
    Load(load::Args),
    Verify(verify::Args),
    Export(export::Args),
    Import(import::Args),
    Resize(resize::Args),
    Gc(gc::Args),
    Panel(panel::Args),
    Sim(sim::Args),
    Doctor(doctor::Args),
    Serve(serve::Args),
    Bench(bench::Args),
    Demo(demo::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// `--kind`: which of two namespaces a name is looked up in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KindArg {
    /// A ring of transitions.
    Ring,
    /// A market panel.
    Panel,
}

impl From<KindArg> for Kind {
    fn from(kind: KindArg) -> Self {
        match kind {
            KindArg::Ring => Self::Ring,
            KindArg::Panel => Self::Panel,
        }
    }
}

/// All that can be typed, for completions and the manual.
pub(crate) fn command() -> clap::Command {
    Cli::command()
}

/// Run the command line `args` (the program's name first) and return its exit status.
///
/// `backcast demo` replaces the calling process by a Python interpreter, so that exit status and
/// signals are the demo's own; callers that already are one tell [`run_with`] how to do it.
pub fn run(
    args: impl IntoIterator<Item = OsString>,
    out: &mut dyn Stream,
    err: &mut dyn Stream,
) -> u8 {
    // Python has done so already where it is the host. Without it, all else works.
    let _ = signals::outlive_file_size_limit();
    let itself = std::env::current_exe().map(|program| vec![program.into_os_string()]);
    run_with(
        args,
        out,
        err,
        Host {
            demo: &mut demo::exec_python,
            itself: itself.unwrap_or_default(),
            ends_by_signal: &mut false,
        },
    )
}

/// What the command line leaves to the program that it is a part of.
pub struct Host<'a> {
    /// How `backcast demo` is started.
    pub demo: DemoLauncher<'a>,
    /// The words that start this command line in another process, without arguments of its own:
    /// `["python", "-m", "backcast"]`. Empty: nobody knows.
    pub itself: Vec<OsString>,
    /// Set when the command takes a signal for the order to end, as `serve` does: it then ended as it was
    /// told to, and its status is all that there is to say about the signal.
    pub ends_by_signal: &'a mut bool,
}

impl std::fmt::Debug for Host<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("itself", &self.itself).finish_non_exhaustive()
    }
}

/// [`run`] as a part of another program.
pub fn run_with(
    args: impl IntoIterator<Item = OsString>,
    out: &mut dyn Stream,
    err: &mut dyn Stream,
    host: Host<'_>,
) -> u8 {
    let args: Vec<OsString> = args.into_iter().collect();
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(refusal) => return refuse(refusal, Console::new(out, err, asks_for_json(&args))),
    };
    let mut console = Console::new(out, err, cli.json);
    let status = answer(cli, &mut console, host).unwrap_or_else(|error| {
        let status = error.exit().status();
        console.error(&error.to_string(), status);
        status
    });
    console.finish(status)
}

/// Whether `--json` is among arguments that cannot be parsed.
fn asks_for_json(args: &[OsString]) -> bool {
    args.iter().take_while(|arg| *arg != "--").any(|arg| arg == "--json")
}

/// What other programs call these commands, and spelling alone would not find.
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

/// Names the command that is meant, where the one that was typed is another program's word for it.
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

/// Prints help, a version, or what is wrong with the arguments.
fn refuse(mut refusal: clap::Error, mut console: Console<'_>) -> u8 {
    suggest(&mut refusal);
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

fn answer(cli: Cli, console: &mut Console<'_>, host: Host<'_>) -> Result<u8, CliError> {
    let Host { demo, itself, ends_by_signal } = host;
    *ends_by_signal = matches!(cli.command, Command::Serve(_));
    if let Command::Demo(args) = cli.command {
        return demo::run(&args, cli.dir.as_deref(), console, demo);
    }
    // About the program itself: there need be no directory.
    match &cli.command {
        Command::Completions(args) => return Ok(completions::run(args, console)?.status()),
        Command::Man(args) => return Ok(man::run(args, console)?.status()),
        Command::Sim(args) => return Ok(sim::run(args, console)?.status()),
        _ => {}
    }
    let base = cli.dir.map_or_else(Base::standard, Base::at);
    let parent = base.path().parent().unwrap_or(base.path());
    match parent.metadata() {
        Err(source) if source.kind() == ErrorKind::PermissionDenied => {
            let (path, option) = (parent.to_owned(), "--dir or BACKCAST_DIR");
            return Err(CliError::NoAccess { path, source, option });
        }
        Ok(found) if found.is_dir() => {}
        _ => return Err(CliError::NoDirectory { path: parent.to_owned() }),
    }
    let exit = match &cli.command {
        Command::Create(args) => create::run(args, &base, console),
        Command::Ls(args) => ls::run(args, &base, console),
        Command::Stat(args) => stat::run(args, &base, console),
        Command::Top(args) => return top::run(args, &base, console),
        Command::Rm(args) => rm::run(args, &base, console),
        Command::Save(args) => save::run(args, &base, console),
        Command::Load(args) => load::run(args, &base, console),
        Command::Verify(args) => verify::run(args, console),
        Command::Export(args) => export::run(args, &base, console),
        Command::Import(args) => import::run(args, &base, console),
        Command::Resize(args) => resize::run(args, &base, console),
        Command::Gc(args) => gc::run(args, &base, console),
        Command::Panel(args) => panel::run(args, &base, console),
        Command::Serve(args) => serve::run(args, &base, console),
        Command::Doctor(args) => Ok(doctor::run(args, &base, console)),
        Command::Bench(args) => return bench::run(args, &base, console, &itself),
        Command::Demo(_) | Command::Completions(_) | Command::Man(_) | Command::Sim(_) => {
            unreachable!("answered above")
        }
    }?;
    Ok(exit.status())
}
