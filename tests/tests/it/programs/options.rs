//! Options of rings and samplers, from the JSON of a program.

use std::time::Duration;

use backcast_core::{
    Alpha, Base, Beta, ColumnWindow, ColumnWindows, InitialPriority, LanePolicy, NoLearner,
    PriorityOptions, PriorityOrder, RateLimiter, Ring, RingOptions, Role, Rollout, SamplerOptions,
    Schema, Selector, Sequence, TableOptions, WeightNorm, WholeEpisodes,
};
use serde_json::Value;

use super::errors::Failure;

/// Returns a text of a step.
pub(super) fn text<'v>(of: &'v Value, key: &str) -> &'v str {
    of[key].as_str().unwrap_or_default()
}

/// Returns a whole number of a step, or 0.
pub(super) fn number(of: &Value, key: &str) -> u64 {
    of[key].as_u64().unwrap_or_default()
}

/// Returns a small whole number.
pub(super) fn small(of: &Value) -> u32 {
    of.as_u64().and_then(|number| u32::try_from(number).ok()).unwrap_or_default()
}

fn real(of: &Value, default: f64) -> f64 {
    of.as_f64().unwrap_or(default)
}

pub(super) fn is_set(of: &Value, key: &str) -> bool {
    of[key].as_bool().unwrap_or_default()
}

/// Returns the elements of a list.
pub(super) fn list(of: &Value) -> &[Value] {
    of.as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn flags(of: &Value) -> Vec<bool> {
    list(of).iter().map(|flag| flag.as_bool().unwrap_or_default()).collect()
}

pub(super) fn indices(of: &Value) -> Vec<i64> {
    list(of).iter().filter_map(Value::as_i64).collect()
}

/// Returns a schema of `[name, dtype, shape, whether it is an observation]`.
pub(super) fn schema(columns: &Value) -> Schema {
    let builder = list(columns).iter().fold(Schema::builder(), |schema, column| {
        let shape: Vec<u32> = list(&column[2]).iter().map(small).collect();
        let role = if column[3] == true { Role::Obs } else { Role::Step };
        let dtype = column[1].as_str().and_then(|code| code.parse().ok()).expect("a dtype");
        schema.column_as(column[0].as_str().unwrap_or_default(), dtype, &shape, role)
    });
    builder.build().expect("a schema of the programs")
}

pub(super) fn ring(step: &Value, base: &Base) -> RingOptions {
    let policy = match text(step, "policy") {
        "" | "block" => LanePolicy::Block(Duration::from_millis(1)),
        word => word.parse().expect("a lane policy"),
    };
    let options = RingOptions::with_capacity(number(step, "capacity"));
    let options = options.lanes(small(&step["lanes"])).lane_policy(policy).base(base.clone());
    match &step["limiter"] {
        Value::Null => options,
        given => options.limiter(limits(given)),
    }
}

pub(super) fn limits(given: &Value) -> RateLimiter {
    let min_size = number(given, "min_size");
    let Some(ratio) = given["samples_per_insert"].as_f64() else {
        return RateLimiter::min_size(min_size);
    };
    let [low, high] = [0, 1].map(|end| real(&given["error_buffer"][end], f64::NAN));
    let no_learner: NoLearner = text(given, "no_learner").parse().unwrap_or_default();
    let band = RateLimiter::band(ratio, min_size, low, high).no_learner(no_learner);
    band.enabled(given["enabled"] != false)
}

/// Returns the options of a sampler.
pub(super) fn sampler(ring: &Ring, given: &Value, seed: u64) -> Result<SamplerOptions, Failure> {
    let mut options = SamplerOptions::seeded(seed)
        .future(small(&given["future"]))
        .boundary(given["boundary"].as_str().unwrap_or("mask").parse().expect("a boundary"))
        .copy(is_set(given, "copy"));
    if let [rank, world] = list(&given["share"]) {
        options = options.rank(small(rank), small(world));
    }
    if !given["n_step"].is_null() {
        options = options.n_step(small(&given["n_step"]));
        options = match given["gamma"].as_f64() {
            Some(gamma) => options.gamma(gamma),
            None => options.discount_column(),
        };
    }
    let form = &given["form"];
    options = match text(form, "kind") {
        "Sequence" => {
            let sequence = Sequence::new(small(&form["length"]));
            let stride = form["stride"].as_u64().map(|_| small(&form["stride"]));
            options.sequence(stride.map_or(sequence, |stride| sequence.stride(stride)))
        }
        "WholeEpisodes" => {
            let ragged = text(form, "layout") == "ragged";
            let made = if ragged { WholeEpisodes::ragged() } else { WholeEpisodes::padded() };
            let made = if is_set(form, "by_length") { made.by_length() } else { made };
            let most = form["max_length"].as_u64().map(|_| small(&form["max_length"]));
            options.episodes(most.map_or(made, |most| made.max_length(most)))
        }
        "Rollout" => {
            let rollout = Rollout::new(small(&form["length"]));
            let lanes = form["lanes"].as_u64().map(|_| small(&form["lanes"]));
            options.rollout(lanes.map_or(rollout, |lanes| rollout.lanes(lanes)))
        }
        _ => options,
    };
    if let Some(most) = given["max_age"].as_u64() {
        options = options.max_age(most);
    }
    if let Some(history) = given["history"].as_u64().filter(|_| given["columns"].is_null()) {
        options = options.history(u32::try_from(history).unwrap_or(u32::MAX));
    }
    if let Some(columns) = columns(given) {
        options = options.columns(columns);
    }
    if let Some(table) = given["learned"].as_str() {
        options = options.learned(ring.learned_options(table)?);
    }
    Ok(options.selector(selector(&given["select"])))
}

/// Returns the columns that are named, each with its window.
fn columns(given: &Value) -> Option<ColumnWindows> {
    let window = |of: &Value| match of {
        Value::Null => ColumnWindow::Drawn,
        Value::String(_) => ColumnWindow::First,
        history => ColumnWindow::History(small(history)),
    };
    let named = match (&given["columns"], &given["history"]) {
        (Value::Array(names), history) => Some(
            names
                .iter()
                .filter_map(Value::as_str)
                .fold(ColumnWindows::default(), |of, name| of.column(name, window(history))),
        ),
        (_, Value::Object(windows)) => {
            Some(windows.iter().fold(ColumnWindows::default(), |of, (name, given)| {
                match name.as_str() {
                    "*" => of.rest(window(given)),
                    name => of.column(name, window(given)),
                }
            }))
        }
        _ => None,
    };
    let first: Vec<&str> = list(&given["form"]["first"]).iter().filter_map(Value::as_str).collect();
    if first.is_empty() {
        return named;
    }
    let named = named.unwrap_or_else(|| ColumnWindows::default().rest(ColumnWindow::Drawn));
    Some(first.into_iter().fold(named, |of, name| of.column(name, ColumnWindow::First)))
}

fn selector(given: &Value) -> Selector {
    let table = |made: TableOptions| {
        let times =
            given["max_times_sampled"].as_u64().map_or(1, |_| small(&given["max_times_sampled"]));
        let shuffled = given["shuffle"].as_bool().unwrap_or(made.settings().shuffled);
        Selector::Table(
            made.shuffled(shuffled).seed(number(given, "seed")).max_times_sampled(times),
        )
    };
    match text(given, "kind") {
        "" | "uniform" => Selector::Uniform,
        "fifo" => Selector::Fifo,
        "lifo" => Selector::Lifo,
        "lane_strata" => Selector::LaneStrata,
        "Priority" => Selector::Priority(priorities(given)),
        "Largest" => Selector::MaxPriority(priorities(given)),
        "Smallest" => Selector::MinPriority(priorities(given)),
        "Recency" => Selector::Recency { half_life: real(&given["half_life"], 1.0) },
        "LaneWeights" => {
            Selector::LaneWeights(list(&given["weights"]).iter().map(|of| real(of, 0.0)).collect())
        }
        "Epoch" => table(TableOptions::epoch(given["table"].as_str().unwrap_or("epoch"))),
        "Consume" => table(TableOptions::consume(given["table"].as_str().unwrap_or("consume"))),
        kind => panic!("the selector {kind} is unknown"),
    }
}

fn priorities(given: &Value) -> PriorityOptions {
    let alpha = match list(&given["alpha"]) {
        [first, last, batches] => Alpha::Annealed {
            first: real(first, 0.0),
            last: real(last, 0.0),
            batches: batches.as_u64().unwrap_or_default(),
        },
        _ => Alpha::Constant(real(&given["alpha"], 0.6)),
    };
    let by_rank = text(given, "by") == "rank";
    let held = text(given, "initial") == "held";
    let options = PriorityOptions::alpha(alpha)
        .by(if by_rank { PriorityOrder::Rank } else { PriorityOrder::Priority })
        .initial(if held { InitialPriority::Held } else { InitialPriority::Ever })
        .eps(real(&given["eps"], PriorityOptions::EPS))
        .table(given["table"].as_str().unwrap_or(PriorityOptions::TABLE))
        .stratified(is_set(given, "stratified"));
    let options = match list(&given["beta"]) {
        [from, batches] => options.beta(Beta::Annealed {
            from: real(from, 0.0),
            batches: batches.as_u64().unwrap_or_default(),
        }),
        _ => options.beta(real(&given["beta"], PriorityOptions::BETA)),
    };
    let by_table = text(given, "normalize") == "table";
    options.normalize(if by_table { WeightNorm::Table } else { WeightNorm::Batch })
}
