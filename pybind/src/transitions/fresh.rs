//! A private ring that holds nothing takes the sizes of its first batch, or of the file that is loaded.

use std::path::Path;

use backcast_market::{
    TransitionBatch, TransitionError, TransitionOptions, TransitionRing as CoreRing,
    TransitionShape,
};

use super::TransitionRing;
use crate::error::Failure;

/// How a private ring that holds nothing is made anew, for transitions of other sizes.
pub(super) struct Fresh {
    pub(super) options: TransitionOptions,
    /// The caller said them.
    pub(super) action: bool,
    pub(super) objectives: bool,
}

impl Fresh {
    /// Sizes for so many tickers and objectives, but where the caller said otherwise, or where they are none.
    pub(super) fn shape(
        &self,
        now: &TransitionShape,
        tickers: usize,
        objectives: usize,
    ) -> TransitionShape {
        let tickers = if tickers == 0 { now.tickers } else { tickers };
        let said = self.objectives || objectives == 0;
        TransitionShape {
            tickers,
            action: if self.action { now.action.clone() } else { vec![tickers] },
            objectives: if said { now.objectives } else { objectives },
        }
    }
}

impl TransitionRing {
    /// Add to a ring of these sizes, which takes the place of a private one that holds nothing once it has taken
    /// the batch. `false` where this one has others: another thread was first.
    pub(super) fn add_to(
        &self,
        ring: &mut CoreRing,
        shape: &TransitionShape,
        batch: &TransitionBatch,
    ) -> Result<bool, Failure> {
        let added = if ring.shape() == shape {
            ring.add(batch)?;
            true
        } else if let Some(fresh) = &self.fresh
            && ring.is_empty()?
        {
            let mut made =
                CoreRing::create(ring.panel().clone(), shape.clone(), fresh.options.clone())?;
            made.add(batch)?;
            *ring = made;
            true
        } else {
            false
        };
        self.holds(ring);
        Ok(added)
    }

    /// Load into a ring of the file's sizes, which takes the place of a private one that holds nothing once it has
    /// loaded it.
    pub(super) fn load_from(&self, ring: &mut CoreRing, path: &Path) -> Result<(), Failure> {
        match (ring.load(path), &self.fresh) {
            (Err(TransitionError::OtherShape { .. }), Some(fresh)) if ring.is_empty()? => {
                let TransitionShape { tickers, objectives, .. } = CoreRing::saved_shape(path)?;
                let shape = fresh.shape(ring.shape(), tickers, objectives);
                let mut made =
                    CoreRing::create(ring.panel().clone(), shape, fresh.options.clone())?;
                made.load(path)?;
                *ring = made;
            }
            (loaded, _) => loaded?,
        }
        self.holds(ring);
        Ok(())
    }

    /// Note that the ring holds transitions, and of which sizes.
    fn holds(&self, ring: &CoreRing) {
        let mut state = self.state();
        state.empty = false;
        if *state.shape != *ring.shape() {
            state.shape = ring.shape().clone().into();
        }
    }
}
