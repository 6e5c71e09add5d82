//! Compares windows with a simple model and with the golden cases.

use std::{fmt::Write, fs, path::PathBuf};

use backcast_market::{Panel, PanelData, PanelOptions, WindowError};
use proptest::prelude::*;
use serde_json::Value;

/// A panel of three tickers over `days` days; `holes` are pairs without a row.
fn panel(days: usize, holes: &[(usize, usize)]) -> Panel {
    let mut csv = "date,tic,open,high,low,close,volume,x,y\n".to_owned();
    for day in 0..days {
        let (month, of_month) = (1 + day / 28, 1 + day % 28);
        for ticker in 0..3 {
            let base = 1000 * (ticker + 1) + 10 * day;
            // Ticker 0 has no holes, so that no day is empty.
            if ticker == 0 || !holes.contains(&(ticker, day)) {
                writeln!(
                    csv,
                    "2024-{month:02}-{of_month:02},T{ticker},{},{},{},{},{},{},-{}",
                    base + 1,
                    base + 5,
                    base,
                    base + 2,
                    base + 4,
                    base + 6,
                    base + 7
                )
                .unwrap();
            }
        }
    }
    PanelData::from_reader(csv.as_bytes(), &PanelOptions::default()).unwrap().into_heap()
}

/// Returns one number of a window, by the simple model.
#[expect(clippy::cast_possible_truncation, reason = "windows are 32-bit")]
fn expected(panel: &Panel, token: i64, day: i64, offset: i64, column: usize) -> (bool, f32) {
    let value = (|| {
        let ticker = usize::try_from(token - 1).ok()?;
        panel.value(ticker, usize::try_from(day + offset).ok()?, column)
    })();
    let known = offset != 0 || column == 0;
    (value.is_some(), value.filter(|_| known).unwrap_or_default() as f32)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(backcast_budget::cases(2_000)))]

    #[test]
    fn windows_agree_with_a_naive_model(
        days in 1..140_usize,
        holes in prop::collection::vec((1..3_usize, 0..140_usize), 0..60),
        samples in prop::collection::vec(
            (any::<prop::sample::Index>(), prop::array::uniform4(0..4_i64)),
            0..6,
        ),
        t in 0..5_usize,
        history in prop_oneof![0..4_usize, 0..80_usize],
        future in prop_oneof![0..4_usize, 0..80_usize],
    ) {
        let panel = panel(days, &holes);
        let day_of = |day: &prop::sample::Index| i64::try_from(day.index(days)).unwrap();
        let at: Vec<i64> = samples.iter().map(|(day, _)| day_of(day)).collect();
        // A ticker without rows is not in the panel and has no token.
        let known = i64::try_from(panel.tickers().len()).unwrap();
        let tokens: Vec<i64> = samples
            .iter()
            .flat_map(|(_, tokens)| tokens[..t.min(4)].iter().map(|&token| token.min(known)))
            .collect();
        let t = t.min(4);
        let plan = panel.window_shape(at.len(), t, history, future).unwrap();
        prop_assert_eq!(plan.arena_shape(), [at.len(), t, history + 1 + future, 7]);
        // Numbers of an earlier use must be overwritten.
        let (mut arena, mut mask) = (vec![f32::NAN; plan.arena_len()], vec![true; plan.mask_len()]);
        panel.windows_into(&at, &tokens, t, history, future, &mut arena, &mut mask).unwrap();

        let (mut arena, mut mask) = (arena.into_iter(), mask.into_iter());
        for (sample, &day) in at.iter().enumerate() {
            for &token in &tokens[sample * t..(sample + 1) * t] {
                for offset in 0..plan.window() {
                    let offset = i64::try_from(offset).unwrap() - i64::try_from(history).unwrap();
                    prop_assert_eq!(mask.next(), Some(expected(&panel, token, day, offset, 0).0));
                    for column in 0..7 {
                        let (_, value) = expected(&panel, token, day, offset, column);
                        prop_assert_eq!(arena.next(), Some(value), "{} {} {}", day, offset, column);
                    }
                }
            }
        }
    }
}

#[test]
fn every_refusal_names_the_position_and_the_limit_and_writes_nothing() {
    let panel = panel(10, &[]);
    let bad_day = |position, day| WindowError::BadDay { position, day, last: 9 };
    let bad_token = |position, token| WindowError::BadToken { position, token, last: 3 };
    let bad_length = |what, shape: &[usize], expected, found| {
        let shape = shape.to_vec();
        WindowError::BadLength { what, shape, expected, found }
    };
    for (days, tokens, t, arena_len, mask_len, expected) in [
        (&[0, 10][..], &[1, 1][..], 1, 42, 6, bad_day(1, 10)),
        (&[-1], &[1], 1, 21, 3, bad_day(0, -1)),
        (&[i64::MIN], &[1], 1, 21, 3, bad_day(0, i64::MIN)),
        (&[0], &[0, 4], 2, 42, 6, bad_token(1, 4)),
        (&[0], &[-1], 1, 21, 3, bad_token(0, -1)),
        (&[0], &[1, 2], 1, 21, 3, bad_length("tokens", &[1, 1], 1, 2)),
        (&[0], &[1], 1, 20, 3, bad_length("arena", &[1, 1, 3, 7], 21, 20)),
        (&[0], &[1], 1, 21, 2, bad_length("mask", &[1, 1, 3], 3, 2)),
    ] {
        let (mut arena, mut mask) = (vec![7.0; arena_len], vec![true; mask_len]);
        let error = panel.windows_into(days, tokens, t, 1, 1, &mut arena, &mut mask).unwrap_err();
        assert_eq!(error, expected);
        assert!(arena.iter().all(|&value| value.to_bits() == 7.0_f32.to_bits()));
        assert!(mask.iter().all(|&listed| listed));
    }
    for (batch, tokens) in [(usize::MAX, 2), (2, usize::MAX / 9)] {
        let error = panel.window_shape(batch, tokens, 1, 1).unwrap_err();
        assert!(matches!(error, WindowError::TooLarge { columns: 7, .. }), "{error}");
    }
    let limit = panel.longest_window();
    panel.window_shape(1, 1, limit, limit).unwrap();
    for (batch, history, future) in [(1, limit + 1, 0), (0, 0, limit + 1), (1, 1, usize::MAX)] {
        let error = panel.window_shape(batch, 1, history, future).unwrap_err();
        assert!(matches!(error, WindowError::TooLong { .. }), "{error}");
    }
}

/// Compares every window of the golden cases, except the rows that the oracle invented (`gaps`).
#[test]
fn windows_agree_with_the_golden_cases() {
    let mut compared = 0;
    for case in ["s1_basic", "s2_gaps", "s3_crash", "s4_cash"] {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/golden");
        let text = fs::read_to_string(folder.join(format!("{case}.json"))).unwrap();
        let golden: Value = serde_json::from_str(&text).unwrap();
        let macros = golden["config"]["macro_tickers"].as_array().unwrap();
        let options =
            PanelOptions::default().macro_tickers(macros.iter().map(|m| m.as_str().unwrap()));
        let panel =
            PanelData::from_csv(folder.join(format!("{case}.csv")), &options).unwrap().into_heap();
        let gaps = golden["gaps"].as_array().unwrap();
        for window in golden["windows"].as_array().unwrap() {
            compared += golden_window(&panel, window, gaps);
        }
    }
    assert_eq!(compared, 161, "all rows but the 7 in gaps");
}

fn golden_window(panel: &Panel, window: &Value, gaps: &[Value]) -> usize {
    let number = |value: &Value| value.as_i64().unwrap();
    let size = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
    let (day, history, future) =
        (number(&window["day"]), size(&window["h"]), size(&window["future"]));
    let names: Vec<&str> =
        window["indicator_names"].as_array().unwrap().iter().map(|n| n.as_str().unwrap()).collect();
    let indicator = |name: &str| panel.columns().iter().position(|column| column == name).unwrap();
    let mut compared = 0;
    for (ticker, expected) in window["tickers"].as_object().unwrap() {
        let token = i64::from(panel.token(ticker).unwrap());
        let plan = panel.window_shape(1, 1, history, future).unwrap();
        let (mut arena, mut mask) = (vec![0.0; plan.arena_len()], vec![false; plan.mask_len()]);
        panel.windows_into(&[day], &[token], 1, history, future, &mut arena, &mut mask).unwrap();
        let columns = panel.columns().len();
        for (half, first, len) in [("past", 0, history), ("future", history + 1, future)] {
            for at in 0..len {
                let row = &arena[(first + at) * columns..(first + at + 1) * columns];
                let oracle_day = number(&expected[format!("{half}_days")][at]);
                if gaps.contains(&serde_json::json!([ticker, oracle_day])) {
                    assert!(!mask[first + at] && row.iter().all(|&value| value == 0.0));
                    continue;
                }
                let context = format!("{ticker} day {day} {half} {at}");
                let listed = number(&expected[format!("{half}_mask")][at]) == 1;
                assert_eq!(mask[first + at], listed, "{context}");
                for (column, value) in row[..5].iter().enumerate() {
                    assert_single(*value, &expected[format!("{half}_ohlcv")][at][column], &context);
                }
                for (position, name) in names.iter().enumerate() {
                    let value = &expected[format!("{half}_indicators")][at][position];
                    assert_single(row[indicator(name)], value, &context);
                }
                compared += 1;
            }
        }
        if !gaps.contains(&serde_json::json!([ticker, day])) {
            assert_eq!(mask[history], number(&expected["current_mask"]) == 1);
            assert_single(arena[history * columns], &expected["current_open"], ticker);
        }
    }
    compared
}

#[expect(clippy::cast_possible_truncation, reason = "windows are 32-bit")]
fn assert_single(found: f32, expected: &Value, context: &str) {
    let expected = expected.as_f64().unwrap() as f32;
    assert_eq!(found.to_bits(), expected.to_bits(), "{context}: {found} is not {expected}");
}
