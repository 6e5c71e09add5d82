//! Creates, attaches to, fills and drops rings of one name until it is killed: `churn DIR NAME
//! SEED`.

use std::env;
use std::error::Error;

use backcast_core::{
    Base, DType, Exist, Ring, RingError, RingOptions, Schema, SegmentError, StepColumns,
    WriterError, WriterOptions,
};
use backcast_tests::storm::mix;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().collect();
    let [_, dir, name, seed] = args.as_slice() else {
        return Err("usage: churn DIR NAME SEED".into());
    };
    let (base, seed) = (Base::at(dir), seed.parse::<u64>()?);
    let schema = Schema::builder().column("obs", DType::U64, &[]).build()?;
    let test = rustix::process::getppid();
    let mut round = seed << 32;
    while rustix::process::getppid() == test {
        round += 1;
        let dice = mix(round);
        let exist = [Exist::Error, Exist::Replace, Exist::Attach][(dice % 3) as usize];
        let made = if dice & 8 == 0 {
            Ring::attach_in(&base, name)
        } else {
            let options = RingOptions::with_capacity(100).base(base.clone()).exist(exist);
            Ring::create(name, &schema, options)
        };
        match made {
            Ok(ring) => fill(&ring, dice)?,
            // Errors that the other process may cause at the same time.
            Err(RingError::Segment(
                SegmentError::NotFound { .. }
                | SegmentError::AlreadyExists { .. }
                | SegmentError::Unlinked { .. },
            )) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err("the test that started this process is gone".into())
}

/// Appends a few rows, unless the other process holds the lane or has replaced the ring.
fn fill(ring: &Ring, rows: u64) -> Result<(), Box<dyn Error>> {
    let mut writer = match ring.writer(WriterOptions::lanes(1)) {
        Ok(writer) => writer,
        Err(
            WriterError::LanesTaken { .. } | WriterError::Segment(SegmentError::Unlinked { .. }),
        ) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    for row in 0..rows % 20 {
        let obs = [row];
        let columns = StepColumns::of(ring.schema()).with("obs", &obs)?;
        writer.append(&columns.step(&[false], &[false])?)?;
    }
    Ok(())
}
