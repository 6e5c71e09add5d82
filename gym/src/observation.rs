//! What an agent sees, as one buffer per field for all sub-environments.

/// Observations of `N` environments with `T` tickers and `K` indicators, C order.
///
/// Safe by construction: of day `d` it holds the open and nothing else.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    /// Day of the panel, `[N]`.
    pub day: Vec<i32>,
    /// Cash, `[N]`; never below 0.
    pub cash: Vec<f64>,
    /// Shares held, `[N, T]`.
    pub shares: Vec<i32>,
    /// Average price paid per share held, fee included, `[N, T]`; 0 without shares.
    pub avg_buy_price: Vec<f64>,
    /// Cash plus holdings valued at the open of `day` (a ticker without a row: at its last close), `[N]`.
    pub total_asset: Vec<f64>,
    /// Open of `day`, `[N, T]`; 0 where the ticker has no row and cannot be traded that day.
    pub open: Vec<f64>,
    /// Indicators of `day - indicator_lag`, `[N, T, K]`, in the panel's order; 0 without a row.
    pub indicators: Vec<f64>,
}

impl Observation {
    /// Zeros for `n` environments; `None` where memory does not suffice.
    pub(crate) fn zeros(n: usize, tickers: usize, indicators: usize) -> Option<Self> {
        let per_ticker = n.checked_mul(tickers)?;
        Some(Self {
            day: zeros(n)?,
            cash: zeros(n)?,
            shares: zeros(per_ticker)?,
            avg_buy_price: zeros(per_ticker)?,
            total_asset: zeros(n)?,
            open: zeros(per_ticker)?,
            indicators: zeros(per_ticker.checked_mul(indicators)?)?,
        })
    }

    /// Copy one environment's observation from another batch of the same shape.
    pub(crate) fn copy_env(&mut self, from: &Self, env: usize) {
        let envs = self.day.len();
        copy_row(&mut self.day, &from.day, env, envs);
        copy_row(&mut self.cash, &from.cash, env, envs);
        copy_row(&mut self.shares, &from.shares, env, envs);
        copy_row(&mut self.avg_buy_price, &from.avg_buy_price, env, envs);
        copy_row(&mut self.total_asset, &from.total_asset, env, envs);
        copy_row(&mut self.open, &from.open, env, envs);
        copy_row(&mut self.indicators, &from.indicators, env, envs);
    }
}

fn copy_row<V: Copy>(to: &mut [V], from: &[V], env: usize, envs: usize) {
    let width = to.len() / envs;
    let row = env * width..(env + 1) * width;
    to[row.clone()].copy_from_slice(&from[row]);
}

/// A zeroed buffer, or `None` where memory does not suffice.
pub(crate) fn zeros<V: Clone + Default>(len: usize) -> Option<Vec<V>> {
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(len).ok()?;
    buffer.resize(len, V::default());
    Some(buffer)
}
