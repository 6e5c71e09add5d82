//! Options of loading a table: macro tickers, column names, missing numbers and columns.

use std::{
    collections::{BTreeMap, BTreeSet},
    str::FromStr,
};

use thiserror::Error;

use crate::{derived_column::DerivedColumn, moment::EpochUnit, symbols::PriceColumn};

/// Treatment of missing numbers: empty cells, nulls and NaN, and in a CSV `NA`, `N/A`, `null`,
/// `NULL` and `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NanPolicy {
    /// Refuses the file, with the row and column of the first missing number. The default.
    #[default]
    Refuse,
    /// Treats the row as absent: the ticker is masked on that day.
    Mask,
}

/// A word that names no [`NanPolicy`].
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("nan is {text:?}; give \"refuse\" or \"mask\"")]
pub struct ParseNanPolicyError {
    /// The word.
    pub text: String,
}

impl FromStr for NanPolicy {
    type Err = ParseNanPolicyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "refuse" => Ok(Self::Refuse),
            "mask" => Ok(Self::Mask),
            _ => Err(ParseNanPolicyError { text: text.to_owned() }),
        }
    }
}

/// The byte between two cells of a CSV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Separator(pub(crate) u8);

impl Default for Separator {
    fn default() -> Self {
        Self(b',')
    }
}

/// Options of reading a CSV or Parquet file, or a table in memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PanelOptions {
    pub(crate) macro_tickers: BTreeSet<String>,
    /// The panel's name of each renamed column, by the file's name.
    pub(crate) columns: BTreeMap<String, String>,
    pub(crate) nan: NanPolicy,
    pub(crate) separator: Separator,
    pub(crate) any_case: bool,
    pub(crate) ticker: Option<String>,
    pub(crate) derived: BTreeSet<DerivedColumn>,
    pub(crate) zone: Option<String>,
    pub(crate) unit: Option<EpochUnit>,
    pub(crate) bars_per_year: Option<f64>,
}

impl PanelOptions {
    /// Sets the tickers that are shown but never traded, such as an index or a volatility series.
    ///
    /// Their values may be zero or negative. Loading refuses a macro ticker without a row.
    #[must_use]
    pub fn macro_tickers<I: IntoIterator<Item: Into<String>>>(mut self, tickers: I) -> Self {
        self.macro_tickers = tickers.into_iter().map(Into::into).collect();
        self
    }

    /// Renames the file's columns, `(theirs, ours)`; an empty name leaves a column out.
    ///
    /// Renames apply before names are interpreted. So an index column, which is otherwise ignored,
    /// can become `date`. Loading refuses a name that the file lacks, and two columns with the same
    /// new name.
    #[must_use]
    pub fn columns<I, T, O>(mut self, renames: I) -> Self
    where
        I: IntoIterator<Item = (T, O)>,
        T: Into<String>,
        O: Into<String>,
    {
        self.columns =
            renames.into_iter().map(|(theirs, ours)| (theirs.into(), ours.into())).collect();
        self
    }

    /// Sets the byte that separates the cells of a CSV; a comma by default. Other formats have
    /// none.
    #[must_use]
    pub fn separator(mut self, separator: u8) -> Self {
        self.separator = Separator(separator);
        self
    }

    /// Sets the meaning of a missing number; [`NanPolicy::Refuse`] by default. An infinity is
    /// always refused.
    #[must_use]
    pub fn nan(mut self, policy: NanPolicy) -> Self {
        self.nan = policy;
        self
    }

    /// Takes known columns in other cases too, such as `Close`, and `ticker` or `symbol` for `tic`.
    ///
    /// Applies to a known name that no column has exactly, and that one other column resembles. By
    /// default names are case-sensitive.
    #[must_use]
    pub fn any_case(mut self) -> Self {
        self.any_case = true;
        self
    }

    /// Names the ticker of all rows of a table without a column `tic`. Loading refuses a table that
    /// has one.
    #[must_use]
    pub fn ticker(mut self, name: impl Into<String>) -> Self {
        self.ticker = Some(name.into());
        self
    }

    /// Computes columns that the table lacks; see [`DerivedColumn`] for how. Loading refuses a
    /// table that has one of them.
    #[must_use]
    pub fn derive(mut self, columns: impl IntoIterator<Item = DerivedColumn>) -> Self {
        self.derived = columns.into_iter().collect();
        self
    }

    /// Sets the zone of times that are written without one: a name of the time zone database, `UTC`
    /// or an offset such as `-05:00`.
    ///
    /// Loading refuses times without a zone if none is set, times with one if one is set, and times
    /// that clocks of the zone show twice or never.
    #[must_use]
    pub fn zone(mut self, name: impl Into<String>) -> Self {
        self.zone = Some(name.into());
        self
    }

    /// Takes times as whole numbers of this unit since 1970-01-01T00:00:00Z. Loading refuses such
    /// numbers without a unit.
    #[must_use]
    pub fn unit(mut self, unit: EpochUnit) -> Self {
        self.unit = Some(unit);
        self
    }

    /// Sets the bars of a year, which annualise ratios. By default the calendar tells; see
    /// [`Panel::bars_per_year`](crate::Panel::bars_per_year).
    #[must_use]
    pub fn bars_per_year(mut self, bars: f64) -> Self {
        self.bars_per_year = Some(bars);
        self
    }

    pub(crate) fn derives(&self, column: PriceColumn) -> bool {
        self.derived.iter().any(|derived| derived.column() == column)
    }
}
