//! Compares rings with a model: plain lists of episodes, built from the meaning of a row alone.
//!
//! The model (`lane.rs`) has no slots, windows or flag arithmetic. It keeps all rows ever written,
//! and finds those within capacity by counting from the end. `play.rs` feeds ring and model.
//! `compare.rs` compares rows, windows, refusals and draws.

mod case;
mod compare;
mod drawn;
mod lane;
mod play;
mod uniform;

use backcast_core::{Base, Ring, RingOptions, list_objects};
use proptest::prelude::*;
use proptest::test_runner::Config;

use self::case::Case;
use self::play::Play;

fn options(case: &Case) -> RingOptions {
    // Requests fewer rows than the lanes hold together, since capacities are rounded up.
    let asked = case.lane_capacity * u64::from(case.lanes) - u64::from(case.lanes - 1);
    RingOptions::with_capacity(asked).lanes(case.lanes)
}

/// Plays a case, and compares ring and model in between and at the end. `other` is another handle
/// of the ring.
fn play(case: &Case, ring: Ring, other: &Ring) {
    assert_eq!((ring.lanes(), ring.lane_capacity()), (case.lanes, case.lane_capacity));
    assert_eq!(ring.capacity(), case.lane_capacity * u64::from(case.lanes));
    let mut play = Play::new(ring, case);
    for (seed, op) in (case.seed..=u64::MAX).zip(&case.ops) {
        if !play.op(op) {
            compare::rows(&play, other);
            compare::windows(&play, other, case.windows[0], seed);
        }
    }
    compare::rows(&play, other);
    for windows in &case.windows {
        compare::windows(&play, other, *windows, case.seed);
    }
}

fn cases(cases: u32) -> Config {
    let cases = backcast_budget::cases(cases);
    Config { cases, failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() }
}

proptest! {
    #![proptest_config(cases(10_000))]

    /// The general suite, on the heap: lanes have only 16 slots more than their capacity, so they
    /// wrap.
    #[test]
    fn a_ring_shows_the_transitions_of_the_model(case in case::case(2..41, 0..24, Just(0))) {
        let ring = Ring::heap(&case.schema, options(&case)).unwrap();
        prop_assert_eq!(ring.slots(), case.lane_capacity + 16);
        play(&case, ring.clone(), &ring);
    }
}

proptest! {
    #![proptest_config(cases(8_000))]

    /// Lanes of a few rows that are overwritten many times, so that windows are cut on every side.
    #[test]
    fn lanes_shorter_than_an_episode_forget_exactly_their_oldest_rows(
        case in case::case(2..9, 4..30, 0..60_u32),
    ) {
        let ring = Ring::heap(&case.schema, options(&case)).unwrap();
        play(&case, ring.clone(), &ring);
    }
}

proptest! {
    #![proptest_config(cases(400))]

    /// Mapped lanes have at least a page of slots per column. A warm-up brings some of them to the
    /// end of their slots and over it.
    #[test]
    fn a_named_ring_passes_the_same_suite(
        case in case::case(
            2..41,
            0..24,
            prop_oneof![Just(0_u32), 980..1030_u32, 4060..4100_u32],
        ),
    ) {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let base = Base::at(dir.path());
        let ring = Ring::create("model", &case.schema, options(&case).base(base.clone())).unwrap();
        let other = Ring::attach_in(&base, "model").unwrap();
        prop_assert_eq!(other.schema(), &case.schema);
        prop_assert!(ring.slots() >= case.lane_capacity + 16);
        play(&case, ring, &other);
        drop(other);
        prop_assert!(list_objects(&base).unwrap().is_empty());
        prop_assert!(!base.path().exists(), "the last handle leaves nothing behind");
    }
}
