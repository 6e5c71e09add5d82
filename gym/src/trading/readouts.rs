//! Readouts of the settings, which the single, the vector and the multi-agent environment share.

use backcast_sim::Feature;

use super::{
    config::TradingEnvConfig, multi_agent::MultiAgentTradingEnv, trading_env::TradingEnv,
    vector_env::TradingVectorEnv,
};

macro_rules! readouts {
    ($($env:ident),+) => {$(
        impl $env {
            /// Returns the number of elements of the observation of one agent, `F`.
            #[must_use]
            pub fn observation_size(&self) -> usize {
                self.setup.layout.size()
            }

            /// Returns the entries of an observation: symbol, and name, unit and bounds.
            pub fn observation_entries(&self) -> impl Iterator<Item = (u16, &'static Feature)> {
                self.setup.layout.entries()
            }

            /// Returns the settings.
            #[must_use]
            pub fn config(&self) -> &TradingEnvConfig {
                &self.setup.config
            }
        }
    )+};
}

readouts!(TradingEnv, TradingVectorEnv, MultiAgentTradingEnv);
