//! Episodes that were gathered at different times, and their places in one batch.

use std::ops::Range;
use std::sync::Arc;

use crate::sampler::batch::{Batch, BatchBuffers};
use crate::sampler::eligibility::CompleteEpisode;
use crate::sampler::plan::{ArenaField, BatchPlan, Source};

/// Places of the episodes of a batch in its arenas.
#[derive(Debug)]
pub(super) enum EpisodePlaces {
    /// Every item has the same number of places.
    Padded,
    /// First place of each item, and the end of the last one.
    Ragged(Vec<usize>),
}

impl EpisodePlaces {
    /// Returns the bytes of an item in a field's arena.
    fn item(&self, field: &ArenaField, item: usize) -> Range<usize> {
        let bytes = field.rows * field.width;
        match self {
            Self::Padded => item * bytes..(item + 1) * bytes,
            Self::Ragged(offsets) => {
                let at = |item: usize| offsets.get(item).copied().unwrap_or(0) * bytes;
                at(item)..at(item + 1)
            }
        }
    }

    /// Stores the lengths of padded items, or the offsets of ragged ones.
    pub(super) fn write(
        &self,
        episodes: &[CompleteEpisode],
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
    ) {
        let numbers: Vec<i64> = match self {
            Self::Padded => episodes.iter().map(|of| of.length.cast_signed()).collect(),
            Self::Ragged(offsets) => offsets.iter().map(|at| (*at as u64).cast_signed()).collect(),
        };
        for (field, arena) in plan.fields().iter().zip(arenas) {
            if matches!(field.source, Source::Length | Source::Offsets)
                && arena.len() == size_of_val(&numbers[..])
            {
                arena.copy_from_slice(bytemuck::cast_slice(&numbers));
            }
        }
    }
}

/// Episodes that were gathered together.
pub(super) struct Piece {
    pub(super) batch: Batch,
    pub(super) places: EpisodePlaces,
    /// Numbers of the episodes in the batch that is to be filled.
    pub(super) items: Vec<usize>,
    pub(super) episodes: Vec<CompleteEpisode>,
    /// Whether the rows of each episode were still whole after the copy.
    pub(super) found: Vec<bool>,
}

impl Piece {
    /// Returns the episodes that were whole, with their numbers.
    pub(super) fn whole(&self) -> impl Iterator<Item = (usize, CompleteEpisode)> {
        let all = self.items.iter().zip(&self.episodes).zip(&self.found);
        all.filter(|(_, found)| **found).map(|((item, episode), _)| (*item, *episode))
    }

    /// Copies the whole episodes to their places in another batch. Zeroes what lies beyond their
    /// end.
    pub(super) fn copy_to(
        mut self,
        places: &EpisodePlaces,
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
    ) {
        let own = Arc::clone(self.batch.plan());
        let buffers = self.batch.buffers();
        let fields = own.fields().iter().zip(buffers).zip(plan.fields().iter().zip(arenas));
        for ((from_field, from), (field, arena)) in fields {
            for (at, item) in self.items.iter().enumerate() {
                if !self.found.get(at).is_some_and(|found| *found) {
                    continue;
                }
                let Some(from) = from.get(self.places.item(from_field, at)) else { continue };
                let Some(place) = arena.get_mut(places.item(field, *item)) else { continue };
                let common = from.len().min(place.len());
                let (filled, rest) = place.split_at_mut(common);
                filled.copy_from_slice(&from[..common]);
                rest.fill(0);
            }
        }
    }
}
