//! Roles of the columns of a file, after the caller's renames.

use std::collections::HashMap;

use backcast_layout::closest_name;

use crate::{load_error::PanelLoadError, options::PanelOptions, symbols::PriceColumn};

/// Separators that programs write instead of commas.
const SEPARATORS: [char; 3] = [';', '\t', '|'];

/// Role of a column of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnUse {
    Date,
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
}

impl FileHeader {
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
        for (at, theirs) in names.iter().enumerate() {
            let name = options.columns.get(theirs).unwrap_or(theirs).as_str();
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
        let missing: Vec<String> = ["date", "tic"]
            .into_iter()
            .chain(PriceColumn::ALL.iter().map(|column| column.name()))
            .filter(|name| !seen.contains_key(name))
            .map(str::to_owned)
            .collect();
        if missing.is_empty() {
            return Ok(Self { uses, names, columns, sources });
        }
        let required = |name: &String| {
            matches!(name.as_str(), "date" | "tic")
                || PriceColumn::ALL.iter().any(|column| column.name() == name)
        };
        let others = || names.iter().filter(|name| !required(name)).map(String::as_str);
        let closest = missing.iter().map(|name| closest_name(name, others()).map(str::to_owned));
        let closest = closest.collect();
        Err(PanelLoadError::MissingColumns { missing, closest, found: names })
    }

    /// Returns the file's names of the columns of days and tickers.
    pub(crate) fn key_names(&self) -> [String; 2] {
        [ColumnUse::Date, ColumnUse::Ticker].map(|wanted| {
            let at = self.uses.iter().position(|what| *what == wanted);
            at.map_or_else(String::new, |at| self.names[at].clone())
        })
    }

    /// Returns the file's name of one of the panel's columns.
    pub(crate) fn source_name(&self, column: usize) -> &str {
        self.sources.get(column).and_then(|&at| self.names.get(at)).map_or("", String::as_str)
    }
}

/// Returns whether a column is ignored: day numbers of a panel, row numbers of pandas, or a column
/// that the caller renamed to an empty name.
fn is_ignored(name: &str) -> bool {
    matches!(name, "" | "day" | "day_idx")
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
