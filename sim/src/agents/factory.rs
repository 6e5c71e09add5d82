//! Builds the background agents of one symbol.

use super::Agents;
use crate::{config::Population, ledger::Ledger};

/// Builds the background agents of a market from its population.
#[derive(Clone, Copy, Debug)]
pub struct AgentFactory {
    population: Population,
}

impl AgentFactory {
    /// Creates a factory for one population.
    #[must_use]
    pub const fn new(population: &Population) -> Self {
        Self { population: *population }
    }

    /// Returns the population.
    #[must_use]
    pub const fn population(&self) -> &Population {
        &self.population
    }

    /// Opens an account for every agent of `symbol` and returns the agents, not yet seeded.
    pub(crate) fn spawn(&self, symbol: u16, ledger: &mut Ledger) -> Agents {
        let agents = Agents::new(&self.population, symbol, ledger.accounts() as u16);
        for account in agents.accounts() {
            let opened = ledger.open_local(symbol, self.population.limits);
            debug_assert_eq!(opened, account);
        }
        agents
    }
}
