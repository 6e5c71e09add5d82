//! Learner of `actors.py`: samples the rows of its actors, and publishes values.
//!
//! ```text
//! rust_q_learner NAME
//! ```
//! NAME is that of the ring and of the parameters. It ends with status 0 when the values of all
//! forward steps are within 0.01 of the true ones, and with 1 after 20,000 updates.

use std::env;
use std::error::Error;
use std::process::ExitCode;

use backcast_core::{Batch, Params, Ring, SamplerOptions};

const CELLS: usize = 8;
const GAMMA: f64 = 0.9;
const CLOSE: f64 = 0.01;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let name = env::args().nth(1).ok_or("give the name of the ring")?;
    let (ring, mut params) = (Ring::attach(&name)?, Params::attach(&name)?);
    let (mut values, mut sampler) = (params.arrays(), ring.sampler(SamplerOptions::seeded(7))?);
    params.publish(&values, None)?;
    for update in 1..=20_000 {
        // Waits for the actors, as they wait for it: the ring has a rate limiter.
        let batch = sampler.sample(64)?;
        let table = values.array_mut::<f64>("q")?;
        learn(table, &batch)?;
        let error = error_of(table);
        let version = params.publish(&values, None)?;
        if update % 20 == 0 || error <= CLOSE {
            let acted = batch.column::<i64>("params_version")?;
            let age = i64::try_from(version)? - acted.sum() / 64;
            println!("{update} updates: error {error:.3}, rows {age} versions old");
        }
        if error <= CLOSE {
            return Ok(ExitCode::SUCCESS);
        }
    }
    Ok(ExitCode::FAILURE)
}

/// Takes a step of each transition towards the values that follow. `table` is `[CELLS, 2]`.
fn learn(table: &mut [f64], batch: &Batch) -> Result<(), Box<dyn Error>> {
    let (obs, next_obs) = (batch.column::<i32>("obs")?, batch.column::<i32>("next_obs")?);
    let (action, reward) = (batch.column::<i32>("action")?, batch.column::<f32>("reward")?);
    let terminated = batch.column::<bool>("terminated")?;
    for (row, &reward) in reward.iter().enumerate() {
        let next = 2 * usize::try_from(next_obs[row])?;
        let ahead = if terminated[row] { 0.0 } else { table[next].max(table[next + 1]) };
        let at = 2 * usize::try_from(obs[row])? + usize::try_from(action[row])?;
        table[at] += 0.05 * (f64::from(reward) + GAMMA * ahead - table[at]);
    }
    Ok(())
}

/// Returns the largest error of the values of forward steps.
fn error_of(table: &[f64]) -> f64 {
    let forward = table.iter().skip(1).step_by(2).rev();
    let truth = std::iter::successors(Some(1.0), |value| Some(value * GAMMA));
    forward.take(CELLS).zip(truth).map(|(value, truth)| (value - truth).abs()).fold(0.0, f64::max)
}
