//! The victim of the priority storm: draws by priority and sets priorities, until it is killed.
//! `storm_prioritiser DIR NAME SEED ROWS`: ROWS is `all`, or `odd` for rows of odd number alone, or
//! `alphas` to change the exponent too.

use std::env;
use std::error::Error;

use backcast_core::{Alpha, Base, PriorityOptions, Ring, SampleError, SamplerOptions};
use backcast_tests::storm::mix;

/// Priorities set at a time. There are many, so that many kills hit a change.
const BATCH: usize = 2_048;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().collect();
    let [_, dir, name, seed, rows] = args.as_slice() else {
        return Err("usage: storm_prioritiser DIR NAME SEED ROWS".into());
    };
    let ring = Ring::attach_in(&Base::at(dir), name)?;
    let mut dice: u64 = seed.parse()?;
    let alphas = rows == "alphas";
    let alpha = if alphas { Alpha::Table } else { Alpha::Constant(1.0) };
    let options = SamplerOptions::seeded(dice).priority(PriorityOptions::alpha(alpha).eps(0.0));
    let mut sampler = ring.sampler(options)?;
    // An orphan is given another parent.
    let test = rustix::process::getppid();
    while rustix::process::getppid() == test {
        let mut index = match sampler.sample(BATCH) {
            Ok(batch) => batch.index(),
            // The writer is faster than this process, which has a share of a processor.
            Err(SampleError::Empty { .. } | SampleError::Outrun { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        if rows == "odd" {
            index.retain(|index| index.seq() % 2 == 1);
        }
        let mut priorities = Vec::new();
        for _ in &index {
            dice = mix(dice);
            priorities.push(f64::from(u16::try_from(dice % 1_000)?));
        }
        sampler.update_priorities(&index, &priorities)?;
        if alphas {
            sampler.set_alpha(f64::from(u8::try_from(dice % 4)?) / 4.0)?;
        }
    }
    Err("the test that started this process is gone".into())
}
