//! Draws new goals, gathers them, and stores them in a batch with what follows from them.

use std::sync::Arc;

use backcast_layout::Lanes;

use super::episode_rows::goal_rows;
use super::places::Places;
use super::{GoalColumns, Hindsight};
use crate::batch_key as key;
use crate::error::{HindsightError, SampleError};
use crate::index::RowIndex;
use crate::ring::Ring;
use crate::sampler::eligibility::{ReadableRanges, number};
use crate::sampler::gather::{GatherTarget, read_real, write_real};
use crate::sampler::plan::{ArenaField, BatchPlan, Source};
use crate::sampler::points::DrawPoints;
use crate::sampler::rng::CounterRng;

/// Attempts to gather goals that writers overwrite meanwhile.
const ATTEMPTS: u32 = 64;
/// Number of the attempt that decides whether a transition is relabelled. Draws of rows and
/// of lanes use lower ones, draws of goals higher ones.
const DECISION: u32 = 1 << 31;
/// Maximum draws for one goal. If all are rejected, the first row is taken. A draw is rejected with
/// a probability below 2^-16.
const REJECTIONS: u32 = 16;
/// Steps of the ratio: every `f64` from 0 to 1 is rounded down to one of them.
const RATIO_STEPS: u64 = 1 << 53;

/// Random draws of goals in hindsight, for the batches of a sampler.
#[derive(Debug)]
pub(crate) struct GoalDraws {
    options: Hindsight,
    pub(super) columns: GoalColumns,
    /// A transition is relabelled if its random number below [`RATIO_STEPS`] is below this one.
    relabelled: u64,
    ranges: ReadableRanges,
    /// Items to relabel, and whether the ring no longer holds their transition.
    items: Vec<(usize, bool)>,
    goals: Vec<u8>,
}

impl GoalDraws {
    pub(crate) fn new(options: Hindsight, columns: GoalColumns) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "the ratio lies within 0 to 1"
        )]
        let relabelled = (options.ratio * RATIO_STEPS as f64) as u64;
        let (ranges, items, goals) = (ReadableRanges::default(), Vec::new(), Vec::new());
        Self { options, columns, relabelled, ranges, items, goals }
    }

    pub(crate) fn options(&self) -> &Hindsight {
        &self.options
    }

    /// Draws and stores the goals of batch number `batch`. Rows before `oldest`, the first one of
    /// each lane that is not too old, give none.
    pub(crate) fn relabel(
        &mut self,
        (ring, oldest): (&Ring, &[u64]),
        (random, batch): (&CounterRng, u64),
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
        points: &mut DrawPoints,
    ) -> Result<(), SampleError> {
        let relabelled = self.relabelled;
        let decide = |item: &usize| {
            let drawn = random.below(RATIO_STEPS, batch, number(*item), DECISION);
            drawn.is_some_and(|drawn| drawn < relabelled)
        };
        self.items.clear();
        self.items.extend((0..plan.batch()).filter(decide).map(|item| (item, false)));
        self.goals.clear();
        self.goals.resize(self.items.len().saturating_mul(self.columns.width), 0);
        let index = indices(plan, arenas);
        let count = self.items.len();
        let Self { items, ranges, options, .. } = self;
        let mut lanes: Option<(u32, Arc<Lanes>)> = None;
        let choose = |at: usize, attempt: u32| {
            let known = lanes.take().filter(|(of, _)| *of == attempt);
            let (_, lanes) =
                &*lanes.insert(known.unwrap_or_else(|| (attempt, ranges.refresh(ring))));
            let Some((item, gone)) = items.get_mut(at) else { return Ok(RowIndex::NONE) };
            let row = RowIndex(index.get(*item).copied().unwrap_or(0));
            let place = row.lane() as usize;
            let (Some(lane), Some(range)) = (lanes.get(place), ranges.get(place)) else {
                return Ok(row);
            };
            let oldest = oldest.get(place).copied().unwrap_or(0);
            let rows = (range.rows(), oldest);
            let rows = goal_rows(&**lane, rows, row.seq(), options.strategy);
            *gone = rows.is_none();
            let goal = rows.map_or(RowIndex::NONE, |rows| {
                let first = DECISION + 1 + attempt * REJECTIONS;
                let mut draws = (first..first + REJECTIONS).filter_map(|draw| {
                    random.below(rows.end - rows.start, batch, number(*item), draw)
                });
                RowIndex::new(row.lane(), rows.start + draws.next().unwrap_or(0))
            });
            Ok::<_, SampleError>(goal)
        };
        let target = GatherTarget { column: self.columns.achieved, out: &mut self.goals };
        if ring.gather_at_points(count, ATTEMPTS, &mut [target], choose, points)?.is_none() {
            return Err(SampleError::Outrun { attempts: ATTEMPTS });
        }
        self.store_goals(plan, arenas);
        Ok(())
    }

    /// Stores the goals in every place of their items that shows the desired goal.
    fn store_goals(&self, plan: &BatchPlan, arenas: &mut [&mut [u8]]) {
        let width = self.columns.width;
        for ((item, gone), goal) in self.items.iter().zip(self.goals.chunks_exact(width.max(1))) {
            if *gone {
                continue;
            }
            let (back, ahead) = extent_of(plan, arenas, *item);
            for (field, arena) in plan.fields().iter().zip(&mut *arenas) {
                let bytes = field.rows * field.width;
                let Some(place) = arena.get_mut(item * bytes..(item + 1) * bytes) else { continue };
                match field.source {
                    Source::Relabelled => place.fill(1),
                    Source::NNext(column) if column == self.columns.desired => {
                        place.copy_from_slice(goal);
                    }
                    Source::Column(column) if column == self.columns.desired => {
                        for goal_place in shown(field, back, ahead, place) {
                            goal_place.copy_from_slice(goal);
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    /// Stores the rewards of relabelled transitions in the view `{prefix}reward`. `rewards` has one
    /// number for each place of that view, relabelled or not.
    pub(crate) fn store_rewards(
        &self,
        plan: &BatchPlan,
        prefix: &str,
        rewards: &[f64],
        arenas: &mut [&mut [u8]],
    ) {
        let Some(places) = Places::of(plan, &format!("{prefix}reward")) else { return };
        for (item, at) in self.relabelled_places(plan, places, arenas) {
            let bytes = places.bytes_mut(arenas, item, at);
            if let (Some(bytes), Some(reward)) = (bytes, rewards.get(item * places.len + at)) {
                write_real(self.columns.reward, *reward, bytes);
            }
        }
    }

    /// Stores the terminations of relabelled transitions in the view `{prefix}terminated`, which
    /// has as many places as `terminated`. A transition that does not terminate any more is
    /// truncated, so that its episode ends there as before. Fails if n-step returns take its
    /// discount from a column, and that is 0.
    pub(crate) fn store_terminations(
        &self,
        plan: &BatchPlan,
        prefix: &str,
        terminated: &[bool],
        arenas: &mut [&mut [u8]],
    ) -> Result<(), HindsightError> {
        let find = |name: &str| Places::of(plan, &format!("{prefix}{name}"));
        let Some(places) = find(key::TERMINATED) else { return Ok(()) };
        let truncated = find(key::TRUNCATED);
        let has_discounts = plan.n_step().is_some_and(|n_step| n_step.discount.is_some());
        let discounts = find("discount").filter(|_| has_discounts);
        for (item, at) in self.relabelled_places(plan, places, arenas) {
            let Some(now) = terminated.get(item * places.len + at) else { continue };
            let Some([flag]) = places.bytes_mut(arenas, item, at) else { continue };
            let was = std::mem::replace(flag, u8::from(*now)) != 0;
            if !was || *now {
                continue;
            }
            let discount = discounts.and_then(|of| of.bytes(arenas, item, at)).map(read_real);
            if discount == Some(0.0) {
                return Err(no_discount(plan, places, arenas, (item, at)));
            }
            if let Some([flag]) = truncated.and_then(|cut| cut.bytes_mut(arenas, item, at)) {
                *flag = 1;
            }
        }
        Ok(())
    }

    /// Returns item and place of every relabelled transition of a view.
    fn relabelled_places(
        &self,
        plan: &BatchPlan,
        places: Places,
        arenas: &[&mut [u8]],
    ) -> Vec<(usize, usize)> {
        let Some(field) = plan.fields().get(places.arena) else { return Vec::new() };
        let of_item = |item: usize| {
            let (back, ahead) = extent_of(plan, arenas, item);
            let (from, count) = field.present(back, ahead);
            let from = usize::try_from(from - field.first).unwrap_or(0);
            let present = from..from + usize::try_from(count).unwrap_or(0);
            let shown = (0..places.len).filter(move |at| present.contains(&(places.start + at)));
            shown.map(move |at| (item, at))
        };
        self.relabelled_items().flat_map(of_item).collect()
    }

    /// Iterates over the items that were relabelled.
    pub(super) fn relabelled_items(&self) -> impl Iterator<Item = usize> {
        self.items.iter().filter(|(_, gone)| !*gone).map(|(item, _)| *item)
    }
}

/// Returns the places of an item that have a row, or repeat one.
fn shown<'a>(
    field: &ArenaField,
    back: i64,
    ahead: i64,
    place: &'a mut [u8],
) -> impl Iterator<Item = &'a mut [u8]> + use<'a> {
    let (from, rows) = match field.present(back, ahead) {
        _ if field.repeat => (field.first, field.rows as u64),
        present => present,
    };
    let from = usize::try_from(from - field.first).unwrap_or(0);
    let rows = usize::try_from(rows).unwrap_or(0);
    place.chunks_exact_mut(field.width.max(1)).skip(from).take(rows)
}

/// Returns how many transitions of an item's window lie before the drawn one, and after it.
pub(super) fn extent_of(plan: &BatchPlan, arenas: &[&mut [u8]], item: usize) -> (i64, i64) {
    let masks = plan.fields().iter().zip(arenas).filter(|(field, _)| field.source == Source::Mask);
    masks.fold((0, 0), |(back, ahead), (field, mask)| {
        let places = mask.get(item * field.rows..(item + 1) * field.rows).unwrap_or_default();
        let count: i64 = places.iter().map(|place| i64::from(*place != 0)).sum();
        if field.first > 0 { (back, count) } else { (count - 1, ahead) }
    })
}

/// Returns the error of a transition at a place of an item that its discount does not let go on.
fn no_discount(
    plan: &BatchPlan,
    places: Places,
    arenas: &[&mut [u8]],
    (item, at): (usize, usize),
) -> HindsightError {
    let drawn = RowIndex(indices(plan, arenas).get(item).copied().unwrap_or(0));
    let first = plan.fields().get(places.arena).map_or(0, |field| field.first);
    let ahead = first + i64::try_from(places.start + at).unwrap_or(0);
    HindsightError::NoDiscount { lane: drawn.lane(), row: drawn.seq().saturating_add_signed(ahead) }
}

/// Returns the indices of the drawn transitions.
fn indices(plan: &BatchPlan, arenas: &[&mut [u8]]) -> Vec<i64> {
    let of = plan.fields().iter().zip(arenas).find(|(field, _)| field.source == Source::Index);
    let bytes = of.map(|(_, arena)| &**arena).unwrap_or_default();
    bytes.chunks_exact(8).map(bytemuck::pod_read_unaligned).collect()
}
