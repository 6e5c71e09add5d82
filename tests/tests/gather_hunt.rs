//! Draws short items close to a running writer: each accepted item is exactly what its index names.
//!
//! Episodes do not end, so that nearly all items are regular and copied together. As in
//! `torn_hunt`, the samplers must have rejected items. A sampler without validation fails within
//! the first second. The long version: `BACKCAST_HUNT_WINDOWS=100000000 cargo test --release -p
//! backcast-tests --test gather_hunt -- --nocapture`

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use backcast_core::{
    AutoresetMode, Batch, Element, LanePolicy, Ring, RingOptions, RowIndex, SampleError,
    SamplerOptions, StepColumns, WriterOptions,
};
use backcast_tests::certified::{obs, reward, schema, words};
use backcast_tests::victim::Stop;

const LANES: u32 = 2;
const BATCH: usize = 64;
/// Rows of a lane, and transitions of a window. The longest windows are prefetched between the
/// cache lines of other copies. Lanes are long enough that few windows cross their ends.
const HUNTS: [(u64, u32); 5] = [(40, 1), (1_000, 1), (40, 4), (1_000, 4), (2_000, 70)];

/// Totals of a hunt.
#[derive(Debug, Default)]
struct Counts {
    items: u64,
    lapped: u64,
    rows_written: u64,
}

/// Returns the number of items to be accepted in each hunt.
fn goal() -> u64 {
    backcast_budget::budget_or("BACKCAST_HUNT_WINDOWS", 300_000).div_ceil(HUNTS.len() as u64)
}

/// Appends rows of endless episodes until `stop` is set, and returns their number.
fn write(ring: &Ring, stop: &AtomicBool) -> Result<u64, Box<dyn Error + Send + Sync>> {
    let mut writer = ring.writer(WriterOptions::lanes(LANES).autoreset(AutoresetMode::NextStep))?;
    let never = [false; LANES as usize];
    let mut seq = 0;
    while !stop.load(Relaxed) {
        let observations: Vec<u64> = (0..LANES).map(|lane| obs(lane, seq)).collect();
        let pairs: Vec<u64> = (0..LANES).flat_map(|lane| words(lane, seq)).collect();
        let rewards: Vec<f32> = (0..LANES).map(|lane| reward(lane, seq)).collect();
        let columns = StepColumns::of(ring.schema()).with("obs", &observations)?;
        let columns = columns.with("words", &pairs)?.with("reward", &rewards)?;
        writer.append(&columns.step(&never, &never)?)?;
        seq += 1;
    }
    Ok(seq * u64::from(LANES))
}

/// Checks all items of a batch with windows of `history` transitions.
fn check(batch: &Batch, history: usize) -> Result<(), String> {
    let index = array::<i64>(batch, "index")?;
    let (seen, next) = (array::<u64>(batch, "obs")?, array::<u64>(batch, "next_obs")?);
    let (pairs, rewards) = (array::<u64>(batch, "words")?, array::<f32>(batch, "reward")?);
    let (terminated, truncated) =
        (array::<bool>(batch, "terminated")?, array::<bool>(batch, "truncated")?);
    let mask = if history > 1 { array::<bool>(batch, "mask")? } else { &[true; BATCH] };
    for (at, there) in mask.iter().enumerate() {
        let drawn = RowIndex(index[at / history]);
        let (lane, before) = (drawn.lane(), (history - 1 - at % history) as u64);
        // A masked row cannot be torn.
        let Some(seq) = drawn.seq().checked_sub(before).filter(|_| *there) else { continue };
        let row = (seen[at], next[at], &pairs[2 * at..2 * at + 2], rewards[at].to_bits());
        let words = words(lane, seq);
        let wanted = (obs(lane, seq), obs(lane, seq + 1), &words[..], reward(lane, seq).to_bits());
        if row != wanted || terminated[at] || truncated[at] {
            return Err(format!("lane {lane}, row {seq}: torn: {row:x?} and not {wanted:x?}"));
        }
    }
    Ok(())
}

fn array<'a, T: Element>(batch: &'a Batch, key: &str) -> Result<&'a [T], String> {
    let array = batch.column::<T>(key).map_err(|error| error.to_string())?;
    array.to_slice().ok_or_else(|| format!("{key} is not in one piece"))
}

/// Draws beside a writer of lanes of `capacity` rows until enough items were accepted and rejected.
fn hunt(capacity: u64, history: u32) -> Result<Counts, Box<dyn Error>> {
    let options = RingOptions::with_capacity(capacity * u64::from(LANES)).lanes(LANES);
    let ring = Ring::heap(&schema()?, options.lane_policy(LanePolicy::Overwrite))?;
    let options = SamplerOptions::seeded(capacity).copy(true);
    let options = if history > 1 { options.history(history) } else { options };
    let (stop, goal) = (AtomicBool::new(false), goal());
    let mut counts = Counts::default();
    thread::scope(|scope| {
        let writer = scope.spawn(|| write(&ring, &stop));
        let drawn = (|| {
            let _stop = Stop(&stop);
            let mut sampler = ring.sampler(options)?;
            let mut batch = sampler.blank(BATCH)?;
            while counts.items < goal || counts.lapped == 0 {
                match sampler.sample_over(&mut batch) {
                    Ok(()) => check(&batch, history as usize)?,
                    Err(SampleError::Empty { .. } | SampleError::Outrun { .. }) => {
                        assert!(!writer.is_finished(), "the writer ended by itself");
                        thread::yield_now();
                        continue;
                    }
                    Err(error) => return Err(error.into()),
                }
                counts.items += BATCH as u64;
                counts.lapped = sampler.lapped();
            }
            Ok::<_, Box<dyn Error>>(())
        })();
        counts.rows_written =
            writer.join().expect("the writer does not panic").expect("rows that fit");
        drawn
    })?;
    Ok(counts)
}

#[test]
fn items_gathered_together_beside_a_writer_are_never_torn() -> Result<(), Box<dyn Error>> {
    for (capacity, history) in HUNTS {
        let counts = hunt(capacity, history)?;
        println!("hunt, lanes of {capacity} rows, windows of {history}: {counts:?}");
    }
    Ok(())
}
