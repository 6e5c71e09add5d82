//! Some transitions, column by column: on their way into a ring, or out of it.

use backcast_core::Pick;

use super::columns::{
    ACTION, AVG_BUY_PRICE, CASH, DAY, ENDS, ENV_ID, REWARD, SHARES, TOKENS, TransitionShape,
};

/// `N` transitions. Where an axis of 2 stands, the state comes first and the next state second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TransitionBatch {
    /// Which environment of the batch it was, `[N]`.
    pub env_ids: Vec<i32>,
    /// Positions in [`Panel::dates`](crate::Panel::dates), `[N, 2]`.
    pub days: Vec<i32>,
    /// Of the portfolio's tickers, as [`Panel::token`](crate::Panel::token), `[N, T]`.
    pub tokens: Vec<u16>,
    /// Currency units, `[N, 2]`.
    pub cash: Vec<f32>,
    /// `[N, 2, T]`.
    pub shares: Vec<i32>,
    /// Per share with fees, 0 without shares, `[N, 2, T]`.
    pub avg_buy_prices: Vec<f32>,
    /// `[N, ...]`.
    pub actions: Vec<f32>,
    /// `[N, objectives]`.
    pub rewards: Vec<f32>,
    /// Done and terminal, 0 or 1, `[N, 2]`.
    pub ends: Vec<u8>,
}

impl TransitionBatch {
    /// `n` transitions of zeros.
    #[must_use]
    pub fn zeros(n: usize, shape: &TransitionShape) -> Self {
        let mut batch = Self::default();
        batch.resize(n, shape);
        batch
    }

    /// Room for `n` transitions; what new places hold is zero.
    pub fn resize(&mut self, n: usize, shape: &TransitionShape) {
        let tickers = shape.tickers;
        self.env_ids.resize(n, 0);
        self.days.resize(n * 2, 0);
        self.tokens.resize(n * tickers, 0);
        self.cash.resize(n * 2, 0.0);
        self.shares.resize(n * 2 * tickers, 0);
        self.avg_buy_prices.resize(n * 2 * tickers, 0.0);
        self.actions.resize(n * shape.action_len(), 0.0);
        self.rewards.resize(n * shape.objectives, 0.0);
        self.ends.resize(n * 2, 0);
    }

    /// Transitions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.env_ids.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.env_ids.is_empty()
    }

    /// Their bytes, in the order of columns; `position`, which is the ring's, is left out.
    pub(crate) fn columns(&self) -> [&[u8]; ENDS] {
        [
            bytemuck::cast_slice(&self.env_ids),
            bytemuck::cast_slice(&self.days),
            bytemuck::cast_slice(&self.tokens),
            bytemuck::cast_slice(&self.cash),
            bytemuck::cast_slice(&self.shares),
            bytemuck::cast_slice(&self.avg_buy_prices),
            bytemuck::cast_slice(&self.actions),
            bytemuck::cast_slice(&self.rewards),
            &self.ends,
        ]
    }

    /// The same, to be filled, with the number of the column.
    pub(crate) fn columns_mut(&mut self) -> [(usize, &mut [u8]); ENDS] {
        [
            (ENV_ID, bytemuck::cast_slice_mut(&mut self.env_ids)),
            (DAY, bytemuck::cast_slice_mut(&mut self.days)),
            (TOKENS, bytemuck::cast_slice_mut(&mut self.tokens)),
            (CASH, bytemuck::cast_slice_mut(&mut self.cash)),
            (SHARES, bytemuck::cast_slice_mut(&mut self.shares)),
            (AVG_BUY_PRICE, bytemuck::cast_slice_mut(&mut self.avg_buy_prices)),
            (ACTION, bytemuck::cast_slice_mut(&mut self.actions)),
            (REWARD, bytemuck::cast_slice_mut(&mut self.rewards)),
            (ENDS, &mut self.ends),
        ]
    }

    pub(crate) fn picks(&mut self) -> [Pick<'_>; ENDS] {
        self.columns_mut().map(|(column, out)| Pick { column, out })
    }

    /// Day of the state and of the next state.
    #[must_use]
    pub fn days_of(&self, at: usize) -> [i32; 2] {
        [self.days[at * 2], self.days[at * 2 + 1]]
    }
}
