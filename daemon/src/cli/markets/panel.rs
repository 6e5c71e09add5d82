//! `backcast panel stat`: describes a price file or a shared panel.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use backcast_core::{Base, ObjectKind};
use backcast_market::{
    Calendar, DerivedColumn, EpochUnit, LoadWarning, NanPolicy, Panel, PanelData, PanelError,
    PanelLoadError, PanelOptions, PanelSummary,
};
use clap::Subcommand;
use serde::Serialize;
use thiserror::Error;

use crate::cli::console::{Align, Console};
use crate::cli::exit_status::{CommandError, Exit, Fails};
use crate::cli::replay::open_error::OpenError;
use crate::cli::replay::ring_errors::exit_of;
use crate::objects::catalogue::{Content, Entry, ObjectState};
use crate::objects::find::{FindError, find};
use crate::text::parse::one_of;
use crate::text::units;

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

/// Describe a price file or a shared panel: coverage, missing days, range of prices.
///
/// A file is read and checked as by `Panel.from_csv` and `Panel.from_parquet`. It is Parquet if its
/// first bytes or its extension say so, and CSV otherwise. What loading warns of goes to stderr.
/// Nothing is created.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  backcast panel stat prices.parquet
  backcast panel stat prices.csv --nan mask --columns Date=date,sector=
  backcast panel stat bars.csv --columns open_time=timestamp --unit ms --ticker BTC
  backcast panel stat prices         the shared panel of that name")]
pub(crate) struct StatArgs {
    /// A CSV or Parquet file, or the name of a shared panel.
    #[arg(value_name = "FILE|NAME")]
    what: String,
    /// Rename columns of the file; nothing after the = leaves a column out.
    #[arg(long, value_name = "THEIRS=OURS", value_delimiter = ',', value_parser = rename)]
    columns: Vec<(String, String)>,
    /// Tickers that are shown but never traded.
    #[arg(long = "macro", value_name = "TICKER", value_delimiter = ',')]
    macro_tickers: Vec<String>,
    /// Ticker of all rows of a file without a column `tic`.
    #[arg(long, value_name = "TICKER")]
    ticker: Option<String>,
    /// Columns that the file lacks and that are computed.
    #[arg(
        long,
        value_name = "COLUMN",
        value_delimiter = ',',
        value_parser = one_of::<DerivedColumn>(&DERIVED)
    )]
    derive: Vec<DerivedColumn>,
    /// Time zone of instants that are written without one.
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    /// Unit of instants or days that are whole numbers since 1970.
    #[arg(long, value_name = "UNIT", value_parser = one_of::<EpochUnit>(&UNITS))]
    unit: Option<EpochUnit>,
    /// Rows that lack a number: refuse the file, or mask them [default: refuse].
    #[arg(long, value_name = "WHAT", value_parser = one_of::<NanPolicy>(&NAN))]
    nan: Option<NanPolicy>,
}

impl StatArgs {
    /// Returns whether there are options that say how to read a file.
    fn are_of_files(&self) -> bool {
        let lists = [
            self.columns.is_empty(),
            self.macro_tickers.is_empty(),
            self.derive.is_empty(),
            self.nan.is_none(),
            self.ticker.is_none(),
            self.zone.is_none(),
            self.unit.is_none(),
        ];
        lists.contains(&false)
    }
}

/// Words of `--nan`.
const NAN: [&str; 2] = ["refuse", "mask"];
/// Words of `--derive`.
const DERIVED: [&str; 4] = ["open", "high", "low", "volume"];
/// Words of `--unit`.
const UNITS: [&str; 4] = ["s", "ms", "us", "ns"];

fn rename(text: &str) -> Result<(String, String), String> {
    let (theirs, ours) =
        text.split_once('=').ok_or("write the file's name, =, and the panel's name")?;
    Ok((theirs.to_owned(), ours.to_owned()))
}

/// Error of options for files that were given with a shared panel.
#[derive(Debug, Error)]
#[error(
    "--columns, --macro, --nan, --ticker, --derive, --zone and --unit say how to read a file, and \
     `{name}` is a shared panel; leave them out, or give the file's path"
)]
struct FileOptions {
    name: String,
}

impl Fails for FileOptions {
    fn exit(&self) -> Exit {
        Exit::WrongUsage
    }
}

impl Fails for PanelError {
    fn exit(&self) -> Exit {
        match self {
            Self::Segment(error) => exit_of(error),
            Self::Read { source, .. } if source.kind() == ErrorKind::NotFound => Exit::NoSuchObject,
            Self::Load { problem, .. } => match **problem {
                PanelLoadError::UnknownRename { .. }
                | PanelLoadError::UnknownMacroTicker { .. }
                | PanelLoadError::UnusedOption { .. } => Exit::WrongUsage,
                _ => Exit::FoundProblems,
            },
            _ => Exit::FoundProblems,
        }
    }
}

/// JSON of a file or a shared panel. A file has no name, state or persistence.
#[derive(Debug, Serialize)]
struct Report {
    kind: &'static str,
    name: Option<String>,
    path: PathBuf,
    state: Option<ObjectState>,
    persistent: Option<bool>,
    #[serde(flatten)]
    summary: PanelSummary,
}

pub(crate) fn run(
    args: &Args,
    base: &Base,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let Command::Stat(args) = &args.command;
    let path = Path::new(&args.what);
    let report = if is_file(path) {
        let (report, warnings) = of_file(path, args)?;
        for warning in warnings {
            console.note(&format!("warning: {warning}"));
        }
        report
    } else {
        of_shared(base, args)?
    };
    if console.json() {
        console.object(&report);
    } else {
        report.print(console);
    }
    Ok(Exit::Done)
}

/// Returns whether the argument means a file: it has the extension of a price file or a directory
/// part, or names an existing file.
fn is_file(path: &Path) -> bool {
    let known = path.extension().is_some_and(|extension| {
        ["csv", "parquet", "parq", "pq"].iter().any(|known| extension.eq_ignore_ascii_case(known))
    });
    known || path.components().count() > 1 || path.is_file()
}

/// Describes a file. Returns what loading warns of, too.
fn of_file(path: &Path, args: &StatArgs) -> Result<(Report, Vec<LoadWarning>), CommandError> {
    let mut options = PanelOptions::default()
        .macro_tickers(args.macro_tickers.iter().cloned())
        .columns(args.columns.iter().cloned())
        .nan(args.nan.unwrap_or_default())
        .derive(args.derive.iter().copied());
    if let Some(ticker) = &args.ticker {
        options = options.ticker(ticker);
    }
    if let Some(zone) = &args.zone {
        options = options.zone(zone);
    }
    if let Some(unit) = args.unit {
        options = options.unit(unit);
    }
    let data = PanelData::from_file(path, &options)?;
    let warnings = data.warnings();
    let panel = data.try_into_heap()?;
    let report = Report {
        kind: "panel",
        name: None,
        path: path.to_owned(),
        state: None,
        persistent: None,
        summary: panel.describe(),
    };
    Ok((report, warnings))
}

fn of_shared(base: &Base, args: &StatArgs) -> Result<Report, CommandError> {
    let name = &args.what;
    let info = find(base, name, Some(ObjectKind::Panel))?;
    if args.are_of_files() {
        return Err(FileOptions { name: name.clone() }.into());
    }
    let Some(Entry { info, state, content, .. }) = Entry::open(base, info) else {
        // The panel was removed between look-up and opening. The second look-up reports that,
        // unless the name is taken again.
        find(base, name, Some(ObjectKind::Panel))?;
        return Err(OpenError::Replaced { name: name.clone() }.into());
    };
    match content {
        Content::Panel(_) => Ok(Report {
            kind: "panel",
            name: Some(info.name),
            path: info.path,
            state: Some(state),
            persistent: Some(info.persistent),
            summary: Panel::attach_in(base, name)?.describe(),
        }),
        Content::Unopenable(obstacle, why) => Err(OpenError::of(obstacle, info, why).into()),
        Content::Ring(_) | Content::Params(_) | Content::Unopened => {
            Err(FindError::Orphaned { kind: info.kind, name: info.name }.into())
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
            fact(
                &self.summary.calendar.to_string(),
                format!("{}: {dates}", units::exact(self.summary.days as u64)),
            ),
            fact(
                "tickers",
                format!("{tradable} tradable, {} macro", self.summary.macro_tickers.len()),
            ),
            fact("columns", self.summary.columns.join(" ")),
            fact(
                "rows",
                format!(
                    "{}, {}% of all {} and tickers",
                    units::exact(rows as u64),
                    rows * 100 / places,
                    self.summary.calendar
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

    /// Summarises missing days.
    fn gaps(&self) -> String {
        let coverage = &self.summary.coverage;
        let days: usize = coverage.iter().map(|ticker| ticker.missing_days).sum();
        let last = self.summary.days.checked_sub(1);
        let gaps = coverage.iter().filter(|ticker| ticker.missing_days > 0).count();
        let late = coverage.iter().filter(|ticker| ticker.first_day > Some(0)).count();
        let early = coverage.iter().filter(|ticker| ticker.last_day < last).count();
        format!(
            "{} missing: {} (in tickers: {gaps}); begin late: {late}; end early: {early}",
            self.summary.calendar,
            units::exact(days as u64)
        )
    }

    fn print_coverage(&self, console: &mut Console<'_>) {
        let (first, last) = match self.summary.calendar {
            Calendar::Bars => ("FIRST BAR", "LAST BAR"),
            _ => ("FIRST DAY", "LAST DAY"),
        };
        let text = |date: &Option<String>| date.clone().unwrap_or_else(|| "-".to_owned());
        console.table(
            &[
                ("TICKER", Align::Left),
                (first, Align::Left),
                (last, Align::Left),
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

/// Formats a price with two decimals; the JSON has every digit.
fn price(price: Option<f64>) -> String {
    price.map_or_else(|| "-".to_owned(), |price| format!("{price:.2}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_offered_are_those_that_are_taken() {
        assert!(NAN.iter().all(|word| word.parse::<NanPolicy>().is_ok()));
        assert!(DERIVED.iter().all(|word| word.parse::<DerivedColumn>().is_ok()));
        assert!(UNITS.iter().all(|word| word.parse::<EpochUnit>().is_ok()));
    }
}
