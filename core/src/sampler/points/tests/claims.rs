//! Rows that a sampler claimed, and that go away before they are copied.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use super::*;
use crate::{Rollout, SampleError, SamplerOptions, Selector, TableOptions};

fn queue() -> SamplerOptions {
    SamplerOptions::seeded(5).selector(Selector::Table(TableOptions::consume("queue")))
}

#[test]
fn rows_that_are_overwritten_after_their_claim_are_replaced_and_none_comes_twice() {
    for point in POINTS {
        for change in [Source::overwrite_all as fn(&mut Source), Source::overwrite_half] {
            let mut source = Source::heap(options(60)).filled(400);
            let ring = source.ring.clone();
            let mut samplers = [(); 2].map(|()| ring.sampler(queue()).unwrap());
            for sampler in &mut samplers {
                sampler.set_timeout(Some(Duration::ZERO));
            }
            let made = change_at(&mut samplers[0], point, move || change(&mut source));
            let mut seen = BTreeSet::new();
            for turn in 0..1_000 {
                match samplers[turn % 2].sample(1) {
                    Ok(batch) => {
                        for row in check(&batch) {
                            assert!(seen.insert(row), "row {row} was drawn twice");
                        }
                    }
                    Err(SampleError::TimedOut { .. }) => break,
                    Err(error) => panic!("{error} at {point:?}"),
                }
            }
            assert!(made.is_made(), "{point:?}");
            // Every transition that the ring holds was drawn.
            let rows = ring.lane_span(0).unwrap();
            let held = (rows.start..rows.end - 1).filter(|row| step(*row) < LENGTH);
            let missing: Vec<u64> = held.filter(|row| !seen.contains(row)).collect();
            assert_eq!(missing, [], "{point:?}");
            let drawn: u64 = samplers.iter().map(Sampler::sampled).sum();
            assert_eq!(drawn, seen.len() as u64, "{point:?}");
            let table = ring.table(&TableOptions::consume("queue")).unwrap();
            assert_eq!(table.info().drawn, drawn, "{point:?}");
        }
    }
}

#[test]
fn a_batch_that_lost_its_claimed_rows_takes_later_ones() {
    for point in [Point::Chosen, Point::Selected, Point::Copied] {
        let mut source = Source::heap(options(60)).filled(30);
        let ring = source.ring.clone();
        let mut sampler = ring.sampler(queue()).unwrap();
        sampler.set_timeout(Some(Duration::ZERO));
        let made = change_at(&mut sampler, point, move || source.overwrite_all());
        let rows = check(&sampler.sample(20).unwrap());
        assert!(made.is_made() && sampler.lapped() > 0);
        let readable = ring.lane_span(0).unwrap();
        assert!(rows.iter().all(|row| readable.contains(row)), "{rows:?}");
        assert_eq!(rows.iter().collect::<BTreeSet<_>>().len(), 20, "{rows:?}");
    }
}

#[test]
fn transitions_of_rollouts_that_are_overwritten_after_their_claim_are_counted() {
    for point in [Point::Chosen, Point::Selected, Point::Copied] {
        let mut source = Source::heap(options(60)).filled(30);
        let ring = source.ring.clone();
        let mut sampler = ring.sampler(queue().rollout(Rollout::new(4))).unwrap();
        sampler.set_timeout(Some(Duration::ZERO));
        let made = change_at(&mut sampler, point, move || source.overwrite_all());
        while let Ok(block) = sampler.sample_new(None) {
            let index = block.column::<i64>("index").unwrap();
            let rows = block.column::<u64>("obs/row").unwrap();
            for at in (0..4).flat_map(|step| (0..index.shape()[1]).map(move |lane| [step, lane])) {
                let row = RowIndex(index[at]);
                let shown = [0, 1, 2, 3].map(|word| rows[[at[0], at[1], word]]);
                assert!(row == RowIndex::NONE || shown == obs(row.seq()), "{row} at {point:?}");
            }
        }
        assert!(made.is_made(), "{point:?}");
        // The 6 columns of the first claim are lost, and nothing else.
        assert_eq!(sampler.lapped(), 24, "{point:?}");
        assert_eq!(ring.readers()[0].lapped, 24, "{point:?}");
        let drawn = ring.table(&TableOptions::consume("queue")).unwrap().info().drawn;
        assert_eq!(drawn, sampler.sampled(), "{point:?}");
    }
}

#[test]
fn two_samplers_that_claim_between_each_others_steps_share_no_row() {
    for point in POINTS {
        let source = Source::heap(options(60)).filled(400);
        let [mut one, mut other] = [(); 2].map(|()| source.ring.sampler(queue()).unwrap());
        let rows = Arc::new(Mutex::new(Vec::new()));
        let theirs = Arc::clone(&rows);
        let made = change_at(&mut one, point, move || {
            *theirs.lock().unwrap() = check(&other.sample(20).unwrap());
        });
        let mut all = check(&one.sample(20).unwrap());
        assert!(made.is_made());
        all.extend(rows.lock().unwrap().drain(..));
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 40, "{point:?}");
    }
}
