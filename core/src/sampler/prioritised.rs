//! Draws by priority, and their [importance weights](crate::priority::weights). The first draws of
//! the items of a batch are made in groups, later draws of an item one by one.

use backcast_layout::TableView;
use backcast_layout::protocol::sum_tree::Descent;

use super::eligibility::{Candidate, Eligibility, MAX_REJECTIONS, number};
use super::plan::{BatchPlan, Source};
use super::rng::CounterRng;
use super::selection::BlockDraws;
use crate::error::{PriorityError, SampleError};
use crate::index::RowIndex;
use crate::priority::{
    Beta, Priorities, PriorityOptions, PriorityOrder, RankMasses, WeightNorm, check_beta,
    initial_leaf, own_initial_leaf, q_of_leaf, weights,
};
use crate::ring::Ring;

/// Number of items whose first draws are made from one state of the tree.
const TOGETHER: usize = 64;
/// Outcome of the first draws of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FirstDraws {
    Made,
    /// No row has a priority.
    Empty,
    /// The exponent of the table changed meanwhile.
    OfTwoExponents,
}

/// Priorities of a sampler, and the draws of the current batch.
#[derive(Debug)]
pub(super) struct PrioritisedDraws {
    options: PriorityOptions,
    /// Last number that the caller's function gave, if beta is a function.
    given: Option<f64>,
    priorities: Priorities,
    /// First draw of each item: the descent of the tree, and the row of its leaf.
    descents: Vec<Descent>,
    rows: Vec<Option<(usize, u64)>>,
    /// Value of the leaf of each item's last draw, or mass of its rank.
    leaves: Vec<u64>,
    /// Masses of ranks, if rows are drawn by them.
    ranks: Option<Box<RankMasses>>,
    /// Exponent of these values, if it can change.
    exponent: Option<f64>,
    /// Exponent that the schedule of alpha gave last.
    scheduled: Option<f64>,
    /// Scratch memory of the weights.
    ratios: Vec<f64>,
    /// Sums of the leaves of the rows that are not too old, with the rows, if a batch needs them.
    young: Option<Vec<(u64, (usize, u64))>>,
}

/// Part of the total from which an item is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stratum {
    first: u64,
    len: u64,
}

impl Stratum {
    /// Returns the part for item `item` of `items`. The parts of all items make up the total.
    fn of(total: u64, item: usize, items: usize) -> Self {
        let bound = |item: usize| {
            let share = u128::from(total) * item as u128 / items.max(1) as u128;
            u64::try_from(share).unwrap_or(total)
        };
        let first = bound(item);
        Self { first, len: bound(item + 1) - first }
    }

    fn all(total: u64) -> Self {
        Self { first: 0, len: total }
    }
}

/// Returns the part of the total that an attempt for an item draws from. An item whose row was
/// rejected draws from the whole total. The other rows then keep the ratios of their probabilities,
/// and rows near rejected ones are not drawn more often.
fn stratum(
    options: &PriorityOptions,
    total: u64,
    item: usize,
    items: usize,
    attempt: u32,
) -> Stratum {
    if options.stratified && attempt == 0 {
        Stratum::of(total, item, items)
    } else {
        Stratum::all(total)
    }
}

impl PrioritisedDraws {
    /// Opens the table of priorities.
    pub(super) fn open(ring: &Ring, options: PriorityOptions) -> Result<Self, SampleError> {
        options.check()?;
        let priorities = ring.priorities(&options)?;
        let (descents, rows, leaves) = (Vec::new(), Vec::new(), Vec::new());
        let (given, exponent, scheduled) = (None, None, None);
        let (ratios, young) = (Vec::new(), None);
        let first = RankMasses::new(options.alpha.first());
        let ranks = (options.by == PriorityOrder::Rank).then(|| Box::new(first));
        Ok(Self {
            options,
            given,
            priorities,
            descents,
            rows,
            leaves,
            ranks,
            exponent,
            scheduled,
            ratios,
            young,
        })
    }

    pub(super) fn options(&self) -> &PriorityOptions {
        &self.options
    }

    pub(super) fn priorities_mut(&mut self) -> &mut Priorities {
        &mut self.priorities
    }

    pub(super) fn set_beta(&mut self, beta: f64) -> Result<(), PriorityError> {
        check_beta(beta)?;
        match self.options.beta {
            Beta::Function => self.given = Some(beta),
            _ => self.options.beta = Beta::Constant(beta),
        }
        Ok(())
    }

    /// Returns whether beta is a function of the caller that has given no number yet.
    pub(super) fn lacks_beta(&self) -> bool {
        self.options.beta == Beta::Function && self.given.is_none()
    }

    /// Gives leaves to new rows and makes the first draws of all items. Returns `false` if no row
    /// has a priority.
    pub(super) fn begin(
        &mut self,
        rng: &mut CounterRng,
        (batch, items): (u64, usize),
        eligibility: &Eligibility,
    ) -> Result<bool, SampleError> {
        self.follow_schedule(batch)?;
        self.young = None;
        eligibility.enter_rows(&mut self.priorities)?;
        let mut made = self.first_draws(rng, (batch, items), TOGETHER)?;
        if made == FirstDraws::OfTwoExponents {
            // One state of the tree has one exponent.
            made = self.first_draws(rng, (batch, items), items)?;
        }
        Ok(made != FirstDraws::Empty)
    }

    /// Changes the exponent of the table if the schedule has come to the next step.
    fn follow_schedule(&mut self, batch: u64) -> Result<(), PriorityError> {
        if let Some(ranks) = &mut self.ranks {
            ranks.set_alpha(self.options.alpha.of_sampler(batch));
            return Ok(());
        }
        let next = self.options.alpha.at(batch);
        if next.map(f64::to_bits) != self.scheduled.map(f64::to_bits) {
            self.priorities.follow(self.options.alpha, batch)?;
            self.scheduled = next;
        }
        Ok(())
    }

    /// Makes the first draws of all items, `together` of them from one state of the tree.
    fn first_draws(
        &mut self,
        rng: &mut CounterRng,
        (batch, items): (u64, usize),
        together: usize,
    ) -> Result<FirstDraws, SampleError> {
        self.rows.clear();
        self.leaves.clear();
        let Self { options, priorities, descents, rows, leaves, ranks, exponent, .. } = self;
        for first_item in (0..items).step_by(together.max(1)) {
            let group = first_item..items.min(first_item + together.max(1));
            let (total, found) = priorities.consistent(|view| {
                let total = total_of(view, ranks);
                descents.clear();
                for item in group.clone() {
                    let Stratum { first, len } = stratum(options, total, item, items, 0);
                    let below = rng.first_below(len, batch, number(item)).filter(|_| len > 0);
                    // A number beyond the total gives no leaf.
                    descents.push(Descent::of(below.map_or(u64::MAX, |below| first + below)));
                }
                descend(view, ranks.as_deref(), descents);
                rows.truncate(first_item);
                rows.extend(descents.iter().map(|draw| row_of(view, draw)));
                (total, view.exponent())
            })?;
            if total == 0 {
                return Ok(FirstDraws::Empty);
            }
            if first_item == 0 {
                *exponent = found;
            } else if found.map(f64::to_bits) != exponent.map(f64::to_bits) {
                return Ok(FirstDraws::OfTwoExponents);
            }
            leaves.extend(descents.iter().map(|draw| draw.value));
        }
        Ok(FirstDraws::Made)
    }

    /// Makes one draw for each item of a block, all of them from one state of the tree. Returns
    /// that state, and the draws of rows that `is_eligible`. The other draws are rejected.
    pub(super) fn draw_block(
        &mut self,
        rng: &CounterRng,
        (batch, items): (u64, usize),
        eligibility: &Eligibility,
    ) -> Result<BlockDraws, SampleError> {
        let Self { priorities, descents, rows, leaves, .. } = self;
        priorities.refresh_whole(eligibility.lanes(), eligibility.ranges().iter())?;
        let (total, least, initial) = priorities.consistent_whole(|view| {
            let total = view.total();
            descents.clear();
            descents.extend((0..items).map(|item| {
                // A number beyond the total gives no leaf.
                Descent::of(rng.below_repeated(total, batch, number(item)).unwrap_or(u64::MAX))
            }));
            for together in descents.chunks_mut(TOGETHER) {
                view.descend(together);
            }
            rows.clear();
            rows.extend(descents.iter().map(|draw| row_of(view, draw)));
            (total, view.least(), own_initial_leaf(view))
        })?;
        let is_start = |(lane, seq): &(usize, u64)| {
            u32::try_from(*lane).is_ok_and(|lane| eligibility.starts().contains(lane, *seq))
        };
        for row in &mut *rows {
            *row = row.filter(&is_start);
        }
        let drawn = || rows.iter().zip(&*descents);
        let q = |(row, draw): (&Option<_>, &Descent)| row.map_or(0.0, |_| q_of_leaf(draw.value));
        leaves.clear();
        // Rejected draws have no influence on the weights of the others.
        leaves.extend(drawn().map(|(row, draw)| if row.is_some() { draw.value } else { u64::MAX }));
        Ok(BlockDraws {
            rows: rows.clone(),
            q: drawn().map(q).collect(),
            mass: q_of_leaf(total),
            q_min: q_of_leaf(least),
            q_new: q_of_leaf(initial),
        })
    }

    /// Returns lane and row of the first draw of an item, if there was a leaf for it.
    pub(super) fn first_draw(&self, item: usize) -> Option<(usize, u64)> {
        self.rows.get(item).copied().flatten()
    }

    /// Returns the row that an attempt draws for an item, or `None` if it finds none, or one that
    /// is too old. The row and its leaf replace those of the item's last draw. Fails if a change of
    /// the exponent takes longer than draws wait.
    pub(super) fn candidate(
        &mut self,
        rng: &CounterRng,
        eligibility: &Eligibility,
        (batch, item): (u64, usize),
        attempt: u32,
    ) -> Result<Option<Candidate>, SampleError> {
        if attempt >= MAX_REJECTIONS && eligibility.is_limited() {
            return self.young_candidate(rng, eligibility, (batch, item), attempt);
        }
        let Self { options, priorities, rows, leaves, ranks, exponent, .. } = self;
        let items = leaves.len();
        let draw = priorities.consistent(|view| {
            let Stratum { first, len } =
                stratum(options, total_of(view, ranks), item, items, attempt);
            let below = rng.below(len, batch, number(item), attempt).filter(|_| len > 0)?;
            let mut draw = [Descent::of(first + below)];
            descend(view, ranks.as_deref(), &mut draw);
            let [draw] = draw;
            // The weights of a batch are by one exponent.
            let value = match *exponent {
                Some(exponent) => view.value_by(exponent, draw.node),
                None => draw.value,
            };
            Some((row_of(view, &draw)?, value))
        });
        let draw = match draw {
            Err(error @ PriorityError::Lock(_)) => return Err(error.into()),
            // If the lock of the table fails, the attempt finds no row.
            draw => draw.ok().flatten(),
        };
        let draw = draw.filter(|((lane, seq), _)| !eligibility.is_too_old(*lane, *seq));
        let Some((row @ (lane, seq), value)) = draw else { return Ok(None) };
        // A gather that begins anew, because a lane was relocated, starts with this row.
        if let (Some(of_item), Some(leaf)) = (rows.get_mut(item), leaves.get_mut(item)) {
            (*of_item, *leaf) = (Some(row), value);
        }
        Ok(u32::try_from(lane).ok().map(|lane| Candidate { attempt, lane, seq }))
    }

    /// Draws among the rows that are not too old alone, in proportion to their leaves at the first
    /// such draw of the batch, which reads them all. The distribution is that of draws from the
    /// whole total of which the others are rejected.
    #[cold]
    fn young_candidate(
        &mut self,
        rng: &CounterRng,
        eligibility: &Eligibility,
        (batch, item): (u64, usize),
        attempt: u32,
    ) -> Result<Option<Candidate>, SampleError> {
        let Self { priorities, rows, leaves, ranks, exponent, young, .. } = self;
        if young.is_none() {
            let read = priorities.consistent(|view| {
                total_of(view, ranks);
                let ranges = eligibility.ranges().candidates().enumerate();
                let all = ranges.flat_map(|(lane, rows)| rows.map(move |seq| (lane, seq)));
                let mut sum = 0_u64;
                let sums = all.filter_map(|row @ (lane, seq)| {
                    let leaf = leaf_of_entered(view, u32::try_from(lane).ok()?, seq)?;
                    // The weights of a batch are by one exponent.
                    let value = match *exponent {
                        Some(exponent) => view.value_by(exponent, leaf),
                        None => mass_of(view.leaf(leaf), ranks.as_deref()),
                    };
                    sum = sum.saturating_add(value);
                    (value > 0).then_some((sum, row))
                });
                sums.collect()
            });
            *young = Some(match read {
                Err(error @ PriorityError::Lock(_)) => return Err(error.into()),
                read => read.unwrap_or_default(),
            });
        }
        let sums = young.as_deref().unwrap_or_default();
        let total = sums.last().map_or(0, |(sum, _)| *sum);
        let below = rng.below(total, batch, number(item), attempt).filter(|_| total > 0);
        let at = below.map(|below| sums.partition_point(|(sum, _)| *sum <= below));
        let Some((at, (sum, row @ (lane, seq)))) = at.and_then(|at| Some((at, *sums.get(at)?)))
        else {
            return Ok(None);
        };
        let before = at.checked_sub(1).and_then(|at| sums.get(at)).map_or(0, |(sum, _)| *sum);
        if eligibility.is_too_old(lane, seq) {
            return Ok(None);
        }
        if let (Some(of_item), Some(leaf)) = (rows.get_mut(item), leaves.get_mut(item)) {
            (*of_item, *leaf) = (Some(row), sum - before);
        }
        Ok(u32::try_from(lane).ok().map(|lane| Candidate { attempt, lane, seq }))
    }

    /// Looks up the leaves of named rows, for batch number `batch`. A row without one gets the
    /// value of a new row.
    pub(super) fn look_up(&mut self, batch: u64, index: &[i64]) -> Result<(), SampleError> {
        if let Some(ranks) = &mut self.ranks {
            ranks.set_alpha(self.options.alpha.of_sampler(batch));
        }
        let Self { priorities, leaves, ranks, exponent, .. } = self;
        Ok(priorities.consistent(|view| {
            total_of(view, ranks);
            leaves.clear();
            let leaf = |index: &i64| mass_of(leaf_of_row(view, *index), ranks.as_deref());
            leaves.extend(index.iter().map(leaf));
            *exponent = view.exponent();
        })?)
    }

    /// Writes the importance weights of the items.
    pub(super) fn write_weights(
        &mut self,
        batch: u64,
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
    ) -> Result<(), SampleError> {
        let at = plan.fields().iter().position(|field| field.source == Source::Weight);
        let Some(arena) = at.and_then(|at| arenas.get_mut(at)) else { return Ok(()) };
        let of_batch = self.leaves.iter().copied().min().unwrap_or(0);
        let least = match self.options.normalize {
            WeightNorm::Batch => of_batch,
            // A row whose leaf changed since it was drawn may have had a smaller value than all
            // rows have now.
            WeightNorm::Table => {
                let ranks = &mut self.ranks;
                let read = |view: &TableView| {
                    total_of(view, ranks);
                    let least = ranks.as_ref().map_or_else(|| view.least(), |of| of.least());
                    (least, view.exponent())
                };
                match self.priorities.consistent(read)? {
                    (0, _) => of_batch,
                    // The exponent has changed since the draws, whose leaves compare with no other.
                    (_, found) if found.map(f64::to_bits) != self.exponent.map(f64::to_bits) => {
                        of_batch
                    }
                    (least, _) => least.min(of_batch),
                }
            }
        };
        let Some(beta) = self.options.beta.at(batch).or(self.given) else { return Ok(()) };
        let places = arena.chunks_exact_mut(size_of::<f32>());
        for (place, weight) in places.zip(weights(least, &self.leaves, beta, &mut self.ratios)) {
            place.copy_from_slice(&weight.to_ne_bytes());
        }
        Ok(())
    }
}

/// Returns the sum of the masses of all rows. Reads the masses of ranks if rows are drawn by them.
fn total_of(view: &TableView, ranks: &mut Option<Box<RankMasses>>) -> u64 {
    let Some(ranks) = ranks else { return view.total() };
    ranks.read(view);
    ranks.total()
}

/// Moves draws to the leaves in whose mass their numbers fall.
fn descend(view: &TableView, ranks: Option<&RankMasses>, draws: &mut [Descent]) {
    let Some(ranks) = ranks else { return view.descend(draws) };
    for draw in draws {
        if let Some((node, value)) = ranks.leaf_at(view, draw.rest) {
            *draw = Descent { rest: draw.rest, node, value };
        }
    }
}

/// Returns the mass that a row with this leaf is drawn by.
fn mass_of(leaf: u64, ranks: Option<&RankMasses>) -> u64 {
    ranks.map_or(leaf, |ranks| ranks.mass_of(leaf))
}

/// Returns lane and row of the leaf that a draw reached, if it reached one. The draw and the row
/// are of one state of the table if both are read in [`Priorities::consistent`].
fn row_of(view: &TableView, draw: &Descent) -> Option<(usize, u64)> {
    let (lane, seq) = view.row_of(draw.node);
    (draw.value > 0).then_some((lane as usize, seq))
}

/// Returns the value of the leaf of a row. For a row without one, returns the value that new rows
/// get.
fn leaf_of_row(view: &TableView, index: i64) -> u64 {
    let leaf = leaf_of_entered(view, RowIndex(index).lane(), RowIndex(index).seq());
    let value = leaf.map_or(0, |leaf| view.leaf(leaf));
    if value > 0 { value } else { initial_leaf(view) }
}

/// Returns the leaf of a row, if it has one.
fn leaf_of_entered(view: &TableView, lane: u32, seq: u64) -> Option<usize> {
    let (entered, expired) = view.lane(lane);
    (expired..entered).contains(&seq).then(|| view.leaf_of(lane, seq))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strata_share_the_total_without_gaps() {
        for (total, items) in [(1, 1), (1, 7), (10, 3), (u64::MAX / 2, 256), (0, 4)] {
            let mut end = 0;
            for item in 0..items {
                let Stratum { first, len } = Stratum::of(total, item, items);
                assert_eq!(first, end);
                assert!(len <= total / items as u64 + 1);
                end = first + len;
            }
            assert_eq!(end, total);
        }
    }
}
