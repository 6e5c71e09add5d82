//! Models of the protocols of shared memory: every interleaving and every reordering that the
//! memory model allows, over the code that ships; and mutants of it, each of which must be caught.

mod claim;
mod exponent;
#[path = "../model/handle.rs"]
mod handle;
mod handoff;
#[path = "../model/lane.rs"]
#[allow(dead_code, reason = "some of it is shuttle's")]
mod lane;
mod limit;
mod low_mark;
mod notify;
mod pins;
mod publish;
mod relocate;
mod slots;
mod sum_tree;
mod version;

use std::panic::{AssertUnwindSafe, catch_unwind};

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU64, Ordering, fence};

/// Memory that loom tracks.
#[derive(Clone)]
pub(crate) struct Loom;

impl lane::Machine for Loom {
    type Word = AtomicU64;
    type Cell = UnsafeCell<u64>;

    fn word(&self, value: u64) -> AtomicU64 {
        AtomicU64::new(value)
    }

    fn cell(&self, value: u64) -> UnsafeCell<u64> {
        UnsafeCell::new(value)
    }

    fn load(word: &AtomicU64, order: Ordering) -> u64 {
        word.load(order)
    }

    fn store(word: &AtomicU64, value: u64, order: Ordering) {
        word.store(value, order);
    }

    fn fence(&self, order: Ordering) {
        fence(order);
    }

    fn read(cell: &UnsafeCell<u64>) -> u64 {
        // SAFETY: under test; loom panics if another thread may be writing it.
        #[expect(unsafe_code, reason = "loom's cell checks the access that real code does not")]
        cell.with(|value| unsafe { *value })
    }

    fn write(cell: &UnsafeCell<u64>, value: u64) {
        // SAFETY: under test, like in `read`.
        #[expect(unsafe_code, reason = "loom's cell checks the access that real code does not")]
        cell.with_mut(|word| unsafe { *word = value });
    }
}

/// Texts of a violated model. Any other panic is a mistake in the model.
const VIOLATIONS: [&str; 5] =
    ["torn", "lost", "changed under its lease", "Causality violation", "deadlock"];

/// Returns whether a model held in every execution: no torn row, no race, no thread asleep for
/// ever.
pub(crate) fn holds(
    builder: &loom::model::Builder,
    model: impl Fn() + Send + Sync + 'static,
) -> bool {
    let Err(panic) = catch_unwind(AssertUnwindSafe(|| builder.check(model))) else { return true };
    let said = panic.downcast_ref::<String>().map(String::as_str);
    let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("something else");
    assert!(
        VIOLATIONS.iter().any(|violation| said.contains(violation)),
        "the model is wrong: {said}"
    );
    false
}
