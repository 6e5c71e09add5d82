//! Facts of a panel, for lists and reports.

use backcast_core::Base;
#[cfg(feature = "markets")]
use backcast_market::Panel;

use super::catalogue::Obstacle;
#[cfg(feature = "markets")]
use super::catalogue::unopenable;

/// Sizes and names of a panel. Builds without markets make none.
#[derive(Clone, Debug)]
pub(crate) struct PanelFacts {
    /// Labels of the rows: "days" or "bars".
    pub(crate) calendar: String,
    /// Number of days or bars.
    pub(crate) days: usize,
    pub(crate) first_date: Option<String>,
    pub(crate) last_date: Option<String>,
    pub(crate) tickers: Vec<String>,
    pub(crate) macro_tickers: Vec<String>,
    pub(crate) columns: Vec<String>,
}

impl PanelFacts {
    /// Reads a panel of a directory, or returns what keeps it from being opened.
    #[cfg(feature = "markets")]
    pub(crate) fn read(base: &Base, name: &str) -> Result<Self, (Obstacle, String)> {
        let panel = Panel::attach_in(base, name).map_err(|error| unopenable(&error))?;
        let tickers = panel.tickers();
        let macros = (0..tickers.len()).filter(|&ticker| panel.is_macro(ticker));
        Ok(Self {
            calendar: panel.calendar().to_string(),
            days: panel.days(),
            first_date: panel.date(0),
            last_date: panel.date(panel.days().wrapping_sub(1)),
            tickers: tickers.to_vec(),
            macro_tickers: macros.filter_map(|ticker| tickers.get(ticker).cloned()).collect(),
            columns: panel.columns().to_vec(),
        })
    }

    /// Returns an error, since a build without markets cannot read panels.
    #[cfg(not(feature = "markets"))]
    pub(crate) fn read(_base: &Base, _name: &str) -> Result<Self, (Obstacle, String)> {
        Err((Obstacle::Unknown, "this Backcast was built without markets".to_owned()))
    }
}
