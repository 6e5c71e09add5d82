//! Actor of `learner.py`: acts in a corridor by the values that the learner publishes.
//!
//! ```text
//! rust_actor NAME
//! ```
//! NAME is that of the ring and of the parameters. A fleet says which seed to take, and ends it.

use std::env;
use std::error::Error;

use backcast_core::{Params, Ring, StepColumns, WriterOptions};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Cells of the corridor; a step forward from the last one ends the episode with a reward of 1.
const CELLS: i32 = 8;

fn main() -> Result<(), Box<dyn Error>> {
    let name = env::args().nth(1).ok_or("give the name of the ring")?;
    let seed = env::var("BACKCAST_FLEET_SEED").map_or(Ok(0), |seed| seed.parse())?;
    let (mut draw, ring) = (StdRng::seed_from_u64(seed), Ring::attach(&name)?);
    let (schema, mut params) = (ring.schema().clone(), Params::attach(&name)?);
    let (mut values, mut writer) = (params.arrays(), ring.writer(WriterOptions::lanes(1))?);
    loop {
        let (mut cell, mut ended) = (0, false);
        while !ended {
            // One load and a compare unless there is a new version.
            params.pull(&mut values)?;
            let (forward, version) = (chosen(values.array("q")?, cell, &mut draw), params.pulled());
            let goal = forward && cell == CELLS - 1;
            let next = if forward { (cell + 1).min(CELLS - 1) } else { 0 };
            let (obs, action, reward) = ([cell], [i32::from(forward)], [f32::from(u8::from(goal))]);
            let (next_obs, version) = ([next], [i64::try_from(version)?]);
            let columns = StepColumns::of(&schema)
                .with("obs", &obs)?
                .with("action", &action)?
                .with("reward", &reward)?
                .with("params_version", &version)?
                .with_next("obs", &next_obs)?;
            writer.append(&columns.step(&[goal], &[false])?)?;
            (cell, ended) = (next, goal);
        }
    }
}

/// Returns whether to go forward: by the values `[CELLS, 2]`, or drawn in one step of five and
/// where they are equal.
fn chosen(values: &[f64], cell: i32, draw: &mut StdRng) -> bool {
    let at = 2 * usize::try_from(cell).unwrap_or_default();
    let greedy = match values.get(at..at + 2) {
        Some([back, forward]) if forward > back => Some(true),
        Some([back, forward]) if forward < back => Some(false),
        _ => None,
    };
    greedy.filter(|_| !draw.random_bool(0.2)).unwrap_or_else(|| draw.random_bool(0.5))
}
