//! `backcast completions`: prints scripts that complete commands and options in shells.

use clap::ValueEnum;
use clap_complete::Shell;

use crate::cli::console::Console;
use crate::cli::exit_status::{CommandError, Exit, NoJson};

/// Print the script that lets a shell complete commands and options.
///
/// Store it where the shell looks for such scripts, and print it again after an update.
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

/// Shells whose script is tested.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ShellArg {
    Bash,
    Zsh,
    Fish,
}

/// Prints the script. `program` describes the whole command line.
pub(crate) fn run(
    args: &Args,
    mut program: clap::Command,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    if console.json() {
        return Err(NoJson { command: "completions", prints: "a script for a shell" }.into());
    }
    let shell = match args.shell {
        ShellArg::Bash => Shell::Bash,
        ShellArg::Zsh => Shell::Zsh,
        ShellArg::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut program, "backcast", &mut script);
    console.text_raw(&String::from_utf8_lossy(&script));
    Ok(Exit::Done)
}
