//! A ring of transitions: created once, joined by name; adds, counts and clears.

use backcast_core::{
    AutoresetMode, Base, Capacity, Exist, LanePolicy, Ring, RingOptions, Step, Writer, WriterError,
    WriterOptions,
};
use backcast_layout::ThreadPool;

use super::{
    batch::TransitionBatch,
    check::check,
    columns::{CLEARED, ENDS, TransitionShape},
    differs::RequestedRing,
    draw::DrawStream,
    error::TransitionError,
    identity::{INDICATOR_LAG, Identity},
    lanes::{LaneView, quota},
};
use crate::{gather::SortedWindows, panel::Panel};

/// Options of a new ring of transitions.
#[derive(Clone, Debug)]
pub struct TransitionOptions {
    /// Transitions kept over all lanes together, exactly; at least one for each lane.
    pub capacity: u64,
    /// Number of processes that may add at the same time, each with a share of the capacity:
    /// `1..=4096`.
    pub lanes: u32,
    /// Name that other processes attach to; `None` for a ring in private memory.
    pub name: Option<String>,
    /// Treatment of a name that is taken.
    pub exist: Exist,
    /// Whether the ring is kept when no process holds it.
    pub persistent: bool,
    /// Base directory of the ring.
    pub base: Base,
    /// Seed of the draws.
    pub seed: u64,
    /// Number of threads that copy the market windows of large batches.
    pub threads: usize,
    /// First day that future windows do not show, such as the end of the training data; `None`
    /// shows all days.
    pub end: Option<usize>,
    /// Days by which the indicators of observations are older than the open. The ring stores it: a
    /// process that joins passes it as
    /// [`TransitionWindows::lead`](super::TransitionWindows::lead).
    pub indicator_lag: usize,
}

impl TransitionOptions {
    /// Returns options of a private ring for one adding process.
    #[must_use]
    pub fn with_capacity(capacity: u64) -> Self {
        Self {
            capacity,
            lanes: 1,
            name: None,
            exist: Exist::Error,
            persistent: false,
            base: Base::standard(),
            seed: 42,
            threads: 1,
            end: None,
            indicator_lag: INDICATOR_LAG,
        }
    }
}

/// Trading transitions over a panel.
///
/// Adding is one copy into this process's lane, which the first `add` claims. Reading blocks no
/// writer. Stored days and tokens refer to the panel, and windows are copied from it.
#[derive(Debug)]
pub struct TransitionRing {
    pub(crate) ring: Ring,
    pub(crate) panel: Panel,
    pub(crate) shape: TransitionShape,
    pub(crate) capacity: u64,
    pub(crate) draws: DrawStream,
    /// Memory for sorting the windows of samples with different tickers.
    pub(crate) sorted: SortedWindows,
    /// Threads that fill the windows of large batches.
    pub(crate) pool: ThreadPool,
    adder: Option<Adder>,
    /// See [`TransitionOptions::end`]; at most the panel's days.
    pub(crate) end: usize,
    indicator_lag: usize,
}

/// A writer of one lane, and the position of its next transition.
#[derive(Debug)]
struct Adder {
    writer: Writer,
    /// Position of the next transition.
    position: u64,
    /// Reused memory: the positions of a batch, and end flags that are all false.
    positions: Vec<u64>,
    ends: Vec<bool>,
}

impl TransitionRing {
    /// Creates a ring and allocates all its memory. With [`Exist::Attach`], joins a ring of that
    /// name with the same panel and sizes.
    pub fn create(
        panel: Panel,
        shape: TransitionShape,
        options: TransitionOptions,
    ) -> Result<Self, TransitionError> {
        let TransitionOptions {
            capacity,
            lanes,
            name,
            exist,
            persistent,
            base,
            seed,
            threads,
            end,
            indicator_lag,
        } = options;
        let schema = shape.schema(panel.tickers().len())?;
        if capacity < u64::from(lanes.max(1)) {
            return Err(TransitionError::BadCapacity { capacity, lanes });
        }
        // `Ring` needs two rows a lane, since its transitions need the row after them. Trading
        // transitions do not, so one per lane is a valid capacity here.
        let rows = capacity.max(2 * u64::from(lanes));
        let made = RingOptions::with_capacity(Capacity::Rows(rows))
            .lanes(lanes)
            .exist(exist)
            .persistent(persistent)
            .base(base.clone())
            // Rows are copied out and never leased.
            .lane_policy(LanePolicy::Overwrite);
        let ring = match &name {
            None => Ring::heap(&schema, made)?,
            Some(name) => {
                let requested =
                    RequestedRing { name, panel: &panel, shape: &shape, capacity, lanes };
                let ring = Ring::create(name, &schema, made)
                    .map_err(|error| requested.explain(&base, error))?;
                let identity = Identity::of(&panel, capacity, end, indicator_lag);
                let path = ring.path().map(ToOwned::to_owned).unwrap_or_default();
                match Identity::read(&path, name) {
                    // An existing ring, joined by `Exist::Attach`.
                    Ok(found) => {
                        found.check(name, &panel)?;
                        requested.check(&ring, &found)?;
                    }
                    Err(_) => identity.write(&path)?,
                }
                ring
            }
        };
        let made = Self::of(ring, panel, shape, capacity, seed, threads);
        Ok(Self { indicator_lag, ..made.until(end) })
    }

    /// Joins a ring by name. `panel` is the panel of its creator, or `None` to attach to that panel
    /// by name. The end of future windows and the lag of indicators are those of the creator.
    pub fn attach(
        base: &Base,
        name: &str,
        panel: Option<Panel>,
        seed: u64,
        threads: usize,
    ) -> Result<Self, TransitionError> {
        let ring = Ring::attach_in(base, name)?;
        let path = ring.path().map(ToOwned::to_owned).unwrap_or_default();
        let identity = Identity::read(&path, name)?;
        let not = |what: &str| TransitionError::NotTransitions {
            name: name.to_owned(),
            what: what.to_owned(),
        };
        let panel = match (panel, &identity.panel) {
            (Some(panel), _) => panel,
            (None, Some(panel)) => Panel::attach_in(base, panel)?,
            (None, None) => return Err(not("its panel has no name to attach by; give the panel")),
        };
        identity.check(name, &panel)?;
        let shape = TransitionShape::of(ring.schema(), panel.tickers().len())
            .ok_or_else(|| not("its columns are others"))?;
        let lanes = u64::from(ring.lanes());
        // A resized ring has more rows, but the same capacity of transitions.
        if identity.capacity < lanes || identity.capacity.div_ceil(lanes) > ring.lane_capacity() {
            return Err(not("its capacity is another"));
        }
        let joined = Self::of(ring, panel, shape, identity.capacity, seed, threads);
        let indicator_lag = identity.indicator_lag.unwrap_or(INDICATOR_LAG);
        Ok(Self { indicator_lag, ..joined.until(identity.end) })
    }

    /// Sets the exclusive end day of future windows; `None` shows all days.
    #[must_use]
    pub fn until(mut self, end: Option<usize>) -> Self {
        let days = self.panel.days();
        self.end = end.map_or(days, |end| end.min(days));
        self
    }

    fn of(
        ring: Ring,
        panel: Panel,
        shape: TransitionShape,
        capacity: u64,
        seed: u64,
        threads: usize,
    ) -> Self {
        let draws = DrawStream::seeded(seed);
        Self {
            ring,
            end: panel.days(),
            panel,
            shape,
            capacity,
            draws,
            sorted: SortedWindows::default(),
            pool: ThreadPool::new(threads),
            adder: None,
            indicator_lag: INDICATOR_LAG,
        }
    }

    /// Appends transitions in order, with one copy. An error means that none was added. The first
    /// call claims a lane.
    pub fn add(&mut self, batch: &TransitionBatch) -> Result<(), TransitionError> {
        check(batch, &self.shape, &self.panel)?;
        if self.adder.is_none() {
            self.adder = Some(self.claim()?);
        }
        let Some(adder) = &mut self.adder else { return Ok(()) };
        adder.append(batch)
    }

    /// Claims the first free lane.
    fn claim(&self) -> Result<Adder, TransitionError> {
        let writer = self.ring.writer(options(1)).map_err(|error| match error {
            WriterError::LanesTaken { lanes, held, .. } => {
                TransitionError::NoPlace { places: lanes, held }
            }
            other => other.into(),
        })?;
        let lane = writer.lanes().first().copied().unwrap_or_default();
        let position = self.lane_view(lane)?.next_position();
        Ok(Adder { writer, position, positions: Vec::new(), ends: Vec::new() })
    }

    /// Returns the number of transitions stored.
    pub fn len(&self) -> Result<u64, TransitionError> {
        Ok(self.views()?.iter().map(|view| view.count).sum())
    }

    /// Returns whether no transition is stored.
    pub fn is_empty(&self) -> Result<bool, TransitionError> {
        Ok(self.len()? == 0)
    }

    /// Removes all transitions, for every process. Fails while other live processes hold lanes.
    pub fn clear(&mut self) -> Result<(), TransitionError> {
        self.with_all("clear the buffer", |all, shape| {
            all.iter_mut().try_for_each(|adder| adder.clear(shape))
        })
    }

    /// Claims every lane and calls `work` with them, in order. Keeps only the lane that this
    /// process had before, so that clearing and loading leave no other lane claimed.
    fn with_all(
        &mut self,
        operation: &'static str,
        work: impl FnOnce(&mut [Adder], &TransitionShape) -> Result<(), TransitionError>,
    ) -> Result<(), TransitionError> {
        let mine = self.adder.as_ref().map(Adder::lane);
        let mut all: Vec<Adder> = self.adder.take().into_iter().collect();
        let done = self.claim_rest(operation, &mut all).and_then(|()| {
            all.sort_by_key(Adder::lane);
            work(&mut all, &self.shape)
        });
        self.adder = all.into_iter().find(|adder| Some(adder.lane()) == mine);
        done
    }

    /// Claims the lanes that are missing in `all`. Fails with the holders of the lanes that are
    /// taken.
    fn claim_rest(
        &self,
        operation: &'static str,
        all: &mut Vec<Adder>,
    ) -> Result<(), TransitionError> {
        let lanes = self.ring.lanes() as usize;
        while all.len() < lanes {
            match self.claim() {
                Ok(adder) => all.push(adder),
                Err(TransitionError::NoPlace { mut held, .. }) => {
                    held.retain(|held| all.iter().all(|adder| adder.lane() != held.lane));
                    return Err(TransitionError::HeldByOthers { operation, held });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Replaces all transitions. `lanes` holds, for each lane, the position of the first transition
    /// and the transitions. Fails while other live processes hold lanes.
    pub(crate) fn replace(
        &mut self,
        lanes: &[(u64, TransitionBatch)],
    ) -> Result<(), TransitionError> {
        for (_, batch) in lanes {
            check(batch, &self.shape, &self.panel)?;
        }
        self.with_all("load a buffer", |all, shape| {
            let replace = |(adder, (position, batch)): (&mut Adder, &(u64, TransitionBatch))| {
                adder.clear(shape)?;
                adder.position = *position;
                adder.append(batch)
            };
            all.iter_mut().zip(lanes).try_for_each(replace)
        })
    }

    pub(crate) fn lane_view(&self, lane: u32) -> Result<LaneView, TransitionError> {
        LaneView::of(&self.ring, lane, quota(self.capacity, self.ring.lanes(), lane))
    }

    pub(crate) fn views(&self) -> Result<Vec<LaneView>, TransitionError> {
        (0..self.ring.lanes()).map(|lane| self.lane_view(lane)).collect()
    }

    /// Returns the maximum number of transitions.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Returns the sizes of the parts of a transition.
    #[must_use]
    pub fn shape(&self) -> &TransitionShape {
        &self.shape
    }

    /// Returns the panel that stored days and tokens refer to.
    #[must_use]
    pub fn panel(&self) -> &Panel {
        &self.panel
    }

    /// Returns the first day that future windows do not show.
    #[must_use]
    pub fn end(&self) -> usize {
        self.end
    }

    /// Returns the days by which the indicators of observations are older than their opening
    /// prices.
    #[must_use]
    pub fn indicator_lag(&self) -> usize {
        self.indicator_lag
    }

    /// Returns the ring that stores the transitions.
    #[must_use]
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Releases this process's lane, so that another process can claim it.
    pub fn release(&mut self) {
        self.adder = None;
    }
}

impl Adder {
    /// Returns the lane of the writer.
    fn lane(&self) -> u32 {
        self.writer.lanes().first().copied().unwrap_or_default()
    }

    /// Appends a row that marks the lane as cleared.
    fn clear(&mut self, shape: &TransitionShape) -> Result<(), TransitionError> {
        self.position = CLEARED;
        self.append(&TransitionBatch::zeros(1, shape))?;
        self.position = 0;
        Ok(())
    }

    fn append(&mut self, batch: &TransitionBatch) -> Result<(), TransitionError> {
        let count = batch.len();
        let first = self.position;
        self.positions.clear();
        self.positions.extend((0..count as u64).map(|more| first.wrapping_add(more)));
        self.ends.resize(count, false);
        let mut columns: [&[u8]; ENDS + 1] = [bytemuck::cast_slice(&self.positions); ENDS + 1];
        columns[1..].copy_from_slice(&batch.columns());
        let (terminated, truncated) = (&*self.ends, &*self.ends);
        let schema = self.writer.schema().clone();
        self.writer.extend(Step {
            schema: &schema,
            columns: &columns,
            terminated,
            truncated,
            next_obs: None,
            final_obs: None,
        })?;
        self.position = first.wrapping_add(count as u64);
        Ok(())
    }
}

/// Returns writer options. Every row is a complete transition, so no row waits for a final
/// observation.
fn options(lanes: u32) -> WriterOptions {
    WriterOptions::lanes(lanes).autoreset(AutoresetMode::Disabled)
}
