//! Blocks whose rows go away after they were chosen: their items are rejected, and the mass is that
//! of the rows among which they were drawn.

use super::*;
use crate::{Boundary, GoalStrategy, Hindsight, SampleError, SamplerOptions, Sequence};

fn cases() -> Vec<SamplerOptions> {
    let plain = || SamplerOptions::seeded(5);
    vec![
        plain(),
        plain().priority(linear()),
        plain().history(2).future(1).boundary(Boundary::Reject),
        plain().priority(linear()).history(3).boundary(Boundary::Clamp),
        plain().sequence(Sequence::new(3).stride(2)),
    ]
}

/// Transitions of an episode that a case draws.
fn of_an_episode(case: usize) -> u64 {
    match case {
        2 => LENGTH - 2,
        4 => LENGTH.div_ceil(2),
        _ => LENGTH,
    }
}

#[test]
fn rows_that_go_away_after_the_draw_are_rejected_and_counted_in_the_mass() {
    for (number, case) in cases().into_iter().enumerate() {
        for point in [Point::Chosen, Point::Selected, Point::Copied, Point::Gathered] {
            let mut source = Source::heap(options(60)).filled(600);
            let ring = source.ring.clone();
            let mut sampler = ring.sampler(case.clone()).unwrap();
            let before = sampler.block(40).unwrap();
            assert_eq!(before.rejected(), 0);
            let made = change_at(&mut sampler, point, move || source.overwrite_half());
            let block = sampler.block(40).unwrap();
            assert!(made.is_made(), "{point:?}");
            // The cut is that of the block before: the change came after it.
            assert_eq!((&block.cut, block.count), (&before.cut, before.count), "{point:?}");
            assert_eq!(block.mass.to_bits(), before.mass.to_bits(), "{point:?}");
            let episodes = (before.cut[0].end - before.cut[0].start) / (LENGTH + 1);
            let expected = episodes * of_an_episode(number);
            assert!(block.count.abs_diff(expected) <= LENGTH, "{} of {expected}", block.count);
            // A lane has some slots more than rows that are readable.
            let is_kept = |seq: u64| seq + ring.slots() >= ring.lane_span(0).unwrap().end;
            let (index, rows) =
                (block.batch.index(), block.batch.column::<u64>("obs/row").unwrap());
            let is_before = point == Point::Gathered;
            assert!(is_before == (block.rejected() == 0), "{point:?}: {:?}", block.q);
            for (item, (index, q)) in index.iter().zip(&block.q).enumerate() {
                let first: Vec<u64> =
                    rows.index_axis(ndarray::Axis(0), item).iter().copied().collect();
                if *q > 0.0 {
                    assert!(is_before || is_kept(index.seq()), "{index:?} is gone");
                    assert!(first.contains(&index.seq()), "{first:?} of {index:?}");
                } else {
                    assert_eq!(*index, RowIndex::NONE);
                    assert!(first.iter().all(|word| *word == 0), "{first:?}");
                }
            }
        }
    }
}

#[test]
fn rows_that_are_dropped_after_the_draw_are_rejected() {
    for case in cases() {
        let mut source = Source::heap(options(60)).filled(100);
        let ring = source.ring.clone();
        let mut sampler = ring.sampler(case).unwrap();
        let cleared = ring.clone();
        let made = change_at(&mut sampler, Point::Chosen, move || {
            cleared.clear().unwrap();
        });
        let block = sampler.block(20).unwrap();
        assert!(made.is_made() && block.count > 0 && block.mass > 0.0);
        let kept = block.batch.index().into_iter().filter(|index| *index != RowIndex::NONE).count();
        assert_eq!(kept, 20 - block.rejected());
        let empty = sampler.block(20).unwrap();
        assert_eq!((empty.count, empty.mass.to_bits(), empty.rejected()), (0, 0, 20));
        assert_eq!(empty.q_min.to_bits(), 0, "no row has a smallest mass");
        source.append(3 * (LENGTH + 1));
        let again = sampler.block(20).unwrap();
        assert!(again.count > 0 && again.rejected() == 0);
    }
}

#[test]
fn the_limiter_counts_the_items_that_were_not_rejected() {
    let limits = crate::RateLimiter::min_size(10);
    let mut source = Source::heap(options(60).limiter(limits)).filled(600);
    let ring = source.ring.clone();
    let counted = || ring.limiter().unwrap().counts().samples;
    let mut sampler = ring.sampler(SamplerOptions::seeded(5)).unwrap();
    let inserts = ring.limiter().unwrap().counts().inserts;
    assert_eq!(sampler.block(30).unwrap().inserts, Some(inserts));
    assert_eq!((counted(), sampler.sampled()), (30, 30));
    let _made = change_at(&mut sampler, Point::Chosen, move || source.overwrite_half());
    let rejected = sampler.block(30).unwrap().rejected() as u64;
    assert!(rejected > 0);
    assert_eq!((counted(), sampler.sampled()), (60 - rejected, 60 - rejected));
    assert!(sampler.take_back(1));
    assert_eq!(counted(), 30);
}

#[test]
fn a_block_of_a_ring_that_overwrote_its_only_transition_waits_for_the_limiter() {
    let schema = Schema::builder().column("obs", DType::U8, &[]).build().unwrap();
    let limits = crate::RateLimiter::min_size(1);
    let ring = Ring::heap(&schema, RingOptions::with_capacity(2).limiter(limits)).unwrap();
    let mode = AutoresetMode::NextStep;
    let mut writer = ring.writer(WriterOptions::lanes(1).autoreset(mode)).unwrap();
    let mut append = |terminated: bool| {
        let columns = StepColumns::of(&schema).with("obs", &[0_u8]).unwrap();
        writer.append(&columns.step(&[terminated], &[false]).unwrap()).unwrap();
    };
    let mut sampler = ring.sampler(SamplerOptions::seeded(5)).unwrap();
    sampler.set_timeout(Some(std::time::Duration::ZERO));
    append(true);
    append(false);
    assert_eq!(sampler.block(8).unwrap().rejected(), 0);
    // The lane keeps the FINAL row and this one.
    append(false);
    for _ in 0..2 {
        let held = sampler.block(8).unwrap_err();
        assert!(matches!(held, SampleError::Limited(_)), "{held}");
        assert_eq!(ring.limiter().unwrap().counts().samples, 8);
    }
    ring.limiter().unwrap().set_enabled(false).unwrap();
    let empty = sampler.block(8).unwrap();
    assert_eq!((empty.count, empty.rejected()), (0, 8));
}

#[test]
fn samplers_that_relabel_goals_draw_no_blocks() {
    let source = Source::heap(options(60)).filled(100);
    let goals = Hindsight::new(GoalStrategy::Future).columns("obs/achieved", "obs/desired");
    let sampler = source.ring.sampler(SamplerOptions::seeded(5).hindsight(goals)).unwrap();
    let refused = sampler.rewards_by_caller().block(4).unwrap_err();
    assert!(matches!(refused, SampleError::NoBlocks { what: "hindsight" }), "{refused}");
}
