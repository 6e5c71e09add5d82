//! A learner of the soak: draws batches, with and without a prefetching thread, and attaches anew
//! now and then, until it is killed. Ends by itself, with an error, only if a row is torn.
//! `soak_learner DIR NAME SEED`

use std::env;
use std::error::Error;

use backcast_core::{Base, Batch, BatchesOptions, Ring, SampleError, Sampler, SamplerOptions};
use backcast_tests::storm::{PIXELS, is_whole, mix};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().collect();
    let [_, dir, name, seed] = args.as_slice() else {
        return Err("usage: soak_learner DIR NAME SEED".into());
    };
    // The parent changes when the test dies.
    let test = rustix::process::getppid();
    let mut dice: u64 = seed.parse()?;
    while rustix::process::getppid() == test {
        dice = mix(dice);
        let ring = Ring::attach_in(&Base::at(dir), name)?;
        let mut sampler = ring.sampler(SamplerOptions::seeded(dice).history(2))?;
        for _ in 0..=dice % 20 {
            look(sampler.sample(8))?;
        }
        ahead(sampler, dice >> 8)?;
    }
    Err("the test that started this process is gone".into())
}

/// Draws ahead in a thread, and stops early.
fn ahead(sampler: Sampler, dice: u64) -> Result<(), Box<dyn Error>> {
    for batch in sampler.batches(8, BatchesOptions::prefetch(2))?.take((dice % 8) as usize) {
        look(batch)?;
    }
    Ok(())
}

fn look(batch: Result<Batch, SampleError>) -> Result<(), Box<dyn Error>> {
    let batch = match batch {
        Ok(batch) => batch,
        Err(SampleError::Empty { .. } | SampleError::Outrun { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let [life, pixels, check] = ["life", "pixels", "check"].map(|leaf| format!("obs/{leaf}"));
    let (lives, checks) = (batch.column::<u64>(&life)?, batch.column::<u64>(&check)?);
    let pixels = batch.column::<u64>(&pixels)?;
    for (b, index) in batch.index().into_iter().enumerate() {
        let (lane, seq) = (index.lane(), index.seq());
        // The last place of the history holds the drawn row.
        let (life, check) = (lives[[b, 1]], checks[[b, 1]]);
        let pixels = (0..PIXELS).map(|k| pixels[[b, 1, k]]);
        if !is_whole(pixels, life, check, (lane, seq)) {
            return Err(format!("row {seq} of lane {lane} is torn").into());
        }
    }
    Ok(())
}
