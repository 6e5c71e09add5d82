//! The ends of episodes, lanes and memory, where other replay buffers have had bugs.

use backcast_core::{Boundary, SampleError, SamplerOptions};

use crate::sampling::{Actor, End, bools, floats, ring};

#[test]
fn a_truncated_transition_is_followed_by_its_own_final_observation() {
    let ring = ring(100);
    let mut actor = Actor::of(&ring);
    actor.episode(3, End::Truncated);
    actor.episode(2, End::Open);
    let mut sampler = ring.sampler(SamplerOptions::seeded(1)).unwrap();
    let batch = sampler.gather(&[2]).unwrap();
    assert_eq!(floats(&batch, "obs"), [3.0]);
    assert_eq!(floats(&batch, "next_obs"), [4.0], "and not 5, the first of the next episode");
    assert_eq!(
        (bools(&batch, "terminated"), bools(&batch, "truncated")),
        (vec![false], vec![true])
    );
}

#[test]
fn a_ring_that_is_not_full_shows_nothing_that_was_never_written() {
    let ring = ring(1_000);
    let mut actor = Actor::of(&ring);
    actor.episode(3, End::Open);
    for boundary in [Boundary::Mask, Boundary::Clamp] {
        let options = SamplerOptions::seeded(1).history(4).future(4).boundary(boundary);
        let batch = ring.sampler(options).unwrap().sample(200).unwrap();
        assert!(batch.index().iter().all(|index| index.seq() < 2));
        let written = [0.0, 1.0, 2.0, 3.0];
        for key in ["obs", "next_obs", "future/obs", "future/next_obs"] {
            let values = floats(&batch, key);
            assert!(values.iter().all(|value| written.contains(value)), "{key}: {values:?}");
            let zeros = values.contains(&0.0);
            assert_eq!(zeros, boundary == Boundary::Mask, "{key}, {boundary}");
        }
    }
}

#[test]
fn windows_are_consecutive_rows_of_one_episode_after_every_wrap() {
    let ring = ring(50);
    let mut actor = Actor::of(&ring);
    let options = SamplerOptions::seeded(3).history(4).future(3).boundary(Boundary::Reject);
    let mut sampler = ring.sampler(options).unwrap();
    for steps in [30, 9, 25, 7, 12, 48, 20, 31] {
        actor.episode(steps, End::Terminated);
        let batch = sampler.sample(100).unwrap();
        let (past, future) = (floats(&batch, "obs"), floats(&batch, "future/obs"));
        for ((past, future), mask) in
            past.chunks(4).zip(future.chunks(3)).zip(bools(&batch, "mask").chunks(4))
        {
            let whole: Vec<f64> = past.iter().chain(future).copied().collect();
            let counted: Vec<f64> =
                whole.iter().zip([0., 1., 2., 3., 4., 5., 6.]).map(|(_, n)| whole[0] + n).collect();
            assert_eq!(whole, counted);
            assert_eq!(mask, [true; 4]);
        }
        assert!(!bools(&batch, "terminated").iter().any(|ended| *ended), "an end has no future");
    }
}

#[test]
fn drawing_goes_on_when_the_ring_is_exactly_full() {
    let ring = ring(8);
    let mut actor = Actor::of(&ring);
    let mut sampler = ring.sampler(SamplerOptions::seeded(1).history(2)).unwrap();
    for step in 1..30_u64 {
        actor.step(End::Open);
        match sampler.sample(64) {
            Ok(batch) => {
                let newest = step - 2;
                let oldest = step.saturating_sub(8);
                let mut drawn = batch.index();
                drawn.sort_unstable();
                drawn.dedup();
                let expected: Vec<i64> =
                    (oldest..=newest).map(|row| i64::try_from(row).unwrap()).collect();
                assert_eq!(drawn, expected, "after {step} rows");
            }
            Err(error) => assert!(step < 2, "{error}"),
        }
    }
}

#[test]
fn frame_stacks_repeat_the_first_and_the_last_observation_of_an_episode() {
    let ring = ring(100);
    let mut actor = Actor::of(&ring);
    actor.episode(3, End::Terminated); // observations 1 2 3, final 4
    actor.episode(3, End::Open); // 5 6 7, of which 7 has no successor yet
    for copy in [false, true] {
        let options = SamplerOptions::seeded(1).history(3).future(3).boundary(Boundary::Clamp);
        let mut sampler = ring.sampler(options.copy(copy)).unwrap();
        let batch = sampler.gather(&[0, 2, 4]).unwrap();
        assert_eq!(floats(&batch, "obs"), [1., 1., 1., 1., 2., 3., 5., 5., 5.]);
        assert_eq!(floats(&batch, "next_obs"), [1., 1., 2., 2., 3., 4., 5., 5., 6.]);
        assert_eq!(floats(&batch, "future/obs"), [2., 3., 4., 4., 4., 4., 6., 7., 7.]);
        assert_eq!(floats(&batch, "future/next_obs"), [3., 4., 4., 4., 4., 4., 7., 7., 7.]);
        assert_eq!(floats(&batch, "reward"), [0., 0., 0.1, 0.1, 0.2, 0.3, 0., 0., 0.5]);
        let (yes, no) = (true, false);
        assert_eq!(bools(&batch, "mask"), [no, no, yes, yes, yes, yes, no, no, yes]);
        assert_eq!(bools(&batch, "future_mask"), [yes, yes, no, no, no, no, yes, no, no]);
    }
}

#[test]
fn windows_longer_than_every_episode_are_refused_with_the_length_there_is() {
    let ring = ring(40_000);
    let mut actor = Actor::of(&ring);
    let options = SamplerOptions::seeded(1).history(6).future(2).boundary(Boundary::Reject);
    let mut sampler = ring.sampler(options).unwrap();
    assert!(matches!(sampler.sample(1), Err(SampleError::Empty { rows: 0 })));
    (0..5_000).for_each(|_| actor.episode(7, End::Terminated));
    let refused = sampler.sample(1).unwrap_err();
    let SampleError::NoWindow { needed: 8, longest: 7, .. } = refused else { panic!("{refused}") };
    // Exactly one of 40,000 rows has a whole window.
    actor.episode(8, End::Terminated);
    assert_eq!(sampler.sample(50).unwrap().index(), [40_005; 50]);
    let cut = sampler.gather(&[40_004]).unwrap_err();
    assert!(matches!(cut, SampleError::BadIndex { index: 40_004, .. }), "{cut}");
}

#[test]
fn a_boundary_is_one_of_three_words() {
    for boundary in [Boundary::Mask, Boundary::Reject, Boundary::Clamp] {
        assert_eq!(boundary.as_str().parse(), Ok(boundary));
    }
    let refused = "masked".parse::<Boundary>().unwrap_err().to_string();
    for word in ["`masked`", "\"mask\"", "\"reject\"", "\"clamp\""] {
        assert!(refused.contains(word), "{refused} lacks {word}");
    }
}
