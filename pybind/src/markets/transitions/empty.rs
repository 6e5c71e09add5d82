//! Empty private rings, which take the sizes of their first batch or of a loaded file.

use std::path::Path;

use backcast_market::{
    TransitionBatch, TransitionError, TransitionOptions, TransitionRing as CoreRing,
    TransitionShape,
};

use super::TransitionRing;
use crate::error::Failure;

/// Settings from which an empty private ring is made again with other sizes.
pub(super) struct EmptyRing {
    pub(super) options: TransitionOptions,
    /// Whether the caller gave the shape of an action.
    pub(super) action: bool,
    /// Whether the caller gave the number of objectives.
    pub(super) objectives: bool,
}

impl EmptyRing {
    /// Returns the sizes for these tickers and objectives. Sizes that the caller gave take
    /// precedence. 0 keeps the present size.
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
    /// Adds a batch to a ring of these sizes. An empty private ring of other sizes is replaced once
    /// a new ring has taken the batch. Returns false if the ring has other sizes because another
    /// thread was first.
    pub(super) fn add_to(
        &self,
        ring: &mut CoreRing,
        shape: &TransitionShape,
        batch: &TransitionBatch,
    ) -> Result<bool, Failure> {
        let added = if ring.shape() == shape {
            ring.add(batch)?;
            true
        } else if let Some(empty_ring) = &self.empty_ring
            && ring.is_empty()?
        {
            let mut made =
                CoreRing::create(ring.panel().clone(), shape.clone(), empty_ring.options.clone())?;
            made.add(batch)?;
            *ring = made;
            true
        } else {
            false
        };
        self.holds(ring);
        Ok(added)
    }

    /// Loads a file. An empty private ring of other sizes is replaced once a new ring has loaded
    /// the file.
    pub(super) fn load_from(&self, ring: &mut CoreRing, path: &Path) -> Result<(), Failure> {
        match (ring.load(path), &self.empty_ring) {
            (Err(TransitionError::OtherShape { .. }), Some(empty_ring)) if ring.is_empty()? => {
                let TransitionShape { tickers, objectives, .. } = CoreRing::saved_shape(path)?;
                let shape = empty_ring.shape(ring.shape(), tickers, objectives);
                let mut made =
                    CoreRing::create(ring.panel().clone(), shape, empty_ring.options.clone())?;
                made.load(path)?;
                *ring = made;
            }
            (loaded, _) => loaded?,
        }
        self.holds(ring);
        Ok(())
    }

    /// Records that the ring holds transitions, and their sizes.
    fn holds(&self, ring: &CoreRing) {
        let mut state = self.state();
        state.empty = false;
        if *state.shape != *ring.shape() {
            state.shape = ring.shape().clone().into();
        }
    }
}
