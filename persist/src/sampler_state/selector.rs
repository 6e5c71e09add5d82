//! JSON of selectors and of their priorities.

use backcast_core::{
    Alpha, Beta, InitialPriority, PriorityOptions, PriorityOrder, Selector, TableOptions,
};
use serde::{Deserialize, Serialize};

use super::{BadSamplerState, every, is_every};

/// JSON of a selector. `MaxPriority` and `MinPriority` have their settings in `priority`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum SavedSelector {
    MaxPriority,
    MinPriority,
    Fifo,
    Lifo,
    Recency { half_life: f64 },
    LaneWeights { weights: Vec<f64> },
    LaneStrata,
    Epoch { table: String, shuffle: bool, seed: u64 },
    Consume { table: String, max_times_sampled: u32, shuffle: bool, seed: u64 },
}

/// JSON of prioritised draws.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedPriority {
    table: String,
    exponent: SavedAlpha,
    eps: f64,
    beta: SavedBeta,
    weights: String,
    stratified: bool,
    /// Steps of an episode from one transition that has a priority to the next; absent: 1.
    #[serde(default = "every", skip_serializing_if = "is_every")]
    stride: u32,
    /// Priority of new transitions; absent: the largest that was ever set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    initial: Option<String>,
    /// Property that the probability of a transition depends on; absent: its priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<String>,
}

/// Beta that a function of the caller computes.
const FUNCTION: &str = "function";

/// JSON of beta: a constant; a pair of the first value and the batches until it is 1; or
/// `"function"`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum SavedBeta {
    Constant(f64),
    Annealed(f64, u64),
    Word(String),
}

/// Alpha that is the table's.
const TABLE: &str = "table";

/// JSON of alpha: a constant; the first value, the last and the batches between them; or
/// `"table"`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum SavedAlpha {
    Constant(f64),
    Annealed(f64, f64, u64),
    Word(String),
}

impl SavedSelector {
    pub(super) fn of(selector: &Selector) -> Option<Self> {
        Some(match selector {
            Selector::MaxPriority(_) => Self::MaxPriority,
            Selector::MinPriority(_) => Self::MinPriority,
            Selector::Fifo => Self::Fifo,
            Selector::Lifo => Self::Lifo,
            Selector::Recency { half_life } => Self::Recency { half_life: *half_life },
            Selector::LaneWeights(weights) => Self::LaneWeights { weights: weights.clone() },
            Selector::LaneStrata => Self::LaneStrata,
            Selector::Table(options) => {
                let (table, settings) = (options.name().to_owned(), options.settings());
                let (shuffle, seed) = (settings.shuffled, settings.seed);
                if settings.renewed {
                    Self::Epoch { table, shuffle, seed }
                } else {
                    let max_times_sampled = settings.times;
                    Self::Consume { table, max_times_sampled, shuffle, seed }
                }
            }
            _ => return None,
        })
    }
}

/// Returns the selector of a state. Its settings are checked where a sampler is made of them.
pub(super) fn selector_of(
    selector: Option<SavedSelector>,
    priority: Option<PriorityOptions>,
) -> Result<Selector, BadSamplerState> {
    let bad = |problem: &str| Err(BadSamplerState { problem: problem.to_owned() });
    let other = match (selector, priority) {
        (None, None) => return Ok(Selector::Uniform),
        (None, Some(options)) => return Ok(Selector::Priority(options)),
        (Some(SavedSelector::MaxPriority), Some(options)) => {
            return Ok(Selector::MaxPriority(options));
        }
        (Some(SavedSelector::MinPriority), Some(options)) => {
            return Ok(Selector::MinPriority(options));
        }
        (Some(_), Some(_)) => return bad("it has a `priority` that its selector does not use"),
        (Some(other), None) => other,
    };
    Ok(match other {
        SavedSelector::MaxPriority | SavedSelector::MinPriority => {
            return bad("its selector needs a `priority`");
        }
        SavedSelector::Fifo => Selector::Fifo,
        SavedSelector::Lifo => Selector::Lifo,
        SavedSelector::Recency { half_life } => Selector::Recency { half_life },
        SavedSelector::LaneWeights { weights } => Selector::LaneWeights(weights),
        SavedSelector::LaneStrata => Selector::LaneStrata,
        SavedSelector::Epoch { table, shuffle, seed } => {
            Selector::Table(TableOptions::epoch(&table).shuffled(shuffle).seed(seed))
        }
        SavedSelector::Consume { table, max_times_sampled, shuffle, seed } => {
            let options = TableOptions::consume(&table).shuffled(shuffle).seed(seed);
            Selector::Table(options.max_times_sampled(max_times_sampled))
        }
    })
}

impl SavedPriority {
    pub(super) fn of(options: &PriorityOptions) -> Self {
        let PriorityOptions { table, alpha, eps, beta, normalize, .. } = options.clone();
        let PriorityOptions { stratified, stride, initial, by, .. } = *options;
        let beta = match beta {
            Beta::Constant(beta) => SavedBeta::Constant(beta),
            Beta::Annealed { from, batches } => SavedBeta::Annealed(from, batches),
            Beta::Function => SavedBeta::Word(FUNCTION.to_owned()),
        };
        let exponent = match alpha {
            Alpha::Constant(alpha) => SavedAlpha::Constant(alpha),
            Alpha::Annealed { first, last, batches } => SavedAlpha::Annealed(first, last, batches),
            Alpha::Table => SavedAlpha::Word(TABLE.to_owned()),
        };
        let weights = normalize.as_str().to_owned();
        let initial = (initial != InitialPriority::default()).then(|| initial.as_str().to_owned());
        let by = (by != PriorityOrder::default()).then(|| by.as_str().to_owned());
        Self { table, exponent, eps, beta, weights, stratified, stride, initial, by }
    }

    /// Returns the options. Their numbers are checked where a sampler is made of them.
    pub(super) fn options(self) -> Result<PriorityOptions, BadSamplerState> {
        let Self { table, exponent, eps, beta, weights, stratified, stride, initial, by } = self;
        let alpha = match exponent {
            SavedAlpha::Constant(alpha) => Alpha::Constant(alpha),
            SavedAlpha::Annealed(first, last, batches) => Alpha::Annealed { first, last, batches },
            SavedAlpha::Word(word) if word == TABLE => Alpha::Table,
            SavedAlpha::Word(word) => {
                let problem = format!(
                    "`priority.exponent` is a number, a triple or \"{TABLE}\", and here {word:?}"
                );
                return Err(BadSamplerState { problem });
            }
        };
        let beta = match beta {
            SavedBeta::Constant(beta) => Beta::Constant(beta),
            SavedBeta::Annealed(from, batches) => Beta::Annealed { from, batches },
            SavedBeta::Word(word) if word == FUNCTION => Beta::Function,
            SavedBeta::Word(word) => {
                let problem = format!(
                    "`priority.beta` is a number, a pair or \"{FUNCTION}\", and here {word:?}"
                );
                return Err(BadSamplerState { problem });
            }
        };
        let bad =
            |error: backcast_core::BadWeightNorm| BadSamplerState { problem: error.to_string() };
        let normalize = weights.parse().map_err(bad)?;
        let bad = |error: backcast_core::BadInitialPriority| BadSamplerState {
            problem: error.to_string(),
        };
        let initial = initial.map_or(Ok(InitialPriority::default()), |word| word.parse());
        let initial = initial.map_err(bad)?;
        let bad =
            |error: backcast_core::BadPriorityOrder| BadSamplerState { problem: error.to_string() };
        let by = by.map_or(Ok(PriorityOrder::default()), |word| word.parse()).map_err(bad)?;
        Ok(PriorityOptions { table, alpha, eps, beta, normalize, stratified, stride, initial, by })
    }
}

#[cfg(test)]
mod tests {
    use backcast_core::{DType, Ring, RingOptions, SamplerOptions, SamplerState, Schema};
    use serde_json::json;

    use super::super::{sampler_state, sampler_state_json};
    use super::*;

    #[test]
    fn every_choice_of_a_priority_comes_back_and_no_other_word_does() {
        let schema = Schema::builder().column("obs", DType::F32, &[]).build().unwrap();
        let ring = Ring::heap(&schema, RingOptions::with_capacity(50)).unwrap();
        let plain = ring.sampler(SamplerOptions::seeded(7)).unwrap().state();
        let annealed = Alpha::Annealed { first: 0.9, last: 0.1, batches: 30 };
        let of = |alpha: Alpha| PriorityOptions::alpha(alpha).table("mine");
        let mut texts = Vec::new();
        for options in [
            of(Alpha::Constant(0.7)),
            of(annealed),
            of(Alpha::Table),
            of(Alpha::Table).beta(Beta::Constant(0.3)).eps(0.25),
            of(Alpha::Table).initial(InitialPriority::Held),
            of(Alpha::Table).by(PriorityOrder::Rank),
            of(Alpha::Table).stride(40),
        ] {
            let given = SamplerState { selector: Selector::Priority(options), ..plain.clone() };
            let json = sampler_state_json(&given);
            assert_eq!(sampler_state(&json).unwrap(), given);
            texts.push(json.to_string());
            for key in ["exponent", "beta", "weights", "initial", "by"] {
                let mut json = json.clone();
                json["priority"][key] = json!("rising");
                let refused = sampler_state(&json).unwrap_err();
                assert!(refused.problem.contains("rising"), "{key}: {refused}");
            }
        }
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), 7, "states that differ look alike");
    }
}
