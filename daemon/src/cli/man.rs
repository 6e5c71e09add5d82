//! `backcast man`: pages of the manual, made from the help of the commands.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use clap_mangen::Man;
use serde::Serialize;
use thiserror::Error;

use crate::cli::console::Console;
use crate::cli::exit_status::{CommandError, Exit, Fails, NoJson};

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

/// Error of writing pages.
#[derive(Debug, Error)]
enum ManError {
    #[error(
        "this user may not read {}: {source}; ask its owner for access, or pass another directory \
         with --into",
        path.display()
    )]
    NoAccess { path: PathBuf, source: std::io::Error },
    #[error(
        "no directory {} for the pages; create it, or pass another one with --into",
        path.display()
    )]
    NoDirectory { path: PathBuf },
    #[error("cannot write {}: {source}; pass another directory with --into", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    #[error("cannot make the page of `{name}`: {source}")]
    Page { name: String, source: std::io::Error },
}

impl Fails for ManError {
    fn exit(&self) -> Exit {
        match self {
            Self::NoAccess { .. } | Self::NoDirectory { .. } => Exit::WrongUsage,
            Self::Write { .. } | Self::Page { .. } => Exit::FoundProblems,
        }
    }
}

/// Prints or writes the pages. `program` describes the whole command line.
pub(crate) fn run(
    args: &Args,
    program: clap::Command,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let mut top = program.disable_help_subcommand(true);
    // Fills in what commands inherit from the program.
    top.build();
    let Some(dir) = &args.into else {
        if console.json() {
            return Err(NoJson { command: "man", prints: "a page, without --into" }.into());
        }
        console.text_raw(&page(&top, "backcast")?);
        return Ok(Exit::Done);
    };
    match dir.metadata() {
        Err(source) if source.kind() == ErrorKind::PermissionDenied => {
            return Err(ManError::NoAccess { path: dir.clone(), source }.into());
        }
        Ok(found) if found.is_dir() => {}
        _ => return Err(ManError::NoDirectory { path: dir.clone() }.into()),
    }
    let mut pages = Vec::new();
    collect(&top, "backcast", &mut pages)?;
    for (name, text) in pages {
        let path = dir.join(format!("{name}.1"));
        fs::write(&path, text).map_err(|source| ManError::Write { path: path.clone(), source })?;
        if console.json() {
            console.object(&Written { name, path });
        } else {
            console.text(&path.display().to_string());
        }
    }
    Ok(Exit::Done)
}

/// Adds the pages of a command and of its subcommands that are not hidden.
fn collect(
    command: &clap::Command,
    name: &str,
    pages: &mut Vec<(String, String)>,
) -> Result<(), ManError> {
    pages.push((name.to_owned(), page(command, name)?));
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        collect(below, &format!("{name}-{}", below.get_name()), pages)?;
    }
    Ok(())
}

fn page(command: &clap::Command, name: &str) -> Result<String, ManError> {
    let mut text = Vec::new();
    // The header shows the page's own name, `backcast-stat`. The synopsis shows the command,
    // `backcast stat`.
    let rendered = Man::new(command.clone()).title(name).render(&mut text);
    rendered.map_err(|source| ManError::Page { name: name.to_owned(), source })?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}
