//! Uses a ring in every way that a user can, on rings with corrupt bytes.

use backcast_core::{
    AutoresetMode, Batch, MAX_LANES, ReadError, Ring, RowIndex, SampleError, Sampler,
    SamplerOptions, SegmentError, StepColumns, WaitError, WriterError, WriterOptions,
};
use rand::RngExt;
use std::time::Duration;

use super::Tally;
use super::dice::Dice;

/// Rows read at a time, which bounds the memory of a read.
const SOME_ROWS: u64 = 64;

/// Uses a ring in one of its ways, most often the quick ones.
///
/// # Panics
/// If [`use_ring`] panics.
pub fn use_once(turn: u64, ring: &Ring, sampler: &mut Sampler, dice: &mut Dice, tally: &mut Tally) {
    match turn % 16 {
        0 => use_ring(ring, dice, tally),
        1..=3 => append(ring, tally),
        4..=8 => read_rows(ring, tally),
        _ => draw(sampler, dice, tally),
    }
}

/// Uses a ring in every way. Numbers may be wrong; results must be well formed.
///
/// # Panics
/// On an error or a result that no bytes justify.
pub fn use_ring(ring: &Ring, dice: &mut Dice, tally: &mut Tally) {
    look(ring);
    read_rows(ring, tally);
    sample(ring, dice, tally);
    append(ring, tally);
    sample(ring, dice, tally);
    look(ring);
}

fn count(tally: &mut Tally, operation: &str, outcome: &str) {
    *tally.entry(format!("{operation}: {outcome}")).or_default() += 1;
}

fn look(ring: &Ring) {
    let stats = ring.stats();
    assert!(stats.transitions <= ring.capacity() && ring.len() <= ring.capacity());
    assert_eq!(stats.lane_stats.len(), ring.lanes() as usize);
    for lane in 0..ring.lanes() {
        let span = ring.lane_span(lane).expect("the ring has the lane");
        assert!(span.start <= span.end && span.end - span.start <= ring.lane_capacity());
    }
    match ring.wait_for(1, Some(Duration::ZERO)) {
        Ok(have) => assert!(have >= 1),
        // `Never`: lanes of one row hold no transition.
        Err(WaitError::TimedOut { .. } | WaitError::Never { .. }) => {}
        Err(error) => panic!("{error}"),
    }
    assert!(!format!("{stats:?}").is_empty());
}

/// Reads the oldest and the newest rows of every lane.
fn read_rows(ring: &Ring, tally: &mut Tally) {
    for lane in 0..ring.lanes() {
        let span = ring.lane_span(lane).expect("the ring has the lane");
        let from = span.end.saturating_sub(SOME_ROWS).max(span.start);
        for range in [from..span.end, span.start..(span.start + SOME_ROWS).min(span.end)] {
            match ring.rows(lane, range) {
                Ok(rows) => {
                    count(tally, "rows", "works");
                    if ring.schema().column("alive").is_some() {
                        // The typed access refuses bytes other than 0 and 1.
                        let alive = rows.column::<bool>("alive").expect("whole booleans");
                        assert_eq!(alive.len(), rows.len());
                    }
                }
                Err(ReadError::Lapped { .. }) => count(tally, "rows", "Lapped"),
                Err(ReadError::NotReadable { .. }) => count(tally, "rows", "NotReadable"),
                Err(error) => panic!("{error}"),
            }
        }
    }
}

fn sample(ring: &Ring, dice: &mut Dice, tally: &mut Tally) {
    let mut options = SamplerOptions::seeded(dice.random()).copy(dice.random());
    if dice.random() {
        options = options.history(dice.random_range(1..8));
    }
    match ring.sampler(options.future(dice.random_range(0..5))) {
        Ok(mut sampler) => draw(&mut sampler, dice, tally),
        Err(SampleError::BadWindow { .. }) => count(tally, "sampler", "BadWindow"),
        Err(error) => panic!("{error}"),
    }
}

/// Draws a batch, then gathers its indices and random ones.
fn draw(sampler: &mut Sampler, dice: &mut Dice, tally: &mut Tally) {
    let batch = match sampler.sample(8) {
        Ok(batch) => batch,
        Err(SampleError::Empty { .. }) => return count(tally, "sample", "Empty"),
        Err(SampleError::Outrun { .. }) => return count(tally, "sample", "Outrun"),
        Err(error) => panic!("{error}"),
    };
    count(tally, "sample", "works");
    check(&batch, sampler);
    let mut index = batch.index();
    gather(sampler, &index, tally);
    let random: [i64; 2] = dice.random();
    index.extend(random.map(RowIndex));
    gather(sampler, &index, tally);
}

fn gather(sampler: &mut Sampler, index: &[RowIndex], tally: &mut Tally) {
    match sampler.gather(index) {
        Ok(batch) => {
            count(tally, "gather", "works");
            check(&batch, sampler);
            assert_eq!(batch.index(), index);
        }
        Err(SampleError::Lapped { .. }) => count(tally, "gather", "Lapped"),
        Err(SampleError::Dropped { .. }) => count(tally, "gather", "Dropped"),
        Err(SampleError::BadIndex { .. }) => count(tally, "gather", "BadIndex"),
        Err(error) => panic!("{error}"),
    }
}

/// Checks that indices are in range, ages are not negative, and booleans are 0 or 1.
fn check(batch: &Batch, sampler: &Sampler) {
    let lanes = sampler.ring().lanes();
    for index in batch.index() {
        assert!(index.0 >= 0 && index.lane() < lanes.min(MAX_LANES), "{index:?}");
    }
    let ages = batch.column::<i64>("age").expect("age");
    assert!(ages.iter().all(|age| *age >= 0), "{ages}");
    let keys: Vec<String> = batch.keys().map(str::to_owned).collect();
    for key in keys {
        let leaf = key.rsplit('/').next().unwrap_or(&key);
        if ["alive", "terminated", "truncated", "mask", "future_mask"].contains(&leaf) {
            batch.column::<bool>(&key).expect("0 or 1");
        }
    }
}

/// Claims the lanes and appends, as a successor would.
fn append(ring: &Ring, tally: &mut Tally) {
    let mut writer = match ring
        .writer(WriterOptions::lanes(ring.lanes()).autoreset(AutoresetMode::NextStep))
    {
        Ok(writer) => writer,
        Err(WriterError::Damaged { .. }) => return count(tally, "writer", "Damaged"),
        Err(WriterError::LanesTaken { .. }) => return count(tally, "writer", "LanesTaken"),
        // A lane too large for the address space.
        Err(WriterError::Segment(SegmentError::Io { .. })) => return count(tally, "writer", "Io"),
        // A lane that claims to be relocated to another file.
        Err(WriterError::Segment(SegmentError::Corrupt { .. })) => {
            return count(tally, "writer", "Corrupt");
        }
        Err(error) => panic!("{error}"),
    };
    count(tally, "writer", "works");
    let lanes = writer.lanes().len();
    let zeros: Vec<Vec<u8>> =
        ring.schema().columns().iter().map(|column| vec![1; column.width() * lanes]).collect();
    let columns: Vec<&[u8]> = zeros.iter().map(Vec::as_slice).collect();
    // Typed access must not panic on the schema of a corrupt file either.
    let _ = StepColumns::of(ring.schema()).with("obs", &[0.0_f32; 4]);
    for step in 0..3 {
        let ends = vec![step == 1; lanes];
        let never = vec![false; lanes];
        let step = backcast_core::Step {
            schema: ring.schema(),
            columns: &columns,
            terminated: &ends,
            truncated: &never,
            next_obs: None,
            final_obs: None,
        };
        match writer.append(step) {
            Ok(indices) => assert_eq!(indices.len(), lanes),
            Err(error) => {
                assert!(!error.to_string().is_empty());
                count(tally, "append", "refused");
            }
        }
    }
}
