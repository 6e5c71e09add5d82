//! Transitions of the windows of a batch, for returns.

use ndarray::{ArrayViewD, Axis as NdAxis};

use super::batch::Batch;
use crate::error::BatchError;
use crate::returns::{Real, ReturnSteps};

/// Rewards and ends of the windows of a batch, `[B, T]` in C order. A window joins history and
/// future, so `T` is `H + F`, or `1 + F` without a history window. A ragged batch of whole episodes
/// is one window of all its `N` transitions, in which the last one of each episode counts as
/// truncated: no sum passes from one episode to another. A block of rollouts, `[T, N]`, has a
/// window for each of its columns: these are `[N, T]`, and so are the values that go with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowSteps<T> {
    steps: usize,
    rewards: Vec<T>,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
    mask: Vec<bool>,
}

impl Batch {
    /// Returns rewards, ends and masks of the windows of this batch. `reward` must be a
    /// column of one `T` a row. `reward`, `terminated` and `truncated` must have the longest
    /// window of the batch.
    pub fn window_steps<T: Real>(&self) -> Result<WindowSteps<T>, BatchError> {
        let rewards = self.joined::<T>("reward")?;
        let ends = self.episode_ends();
        let windows = match self.plan().columns() {
            Some(columns) => columns,
            None if ends.is_empty() => self.len(),
            None => 1,
        };
        let steps = rewards.len() / windows.max(1);
        let all = |key: &str| self.column::<bool>(key).ok();
        let drawn = || vec![true; self.len()];
        let mask = match (all("mask"), all("future_mask")) {
            (None, None) => drawn(),
            (Some(mask), None) => self.by_window(mask),
            (mask, Some(future)) => {
                let mask = mask.map_or_else(drawn, |mask| mask.iter().copied().collect());
                let after: Vec<bool> = future.iter().copied().collect();
                interleaved(self.len(), &mask, &after)
            }
        };
        let (terminated, mut truncated) = (self.joined("terminated")?, self.joined("truncated")?);
        for last in ends {
            if let Some(truncated) = truncated.get_mut(last) {
                *truncated = true;
            }
        }
        Ok(WindowSteps { steps, rewards, terminated, truncated, mask })
    }

    /// Returns the places of the last transition of each episode of a ragged batch; none for
    /// another batch.
    fn episode_ends(&self) -> Vec<usize> {
        if !self.plan().is_ragged() {
            return Vec::new();
        }
        let offsets = self.column::<i64>("offsets").into_iter().flatten().skip(1);
        offsets.filter_map(|end| usize::try_from(end - 1).ok()).collect()
    }

    /// Returns the elements of an array, window by window.
    fn by_window<T: Copy>(&self, view: ArrayViewD<'_, T>) -> Vec<T> {
        let view = if self.plan().columns().is_some() { view.reversed_axes() } else { view };
        view.iter().copied().collect()
    }

    /// Returns history and future of a column of single numbers, `[B, T]`.
    fn joined<T: crate::Element + Copy>(&self, key: &str) -> Result<Vec<T>, BatchError> {
        let flat = |view: ArrayViewD<'_, T>| view.iter().copied().collect::<Vec<T>>();
        let now = self.by_window(self.column(key)?);
        let Ok(after) = self.column::<T>(&format!("future/{key}")) else { return Ok(now) };
        debug_assert_eq!(after.len_of(NdAxis(0)), self.len());
        Ok(interleaved(self.len(), &now, &flat(after)))
    }
}

/// Joins the windows of two arrays, item by item.
fn interleaved<T: Copy>(items: usize, first: &[T], second: &[T]) -> Vec<T> {
    let (a, b) = (first.len() / items.max(1), second.len() / items.max(1));
    let pairs = first.chunks(a.max(1)).zip(second.chunks(b.max(1)));
    pairs.flat_map(|(first, second)| first.iter().chain(second).copied()).collect()
}

impl<T: Real> WindowSteps<T> {
    /// Returns the number of transitions of a window, `T`; for a ragged batch that of all, `N`.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Returns whether each place holds a transition, `[B, T]`.
    #[must_use]
    pub fn mask(&self) -> &[bool] {
        &self.mask
    }

    /// Returns the transitions with the values of the observations after them, `[B, T]`, for
    /// [`gae`](crate::gae) and [`lambda_returns`](crate::lambda_returns).
    #[must_use]
    pub fn with<'a>(&'a self, next_values: Option<&'a [T]>) -> ReturnSteps<'a, T> {
        let Self { steps, rewards, terminated, truncated, mask } = self;
        let (steps, mask) = (*steps, Some(&mask[..]));
        ReturnSteps { steps, rewards, next_values, terminated, truncated, mask }
    }
}
