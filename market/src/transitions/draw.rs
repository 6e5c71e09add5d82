//! Reads transitions by index and draws them at random.

use backcast_core::{CounterRng, GatherTarget, RowIndex};

use super::{
    batch::TransitionBatch,
    check::{check_days, check_tokens},
    columns::POSITION,
    error::TransitionError,
    lanes::{LaneView, damaged},
    ring::TransitionRing,
};

/// Maximum attempts to copy a row, each of which a writer may overtake, before a read fails. An
/// item's rejected draws use attempts from this number on, so that no two attempts share a draw.
const ATTEMPTS: u32 = 64;

/// Position in a stream of draws: the seed and the number of the batch decide every draw.
#[derive(Clone, Debug)]
pub(crate) struct DrawStream {
    pub(crate) seed: u64,
    /// Number of batches drawn so far.
    pub(crate) batches: u64,
    rng: CounterRng,
}

impl DrawStream {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self::resumed(seed, 0)
    }

    /// Returns the stream of a seed after `batches` batches.
    pub(crate) fn resumed(seed: u64, batches: u64) -> Self {
        Self { seed, batches, rng: CounterRng::seeded(seed) }
    }

    /// Returns a uniform number in `0..bound`. Each `attempt` of an item draws another number.
    fn below(&self, bound: u64, item: usize, mut attempt: u32) -> u64 {
        // The RNG computes two numbers per counter; these streams use the first one.
        let item = u32::try_from(item).unwrap_or(u32::MAX).wrapping_mul(2);
        loop {
            if let Some(drawn) = self.rng.below(bound, self.batches, item, attempt) {
                return drawn;
            }
            attempt = attempt.wrapping_add(ATTEMPTS);
        }
    }
}

/// The lanes at one moment. Transitions are numbered lane after lane.
struct LaneViews {
    views: Vec<LaneView>,
    size: u64,
}

impl LaneViews {
    /// Returns the lane and the row of an index, which counts the slots of the first lane, then of
    /// the next.
    fn find(&self, mut index: u64) -> Option<(&LaneView, u64)> {
        for view in &self.views {
            if index < view.count {
                return Some((view, view.row(index)));
            }
            index -= view.count;
        }
        None
    }
}

impl TransitionRing {
    fn lane_views(&self) -> Result<LaneViews, TransitionError> {
        let views = self.views()?;
        let size = views.iter().map(|view| view.count).sum();
        Ok(LaneViews { views, size })
    }

    /// Returns the transitions of some indices, within `0..len`. With one adding process an index
    /// is a slot, which is overwritten one capacity later. With several processes indices count
    /// lane after lane. Makes one copy. Reads rows that are overwritten meanwhile again, in at most
    /// 64 attempts.
    pub fn get(&self, indices: &[i64]) -> Result<TransitionBatch, TransitionError> {
        let mut batch = TransitionBatch::default();
        self.read(indices.len(), &mut batch, |lanes, item, _| {
            let index = indices[item];
            match u64::try_from(index) {
                Ok(known) if known < lanes.size => Ok(known),
                _ => Err(TransitionError::NoSuchIndex { index: index.into(), size: lanes.size }),
            }
        })?;
        Ok(batch)
    }

    /// Draws transitions uniformly, with replacement: `batch_size`, or the number stored if that is
    /// smaller. It is an error if none is stored or `batch_size` is 0.
    pub fn draw_into(
        &mut self,
        batch_size: usize,
        batch: &mut TransitionBatch,
    ) -> Result<(), TransitionError> {
        let n = self.drawn(batch_size)?;
        let draws = &self.draws;
        self.read(n, batch, |lanes, item, attempt| match lanes.size {
            0 => Err(TransitionError::Empty),
            size => Ok(draws.below(size, item, attempt)),
        })?;
        self.draws.batches += 1;
        Ok(())
    }

    /// Returns the number of batches drawn so far.
    #[must_use]
    pub fn batches_drawn(&self) -> u64 {
        self.draws.batches
    }

    /// Takes back the last draw, whose use was refused, so that the next call repeats it. `drawn`
    /// is the number of [batches drawn](Self::batches_drawn) after that draw. Does nothing if
    /// another draw followed, since that one would be repeated.
    pub fn give_back(&mut self, drawn: u64) {
        if self.draws.batches == drawn {
            self.draws.batches = drawn.saturating_sub(1);
        }
    }

    /// Draws the indices that [`draw_into`](Self::draw_into) would draw if no row were overwritten
    /// meanwhile.
    pub fn draw_indices(&mut self, batch_size: usize) -> Result<Vec<i64>, TransitionError> {
        let n = self.drawn(batch_size)?;
        let size = self.len()?;
        let index = |item| self.draws.below(size, item, 0).cast_signed();
        let indices = (0..n).map(index).collect();
        self.draws.batches += 1;
        Ok(indices)
    }

    /// Returns the number of items of a batch. Refuses a `batch_size` of 0 and an empty ring.
    fn drawn(&self, batch_size: usize) -> Result<usize, TransitionError> {
        if batch_size == 0 {
            return Err(TransitionError::NoBatch);
        }
        match self.len()? {
            0 => Err(TransitionError::Empty),
            size => Ok(usize::try_from(size).map_or(batch_size, |size| size.min(batch_size))),
        }
    }

    /// Fills `batch` with the transitions that `choose` returns, and chooses again for rows that
    /// were overwritten meanwhile.
    fn read(
        &self,
        n: usize,
        batch: &mut TransitionBatch,
        mut choose: impl FnMut(&LaneViews, usize, u32) -> Result<u64, TransitionError>,
    ) -> Result<(), TransitionError> {
        let (mut positions, mut chosen) = (Vec::<u64>::new(), Vec::new());
        let room = batch.try_reserve(n, &self.shape)
            && positions.try_reserve_exact(n).is_ok()
            && chosen.try_reserve_exact(n).is_ok();
        if !room {
            let (batch, tickers) = (n, self.shape.tickers);
            return Err(TransitionError::TooLarge { batch, tickers, days: 0 });
        }
        batch.resize(n, &self.shape);
        positions.resize(n, 0);
        chosen.resize(n, (0, 0, 0));
        let position =
            GatherTarget { column: POSITION, out: bytemuck::cast_slice_mut(&mut positions) };
        let mut targets: Vec<_> = std::iter::once(position).chain(batch.targets()).collect();
        // The lanes are inspected once per attempt, for all its items.
        let mut at: Option<(u32, LaneViews)> = None;
        let attempts = self.ring.gather_chosen(n, ATTEMPTS, &mut targets, |item, attempt| {
            if at.as_ref().is_none_or(|(of, _)| *of != attempt) {
                at = Some((attempt, self.lane_views()?));
            }
            let Some((_, lanes)) = &at else { return Err(TransitionError::Empty) };
            let index = choose(lanes, item, attempt)?;
            let (view, row) = lanes.find(index).ok_or(TransitionError::Empty)?;
            chosen[item] = (view.lane, row, view.position(row));
            Ok::<_, TransitionError>(RowIndex::new(view.lane, row))
        })?;
        if attempts.is_none() {
            return Err(TransitionError::Lapped { attempts: ATTEMPTS });
        }
        let mut rows = chosen.iter().zip(&positions);
        if let Some(((lane, row, _), _)) = rows.find(|((_, _, expected), found)| expected != *found)
        {
            return Err(damaged(*lane, *row, "its position is another's"));
        }
        self.believable(batch)
    }

    /// Checks days and tokens, which index the panel, since a peer may have written any number.
    fn believable(&self, batch: &TransitionBatch) -> Result<(), TransitionError> {
        check_days(&batch.days, &self.panel)?;
        check_tokens(&batch.tokens, self.shape.tickers, &self.panel)
    }

    /// Returns the transitions of each lane, oldest first, and the position of each lane's first
    /// one. The result is complete if no process adds meanwhile.
    pub(crate) fn everything(&self) -> Result<Vec<(u64, TransitionBatch)>, TransitionError> {
        let copy = |view: LaneView| {
            let rows: Vec<(usize, u64)> = view.rows().enumerate().collect();
            let mut batch = TransitionBatch::zeros(rows.len(), &self.shape);
            let whole = self.ring.gather_rows(view.lane, &rows, &mut batch.targets())?;
            if rows.first().is_some_and(|(_, oldest)| *oldest < whole) {
                return Ok(None);
            }
            Ok(Some((view.next_position() - view.count, batch)))
        };
        for _ in 0..ATTEMPTS {
            let lanes: Result<Option<Vec<_>>, TransitionError> =
                self.views()?.into_iter().map(copy).collect();
            if let Some(lanes) = lanes? {
                return Ok(lanes);
            }
        }
        Err(TransitionError::Lapped { attempts: ATTEMPTS })
    }
}
