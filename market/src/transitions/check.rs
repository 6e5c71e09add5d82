//! Checks of transitions before the first row is written: lengths, days, tokens, and finite floats.

use super::{batch::TransitionBatch, columns::TransitionShape, error::TransitionError};
use crate::panel::Panel;

/// Refuses a batch that does not fit the ring or the panel, or holds a float that is not finite.
pub(crate) fn check(
    batch: &TransitionBatch,
    shape: &TransitionShape,
    panel: &Panel,
) -> Result<(), TransitionError> {
    let n = batch.len();
    let lengths = [
        ("days", batch.days.len(), 2),
        ("tokens", batch.tokens.len(), shape.tickers),
        ("cash", batch.cash.len(), 2),
        ("shares", batch.shares.len(), 2 * shape.tickers),
        ("avg_buy_price", batch.avg_buy_prices.len(), 2 * shape.tickers),
        ("actions", batch.actions.len(), shape.action_len()),
        ("rewards", batch.rewards.len(), shape.objectives),
        ("dones", batch.ends.len(), 2),
    ];
    for (what, got, width) in lengths {
        let expected = n * width;
        if got != expected {
            return Err(TransitionError::WrongLength { what, got, expected, transitions: n });
        }
    }
    check_days(&batch.days, panel)?;
    check_tokens(&batch.tokens, shape.tickers, panel)?;
    for (what, numbers, width) in [
        ("cash", &batch.cash, 2),
        ("avg_buy_price", &batch.avg_buy_prices, 2 * shape.tickers),
        ("action", &batch.actions, shape.action_len()),
        ("reward", &batch.rewards, shape.objectives),
    ] {
        // Tests all numbers without a branch for each, so that the loop is vectorised.
        if numbers.iter().fold(true, |finite, number| finite & number.is_finite()) {
            continue;
        }
        let at = numbers.iter().position(|number| !number.is_finite()).unwrap_or(0);
        return Err(TransitionError::NotFinite { what, env: at / width, value: numbers[at] });
    }
    Ok(())
}

/// Refuses days outside the panel.
pub(crate) fn check_days(days: &[i32], panel: &Panel) -> Result<(), TransitionError> {
    let last = panel.days() - 1;
    let outside = |day: &i32| usize::try_from(*day).map_or(true, |day| day > last);
    days.iter().position(outside).map_or(Ok(()), |at| {
        let what = if at % 2 == 0 { "state" } else { "next state" };
        Err(TransitionError::BadDay { what, env: at / 2, day: days[at], last })
    })
}

/// Refuses tokens that are no ticker of the panel, and tickers that occur twice in a portfolio.
pub(crate) fn check_tokens(
    tokens: &[u16],
    tickers: usize,
    panel: &Panel,
) -> Result<(), TransitionError> {
    let last = panel.tickers().len();
    let mut before: &[u16] = &[];
    let mut seen = Vec::new();
    for (env, tokens) in tokens.chunks_exact(tickers.max(1)).enumerate() {
        // Most portfolios have the same tickers as the one before.
        if tokens == before {
            continue;
        }
        before = tokens;
        seen.clear();
        seen.resize(last + 1, false);
        for &token in tokens {
            if token == 0 || usize::from(token) > last {
                return Err(TransitionError::BadToken { env, token, last });
            }
            if std::mem::replace(&mut seen[usize::from(token)], true) {
                let name = panel.ticker_of(token.into()).unwrap_or_default().to_owned();
                return Err(TransitionError::TwiceTheTicker { env, name });
            }
        }
    }
    Ok(())
}
