//! Sampler states as JSON, to save with a snapshot, equal in Rust and Python.

mod selector;

use backcast_core::{
    ColumnWindow, ColumnWindows, EpisodeLayout, Form, GoalStrategy, Hindsight, LearnedOptions,
    Rollout, SamplerState, Sequence, WholeEpisodes,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;

use self::selector::{SavedPriority, SavedSelector, selector_of};

/// JSON of a sampler's state.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    /// Version of the algorithm that turns a seed into draws: [`DRAWS`] or [`STRIDED_DRAWS`].
    draws: u32,
    seed: u64,
    batches: u64,
    /// Transitions of the history, null without a history, or an object with one value per column.
    /// That value is a number of transitions, `"first"`, or null for the drawn transition alone.
    #[serde(default)]
    history: Value,
    future: u32,
    n_step: Option<u32>,
    /// A number, null, or `"discount"` to take the discounts from the column of that name.
    #[serde(default)]
    gamma: Value,
    boundary: String,
    copy: bool,
    /// Settings of priorities; absent: none are used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    priority: Option<SavedPriority>,
    /// Selector; absent: uniform draws, or draws in proportion to the priorities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    selector: Option<SavedSelector>,
    /// Transitions from one window to the next; absent: 1.
    #[serde(default = "every", skip_serializing_if = "is_every")]
    stride: u32,
    /// Rank of the learner among those that share the draws; absent: 0.
    #[serde(default, skip_serializing_if = "is_first")]
    rank: u32,
    /// Learners that share the draws; absent: 1.
    #[serde(default = "every", skip_serializing_if = "is_every")]
    world_size: u32,
    /// Goals relabelled in hindsight; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hindsight: Option<SavedHindsight>,
    /// Learned columns that batches show; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    learned: Option<SavedLearned>,
    /// Draws of whole episodes; absent: of transitions, or of sequences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    episodes: Option<SavedEpisodes>,
    /// Draws of sequences; absent: of transitions, or of whole episodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sequence: Option<SavedSequence>,
    /// Draws of rollouts; absent: of another form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rollout: Option<SavedRollout>,
    /// Maximum age of rows, in newer rows of the lane; absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_age: Option<u64>,
    /// Maximum age of rows, in newer versions of the policy; absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_policy_age: Option<u64>,
    /// Version of the policy that the learner has set; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    policy_version: Option<u64>,
}

/// JSON of draws of rollouts.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedRollout {
    length: u32,
    lanes: Option<u32>,
}

/// JSON of draws of sequences.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedSequence {
    length: u32,
    stride: u32,
}

/// JSON of the learned columns of a table: name and dtype of each.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedLearned {
    table: String,
    columns: Vec<(String, String)>,
}

/// JSON of draws of whole episodes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedEpisodes {
    layout: String,
    max_length: Option<u32>,
    /// Absent: every episode is drawn alike.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    by_length: bool,
}

/// JSON of hindsight.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedHindsight {
    strategy: String,
    ratio: f64,
    achieved: String,
    desired: String,
    /// Absent: terminations stay.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    terminated: bool,
}

/// Returns the default of `stride` and of `world_size`.
fn every() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_every(stride: &u32) -> bool {
    *stride == every()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_first(rank: &u32) -> bool {
    *rank == 0
}

/// Integers of the state.
const NUMBERS: [&str; 11] = [
    "draws",
    "seed",
    "batches",
    "future",
    "n_step",
    "stride",
    "rank",
    "world_size",
    "max_age",
    "max_policy_age",
    "policy_version",
];

/// Key for all columns that the windows do not name.
const REST: &str = "*";
/// Window of a column that has only the first row of the longest window.
const FIRST: &str = "first";
/// Value of `gamma` that takes the discounts from a column.
const DISCOUNT: &str = "discount";

/// Version of the algorithm: Philox 4x32-10, counted by batch, item and attempt.
const DRAWS: u32 = 1;
/// Version for windows on a stride: the same algorithm, which also draws windows that end with an
/// episode. States of version 1 left those out; a restored state draws them.
const STRIDED_DRAWS: u32 = 2;

/// JSON that is not a sampler's state, or has an unknown version of draws.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the state is not a sampler's: {problem}; pass the state that a sampler returned")]
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
    let SamplerState { seed, batches, future, n_step, copy, stride, .. } = *state;
    let history = match &state.columns {
        None => state.history.into(),
        Some(columns) => columns_json(columns),
    };
    let gamma = if state.discounts { DISCOUNT.into() } else { state.gamma.into() };
    let boundary = state.boundary.as_str().to_owned();
    let priority = state.selector.priorities().map(SavedPriority::of);
    let selector = SavedSelector::of(&state.selector);
    let (mut sequence, mut episodes, mut rollout) = (None, None, None);
    match state.form {
        Form::Sequence(Sequence { length, stride, .. }) => {
            sequence = Some(SavedSequence { length, stride });
        }
        Form::Episodes(of) => episodes = Some(SavedEpisodes::of(of)),
        Form::Rollout(Rollout { length, lanes, .. }) => {
            rollout = Some(SavedRollout { length, lanes });
        }
        _ => {}
    }
    let saved = Saved {
        draws: if is_every(&stride) { DRAWS } else { STRIDED_DRAWS },
        seed,
        batches,
        history,
        future,
        n_step,
        gamma,
        boundary,
        copy,
        priority,
        stride,
        rank: state.rank.0,
        world_size: state.rank.1,
        hindsight: state.hindsight.as_ref().map(SavedHindsight::of),
        learned: state.learned.as_ref().map(SavedLearned::of),
        episodes,
        sequence,
        rollout,
        selector,
        max_age: state.max_age,
        max_policy_age: state.max_policy_age,
        policy_version: state.policy_version,
    };
    // Numbers and strings always serialise.
    serde_json::to_value(saved).unwrap_or_default()
}

/// Parses a state from [`sampler_state_json`] or Python's `Sampler.state()`.
pub fn sampler_state(json: &Value) -> Result<SamplerState, BadSamplerState> {
    let bad = |problem: String| BadSamplerState { problem };
    if !json.is_object() {
        return Err(bad("it is no JSON object".to_owned()));
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
    let Saved { draws, seed, batches, history, future, n_step, gamma, boundary, .. } = saved;
    let Saved { copy, priority, stride, hindsight, learned, episodes, sequence, rollout, .. } =
        saved;
    let rank = (saved.rank, saved.world_size);
    let (max_age, max_policy_age) = (saved.max_age, saved.max_policy_age);
    let selector = saved.selector;
    if !(DRAWS..=STRIDED_DRAWS).contains(&draws) {
        let ours = format!("this one makes {DRAWS} and {STRIDED_DRAWS}");
        return Err(bad(format!("its draws are of version {draws}, {ours}")));
    }
    let (history, columns) = match history {
        Value::Null => (None, None),
        Value::Object(windows) => (None, Some(columns_of(&windows)?)),
        given => (Some(transitions(&given, "history")?), None),
    };
    let discounts = gamma == DISCOUNT;
    let gamma = match gamma {
        Value::Null => None,
        _ if discounts => None,
        given => Some(given.as_f64().ok_or_else(|| {
            bad(format!("`gamma` is a number, null or \"{DISCOUNT}\", and here {given}"))
        })?),
    };
    let form = match (episodes, sequence, rollout) {
        (None, None, None) => Form::Transitions,
        (Some(of), None, None) => Form::Episodes(of.options()?),
        (None, Some(SavedSequence { length, stride }), None) => {
            Form::Sequence(Sequence::new(length).stride(stride))
        }
        (None, None, Some(SavedRollout { length, lanes })) => {
            let rollout = Rollout::new(length);
            Form::Rollout(lanes.map_or(rollout, |lanes| rollout.lanes(lanes)))
        }
        _ => {
            let both = "it has two of `episodes`, `sequence` and `rollout`, of which one is drawn";
            return Err(bad(both.to_owned()));
        }
    };
    let boundary =
        boundary.parse().map_err(|error: backcast_core::BadBoundary| bad(error.to_string()))?;
    Ok(SamplerState {
        seed,
        batches,
        rank,
        history,
        future,
        n_step,
        gamma,
        discounts,
        boundary,
        stride,
        copy,
        form,
        columns,
        selector: selector_of(selector, priority.map(SavedPriority::options).transpose()?)?,
        hindsight: hindsight.map(SavedHindsight::options).transpose()?,
        learned: learned.map(SavedLearned::options).transpose()?,
        max_age,
        max_policy_age,
        policy_version: saved.policy_version,
    })
}

impl SavedEpisodes {
    fn of(options: WholeEpisodes) -> Self {
        let WholeEpisodes { layout, max_length, by_length } = options;
        Self { layout: layout.as_str().to_owned(), max_length, by_length }
    }

    /// Returns the options, which are checked where a sampler is made of them.
    fn options(self) -> Result<WholeEpisodes, BadSamplerState> {
        let Self { layout, max_length, by_length } = self;
        let layout = EpisodeLayout::named(&layout).ok_or_else(|| {
            let problem =
                format!("`episodes.layout` is \"padded\" or \"ragged\", and here {layout:?}");
            BadSamplerState { problem }
        })?;
        Ok(WholeEpisodes { layout, max_length, by_length })
    }
}

impl SavedHindsight {
    fn of(options: &Hindsight) -> Self {
        let Hindsight { strategy, ratio, achieved, desired, terminated } = options.clone();
        Self { strategy: strategy.as_str().to_owned(), ratio, achieved, desired, terminated }
    }

    /// Returns the options, which are checked where a sampler is made of them.
    fn options(self) -> Result<Hindsight, BadSamplerState> {
        let Self { strategy, ratio, achieved, desired, terminated } = self;
        let strategy = GoalStrategy::named(&strategy).ok_or_else(|| {
            let problem = format!(
                "`hindsight.strategy` is \"future\", \"final\" or \"episode\", and here \
                 {strategy:?}"
            );
            BadSamplerState { problem }
        })?;
        Ok(Hindsight { strategy, ratio, achieved, desired, terminated })
    }
}

impl SavedLearned {
    fn of(options: &LearnedOptions) -> Self {
        let columns = options.columns().iter();
        let columns = columns.map(|column| (column.name.clone(), column.dtype.code().to_owned()));
        Self { table: options.name().to_owned(), columns: columns.collect() }
    }

    /// Returns the options, which are checked where a sampler is made of them.
    fn options(self) -> Result<LearnedOptions, BadSamplerState> {
        let empty = LearnedOptions::new(&self.table);
        self.columns.iter().try_fold(empty, |options, (name, dtype)| {
            let bad =
                |error: backcast_core::ColumnError| BadSamplerState { problem: error.to_string() };
            Ok(options.column(name, dtype.parse().map_err(bad)?))
        })
    }
}

/// Returns windows by column as JSON.
fn columns_json(columns: &ColumnWindows) -> Value {
    let rest = columns.others().map(|window| (REST, window));
    let windows = columns.named().chain(rest).map(|(name, window)| {
        let window = match window {
            ColumnWindow::Drawn => Value::Null,
            ColumnWindow::History(transitions) => transitions.into(),
            ColumnWindow::First => FIRST.into(),
        };
        (name.to_owned(), window)
    });
    Value::Object(windows.collect())
}

/// Returns the windows by column of a JSON value.
fn columns_of(windows: &Map<String, Value>) -> Result<ColumnWindows, BadSamplerState> {
    windows.iter().try_fold(ColumnWindows::default(), |columns, (name, window)| {
        let window = match window {
            Value::Null => ColumnWindow::Drawn,
            window if window == FIRST => ColumnWindow::First,
            window => ColumnWindow::History(transitions(window, &format!("history[{name:?}]"))?),
        };
        Ok(if name == REST { columns.rest(window) } else { columns.column(name, window) })
    })
}

/// Reads a number of transitions. `what` names it in the error.
fn transitions(given: &Value, what: &str) -> Result<u32, BadSamplerState> {
    let number = given.as_u64().and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| {
        let problem = format!("`{what}` is a number of transitions, and here {given}");
        BadSamplerState { problem }
    })
}

#[cfg(test)]
mod tests {
    use backcast_core::{
        Beta, Boundary, DType, PriorityOptions, SamplerOptions, Selector, TableOptions, WeightNorm,
    };
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
            discounts: false,
            copy: true,
            rank: (0, 1),
            stride: 1,
            form: Form::Transitions,
            columns: None,
            selector: Selector::Uniform,
            hindsight: None,
            learned: None,
            max_age: None,
            max_policy_age: None,
            policy_version: None,
        }
    }

    #[test]
    fn strides_and_hindsight_come_back_and_are_absent_where_they_are_not_used() {
        let hindsight = Hindsight::new(GoalStrategy::Final).k(3).columns("a", "b").terminated();
        let given =
            SamplerState { stride: 40, rank: (2, 3), hindsight: Some(hindsight), ..state() };
        let text = sampler_state_json(&given).to_string();
        assert_eq!(sampler_state(&serde_json::from_str(&text).unwrap()).unwrap(), given);
        let limited = SamplerState { max_age: Some(9), max_policy_age: Some(0), ..state() };
        let limited = SamplerState { policy_version: Some(7), ..limited };
        assert_eq!(sampler_state(&sampler_state_json(&limited)).unwrap(), limited);
        let plain = sampler_state_json(&state());
        assert_eq!((plain.get("max_age"), plain.get("max_policy_age")), (None, None));
        assert_eq!((plain.get("policy_version"), plain.get("stride")), (None, None));
        assert_eq!(plain.get("hindsight"), None);
        assert_eq!((plain.get("rank"), plain.get("world_size")), (None, None));
    }

    #[test]
    fn states_of_strided_draws_without_the_ends_of_episodes_are_continued() {
        let given = SamplerState { stride: 40, ..state() };
        let mut json = sampler_state_json(&given);
        assert_eq!(json["draws"], json!(2), "a version that knows no ends refuses it");
        json["draws"] = json!(1);
        assert_eq!(sampler_state(&json).unwrap(), given);
        assert_eq!(sampler_state_json(&state())["draws"], json!(1), "other draws did not change");
    }

    #[test]
    fn learned_columns_come_back_and_are_absent_where_they_are_not_used() {
        let learned = LearnedOptions::new("online").column("value", DType::F32);
        let learned = Some(learned.column("visits", DType::BF16));
        let given = SamplerState { learned, ..state() };
        let mut json = sampler_state_json(&given);
        assert_eq!(sampler_state(&json).unwrap(), given);
        assert_eq!(sampler_state_json(&state()).get("learned"), None);
        json["learned"]["columns"][0][1] = "f3".into();
        assert!(sampler_state(&json).unwrap_err().to_string().contains("`f3`"));
    }

    #[test]
    fn whole_episodes_come_back_and_are_absent_where_they_are_not_used() {
        for of in [WholeEpisodes::padded().max_length(7), WholeEpisodes::ragged().by_length()] {
            let given = SamplerState { form: Form::Episodes(of), ..state() };
            let text = sampler_state_json(&given).to_string();
            assert_eq!(sampler_state(&serde_json::from_str(&text).unwrap()).unwrap(), given);
        }
        assert_eq!(sampler_state_json(&state()).get("episodes"), None);
    }

    #[test]
    fn prioritised_draws_come_back() {
        let options = PriorityOptions::alpha(0.6).table("mine").stratified(true);
        let annealed = Beta::Annealed { from: 0.4, batches: 1 << 40 };
        let function = options.clone().beta(Beta::Function);
        let table = options.clone().beta(annealed).normalize(WeightNorm::Table);
        for options in [options, function, table] {
            let given = SamplerState { selector: Selector::Priority(options), ..state() };
            let text = sampler_state_json(&given).to_string();
            assert_eq!(sampler_state(&serde_json::from_str(&text).unwrap()).unwrap(), given);
        }
        assert_eq!(sampler_state_json(&state()).get("priority"), None);
    }

    #[test]
    fn a_beta_of_a_function_is_a_word() {
        let options = PriorityOptions::alpha(0.6).beta(Beta::Function);
        let given = SamplerState { selector: Selector::Priority(options), ..state() };
        let mut json = sampler_state_json(&given);
        assert_eq!(json["priority"]["beta"], json!("function"));
        assert_eq!(sampler_state(&json).unwrap(), given);
        json["priority"]["beta"] = json!("rising");
        let refused = sampler_state(&json).unwrap_err().to_string();
        assert!(refused.contains("\"function\"") && refused.contains("\"rising\""), "{refused}");
    }

    #[test]
    fn selectors_come_back() {
        let options = PriorityOptions::alpha(0.6).table("mine");
        for selector in [
            Selector::MaxPriority(options.clone()),
            Selector::MinPriority(options),
            Selector::Fifo,
            Selector::Lifo,
            Selector::Recency { half_life: 0.1 },
            Selector::LaneWeights(vec![0.1, 0.0, 7.0]),
            Selector::LaneStrata,
            Selector::Table(TableOptions::epoch("e").seed(u64::MAX)),
            Selector::Table(TableOptions::epoch("e").shuffled(false)),
            Selector::Table(TableOptions::consume("c").max_times_sampled(4).shuffled(true)),
        ] {
            let given = SamplerState { selector, ..state() };
            let text = sampler_state_json(&given).to_string();
            assert_eq!(sampler_state(&serde_json::from_str(&text).unwrap()).unwrap(), given);
        }
    }

    #[test]
    fn windows_by_column_and_discounts_of_a_column_come_back() {
        let columns = ColumnWindows::default()
            .column("obs", ColumnWindow::History(80))
            .column("lstm", ColumnWindow::First);
        for columns in [columns.clone(), columns.rest(ColumnWindow::Drawn)] {
            let given = SamplerState {
                history: None,
                gamma: None,
                discounts: true,
                columns: Some(columns),
                ..state()
            };
            let json = sampler_state_json(&given);
            assert_eq!((&json["history"]["obs"], &json["gamma"]), (&json!(80), &json!("discount")));
            assert_eq!(sampler_state(&json).unwrap(), given);
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
    fn invalid_states_name_the_problem() {
        let with = |key: &str, value: Value| {
            let mut json = sampler_state_json(&state());
            json[key] = value;
            json
        };
        for (json, part) in [
            (json!(7), "JSON"),
            (with("seed", json!({"__int__": "1"})), "`seed`"),
            (json!([7]), "JSON"),
            (json!({}), "draws"),
            (with("sed", json!(1)), "`sed`"),
            (with("seed", json!(-1)), "-1"),
            (with("history", json!("x")), "x"),
            (with("history", json!({"obs": "last"})), "history[\"obs\"]"),
            (with("history", json!({"*": -1})), "-1"),
            (with("gamma", json!("reward")), "\"reward\""),
            (with("boundary", json!("cut")), "`cut`"),
            (with("priority", json!({"exponent": 1.0})), "table"),
            (with("selector", json!({"name": "newest"})), "newest"),
            (with("selector", json!({"name": "max_priority"})), "`priority`"),
            (with("draws", json!(0)), "version 0"),
            (with("draws", json!(3)), "version 3"),
            (with("stride", json!(-1)), "-1"),
            (with("max_policy_age", json!(1.5)), "`max_policy_age`"),
            (with("episodes", json!({"layout": "packed", "max_length": null})), "\"packed\""),
            (
                with(
                    "hindsight",
                    json!({"strategy": "past", "ratio": 1, "achieved": "a", "desired": "b"}),
                ),
                "\"past\"",
            ),
        ] {
            let error = sampler_state(&json).unwrap_err().to_string();
            assert!(error.contains(part), "{error} lacks {part}");
        }
    }
}
