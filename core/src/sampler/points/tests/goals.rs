//! Rows that go away between the draw of a batch and the relabelling of its goals.

use super::*;
use crate::{GoalStrategy, Hindsight, RowIndex, SamplerOptions};

const STRATEGIES: [GoalStrategy; 3] =
    [GoalStrategy::Future, GoalStrategy::Final, GoalStrategy::Episode];
/// Reward of relabelled transitions.
const REWARD: f64 = -7.0;

fn sampler(ring: &Ring, strategy: GoalStrategy) -> Sampler {
    let hindsight = Hindsight::new(strategy).ratio(1.0).columns("obs/achieved", "obs/desired");
    let options = SamplerOptions::seeded(5).hindsight(hindsight);
    ring.sampler(options).unwrap().rewards(|_, rewards| rewards.fill(REWARD))
}

/// Checks that each item is either relabelled as a whole with a goal of its episode, or untouched.
/// Returns the untouched rows and the relabelled ones.
fn check_goals(batch: &Batch, strategy: GoalStrategy) -> [Vec<u64>; 2] {
    let relabelled = batch.column::<bool>("relabelled").unwrap();
    let rewards = batch.column::<f64>("reward").unwrap();
    let desired = batch.column::<f64>("obs/desired").unwrap();
    let words = batch.column::<u64>("obs/row").unwrap();
    let mut rows = [Vec::new(), Vec::new()];
    for (item, row) in batch.index().into_iter().map(RowIndex::seq).enumerate() {
        assert_eq!([0, 1, 2, 3].map(|word| words[[item, word]]), obs(row), "item {item}");
        let (first, last) = (row - step(row), row - step(row) + LENGTH);
        let mut goals = match strategy {
            GoalStrategy::Future => row + 1..last + 1,
            GoalStrategy::Final => last..last + 1,
            GoalStrategy::Episode => first + 1..last + 1,
        };
        let (goal, reward) = (desired[[item]].to_bits(), rewards[[item]].to_bits());
        if relabelled[[item]] {
            assert!(goals.any(|of| real(of).to_bits() == goal), "a goal of row {row}");
            assert_eq!(reward, REWARD.to_bits(), "row {row}");
        } else {
            assert_eq!([goal, reward], [-1.0, 1.5 * real(row)].map(f64::to_bits), "row {row}");
        }
        rows[usize::from(relabelled[[item]])].push(row);
    }
    rows
}

#[test]
fn transitions_that_are_gone_before_the_relabelling_keep_their_goals() {
    for strategy in STRATEGIES {
        for change in [Source::overwrite_all as fn(&mut Source), Source::empty] {
            for point in [Point::Gathered, Point::Weighed] {
                let mut source = Source::heap(options(60)).filled(400);
                let ring = source.ring.clone();
                let mut sampler = sampler(&ring, strategy);
                let made = change_at(&mut sampler, point, move || change(&mut source));
                let [untouched, relabelled] = check_goals(&sampler.sample(30).unwrap(), strategy);
                assert!(made.is_made() && relabelled.is_empty() && untouched.len() == 30);
            }
        }
    }
}

#[test]
fn only_the_transitions_that_are_left_are_relabelled() {
    for strategy in STRATEGIES {
        let mut source = Source::heap(options(60)).filled(400);
        let ring = source.ring.clone();
        let mut sampler = sampler(&ring, strategy);
        let made = change_at(&mut sampler, Point::Weighed, move || {
            source.append(30);
            source.ring.drop_episode(0, None, false).unwrap();
        });
        let [untouched, relabelled] = check_goals(&sampler.sample(60).unwrap(), strategy);
        assert!(made.is_made() && !untouched.is_empty() && !relabelled.is_empty());
        let readable = ring.lane_span(0).unwrap();
        assert!(relabelled.iter().all(|row| readable.contains(row)), "{relabelled:?}");
        assert!(untouched.iter().all(|row| !readable.contains(row)), "{untouched:?}");
    }
}

#[test]
fn goals_that_are_overwritten_before_or_during_their_copy_are_not_stored() {
    for strategy in STRATEGIES {
        for point in [Point::GoalsChosen, Point::GoalsCopied] {
            let mut source = Source::heap(options(60)).filled(400);
            let ring = source.ring.clone();
            let mut sampler = sampler(&ring, strategy);
            let made = change_at(&mut sampler, point, move || source.overwrite_all());
            let [untouched, relabelled] = check_goals(&sampler.sample(60).unwrap(), strategy);
            assert!(made.is_made() && untouched.len() == 60, "{relabelled:?} at {point:?}");
        }
    }
}
