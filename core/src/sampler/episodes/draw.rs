//! Batches of whole episodes.

use std::sync::Arc;

use super::index::EpisodeRows;
use super::pieces::{EpisodePlaces, Piece};
use super::{EpisodeDraws, EpisodeLayout, WholeEpisodes};
use crate::error::{FormError, SampleError};
use crate::index::RowIndex;
use crate::ring::lane_inspection::MAX_RELOCATIONS;
use crate::sampler::batch::{Batch, BatchBuffers};
use crate::sampler::eligibility::{Eligibility, number};
use crate::sampler::gather::{BatchRequest, MAX_ATTEMPTS, MissingRows};
use crate::sampler::plan::BatchPlan;
use crate::sampler::plans::BatchPlans;
use crate::sampler::stream::DrawStream;
use crate::sampler::{MAX_BATCH, Sampler};
use crate::wait::WaitStart;

/// Item whose episode is to be drawn.
#[derive(Clone, Copy)]
pub(in crate::sampler) struct OpenItem {
    item: usize,
    /// Next attempt of the RNG.
    attempt: u32,
}

impl EpisodeDraws {
    /// Chooses a complete episode for every open item, uniformly among those of this moment.
    pub(in crate::sampler) fn choose(
        &mut self,
        stream: &DrawStream,
        eligibility: &mut Eligibility,
        open: &mut [OpenItem],
    ) -> Result<Vec<EpisodeRows>, SampleError> {
        let (rng, batch) = (stream.rng(), stream.number());
        let Self { options, index } = self;
        for _ in 0..MAX_RELOCATIONS {
            eligibility.refresh_ranges();
            let whole = index.refresh(eligibility.lanes(), eligibility.ranges());
            if whole && (index.total() > 0 || !eligibility.is_overtaken()) {
                break;
            }
        }
        let total = index.total();
        if total == 0 {
            let (max_length, rows) = (options.max_length, eligibility.ranges().readable_rows());
            return Err(FormError::NoneComplete { max_length, rows }.into());
        }
        let mut draw = |open: &mut OpenItem| loop {
            if open.attempt >= MAX_ATTEMPTS {
                return Err(SampleError::Outrun { attempts: MAX_ATTEMPTS });
            }
            let drawn = rng.below(total, batch, number(open.item), open.attempt);
            open.attempt += 1;
            if let Some(episode) = drawn.and_then(|n| index.nth(n)) {
                return Ok(episode);
            }
        };
        open.iter_mut().map(&mut draw).collect()
    }
}

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
        let mut open = all_open(plan.batch());
        let mut episodes = self.selection.choose_episodes(&self.stream, &mut open)?;
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
        self.follow_notices()?;
        let lapped_before = self.lapped();
        if self.gate.is_limited() {
            self.gate.take_turn(&self.ring, (batch, false), WaitStart::now())?;
        }
        let mut drawn = self.drawn_episodes(batch).inspect_err(|_| {
            self.gate.give_back(batch as u64);
        })?;
        let plan = Arc::clone(drawn.plan());
        let mut arenas = drawn.buffers();
        self.hooks.transform(&self.gate, &plan, &mut arenas, batch);
        self.end_batch(batch, lapped_before, &plan, &arenas);
        Ok(drawn)
    }

    fn drawn_episodes(&mut self, batch: usize) -> Result<Batch, SampleError> {
        let mut pieces = self.pieces(all_open(batch), None, &mut 0)?;
        if pieces.len() == 1 {
            // The first piece has all episodes, in order.
            if let Some(piece) = pieces.pop() {
                return Ok(piece.batch);
            }
        }
        let mut whole: Vec<_> = pieces.iter().flat_map(Piece::whole).collect();
        whole.sort_unstable_by_key(|(item, _)| *item);
        let episodes: Vec<EpisodeRows> = whole.into_iter().map(|(_, episode)| episode).collect();
        let (mut drawn, places) = memory_of(&self.gather.plans, &episodes, None)?;
        let plan = Arc::clone(drawn.plan());
        let mut arenas = drawn.buffers();
        for piece in pieces {
            piece.copy_to(&places, &plan, &mut arenas);
        }
        places.write(&episodes, &plan, &mut arenas);
        Ok(drawn)
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
            let episodes = self.selection.choose_episodes(&self.stream, &mut open)?;
            *attempts += open.len() as u64;
            let items = open.iter().map(|open| open.item).collect();
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
        episodes: &[EpisodeRows],
        places: &EpisodePlaces,
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
    ) -> Result<Vec<bool>, SampleError> {
        let row = |of: &EpisodeRows, step| RowIndex::new(of.lane, of.first + step).0;
        let index: Vec<i64> = match places {
            EpisodePlaces::Padded => episodes.iter().map(|of| row(of, 0)).collect(),
            EpisodePlaces::Ragged(_) => {
                let rows = |of: &EpisodeRows| {
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

/// Returns memory for some episodes, of `length` places each if that is given.
fn memory_of(
    plans: &BatchPlans,
    episodes: &[EpisodeRows],
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

fn all_open(batch: usize) -> Vec<OpenItem> {
    (0..batch).map(|item| OpenItem { item, attempt: 0 }).collect()
}

/// Keeps the items whose episodes were not found.
fn keep_missing(open: &mut Vec<OpenItem>, found: &[bool]) {
    let mut found = found.iter();
    open.retain(|_| !found.next().is_some_and(|found| *found));
}
