//! Rows of a panel in double precision.

use backcast_gym::PortfolioError;
use backcast_market::Panel;

use crate::array::allocation::Allocator;
use crate::error::{ErrorClass, Failure};

/// Refuses more days than a whole window may have. Days beyond the panel are masked, but that many
/// are probably a mistake.
pub(crate) fn check_count(panel: &Panel, count: usize, class: ErrorClass) -> Result<(), Failure> {
    panel.check_whole_window("count", count).map_err(|error| Failure::of(class, error))
}

/// Returns values `[t, count, C]`, a mask `[t, count]` of existing rows, and the number of columns.
pub(crate) fn rows_of(
    panel: &Panel,
    tickers: &[String],
    first: i64,
    count: usize,
) -> Result<(Vec<f64>, Vec<bool>, usize), Failure> {
    let columns = panel.columns().len();
    check_count(panel, count, ErrorClass::Env)?;
    let too_large = || {
        let tickers = tickers.len();
        Failure::new(
            ErrorClass::Env,
            format!("{tickers} tickers x {count} days cannot be addressed; ask for fewer"),
        )
    };
    let cells = tickers.len().checked_mul(count).ok_or_else(too_large)?;
    let allocator = Allocator { class: ErrorClass::Env, remedy: "ask for fewer tickers or days" };
    let mut values: Vec<f64> = allocator.zeros(cells.checked_mul(columns))?;
    let mut listed: Vec<bool> = allocator.zeros(Some(cells))?;
    for (at, name) in tickers.iter().enumerate() {
        let token = panel.token(name).filter(|&token| token > 0).ok_or_else(|| {
            let known = panel.tickers();
            Failure::from(PortfolioError::UnknownTicker {
                ticker: name.clone(),
                count: known.len(),
                first: known[0].clone(),
                last: known[known.len() - 1].clone(),
            })
        })?;
        let ticker = token as usize - 1;
        for step in 0..count {
            let day = i64::try_from(step).ok().and_then(|step| first.checked_add(step));
            let Some(day) = day.and_then(|day| usize::try_from(day).ok()) else { continue };
            if !panel.listed(ticker, day) {
                continue;
            }
            let cell = at * count + step;
            listed[cell] = true;
            let row = panel.rows().row(ticker, day);
            for (column, value) in
                values[cell * columns..(cell + 1) * columns].iter_mut().enumerate()
            {
                *value = row.value(column);
            }
        }
    }
    Ok((values, listed, columns))
}
