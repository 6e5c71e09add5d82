//! `backcast panel stat`: what a price file or a shared panel holds, ticker by ticker.

use std::path::{Path, PathBuf};

use backcast_core::{Base, Kind};
use backcast_market::{NanPolicy, PanelData, PanelOptions, PanelSummary};
use clap::Subcommand;
use serde::Serialize;

use crate::catalogue::{self, Content, Entry, State};
use crate::console::{Align, Console};
use crate::error::{CliError, Exit};
use crate::typed::one_of;
use crate::units;

/// Inspect market data: price files and shared panels.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  backcast panel stat prices.parquet
  backcast panel stat prices.csv --macro VIX --columns Date=date,Symbol=tic
  backcast --json panel stat prices | jq '.coverage[] | select(.missing_days > 0)'")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Stat(StatArgs),
}

/// Show what a price file or a shared panel holds: coverage, missing days, range of prices.
///
/// A file is read and checked as `Panel.from_csv` and `Panel.from_parquet` do, by what is in it and
/// not by its extension. Nothing is created.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  backcast panel stat prices.parquet
  backcast panel stat prices.csv --nan mask --columns Date=date,sector=
  backcast panel stat prices         the shared panel of that name")]
pub(crate) struct StatArgs {
    /// A CSV or Parquet file, or the name of a shared panel.
    #[arg(value_name = "FILE|NAME")]
    what: String,
    /// Rename columns of the file while reading; nothing after the = leaves a column out.
    #[arg(long, value_name = "THEIRS=OURS", value_delimiter = ',', value_parser = rename)]
    columns: Vec<(String, String)>,
    /// Tickers that are shown but never traded.
    #[arg(long = "macro", value_name = "TICKER", value_delimiter = ',')]
    macro_tickers: Vec<String>,
    /// Rows that lack a number: refuse the file, or mask them [default: refuse].
    #[arg(long, value_name = "WHAT", value_parser = one_of::<NanPolicy>(&NAN))]
    nan: Option<NanPolicy>,
}

/// What `--nan` takes.
pub(crate) const NAN: [&str; 2] = ["refuse", "mask"];

fn rename(text: &str) -> Result<(String, String), String> {
    let (theirs, ours) =
        text.split_once('=').ok_or("write the file's name, =, and the panel's name")?;
    Ok((theirs.to_owned(), ours.to_owned()))
}

/// JSON of a file or a shared panel; a file has no name, state or persistence.
#[derive(Debug, Serialize)]
struct Report {
    kind: &'static str,
    name: Option<String>,
    path: PathBuf,
    state: Option<State>,
    persistent: Option<bool>,
    #[serde(flatten)]
    summary: PanelSummary,
}

pub(crate) fn run(args: &Args, base: &Base, console: &mut Console<'_>) -> Result<Exit, CliError> {
    let Command::Stat(args) = &args.command;
    let path = Path::new(&args.what);
    let report = if is_file(path) { of_file(path, args)? } else { of_shared(base, args)? };
    if console.json() {
        console.object(&report);
    } else {
        report.print(console);
    }
    Ok(Exit::Done)
}

/// What looks like a path is one, there or not; anything else may still be a file.
fn is_file(path: &Path) -> bool {
    let known = path.extension().is_some_and(|extension| {
        ["csv", "parquet", "parq", "pq"].iter().any(|known| extension.eq_ignore_ascii_case(known))
    });
    known || path.components().count() > 1 || path.is_file()
}

fn of_file(path: &Path, args: &StatArgs) -> Result<Report, CliError> {
    let options = PanelOptions::default()
        .macro_tickers(args.macro_tickers.iter().cloned())
        .columns(args.columns.iter().cloned())
        .nan(args.nan.unwrap_or_default());
    let panel = PanelData::from_file(path, &options)?.try_into_heap()?;
    Ok(Report {
        kind: "panel",
        name: None,
        path: path.to_owned(),
        state: None,
        persistent: None,
        summary: panel.describe(),
    })
}

fn of_shared(base: &Base, args: &StatArgs) -> Result<Report, CliError> {
    let name = &args.what;
    let info = catalogue::find(base, name, Some(Kind::Panel))?;
    if !args.columns.is_empty() || !args.macro_tickers.is_empty() || args.nan.is_some() {
        return Err(CliError::FileOptions { name: name.clone() });
    }
    let Some(Entry { info, state, content, .. }) = Entry::open(base, info) else {
        // Removed between the look-up and the opening: the second look-up says so.
        catalogue::find(base, name, Some(Kind::Panel))?;
        return Err(CliError::Replaced { name: name.clone() });
    };
    match content {
        Content::Panel(panel) => Ok(Report {
            kind: "panel",
            name: Some(info.name),
            path: info.path,
            state: Some(state),
            persistent: Some(info.persistent),
            summary: panel.describe(),
        }),
        Content::Damaged(why) => Err(CliError::Damaged { kind: info.kind, name: info.name, why }),
        Content::Denied(why) => Err(CliError::Denied { kind: info.kind, name: info.name, why }),
        Content::Ring(_) | Content::Unopened => {
            Err(CliError::Orphaned { kind: info.kind, name: info.name })
        }
    }
}

impl Report {
    fn print(&self, console: &mut Console<'_>) {
        let PanelSummary { rows, masked_rows, .. } = self.summary;
        let fact = |name: &str, value: String| vec![name.to_owned(), value];
        let mut facts = Vec::new();
        if let Some(name) = &self.name {
            facts.push(fact("panel", name.clone()));
        }
        facts.push(fact("path", self.path.display().to_string()));
        if let Some(state) = self.state {
            facts.push(fact("state", state.to_string()));
        }
        let dates = match (&self.summary.first_date, &self.summary.last_date) {
            (Some(first), Some(last)) => format!("{first} .. {last}"),
            _ => "-".to_owned(),
        };
        let tradable = self.summary.tickers.len() - self.summary.macro_tickers.len();
        let places = (rows + masked_rows).max(1);
        facts.extend([
            fact("memory", units::bytes(self.summary.data_bytes as u64)),
            fact("days", format!("{}: {dates}", units::exact(self.summary.days as u64))),
            fact(
                "tickers",
                format!("{tradable} tradable, {} macro", self.summary.macro_tickers.len()),
            ),
            fact("columns", self.summary.columns.join(" ")),
            fact(
                "rows",
                format!(
                    "{}, {}% of all days and tickers",
                    units::exact(rows as u64),
                    rows * 100 / places
                ),
            ),
            fact("gaps", self.gaps()),
            fact(
                "prices",
                format!("{} .. {}", price(self.summary.min_price), price(self.summary.max_price)),
            ),
        ]);
        console.facts(&facts);
        console.text("");
        self.print_coverage(console);
    }

    /// Why rows are missing: each ticker of them shows in the table.
    fn gaps(&self) -> String {
        let coverage = &self.summary.coverage;
        let days: usize = coverage.iter().map(|ticker| ticker.missing_days).sum();
        let last = self.summary.days.checked_sub(1);
        let gaps = coverage.iter().filter(|ticker| ticker.missing_days > 0).count();
        let late = coverage.iter().filter(|ticker| ticker.first_day > Some(0)).count();
        let early = coverage.iter().filter(|ticker| ticker.last_day < last).count();
        format!(
            "days missing: {} (in tickers: {gaps}); begin late: {late}; end early: {early}",
            units::exact(days as u64)
        )
    }

    fn print_coverage(&self, console: &mut Console<'_>) {
        let text = |date: &Option<String>| date.clone().unwrap_or_else(|| "-".to_owned());
        console.table(
            &[
                ("TICKER", Align::Left),
                ("FIRST DAY", Align::Left),
                ("LAST DAY", Align::Left),
                ("ROWS", Align::Right),
                ("MISSING", Align::Right),
                ("LOWEST", Align::Right),
                ("HIGHEST", Align::Right),
                ("", Align::Left),
            ],
            &self
                .summary
                .coverage
                .iter()
                .map(|ticker| {
                    vec![
                        ticker.ticker.clone(),
                        text(&ticker.first_date),
                        text(&ticker.last_date),
                        units::exact(ticker.rows as u64),
                        units::exact(ticker.missing_days as u64),
                        price(ticker.min_price),
                        price(ticker.max_price),
                        if ticker.is_macro { "macro".to_owned() } else { String::new() },
                    ]
                })
                .collect::<Vec<_>>(),
        );
    }
}

/// Cents are enough for eyes; the JSON has every digit.
fn price(price: Option<f64>) -> String {
    price.map_or_else(|| "-".to_owned(), |price| format!("{price:.2}"))
}
