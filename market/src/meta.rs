//! Description of a panel inside its segment: JSON, checked in full by every reader.

use serde::{Deserialize, Serialize};

use crate::{
    blocks::PanelShape,
    calendar::Calendar,
    date::{Date, is_calendar_date},
    moment::Moment,
    symbols::{CASH, PriceColumn},
};

const FORMAT: &str = "backcast-panel";
/// Version of daily panels, which every release reads.
const DAYS_VERSION: u32 = 1;
/// Version of panels of bars, and of panels with a stated number of bars of a year.
const BARS_VERSION: u32 = 2;

/// Description of a panel, without its numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Meta {
    format: String,
    version: u32,
    /// BLAKE3 of all other fields and of the data, in hex: equal for equal panels.
    pub(crate) fingerprint: String,
    pub(crate) tickers: Vec<String>,
    pub(crate) is_macro: Vec<bool>,
    /// Days of a daily panel as `YYYY-MM-DD`; empty for bars.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) dates: Vec<String>,
    pub(crate) columns: Vec<String>,
    /// Instants of bars in microseconds since 1970; empty for days.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) times: Vec<i64>,
    /// Stated number of bars of a year.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bars_per_year: Option<f64>,
}

impl Meta {
    /// Returns an empty description, to be filled and [`sealed`](Self::sealed).
    pub(crate) fn new(bars_per_year: Option<f64>) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: 0,
            fingerprint: String::new(),
            tickers: Vec::new(),
            is_macro: Vec::new(),
            dates: Vec::new(),
            columns: Vec::new(),
            times: Vec::new(),
            bars_per_year,
        }
    }

    /// Sets version and fingerprint by the contents and the data.
    pub(crate) fn sealed(mut self, values: &[f64], listed: &[u64]) -> Self {
        self.version = self.least_version();
        self.fingerprint = String::new();
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.to_bytes());
        // The singles are not hashed, since they follow from the values.
        hasher.update(bytemuck::cast_slice(values));
        hasher.update(bytemuck::cast_slice(listed));
        self.fingerprint = hasher.finalize().to_hex().to_string();
        self
    }

    /// Returns the first version that has what this panel has.
    fn least_version(&self) -> u32 {
        let daily = self.times.is_empty() && self.bars_per_year.is_none();
        if daily { DAYS_VERSION } else { BARS_VERSION }
    }

    /// Returns the number of days or bars.
    pub(crate) fn len(&self) -> usize {
        self.dates.len().max(self.times.len())
    }

    /// Returns whether the rows are labelled with days or with instants.
    pub(crate) fn calendar(&self) -> Calendar {
        if self.times.is_empty() { Calendar::Days } else { Calendar::Bars }
    }

    /// Returns the instants of bars, or the midnights of days, in microseconds since 1970 in UTC.
    pub(crate) fn micros(&self) -> Vec<i64> {
        let midnight = |day: &String| Date::parse(day).map(|day| Moment::of_day(day).micros());
        match self.calendar() {
            Calendar::Days => self.dates.iter().filter_map(midnight).collect(),
            Calendar::Bars => self.times.clone(),
        }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        // Strings, numbers and lists always have a JSON form.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Parses a description and checks it against the size of the data.
    pub(crate) fn parse(bytes: &[u8], data_bytes: usize) -> Result<(Self, PanelShape), String> {
        let meta: Self =
            serde_json::from_slice(bytes).map_err(|error| format!("its description: {error}"))?;
        if meta.format != FORMAT || meta.version != meta.least_version() {
            let (format, version) = (&meta.format, meta.version);
            let expected = meta.least_version();
            return Err(format!(
                "format {format:?} version {version}, where its contents need {FORMAT:?} version \
                 {expected}"
            ));
        }
        let (tickers, days, columns) = (meta.tickers.len(), meta.len(), meta.columns.len());
        if tickers == 0 || days == 0 {
            return Err(format!("{tickers} tickers and {days} days"));
        }
        if meta.is_macro.len() != tickers {
            return Err(format!("{} macro flags for {tickers} tickers", meta.is_macro.len()));
        }
        if meta.tickers.iter().any(|name| name.is_empty() || name == CASH) || !rises(&meta.tickers)
        {
            return Err("tickers that are unnamed, reserved or out of order".to_owned());
        }
        if !meta.dates.iter().all(|date| is_calendar_date(date)) || !rises(&meta.dates) {
            return Err("dates that are no calendar days or out of order".to_owned());
        }
        if !meta.dates.is_empty() && !meta.times.is_empty() {
            return Err(format!("{} days and {} bars", meta.dates.len(), meta.times.len()));
        }
        let known = |micros: &i64| Moment::from_micros(*micros).is_some();
        if !meta.times.iter().all(known) || !meta.times.is_sorted_by(|a, b| a < b) {
            return Err("bars outside the years 1 to 9999 or out of order".to_owned());
        }
        if let Some(bars) = meta.bars_per_year.filter(|bars| !(bars.is_finite() && *bars > 0.0)) {
            return Err(format!("{bars} bars of a year"));
        }
        let prices = PriceColumn::ALL.map(PriceColumn::name);
        let mut sorted = meta.columns.clone();
        sorted.sort_unstable();
        if !meta.columns.starts_with(&prices.map(str::to_owned)) || !rises(&sorted) {
            return Err(format!("columns that do not begin with {prices:?} or repeat"));
        }
        let shape = PanelShape::new(tickers, days, columns)
            .ok_or_else(|| format!("{tickers} x {days} x {columns} values"))?;
        if shape.data_bytes() != data_bytes {
            let expected = shape.data_bytes();
            return Err(format!(
                "{data_bytes} bytes of data where {tickers} tickers x {days} days x {columns} \
                 columns \
                 take {expected}"
            ));
        }
        Ok((meta, shape))
    }
}

/// Returns whether names are strictly ascending: sorted and without duplicates.
fn rises(names: &[String]) -> bool {
    names.is_sorted_by(|a, b| a < b)
}
