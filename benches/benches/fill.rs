//! Whether a sampled row takes longer the more a ring holds: rows of 64 and of 396 bytes out of rings of ten thousand to
//! twenty million, and of one lane to 64, against C programs that take the same rows out of the same memory, and
//! pay for caches and page tables as we do: gathers that are told which rows, and one that draws them as we do. All take
//! turns.

use std::error::Error;
use std::hint::black_box;
use std::ops::Range;
use std::time::Instant;

use backcast_benches::c_draws::Draws;
use backcast_benches::c_rows::{Look, MappedRing, Rows, Widths};
use backcast_benches::measured::Measured;
use backcast_benches::record::{MEDIUM, SMALL};
use backcast_benches::{base, filled};
use backcast_core::{Base, Sampler, SamplerOptions};

const ROUNDS: usize = 51;
const BATCH: usize = 256;
/// Batches that are timed together.
const BATCHES: usize = 256;
/// As many more before, in which the caches and the branch predictor find their ways.
const BEFORE: usize = 16;
/// More than the caches hold: read between turns, so that nobody finds what another one left there.
const SWEPT_BYTES: usize = 64 << 20;

/// Turns of each way of asking for memory, of which one of the others chooses.
const LOOK_ROUNDS: usize = 5;

const SEED: u64 = 7;

/// What we do, in the words of the table: draw rows and copy them, or copy those that we are told.
const OURS: [&str; 2] = ["backcast", "backcast, told which rows"];

/// Who takes rows besides us, and which of [`OURS`] is the same work.
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

/// All rings of one kind of rows.
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
    // What is done once is done in a round that does not count: pages find their places.
    for contest in &mut rings {
        contest.round(&sweep, 0);
        contest.choose_looks(&sweep);
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

/// A ring, and who takes rows from it.
struct Contest<const OBS: usize, const ACTION: usize> {
    of: &'static str,
    sampler: Sampler,
    /// What each of [`OURS`] writes to.
    memory: [Vec<Vec<u8>>; OURS.len()],
    mapped: MappedRing<OBS, ACTION>,
    rows: Rows,
    draws: Draws,
    /// How each of [`OTHERS`] asks for memory.
    looks: [Look; OTHERS.len()],
    /// Batches that the sampler has drawn.
    batches: u64,
    /// Of the same seed as the sampler: draws first, to tell which rows it will be.
    scout: Sampler,
    index: Vec<i64>,
    /// Nanoseconds a row, by rounds.
    ours: [Vec<f64>; OURS.len()],
    /// Those of [`OTHERS`].
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
        let looks = [Look::ALL[0]; OTHERS.len()];
        Ok(Self {
            of,
            sampler,
            memory,
            mapped,
            rows,
            draws,
            looks,
            batches,
            scout,
            index,
            ours,
            theirs,
        })
    }

    /// Lets each of the others ask for memory in the way in which it takes the rows of the last round the soonest, in the
    /// middle of some turns.
    fn choose_looks(&mut self, sweep: &[u8]) {
        self.batches -= (BEFORE + BATCHES) as u64;
        for (other, (name, _)) in OTHERS.iter().enumerate() {
            let mut times = Look::ALL.map(|look| (look, Vec::new()));
            for _ in 0..LOOK_ROUNDS {
                for (look, times) in &mut times {
                    self.looks[other] = *look;
                    swept(sweep);
                    times.push(self.other(other));
                }
            }
            let middle = |(look, mut times): (Look, Vec<f64>)| {
                times.sort_by(f64::total_cmp);
                (times[times.len() / 2], look)
            };
            let best = times.map(middle).into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
            (_, self.looks[other]) = best.expect("there are ways of asking");
            println!("{}: {name} asks as by {:?}", self.of, self.looks[other]);
        }
        self.batches += (BEFORE + BATCHES) as u64;
    }

    fn forget(&mut self) {
        self.ours.iter_mut().chain(&mut self.theirs).for_each(Vec::clear);
    }

    /// A turn of each, who begins by the number of the round.
    fn round(&mut self, sweep: &[u8], number: usize) {
        self.index.clear();
        for _ in 0..BEFORE + BATCHES {
            let batch = self.scout.sample(BATCH).expect("a full ring");
            self.index.extend_from_slice(&batch.index());
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

    /// Samples so many batches: nanoseconds a row.
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

    /// Copies the rows that the scout found: nanoseconds a row.
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

    /// Takes as many rows in the way of one of the others: nanoseconds a row.
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

    /// Takes one batch, whose indices the scout found there, in the way of one of the others.
    fn take(&mut self, other: usize, batch: u64, found: Range<usize>) {
        let (rows, look) = (black_box(&mut self.rows), self.looks[other]);
        let whole = match other {
            0 => self.mapped.gather(Widths::Told, look, &self.index[found], rows),
            1 => self.mapped.gather(Widths::Compiled, look, &self.index[found], rows),
            _ => {
                self.mapped.sample(&self.draws, look, batch, rows);
                true
            }
        };
        assert!(whole, "nobody writes");
    }

    /// Our time over another one's of the same work, round by round.
    fn times_over(&self, other: usize) -> Vec<f64> {
        let ours = &self.ours[OTHERS[other].1];
        ours.iter().zip(&self.theirs[other]).map(|(ours, theirs)| ours / theirs).collect()
    }
}

/// Reads through so much that nothing of before is left in the caches.
fn swept(sweep: &[u8]) {
    black_box(sweep.iter().step_by(64).fold(0_u8, |sum, byte| sum ^ byte));
}

fn per_row(begin: Instant, rows: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a time per row")]
    let rows = rows as f64;
    begin.elapsed().as_secs_f64() * 1e9 / rows
}
