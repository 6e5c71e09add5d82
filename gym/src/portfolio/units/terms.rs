//! Rules of units, limits and margins in the form that a step needs.

use backcast_market::Panel;

use crate::portfolio::{
    actions::Actions, error::PortfolioError, margin::Margin, options::PortfolioOptions,
};

/// Rules of units, limits and margins.
#[derive(Clone, Debug)]
pub(crate) struct UnitTerms {
    /// Largest sum of absolute weights; `None` if actions are orders.
    pub(super) leverage: Option<f64>,
    pub(super) fractional: bool,
    pub(super) margin: Option<Margin>,
    pub(super) max_position: Option<f64>,
    pub(super) max_volume: Option<f64>,
    pub(super) slippage: f64,
    pub(super) per_share: f64,
    pub(super) impact: f64,
    /// Columns of dividends and splits.
    pub(super) dividends: Option<usize>,
    pub(crate) splits: Option<usize>,
    /// Fees of a bar, as fractions.
    pub(super) borrow: f64,
    pub(super) loan: f64,
}

impl UnitTerms {
    /// Returns the rules of `options`, without columns and payments on positions.
    pub(crate) fn of(options: &PortfolioOptions) -> Self {
        let leverage = match options.actions {
            Actions::Weights { leverage } => Some(leverage),
            _ => None,
        };
        Self {
            leverage,
            fractional: options.fractional,
            margin: options.margin,
            max_position: options.max_position,
            max_volume: options.max_volume,
            slippage: options.slippage_bps / 10_000.0,
            per_share: options.slippage_per_share,
            impact: options.impact_bps / 10_000.0,
            dividends: None,
            splits: None,
            borrow: 0.0,
            loan: 0.0,
        }
    }

    /// Finds the columns of `options`, checks their numbers, and computes the fees of a bar.
    pub(crate) fn find_columns(
        &mut self,
        panel: &Panel,
        options: &PortfolioOptions,
    ) -> Result<(), PortfolioError> {
        self.dividends = column_of(panel, "dividends", options.dividends.as_deref())?;
        self.splits = column_of(panel, "splits", options.splits.as_deref())?;
        if let Some(margin) = options.margin {
            self.borrow = margin.borrow_rate / panel.bars_per_year();
            self.loan = margin.loan_rate / panel.bars_per_year();
        }
        Ok(())
    }
}

/// Returns the position of an indicator whose numbers are all at least 0.
fn column_of(
    panel: &Panel,
    option: &'static str,
    name: Option<&str>,
) -> Result<Option<usize>, PortfolioError> {
    let Some(name) = name else { return Ok(None) };
    let first = panel.columns().len() - panel.indicators().len();
    let Some(at) = panel.indicators().iter().position(|known| known == name) else {
        return Err(PortfolioError::UnknownColumn {
            option,
            column: name.to_owned(),
            known: panel.indicators().to_vec(),
        });
    };
    let column = first + at;
    let rows = panel.rows();
    for ticker in 0..panel.tickers().len() {
        for day in 0..panel.days() {
            let value = rows.row(ticker, day).value(column);
            if value < 0.0 {
                return Err(PortfolioError::BadCell {
                    option,
                    column: name.to_owned(),
                    ticker: panel.tickers()[ticker].clone(),
                    date: panel.date(day).unwrap_or_default(),
                    value,
                });
            }
        }
    }
    Ok(Some(column))
}
