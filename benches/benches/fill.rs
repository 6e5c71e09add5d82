//! Time of a sampled row by the size of the ring: rows of 64 and of 396 bytes, ten thousand to
//! twenty million of them, in one lane to 64. The baselines are C programs that read the same rows
//! from the same memory, with the same costs of caches and page tables: gathers of given rows, and
//! one that draws the rows itself. All contenders take turns.

use std::error::Error;
use std::hint::black_box;
use std::ops::Range;
use std::time::Instant;

use backcast_benches::c_draws::Draws;
use backcast_benches::c_rows::{MappedRing, Prefetch, Rows, Widths};
use backcast_benches::measured::Measured;
use backcast_benches::record::{MEDIUM, SMALL};
use backcast_benches::{base, filled};
use backcast_core::{Base, RowIndex, Sampler, SamplerOptions};

const ROUNDS: usize = 51;
const BATCH: usize = 256;
/// Batches that are timed together.
const BATCHES: usize = 256;
/// Batches before those, to warm up caches and branch predictor.
const BEFORE: usize = 16;
/// Bytes read between turns: more than the caches hold, so that no contender profits from another's
/// lines.
const SWEPT_BYTES: usize = 64 << 20;

/// Turns in which each baseline tries every prefetch setting.
const PREFETCH_ROUNDS: usize = 5;

const SEED: u64 = 7;

/// Our contenders, as named in the table: one draws rows and copies them, one copies given rows.
const OURS: [&str; 2] = ["backcast", "backcast, told which rows"];

/// The baselines, and for each the entry of [`OURS`] that does the same work.
const OTHERS: [(&str, usize); 3] = [
    ("gather of the same in C", 1),
    ("gather in C of compiled widths", 1),
    ("sampler in C of the same draws", 0),
];

fn main() -> Result<(), Box<dyn Error>> {
    let measured = Measured::from_args();
    compare::<{ SMALL.obs }, { SMALL.action }>(&measured)?;
    compare::<{ MEDIUM.obs }, { MEDIUM.action }>(&measured)
}

/// Compares all rings with rows of one size.
fn compare<const OBS: usize, const ACTION: usize>(
    measured: &Measured,
) -> Result<(), Box<dyn Error>> {
    let record = MappedRing::<OBS, ACTION>::RECORD;
    let what = format!("sample 256 rows of {} B", record.bytes());
    let times = format!("{what}, and the same in C, a row");
    let quotients = OTHERS.map(|(other, _)| format!("{what}, time over a {other}"));
    if !measured.wants(&times) && !quotients.iter().any(|metric| measured.wants(metric)) {
        return Ok(());
    }
    let (_dir, base) = base();
    let million = 1_000_000;
    let mut rings = Vec::new();
    for (of, rows, lanes) in [
        ("10 k rows, 1 lane", 10_000, 1),
        ("1 M rows, 1 lane", million, 1),
        ("20 M rows, 1 lane", 20 * million, 1),
        ("1 M rows, 8 lanes", million, 8),
        ("1 M rows, 64 lanes", million, 64),
    ] {
        rings.push(Contest::<OBS, ACTION>::new(&base, of, rows, lanes)?);
    }
    let sweep = vec![1_u8; SWEPT_BYTES];
    // A round that is not counted, so that all pages are mapped.
    for contest in &mut rings {
        contest.round(&sweep, 0);
        contest.choose_prefetch(&sweep);
        contest.forget();
    }
    for round in 0..ROUNDS {
        for contest in &mut rings {
            contest.round(&sweep, round);
        }
    }
    for Contest { of, ours, theirs, .. } in &rings {
        let others = OTHERS.iter().map(|(other, _)| other).zip(theirs);
        for (who, times_of) in OURS.iter().zip(ours).chain(others) {
            measured.keep(&times, "ns", &format!("{who}, {of}"), times_of);
        }
    }
    for (other, metric) in quotients.iter().enumerate() {
        for contest in &rings {
            measured.keep(metric, "times", contest.of, &contest.times_over(other));
        }
    }
    Ok(())
}

/// A ring, and the contenders that read rows from it.
struct Contest<const OBS: usize, const ACTION: usize> {
    of: &'static str,
    sampler: Sampler,
    /// Output of each of [`OURS`].
    memory: [Vec<Vec<u8>>; OURS.len()],
    mapped: MappedRing<OBS, ACTION>,
    rows: Rows,
    draws: Draws,
    /// Prefetch setting of each of [`OTHERS`].
    prefetch: [Prefetch; OTHERS.len()],
    /// Batches that the sampler has drawn.
    batches: u64,
    /// A sampler with the same seed, which draws the rows of a round in advance.
    scout: Sampler,
    index: Vec<i64>,
    /// Nanoseconds a row of each of [`OURS`], round by round.
    ours: [Vec<f64>; OURS.len()],
    /// Nanoseconds a row of each of [`OTHERS`], round by round.
    theirs: [Vec<f64>; OTHERS.len()],
}

impl<const OBS: usize, const ACTION: usize> Contest<OBS, ACTION> {
    fn new(base: &Base, of: &'static str, rows: u64, lanes: u32) -> Result<Self, Box<dyn Error>> {
        let record = MappedRing::<OBS, ACTION>::RECORD;
        let name = format!("fill-{rows}-{lanes}");
        let ring = filled(base, &name, record, rows, lanes);
        let mapped = MappedRing::of(&ring, base, &name)?;
        let mut sampler = ring.sampler(SamplerOptions::seeded(SEED))?;
        let scout = ring.sampler(SamplerOptions::seeded(SEED))?;
        let draws = Draws::of(&ring, SEED);
        let plan = sampler.plan(BATCH)?;
        let memory = || plan.arenas().iter().map(|arena| vec![0; arena.bytes()]).collect();
        let memory = [memory(), memory()];
        let (rows, index, batches) = (Rows::new(record, BATCH), Vec::new(), 0);
        let (ours, theirs) = ([Vec::new(), Vec::new()], OTHERS.map(|_| Vec::new()));
        let prefetch = [Prefetch::ALL[0]; OTHERS.len()];
        Ok(Self {
            of,
            sampler,
            memory,
            mapped,
            rows,
            draws,
            prefetch,
            batches,
            scout,
            index,
            ours,
            theirs,
        })
    }

    /// Chooses for each baseline the prefetch setting with the smallest median time for the rows of
    /// the last round.
    fn choose_prefetch(&mut self, sweep: &[u8]) {
        self.batches -= (BEFORE + BATCHES) as u64;
        for (other, (name, _)) in OTHERS.iter().enumerate() {
            let mut times = Prefetch::ALL.map(|prefetch| (prefetch, Vec::new()));
            for _ in 0..PREFETCH_ROUNDS {
                for (prefetch, times) in &mut times {
                    self.prefetch[other] = *prefetch;
                    swept(sweep);
                    times.push(self.other(other));
                }
            }
            let middle = |(prefetch, mut times): (Prefetch, Vec<f64>)| {
                times.sort_by(f64::total_cmp);
                (times[times.len() / 2], prefetch)
            };
            let best = times.map(middle).into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
            (_, self.prefetch[other]) = best.expect("there are settings");
            println!("{}: {name} prefetches by {:?}", self.of, self.prefetch[other]);
        }
        self.batches += (BEFORE + BATCHES) as u64;
    }

    fn forget(&mut self) {
        self.ours.iter_mut().chain(&mut self.theirs).for_each(Vec::clear);
    }

    /// Gives each contender a turn; the number of the round decides which one begins.
    fn round(&mut self, sweep: &[u8], number: usize) {
        self.index.clear();
        for _ in 0..BEFORE + BATCHES {
            let batch = self.scout.sample(BATCH).expect("a full ring");
            self.index.extend_from_slice(RowIndex::numbers(&batch.index()));
        }
        let turns = OURS.len() + OTHERS.len();
        for turn in 0..turns {
            swept(sweep);
            match (number + turn) % turns {
                0 => {
                    self.draw(BEFORE);
                    let time = self.draw(BATCHES);
                    self.ours[0].push(time);
                }
                1 => {
                    let time = self.gather();
                    self.ours[1].push(time);
                }
                other => {
                    let time = self.other(other - OURS.len());
                    self.theirs[other - OURS.len()].push(time);
                }
            }
        }
        self.batches += (BEFORE + BATCHES) as u64;
        let last = self.index.len() - BATCH;
        for other in 0..OTHERS.len() {
            self.rows = Rows::new(MappedRing::<OBS, ACTION>::RECORD, BATCH);
            self.take(other, self.batches - 1, last..last + BATCH);
            for (memory, who) in self.memory.iter().zip(OURS) {
                let alike = memory.iter().eq(self.rows.arenas().iter());
                assert!(alike, "{}, {who}: all have the same last batch", self.of);
            }
        }
    }

    /// Samples `batches` batches. Returns nanoseconds a row.
    fn draw(&mut self, batches: usize) -> f64 {
        let plan = self.sampler.plan(BATCH).expect("a valid batch");
        let begin = Instant::now();
        for _ in 0..batches {
            let mut arenas: Vec<&mut [u8]> =
                self.memory[0].iter_mut().map(Vec::as_mut_slice).collect();
            self.sampler.sample_into(&plan, &mut arenas).expect("a full ring");
        }
        per_row(begin, batches * BATCH)
    }

    /// Copies the rows that the scout drew. Returns nanoseconds a row.
    fn gather(&mut self) -> f64 {
        let plan = self.scout.plan(BATCH).expect("a valid batch");
        let mut begin = Instant::now();
        for (number, index) in self.index.chunks_exact(BATCH).enumerate() {
            if number == BEFORE {
                begin = Instant::now();
            }
            let mut arenas: Vec<&mut [u8]> =
                self.memory[1].iter_mut().map(Vec::as_mut_slice).collect();
            self.scout.gather_into(index, &plan, &mut arenas).expect("nobody writes");
        }
        per_row(begin, BATCHES * BATCH)
    }

    /// Copies the rows with one of the baselines. Returns nanoseconds a row.
    fn other(&mut self, other: usize) -> f64 {
        let mut begin = Instant::now();
        for number in 0..BEFORE + BATCHES {
            if number == BEFORE {
                begin = Instant::now();
            }
            self.take(other, self.batches + number as u64, number * BATCH..(number + 1) * BATCH);
        }
        per_row(begin, BATCHES * BATCH)
    }

    /// Copies one batch, whose indices the scout drew, with one of the baselines.
    fn take(&mut self, other: usize, batch: u64, found: Range<usize>) {
        let (rows, prefetch) = (black_box(&mut self.rows), self.prefetch[other]);
        let whole = match other {
            0 => self.mapped.gather(Widths::Dynamic, prefetch, &self.index[found], rows),
            1 => self.mapped.gather(Widths::Constant, prefetch, &self.index[found], rows),
            _ => {
                self.mapped.sample(&self.draws, prefetch, batch, rows);
                true
            }
        };
        assert!(whole, "nobody writes");
    }

    /// Returns the ratios of our time to a baseline's time for the same work, by round.
    fn times_over(&self, other: usize) -> Vec<f64> {
        let ours = &self.ours[OTHERS[other].1];
        ours.iter().zip(&self.theirs[other]).map(|(ours, theirs)| ours / theirs).collect()
    }
}

/// Evicts everything from the caches.
fn swept(sweep: &[u8]) {
    black_box(sweep.iter().step_by(64).fold(0_u8, |sum, byte| sum ^ byte));
}

fn per_row(begin: Instant, rows: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a time per row")]
    let rows = rows as f64;
    begin.elapsed().as_secs_f64() * 1e9 / rows
}
