//! Panels of bars: instants of every form, and what is refused.

use std::{fmt::Write, sync::Arc};

use arrow_array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray,
    Time32SecondArray, Time64MicrosecondArray, TimestampMicrosecondArray,
    TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray,
};
use backcast_core::{Base, Exist};
use backcast_market::{
    Calendar, DerivedColumn, EpochUnit, LoadWarning, Panel, PanelData, PanelError, PanelLoadError,
    PanelOptions, RowPlace, TimeProblem,
};
use proptest::prelude::*;

/// 2024-01-02T14:30:00Z.
const OPENING: i64 = 1_704_205_800;
const MINUTE: i64 = 60;

fn options() -> PanelOptions {
    use DerivedColumn::{High, Low, Open, Volume};
    PanelOptions::default().ticker("BTC").derive([Open, High, Low, Volume])
}

fn load(columns: Vec<(&str, ArrayRef)>, options: &PanelOptions) -> Result<Panel, PanelError> {
    let rows = columns[0].1.len();
    let closes: Vec<f64> = (100_u32..).take(rows).map(f64::from).collect();
    let close: ArrayRef = Arc::new(Float64Array::from(closes));
    let batch = RecordBatch::try_from_iter(columns.into_iter().chain([("close", close)])).unwrap();
    let schema = batch.schema();
    Ok(PanelData::from_batches(RecordBatchIterator::new([Ok(batch)], schema), options)?.into_heap())
}

fn problem(columns: Vec<(&str, ArrayRef)>, options: &PanelOptions) -> PanelLoadError {
    match load(columns, options) {
        Err(PanelError::Load { problem, .. }) => *problem,
        other => panic!("{other:?}"),
    }
}

fn csv(text: &str, options: &PanelOptions) -> Result<Panel, PanelError> {
    Ok(PanelData::from_reader(text.as_bytes(), options)?.into_heap())
}

fn texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(texts))
}

#[test]
fn every_form_of_an_instant_gives_the_same_panel() {
    let seconds: Vec<i64> = (0..3).map(|bar| OPENING + bar * MINUTE).collect();
    let times = |factor: i64| seconds.iter().map(|second| second * factor).collect::<Vec<_>>();
    let utc = |zone: &str| options().zone(zone);
    let unit = |unit| options().unit(unit);
    let new_york = "America/New_York";
    let written = ["2024-01-02T14:30:00Z", "2024-01-02 09:31:00-05:00", "2024-01-02T14:32Z"];
    let local = ["2024-01-02 09:30", "2024-01-02T09:31:00", "2024-01-02 09:32:00.000"];
    let forms: Vec<(Vec<(&str, ArrayRef)>, PanelOptions)> = vec![
        (vec![("timestamp", texts(written))], options()),
        (vec![("timestamp", texts(local))], utc(new_york)),
        (vec![("timestamp", texts(local))], utc("-05:00")),
        (
            vec![("date", texts(["20240102"; 3])), ("time", texts(["09:30", "09:31", "09:32:00"]))],
            utc(new_york),
        ),
        (
            vec![
                ("date", texts(["2024-01-02"; 3])),
                ("time", Arc::new(Time32SecondArray::from(vec![34_200, 34_260, 34_320]))),
            ],
            utc(new_york),
        ),
        (
            vec![
                ("date", Arc::new(Int64Array::from(vec![20_240_102; 3]))),
                (
                    "time",
                    Arc::new(Time64MicrosecondArray::from(vec![
                        34_200_000_000,
                        34_260_000_000,
                        34_320_000_000,
                    ])),
                ),
            ],
            utc(new_york),
        ),
        (vec![("timestamp", Arc::new(Int64Array::from(times(1))))], unit(EpochUnit::Seconds)),
        (
            vec![("timestamp", Arc::new(Int64Array::from(times(1_000_000_000))))],
            unit(EpochUnit::Nanoseconds),
        ),
        (
            vec![(
                "timestamp",
                Arc::new(TimestampSecondArray::from(times(1)).with_timezone("UTC")),
            )],
            options(),
        ),
        (vec![("timestamp", Arc::new(TimestampMillisecondArray::from(times(1_000))))], utc("UTC")),
        (
            vec![(
                "timestamp",
                Arc::new(TimestampMicrosecondArray::from(times(1_000_000)).with_timezone("+09:00")),
            )],
            options(),
        ),
        (
            vec![(
                "timestamp",
                Arc::new(
                    TimestampNanosecondArray::from(times(1_000_000_000)).with_timezone(new_york),
                ),
            )],
            options(),
        ),
    ];
    let text = "timestamp,close\n1704205800,100\n1704205860,101\n1704205920,102\n";
    let expected = csv(text, &unit(EpochUnit::Seconds)).unwrap();
    assert_eq!(expected.calendar(), Calendar::Bars);
    assert_eq!(expected.dates()[2], "2024-01-02T14:32:00Z");
    assert_eq!(expected.micros()[0], OPENING * 1_000_000);
    for (at, (columns, options)) in forms.into_iter().enumerate() {
        let panel = match load(columns, &options) {
            Ok(panel) => panel,
            // Without a time zone database, names of zones are refused.
            Err(PanelError::Load { problem, .. }) if is_unknown(&problem) => continue,
            Err(error) => panic!("{at}: {error}"),
        };
        assert_eq!(panel.fingerprint(), expected.fingerprint(), "{at}: {:?}", panel.dates());
    }
}

fn is_unknown(problem: &PanelLoadError) -> bool {
    matches!(problem, PanelLoadError::UnknownZone { .. })
        && !std::path::Path::new("/usr/share/zoneinfo").exists()
}

#[test]
fn times_that_could_mean_several_instants_are_refused() {
    use PanelLoadError as E;
    let naive = || texts(["2024-01-02T09:30:00", "2024-01-02T09:31:00"]);
    let stamp = || Arc::new(TimestampSecondArray::from(vec![OPENING])) as ArrayRef;
    let zoned =
        || Arc::new(TimestampSecondArray::from(vec![OPENING]).with_timezone("UTC")) as ArrayRef;
    let integers = || Arc::new(Int64Array::from(vec![OPENING])) as ArrayRef;
    let found =
        |column: ArrayRef, options: PanelOptions| problem(vec![("timestamp", column)], &options);
    assert!(matches!(
        found(naive(), options()),
        E::BadTime { place: RowPlace::Row(0), problem: TimeProblem::NoZone, .. }
    ));
    let mixed = texts(["2024-01-02T09:30:00", "2024-01-02T14:31:00Z"]);
    assert!(matches!(
        found(mixed, options().zone("UTC")),
        E::BadTime { place: RowPlace::Row(1), problem: TimeProblem::HasZone, .. }
    ));
    assert!(matches!(found(stamp(), options()), E::NoZone { .. }));
    assert!(matches!(found(zoned(), options().zone("UTC")), E::TwoZones { .. }));
    assert!(matches!(found(integers(), options()), E::NoUnit { .. }));
    assert!(matches!(
        found(zoned(), options().unit(EpochUnit::Seconds)),
        E::UnusedOption { option: "unit", .. }
    ));
    assert!(matches!(
        found(integers(), options().unit(EpochUnit::Seconds).zone("UTC")),
        E::ZoneOfNumbers { .. }
    ));
    assert!(matches!(
        found(naive(), options().zone("No/Where")),
        E::UnknownZone { zone, .. } if zone == "No/Where"
    ));
    let day = vec![("date", texts(["2024-01-02"]))];
    assert!(matches!(problem(day, &options().zone("UTC")), E::UnusedOption { option: "zone", .. }));
    let clock = vec![("date", texts(["2024-01-02"])), ("time", texts(["09:30"]))];
    assert!(matches!(problem(clock, &options()), E::NoZone { column } if column == "time"));
    let both = vec![("date", texts(["2024-01-02"])), ("timestamp", integers())];
    assert!(matches!(problem(both, &options()), E::TwoTimes { .. }));
}

#[test]
fn cells_without_an_instant_are_refused_with_row_column_and_text() {
    let fold = |time| {
        problem(
            vec![("date", texts(["2024-11-03"])), ("time", texts([time]))],
            &options().zone("America/New_York"),
        )
    };
    let found = fold("01:30:00");
    if is_unknown(&found) {
        return;
    }
    let PanelLoadError::BadTime { place, column, text, problem: why } = found else {
        panic!("{found:?}")
    };
    assert_eq!((place, column.as_str(), why), (RowPlace::Row(0), "time", TimeProblem::Ambiguous));
    assert_eq!(text, "2024-11-03T01:30:00");
    assert!(matches!(
        fold("25:00"),
        PanelLoadError::BadTime { problem: TimeProblem::NotAClock, .. }
    ));
    let refused = csv("timestamp,close\n2024-03-10 02:30,1\n", &options().zone("America/New_York"));
    let Err(PanelError::Load { problem: why, .. }) = refused else { panic!("{refused:?}") };
    assert!(matches!(
        *why,
        PanelLoadError::BadTime { place: RowPlace::Line(2), problem: TimeProblem::Skipped, .. }
    ));
    for (value, expected) in [
        (i64::MAX, TimeProblem::OutOfRange),
        (i64::MIN, TimeProblem::OutOfRange),
        (253_402_300_800, TimeProblem::OutOfRange),
    ] {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![OPENING, value]));
        let options = options().unit(EpochUnit::Seconds);
        let found = problem(vec![("timestamp", column)], &options);
        let PanelLoadError::BadTime { place, text, problem, .. } = found else {
            panic!("{found:?}")
        };
        assert_eq!((place, text, problem), (RowPlace::Row(1), value.to_string(), expected));
    }
    for (column, options, expected) in [
        (
            Arc::new(Int64Array::from(vec![1])) as ArrayRef,
            options().unit(EpochUnit::Nanoseconds),
            TimeProblem::TooFine,
        ),
        (
            Arc::new(TimestampNanosecondArray::from(vec![1]).with_timezone("UTC")),
            options(),
            TimeProblem::TooFine,
        ),
        (
            Arc::new(TimestampNanosecondArray::from(vec![None::<i64>]).with_timezone("UTC")),
            options(),
            TimeProblem::NotATime,
        ),
        (texts(["12.5"]), options().unit(EpochUnit::Seconds), TimeProblem::NotANumber),
    ] {
        let found = problem(vec![("timestamp", column)], &options);
        assert!(
            matches!(&found, PanelLoadError::BadTime { problem, .. } if *problem == expected),
            "{found:?}"
        );
    }
}

#[test]
fn two_bars_at_one_instant_are_refused_and_two_of_one_day_are_kept() {
    let text = "timestamp,close\n2024-01-02T09:30Z,1\n2024-01-02T09:31Z,2\n";
    assert_eq!(csv(text, &options()).unwrap().days(), 2);
    let twice = format!("{text}2024-01-02T10:31+01:00,3\n");
    let Err(PanelError::Load { problem, .. }) = csv(&twice, &options()) else { panic!() };
    let PanelLoadError::DuplicateRow { date, first, second, .. } = *problem else {
        panic!("{problem:?}")
    };
    assert_eq!(
        (date.as_str(), first, second),
        ("2024-01-02T09:31:00Z", RowPlace::Line(3), RowPlace::Line(4))
    );
    // In a column of days both rows are of one day.
    let days = text.replace("timestamp", "date");
    let Err(PanelError::Load { problem, .. }) = csv(&days, &options()) else { panic!() };
    assert!(matches!(*problem, PanelLoadError::DuplicateRow { .. }), "{problem:?}");
}

#[test]
fn days_may_be_numbers_since_1970() {
    let text = "date,close\n1704205800,1\n1704240000,2\n";
    let panel = csv(text, &options().unit(EpochUnit::Seconds)).unwrap();
    assert_eq!(
        (panel.calendar(), panel.dates()),
        (Calendar::Days, &["2024-01-02".to_owned(), "2024-01-03".to_owned()][..])
    );
    assert_eq!(panel.micros()[0], 1_704_153_600_000_000);
}

/// Returns what loading warns of a column of times, of one ticker with flat prices.
fn doubts(name: &str, times: ArrayRef, options: &PanelOptions) -> Vec<LoadWarning> {
    let prices: ArrayRef = Arc::new(Float64Array::from(vec![10.0; times.len()]));
    let names = ["open", "high", "low", "close", "volume"];
    let columns = names.map(|name| (name, prices.clone())).into_iter().chain([(name, times)]);
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let reader = RecordBatchIterator::new([Ok(batch.clone())], batch.schema());
    let options = options.clone().ticker("BTC").bars_per_year(8760.0);
    PanelData::from_batches(reader, &options).unwrap().warnings()
}

#[test]
fn numbers_that_are_read_in_too_fine_a_unit_are_warned_of() {
    use EpochUnit::{Microseconds, Milliseconds, Nanoseconds, Seconds};
    let hours = |factor: i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values((0..9).map(|hour| (OPENING + hour * 3600) * factor)))
    };
    for (right, factor) in [
        (Seconds, 1),
        (Milliseconds, 1_000),
        (Microseconds, 1_000_000),
        (Nanoseconds, 1_000_000_000),
    ] {
        for unit in [Seconds, Milliseconds, Microseconds, Nanoseconds] {
            let options = PanelOptions::default().unit(unit);
            // Coarser units lie beyond the calendar. Nanoseconds that are no microseconds are
            // refused.
            let is_refused = matches!(
                (right, unit),
                (Milliseconds | Microseconds | Nanoseconds, Seconds)
                    | (Microseconds | Nanoseconds, Milliseconds)
                    | (Nanoseconds, Microseconds)
                    | (Seconds, Nanoseconds)
            );
            if is_refused {
                continue;
            }
            let found = doubts("timestamp", hours(factor), &options);
            if unit == right {
                assert_eq!(found, []);
                continue;
            }
            let [LoadWarning::FirstYear { calendar, rows, unit: read, better, .. }] = &found[..]
            else {
                panic!("{right:?} as {unit:?}: {found:?}")
            };
            assert_eq!((*calendar, *rows), (Calendar::Bars, 9));
            assert_eq!((*read, *better), (Some(unit), Some(right)), "{found:?}");
            assert!(found[0].to_string().contains("set `unit` to"), "{}", found[0]);
        }
    }
    let day = |number| Arc::new(Int64Array::from(vec![number])) as ArrayRef;
    let options = PanelOptions::default().unit(Microseconds);
    let found = doubts("date", day(1_704_153_600_000), &options);
    assert!(
        found.iter().any(|found| matches!(
            found,
            LoadWarning::FirstYear { calendar: Calendar::Days, last, .. } if last == "1970-01-20"
        )),
        "{found:?}"
    );
    // Without a unit, timestamps that were made of numbers.
    let found = doubts("timestamp", texts(["1970-01-01T00:28:24Z"]), &PanelOptions::default());
    let [LoadWarning::FirstYear { unit: None, better: None, .. }] = found[..] else {
        panic!("{found:?}")
    };
    for dates in [["1970-01-02", "1970-02-02"], ["1969-12-30", "1970-01-02"]] {
        let times = texts(dates.map(|date| format!("{date}T00:00Z")).each_ref().map(|at| &**at));
        assert_eq!(doubts("timestamp", times, &PanelOptions::default()), []);
    }
    // Days may be made up.
    assert_eq!(doubts("date", texts(["1970-01-01", "1970-01-02"]), &PanelOptions::default()), []);
    let old = options.unit(Seconds);
    assert!(!doubts("date", day(-86_400), &old).is_empty());
    assert_eq!(doubts("date", day(365 * 86_400), &old), []);
}

#[test]
fn times_of_day_that_a_column_of_days_drops_are_warned_of() {
    let default = PanelOptions::default();
    let first = |times: ArrayRef, options: &PanelOptions| {
        let found = doubts("date", times, options);
        let [LoadWarning::DroppedTimes { column, first, count }] = &found[..] else {
            assert_eq!(found, []);
            return None;
        };
        assert_eq!(column, "date");
        for word in ["`zone`", first.as_str(), "\"date\"", "tz_convert"] {
            assert!(found[0].to_string().contains(word), "{}", found[0]);
        }
        Some((first.clone(), *count))
    };
    let dropped = |first: &str, count| Some((first.to_owned(), count));
    // Midnights of Tokyo, in UTC and on its own clocks.
    let midnights = [1_704_121_200, 1_704_207_600];
    let stamps = |zone: &str| -> ArrayRef {
        Arc::new(TimestampSecondArray::from(midnights.to_vec()).with_timezone(zone))
    };
    let naive: ArrayRef = Arc::new(TimestampSecondArray::from(midnights.to_vec()));
    let numbers: ArrayRef = Arc::new(Int64Array::from(midnights.to_vec()));
    let seconds = default.clone().unit(EpochUnit::Seconds);
    let written = texts(["2024-01-01T15:00:00Z", "2024-01-02 15:00:00+00:00"]);
    let of_tokyo = texts(["2024-01-02T00:00:00+09:00", "2024-01-03"]);
    for (times, options, expected) in [
        (stamps("UTC"), &default, dropped("2024-01-01T15:00:00", 2)),
        (naive, &default, dropped("2024-01-01T15:00:00", 2)),
        (numbers, &seconds, dropped("2024-01-01T15:00:00", 2)),
        (written, &default, dropped("2024-01-01T15:00:00", 2)),
        (texts(["2024-01-02", "2024-01-03 16:00"]), &default, dropped("2024-01-03T16:00:00", 1)),
        // A leap second is of its day.
        (texts(["2016-12-31 23:59:60"]), &default, dropped("2016-12-31T23:59:59.999999", 1)),
        (stamps("+09:00"), &default, None),
        (of_tokyo, &default, None),
    ] {
        assert_eq!(first(times, options), expected);
    }
    // Later chunks count too, and the first time is that of the first row.
    let rows = 10_000;
    let days = (0..rows).map(|day| day * 86_400 + if day < 5_000 { 0 } else { 60 });
    let many: ArrayRef = Arc::new(TimestampSecondArray::from_iter_values(days));
    assert_eq!(first(many, &default), dropped("1983-09-10T00:01:00", 5_000));
}

#[test]
fn a_panel_of_bars_is_shared_and_found_by_date() {
    let folder = tempfile::tempdir().unwrap();
    let base = Base::at(folder.path());
    let mut text = "timestamp,close\n".to_owned();
    for hour in 0..48 {
        writeln!(text, "{},{}", OPENING - 1800 + hour * 3600, 100 + hour).unwrap();
    }
    let options = options().unit(EpochUnit::Seconds).bars_per_year(1234.5);
    let data = PanelData::from_reader(text.as_bytes(), &options);
    let made = data.unwrap().share("bars", &base, Exist::Error, false).unwrap();
    let panel = Panel::attach_in(&base, "bars").unwrap();
    assert_eq!(panel.micros(), made.micros());
    assert_eq!(panel.fingerprint(), made.fingerprint());
    assert_eq!(panel.bars_per_year().to_bits(), 1234.5_f64.to_bits());
    assert_eq!(panel.date(1).as_deref(), Some("2024-01-02T15:00:00Z"));
    assert_eq!(panel.date(48), None);
    for (when, at) in [
        ("2024-01-01", 0),
        ("2024-01-02T14:00:00Z", 0),
        ("2024-01-02T14:00:01Z", 1),
        ("2024-01-03", 10),
        ("2024-01-03T00:00:00+01:00", 9),
        ("2030-01-01", 48),
    ] {
        assert_eq!(panel.position(when), Ok(at), "{when}");
    }
    for when in ["2024-01-02T14:00:00", "", "yesterday", "2024-13-01"] {
        let refused = panel.position(when).unwrap_err();
        assert_eq!((refused.when.as_str(), refused.calendar), (when, Calendar::Bars));
    }
    let days = csv("date,close\n2024-01-02,1\n2024-01-05,2\n", &self::options()).unwrap();
    assert_eq!(days.position("2024-01-03"), Ok(1));
    assert_eq!(days.position("2024-01-05T23:00:00"), Ok(1));
    assert_eq!(days.position("2024-01-06"), Ok(2));
    assert!(days.position("1704205800").is_err());
}

#[test]
fn a_year_of_no_bars_is_refused() {
    for bars in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let refused =
            csv("date,close\n2024-01-02,1\n2024-01-03,1\n", &options().bars_per_year(bars));
        let Err(PanelError::Load { problem, .. }) = refused else { panic!("{refused:?}") };
        assert!(matches!(*problem, PanelLoadError::BarsPerYear { .. }));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(backcast_budget::cases(128)))]

    #[test]
    fn windows_count_bars_and_show_of_a_bar_only_its_open(
        gaps in prop::collection::vec(1_i64..100_000_000_000, 2..40),
        history in 0_usize..6,
        future in 0_usize..6,
    ) {
        let mut micros = OPENING * 1_000_000;
        let times: Vec<i64> = gaps.iter().map(|gap| { micros += gap; micros }).collect();
        let column: ArrayRef =
            Arc::new(TimestampMicrosecondArray::from(times.clone()).with_timezone("UTC"));
        let panel = load(vec![("timestamp", column)], &options()).unwrap();
        prop_assert_eq!(panel.micros(), times);
        let day = panel.days() / 2;
        let plan = panel.window_shape(1, 1, history, future).unwrap();
        let (mut arena, mut mask) = (vec![0.0; plan.arena_len()], vec![false; plan.mask_len()]);
        let at = i64::try_from(day).unwrap();
        panel.windows_into(&[at], &[1], 1, history, future, &mut arena, &mut mask).unwrap();
        for (place, row) in arena.chunks(5).enumerate() {
            let bar = (day + place).checked_sub(history);
            let bar = bar.filter(|bar| (1..panel.days()).contains(bar));
            prop_assert_eq!(mask[place], bar.is_some());
            let close = bar.map_or(0.0, |bar| 100.0 + f32::from(u8::try_from(bar).unwrap()));
            if place == history {
                prop_assert_eq!(row, &[(close - 1.0).max(0.0), 0.0, 0.0, 0.0, 0.0][..]);
            } else {
                prop_assert_eq!(row[3].to_bits(), close.to_bits());
            }
        }
    }
}

/// Returns the warnings of a table of tickers, each with the minutes of its bars.
fn warnings(tickers: &[(&str, Vec<i64>)], options: &PanelOptions) -> Vec<LoadWarning> {
    use DerivedColumn::{High, Low, Open, Volume};
    let mut text = "timestamp,tic,close\n".to_owned();
    for (ticker, minutes) in tickers {
        for minute in minutes {
            writeln!(text, "{},{ticker},100", OPENING + minute * 60).unwrap();
        }
    }
    let options = options.clone().derive([Open, High, Low, Volume]).unit(EpochUnit::Seconds);
    PanelData::from_reader(text.as_bytes(), &options).unwrap().warnings()
}

#[test]
fn bars_of_two_lengths_are_warned_of_with_both_tickers() {
    let every = |step: i64| (0..20 * 1440).step_by(usize::try_from(step).unwrap()).collect();
    let year = PanelOptions::default().bars_per_year(252.0);
    for (long, short) in [(1440, 60), (60, 30), (15, 5), (480, 60)] {
        let found =
            warnings(&[("L", every(long)), ("M", every(short)), ("S", every(short))], &year);
        let [LoadWarning::MixedBars { long: ticker, long_micros, short_micros, .. }] = &found[..]
        else {
            panic!("{found:?}")
        };
        assert_eq!((ticker.as_str(), *long_micros), ("L", long * 60_000_000));
        assert_eq!(*short_micros, short * 60_000_000);
        assert!(found[0].to_string().contains("\"L\""), "{}", found[0]);
    }
    // Sessions, bars without trades, a hole, an early end and a few rows are of the same length.
    let session = (0..20_i64).flat_map(|day| (0..390).map(move |minute| day * 1440 + minute));
    let thin = |one_in: u64| -> Vec<i64> {
        let mut state = 1_u64;
        let mut trades = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33).is_multiple_of(one_in)
        };
        (0..20 * 1440).filter(|_| trades()).collect()
    };
    let hole = (0..20 * 1440).filter(|minute| !(5000..9000).contains(minute)).collect();
    let found = warnings(
        &[
            ("ALL", every(1)),
            ("SESSION", session.collect()),
            ("THIN", thin(2)),
            ("THINNER", thin(4)),
            ("RARE", thin(100)),
            ("HOLE", hole),
            ("DELISTED", (0..300).collect()),
            ("FEW", vec![0, 1440, 2880, 4320]),
        ],
        &year,
    );
    assert_eq!(found, []);
}

#[test]
fn bars_of_one_length_that_begin_at_other_times_are_warned_of() {
    let year = PanelOptions::default().bars_per_year(252.0);
    let every = |step: usize, from: i64| -> Vec<i64> { (from..20 * 1440).step_by(step).collect() };
    // Seven hours of a session that begins at half past, on five days of seven.
    let session: Vec<i64> = (0..20)
        .filter(|day| day % 7 < 5)
        .flat_map(|day| (0..7).map(move |hour| day * 1440 + hour * 60))
        .collect();
    let found = warnings(&[("BTC", every(60, 30)), ("SPY", session.clone())], &year);
    let [LoadWarning::OverlappingBars { early, micros, late, date, count }] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!((early.as_str(), late.as_str(), *micros), ("SPY", "BTC", 3_600_000_000));
    // The first row of a ticker has no open to derive.
    assert_eq!((date.as_str(), *count), ("2024-01-02T16:00:00Z", session.len() - 1));
    for word in ["\"SPY\"", "\"BTC\"", "1 h", "end"] {
        assert!(found[0].to_string().contains(word), "{}", found[0]);
    }
    let overlaps = |tickers: &[(&str, Vec<i64>)], options: &PanelOptions| {
        let found = warnings(tickers, options);
        let mut overlaps = found.iter().filter_map(|found| match found {
            LoadWarning::OverlappingBars { early, late, count, .. } => {
                Some((early.clone(), late.clone(), *count))
            }
            _ => None,
        });
        overlaps.next_back()
    };
    let named =
        |early: &str, late: &str, count: usize| Some((early.to_owned(), late.to_owned(), count));
    // A macro ticker is shown at the times of others, and nothing is traded at its own.
    let macros = |name: &str| year.clone().macro_tickers([name]);
    let both = [("BTC", every(60, 30)), ("SPY", session.clone())];
    assert_eq!(overlaps(&both, &macros("SPY")), named("SPY", "BTC", session.len() - 1));
    assert_eq!(overlaps(&both, &macros("BTC")), named("BTC", "SPY", session.len() - 2));
    // Days that begin at two midnights, and longer bars within shorter ones.
    let days = [("DAY", every(1440, 0)), ("NIGHT", every(1440, 300))];
    assert_eq!(overlaps(&days, &year), named("DAY", "NIGHT", 19));
    let longer = [("HOUR", every(60, 0)), ("DAY", every(1440, 30))];
    assert_eq!(overlaps(&longer, &year), named("HOUR", "DAY", 19));
    // A ticker whose bars have no usual step is traded within those of another one.
    let irregular = (1..80).map(|bar: i64| bar * bar + 1).collect::<Vec<_>>();
    assert!(overlaps(&[("HOUR", every(60, 0)), ("ODD", irregular)], &year).is_some());
    // Times of one grid, an hour that clocks are set by, and few odd times are as they should be.
    let clocks: Vec<i64> = (0..20).map(|day| day * 1440 - if day < 10 { 0 } else { 60 }).collect();
    let odd = [every(60, 0), vec![61, 245, 367, 481]].concat();
    for fine in [
        vec![("A", every(60, 0)), ("B", every(60, 600)), ("C", session)],
        vec![("A", clocks.clone()), ("B", clocks)],
        vec![("A", every(60, 0)), ("B", odd)],
        vec![("A", every(60, 0)), ("B", every(15, 0))],
    ] {
        assert_eq!(overlaps(&fine, &year), None, "{}", fine.len());
    }
}

#[test]
fn a_year_that_the_calendar_does_not_tell_is_warned_of() {
    let hours = |count: i64| vec![("A", (0..count).map(|hour| hour * 60).collect())];
    let guess = |count: i64, options: &PanelOptions| warnings(&hours(count), options);
    let default = PanelOptions::default();
    let short = guess(72, &default);
    let [LoadWarning::GuessedYear { bars, guess: year }] = short[..] else { panic!("{short:?}") };
    assert_eq!((bars, year.to_bits()), (72, 6048.0_f64.to_bits()));
    assert_eq!(guess(72, &default.clone().bars_per_year(8760.0)), []);
    assert_eq!(guess(240, &default), []);
}

#[test]
fn refused_tables_name_columns_and_options_that_are_there() {
    let twice = "timestamp,close\n2024-01-02T09:30Z,1\n2024-01-02T09:30Z,2\n";
    let Err(PanelError::Load { problem, .. }) = csv(twice, &options()) else { panic!() };
    let PanelLoadError::DuplicateRow { columns, calendar, .. } = &*problem else {
        panic!("{problem:?}")
    };
    assert_eq!((&columns[..], *calendar), (&["timestamp".to_owned()][..], Calendar::Bars));
    let text = "datetime,close\n2024-01-02 09:30:00,1\n";
    let lacks = PanelData::from_reader(text.as_bytes(), &PanelOptions::default());
    let Err(PanelError::Load { problem, .. }) = lacks else { panic!() };
    let message = problem.to_string();
    let PanelLoadError::MissingColumns { missing, closest, any_case, .. } = *problem else {
        panic!("{message}")
    };
    assert_eq!((missing[0].as_str(), closest[0].as_deref()), ("timestamp", Some("datetime")));
    assert!(!any_case);
    for option in ["`ticker`", "`derive`", "\"date\""] {
        assert!(message.contains(option), "{message}");
    }
}
