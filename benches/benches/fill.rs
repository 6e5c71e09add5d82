//! Whether a sampled row takes longer the more a ring holds: rows out of rings of ten thousand to twenty
//! million, and of one lane to 64, against a gather in C of the same rows out of the same memory, which
//! pays for caches and page tables as we do. All take turns.

use std::error::Error;
use std::hint::black_box;
use std::ops::Range;
use std::time::Instant;

use backcast_benches::c_rows::{MappedRing, RECORD, Rows};
use backcast_benches::measured::Measured;
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

fn main() -> Result<(), Box<dyn Error>> {
    let measured = Measured::from_args();
    let (times, quotients) = (
        "sample 256 rows of 64 B, and gather the same in C, a row",
        "sample 256 rows of 64 B, time over a gather of the same in C",
    );
    if !measured.wants(times) && !measured.wants(quotients) {
        return Ok(());
    }
    let (_dir, base) = base();
    let million = 1_000_000;
    let mut rings = [
        Contest::new(&base, "10 k rows, 1 lane", 10_000, 1)?,
        Contest::new(&base, "1 M rows, 1 lane", million, 1)?,
        Contest::new(&base, "20 M rows, 1 lane", 20 * million, 1)?,
        Contest::new(&base, "1 M rows, 8 lanes", million, 8)?,
        Contest::new(&base, "1 M rows, 64 lanes", million, 64)?,
    ];
    let sweep = vec![1_u8; SWEPT_BYTES];
    // What is done once is done in a round that does not count: pages find their places.
    for contest in &mut rings {
        contest.round(&sweep, true);
        contest.ours.clear();
        contest.theirs.clear();
    }
    for round in 0..ROUNDS {
        for contest in &mut rings {
            contest.round(&sweep, round % 2 == 0);
        }
    }
    for contest in &rings {
        measured.keep(times, "ns", &format!("backcast, {}", contest.of), &contest.ours);
        measured.keep(times, "ns", &format!("C-like gather, {}", contest.of), &contest.theirs);
    }
    for contest in &rings {
        measured.keep(quotients, "times", contest.of, &contest.quotients());
    }
    Ok(())
}

/// A ring, and who takes rows from it.
struct Contest {
    of: &'static str,
    sampler: Sampler,
    memory: Vec<Vec<u8>>,
    mapped: MappedRing,
    rows: Rows,
    /// Of the same seed as the sampler: draws first, to tell which rows it will be.
    scout: Sampler,
    index: Vec<i64>,
    /// Nanoseconds a row, by rounds.
    ours: Vec<f64>,
    theirs: Vec<f64>,
}

impl Contest {
    fn new(base: &Base, of: &'static str, rows: u64, lanes: u32) -> Result<Self, Box<dyn Error>> {
        let name = format!("fill-{rows}-{lanes}");
        let ring = filled(base, &name, RECORD, rows, lanes);
        let mapped = MappedRing::of(&ring, base, &name)?;
        let mut sampler = ring.sampler(SamplerOptions::seeded(7))?;
        let scout = ring.sampler(SamplerOptions::seeded(7))?;
        let plan = sampler.plan(BATCH)?;
        let memory = plan.arenas().iter().map(|arena| vec![0; arena.bytes()]).collect();
        let (rows, index, ours, theirs) = (Rows::new(BATCH), Vec::new(), Vec::new(), Vec::new());
        Ok(Self { of, sampler, memory, mapped, rows, scout, index, ours, theirs })
    }

    /// A turn of each.
    fn round(&mut self, sweep: &[u8], we_begin: bool) {
        self.index.clear();
        for _ in 0..BEFORE + BATCHES {
            let batch = self.scout.sample(BATCH).expect("a full ring");
            self.index.extend_from_slice(&batch.index());
        }
        for ours in [we_begin, !we_begin] {
            black_box(sweep.iter().step_by(64).fold(0_u8, |sum, byte| sum ^ byte));
            if ours {
                self.draw(BEFORE);
                let time = self.draw(BATCHES);
                self.ours.push(time);
            } else {
                let (before, timed) = (BEFORE * BATCH, BATCHES * BATCH);
                self.gather(0..before);
                let time = self.gather(before..before + timed);
                self.theirs.push(time);
            }
        }
        let arenas = self.rows.arenas();
        assert!(self.memory.iter().eq(arenas.iter()), "{}: both have the same last batch", self.of);
    }

    /// Samples so many batches: nanoseconds a row.
    fn draw(&mut self, batches: usize) -> f64 {
        let plan = self.sampler.plan(BATCH).expect("a valid batch");
        let begin = Instant::now();
        for _ in 0..batches {
            let mut arenas: Vec<&mut [u8]> =
                self.memory.iter_mut().map(Vec::as_mut_slice).collect();
            self.sampler.sample_into(&plan, &mut arenas).expect("a full ring");
        }
        per_row(begin, batches * BATCH)
    }

    /// Gathers some of the rows that the scout found, batch by batch: nanoseconds a row.
    fn gather(&mut self, rows: Range<usize>) -> f64 {
        let begin = Instant::now();
        let count = rows.len();
        for batch in self.index[rows].chunks_exact(BATCH) {
            assert!(self.mapped.gather(batch, black_box(&mut self.rows)), "nobody writes");
        }
        per_row(begin, count)
    }

    /// Our time over theirs, round by round.
    fn quotients(&self) -> Vec<f64> {
        self.ours.iter().zip(&self.theirs).map(|(ours, theirs)| ours / theirs).collect()
    }
}

fn per_row(begin: Instant, rows: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a time per row")]
    let rows = rows as f64;
    begin.elapsed().as_secs_f64() * 1e9 / rows
}
