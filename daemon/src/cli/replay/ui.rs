//! `backcast ui`: serves the page of the Python package.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use thiserror::Error;

use super::top::interval;
use crate::cli::console::Console;
use crate::cli::exit_status::{CommandError, Exit, Fails};
use crate::cli::python::{PageSettings, PythonCall, PythonLauncher};

/// Variable with the secret of requests.
const TOKEN: &str = "BACKCAST_UI_TOKEN";
const LEAST_TOKEN: usize = 16;

/// Show rings, parameters and fleets on a page in the browser.
///
/// Comes with the Python package: `pip install "backcast[ui]"`. Runs in the interpreter named by
/// `BACKCAST_PYTHON`, else of the active virtual environment, else `python3`. Rings are only read,
/// and while no page is open nothing is. Ctrl-C ends it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  backcast ui
  backcast ui --listen 127.0.0.1:0 --interval 0.5
  backcast ui --allow-host rings.example.org")]
pub(crate) struct Args {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9465",
          value_parser = address)]
    listen: SocketAddr,
    /// Secret of requests (default: `BACKCAST_UI_TOKEN`, else a random one).
    #[arg(long, value_parser = token)]
    token: Option<String>,
    /// Let every user of this machine read the page.
    #[arg(long, conflicts_with_all = ["token", "allow_host"])]
    no_token: bool,
    /// Name by which a proxy on this machine reaches the page.
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// Seconds between two readings, 0.05 to 3600.
    #[arg(long, value_name = "SECONDS", default_value = "1", allow_negative_numbers = true,
          value_parser = interval)]
    interval: Duration,
    /// Shards of `backcast.ray` to show as well.
    #[arg(long, value_name = "NAME")]
    shards: Vec<String>,
}

/// Error of arguments that do not go together.
#[derive(Debug, Error)]
enum PageError {
    #[error(
        "--no-token with --listen {listen} lets everyone read the page; leave it out, or listen \
         on 127.0.0.1:9465"
    )]
    Open { listen: SocketAddr },
    #[error("the variable {TOKEN} is wrong: {why}")]
    Token { why: String },
    #[error("`backcast ui` serves a page, and prints where; leave --json out")]
    Json,
}

impl Fails for PageError {
    fn exit(&self) -> Exit {
        Exit::WrongUsage
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let text = text.replacen("localhost:", "127.0.0.1:", 1);
    text.parse().map_err(|_| {
        "give ADDRESS:PORT with an IP address and a port from 0 to 65535, such as 127.0.0.1:9465, \
         [::1]:9465 or 0.0.0.0:9465"
            .to_owned()
    })
}

fn token(text: &str) -> Result<String, String> {
    if !text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
        return Err("it has other characters than printable ASCII; give letters and digits, or \
                    leave it out and one is made"
            .to_owned());
    }
    match text.len() {
        LEAST_TOKEN.. => Ok(text.to_owned()),
        length => Err(format!(
            "it has {length} characters; give at least {LEAST_TOKEN}, or leave it out and one is \
             made"
        )),
    }
}

pub(crate) fn run(
    args: &Args,
    dir: Option<&Path>,
    console: &mut Console<'_>,
    launcher: PythonLauncher<'_>,
) -> Result<Exit, CommandError> {
    let listen = args.listen;
    if args.no_token && !listen.ip().is_loopback() {
        return Err(PageError::Open { listen }.into());
    }
    let set = std::env::var_os(TOKEN).filter(|set| !set.is_empty() && !args.no_token);
    let set = set.map(|set| token(&set.to_string_lossy()));
    let set = set.transpose().map_err(|why| PageError::Token { why })?;
    if console.json() {
        return Err(PageError::Json.into());
    }
    let settings = PageSettings {
        listen,
        token: args.token.clone().or(set),
        needs_token: !args.no_token,
        hosts: args.allow_host.iter().map(|host| host.to_lowercase()).collect(),
        interval: args.interval,
        shards: args.shards.clone(),
        dir: dir.map(Path::to_owned),
    };
    Ok(Exit::Status(launcher(PythonCall::Page(&settings), console.messages()?)))
}
