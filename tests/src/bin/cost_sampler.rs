//! Fills a ring and samples from it between two marks, so that its instructions can be counted.
//! `cost_sampler DIR ROWS LANES BATCHES` Only Linux can count them.

use std::env;
use std::error::Error;

use backcast_core::{
    AutoresetMode, Base, DType, Ring, RingOptions, SamplerOptions, Schema, Step, WriterOptions,
};

/// Items of a batch.
const BATCH: usize = 256;
/// Steps of an episode.
const EPISODE: u64 = 200;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().collect();
    let [_, dir, rows, lanes, batches] = args.as_slice() else {
        return Err("usage: cost_sampler DIR ROWS LANES BATCHES".into());
    };
    let (lanes, batches): (u32, u32) = (lanes.parse()?, batches.parse()?);
    // Waits until it is traced.
    std::io::stdin().read_line(&mut String::new())?;
    let schema = Schema::builder()
        .column("obs", DType::F32, &[8])
        .column("action", DType::F32, &[])
        .column("reward", DType::F32, &[])
        .build()?;
    let options = RingOptions::with_capacity(rows.parse::<u64>()?).lanes(lanes);
    let ring = Ring::create("cost", &schema, options.base(Base::at(dir)))?;
    fill(&ring, lanes)?;

    let mut sampler = ring.sampler(SamplerOptions::seeded(7))?;
    let plan = sampler.plan(BATCH)?;
    let mut memory: Vec<Vec<u8>> = plan.arenas().iter().map(|a| vec![0; a.bytes()]).collect();
    let mut arenas: Vec<&mut [u8]> = memory.iter_mut().map(Vec::as_mut_slice).collect();
    // Warms up, so that one-time work is not counted.
    sampler.sample_into(&plan, &mut arenas)?;
    mark()?;
    for _ in 0..batches {
        sampler.sample_into(&plan, &mut arenas)?;
    }
    mark()?;
    Ok(())
}

/// Writes every slot.
fn fill(ring: &Ring, lanes: u32) -> Result<(), Box<dyn Error>> {
    let mut writer = ring.writer(WriterOptions::lanes(lanes).autoreset(AutoresetMode::NextStep))?;
    let n = lanes as usize;
    let (obs, scalar) = (vec![1; n * 32], vec![1; n * 4]);
    let (never, ends) = (vec![false; n], vec![true; n]);
    for t in 0..ring.slots() {
        let truncated = if t % EPISODE == EPISODE - 1 { &ends } else { &never };
        let columns: [&[u8]; 3] = [&obs, &scalar, &scalar];
        writer.append(Step {
            schema: ring.schema(),
            columns: &columns,
            terminated: &never,
            truncated,
            next_obs: None,
            final_obs: None,
        })?;
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn mark() -> std::io::Result<()> {
    backcast_tests::steps::mark()
}

#[cfg(not(target_os = "linux"))]
fn mark() -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}
