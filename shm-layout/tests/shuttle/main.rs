//! The models of `tests/loom`, larger: several readers, writers, laps and deaths, under schedules
//! and reorderings drawn at random instead of all of them; and the same mutants, each of which must
//! be caught.
//!
//! `BACKCAST_SCHEDULES` sets the number of schedules per model.

#[path = "../model/handle.rs"]
mod handle;
#[path = "../model/lane.rs"]
#[allow(dead_code, reason = "some of it is loom's")]
mod lane;
mod machine;
mod notify;
mod pins;
mod publish;
mod relocate;
mod slots;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, Runner};

/// Schedules of a model, unless the environment says otherwise.
const SCHEDULES: u64 = 20_000;
/// Schedules within which a mutant must be caught.
const MUTANT_SCHEDULES: usize = 50_000;

/// Events over all schedules of a model, by name: a model in which one never happens proves
/// nothing.
#[derive(Clone)]
pub(crate) struct Seen(Arc<Vec<(&'static str, AtomicU64)>>);

impl Seen {
    fn new(names: &[&'static str]) -> Self {
        Self(Arc::new(names.iter().map(|name| (*name, AtomicU64::new(0))).collect()))
    }

    /// Counts the event `name`.
    pub(crate) fn count(&self, name: &str) {
        let (_, counter) = self.0.iter().find(|(of, _)| *of == name).expect("a name of the model");
        counter.fetch_add(1, Relaxed);
    }
}

/// Texts of a violated model. Any other panic is a mistake in the model.
const VIOLATIONS: [&str; 5] = ["torn", "lost", "changed under its lease", "race", "deadlock"];

/// Returns whether a model held under all schedules.
fn run<S: Scheduler + 'static>(scheduler: S, model: impl Fn() + Send + Sync + 'static) -> bool {
    let mut config = Config::new();
    config.failure_persistence = FailurePersistence::None;
    config.stack_size = 1 << 17;
    // Silences a warning about shuttle's atomics, which the machine does not use.
    config.silence_warnings = true;
    let outcome = catch_unwind(AssertUnwindSafe(|| Runner::new(scheduler, config).run(model)));
    let Err(panic) = outcome else { return true };
    let said = panic.downcast_ref::<String>().map(String::as_str);
    let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("something else");
    assert!(
        VIOLATIONS.iter().any(|violation| said.contains(violation)),
        "the model is wrong: {said}"
    );
    false
}

/// Runs a model under random schedules. Half of them choose the next thread evenly, half by
/// priorities that change three times (Burckhardt and others: "A Randomized Scheduler with
/// Probabilistic Guarantees of Finding Bugs", ASPLOS 2010).
fn schedules(count: usize, seed: u64, model: impl Fn() + Send + Sync + Clone + 'static) -> bool {
    let evenly = RandomScheduler::new_from_seed(seed, count.div_ceil(2));
    let by_priority = PctScheduler::new_from_seed(seed, 3, count / 2);
    run(evenly, model.clone()) && run(by_priority, model)
}

/// Runs a model that must hold; each of the names must have been counted.
pub(crate) fn holds(
    model: &str,
    names: &[&'static str],
    body: impl Fn(&Seen) + Send + Sync + Clone + 'static,
) {
    let count = backcast_budget::budget_or("BACKCAST_SCHEDULES", SCHEDULES);
    let count = usize::try_from(count).expect("a number of schedules");
    let seen = Seen::new(names);
    let counters = seen.clone();
    let passed = schedules(count, 1, move || body(&counters));
    println!("{model}: {count} schedules, {:?}", seen.0);
    assert!(passed, "{model} failed");
    for (name, counter) in seen.0.iter() {
        assert!(counter.load(Relaxed) > 0, "{model} never saw {name}");
    }
}

/// Runs a model with a mutant, until it is caught.
pub(crate) fn dies(
    model: &str,
    names: &[&'static str],
    body: impl Fn(&Seen) + Send + Sync + Clone + 'static,
) {
    let seen = Seen::new(names);
    let executions = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&executions);
    let passed = schedules(MUTANT_SCHEDULES, 2, move || {
        counter.fetch_add(1, Relaxed);
        body(&seen);
    });
    println!("{model}: caught after {} schedules", executions.load(Relaxed));
    assert!(!passed, "{model} was not caught");
}
