//! Splits: moves of prices that look like one, and columns that tell them.

use std::fmt::Write;

use backcast_market::{LoadWarning, PanelData, PanelOptions};

const SPLIT_ON: u32 = 15;

/// Loads a ticker whose prices are `factor` times as high from a day on, with further columns:
/// their numbers on that day and on the others.
fn loaded(factor: f64, wild: bool, columns: &[(&str, f64, f64)]) -> PanelData {
    let mut text = "date,tic,open,high,low,close,volume".to_owned();
    for (name, ..) in columns {
        write!(text, ",{name}").unwrap();
    }
    for day in 1..=28 {
        let scale = if day < SPLIT_ON { 1.0 } else { factor };
        let odd: f64 = if day % 2 == 0 { 1.0 } else { 1.01 };
        let odd = if wild { odd * odd.powi(30) } else { odd };
        let price = 100.0 * scale * odd;
        write!(text, "\n2024-01-{day:02},A,{price},{price},{price},{price},1").unwrap();
        for (_, on, others) in columns {
            write!(text, ",{}", if day == SPLIT_ON { on } else { others }).unwrap();
        }
    }
    PanelData::from_reader(text.as_bytes(), &PanelOptions::default()).unwrap()
}

#[test]
fn a_price_that_halves_overnight_is_warned_of_unless_a_column_of_splits_says_so() {
    for factor in [0.5, 0.1, 1.0 / 3.0, 2.0] {
        let silent: [&[(&str, f64, f64)]; 6] = [
            &[],
            &[("Split_Factor", 0.0, 0.0)],
            // 1 is no split, whether on every day or on this one.
            &[("Split_Factor", 1.0, 1.0)],
            &[("Split_Factor", 1.0, 0.0)],
            // A split that moves the price the other way.
            &[("Split_Factor", factor, 0.0)],
            &[("ratio", 1.0 / factor, 0.0)],
        ];
        for columns in silent {
            let warned = loaded(factor, false, columns).warnings();
            let [LoadWarning::UnadjustedSplit { ticker, date, ratio, count }] = &warned[..] else {
                panic!("{factor} {columns:?}: {warned:?}")
            };
            assert_eq!((ticker.as_str(), date.as_str(), *count), ("A", "2024-01-15", 1));
            assert!((ratio / factor - 1.0).abs() < 0.02, "{ratio}");
        }
        let told: [&[(&str, f64, f64)]; 3] = [
            &[("Split_Factor", 1.0 / factor, 0.0)],
            &[("Split_Factor", 1.0 / factor, 1.0)],
            &[("split_source", 1.0, 1.0), ("x", 0.0, 0.0), ("Stock Splits", 1.0 / factor, 0.0)],
        ];
        for columns in told {
            assert_eq!(loaded(factor, false, columns).warnings(), [], "{factor} {columns:?}");
        }
    }
    assert_eq!(loaded(0.8, false, &[]).warnings(), [], "no ratio of a split");
    assert_eq!(loaded(0.5, true, &[]).warnings(), [], "a third overnight is usual for this ticker");
}

#[test]
fn a_column_tells_the_splits_by_which_prices_move_and_those_by_which_they_do_not() {
    let columns =
        [("x", 2.0, 0.0), ("old split", 1.0, 1.0), ("SPLITS", 2.0, 0.0), ("split", 0.5, 0.0)];
    let panel = loaded(0.5, false, &columns).into_heap();
    let first = Some((0, 14));
    let told = |column| panel.told_splits(column, &[0], 0..28);
    for (column, moved, still) in
        [(5, first, None), (6, None, None), (7, first, None), (8, None, first)]
    {
        let found = told(column);
        assert_eq!((found.moved.first, found.still.first), (moved, still), "{column}");
        assert_eq!(found.moved.count, usize::from(moved.is_some()));
        assert_eq!(found.still.count, usize::from(still.is_some()));
    }
    // The first column that is named after splits and by which the price moves.
    let Some((7, bars)) = panel.splits_by_name(&[0], 0..28) else { panic!() };
    assert_eq!((bars.first, bars.count), (first, 1));
    assert_eq!(panel.splits_by_name(&[0], 14..28), None, "without the close before it");
    assert_eq!(panel.splits_by_name(&[], 0..28), None);
}

#[test]
fn told_splits_of_several_tickers_are_counted_and_the_earliest_is_named() {
    // Day, ratio in the column, and factor of the price on that day.
    type Split = (usize, f64, f64);
    let tickers: [(&str, &[Split]); 3] = [
        // The first row has no price before it.
        ("A", &[(0, 2.0, 1.0), (6, 2.0, 0.5), (9, 2.0, 1.0)]),
        // The price before is that of day 2, since B has no rows until day 6.
        ("B", &[(6, 3.0, 1.0 / 3.0)]),
        // The ratio of day 8 is too small to be told from a usual move.
        ("C", &[(2, 0.5, 2.0), (8, 1.4, 1.0 / 1.4), (10, 1.5, 1.0 / 1.5)]),
    ];
    let mut text = "date,tic,open,high,low,close,volume,splits".to_owned();
    for (name, splits) in tickers {
        let mut price = 100.0;
        for day in 0..12 {
            let on_day = splits.iter().find(|(on, ..)| *on == day);
            let (_, ratio, factor) = on_day.copied().unwrap_or((day, 0.0, 1.0));
            price *= factor;
            if name == "B" && (3..6).contains(&day) {
                continue;
            }
            let date = day + 1;
            write!(text, "\n2024-01-{date:02},{name},{price},{price},{price},{price},1,{ratio}")
                .unwrap();
        }
    }
    let panel =
        PanelData::from_reader(text.as_bytes(), &PanelOptions::default()).unwrap().into_heap();
    let all: [(&[usize], std::ops::Range<usize>, _, _); 7] = [
        (&[0, 1, 2], 0..12, (Some((2, 2)), 4), (Some((0, 9)), 1)),
        (&[0, 1], 0..12, (Some((0, 6)), 2), (Some((0, 9)), 1)),
        (&[1, 0], 0..12, (Some((1, 6)), 2), (Some((0, 9)), 1)),
        (&[2], 0..12, (Some((2, 2)), 2), (None, 0)),
        (&[2], 2..12, (Some((2, 10)), 1), (None, 0)),
        (&[1], 2..12, (Some((1, 6)), 1), (None, 0)),
        (&[1], 3..12, (None, 0), (None, 0)),
    ];
    for (tickers, days, moved, still) in all {
        let told = panel.told_splits(5, tickers, days.clone());
        let case = format!("{tickers:?} {days:?}");
        assert_eq!((told.moved.first, told.moved.count), moved, "{case}");
        assert_eq!((told.still.first, told.still.count), still, "{case}");
        let by_name =
            panel.splits_by_name(tickers, days).map(|(column, bars)| (column, bars.count));
        assert_eq!(by_name, (moved.1 > 0).then_some((5, moved.1)), "{case}");
    }
}
