//! Estimated memory of trading environments, and the check that they fit.

use backcast_core::plumbing::memory_left;
use backcast_sim::{MarketConfig, Matching, OPEN_ORDERS};

use super::{config::TradingEnvConfig, error::TradingError};

/// Maximum number of sub-environments.
const MOST_ENVS: usize = 1 << 20;

/// Smaller requests are not checked, since reading the available memory takes time.
const SMALL: u64 = 64 << 20;

/// Bytes of a sub-environment without its symbols: runner, agent from outside, slot, ledger.
const ENV_BYTES: u64 = 17 << 10;
/// Bytes of a symbol without what is counted below.
const SYMBOL_BYTES: u64 = 4 << 10;
/// Bytes of a price level of a book.
const LEVEL_BYTES: u64 = 8;
/// Bytes of a resting order of a book.
const ORDER_BYTES: u64 = 24;
/// Bytes of an order in a call auction.
const AUCTION_ORDER_BYTES: u64 = 60;
/// Bytes of a background agent, with its account and its places in queues and on the tape.
const AGENT_BYTES: u64 = 220;

/// Returns the approximate bytes of one sub-environment.
pub(super) fn env_bytes(market: &MarketConfig) -> u64 {
    let auctions = market.session.is_on() || matches!(market.matching, Matching::CallAuction(_));
    let order_bytes = ORDER_BYTES + if auctions { AUCTION_ORDER_BYTES } else { 0 };
    let parts = [
        (market.book_levels as u64, LEVEL_BYTES),
        (market.book_orders as u64, order_bytes),
        (market.population.total().into(), AGENT_BYTES),
    ];
    let symbol = parts
        .into_iter()
        .fold(SYMBOL_BYTES, |sum, (count, bytes)| sum.saturating_add(count.saturating_mul(bytes)));
    symbol.saturating_mul(market.symbols.into()).saturating_add(ENV_BYTES)
}

/// Refuses a number of sub-environments that is out of range, or for which there is no memory, the
/// warm snapshots included.
pub(super) fn check_num_envs(
    config: &TradingEnvConfig,
    num_envs: usize,
) -> Result<(), TradingError> {
    if !(1..=MOST_ENVS).contains(&num_envs) {
        return Err(TradingError::BadNumEnvs { num_envs, limit: MOST_ENVS });
    }
    let all = (num_envs as u64).saturating_add(config.warm_snapshots.into());
    if all.saturating_mul(env_bytes(&config.simulation.market)) < SMALL {
        return Ok(());
    }
    check_room(config, num_envs, memory_left().unwrap_or(u64::MAX))
}

/// Refuses more sub-environments than `left` bytes hold. Their parts are allocated one by one, and
/// a failed allocation ends the process.
fn check_room(config: &TradingEnvConfig, num_envs: usize, left: u64) -> Result<(), TradingError> {
    let bytes = env_bytes(&config.simulation.market);
    let limit = (left / bytes).saturating_sub(config.warm_snapshots.into());
    if num_envs as u64 <= limit {
        return Ok(());
    }
    Err(no_room(config, num_envs, limit))
}

/// Refuses more agents in one market than memory is left for, the warm snapshots included.
pub(super) fn check_agents(config: &TradingEnvConfig, agents: usize) -> Result<(), TradingError> {
    let bytes = market_bytes(config, agents);
    let all = u64::from(config.warm_snapshots) + 1;
    if all.saturating_mul(bytes) < SMALL {
        return Ok(());
    }
    check_agents_in(config, agents, memory_left().unwrap_or(u64::MAX))
}

/// Refuses more agents in one market than `left` bytes hold.
fn check_agents_in(
    config: &TradingEnvConfig,
    agents: usize,
    left: u64,
) -> Result<(), TradingError> {
    let bytes = market_bytes(config, agents);
    let snapshots = config.warm_snapshots;
    if left / bytes > u64::from(snapshots) {
        return Ok(());
    }
    let kib_each = bytes.div_ceil(1 << 10);
    Err(TradingError::NoRoom { num_envs: 1, limit: 0, kib_each, snapshots })
}

/// Returns the approximate bytes of a market with `agents` agents from outside.
fn market_bytes(config: &TradingEnvConfig, agents: usize) -> u64 {
    let market = &config.simulation.market;
    let orders = OPEN_ORDERS as u64 * (ORDER_BYTES + AUCTION_ORDER_BYTES);
    let each = ENV_BYTES + u64::from(market.symbols) * (AGENT_BYTES + orders);
    env_bytes(market).saturating_add(each.saturating_mul(agents as u64 - 1))
}

/// Returns the error of `num_envs` sub-environments where memory is left for `limit`.
pub(super) fn no_room(config: &TradingEnvConfig, num_envs: usize, limit: u64) -> TradingError {
    TradingError::NoRoom {
        num_envs,
        limit,
        kib_each: env_bytes(&config.simulation.market).div_ceil(1 << 10),
        snapshots: config.warm_snapshots,
    }
}

#[cfg(test)]
mod tests {
    use backcast_sim::AuctionRule;

    use super::*;

    #[test]
    fn environments_and_snapshots_share_the_memory_that_is_left() {
        let config = TradingEnvConfig { warm_snapshots: 3, ..TradingEnvConfig::default() };
        let bytes = env_bytes(&config.simulation.market);
        assert_eq!(check_room(&config, 7, 10 * bytes), Ok(()));
        for (num_envs, left, limit) in [(8, 10 * bytes, 7), (7, 10 * bytes - 1, 6), (1, 0, 0)] {
            let refused = check_room(&config, num_envs, left).unwrap_err();
            let kib_each = bytes.div_ceil(1 << 10);
            let wanted = TradingError::NoRoom { num_envs, limit, kib_each, snapshots: 3 };
            assert_eq!(refused, wanted);
            for number in [num_envs as u64, limit, kib_each, 3] {
                assert!(refused.to_string().contains(&number.to_string()), "{refused}");
            }
        }
    }

    #[test]
    fn auctions_of_sessions_need_the_memory_of_a_call_auction() {
        let plain = MarketConfig::default();
        let mut days = plain.clone();
        days.session.auction_ticks = 60;
        let mut calls = plain.clone();
        calls.matching = Matching::CallAuction(AuctionRule::default());
        assert!(env_bytes(&days) > env_bytes(&plain));
        assert_eq!(env_bytes(&days), env_bytes(&calls));
    }

    #[test]
    fn agents_of_one_market_and_its_snapshots_share_the_memory_that_is_left() {
        let config = TradingEnvConfig { warm_snapshots: 3, ..TradingEnvConfig::default() };
        let bytes = market_bytes(&config, 100);
        assert!(bytes > market_bytes(&config, 1) + 99 * ENV_BYTES);
        assert_eq!(market_bytes(&config, 1), env_bytes(&config.simulation.market));
        assert_eq!(check_agents_in(&config, 100, 4 * bytes), Ok(()));
        let refused = check_agents_in(&config, 100, 4 * bytes - 1);
        assert!(matches!(refused, Err(TradingError::NoRoom { snapshots: 3, .. })), "{refused:?}");
    }

    #[test]
    fn more_than_the_maximum_and_none_are_refused_before_memory_is_looked_at() {
        let config = TradingEnvConfig::default();
        for num_envs in [0, MOST_ENVS + 1, usize::MAX] {
            let refused = TradingError::BadNumEnvs { num_envs, limit: MOST_ENVS };
            assert_eq!(check_num_envs(&config, num_envs), Err(refused));
        }
    }
}
