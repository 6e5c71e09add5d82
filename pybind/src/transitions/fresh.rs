//! A private ring that holds nothing takes the sizes of its first batch, or of the file that is loaded.

use std::path::Path;

use backcast_market::{TransitionOptions, TransitionRing as CoreRing, TransitionShape};

use super::{State, TransitionRing};
use crate::error::Failure;
use crate::states::{Arguments, sizes_of};

/// How a private ring that holds nothing is made anew, for transitions of other sizes.
pub(super) struct Fresh {
    pub(super) options: TransitionOptions,
    /// The caller said them.
    pub(super) action: bool,
    pub(super) objectives: bool,
}

impl TransitionRing {
    /// Make a private ring that holds nothing anew where the first batch has other sizes.
    pub(super) fn fit(
        &self,
        state: &mut State,
        arguments: &Arguments<'_, '_>,
    ) -> Result<(), Failure> {
        if state.fresh.is_none() {
            return Ok(());
        }
        let (tickers, objectives) = sizes_of(arguments)?;
        self.resize(state, tickers, objectives)
    }

    /// The same for what a file holds.
    pub(super) fn fit_file(&self, state: &mut State, path: &Path) -> Result<(), Failure> {
        let TransitionShape { tickers, objectives, .. } = CoreRing::saved_shape(path)?;
        self.resize(state, tickers, objectives)
    }

    /// Of so many tickers and objectives, but where the caller said otherwise.
    fn resize(&self, state: &mut State, tickers: usize, objectives: usize) -> Result<(), Failure> {
        let Some(fresh) = &state.fresh else { return Ok(()) };
        let wanted = TransitionShape {
            tickers,
            action: if fresh.action { state.shape.action.clone() } else { vec![tickers] },
            objectives: if fresh.objectives { state.shape.objectives } else { objectives },
        };
        if wanted == state.shape {
            return Ok(());
        }
        let (panel, options) = (self.panel.get()?, fresh.options.clone());
        let made = self.ring.with(|ring| {
            // Another thread may have added since somebody cleared it.
            if !ring.is_empty()? {
                return Ok(false);
            }
            *ring = CoreRing::create(panel, wanted.clone(), options)?;
            Ok(true)
        })?;
        if made {
            state.shape = wanted;
        } else {
            state.empty = false;
        }
        Ok(())
    }
}
