//! A price file of one case, the options of its reader, and the check of the outcome.

use std::path::Path;

use backcast_market::{NanPolicy, PanelData, PanelError, PanelOptions};
use rand::RngExt;

use super::dice::Dice;
use super::outcome;

/// A file of one case.
#[derive(Debug)]
pub struct Case {
    /// Bytes of the file.
    pub bytes: Vec<u8>,
    /// Options of the reader.
    pub options: PanelOptions,
    /// Descriptions of the edits; empty for a good file.
    pub mutations: Vec<String>,
}

/// A reader of files.
pub type Load = fn(&Path, &PanelOptions) -> Result<PanelData, PanelError>;

/// Reads CSV.
pub fn csv(path: &Path, options: &PanelOptions) -> Result<PanelData, PanelError> {
    PanelData::from_csv(path, options)
}

/// Reads Parquet.
pub fn parquet(path: &Path, options: &PanelOptions) -> Result<PanelData, PanelError> {
    PanelData::from_parquet(path, options)
}

/// Returns options that a caller may choose.
#[must_use]
pub fn options(dice: &mut Dice) -> PanelOptions {
    let mut options = PanelOptions::default();
    if dice.random_ratio(1, 3) {
        options = options.nan(NanPolicy::Mask);
    }
    if dice.random_ratio(1, 4) {
        let absent = dice.random_ratio(1, 16);
        options = options.macro_tickers([if absent { "T9" } else { "T0" }]);
    }
    match dice.random_range(0..12) {
        0 => options.columns([("rsi", "close")]),
        1 => options.columns([("rsi", "")]),
        _ => options,
    }
}

/// Loads a file and uses the panel, or checks the refusal. Returns the kind of the outcome, or the
/// problem with it.
pub fn judge(load: Load, path: &Path, options: &PanelOptions) -> Result<String, String> {
    match load(path, options) {
        Ok(data) => outcome::used(&data.into_heap()),
        Err(error) => outcome::refused(&error),
    }
}
