//! Roles of the columns of a file, after the caller's renames.

use std::collections::HashMap;

use backcast_layout::closest_name;

use crate::{
    calendar::Calendar, load_error::PanelLoadError, moment::TimeRules, options::PanelOptions,
    symbols::PriceColumn, zone::Zone,
};

/// Separators that programs write instead of commas.
const SEPARATORS: [char; 3] = [';', '\t', '|'];

/// Role of a column of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnUse {
    /// Days.
    Date,
    /// Times of day, beside days.
    Clock,
    /// Instants.
    Timestamp,
    Ticker,
    /// Position among the panel's columns.
    Value(usize),
    Ignored,
}

/// The columns of a file and their roles.
#[derive(Debug)]
pub(crate) struct FileHeader {
    /// Roles of the columns of the file.
    pub(crate) uses: Vec<ColumnUse>,
    /// Names of the file's columns.
    pub(crate) names: Vec<String>,
    /// Names of the panel's columns: the five prices, then indicators in file order.
    pub(crate) columns: Vec<String>,
    /// Position in the file of each of the panel's columns.
    pub(crate) sources: Vec<usize>,
    pub(crate) times: TimeRules,
}

impl FileHeader {
    /// Returns the roles of columns with these names. Refuses renames of columns that are absent,
    /// names that repeat, and a table without a column that a panel needs.
    pub(crate) fn of(names: Vec<String>, options: &PanelOptions) -> Result<Self, PanelLoadError> {
        let unknown = options.columns.keys().find(|theirs| !names.contains(theirs));
        if let Some(theirs) = unknown {
            let closest = closest_name(theirs, names.iter().map(String::as_str));
            let closest = closest.map(str::to_owned);
            return Err(PanelLoadError::UnknownRename {
                theirs: theirs.clone(),
                closest,
                found: names,
            });
        }
        let mut columns: Vec<String> =
            PriceColumn::ALL.iter().map(|column| column.name().to_owned()).collect();
        let mut sources = vec![usize::MAX; columns.len()];
        let mut seen = HashMap::new();
        let mut uses = Vec::with_capacity(names.len());
        for (at, name) in known_names(&names, options).into_iter().enumerate() {
            if is_ignored(name) {
                uses.push(ColumnUse::Ignored);
                continue;
            }
            if let Some(first) = seen.insert(name, at + 1) {
                return Err(PanelLoadError::DuplicateColumn {
                    name: name.to_owned(),
                    first,
                    second: at + 1,
                    found: names,
                });
            }
            uses.push(match name {
                "date" => ColumnUse::Date,
                "time" => ColumnUse::Clock,
                "timestamp" => ColumnUse::Timestamp,
                "tic" => ColumnUse::Ticker,
                _ => {
                    // Duplicates were refused, so a known name is one of the five prices.
                    let column = columns.iter().position(|column| column == name);
                    let column = column.unwrap_or_else(|| {
                        columns.push(name.to_owned());
                        sources.push(at);
                        columns.len() - 1
                    });
                    sources[column] = at;
                    ColumnUse::Value(column)
                }
            });
        }
        let given = |name: &str| seen.get(name).map(|at| names[at - 1].clone());
        if let (Some(column), Some(ticker)) = (given("tic"), &options.ticker) {
            return Err(PanelLoadError::TickerTwice { column, ticker: ticker.clone() });
        }
        let derived = options.derived.iter().map(|derived| derived.column().name());
        if let Some(column) = derived.clone().find_map(given) {
            return Err(PanelLoadError::DerivedTwice { column });
        }
        let unneeded = |name: &str| {
            name == "tic" && options.ticker.is_some() || derived.clone().any(|own| own == name)
        };
        if let Some(instants) = given("timestamp")
            && let Some(other) = given("date").or_else(|| given("time"))
        {
            return Err(PanelLoadError::TwoTimes { columns: Box::new([other, instants]) });
        }
        // A column that is called as instants are, and no other, makes bars once it is renamed.
        let instants = names.iter().find(|name| names_instants(name));
        let is_bars =
            seen.contains_key("timestamp") || !seen.contains_key("date") && instants.is_some();
        let label = if is_bars { "timestamp" } else { "date" };
        let missing: Vec<String> = [label, "tic"]
            .into_iter()
            .chain(PriceColumn::ALL.iter().map(|column| column.name()))
            .filter(|name| !seen.contains_key(name) && !unneeded(name))
            .map(str::to_owned)
            .collect();
        if missing.is_empty() {
            let times = time_rules(options, given)?;
            return Ok(Self { uses, names, columns, sources, times });
        }
        let required = |name: &String| {
            matches!(name.as_str(), "date" | "time" | "timestamp" | "tic")
                || PriceColumn::ALL.iter().any(|column| column.name() == name)
        };
        let others = || names.iter().filter(|name| !required(name)).map(String::as_str);
        let closest = missing.iter().map(|name| match (name.as_str(), instants) {
            ("timestamp", Some(instants)) => Some(instants.clone()),
            _ => closest_name(name, others()).map(str::to_owned),
        });
        let closest = closest.collect();
        let any_case = options.any_case;
        Err(PanelLoadError::MissingColumns { missing, closest, found: names, any_case })
    }

    /// Returns the file's names of the columns of days or instants, of times of day, and of
    /// tickers, as far as the table has them.
    pub(crate) fn key_names(&self) -> Vec<String> {
        use ColumnUse::{Clock, Date, Ticker, Timestamp};
        let name = |what: ColumnUse| {
            let at = self.uses.iter().position(|other| *other == what);
            at.map(|at| self.names[at].clone())
        };
        [Date, Timestamp, Clock, Ticker].into_iter().filter_map(name).collect()
    }

    /// Returns whether the rows are labelled with days or with instants.
    pub(crate) fn calendar(&self) -> Calendar {
        let bars = |what: &ColumnUse| matches!(what, ColumnUse::Clock | ColumnUse::Timestamp);
        if self.uses.iter().any(bars) { Calendar::Bars } else { Calendar::Days }
    }

    /// Returns the file's name of one of the panel's columns; the panel's name of a derived one.
    pub(crate) fn source_name(&self, column: usize) -> &str {
        let source = self.sources.get(column).and_then(|&at| self.names.get(at));
        source.or_else(|| self.columns.get(column)).map_or("", String::as_str)
    }
}

/// Other names of the columns of dates and tickers, in lower case.
const SPELLINGS: [(&str, &[&str]); 4] =
    [("date", &[]), ("time", &[]), ("timestamp", &["datetime"]), ("tic", &["ticker", "symbol"])];

/// Returns whether a column is called `timestamp` or `datetime`, in any case.
fn names_instants(name: &str) -> bool {
    ["timestamp", "datetime"].iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// Returns the panel's name of each column: after renames, and with known names in other cases if
/// the options say so.
fn known_names<'a>(names: &'a [String], options: &'a PanelOptions) -> Vec<&'a str> {
    let renamed = |name: &'a String| options.columns.get(name).unwrap_or(name).as_str();
    let mut ours: Vec<&str> = names.iter().map(renamed).collect();
    if !options.any_case {
        return ours;
    }
    let prices = PriceColumn::ALL.iter().map(|column| (column.name(), &[] as &[&str]));
    for (known, others) in SPELLINGS.into_iter().chain(prices) {
        if ours.contains(&known) {
            continue;
        }
        let fits = |name: &str| {
            name.eq_ignore_ascii_case(known)
                || others.iter().any(|other| name.eq_ignore_ascii_case(other))
        };
        let mut alike = (0..ours.len()).filter(|&at| fits(ours[at]));
        if let (Some(only), None) = (alike.next(), alike.next()) {
            ours[only] = known;
        }
    }
    ours
}

/// Returns the rules by which the times of a table are read. Checks the options against the columns
/// that hold times. `given` returns the file's name of one of the panel's columns.
fn time_rules(
    options: &PanelOptions,
    given: impl Fn(&str) -> Option<String>,
) -> Result<TimeRules, PanelLoadError> {
    let (timestamp, clock) = (given("timestamp"), given("time"));
    let has_clock = clock.is_some();
    let is_daily = timestamp.is_none() && !has_clock;
    let column = timestamp.or(clock).or_else(|| given("date")).unwrap_or_default();
    if is_daily && options.zone.is_some() {
        return Err(PanelLoadError::UnusedOption { option: "zone", column });
    }
    if has_clock && options.unit.is_some() {
        return Err(PanelLoadError::UnusedOption { option: "unit", column });
    }
    if options.zone.is_some() && options.unit.is_some() {
        return Err(PanelLoadError::ZoneOfNumbers { column });
    }
    if has_clock && options.zone.is_none() {
        return Err(PanelLoadError::NoZone { column });
    }
    let zone = match &options.zone {
        Some(name) => match Zone::of(Some(name)) {
            Some(zone) => Some(zone),
            None => return Err(PanelLoadError::UnknownZone { column, zone: name.clone() }),
        },
        None => None,
    };
    Ok(TimeRules { zone, unit: options.unit })
}

/// Returns whether a column is ignored: day numbers of a panel, row numbers of pandas as
/// `to_csv`, `to_parquet` and `reset_index` name them, or a column that the caller renamed to an
/// empty name.
fn is_ignored(name: &str) -> bool {
    matches!(name, "" | "day" | "day_idx" | "index" | "level_0")
        || name.starts_with("Unnamed:")
        || name.starts_with("__index_level_")
}

/// Refuses a header of one cell that contains another usual separator than `separator`.
pub(crate) fn check_separator(names: &[String], separator: u8) -> Result<(), PanelLoadError> {
    let [only] = names else { return Ok(()) };
    let found = SEPARATORS.into_iter().chain([',']);
    let found = found.filter(|&known| known != char::from(separator));
    found
        .max_by_key(|&known| only.matches(known).count())
        .filter(|&known| only.contains(known))
        .map_or(Ok(()), |found| Err(PanelLoadError::Separator { found }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_separator_is_found_in_a_header_of_one_cell() {
        let names = |text: &str| vec![text.to_owned()];
        assert!(matches!(
            check_separator(&names("date;tic;open"), b','),
            Err(PanelLoadError::Separator { found: ';' })
        ));
        assert!(check_separator(&names("date"), b',').is_ok());
    }
}
