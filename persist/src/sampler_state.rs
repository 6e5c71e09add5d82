//! Sampler states as JSON, to save with a snapshot, equal in Rust and Python.

use backcast_core::SamplerState;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

/// JSON of a sampler's state.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    /// Version of the draws for a seed.
    draws: u32,
    seed: u64,
    batches: u64,
    history: Option<u32>,
    future: u32,
    n_step: Option<u32>,
    gamma: Option<f64>,
    boundary: String,
    copy: bool,
}

/// Integers of the state.
const NUMBERS: [&str; 6] = ["draws", "seed", "batches", "history", "future", "n_step"];

/// Philox 4x32-10, counted by batch, item and attempt.
const DRAWS: u32 = 1;

/// JSON that is not a sampler's state, or has an unknown version of draws.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the state is not a sampler's: {problem}; pass the return value of a sampler's `state()`")]
pub struct BadSamplerState {
    /// Problem of the state.
    pub problem: String,
}

/// Converts a sampler's state to JSON, to save with a snapshot.
///
/// ```
/// use backcast_core::SamplerState;
/// use backcast_persist::{sampler_state, sampler_state_json};
///
/// # use backcast_core::{DType, Ring, RingOptions, SamplerOptions, Schema};
/// # let schema = Schema::builder().column("x", DType::F32, &[]).build()?;
/// # let ring = Ring::heap(&schema, RingOptions::with_capacity(9))?;
/// # let sampler = ring.sampler(SamplerOptions::seeded(7))?;
/// let state: SamplerState = sampler.state();
/// assert_eq!(sampler_state(&sampler_state_json(&state))?, state);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn sampler_state_json(state: &SamplerState) -> Value {
    let SamplerState { seed, batches, history, future, n_step, gamma, boundary, copy } = *state;
    let boundary = boundary.as_str().to_owned();
    let saved =
        Saved { draws: DRAWS, seed, batches, history, future, n_step, gamma, boundary, copy };
    // Numbers and strings always serialise.
    serde_json::to_value(saved).unwrap_or_default()
}

/// Parses a state from [`sampler_state_json`] or Python's `Sampler.state()`.
pub fn sampler_state(json: &Value) -> Result<SamplerState, BadSamplerState> {
    let bad = |problem: String| BadSamplerState { problem };
    if !json.is_object() {
        return Err(bad("it is no dict".to_owned()));
    }
    for key in NUMBERS {
        let given = &json[key];
        if !(given.is_null() || given.is_u64()) {
            // Integers of more than 64 bits are objects.
            let shown =
                if given.is_object() { "beyond that".to_owned() } else { given.to_string() };
            let most = u64::MAX;
            return Err(bad(format!(
                "`{key}` is a whole number from 0 to {most}, and here {shown}"
            )));
        }
    }
    let saved = Saved::deserialize(json).map_err(|error| bad(error.to_string()))?;
    let Saved { draws, seed, batches, history, future, n_step, gamma, boundary, copy } = saved;
    if draws != DRAWS {
        return Err(bad(format!("its draws are of version {draws}, this one makes {DRAWS}")));
    }
    let boundary =
        boundary.parse().map_err(|error: backcast_core::BadBoundary| bad(error.to_string()))?;
    Ok(SamplerState { seed, batches, history, future, n_step, gamma, boundary, copy })
}

#[cfg(test)]
mod tests {
    use backcast_core::{Boundary, SamplerOptions};
    use serde_json::json;

    use super::*;

    fn state() -> SamplerState {
        SamplerState {
            seed: u64::MAX,
            batches: 1 << 60,
            history: Some(20),
            future: 5,
            n_step: Some(3),
            gamma: Some(0.990_000_000_000_000_1),
            boundary: Boundary::Clamp,
            copy: true,
        }
    }

    #[test]
    fn a_state_comes_back_through_text_to_the_bit() {
        let mut gamma = 0.1_f64;
        for _ in 0..1_000 {
            gamma = (gamma * 997.13).fract();
            let given = SamplerState { gamma: Some(gamma), ..state() };
            let text = sampler_state_json(&given).to_string();
            let found = sampler_state(&serde_json::from_str(&text).unwrap()).unwrap();
            assert_eq!(found, given);
            let _: SamplerOptions = found.into();
        }
    }

    #[test]
    fn what_is_no_state_says_what_is_wrong() {
        let with = |key: &str, value: Value| {
            let mut json = sampler_state_json(&state());
            json[key] = value;
            json
        };
        for (json, part) in [
            (json!(7), "no dict"),
            (
                with("seed", json!({"__int__": "1"})),
                "`seed` is a whole number from 0 to 18446744073709551615",
            ),
            (json!([7]), "no dict"),
            (json!({}), "draws"),
            (with("sed", json!(1)), "`sed`"),
            (with("seed", json!(-1)), "-1"),
            (with("history", json!("x")), "x"),
            (with("boundary", json!("cut")), "`cut`"),
            (with("draws", json!(2)), "version 2"),
        ] {
            let error = sampler_state(&json).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("; give"), "{error} lacks {part}");
        }
    }
}
