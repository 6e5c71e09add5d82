//! Plans of single lanes.

use super::super::end_flags;
use super::super::episode_clock::{EpisodeClock, HeaderFields};
use super::super::kept::KeptKind;
use super::super::reset_policy::*;
use super::MODES;
use crate::autoreset::AutoresetMode;
use crate::row_flags::{FINAL, GAP, TERMINATED};

fn step(end: bool) -> LaneStep {
    LaneStep { ends: end_flags(end, false), ..LaneStep::default() }
}

/// Plays steps on a new lane, and drops the rows of step `lost`. Returns episode, step and flags of
/// every row.
fn play(mode: AutoresetMode, ends: &[bool], lost: Option<usize>) -> Vec<(u64, u32, u32)> {
    let mut state = LaneState::of(EpisodeClock::fresh());
    let mut written = Vec::new();
    for (i, end) in ends.iter().enumerate() {
        let mut plan = state.plan(mode, step(*end));
        if lost == Some(i) {
            plan = plan.without_rows(state);
        }
        written.extend(plan.headers().map(|row| (row.episode, row.t, row.flags)));
        state = plan.after;
    }
    written
}

#[test]
fn an_episode_takes_the_same_rows_in_every_mode() {
    let expected = [
        (0, 0, 0),
        (0, 1, TERMINATED),
        (0, 2, FINAL),
        (1, 0, TERMINATED),
        (1, 1, FINAL),
        (2, 0, 0),
    ];
    // Next-step: the append after an end is the FINAL row, with any flags.
    let steps = [false, true, false, true, false, false];
    assert_eq!(play(AutoresetMode::NextStep, &steps, None), expected);
    for mode in [AutoresetMode::SameStep, AutoresetMode::Disabled] {
        assert_eq!(play(mode, &[false, true, true, false], None), expected);
    }
}

#[test]
fn a_dropped_row_leaves_a_gap_and_no_lone_final_row() {
    // An episode of three steps and the beginning of the next.
    let without = |mode, lost| {
        let resets: &[bool] = if mode == AutoresetMode::NextStep { &[false] } else { &[] };
        play(mode, &[&[false, false, true], resets, &[false, false]].concat(), Some(lost))
    };
    let next = AutoresetMode::NextStep;
    let rest = [(1, 0, 0), (1, 1, 0)];
    let gone = |rows: &[(u64, u32, u32)], rest: &[(u64, u32, u32)]| [rows, rest].concat();
    // The first step: the episode's number is not used up.
    let first = gone(&[(0, 0, GAP), (0, 1, TERMINATED), (0, 2, FINAL)], &rest);
    assert_eq!(without(next, 0), first);
    assert_eq!(without(AutoresetMode::SameStep, 0), first);
    // One in the middle.
    let middle = [(0, 0, 0), (1, 0, GAP | TERMINATED), (1, 1, FINAL), (2, 0, 0), (2, 1, 0)];
    assert_eq!(without(next, 1), middle);
    assert_eq!(without(AutoresetMode::SameStep, 1), middle);
    // The end: its final observation goes with it, in one append or in the next.
    let end = [(0, 0, 0), (0, 1, 0), (1, 0, GAP), (1, 1, 0)];
    assert_eq!(without(next, 2), end);
    assert_eq!(without(AutoresetMode::Disabled, 2), end);
    // Only the FINAL row is dropped: the transition before it has no successor.
    let last = [(0, 0, 0), (0, 1, 0), (0, 2, TERMINATED), (1, 0, GAP), (1, 1, 0)];
    assert_eq!(without(next, 3), last);
}

#[test]
fn a_restart_marks_a_gap_and_a_new_episode_once() {
    let mode = AutoresetMode::NextStep;
    let fresh = LaneState::of(EpisodeClock::fresh());
    assert_eq!(fresh.restart(), LanePlan::empty(fresh), "nothing was begun");
    let ended = fresh.plan(mode, step(true)).after;
    assert!(ended.clock.awaits_final());
    let plan = ended.restart().after.plan(mode, step(false));
    assert_eq!(plan.row, Some(HeaderFields { episode: 1, t: 0, flags: GAP }));
    let plan = plan.after.plan(mode, step(false));
    assert_eq!(plan.row, Some(HeaderFields { episode: 1, t: 1, flags: 0 }));
}

/// Steps with every combination of properties, on every state that a few of them lead to.
#[test]
fn no_step_takes_more_rows_than_are_kept_free_for_it() {
    let steps = (0..32_u8).map(|bits| LaneStep {
        ends: end_flags(bits & 1 != 0, bits & 2 != 0),
        shows_kept: bits & 4 != 0,
        is_rewarded: bits & 8 != 0,
        has_next: bits & 16 != 0,
    });
    for mode in MODES {
        let mut states = vec![LaneState::of(EpisodeClock::fresh())];
        for _ in 0..3 {
            let mut after = Vec::new();
            for (state, step) in
                states.iter().flat_map(|s| steps.clone().map(move |step| (*s, step)))
            {
                let plan = state.plan(mode, step);
                assert!(plan.count() <= state.max_rows(mode), "{state:?} {step:?}");
                assert!(plan.count() <= MAX_ROWS, "{state:?} {step:?}");
                let completed = plan.after.clock.begun() - state.clock.begun();
                assert_eq!(plan.transitions(), plan.count() - completed, "{state:?} {step:?}");
                for next in [plan.after, plan.without_rows(state).after, plan.after.restart().after]
                {
                    if !after.contains(&next) {
                        after.push(next);
                    }
                }
            }
            states = after;
        }
        assert!(states.len() > 4, "{mode}: {states:?}");
    }
}

/// A step that only continues its lane is one row by the plan too, and hints at nothing.
#[test]
fn the_fast_path_takes_only_steps_that_become_one_row() {
    for (mode, kept) in MODES.into_iter().flat_map(|mode| {
        [KeptKind::Nothing, KeptKind::Next, KeptKind::Final].map(|kept| (mode, kept))
    }) {
        let mut clock = EpisodeClock::after(4);
        for _ in 0..3 {
            let state = LaneState { clock, kept };
            for (shows_kept, has_next) in
                [(false, false), (false, true), (true, false), (true, true)]
            {
                let taken = match state.continuation() {
                    Continuation::Plain => true,
                    Continuation::IfShown => shows_kept,
                    Continuation::Planned => false,
                };
                let step = LaneStep { shows_kept, has_next, ..LaneStep::default() };
                let plan = state.plan(mode, step);
                let mut next = clock;
                let row = Some(next.step());
                let kept = if has_next { KeptKind::Next } else { KeptKind::Nothing };
                let after = LaneState { clock: next, kept };
                let expected = LanePlan { row, ..LanePlan::empty(after) };
                if taken {
                    assert_eq!(plan, expected, "{state:?} {step:?}");
                }
            }
            clock.step();
        }
    }
}
