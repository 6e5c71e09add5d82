//! `backcast completions`: what a shell needs to complete commands and options.

use clap::ValueEnum;
use clap_complete::Shell;

use crate::cli;
use crate::console::Console;
use crate::error::{CliError, Exit};

/// Print the script that lets a shell complete commands and options.
///
/// It goes where the shell looks for such scripts, and has to be made again after an update.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  backcast completions bash > ~/.local/share/bash-completion/completions/backcast
  backcast completions zsh > ~/.zfunc/_backcast      with fpath+=~/.zfunc before compinit
  backcast completions fish > ~/.config/fish/completions/backcast.fish")]
pub(crate) struct Args {
    /// The shell to complete in.
    shell: ShellArg,
}

/// A shell whose script is tested.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ShellArg {
    Bash,
    Zsh,
    Fish,
}

pub(crate) fn run(args: &Args, console: &mut Console<'_>) -> Result<Exit, CliError> {
    if console.json() {
        return Err(CliError::NoJson { command: "completions", prints: "a script for a shell" });
    }
    let shell = match args.shell {
        ShellArg::Bash => Shell::Bash,
        ShellArg::Zsh => Shell::Zsh,
        ShellArg::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut cli::command(), "backcast", &mut script);
    console.text_raw(&String::from_utf8_lossy(&script));
    Ok(Exit::Done)
}
