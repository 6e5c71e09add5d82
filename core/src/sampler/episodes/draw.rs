//! Batches of whole episodes.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::index::EpisodeRows;
use super::pieces::{EpisodePlaces, Piece};
use super::{EpisodeDraws, EpisodeLayout};
use crate::error::{FormError, SampleError};
use crate::index::RowIndex;
use crate::ring::lane_inspection::MAX_RELOCATIONS;
use crate::sampler::batch::{Batch, BatchBuffers};
use crate::sampler::eligibility::number;
use crate::sampler::gather::{BatchRequest, MAX_ATTEMPTS, MissingRows};
use crate::sampler::plan::{BatchPlan, ExtraColumns};
use crate::sampler::window::WindowExtent;
use crate::sampler::{MAX_BATCH, Sampler};
use crate::wait::WaitStart;

/// Extent of single transitions.
const ROWS: WindowExtent = WindowExtent { back: 0, ahead: 0, steps: 0 };

/// Item whose episode is to be drawn.
#[derive(Clone, Copy)]
struct OpenItem {
    item: usize,
    /// Next attempt of the RNG.
    attempt: u32,
}

impl Sampler {
    /// Returns whether memory of a batch is known only when its episodes are drawn.
    pub(in crate::sampler) fn has_varying_size(&self) -> bool {
        self.episodes.as_ref().is_some_and(|of| of.options().fixed_length().is_none())
    }

    /// Refuses an index of rows if whole episodes are drawn.
    pub(in crate::sampler) fn refuse_named_rows(&self) -> Result<(), SampleError> {
        if self.episodes.is_some() { Err(FormError::NamedRows.into()) } else { Ok(()) }
    }

    /// Returns the plan of a batch of whole episodes of equal memory.
    pub(in crate::sampler) fn plan_of_episodes(
        &self,
        batch: usize,
    ) -> Option<Result<BatchPlan, SampleError>> {
        let options = self.episodes.as_ref()?.options();
        Some(match options.fixed_length() {
            Some(length) => Ok(self.padded_plan(batch, length as usize)),
            None => Err(FormError::VaryingSize.into()),
        })
    }

    /// Draws whole episodes into memory of a fixed size. Returns the attempts that it took.
    pub(in crate::sampler) fn fill_episodes(
        &mut self,
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
    ) -> Result<u64, SampleError> {
        let Some(length) = self.episodes.as_ref().and_then(|of| of.options().fixed_length()) else {
            return Err(FormError::VaryingSize.into());
        };
        let length = length as usize;
        let places = EpisodePlaces::Padded(length);
        let mut open = all_open(plan.batch());
        let mut episodes = self.choose(&mut open)?;
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
        if self.is_limited() {
            self.take_turn((batch, false), WaitStart::now())?;
        }
        let mut drawn = self.drawn_episodes(batch).inspect_err(|_| {
            self.give_back(batch as u64);
        })?;
        let plan = Arc::clone(drawn.plan());
        let mut arenas = drawn.buffers();
        self.count_ages(&plan, &arenas);
        self.transformed(&plan, &mut arenas, batch);
        (self.batches, self.last) = (self.batches.wrapping_add(1), Some(batch));
        self.count(batch, lapped_before);
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
        let (mut drawn, places) = self.memory_of(&episodes, None)?;
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
            let episodes = self.choose(&mut open)?;
            *attempts += open.len() as u64;
            let items = open.iter().map(|open| open.item).collect();
            let (mut batch, places) = self.memory_of(&episodes, length)?;
            let plan = Arc::clone(batch.plan());
            let found = self.gather_episodes(&episodes, &places, &plan, &mut batch.buffers())?;
            keep_missing(&mut open, &found);
            pieces.push(Piece { batch, places, items, episodes, found });
        }
        Ok(pieces)
    }

    /// Chooses a complete episode for every open item, uniformly among those of this moment.
    fn choose(&mut self, open: &mut [OpenItem]) -> Result<Vec<EpisodeRows>, SampleError> {
        let batch = self.batch_number();
        let Self { eligibility, episodes, rng, .. } = self;
        let Some(EpisodeDraws { options, index, .. }) = episodes.as_deref_mut() else {
            return Err(FormError::VaryingSize.into());
        };
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

    /// Returns memory for some episodes, of `length` places each if that is given.
    fn memory_of(
        &self,
        episodes: &[EpisodeRows],
        length: Option<usize>,
    ) -> Result<(Batch, EpisodePlaces), SampleError> {
        let Some(EpisodeDraws { options, pool, .. }) = self.episodes.as_deref() else {
            return Err(FormError::VaryingSize.into());
        };
        let as_usize = |length: u64| usize::try_from(length).unwrap_or(usize::MAX);
        let (plan, places) = match options.layout {
            EpisodeLayout::Padded => {
                let longest = episodes.iter().map(|of| as_usize(of.length)).max();
                let length = length.or(longest).unwrap_or(1);
                (self.padded_plan(episodes.len(), length), EpisodePlaces::Padded(length))
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
                let batch = as_usize(transitions);
                let schema = self.ring.schema();
                let plan = BatchPlan::new(
                    schema,
                    batch,
                    &self.options,
                    &self.selection,
                    ROWS,
                    None,
                    ExtraColumns::default(),
                );
                (plan.with_offsets(episodes.len()), EpisodePlaces::Ragged(offsets))
            }
        };
        Ok((Batch::of(Arc::new(plan), pool)?, places))
    }

    fn padded_plan(&self, batch: usize, length: usize) -> BatchPlan {
        let extent = extent_of(length);
        BatchPlan::padded(
            self.ring.schema(),
            batch,
            length,
            self.options.copy,
            &self.selection,
            extent,
        )
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
        let (extent, index): (_, Vec<i64>) = match places {
            EpisodePlaces::Padded(length) => {
                (extent_of(*length), episodes.iter().map(|of| row(of, 0)).collect())
            }
            EpisodePlaces::Ragged(_) => {
                let rows = |of: &EpisodeRows| {
                    let of = *of;
                    (0..of.length).map(move |step| row(&of, step))
                };
                (ROWS, episodes.iter().flat_map(rows).collect())
            }
        };
        self.extent = extent;
        let request = BatchRequest::Rows(&index, MissingRows::Blank);
        let gathered = self.fill(request, plan, arenas)?;
        let mut found = vec![true; episodes.len()];
        for missing in gathered.missing {
            let at = match places {
                EpisodePlaces::Padded(_) => missing,
                EpisodePlaces::Ragged(offsets) => {
                    offsets.partition_point(|first| *first <= missing).saturating_sub(1)
                }
            };
            if let Some(found) = found.get_mut(at) {
                *found = false;
            }
        }
        let lost = found.iter().filter(|found| !**found).count();
        self.counters.lapped.fetch_add(lost as u64, Relaxed);
        places.write(episodes, plan, arenas);
        Ok(found)
    }
}

/// Returns the extent of episodes of at most `length` transitions.
fn extent_of(length: usize) -> WindowExtent {
    WindowExtent { back: 0, ahead: (length as u64).saturating_sub(1), steps: 0 }
}

fn all_open(batch: usize) -> Vec<OpenItem> {
    (0..batch).map(|item| OpenItem { item, attempt: 0 }).collect()
}

/// Keeps the items whose episodes were not found.
fn keep_missing(open: &mut Vec<OpenItem>, found: &[bool]) {
    let mut found = found.iter();
    open.retain(|_| !found.next().is_some_and(|found| *found));
}
