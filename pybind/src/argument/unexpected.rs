//! Refusal of arguments that a call does not have.

use backcast_core::plumbing::closest_name;
use pyo3::PyTypeInfo;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::text::text_of;
use crate::error::{ErrorClass, Failure};

/// Keywords that calls do not have: those of other libraries, and settings that belong to an object
/// here. Each with its call, and what to write instead.
const ELSEWHERE: [(&str, &str, &str); 50] = [
    ("sampler", "alpha", "select=bc.Priority(alpha=...)"),
    ("sampler", "priority", "select=bc.Priority(alpha=...)"),
    ("sampler", "prioritized", "select=bc.Priority()"),
    ("sampler", "prioritised", "select=bc.Priority()"),
    ("sampler", "per", "select=bc.Priority()"),
    ("sampler", "beta", "select=bc.Priority(beta=...)"),
    ("sampler", "eps", "select=bc.Priority(eps=...)"),
    ("sampler", "stratified", "select=bc.Priority(stratified=True)"),
    ("sampler", "weights", "select=bc.Priority(normalize=...)"),
    ("sampler", "normalize", "select=bc.Priority(normalize=...)"),
    ("sampler", "table", "a selector with a table, such as select=bc.Priority(table=...)"),
    ("sampler", "selector", "select=..."),
    ("sampler", "half_life", "select=bc.Recency(half_life)"),
    ("sampler", "lane_weights", "select=bc.LaneWeights(weights)"),
    ("sampler", "max_times_sampled", "select=bc.Consume(max_times_sampled=...)"),
    ("sampler", "shuffle", "select=bc.Epoch(shuffle=...)"),
    ("sampler", "table_seed", "select=bc.Epoch(seed=...)"),
    ("sampler", "replacement", "select=bc.Epoch() to draw without replacement"),
    ("sampler", "episodes", "form=bc.WholeEpisodes(...)"),
    ("sampler", "max_length", "form=bc.WholeEpisodes(max_length=...)"),
    ("sampler", "rank", "share=(rank, world_size)"),
    ("sampler", "world_size", "share=(rank, world_size)"),
    ("sampler", "stride", "form=bc.Sequence(length, stride=...)"),
    ("sampler", "seq_len", "form=bc.Sequence(length)"),
    ("sampler", "sequence_length", "form=bc.Sequence(length)"),
    ("sampler", "sequence_stride", "form=bc.Sequence(length, stride=...)"),
    ("sampler", "unroll_length", "form=bc.Sequence(length)"),
    ("sampler", "slice_len", "form=bc.Sequence(length)"),
    ("sampler", "burn_in", "form=bc.Sequence(length), and leave the first steps out of the loss"),
    ("sampler", "frame_stack", "history=..."),
    ("sampler", "n_steps", "n_step=..."),
    ("sampler", "batch_size", "sampler(...).sample(batch_size)"),
    ("sample", "priority", "sampler(select=bc.Priority()) and sample of it"),
    ("sample", "select", "sampler(select=...) and sample of it"),
    ("sample", "seed", "sampler(seed=...) and sample of it"),
    ("sample", "at_most", "sampler(select=bc.Consume()) and sample(None, at_most=...) of it"),
    ("batches", "at_most", "sample(None, at_most=...), which draws all that is new"),
    ("create", "samples_per_insert", "limiter=bc.RateLimiter(samples_per_insert)"),
    ("create", "min_size", "limiter=bc.RateLimiter(min_size=...)"),
    ("create", "error_buffer", "limiter=bc.RateLimiter(samples_per_insert, error_buffer=...)"),
    ("create", "memfd", "daemon=client.options(memfd=...)"),
    ("create", "persist", "daemon=client.options(persist=...)"),
    ("create", "num_actors", "lanes=..., one for each environment"),
    ("create", "num_envs", "lanes=..., one for each environment"),
    ("create", "n_envs", "lanes=..., one for each environment"),
    ("create", "max_size", "capacity=..."),
    ("create", "buffer_size", "capacity=..."),
    ("attach", "samples_per_insert", "limiter=bc.RateLimiter(samples_per_insert)"),
    ("attach", "min_size", "limiter=bc.RateLimiter(min_size=...)"),
    ("writer", "num_envs", "lanes=..., or env=env"),
];

/// Refuses arguments that a call does not have, and suggests the one that was probably meant.
///
/// `extra` holds positional arguments beyond the last one. `unknown` holds keywords that the call
/// does not have. `call` returns the name and the callable, whose text signature lists its
/// arguments.
pub(crate) fn refuse_unexpected<'py>(
    extra: &Bound<'py, PyTuple>,
    unknown: Option<&Bound<'py, PyDict>>,
    call: impl FnOnce(Python<'py>) -> PyResult<(String, Bound<'py, PyAny>)>,
) -> Result<(), Failure> {
    let unknown = unknown.filter(|unknown| !unknown.is_empty());
    if extra.is_empty() && unknown.is_none() {
        return Ok(());
    }
    let (name, callable) = call(extra.py())?;
    let signature: String = callable.getattr("__text_signature__")?.extract()?;
    let signature = ["$self", "$cls"].iter().fold(signature, |text, object| {
        text.replacen(&format!("({object}, "), "(", 1).replacen(&format!("({object})"), "()", 1)
    });
    let takes = Takes::parse(&signature);
    let refuse = |message| Err(Failure::new(ErrorClass::ArgumentType, message));
    if let Some(key) = unknown.and_then(|unknown| unknown.keys().into_iter().next()) {
        let key: String = key.extract()?;
        let elsewhere = ELSEWHERE.iter().find(|(call, word, _)| *call == name && *word == key);
        if let Some((_, _, instead)) = elsewhere {
            return refuse(format!(
                "{name}() has no argument `{key}`; write {instead}. It takes {signature}"
            ));
        }
        let hint = closest_name(&key, takes.all().copied())
            .map_or_else(|| "it".to_owned(), |near| format!("did you mean `{near}`? It"));
        return refuse(format!("{name}() has no argument `{key}`; {hint} takes {signature}"));
    }
    let (most, got) = (takes.by_position.len(), takes.by_position.len() + extra.len());
    refuse(format!(
        "{name}() takes {} by position, got {got}; {}",
        match most {
            0 => "no arguments".to_owned(),
            1 => "1 argument".to_owned(),
            _ => format!("{most} arguments"),
        },
        if takes.by_name.is_empty() {
            format!("it takes {signature}")
        } else {
            format!(
                "give {} by name: {}",
                if most == 0 { "them" } else { "the others" },
                takes.by_name.join(", ")
            )
        }
    ))
}

/// Returns a method and its name, for [`refuse_unexpected`].
pub(crate) fn method<'py, T: PyTypeInfo>(
    name: &'static str,
) -> impl FnOnce(Python<'py>) -> PyResult<(String, Bound<'py, PyAny>)> {
    move |py| Ok((name.to_owned(), py.get_type::<T>().getattr(name)?))
}

/// Returns a class and its name, for [`refuse_unexpected`].
pub(crate) fn class<T: PyTypeInfo>(py: Python<'_>) -> PyResult<(String, Bound<'_, PyAny>)> {
    let class = py.get_type::<T>();
    Ok((text_of(class.name()?.as_any())?, class.into_any()))
}

/// Returns a function of the module and its name, for [`refuse_unexpected`].
pub(crate) fn function<'py>(
    name: &'static str,
) -> impl FnOnce(Python<'py>) -> PyResult<(String, Bound<'py, PyAny>)> {
    move |py| Ok((name.to_owned(), py.import("backcast._native")?.getattr(name)?))
}

/// Parameter names in a text signature.
struct Takes<'a> {
    by_position: Vec<&'a str>,
    by_name: Vec<&'a str>,
}

impl<'a> Takes<'a> {
    fn parse(signature: &'a str) -> Self {
        let inside = signature.trim_start_matches('(').trim_end_matches(')');
        let mut takes = Self { by_position: Vec::new(), by_name: Vec::new() };
        let mut named = false;
        for part in inside.split(", ") {
            match part.split('=').next().unwrap_or(part) {
                "*" => named = true,
                "" | "/" => {}
                name if named => takes.by_name.push(name),
                name => takes.by_position.push(name),
            }
        }
        takes
    }

    fn all(&self) -> impl Iterator<Item = &&'a str> {
        self.by_position.iter().chain(&self.by_name)
    }
}
