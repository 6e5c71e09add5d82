//! A batch of transitions, column by column, to be added to a ring or read from it.

use backcast_core::GatherTarget;

use super::columns::{
    ACTION, AVG_BUY_PRICE, CASH, DAY, ENDS, ENV_ID, REWARD, SHARES, TOKENS, TransitionShape,
};

/// Bit of the environment's number that is flipped if a step both terminated and truncated the
/// episode. Rings and files of earlier versions have only the flags done and terminal, which cannot
/// express this. Numbers of environments are small, so the bit otherwise equals the sign bit.
const BOTH: i32 = 1 << 30;

/// End of the episode at a transition, if it ended there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransitionOutcome {
    /// Whether the adding process reported that the episode was over.
    pub done: bool,
    /// Whether the MDP ended: no value follows.
    pub terminated: bool,
    /// Whether a limit from outside ended the episode, such as the end of the data. The next state
    /// has a value.
    pub truncated: bool,
}

/// `N` transitions. An axis of 2 holds the state, then the next state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TransitionBatch {
    /// Number of the environment, `[N]`, within `-2^30..2^30`; read with [`env_id`](Self::env_id).
    pub env_ids: Vec<i32>,
    /// Positions in [`Panel::dates`](crate::Panel::dates), `[N, 2]`.
    pub days: Vec<i32>,
    /// Tokens of the portfolio's tickers, from [`Panel::token`](crate::Panel::token), `[N, T]`.
    pub tokens: Vec<u16>,
    /// Cash in currency units, `[N, 2]`.
    pub cash: Vec<f32>,
    /// Shares held, `[N, 2, T]`.
    pub shares: Vec<i32>,
    /// Average price per share with fees, 0 without shares, `[N, 2, T]`.
    pub avg_buy_prices: Vec<f32>,
    /// Actions, `[N, ...]`.
    pub actions: Vec<f32>,
    /// Rewards, `[N, objectives]`.
    pub rewards: Vec<f32>,
    /// Flags done and terminal, 0 or 1, `[N, 2]`. Terminal means that a limit from outside ended
    /// the episode. [`outcome`](Self::outcome) reads them, and also decodes steps that both
    /// terminated and truncated.
    pub ends: Vec<u8>,
}

impl TransitionBatch {
    /// Returns `n` transitions of zeros.
    #[must_use]
    pub fn zeros(n: usize, shape: &TransitionShape) -> Self {
        let mut batch = Self::default();
        batch.resize(n, shape);
        batch
    }

    /// Resizes the batch to `n` transitions; new ones are zero.
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

    /// Allocates memory for `n` transitions. Returns whether that succeeded.
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

    /// Returns the number of transitions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.env_ids.len()
    }

    /// Returns whether there are no transitions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.env_ids.is_empty()
    }

    /// Returns the bytes of the columns in order, without `position`, which the ring sets.
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

    /// Returns the mutable bytes of the columns in order, with the number of each column.
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

    /// Returns the number of a transition's environment.
    #[must_use]
    pub fn env_id(&self, at: usize) -> i32 {
        let id = self.env_ids[at];
        if is_both(id) { id ^ BOTH } else { id }
    }

    /// Returns how a transition ended.
    #[must_use]
    pub fn outcome(&self, at: usize) -> TransitionOutcome {
        let [done, truncated] = [self.ends[at * 2], self.ends[at * 2 + 1]].map(|flag| flag != 0);
        let terminated = done && (!truncated || is_both(self.env_ids[at]));
        TransitionOutcome { done, terminated, truncated }
    }

    /// Sets how a transition ended. One that is done and not truncated counts as terminated.
    pub fn set_outcome(&mut self, at: usize, outcome: TransitionOutcome) {
        let TransitionOutcome { done, terminated, truncated } = outcome;
        let id = self.env_id(at);
        self.env_ids[at] = if done && terminated && truncated { id ^ BOTH } else { id };
        self.ends[at * 2] = u8::from(done);
        self.ends[at * 2 + 1] = u8::from(truncated);
    }

    /// Returns the days of the state and of the next state.
    #[must_use]
    pub fn days_of(&self, at: usize) -> [i32; 2] {
        [self.days[at * 2], self.days[at * 2 + 1]]
    }
}

/// Returns whether this number marks a step that both terminated and truncated its episode.
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
