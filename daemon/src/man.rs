//! `backcast man`: the pages of the manual, made from what `--help` says.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use clap_mangen::Man;
use serde::Serialize;

use crate::cli;
use crate::console::Console;
use crate::error::{CliError, Exit};

/// Print the manual page, or write one for each command.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  backcast man | man -l -
  backcast man --into ~/.local/share/man/man1      then `man backcast-stat`")]
pub(crate) struct Args {
    /// Write the page of every command into this directory, which must exist.
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
}

/// JSON of a page that was written.
#[derive(Debug, Serialize)]
struct Written {
    name: String,
    path: PathBuf,
}

pub(crate) fn run(args: &Args, console: &mut Console<'_>) -> Result<Exit, CliError> {
    let mut top = cli::command().disable_help_subcommand(true);
    // Fills in what the pages of commands inherit from the whole.
    top.build();
    let Some(dir) = &args.into else {
        if console.json() {
            return Err(CliError::NoJson { command: "man", prints: "a page, without --into" });
        }
        console.text_raw(&page(&top, "backcast")?);
        return Ok(Exit::Done);
    };
    match dir.metadata() {
        Err(source) if source.kind() == ErrorKind::PermissionDenied => {
            return Err(CliError::NoAccess { path: dir.clone(), source, option: "--into" });
        }
        Ok(found) if found.is_dir() => {}
        _ => return Err(CliError::NoPlaceForPages { path: dir.clone() }),
    }
    let mut pages = Vec::new();
    collect(&top, "backcast", &mut pages)?;
    for (name, text) in pages {
        let path = dir.join(format!("{name}.1"));
        fs::write(&path, text)
            .map_err(|source| CliError::WritePage { path: path.clone(), source })?;
        if console.json() {
            console.object(&Written { name, path });
        } else {
            console.text(&path.display().to_string());
        }
    }
    Ok(Exit::Done)
}

/// The page of a command and of all below it.
fn collect(
    command: &clap::Command,
    name: &str,
    pages: &mut Vec<(String, String)>,
) -> Result<(), CliError> {
    pages.push((name.to_owned(), page(command, name)?));
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        collect(below, &format!("{name}-{}", below.get_name()), pages)?;
    }
    Ok(())
}

fn page(command: &clap::Command, name: &str) -> Result<String, CliError> {
    let mut text = Vec::new();
    // The title is what `man` finds it by; the synopsis keeps the blanks of what is typed.
    Man::new(command.clone()).title(name).render(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}
