//! Batches of whole episodes.

use std::sync::Arc;

use super::pieces::{EpisodePlaces, Piece};
use super::{EpisodeLayout, WholeEpisodes};
use crate::error::{FormError, SampleError};
use crate::index::RowIndex;
use crate::sampler::batch::{Batch, BatchBuffers};
use crate::sampler::eligibility::CompleteEpisode;
use crate::sampler::gather::{BatchRequest, MissingRows};
use crate::sampler::plan::BatchPlan;
use crate::sampler::plans::BatchPlans;
use crate::sampler::selection::OpenItem;
use crate::sampler::{MAX_BATCH, Sampler};

impl Sampler {
    /// Draws whole episodes into memory of a fixed size. Returns the attempts that it took.
    pub(in crate::sampler) fn fill_episodes(
        &mut self,
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
    ) -> Result<u64, SampleError> {
        let whole = self.options.draws.form.episodes();
        let length = whole.and_then(WholeEpisodes::fixed_length).ok_or(FormError::VaryingSize)?;
        let length = length as usize;
        let places = EpisodePlaces::Padded;
        let mut open = OpenItem::all(plan.batch());
        let mut episodes = self.selection.choose_episodes(&mut self.stream, &mut open)?;
        let found = self.gather_episodes(&episodes, &places, plan, arenas)?;
        let mut attempts = open.len() as u64;
        keep_missing(&mut open, &found);
        if !open.is_empty() {
            for piece in self.pieces(open, Some(length), &mut attempts)? {
                for (item, episode) in piece.whole() {
                    if let Some(place) = episodes.get_mut(item) {
                        *place = episode;
                    }
                }
                piece.copy_to(&places, plan, arenas);
            }
            places.write(&episodes, plan, arenas);
        }
        self.selection.write_weights(self.stream.number(), None, plan, arenas)?;
        Ok(attempts)
    }

    /// Draws whole episodes into new memory.
    pub(in crate::sampler) fn sample_episodes(
        &mut self,
        batch: usize,
    ) -> Result<Batch, SampleError> {
        if !(1..=MAX_BATCH).contains(&batch) {
            return Err(SampleError::BadBatchSize { asked: batch, limit: MAX_BATCH });
        }
        let lapped_before = self.lapped();
        let mut drawn = self.draw_batch(batch, None, |sampler| {
            let (mut drawn, attempts) = sampler.drawn_episodes(batch)?;
            let plan = Arc::clone(drawn.plan());
            let (number, mut arenas) = (sampler.stream.number(), drawn.buffers());
            sampler.selection.write_weights(number, None, &plan, &mut arenas)?;
            sampler.hooks.transform(&sampler.gate, &plan, &mut arenas, batch);
            Ok((drawn, attempts))
        })?;
        let plan = Arc::clone(drawn.plan());
        self.end_batch(batch, lapped_before, &plan, &drawn.buffers());
        Ok(drawn)
    }

    /// Returns a batch of episodes, and the attempts that it took.
    pub(in crate::sampler) fn drawn_episodes(
        &mut self,
        batch: usize,
    ) -> Result<(Batch, u64), SampleError> {
        let mut attempts = 0;
        let mut pieces = self.pieces(OpenItem::all(batch), None, &mut attempts)?;
        if pieces.len() == 1 {
            // The first piece has all episodes, in order.
            if let Some(piece) = pieces.pop() {
                return Ok((piece.batch, attempts));
            }
        }
        let mut whole: Vec<_> = pieces.iter().flat_map(Piece::whole).collect();
        whole.sort_unstable_by_key(|(item, _)| *item);
        let episodes: Vec<CompleteEpisode> =
            whole.into_iter().map(|(_, episode)| episode).collect();
        let (mut drawn, places) = memory_of(&self.gather.plans, &episodes, None)?;
        let plan = Arc::clone(drawn.plan());
        let mut arenas = drawn.buffers();
        for piece in pieces {
            piece.copy_to(&places, &plan, &mut arenas);
        }
        places.write(&episodes, &plan, &mut arenas);
        Ok((drawn, attempts))
    }

    /// Gathers an episode for every open item. Episodes that a writer overwrites meanwhile are
    /// drawn again, into another piece. Adds the draws to `attempts`.
    fn pieces(
        &mut self,
        mut open: Vec<OpenItem>,
        length: Option<usize>,
        attempts: &mut u64,
    ) -> Result<Vec<Piece>, SampleError> {
        let mut pieces = Vec::new();
        while !open.is_empty() {
            let episodes = self.selection.choose_episodes(&mut self.stream, &mut open)?;
            *attempts += open.len() as u64;
            let items = open.iter().map(OpenItem::item).collect();
            let (mut batch, places) = memory_of(&self.gather.plans, &episodes, length)?;
            let plan = Arc::clone(batch.plan());
            let found = self.gather_episodes(&episodes, &places, &plan, &mut batch.buffers())?;
            keep_missing(&mut open, &found);
            pieces.push(Piece { batch, places, items, episodes, found });
        }
        Ok(pieces)
    }

    /// Gathers the rows of some episodes, and returns which were whole after the copy.
    fn gather_episodes(
        &mut self,
        episodes: &[CompleteEpisode],
        places: &EpisodePlaces,
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
    ) -> Result<Vec<bool>, SampleError> {
        let row = |of: &CompleteEpisode, step| RowIndex::new(of.lane, of.first + step).0;
        let index: Vec<i64> = match places {
            EpisodePlaces::Padded => episodes.iter().map(|of| row(of, 0)).collect(),
            EpisodePlaces::Ragged(_) => {
                let rows = |of: &CompleteEpisode| {
                    let of = *of;
                    (0..of.length).map(move |step| row(&of, step))
                };
                episodes.iter().flat_map(rows).collect()
            }
        };
        let request = BatchRequest::Rows(&index, MissingRows::Blank);
        let gathered = self.fill(request, plan, arenas)?;
        let mut found = vec![true; episodes.len()];
        for missing in gathered.missing {
            let at = match places {
                EpisodePlaces::Padded => missing,
                EpisodePlaces::Ragged(offsets) => {
                    offsets.partition_point(|first| *first <= missing).saturating_sub(1)
                }
            };
            if let Some(found) = found.get_mut(at) {
                *found = false;
            }
        }
        let lost = found.iter().filter(|found| !**found).count();
        self.counts.add_lapped(lost as u64);
        places.write(episodes, plan, arenas);
        Ok(found)
    }
}

/// Returns memory for some episodes, and their places in it. Padded episodes get `length` places
/// each, or as many as the longest has if `length` is `None`.
fn memory_of(
    plans: &BatchPlans,
    episodes: &[CompleteEpisode],
    length: Option<usize>,
) -> Result<(Batch, EpisodePlaces), SampleError> {
    let Some(WholeEpisodes { layout, .. }) = plans.options.form.episodes() else {
        return Err(FormError::VaryingSize.into());
    };
    let as_usize = |length: u64| usize::try_from(length).unwrap_or(usize::MAX);
    let (plan, places) = match layout {
        EpisodeLayout::Padded => {
            let longest = episodes.iter().map(|of| as_usize(of.length)).max();
            let length = length.or(longest).unwrap_or(1);
            (plans.padded(episodes.len(), length), EpisodePlaces::Padded)
        }
        EpisodeLayout::Ragged => {
            let transitions = episodes.iter().map(|of| of.length).fold(0, u64::saturating_add);
            if transitions > MAX_BATCH as u64 {
                let (episodes, limit) = (episodes.len(), MAX_BATCH);
                let refused = FormError::TooManyTransitions { episodes, transitions, limit };
                return Err(refused.into());
            }
            let mut offsets = vec![0];
            offsets.extend(episodes.iter().scan(0, |end, of| {
                *end += as_usize(of.length);
                Some(*end)
            }));
            let plan = plans.ragged(episodes.len(), as_usize(transitions));
            (plan, EpisodePlaces::Ragged(offsets))
        }
    };
    Ok((Batch::of(Arc::new(plan), &plans.varying)?, places))
}

/// Keeps the items whose episodes were not found.
fn keep_missing(open: &mut Vec<OpenItem>, found: &[bool]) {
    let mut found = found.iter();
    open.retain(|_| !found.next().is_some_and(|found| *found));
}
