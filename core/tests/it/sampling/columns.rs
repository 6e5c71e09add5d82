//! Compares windows by column, and discounts of a column, with batches that have one window for all
//! columns.

use backcast_core::ColumnWindow::{Drawn, First, History};
use backcast_core::{
    AutoresetMode, Batch, Boundary, ColumnWindows, DType, Ring, RingOptions, SampleError,
    SamplerOptions, Schema, StepColumns, WriterOptions,
};

use crate::sampling::{bools, floats};

/// Returns a ring with episodes of one to eleven steps in two lanes, which have wrapped. All
/// numbers in it differ.
fn ring() -> Ring {
    let schema = Schema::builder()
        .column("obs/a", DType::F64, &[])
        .column("obs/b", DType::F64, &[2])
        .column("reward", DType::F64, &[])
        .column("discount", DType::F32, &[])
        .column("lstm", DType::F64, &[300])
        .build()
        .unwrap();
    let ring = Ring::heap(&schema, RingOptions::with_capacity(200).lanes(2)).unwrap();
    let options = WriterOptions::lanes(2).autoreset(AutoresetMode::NextStep);
    let mut writer = ring.writer(options).unwrap();
    for step in 0..400_u32 {
        let number = |lane: u32, at: u32| f64::from(step * 1_000 + lane * 400_000 + at);
        let numbers = |len: u32| -> Vec<f64> {
            (0..2).flat_map(|lane| (0..len).map(move |at| number(lane, at))).collect()
        };
        let discounts = [0.5_f32, 0.25].map(|discount| discount + f32::from(step % 3 == 0) * 0.125);
        let (a, b, reward, lstm) = (numbers(1), numbers(2), numbers(1), numbers(300));
        let columns = StepColumns::of(&schema)
            .with("obs/a", &a)
            .and_then(|columns| columns.with("obs/b", &b))
            .and_then(|columns| columns.with("reward", &reward))
            .and_then(|columns| columns.with("discount", &discounts))
            .and_then(|columns| columns.with("lstm", &lstm))
            .unwrap();
        let ends = [step % 12 == step / 12 % 12, step % 7 == 6];
        writer.append(&columns.step(&ends, &[false; 2]).unwrap()).unwrap();
    }
    ring
}

/// Returns a column as items of places of `width` numbers.
fn places(batch: &Batch, key: &str, width: usize) -> Vec<Vec<Vec<f64>>> {
    let all = floats(batch, key);
    let items = all.chunks_exact(all.len() / batch.len());
    items.map(|item| item.chunks_exact(width).map(<[f64]>::to_vec).collect()).collect()
}

/// Returns the last `h` places of each item.
fn last(items: Vec<Vec<Vec<f64>>>, h: usize) -> Vec<Vec<Vec<f64>>> {
    items.into_iter().map(|item| item[item.len() - h..].to_vec()).collect()
}

#[test]
fn windows_by_column_are_parts_of_the_longest_one() {
    let ring = ring();
    let columns = ColumnWindows::default()
        .column("obs/a", History(9))
        .column("obs/b", History(3))
        .column("reward", Drawn)
        .column("lstm", First)
        .column("terminated", History(9));
    let seeded = SamplerOptions::seeded(5);
    for options in [
        seeded.clone(),
        seeded.clone().copy(true),
        seeded.clone().future(2),
        seeded.clone().boundary(Boundary::Reject),
        seeded.clone().boundary(Boundary::Clamp),
        seeded.clone().n_step(3).gamma(0.5),
    ] {
        let mut by_column = ring.sampler(options.clone().columns(columns.clone())).unwrap();
        // Masked places are zero only in independent arrays.
        let mut whole = ring.sampler(options.clone().history(9).copy(true)).unwrap();
        let (mut found, mut expected) =
            (by_column.sample(300).unwrap(), whole.sample(300).unwrap());
        for gathered in [false, true] {
            if gathered {
                let index = found.index();
                (found, expected) =
                    (by_column.gather(&index).unwrap(), whole.gather(&index).unwrap());
            }
            assert_eq!(found.index(), expected.index());
            let mask = bools(&expected, "mask");
            assert_eq!(bools(&found, "mask"), mask);
            assert_eq!(bools(&found, "terminated"), bools(&expected, "terminated"));
            let masks = mask.chunks_exact(9);
            let starts = masks.clone().map(|mask| mask.iter().position(|there| *there).unwrap());
            let lstm = places(&expected, "lstm", 300).into_iter().zip(starts);
            let lstm: Vec<_> = lstm.map(|(item, start)| vec![item[start].clone()]).collect();
            assert_eq!(places(&found, "lstm", 300), lstm, "{options:?}");
            for (key, width, h) in
                [("obs/a", 1, 9), ("obs/b", 2, 3), ("next_obs/a", 1, 9), ("next_obs/b", 2, 3)]
            {
                let expected = last(places(&expected, key, width), h);
                let found = places(&found, key, width);
                for ((found, expected), mask) in found.iter().zip(&expected).zip(masks.clone()) {
                    for (at, there) in mask[9 - h..].iter().enumerate() {
                        // Overlapping views show a neighbour's row in some masked places.
                        let shown = *there || options == seeded.clone().copy(true);
                        assert!(!shown || found[at] == expected[at], "{key}, {options:?}");
                    }
                }
            }
            let rewards = last(places(&expected, "reward", 1), 1).concat().concat();
            assert_eq!(floats(&found, "reward"), rewards);
            for key in ["future/obs/b", "future/reward", "n_reward", "n_discount", "n_next_obs/a"] {
                let there = expected.keys().any(|known| known == key);
                assert_eq!(found.keys().any(|known| known == key), there, "{key}");
            }
            for key in ["discount", "truncated", "next_lstm", "future/lstm"] {
                assert!(found.keys().all(|known| known != key), "{key} was not asked for");
            }
            if options == seeded.clone().n_step(3).gamma(0.5) {
                for key in ["n_reward", "n_discount", "n_next_obs/b"] {
                    assert_eq!(floats(&found, key), floats(&expected, key), "{key}");
                }
            }
        }
    }
}

#[test]
fn a_state_carries_windows_by_column() {
    let ring = ring();
    let columns = ColumnWindows::default().column("obs", History(4)).rest(First);
    let spec = SamplerOptions::seeded(9).n_step(2).discount_column().columns(columns);
    let mut sampler = ring.sampler(spec).unwrap();
    sampler.sample(20).unwrap();
    let mut again = ring.sampler(sampler.state()).unwrap();
    assert_eq!(again.state(), sampler.state());
    let (found, expected) = (again.sample(20).unwrap(), sampler.sample(20).unwrap());
    assert_eq!(found.index(), expected.index());
    assert!(found.keys().eq(expected.keys()));
    for key in ["obs/a", "lstm", "n_reward"] {
        assert_eq!(floats(&found, key), floats(&expected, key));
    }
}

#[test]
fn returns_are_discounted_by_a_column() {
    let ring = ring();
    let options = SamplerOptions::seeded(3).n_step(4).discount_column().future(3);
    let mut sampler = ring.sampler(options).unwrap();
    let batch = sampler.sample(400).unwrap();
    let discounts = |key: &str| -> Vec<f64> {
        batch.column::<f32>(key).unwrap().iter().copied().map(f64::from).collect()
    };
    let (now, after) = (discounts("discount"), discounts("future/discount"));
    let (reward, rewards) = (floats(&batch, "reward"), floats(&batch, "future/reward"));
    let (ended, ends) = (bools(&batch, "terminated"), bools(&batch, "future/terminated"));
    let mask = bools(&batch, "future_mask");
    let (sums, products) = (floats(&batch, "n_reward"), floats(&batch, "n_discount"));
    let mut cut = 0;
    for item in 0..batch.len() {
        let (mut sum, mut product, mut done) = (reward[item], now[item], ended[item]);
        for at in (3 * item..3 * item + 3).take_while(|at| mask[*at]) {
            sum += product * rewards[at];
            product *= after[at];
            done = ends[at];
        }
        cut += usize::from(done);
        assert!((sums[item] - sum).abs() <= 1e-9 * sum.abs(), "{} and {sum}", sums[item]);
        let product = if done { 0.0 } else { product };
        assert!((products[item] - product).abs() < 1e-12, "{} and {product}", products[item]);
    }
    assert!((20..380).contains(&cut), "{cut} returns end with an episode");
}

#[test]
fn windows_by_column_that_cannot_be_are_refused() {
    type IsRight = fn(&SampleError) -> bool;
    let ring = ring();
    let refused = |columns: ColumnWindows| {
        ring.sampler(SamplerOptions::seeded(1).columns(columns)).unwrap_err()
    };
    let none = ColumnWindows::default();
    let cases: [(ColumnWindows, IsRight); 4] = [
        (
            none.clone().column("obs/c", Drawn),
            |error| matches!(error, SampleError::UnknownColumn { name, .. } if name == "obs/c"),
        ),
        (none.clone(), |error| matches!(error, SampleError::NoColumns)),
        (none.clone().column("obs", History(0)).rest(History(5)), |error| {
            matches!(error, SampleError::EmptyWindow { what: "history" })
        }),
        (none.clone().column("obs", History(100)), |error| {
            matches!(error, SampleError::BadWindow { history: 100, .. })
        }),
    ];
    for (columns, is_right) in cases {
        let error = refused(columns);
        assert!(is_right(&error), "{error:?}");
    }
    let twice = SamplerOptions::seeded(1).history(3).columns(none.rest(Drawn));
    let refused = ring.sampler(twice).unwrap_err();
    assert!(matches!(refused, SampleError::HistoryTwice { history: 3 }), "{refused}");
    for (options, gamma, n_step) in [
        (SamplerOptions::seeded(1).discount_column(), None, None),
        (SamplerOptions::seeded(1).n_step(2).gamma(0.5).discount_column(), Some(0.5), Some(2)),
    ] {
        let error = ring.sampler(options).unwrap_err();
        let SampleError::BadGamma { gamma: given, discounts: true, n_step: n } = error else {
            panic!("{error}")
        };
        assert_eq!((given, n), (gamma, n_step));
    }
}
