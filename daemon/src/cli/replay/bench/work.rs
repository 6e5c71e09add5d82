//! Measured work: appends to a ring, draws from it, and plain copies.

use std::hint::black_box;

use backcast_core::{
    AppendError, Arena, AutoresetMode, Base, Column, DType, Ring, RingOptions, SampleError,
    Sampler, SamplerOptions, Schema, StepColumns, Writer, WriterError, WriterOptions,
};

use super::rate::{Pace, RateComparison};
use crate::cli::exit_status::{CommandError, Exit, Fails};

/// Bytes of the ring's rows: more than most caches hold, so that draws come from memory.
const RING_BYTES: u64 = 64 << 20;
/// Maximum bytes of a batch of large rows.
const BATCH_BYTES: u64 = 32 << 20;
const BATCH: u64 = 256;
/// History and future of a window, in transitions.
const WINDOW: (u32, u32) = (20, 5);
/// Appends between two readings of the clock.
const APPENDS: u64 = 256;
/// Steps of an episode.
const EPISODE: u64 = 200;

macro_rules! found_problems {
    ($($error:ty),*) => {
        $(impl Fails for $error {
            fn exit(&self) -> Exit {
                Exit::FoundProblems
            }
        })*
    };
}

found_problems!(AppendError, SampleError, WriterError);

/// A ring that is removed on drop.
pub(super) struct Bench {
    pub(super) ring: Ring,
}

/// Result of drawing: items of a batch, bytes of an item, rates.
pub(super) struct DrawRates {
    pub(super) batch: u64,
    pub(super) bytes: f64,
    pub(super) rate: RateComparison,
}

/// One step of every lane, which is appended repeatedly.
pub(super) struct AppendedRows {
    schema: Schema,
    obs: Vec<u8>,
    action: Vec<i32>,
    reward: Vec<f32>,
    ends: [Vec<bool>; 2],
    steps: u64,
}

impl AppendedRows {
    pub(super) fn of(ring: &Ring) -> Self {
        let lanes = ring.lanes() as usize;
        let wide = ring.schema().columns().iter().map(Column::width).max().unwrap_or(0);
        Self {
            schema: ring.schema().clone(),
            obs: (0..lanes * wide).map(|at| at.to_le_bytes()[0]).collect(),
            action: vec![1; lanes],
            reward: vec![0.5; lanes],
            ends: [vec![false; lanes], vec![true; lanes]],
            steps: 0,
        }
    }

    /// Appends `appends` steps and returns the number of rows over all lanes.
    pub(super) fn append(
        &mut self,
        writer: &mut Writer,
        appends: u64,
    ) -> Result<u64, CommandError> {
        let columns = StepColumns::of(&self.schema)
            .with("obs", &self.obs)?
            .with("action", &self.action)?
            .with("reward", &self.reward)?;
        let [no, yes] = &self.ends;
        let (goes_on, ends) = (columns.clone().step(no, no)?, columns.step(yes, no)?);
        for _ in 0..appends {
            self.steps += 1;
            writer.append(if self.steps.is_multiple_of(EPISODE) { &ends } else { &goes_on })?;
        }
        Ok(appends * self.action.len() as u64)
    }
}

impl Bench {
    pub(super) fn new(base: &Base, row_bytes: u32, lanes: u32) -> Result<Self, CommandError> {
        let schema = Schema::builder()
            .column("obs", DType::U8, &[row_bytes - 8])
            .column("action", DType::I32, &[])
            .column("reward", DType::F32, &[])
            .build()?;
        // At least 256 rows for each lane leave room for many windows, even of large rows.
        let rows = (RING_BYTES / u64::from(row_bytes)).max(u64::from(lanes) * 256);
        let name = format!("bench-{}-{:08x}", std::process::id(), Random::new().next() >> 32);
        let options = RingOptions::with_capacity(rows).lanes(lanes).base(base.clone());
        let ring = Ring::create(&name, &schema, options)?;
        // Fill it once, which touches all memory.
        let mut writer =
            ring.writer(WriterOptions::lanes(lanes).autoreset(AutoresetMode::NextStep))?;
        AppendedRows::of(&ring).append(&mut writer, ring.slots())?;
        drop(writer);
        Ok(Self { ring })
    }

    pub(super) fn ring_bytes(&self) -> u64 {
        self.ring.stats().bytes_allocated
    }

    /// Returns the bytes of a row with its built-in columns.
    #[expect(clippy::cast_precision_loss, reason = "a row has fewer bytes than 2^53")]
    pub(super) fn row_bytes(&self) -> f64 {
        self.ring.schema().row_bytes() as f64
    }

    /// Compares appends with copies of the same columns into private memory of the same size.
    pub(super) fn publish(&self, pace: &Pace<'_>) -> Result<RateComparison, CommandError> {
        let mut writer = self
            .ring
            .writer(WriterOptions::lanes(self.ring.lanes()).autoreset(AutoresetMode::NextStep))?;
        let mut rows = AppendedRows::of(&self.ring);
        let mut copies = Copies::of(&self.ring);
        pace.compare(|| rows.append(&mut writer, APPENDS), || copies.append(APPENDS))
    }

    pub(super) fn sample(&self, pace: &Pace<'_>) -> Result<DrawRates, CommandError> {
        self.draw(pace, SamplerOptions::seeded(1), 2)
    }

    pub(super) fn windows(&self, pace: &Pace<'_>) -> Result<DrawRates, CommandError> {
        let (history, future) = WINDOW;
        let rows = u64::from(history + future) + 1;
        self.draw(pace, SamplerOptions::seeded(1).history(history).future(future), rows)
    }

    /// Compares draws with copies of as many bytes from random rows of private memory of the same
    /// size.
    fn draw(
        &self,
        pace: &Pace<'_>,
        options: SamplerOptions,
        rows: u64,
    ) -> Result<DrawRates, CommandError> {
        let batch = (BATCH_BYTES / (self.ring.schema().row_bytes() as u64 * rows)).clamp(1, BATCH);
        let mut sampler = self.ring.sampler(options)?;
        let items = usize::try_from(batch).unwrap_or(1);
        let mut drawn = sampler.blank(items)?;
        let all: usize = sampler.plan(items)?.arenas().iter().map(Arena::bytes).sum();
        let mut gather = Gather::new(&self.ring, all / items, items);
        let rate = pace.compare(
            || {
                sampler.sample_over(&mut drawn)?;
                black_box(&drawn);
                Ok(batch)
            },
            || gather.batch(),
        )?;
        #[expect(clippy::cast_precision_loss, reason = "a batch has fewer bytes than 2^53")]
        let bytes = all as f64 / items as f64;
        Ok(DrawRates { batch, bytes, rate })
    }

    /// Returns a sampler and a batch as in [`sample`](Self::sample).
    pub(super) fn learner(&self) -> Result<(Sampler, backcast_core::Batch), CommandError> {
        let row = self.ring.schema().row_bytes() as u64;
        let batch = (BATCH_BYTES / (row * 2)).clamp(1, BATCH);
        let mut sampler = self.ring.sampler(SamplerOptions::seeded(2))?;
        let drawn = sampler.blank(usize::try_from(batch).unwrap_or(1))?;
        Ok((sampler, drawn))
    }
}

/// Private memory with the layout of a ring.
struct Copies {
    from: Vec<Vec<u8>>,
    to: Vec<Vec<u8>>,
    lanes: usize,
    slots: usize,
    next: usize,
}

impl Copies {
    fn of(ring: &Ring) -> Self {
        let schema = ring.schema();
        let mut widths: Vec<usize> = schema.columns().iter().map(Column::width).collect();
        // The built-in columns are adjacent.
        widths.push(schema.row_bytes() - widths.iter().sum::<usize>());
        let lanes = ring.lanes() as usize;
        let slots = usize::try_from(ring.slots()).unwrap_or(1);
        Self {
            from: widths.iter().map(|width| vec![1; width * lanes]).collect(),
            to: widths.iter().map(|width| vec![2; width * lanes * slots]).collect(),
            lanes,
            slots,
            next: 0,
        }
    }

    /// Copies a row of every lane, `times` times.
    fn append(&mut self, times: u64) -> u64 {
        for _ in 0..times {
            for (from, to) in self.from.iter().zip(&mut self.to) {
                let width = from.len() / self.lanes;
                let lane_bytes = width * self.slots;
                for (row, lane) in from.chunks_exact(width).zip(to.chunks_exact_mut(lane_bytes)) {
                    let at = self.next * width;
                    if let Some(place) = lane.get_mut(at..at + width) {
                        place.copy_from_slice(row);
                    }
                }
            }
            self.next = (self.next + 1) % self.slots;
        }
        black_box(&self.to);
        times * self.lanes as u64
    }
}

/// Source and target of copies from random rows of private memory.
struct Gather {
    from: Vec<u8>,
    to: Vec<u8>,
    row: usize,
    item: usize,
    random: Random,
}

impl Gather {
    fn new(ring: &Ring, item: usize, items: usize) -> Self {
        let row = ring.schema().row_bytes();
        let rows = usize::try_from(ring.capacity()).unwrap_or(1);
        let bytes = (row * rows).max(item + row);
        Self { from: vec![1; bytes], to: vec![2; item * items], row, item, random: Random::new() }
    }

    fn batch(&mut self) -> u64 {
        let starts = (self.from.len() - self.item) / self.row;
        let mut items = 0;
        for place in self.to.chunks_exact_mut(self.item) {
            let start = usize::try_from(self.random.next() >> 1).unwrap_or(0) % starts.max(1);
            let at = start * self.row;
            if let Some(rows) = self.from.get(at..at + self.item) {
                place.copy_from_slice(rows);
            }
            items += 1;
        }
        black_box(&self.to);
        items
    }
}

/// Random numbers by `SplitMix64` (Steele, Lea, Flood, OOPSLA 2014, section 4).
struct Random(u64);

impl Random {
    fn new() -> Self {
        use std::hash::{BuildHasher, RandomState};
        Self(RandomState::new().hash_one(std::process::id()))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}
