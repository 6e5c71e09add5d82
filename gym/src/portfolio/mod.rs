//! The portfolio environment: portfolios that trade the tickers of a panel day by day.
//!
//! Modules from the bottom up: settings and records (`actions`, `choices`, `margin`, `rewards`,
//! `options`, `option_rules`, `record`, `error`), the
//! padding of buffers (`lines`), the panel as steps read it (`prices`, `table`, `start_days`,
//! `departures`, `selection`, `rules`, `setup`), the money rules (`account`, `stop_loss`, `quotes`,
//! `orders`), the state of all portfolios (`own_prices`, `observation`, `portfolios`), the same for
//! units (`units`) and the environment (`env`).

mod account;
mod actions;
mod choices;
mod departures;
mod env;
mod error;
mod lines;
mod margin;
mod observation;
mod option_rules;
mod options;
mod orders;
mod own_prices;
mod portfolios;
mod prices;
mod quotes;
mod record;
mod rewards;
mod rules;
mod selection;
mod setup;
mod start_days;
mod stop_loss;
mod table;
mod units;

pub use actions::Actions;
pub use choices::{Bidding, Delisting, StopLossDay, StopLossPrice, Valuation};
pub use env::{HeldUnits, PortfolioVectorEnv};
pub use error::PortfolioError;
pub use margin::Margin;
pub use observation::Observation;
pub use options::PortfolioOptions;
pub use record::{EpisodeHistory, PortfolioFill};
pub use rewards::{PortfolioReward, PortfolioSteps, RUIN_FLOOR, Reward};
pub use units::{OrderLimit, StepDetails};
