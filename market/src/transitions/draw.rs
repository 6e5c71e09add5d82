//! Finding and drawing transitions.

use backcast_core::{Pick, philox4x32};

use super::{
    batch::TransitionBatch,
    check::{check_days, check_tokens},
    columns::POSITION,
    error::TransitionError,
    lanes::LaneView,
    ring::TransitionRing,
};

/// Tries against writers that lap the reader.
const ATTEMPTS: u32 = 64;

/// A counter-based stream: the seed and the number of the batch decide every draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Draws {
    pub(crate) seed: u64,
    /// Batches drawn so far.
    pub(crate) batches: u64,
}

impl Draws {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self { seed, batches: 0 }
    }

    /// Uniform in `0..bound` (Lemire, "Fast random integer generation in an interval", ACM TOMACS 29,
    /// 2019). `attempt` tells draws of one item apart.
    fn below(self, bound: u64, item: u32, mut attempt: u32) -> u64 {
        loop {
            let counter = [low(self.batches), low(self.batches >> 32), item, attempt];
            let [a, b, ..] = philox4x32(counter, [low(self.seed), low(self.seed >> 32)]);
            let product = (u128::from(a) << 32 | u128::from(b)) * u128::from(bound);
            #[expect(clippy::cast_possible_truncation, reason = "the two halves of the product")]
            let (whole, fraction) = ((product >> 64) as u64, product as u64);
            if fraction >= bound || fraction >= bound.wrapping_neg() % bound {
                return whole;
            }
            // Apart from the attempts of an item that was lapped.
            attempt = attempt.wrapping_add(ATTEMPTS);
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
fn low(x: u64) -> u32 {
    x as u32
}

/// Transitions that were asked for, each by its lane and row.
struct Places {
    views: Vec<LaneView>,
    size: u64,
}

impl Places {
    /// The row of an index: slots of the first lane, then of the next.
    fn find(&self, mut index: u64) -> (usize, u64) {
        for (at, view) in self.views.iter().enumerate() {
            if index < view.count {
                return (at, view.row(index));
            }
            index -= view.count;
        }
        (0, 0)
    }
}

impl TransitionRing {
    fn places(&self) -> Result<Places, TransitionError> {
        let views = self.views()?;
        let size = views.iter().map(|view| view.count).sum();
        Ok(Places { views, size })
    }

    /// The transitions of these indices, `0..len`. With one adding process an index is a slot, which
    /// is overwritten by a transition one capacity younger; with several they count lane after
    /// lane. One copy; what is overwritten meanwhile is read again.
    pub fn get(&self, indices: &[i64]) -> Result<TransitionBatch, TransitionError> {
        let mut batch = TransitionBatch::default();
        self.read(indices.len(), &mut batch, |places, item, _| {
            let index = indices[item];
            match u64::try_from(index) {
                Ok(known) if known < places.size => Ok(known),
                _ => Err(TransitionError::NoSuchIndex { index: index.into(), size: places.size }),
            }
        })?;
        Ok(batch)
    }

    /// Draw uniformly, with replacement: as many as asked for, or as are stored if those are fewer.
    pub fn draw_into(
        &mut self,
        batch_size: usize,
        batch: &mut TransitionBatch,
    ) -> Result<(), TransitionError> {
        let n = self.drawn(batch_size)?;
        let draws = self.draws;
        self.read(n, batch, |places, item, attempt| {
            if places.size == 0 {
                return Err(TransitionError::Empty);
            }
            Ok(draws.below(places.size, low(item as u64), attempt))
        })?;
        self.draws.batches += 1;
        Ok(())
    }

    /// Batches drawn so far.
    #[must_use]
    pub fn batches_drawn(&self) -> u64 {
        self.draws.batches
    }

    /// Forget the draw after which so many batches were [drawn](Self::batches_drawn): what it was for
    /// was refused. Nothing happens where another came after it, as this one's draws would come twice.
    pub fn give_back(&mut self, drawn: u64) {
        if self.draws.batches == drawn {
            self.draws.batches = drawn.saturating_sub(1);
        }
    }

    /// Indices as [`draw_into`](Self::draw_into) would draw them.
    pub fn draw_indices(&mut self, batch_size: usize) -> Result<Vec<i64>, TransitionError> {
        let n = self.drawn(batch_size)?;
        let size = self.len()?;
        let draws = self.draws;
        let index = |item: usize| draws.below(size, low(item as u64), 0).cast_signed();
        self.draws.batches += 1;
        Ok((0..n).map(index).collect())
    }

    /// Items of a batch.
    fn drawn(&self, batch_size: usize) -> Result<usize, TransitionError> {
        if batch_size == 0 {
            return Err(TransitionError::NoBatch);
        }
        match self.len()? {
            0 => Err(TransitionError::Empty),
            size => Ok(usize::try_from(size).map_or(batch_size, |size| size.min(batch_size))),
        }
    }

    /// Fill `batch` with the transitions that `choose` names, and choose again for those that were
    /// overwritten meanwhile.
    fn read(
        &self,
        n: usize,
        batch: &mut TransitionBatch,
        mut choose: impl FnMut(&Places, usize, u32) -> Result<u64, TransitionError>,
    ) -> Result<(), TransitionError> {
        let (mut positions, mut open) = (Vec::new(), Vec::new());
        let room = batch.try_reserve(n, &self.shape)
            && positions.try_reserve_exact(n).is_ok()
            && open.try_reserve_exact(n).is_ok();
        if !room {
            let (batch, tickers) = (n, self.shape.tickers);
            return Err(TransitionError::TooLarge { batch, tickers, days: 0 });
        }
        batch.resize(n, &self.shape);
        positions.resize(n, 0_u64);
        open.extend(0..n);
        for attempt in 0..ATTEMPTS {
            let places = self.places()?;
            let mut asked: Vec<Vec<(usize, u64)>> = vec![Vec::new(); places.views.len()];
            for &item in &open {
                let (at, row) = places.find(choose(&places, item, attempt)?);
                asked[at].push((item, row));
            }
            open.clear();
            for (view, rows) in places.views.iter().zip(&asked).filter(|(_, rows)| !rows.is_empty())
            {
                let position =
                    Pick { column: POSITION, out: bytemuck::cast_slice_mut(&mut positions) };
                let mut picks: Vec<_> = std::iter::once(position).chain(batch.picks()).collect();
                let whole = self.ring.pick(view.lane, rows, &mut picks)?;
                for &(item, row) in rows {
                    if row < whole {
                        open.push(item);
                    } else if positions[item] != view.position(row) {
                        let (lane, what) = (view.lane, "its position is another's");
                        return Err(TransitionError::Damaged { lane, seq: row, what });
                    }
                }
            }
            if open.is_empty() {
                return self.believable(batch);
            }
        }
        Err(TransitionError::Lapped { attempts: ATTEMPTS })
    }

    /// Days and tokens lead into the panel; a peer may have written any.
    fn believable(&self, batch: &TransitionBatch) -> Result<(), TransitionError> {
        check_days(&batch.days, &self.panel)?;
        check_tokens(&batch.tokens, self.shape.tickers, &self.panel)
    }

    /// Transitions lane by lane, oldest first, with the position of each lane's first: all of
    /// them, while nobody adds.
    pub(crate) fn everything(&self) -> Result<Vec<(u64, TransitionBatch)>, TransitionError> {
        let copy = |view: LaneView| {
            let rows: Vec<(usize, u64)> = view.rows().enumerate().collect();
            let mut batch = TransitionBatch::zeros(rows.len(), &self.shape);
            let whole = self.ring.pick(view.lane, &rows, &mut batch.picks())?;
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
