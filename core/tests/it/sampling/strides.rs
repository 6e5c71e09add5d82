//! Windows on a stride, as states of samplers from before sequences have them.
//!
//! The transitions that each selector draws are compared with a list made of the rows.

use std::collections::{BTreeMap, BTreeSet};

use backcast_core::{Boundary, SampleError, SamplerOptions, Selector, TableOptions};

use super::scene::{Listed, Scene, drawn_from_queue, selectors};
use crate::strided;

/// Windows of a sampler.
#[derive(Clone, Copy, Debug)]
pub(super) struct Windows {
    pub(super) history: u32,
    pub(super) future: u32,
    pub(super) stride: u32,
    pub(super) boundary: Boundary,
}

impl Windows {
    fn options(self, seed: u64) -> SamplerOptions {
        let Self { history, future, boundary, .. } = self;
        SamplerOptions::seeded(seed).history(history).future(future).boundary(boundary)
    }

    fn spec(self, scene: &Scene, spec: impl Into<SamplerOptions>) -> SamplerOptions {
        strided(&scene.ring, spec, self.stride).unwrap().into()
    }
}

/// Windows of every boundary, with and without a future.
fn windows() -> impl Iterator<Item = Windows> {
    let boundaries = [Boundary::Mask, Boundary::Reject, Boundary::Clamp];
    let shapes = [(8, 0, 4), (5, 0, 5), (3, 2, 2), (1, 0, 3), (4, 1, 1)];
    boundaries.into_iter().flat_map(move |boundary| {
        shapes.map(|(history, future, stride)| Windows { history, future, stride, boundary })
    })
}

fn eligible(scene: &Scene, windows: Windows) -> BTreeSet<i64> {
    scene.index_of(|lane, at| is_drawn(lane, at, windows))
}

/// Returns whether a row may be drawn.
pub(super) fn is_drawn(lane: &Listed, at: usize, windows: Windows) -> bool {
    if !lane.is_transition(at) {
        return false;
    }
    let (back, ahead) = (windows.history as usize - 1, windows.future as usize);
    let (_, episode, t, ..) = lane.rows[at];
    let same = |at: &usize| lane.is_transition(*at) && lane.rows[*at].1 == episode;
    let is_whole = at >= back && (at - back..=at + ahead).all(|at| same(&at));
    let is_known = at >= back.min(t as usize);
    let (fits, end) = match windows.boundary {
        Boundary::Mask => (true, at),
        Boundary::Reject => (is_whole, at + ahead),
        Boundary::Clamp => (is_known, at),
    };
    let start = i64::from(t) - i64::from(windows.history - 1);
    fits && (start % i64::from(windows.stride) == 0 || lane.is_last(end))
}

#[test]
fn every_selector_draws_the_multiples_of_the_stride_and_the_ends_of_episodes() {
    for windows in windows() {
        // Lanes with few rows, and lanes that have lapped.
        for (capacity, acts) in [(900, 400), (150, 900)] {
            let mut scene = Scene::new(capacity, acts as u64);
            scene.act(acts);
            let eligible = eligible(&scene, windows);
            assert!(eligible.len() > 5, "{windows:?}");
            for selector in selectors() {
                let name = selector.to_string();
                let spec = windows.spec(&scene, windows.options(7).selector(selector));
                let mut sampler = scene.ring.sampler(spec).unwrap();
                let of_all = matches!(&*name, "fifo" | "lifo" | "epoch")
                    || matches!(&*name, "max_priority" | "min_priority");
                let batch = if of_all { eligible.len() } else { 200 * eligible.len() };
                let mut counts = BTreeMap::<i64, f64>::new();
                for index in sampler.sample(batch).unwrap().index() {
                    *counts.entry(index.0).or_default() += 1.0;
                }
                let found: BTreeSet<i64> = counts.keys().copied().collect();
                assert_eq!(found, eligible, "{name}, {windows:?}, {acts} acts");
                // A binomial of mean 200: 7 standard deviations.
                if matches!(&*name, "uniform" | "priority") {
                    let far = counts.iter().find(|(_, count)| (**count - 200.0).abs() > 100.0);
                    assert_eq!(far, None, "{name}, {windows:?}");
                }
                if matches!(&*name, "fifo" | "lifo") {
                    let refused = sampler.sample(eligible.len() + 1).unwrap_err();
                    assert!(matches!(refused, SampleError::TooFew { .. }), "{name}: {refused}");
                }
            }
        }
    }
}

#[test]
fn every_step_of_an_ended_episode_lies_in_some_window() {
    for windows in windows().filter(|of| of.boundary != Boundary::Reject) {
        if windows.stride > windows.history {
            continue;
        }
        let mut scene = Scene::new(900, 5);
        scene.act(500);
        let (drawn, lanes) = (eligible(&scene, windows), scene.listed());
        for lane in &lanes {
            let last = (0..lane.rows.len()).rev().find(|at| lane.is_last(*at)).unwrap();
            for at in (0..=last).filter(|at| lane.is_transition(*at)) {
                let (_, episode, ..) = lane.rows[at];
                let ends = at..lane.rows.len().min(at + windows.history as usize);
                let mut ends = ends.filter(|end| lane.rows[*end].1 == episode);
                assert!(ends.any(|end| drawn.contains(&lane.index(end))), "row {at}, {windows:?}");
            }
        }
    }
}

/// Rows to come decide whether the newest transition of a lane is the last of its episode, and
/// whether a window with a future is whole. A queue must not lose such rows.
#[test]
fn a_queue_hands_out_every_eligible_transition_once_however_early_it_is_asked() {
    for windows in windows() {
        let mut scene = Scene::new(30_000, 11);
        let table = TableOptions::consume("queue");
        let spec = windows.spec(&scene, windows.options(1).selector(Selector::Table(table)));
        let sampler = scene.ring.sampler(spec).unwrap();
        let (found, early) = drawn_from_queue(&mut scene, sampler);
        let eligible: Vec<i64> = eligible(&scene, windows).into_iter().collect();
        assert!((1..eligible.len()).contains(&early), "{windows:?}: {early} were drawn early");
        assert_eq!(found, eligible, "{windows:?}");
    }
}

#[test]
fn learners_that_share_the_draws_of_a_seed_share_the_ends_too() {
    let mut scene = Scene::new(900, 2);
    scene.act(500);
    let windows = Windows { history: 8, future: 0, stride: 4, boundary: Boundary::Mask };
    let open = |rank, of| {
        let spec = windows.spec(&scene, windows.options(9).rank(rank, of));
        scene.ring.sampler(spec).unwrap()
    };
    let (mut alone, mut ranks) = (open(0, 1), [0, 1].map(|rank| open(rank, 2)));
    for batch in 0..6 {
        let drawn = ranks[batch % 2].sample(50).unwrap().index();
        assert_eq!(drawn, alone.sample(50).unwrap().index(), "batch {batch}");
    }
}

#[test]
fn the_last_transition_counts_when_its_episode_ends_and_not_before() {
    let ring = crate::sampling::ring(1_000);
    let mut actor = crate::sampling::Actor::of(&ring);
    let options = SamplerOptions::seeded(1).history(80).selector(Selector::Fifo);
    let mut sampler = ring.sampler(strided(&ring, options, 40).unwrap()).unwrap();
    let mut ends = |count: usize| sampler.sample(count).map(|batch| batch.index());
    actor.episode(100, crate::sampling::End::Open);
    assert_eq!(ends(2).unwrap(), [39, 79]);
    assert!(matches!(ends(3), Err(SampleError::TooFew { .. })), "the newest is no end");
    actor.episode(50, crate::sampling::End::Terminated);
    assert_eq!(ends(4).unwrap(), [39, 79, 119, 149]);
    // A short episode has no other window.
    actor.episode(7, crate::sampling::End::Truncated);
    assert_eq!(ends(5).unwrap(), [39, 79, 119, 149, 157]);
    // Steps 0 to 4 and no successor of the last: cut by the next writer.
    actor.episode(5, crate::sampling::End::Open);
    assert!(matches!(ends(6), Err(SampleError::TooFew { .. })));
    drop(actor);
    let mut actor = crate::sampling::Actor::of(&ring);
    assert!(matches!(ends(6), Err(SampleError::TooFew { .. })));
    actor.episode(1, crate::sampling::End::Open);
    assert_eq!(ends(6).unwrap(), [39, 79, 119, 149, 157, 162]);
}
