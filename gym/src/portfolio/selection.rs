//! Selection of tickers and indicators by name.

use backcast_market::{Panel, PriceColumn};

use super::{error::PortfolioError, rewards::Reward};

/// Returns the position of a ticker that may be traded. Refuses unknown and macro tickers.
pub(crate) fn traded(panel: &Panel, name: &str) -> Result<usize, PortfolioError> {
    let all = panel.tickers();
    let Ok(ticker) = all.binary_search_by(|known| known.as_str().cmp(name)) else {
        return Err(PortfolioError::UnknownTicker {
            ticker: name.to_owned(),
            count: all.len(),
            first: all[0].clone(),
            last: all[all.len() - 1].clone(),
        });
    };
    if panel.is_macro(ticker) {
        return Err(PortfolioError::MacroTicker { ticker: name.to_owned() });
    }
    Ok(ticker)
}

/// Returns the position of the benchmark of a reward, if it has one.
pub(crate) fn benchmark_of(
    panel: &Panel,
    reward: &Reward,
) -> Result<Option<usize>, PortfolioError> {
    let Reward::Excess { ticker } = reward else { return Ok(None) };
    let all = panel.tickers();
    let found = all.binary_search_by(|known| known.as_str().cmp(ticker));
    found.map(Some).map_err(|_| PortfolioError::UnknownBenchmark {
        ticker: ticker.clone(),
        count: all.len(),
        first: all[0].clone(),
        last: all[all.len() - 1].clone(),
    })
}

/// Returns the positions of tickers that may be traded, each named once.
pub(crate) fn positions(panel: &Panel, names: &[String]) -> Result<Vec<usize>, PortfolioError> {
    let mut chosen: Vec<usize> = Vec::new();
    for name in names {
        let ticker = traded(panel, name)?;
        named_once("tickers", &chosen, ticker, name)?;
        chosen.push(ticker);
    }
    Ok(chosen)
}

/// Refuses a ticker that is in `chosen` already.
fn named_once(
    list: &'static str,
    chosen: &[usize],
    ticker: usize,
    name: &str,
) -> Result<(), PortfolioError> {
    let Some(first) = chosen.iter().position(|&other| other == ticker) else { return Ok(()) };
    let (ticker, second) = (name.to_owned(), chosen.len());
    Err(PortfolioError::DuplicateTicker { list, ticker, first, second })
}

/// Returns the tickers to trade: those named, or all but the macro tickers.
pub(crate) fn choose_tickers(
    panel: &Panel,
    names: Option<&[String]>,
) -> Result<Vec<usize>, PortfolioError> {
    let chosen = match names {
        Some(names) => positions(panel, names)?,
        None => (0..panel.tickers().len()).filter(|&ticker| !panel.is_macro(ticker)).collect(),
    };
    if chosen.is_empty() { Err(PortfolioError::NoTickers) } else { Ok(chosen) }
}

/// Refuses to trade more tickers than there are.
pub(crate) fn check_pool(pool: &[usize], asked: usize) -> Result<(), PortfolioError> {
    let available = pool.len();
    if asked > available {
        Err(PortfolioError::TooManyTickers { asked, available })
    } else {
        Ok(())
    }
}

/// Returns the positions of the macro tickers to show.
pub(crate) fn choose_macros(panel: &Panel, names: &[String]) -> Result<Vec<usize>, PortfolioError> {
    let mut chosen: Vec<usize> = Vec::new();
    for name in names {
        let ticker = match traded(panel, name) {
            Err(PortfolioError::MacroTicker { .. }) => panel.token(name).unwrap_or(1) as usize - 1,
            Err(error) => return Err(error),
            Ok(_) => return Err(PortfolioError::NotMacro { ticker: name.clone() }),
        };
        named_once("macro_tickers", &chosen, ticker, name)?;
        chosen.push(ticker);
    }
    Ok(chosen)
}

/// Returns the columns and names of the indicators to show: those named, or all.
pub(crate) fn choose_indicators(
    panel: &Panel,
    names: Option<&[String]>,
) -> Result<(Vec<usize>, Vec<String>), PortfolioError> {
    let all = panel.indicators();
    let Some(names) = names else {
        let columns = PriceColumn::ALL.len()..panel.columns().len();
        return Ok((columns.collect(), all.to_vec()));
    };
    let mut columns: Vec<usize> = Vec::new();
    for name in names {
        let Some(at) = all.iter().position(|known| known == name) else {
            let (indicator, known) = (name.clone(), all.to_vec());
            return Err(PortfolioError::UnknownIndicator { indicator, known });
        };
        let column = PriceColumn::ALL.len() + at;
        if columns.contains(&column) {
            return Err(PortfolioError::DuplicateIndicator { indicator: name.clone() });
        }
        columns.push(column);
    }
    Ok((columns, names.to_vec()))
}
