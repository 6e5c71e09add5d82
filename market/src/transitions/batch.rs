//! Some transitions, column by column: on their way into a ring, or out of it.

use backcast_core::GatherTarget;

use super::columns::{
    ACTION, AVG_BUY_PRICE, CASH, DAY, ENDS, ENV_ID, REWARD, SHARES, TOKENS, TransitionShape,
};

/// Flips in the number of an environment where its episode was terminated and truncated in one step: two flags, done and
/// terminal, cannot say so, and rings and files of earlier versions have these two. Numbers of environments are far
/// smaller, so that this bit equals the sign.
const BOTH: i32 = 1 << 30;

/// How a transition ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransitionOutcome {
    /// The episode was over, as its adder said.
    pub done: bool,
    /// It ended by what happened in it. No value follows.
    pub terminated: bool,
    /// The data, or the steps allowed, ended. The next state has a value.
    pub truncated: bool,
}

/// `N` transitions. Where an axis of 2 stands, the state comes first and the next state second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TransitionBatch {
    /// Which environment of the batch it was, `[N]`, from -2^30 up to 2^30; read with [`env_id`](Self::env_id).
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
    /// Done and terminal, 0 or 1, `[N, 2]`; read with [`outcome`](Self::outcome), which knows more.
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

    /// Is there memory for `n` transitions? Takes it then.
    pub(crate) fn try_reserve(&mut self, n: usize, shape: &TransitionShape) -> bool {
        fn room<V>(list: &mut Vec<V>, n: usize, width: usize) -> bool {
            let len = n.checked_mul(width);
            len.is_some_and(|len| list.try_reserve_exact(len.saturating_sub(list.len())).is_ok())
        }
        let tickers = shape.tickers;
        room(&mut self.env_ids, n, 1)
            && room(&mut self.days, n, 2)
            && room(&mut self.tokens, n, tickers)
            && room(&mut self.cash, n, 2)
            && room(&mut self.shares, n, 2 * tickers)
            && room(&mut self.avg_buy_prices, n, 2 * tickers)
            && room(&mut self.actions, n, shape.action_len())
            && room(&mut self.rewards, n, shape.objectives)
            && room(&mut self.ends, n, 2)
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

    /// Returns the columns as targets of a gather.
    pub(crate) fn targets(&mut self) -> [GatherTarget<'_>; ENDS] {
        self.columns_mut().map(|(column, out)| GatherTarget { column, out })
    }

    /// Which environment of the batch a transition is of.
    #[must_use]
    pub fn env_id(&self, at: usize) -> i32 {
        let id = self.env_ids[at];
        if is_both(id) { id ^ BOTH } else { id }
    }

    /// How a transition ended.
    #[must_use]
    pub fn outcome(&self, at: usize) -> TransitionOutcome {
        let [done, truncated] = [self.ends[at * 2], self.ends[at * 2 + 1]].map(|flag| flag != 0);
        let terminated = done && (!truncated || is_both(self.env_ids[at]));
        TransitionOutcome { done, terminated, truncated }
    }

    /// Notes how a transition ended. One that is done and not truncated was terminated.
    pub fn set_outcome(&mut self, at: usize, outcome: TransitionOutcome) {
        let TransitionOutcome { done, terminated, truncated } = outcome;
        let id = self.env_id(at);
        self.env_ids[at] = if done && terminated && truncated { id ^ BOTH } else { id };
        self.ends[at * 2] = u8::from(done);
        self.ends[at * 2 + 1] = u8::from(truncated);
    }

    /// Day of the state and of the next state.
    #[must_use]
    pub fn days_of(&self, at: usize) -> [i32; 2] {
        [self.days[at * 2], self.days[at * 2 + 1]]
    }
}

/// Does this number say that an episode was terminated and truncated at once?
fn is_both(id: i32) -> bool {
    (id < 0) != (id & BOTH != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_read_as_written_and_those_of_earlier_versions_by_done_and_terminal() {
        let shape = TransitionShape { tickers: 1, action: vec![1], objectives: 1 };
        let mut batch = TransitionBatch::zeros(1, &shape);
        for (terminated, truncated) in [(false, false), (true, false), (false, true), (true, true)]
        {
            let outcome =
                TransitionOutcome { done: terminated || truncated, terminated, truncated };
            for id in [0, 7, (1 << 30) - 1, -1, -(1 << 30)] {
                batch.env_ids[0] = id;
                batch.set_outcome(0, outcome);
                batch.set_outcome(0, outcome);
                assert_eq!((batch.outcome(0), batch.env_id(0)), (outcome, id));
            }
        }
        batch.env_ids[0] = 3;
        for (ends, terminated, truncated) in
            [([0, 0], false, false), ([1, 0], true, false), ([1, 1], false, true)]
        {
            batch.ends = ends.to_vec();
            let done = ends[0] == 1;
            assert_eq!(batch.outcome(0), TransitionOutcome { done, terminated, truncated });
        }
    }
}
