//! Layout of an observation: features of every symbol, then the agent's own state in every symbol.

use backcast_sim::{
    Feature, FeatureSet, FullFeatures, Market, NormalisedFeatures, PrivateFeatures,
};

use super::{config::FeatureChoice, error::TradingError};

/// Features of an observation.
#[derive(Clone, Copy, Debug)]
pub(super) struct ObservationLayout {
    features: FeatureChoice,
    private: bool,
    symbols: u16,
}

impl ObservationLayout {
    pub(super) const fn new(features: FeatureChoice, private: bool, symbols: u16) -> Self {
        Self { features, private, symbols }
    }

    fn public_set(self) -> &'static dyn FeatureSet {
        match self.features {
            FeatureChoice::Normalised => &NormalisedFeatures,
            FeatureChoice::Full => &FullFeatures,
        }
    }

    const fn private_set(slot: usize, time_left: f64) -> PrivateFeatures {
        PrivateFeatures { slot, time_left }
    }

    /// Returns the entries of an observation, each with its symbol.
    pub(super) fn entries(self) -> impl Iterator<Item = (u16, &'static Feature)> {
        let public = self.public_set().features();
        let private = if self.private { Self::private_set(0, 0.0).features() } else { &[] };
        let of_all = move |entries: &'static [Feature]| {
            (0..self.symbols)
                .flat_map(move |symbol| entries.iter().map(move |entry| (symbol, entry)))
        };
        of_all(public).chain(of_all(private))
    }

    /// Returns the number of entries.
    pub(super) fn size(self) -> usize {
        let private = if self.private { Self::private_set(0, 0.0).count() } else { 0 };
        usize::from(self.symbols) * (self.public_set().count() + private)
    }

    /// Writes the observation of the agent of one slot. `out` has [`size`](Self::size) elements.
    pub(super) fn write(
        self,
        market: &Market,
        slot: usize,
        time_left: f64,
        out: &mut [f32],
    ) -> Result<(), TradingError> {
        let set = self.public_set();
        let (public, private) = out.split_at_mut(usize::from(self.symbols) * set.count());
        for (symbol, out) in (0..).zip(public.chunks_exact_mut(set.count())) {
            set.observe(market, symbol, out)?;
        }
        let set = Self::private_set(slot, time_left);
        for (symbol, out) in (0..).zip(private.chunks_exact_mut(set.count())) {
            set.observe(market, symbol, out)?;
        }
        Ok(())
    }
}
