//! Description of a panel inside its segment: JSON, checked in full by every reader.

use serde::{Deserialize, Serialize};

use crate::{
    blocks::PanelShape,
    date::is_calendar_date,
    symbols::{CASH, PriceColumn},
};

const FORMAT: &str = "backcast-panel";
const VERSION: u32 = 1;

/// Description of a panel, without its numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Meta {
    format: String,
    version: u32,
    /// BLAKE3 of all other fields and of the data, in hex: equal for equal panels.
    pub(crate) fingerprint: String,
    pub(crate) tickers: Vec<String>,
    pub(crate) is_macro: Vec<bool>,
    pub(crate) dates: Vec<String>,
    pub(crate) columns: Vec<String>,
}

impl Meta {
    pub(crate) fn new(
        tickers: Vec<String>,
        is_macro: Vec<bool>,
        dates: Vec<String>,
        columns: Vec<String>,
        values: &[f64],
        listed: &[u64],
    ) -> Self {
        let mut meta = Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            fingerprint: String::new(),
            tickers,
            is_macro,
            dates,
            columns,
        };
        let mut hasher = blake3::Hasher::new();
        hasher.update(&meta.to_bytes());
        // The singles are not hashed, since they follow from the values.
        hasher.update(bytemuck::cast_slice(values));
        hasher.update(bytemuck::cast_slice(listed));
        meta.fingerprint = hasher.finalize().to_hex().to_string();
        meta
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        // Strings, numbers and lists always have a JSON form.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Parses a description and checks it against the size of the data.
    pub(crate) fn parse(bytes: &[u8], data_bytes: usize) -> Result<(Self, PanelShape), String> {
        let meta: Self =
            serde_json::from_slice(bytes).map_err(|error| format!("its description: {error}"))?;
        if meta.format != FORMAT || meta.version != VERSION {
            let (format, version) = (&meta.format, meta.version);
            return Err(format!(
                "format {format:?} version {version}, where {FORMAT:?} version {VERSION} is known"
            ));
        }
        let (tickers, days, columns) = (meta.tickers.len(), meta.dates.len(), meta.columns.len());
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
