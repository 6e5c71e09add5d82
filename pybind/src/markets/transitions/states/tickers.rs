//! Tickers of portfolios in states, by name or by token. Both states must agree.

use std::collections::HashMap;

use backcast_core::plumbing::closest_name;
use backcast_market::Panel;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::{ArgumentNames, Arguments, Field, PER_TICKER, Subject, missing};
use crate::argument::{found, shown};
use crate::error::{ErrorClass, Failure};

/// Cache of the tokens of lists of names, which are the same in most steps.
#[derive(Default)]
pub(crate) struct TickerLists {
    /// Private copy of the last lists, and their tokens.
    last: Option<(Py<PyList>, Vec<u16>)>,
    tokens: HashMap<String, u16>,
    /// Memory for the tokens of next states.
    arrived: Vec<u16>,
}

impl TickerLists {
    pub(crate) fn new(panel: &Panel) -> Self {
        let names = panel.tickers().iter().zip(1..).map(|(name, token)| (name.clone(), token));
        Self { last: None, tokens: names.collect(), arrived: Vec::new() }
    }

    /// Reads the tokens of the portfolios, `[n, width]`, on which both states must agree.
    pub(super) fn read_both(
        &mut self,
        arguments: &Arguments<'_, '_>,
        each: [usize; 2],
        out: &mut [u16],
    ) -> Result<(), Failure> {
        let Arguments { called, states, next_states: next, .. } = *arguments;
        if !self.portfolios(states, called.states, called, each, out)? {
            return Err(missing(states, "tickers", called.states));
        }
        // Both states of an environment share their lists, so there is nothing to compare.
        let named_by =
            if next.contains(intern!(next.py(), "tokens"))? { "tokens" } else { "tickers" };
        if share(states, next, named_by)? {
            return Ok(());
        }
        let mut arrived = std::mem::take(&mut self.arrived);
        arrived.resize(out.len(), 0);
        let there = self.portfolios(next, called.next_states, called, each, &mut arrived)?;
        if there && arrived != out {
            return Err(self.other_portfolio(called, each[1], out, &arrived));
        }
        self.arrived = arrived;
        Ok(())
    }

    /// Reads the tokens of the portfolios of `state`, `[n, width]`, from its tokens or its names.
    /// Returns whether it has either.
    fn portfolios(
        &mut self,
        state: &Bound<'_, PyDict>,
        which: &'static str,
        called: ArgumentNames,
        each: [usize; 2],
        out: &mut [u16],
    ) -> Result<bool, Failure> {
        let py = state.py();
        if let Some(tokens) = state.get_item(intern!(py, "tokens"))? {
            let tokens = Field::of(&tokens, Subject::Entry(which, intern!(py, "tokens")))?;
            tokens.expect(&each, PER_TICKER, called)?;
            let mut wide = vec![0; out.len()];
            tokens.wholes(&mut wide, each[1], each[1], 0)?;
            for (token, wide) in out.iter_mut().zip(wide) {
                // Other numbers become 0, which is refused later.
                *token = u16::try_from(wide).unwrap_or(0);
            }
            return Ok(true);
        }
        let Some(tickers) = state.get_item(intern!(py, "tickers"))? else { return Ok(false) };
        self.read(&tickers, which, each, out)?;
        Ok(true)
    }

    /// Returns the error of the first transition whose two states hold different tickers.
    fn other_portfolio(
        &self,
        called: ArgumentNames,
        width: usize,
        tokens: &[u16],
        arrived: &[u16],
    ) -> Failure {
        let pairs = || tokens.chunks_exact(width).zip(arrived.chunks_exact(width));
        let at = pairs().position(|(before, after)| before != after).unwrap_or(0);
        let name = |token: &u16| {
            let known = self.tokens.iter().find(|(_, known)| *known == token);
            known.map_or_else(|| format!("token {token}"), |(name, _)| format!("'{name}'"))
        };
        let [before, after] = [tokens, arrived].map(|tokens| {
            let portfolio = tokens.chunks_exact(width).nth(at).unwrap_or_default();
            portfolio.iter().map(name).collect::<Vec<_>>().join(", ")
        });
        let env = if called.alone { String::new() } else { format!(" of environment {at}") };
        let (states, next) = (called.states, called.next_states);
        Failure::new(
            ErrorClass::Append,
            format!(
                "{next}{env} holds [{after}] and {states} [{before}]; give two states of one \
                 episode, and of its last step the state before the reset (final_obs)"
            ),
        )
    }

    /// Reads the tokens of `tickers`, a list of lists, `[n, width]`.
    fn read(
        &mut self,
        tickers: &Bound<'_, PyAny>,
        which: &str,
        [n, width]: [usize; 2],
        out: &mut [u16],
    ) -> Result<(), Failure> {
        let py = tickers.py();
        if let Some((last, tokens)) = &self.last
            && tokens.len() == out.len()
            // Comparing arrays raises, and then they are read again.
            && tickers.eq(last).unwrap_or(false)
        {
            out.copy_from_slice(tokens);
            return Ok(());
        }
        let names: Option<Vec<Vec<String>>> = found(tickers.py(), tickers.extract())?;
        let Some(names) = names else {
            let shown = shown(tickers)?;
            let message =
                format!("{which}['tickers'] is {shown}; give a list of names per environment");
            return Err(Failure::new(ErrorClass::Append, message));
        };
        if let Some(odd) = names.iter().find(|names| names.len() != width)
            && names.len() == n
        {
            let message = format!(
                "{which}['tickers'] has a list of {} names; give {width}, one per column of shares",
                odd.len()
            );
            return Err(Failure::new(ErrorClass::Append, message));
        }
        if names.len() != n {
            let message = format!(
                "{which}['tickers'] has {} lists; give {n}, one per environment",
                names.len()
            );
            return Err(Failure::new(ErrorClass::Append, message));
        }
        for (name, token) in names.iter().flatten().zip(out.iter_mut()) {
            *token = *self.tokens.get(name).ok_or_else(|| self.unknown(name, which))?;
        }
        // The copies hold the same string objects, so that later comparisons compare pointers.
        let lists = tickers
            .try_iter()?
            .map(|names| PyList::new(py, names?.try_iter()?.collect::<PyResult<Vec<_>>>()?));
        let lists = lists.collect::<PyResult<Vec<_>>>()?;
        self.last = Some((PyList::new(py, lists)?.unbind(), out.to_vec()));
        Ok(())
    }

    fn unknown(&self, name: &str, which: &str) -> Failure {
        let near = closest_name(name, self.tokens.keys().map(String::as_str));
        let hint = near.map_or_else(String::new, |near| format!(" (it has '{near}')"));
        Failure::new(
            ErrorClass::Append,
            format!(
                "{which}['tickers'] names '{name}', which the panel lacks{hint}; give states of an \
                 environment on the buffer's panel"
            ),
        )
    }
}

/// Returns whether both states hold the same object.
fn share(states: &Bound<'_, PyDict>, next: &Bound<'_, PyDict>, key: &str) -> PyResult<bool> {
    Ok(states.get_item(key)?.zip(next.get_item(key)?).is_some_and(|(one, other)| one.is(&other)))
}
