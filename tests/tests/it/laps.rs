//! A writer that laps readers all the time: the error of a gather names the right row and reason.

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use backcast_core::{
    DType, Ring, RingOptions, RowIndex, SampleError, SamplerOptions, Schema, StepColumns,
    WriterOptions,
};
use backcast_tests::victim::Stop;

/// Elements of a row: many, so that a lap often hits the middle of a copy.
const WIDTH: usize = 2_048;

#[test]
fn a_gather_is_refused_only_for_rows_that_are_gone() -> Result<(), Box<dyn Error>> {
    let schema = Schema::builder().column("obs", DType::U64, &[2_048]).build()?;
    let ring = Ring::heap(&schema, RingOptions::with_capacity(64))?;
    let stop = AtomicBool::new(false);
    let (gathered, refused) = thread::scope(|scope| {
        let writer = scope.spawn(|| write(&ring, &stop));
        let _stop = Stop(&stop);
        let counts = gather(&ring, || writer.is_finished());
        Ok::<_, Box<dyn Error>>(counts)
    })?;
    println!("{gathered} gathered, {refused} refused");
    Ok(())
}

/// Appends one long episode. Every word of a row is its sequence number.
fn write(ring: &Ring, stop: &AtomicBool) {
    let mut writer = ring.writer(WriterOptions::lanes(1)).expect("the lane is free");
    for seq in 0_u64.. {
        if stop.load(Relaxed) {
            return;
        }
        let obs = [seq; WIDTH];
        let columns = StepColumns::of(ring.schema()).with("obs", &obs);
        let columns = columns.expect("a column of the schema");
        let whole = columns.step(&[false], &[false]).expect("a whole step");
        writer.append(&whole).expect("a step that fits");
    }
}

/// Gathers windows whose history is among the oldest rows, until both outcomes have occurred often.
fn gather(ring: &Ring, writer_ended: impl Fn() -> bool) -> (u64, u64) {
    const HISTORY: u64 = 16;
    let options = SamplerOptions::seeded(1).history(16);
    let mut sampler = ring.sampler(options).expect("the window fits");
    let (mut gathered, mut refused) = (0, 0);
    for round in 0_u64.. {
        if gathered >= 300 && refused >= 100 {
            break;
        }
        assert!(!writer_ended(), "the writer ended by itself");
        let span = ring.lane_span(0).expect("lane 0");
        if span.end - span.start < ring.lane_capacity() {
            continue;
        }
        let seq = span.start + round % (2 * HISTORY);
        match sampler.gather(&[RowIndex::new(0, seq).0]) {
            Ok(batch) => {
                let obs = batch.column::<u64>("obs").expect("obs");
                let mask = batch.column::<bool>("mask").expect("mask");
                for place in 0..16_usize {
                    let row = if mask[[0, place]] { seq + place as u64 + 1 - HISTORY } else { 0 };
                    // The newest place is never masked.
                    let there = mask[[0, place]] || place < 15;
                    assert!(there && (0..WIDTH).step_by(7).all(|k| obs[[0, place, k]] == row));
                }
                gathered += 1;
            }
            Err(error @ SampleError::Lapped { seq, oldest, .. }) => {
                assert!(seq < oldest, "{error}");
                refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    (gathered, refused)
}
