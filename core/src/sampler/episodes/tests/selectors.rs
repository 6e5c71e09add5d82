//! Selectors of whole episodes.

use std::collections::BTreeSet;
use std::time::Duration;

use super::*;
use crate::{Form, PriorityError};

/// Lane, first row and length of an episode.
type Episode = (usize, u64, u64);

fn sampler_of(model: &Model, selector: &Selector, of: WholeEpisodes) -> crate::Sampler {
    let options = SamplerOptions::seeded(7).selector(selector.clone()).episodes(of);
    let mut sampler = model.ring.sampler(options).unwrap();
    sampler.set_timeout(Some(Duration::ZERO));
    sampler
}

/// Draws episodes one by one until no more can be drawn.
fn drain(sampler: &mut crate::Sampler, layout: EpisodeLayout) -> Vec<Episode> {
    let next = |_| match sampler.sample(1) {
        Ok(batch) => Some(episodes_of(&batch, layout)[0]),
        Err(SampleError::TimedOut { .. }) => None,
        Err(error) => panic!("{error}"),
    };
    (0..1_000).map_while(next).collect()
}

/// Returns how many rows of the lane come before an episode in the order of a selector.
fn rank(model: &Model, (lane, first, _): Episode, selector: &Selector) -> u64 {
    let lane = &model.lanes[lane];
    let oldest = lane.rows.saturating_sub(model.ring.lane_capacity()).max(lane.mark);
    if *selector == Selector::Lifo { lane.rows - first } else { first - oldest }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn ordered_and_claimed_episodes_are_those_of_a_plain_list(
        rounds in prop::collection::vec(prop::collection::vec((0..2_usize, op()), 1..40), 1..6),
        capacity in 12..60_u64,
        max_length in prop::option::of(1..6_u32),
        ragged in any::<bool>(),
    ) {
        let mut model = Model::new(capacity, 2);
        let of = if ragged { WholeEpisodes::ragged() } else { WholeEpisodes::padded() };
        let of = max_length.map_or(of, |most| of.max_length(most));
        let ordered = [Selector::Fifo, Selector::Lifo];
        let queue = Selector::Table(TableOptions::consume("queue"));
        let mut in_order = ordered.clone().map(|selector| sampler_of(&model, &selector, of));
        let mut queues = [(); 2].map(|()| sampler_of(&model, &queue, of));
        let mut epoch = sampler_of(&model, &Selector::Table(TableOptions::epoch("all")), of);
        let mut drawn_before = BTreeSet::new();
        for ops in rounds {
            for (lane, op) in ops {
                model.play(lane, op);
            }
            let most = max_length.map_or(u64::MAX, u64::from);
            let kept = model.kept().into_iter().filter(|(_, _, length)| *length <= most);
            let kept: BTreeSet<Episode> = kept.collect();
            for (sampler, selector) in in_order.iter_mut().zip(&ordered) {
                let drawn = match sampler.sample(kept.len().max(1)) {
                    Ok(batch) => episodes_of(&batch, of.layout),
                    Err(SampleError::Form(FormError::NoneComplete { .. })) => Vec::new(),
                    Err(error) => return Err(TestCaseError::fail(error.to_string())),
                };
                prop_assert!(drawn.is_sorted_by_key(|of| rank(&model, *of, selector)));
                prop_assert_eq!(drawn.len(), kept.len());
                prop_assert_eq!(drawn.into_iter().collect::<BTreeSet<_>>(), kept.clone());
                let more = sampler.sample(kept.len() + 1);
                let error = more.unwrap_err();
                let few = matches!(error, SampleError::TooFew { .. } | SampleError::Form(_));
                prop_assert!(few, "{}", error);
            }
            // Two samplers of one queue: each new episode goes to one of them, once.
            let mut drawn = drain(&mut queues[0], of.layout);
            drawn.extend(drain(&mut queues[1], of.layout));
            queues.swap(0, 1);
            for episode in drawn {
                prop_assert!(kept.contains(&episode), "{episode:?} of {kept:?}");
                prop_assert!(drawn_before.insert(episode), "{episode:?} twice");
            }
            prop_assert!(drawn_before.is_superset(&kept), "{drawn_before:?} of {kept:?}");
            if kept.is_empty() {
                let none = epoch.sample(1);
                let error = none.unwrap_err();
                let none = matches!(error, SampleError::Form(FormError::NoneComplete { .. }));
                prop_assert!(none, "{}", error);
                continue;
            }
            // The end of the pass that the last round began, and a whole one: no episode twice in
            // a pass.
            let batch = epoch.sample(2 * kept.len()).unwrap();
            let passes = episodes_of(&batch, of.layout);
            for episode in &passes {
                prop_assert!(kept.contains(episode));
                let times = passes.iter().filter(|other| *other == episode).count();
                prop_assert!(times <= 3, "{episode:?} {times} times");
            }
        }
    }
}

#[test]
fn an_epoch_draws_every_episode_once_a_pass_in_an_order_of_its_own() {
    let model = growing();
    let all: BTreeSet<Episode> = model.kept().into_iter().collect();
    for of in [WholeEpisodes::padded(), WholeEpisodes::ragged()] {
        let table = TableOptions::epoch(of.layout.as_str());
        let mut samplers = [(); 2].map(|()| {
            let selector = Selector::Table(table.clone());
            sampler_of(&model, &selector, of)
        });
        let mut orders = Vec::new();
        for _ in 0..3 {
            let parts = [10, 20].into_iter().zip(&mut samplers);
            let drawn = parts.map(|(count, sampler)| sampler.sample(count).unwrap());
            let drawn: Vec<_> = drawn.flat_map(|batch| episodes_of(&batch, of.layout)).collect();
            assert_eq!(drawn.iter().copied().collect::<BTreeSet<_>>(), all);
            orders.push(drawn);
        }
        assert!(orders[0] != orders[1] && orders[1] != orders[2], "passes are shuffled");
    }
}

#[test]
#[expect(clippy::cast_precision_loss, reason = "few draws")]
fn episodes_are_drawn_in_proportion_to_the_priorities_of_their_first_transitions() {
    let model = growing();
    let firsts: Vec<u64> = model.lanes[0].episodes.iter().map(|(first, ..)| *first).collect();
    for of in [WholeEpisodes::padded(), WholeEpisodes::ragged()] {
        let table = of.layout.as_str();
        let options = PriorityOptions::alpha(1.0).eps(0.0).beta(1.0).table(table);
        let selector = Selector::Priority(options.clone());
        let mut sampler = sampler_of(&model, &selector, of);
        let equal = sampler.sample(8).unwrap();
        assert!(
            equal
                .column::<f32>("weight")
                .unwrap()
                .iter()
                .all(|weight| weight.to_bits() == 1_f32.to_bits())
        );
        let index: Vec<RowIndex> = firsts.iter().map(|first| RowIndex::new(0, *first)).collect();
        let priorities: Vec<f64> = (0..30).map(|at| if at % 2 == 0 { 3.0 } else { 1.0 }).collect();
        assert_eq!(sampler.update_priorities(&index, &priorities).unwrap(), 0);
        // A handle with the stride of the form sets them too; a second transition is refused, and
        // no priority beside it is set.
        let stride = Form::Episodes(of).priority_stride();
        let mut handle = model.ring.priorities(&options.clone().stride(stride)).unwrap();
        let index = [RowIndex::new(0, firsts[9]), RowIndex::new(0, firsts[9] + 1)];
        let refused = handle.update(&index, &[100.0, 100.0]).unwrap_err();
        let inside = matches!(refused, PriorityError::InsideEpisode { position: 1, step: 1 });
        assert!(inside, "{refused}");
        assert!(model.ring.priorities(&options).is_err(), "single transitions need another table");
        let mut counts = BTreeMap::new();
        for _ in 0..60 {
            let batch = sampler.sample(50).unwrap();
            let weights = batch.column::<f32>("weight").unwrap();
            assert_eq!(weights.shape(), [50]);
            for ((_, first, _), weight) in episodes_of(&batch, of.layout).into_iter().zip(&weights)
            {
                let at = firsts.binary_search(&first).unwrap();
                let expected = if at % 2 == 0 { 1.0 / 3.0 } else { 1.0 };
                assert!((f64::from(*weight) - expected).abs() < 1e-6, "{weight} at {at}");
                // Three cells for an episode of priority 3.
                let cells = if at % 2 == 0 { 3 } else { 1 };
                *counts.entry((at, cells)).or_insert(0_u64) += 1;
            }
        }
        let draws: u64 = counts.values().sum();
        let cell = draws as f64 / 60.0;
        let found = counts.iter().map(|((_, cells), count)| {
            let expected = cell * f64::from(*cells);
            (*count as f64 - expected).powi(2) / expected
        });
        let found: f64 = found.sum();
        assert!(counts.len() == 30 && found < MOST, "{found} for {of:?}");
    }
}

#[test]
fn a_batch_that_waits_for_episodes_takes_them_when_they_end() {
    for of in [WholeEpisodes::padded(), WholeEpisodes::ragged()] {
        let mut model = Model::new(200, 1);
        let queue = Selector::Table(TableOptions::consume("queue"));
        let mut sampler = sampler_of(&model, &queue, of);
        model.play(0, Op::Step);
        model.play(0, Op::Step);
        let none = sampler.sample(2).unwrap_err();
        let waits = matches!(none, SampleError::TimedOut { selector: "consume", wanted: 2, .. });
        assert!(waits, "{none}");
        sampler.set_timeout(Some(Duration::from_secs(60)));
        let drawn = thread::scope(|scope| {
            let waiting = scope.spawn(|| sampler.sample(2).unwrap());
            for _ in 0..2 {
                model.play(0, Op::End { truncated: false });
                model.play(0, Op::Step);
            }
            waiting.join().unwrap()
        });
        assert_eq!(episodes_of(&drawn, of.layout), [(0, 0, 3), (0, 4, 2)]);
    }
}

#[test]
fn samplers_of_every_selector_continue_from_a_state() {
    let model = growing();
    let selectors = [
        Selector::Fifo,
        Selector::Lifo,
        Selector::Priority(PriorityOptions::alpha(0.5)),
        Selector::Table(TableOptions::epoch("epoch")),
        Selector::Table(TableOptions::consume("consume")),
    ];
    for selector in selectors {
        for of in [WholeEpisodes::padded(), WholeEpisodes::ragged()] {
            let mut sampler = sampler_of(&model, &selector, of);
            sampler.sample(3).unwrap();
            let state = sampler.state();
            let mut again = model.ring.sampler(state.clone()).unwrap();
            assert_eq!(again.state(), state);
            let (one, two) = (sampler.sample(4).unwrap(), again.sample(4).unwrap());
            let shared = matches!(selector, Selector::Table(_));
            // Samplers of one table take turns; others draw what the first would have drawn.
            assert_eq!(one.index() == two.index(), !shared, "{selector}");
        }
    }
}
