//! Rings of transitions against a plain list: slots, overwriting, clearing, files, lanes, panels.

use std::{collections::BTreeMap, fs, path::Path};

use backcast_core::{Base, Exist, Ring, RingOptions};
use backcast_market::{
    Layout, Panel, PanelData, PanelOptions, Selection, TransitionBatch, TransitionError,
    TransitionOptions, TransitionRing, TransitionShape, TransitionSide, WindowError, Windows,
};
use proptest::prelude::*;

const DAYS: i32 = 40;

/// Six tickers; C is listed from day 9 on, and has no row on day 20. D has its last on day 32.
fn csv(scale: f64) -> String {
    let mut csv = "date,tic,open,high,low,close,volume,rsi,macd\n".to_owned();
    for day in 0..DAYS {
        for (at, ticker) in (0..).zip(["A", "B", "C", "D", "E", "VIX"]) {
            match ticker {
                "C" if day < 9 || day == 20 => continue,
                "D" if day > 32 => continue,
                _ => {}
            }
            let (month, of_month) = (1 + day / 28, 1 + day % 28);
            let price = scale * (f64::from(day) + 1.0 + 100.0 * f64::from(at));
            let [high, low, close] = [price + 2.0, price - 0.5, price + 1.0];
            let row = format!("{ticker},{price},{high},{low},{close},{day},{at},{}", day * 10);
            csv += &[&format!("2024-{month:02}-{of_month:02}"), ",", &row, "\n"].concat();
        }
    }
    csv
}

fn data(scale: f64) -> PanelData {
    let options = PanelOptions::default().macro_tickers(["VIX"]);
    PanelData::from_reader(csv(scale).as_bytes(), &options).unwrap()
}

fn without_macro() -> Panel {
    PanelData::from_reader(csv(1.0).as_bytes(), &PanelOptions::default()).unwrap().into_heap()
}

fn panel() -> Panel {
    data(1.0).into_heap()
}

fn shape() -> TransitionShape {
    TransitionShape { tickers: 2, action: vec![2, 2], objectives: 2 }
}

fn ring(capacity: u64) -> TransitionRing {
    TransitionRing::create(panel(), shape(), TransitionOptions::with_capacity(capacity)).unwrap()
}

/// Returns `n` transitions whose numbers identify them.
#[expect(clippy::cast_precision_loss, reason = "small")]
fn numbered(first: usize, n: usize) -> TransitionBatch {
    let mut batch = TransitionBatch::zeros(n, &shape());
    for at in 0..n {
        let number = first + at;
        let value = number as f32;
        let day = i32::try_from(number).unwrap() % (DAYS - 1);
        batch.env_ids[at] = i32::try_from(at).unwrap();
        batch.days[2 * at..2 * at + 2].copy_from_slice(&[day, day + 1]);
        let tokens = [[1, 2], [2, 1], [3, 5], [5, 4]][number % 4];
        batch.tokens[2 * at..2 * at + 2].copy_from_slice(&tokens);
        batch.cash[2 * at..2 * at + 2].copy_from_slice(&[value, -value]);
        for (place, number) in batch.shares[4 * at..4 * at + 4].iter_mut().zip(1..) {
            *place = i32::try_from(number * (first + at)).unwrap();
        }
        batch.avg_buy_prices[4 * at..4 * at + 4].fill(value / 2.0);
        batch.actions[4 * at..4 * at + 4].copy_from_slice(&[value, 0.5, -0.5, value + 0.25]);
        batch.rewards[2 * at..2 * at + 2].copy_from_slice(&[value, 1.0 / (value + 1.0)]);
        batch.ends[2 * at..2 * at + 2].copy_from_slice(&[
            u8::from(number.is_multiple_of(5)),
            u8::from(number.is_multiple_of(7)),
        ]);
    }
    batch
}

/// Returns the numbers of the transitions in all slots.
#[expect(clippy::cast_possible_truncation, reason = "small whole numbers")]
fn held(ring: &TransitionRing) -> Vec<i64> {
    let size = ring.len().unwrap().cast_signed();
    let all = ring.get(&(0..size).collect::<Vec<_>>()).unwrap();
    all.cash.chunks_exact(2).map(|cash| cash[0] as i64).collect()
}

#[derive(Clone, Debug)]
enum Op {
    Add(usize),
    Clear,
    SaveAndLoad,
    Release,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (1_usize..9).prop_map(Op::Add),
        1 => Just(Op::Clear),
        1 => Just(Op::SaveAndLoad),
        1 => Just(Op::Release),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: backcast_budget::cases(64),
        ..ProptestConfig::default()
    })]

    /// Compares the ring with a model: a list of slots that is overwritten from the front.
    #[test]
    fn a_ring_is_a_list_that_is_overwritten_from_the_front(
        capacity in 1_usize..14, ops in prop::collection::vec(op(), 1..40)
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("saved");
        let mut ring = ring(capacity as u64);
        let (mut slots, mut next, mut number): (Vec<i64>, usize, i64) = (Vec::new(), 0, 0);
        for op in ops {
            match op {
                Op::Add(n) => {
                    ring.add(&numbered(usize::try_from(number).unwrap(), n)).unwrap();
                    for _ in 0..n {
                        if slots.len() < capacity {
                            slots.push(number);
                        } else {
                            slots[next % capacity] = number;
                        }
                        next += 1;
                        number += 1;
                    }
                }
                Op::Clear => {
                    ring.clear().unwrap();
                    slots.clear();
                    next = 0;
                }
                Op::SaveAndLoad => {
                    ring.save(&path).unwrap();
                    ring.add(&numbered(5, 3)).unwrap();
                    ring.load(&path).unwrap();
                }
                Op::Release => ring.release(),
            }
            prop_assert_eq!(held(&ring), slots.clone());
        }
    }
}

#[test]
fn every_number_comes_back_as_it_was_added() {
    let mut ring = ring(50);
    let added = numbered(3, 20);
    ring.add(&added).unwrap();
    assert_eq!(ring.get(&(0..20).collect::<Vec<_>>()).unwrap(), added);
    let again = ring.get(&[7, 7]).unwrap();
    assert_eq!(again.cash, [added.cash[14], added.cash[15], added.cash[14], added.cash[15]]);
    for index in [-1, 20, i64::MAX, i64::MIN] {
        let refused = ring.get(&[0, index]).unwrap_err();
        assert!(refused.to_string().contains(&format!("index {index} is outside the 20")));
    }
}

#[test]
fn draws_are_uniform_and_repeat_with_the_seed() {
    let mut ring = ring(16);
    assert!(matches!(ring.draw_indices(3), Err(TransitionError::Empty)));
    ring.add(&numbered(0, 8)).unwrap();
    assert_eq!(ring.draw_indices(100).unwrap().len(), 8, "never more than are stored");
    ring.add(&numbered(8, 30)).unwrap();
    let mut counts = BTreeMap::new();
    for _ in 0..4_000 {
        for index in ring.draw_indices(16).unwrap() {
            *counts.entry(index).or_insert(0_u32) += 1;
        }
    }
    // 15 degrees of freedom: 37.7 is exceeded once in a thousand seeds, and this one is fixed.
    let chi2: f64 = counts.values().map(|n| (f64::from(*n) - 4_000.0).powi(2) / 4_000.0).sum();
    assert!(counts.len() == 16 && chi2 < 37.7, "{chi2} {counts:?}");

    let drawn = |seed: u64| {
        let options = TransitionOptions { seed, ..TransitionOptions::with_capacity(16) };
        let mut ring = TransitionRing::create(panel(), shape(), options).unwrap();
        ring.add(&numbered(0, 30)).unwrap();
        let mut batch = TransitionBatch::default();
        ring.draw_into(9, &mut batch).unwrap();
        (ring.draw_indices(9).unwrap(), batch)
    };
    assert_eq!(drawn(7), drawn(7));
    assert_ne!(drawn(7), drawn(8));
}

type Spoil = fn(&mut TransitionBatch);

#[test]
fn invalid_transitions_are_refused_and_not_added() {
    let mut ring = ring(50);
    ring.add(&numbered(0, 3)).unwrap();
    let cases: [(&str, Spoil); 9] = [
        ("state 1 is on day -1, but the panel has days 0 to 39", |b| b.days[2] = -1),
        ("next state 1 is on day 40", |b| b.days[3] = 40),
        ("state 1 holds token 0", |b| b.tokens[2] = 0),
        ("state 1 holds token 7, but the panel has tickers 1 to 6", |b| b.tokens[3] = 7),
        ("state 1 holds \"B\" twice", |b| b.tokens[2..4].fill(2)),
        ("action of environment 1 is NaN", |b| b.actions[4] = f32::NAN),
        ("reward of environment 1 is -inf", |b| b.rewards[3] = f32::NEG_INFINITY),
        ("cash of environment 1 is inf", |b| b.cash[2] = f32::INFINITY),
        ("rewards holds 5 numbers for 2 transitions; give 4", |b| b.rewards.push(0.0)),
    ];
    for (message, spoil) in cases {
        let mut batch = numbered(3, 2);
        spoil(&mut batch);
        let refused = ring.add(&batch).unwrap_err().to_string();
        assert!(refused.contains(message), "{refused}");
        assert_eq!(held(&ring), [0, 1, 2]);
    }
}

/// Returns a price or indicator of the panel, zero without a row.
#[expect(clippy::cast_possible_truncation, reason = "windows are float32")]
fn expected(panel: &Panel, ticker: usize, day: i64, column: usize) -> f32 {
    let day = usize::try_from(day).ok();
    day.and_then(|day| panel.value(ticker, day, column)).unwrap_or_default() as f32
}

#[test]
fn windows_are_the_panels_in_both_layouts_shared_or_apart_by_any_number_of_threads() {
    let macros = vec![5_u32];
    let columns = Some(vec![0, 1, 2, 3, 4, 6]);
    for (threads, end) in [(1, None), (3, None), (1, Some(25)), (3, Some(2)), (1, Some(99))] {
        let options = TransitionOptions { threads, end, ..TransitionOptions::with_capacity(9_000) };
        let mut ring = TransitionRing::create(panel(), shape(), options).unwrap();
        ring.add(&numbered(0, 9_000)).unwrap();
        let mut batch = TransitionBatch::default();
        for (size, history, future, apart, columns) in [
            (2, 0, 0, false, &None),
            (40, 3, 2, false, &None),
            (40, 3, 2, true, &columns),
            (9, 60, 50, false, &columns),
            (4_000, 5, 3, false, &None),
            (4_000, 5, 3, true, &columns),
        ] {
            ring.draw_into(size, &mut batch).unwrap();
            for layout in [Layout::Ticker, Layout::Batched] {
                let windows = Windows { history, future, lead: 1, layout, apart };
                let selection = Selection { macros: macros.clone(), columns: columns.clone() };
                compare(&mut ring, &batch, windows, &selection);
            }
        }
        // All samples have the same tickers, in the panel's order and in another.
        for first in [0, 1] {
            let alike = ring.get(&(first..1_200).step_by(4).collect::<Vec<_>>()).unwrap();
            assert!(alike.tokens.chunks_exact(2).all(|tokens| *tokens == alike.tokens[..2]));
            for layout in [Layout::Ticker, Layout::Batched] {
                let windows = Windows { history: 3, future: 2, lead: 1, layout, apart: false };
                let selection = Selection { macros: macros.clone(), columns: None };
                compare(&mut ring, &alike, windows, &selection);
            }
        }
    }
}

fn compare(
    ring: &mut TransitionRing,
    batch: &TransitionBatch,
    windows: Windows,
    selection: &Selection,
) {
    let plan = ring.plan(batch, windows, selection).unwrap();
    // A next day that futures do not show is shown as the next state's own day.
    let ends = batch
        .days
        .as_chunks::<2>()
        .0
        .iter()
        .any(|[_, next]| next.cast_unsigned() as usize >= ring.end());
    assert_eq!(plan.shared(), !windows.apart && !ends);
    let [.., days, width] = plan.arena_shape();
    let floats: usize = plan.arena_shape().iter().product();
    let mut memory: Vec<(Vec<f32>, Vec<i32>)> =
        vec![(vec![f32::NAN; floats], vec![7; floats / width]); plan.arenas()];
    let mut lent: Vec<_> =
        memory.iter_mut().map(|(arena, mask)| (&mut arena[..], &mut mask[..])).collect();
    ring.fill(&plan, batch, selection, &mut lent);
    let panel = ring.panel().clone();
    let all: Vec<usize> = (0..panel.columns().len()).collect();
    let columns = selection.columns.as_deref().unwrap_or(&all);
    let slots = plan.own() + selection.macros.len();
    for side in [TransitionSide::State, TransitionSide::Next] {
        let (arena, day_at) = plan.day(side);
        assert_eq!(plan.history(side), day_at - windows.history..day_at);
        assert_eq!(plan.future(side), day_at + 1..day_at + 1 + windows.future);
        let (arena, mask) = &memory[arena];
        for sample in 0..batch.len() {
            let own = &batch.tokens[sample * 2..sample * 2 + 2];
            for slot in 0..slots {
                let ticker = if slot >= plan.own() {
                    Some(selection.macros[slot - plan.own()])
                } else {
                    match windows.layout {
                        Layout::Batched => Some(u32::from(own[slot]) - 1),
                        Layout::Ticker => Some(plan.unique()[slot])
                            .filter(|ticker| own.iter().any(|own| u32::from(*own) == ticker + 1)),
                    }
                };
                let cell = match windows.layout {
                    Layout::Ticker => slot * batch.len() + sample,
                    Layout::Batched => sample * slots + slot,
                };
                for place in day_at - windows.history..day_at + 1 + windows.future {
                    let own_day = i64::from(batch.days_of(sample)[side as usize]);
                    let day =
                        own_day + i64::try_from(place).unwrap() - i64::try_from(day_at).unwrap();
                    let shown = day <= own_day || day < i64::try_from(ring.end()).unwrap();
                    let ticker = ticker.filter(|_| shown);
                    let listed = ticker.is_some_and(|ticker| {
                        usize::try_from(day).is_ok_and(|day| panel.listed(ticker as usize, day))
                    });
                    let at = cell * days + place;
                    assert_eq!(mask[at], i32::from(listed), "{windows:?} {sample} {slot} {place}");
                    for (found, column) in arena[at * width..(at + 1) * width].iter().zip(columns) {
                        let want = ticker
                            .map_or(0.0, |ticker| expected(&panel, ticker as usize, day, *column));
                        assert_eq!(found.to_bits(), want.to_bits());
                    }
                }
            }
        }
    }
}

#[test]
fn a_next_day_that_does_not_follow_takes_a_copy_of_its_own() {
    let mut ring = ring(10);
    let mut batch = numbered(0, 6);
    batch.days[5] = 17;
    ring.add(&batch).unwrap();
    let windows = Windows { history: 2, future: 1, ..Windows::default() };
    let plan = |of: &[i64]| ring.plan(&ring.get(of).unwrap(), windows, &Selection::default());
    assert_eq!(plan(&[0, 1, 3]).unwrap().arenas(), 1);
    assert_eq!(plan(&[0, 2, 3]).unwrap().arenas(), 2);
}

#[test]
fn joined_rings_keep_the_end_of_futures_unless_another_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let base = Base::at(folder.path());
    let shared = data(1.0).share("prices", &base, Exist::Error, false).unwrap();
    let made = |name: &str, end| {
        let options = TransitionOptions {
            name: Some(name.to_owned()),
            base: base.clone(),
            end,
            ..TransitionOptions::with_capacity(10)
        };
        TransitionRing::create(shared.clone(), shape(), options).unwrap()
    };
    let joined = |name| TransitionRing::attach(&base, name, None, 1, 1).unwrap();
    let (first, all) = (made("trained", Some(25)), made("all", None));
    assert_eq!((first.end(), joined("trained").end()), (25, 25));
    assert_eq!(joined("trained").until(Some(30)).end(), 30);
    assert_eq!((all.end(), joined("all").end()), (40, 40));
}

#[test]
fn joined_rings_keep_the_indicator_lag() {
    let folder = tempfile::tempdir().unwrap();
    let base = Base::at(folder.path());
    let shared = data(1.0).share("prices", &base, Exist::Error, false).unwrap();
    for (name, indicator_lag) in [("fresh", 0), ("usual", 1), ("old", 3)] {
        let options = TransitionOptions {
            name: Some(name.to_owned()),
            base: base.clone(),
            indicator_lag,
            ..TransitionOptions::with_capacity(10)
        };
        let made = TransitionRing::create(shared.clone(), shape(), options).unwrap();
        let joined = || TransitionRing::attach(&base, name, None, 1, 1).unwrap();
        assert_eq!([made.indicator_lag(), joined().indicator_lag()], [indicator_lag; 2]);
        let file = made.ring().path().unwrap().join("transitions.json");
        let whole = fs::read_to_string(&file).unwrap();
        let said = format!(",\"indicator_lag\":{indicator_lag}");
        assert_eq!(whole.contains(&said), indicator_lag != 1, "{whole}");
        fs::write(&file, whole.replace(&said, "")).unwrap();
        assert_eq!(joined().indicator_lag(), 1, "files of earlier versions leave it out");
    }
}

#[test]
fn a_batch_is_filled_by_any_ring_of_its_panel_whatever_the_sizes_of_its_transitions() {
    let mut drawn = ring(40);
    drawn.add(&numbered(0, 40)).unwrap();
    let wider = TransitionShape { tickers: 4, action: vec![4], objectives: 1 };
    let options = TransitionOptions::with_capacity(5);
    let mut other = TransitionRing::create(drawn.panel().clone(), wider, options).unwrap();
    let batch = drawn.get(&(0..40).collect::<Vec<_>>()).unwrap();
    for layout in [Layout::Ticker, Layout::Batched] {
        let windows = Windows { history: 3, future: 2, lead: 1, layout, apart: true };
        let selection = Selection { macros: vec![5], columns: None };
        let plan = drawn.plan(&batch, windows, &selection).unwrap();
        let filled_by = |ring: &mut TransitionRing| {
            let floats: usize = plan.arena_shape().iter().product();
            let days: usize = plan.mask_shape().iter().product();
            let mut memory = vec![(vec![f32::NAN; floats], vec![7; days]); plan.arenas()];
            let mut lent: Vec<_> =
                memory.iter_mut().map(|(arena, mask)| (&mut arena[..], &mut mask[..])).collect();
            ring.fill(&plan, &batch, &selection, &mut lent);
            memory
        };
        assert_eq!(filled_by(&mut other), filled_by(&mut drawn));
    }
}

#[test]
fn a_draw_that_was_for_nothing_is_given_back_unless_another_came_after_it() {
    let rings = || {
        let mut made = ring(8);
        made.add(&numbered(0, 8)).unwrap();
        made
    };
    let (mut refused, mut other) = (rings(), rings());
    let mut batch = TransitionBatch::default();
    refused.draw_into(5, &mut batch).unwrap();
    refused.give_back(refused.batches_drawn());
    assert_eq!(refused.draw_indices(8).unwrap(), other.draw_indices(8).unwrap());
    refused.draw_into(5, &mut batch).unwrap();
    let drawn = refused.batches_drawn();
    let later = refused.draw_indices(8).unwrap();
    refused.give_back(drawn);
    assert_ne!(refused.draw_indices(8).unwrap(), later, "no draws come twice");
}

#[test]
fn windows_of_many_times_the_panel_are_refused() {
    let mut ring = ring(10);
    ring.add(&numbered(0, 6)).unwrap();
    let batch = ring.get(&[1, 2]).unwrap();
    let most = ring.panel().longest_window();
    let plan = |history, future, lead| {
        let windows = Windows { history, future, lead, ..Windows::default() };
        ring.plan(&batch, windows, &Selection::default())
    };
    plan(most, most, most).unwrap();
    for (history, future, lead) in [(most + 1, 1, 0), (1, usize::MAX, 0), (0, 0, most + 1)] {
        let refused = plan(history, future, lead);
        let Err(TransitionError::Window(WindowError::TooLong { limit, .. })) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(limit, most);
    }
}

fn named(folder: &Path, capacity: u64, lanes: u32, panel: Panel) -> TransitionRing {
    let options = TransitionOptions {
        name: Some("moves".to_owned()),
        base: Base::at(folder),
        lanes,
        ..TransitionOptions::with_capacity(capacity)
    };
    TransitionRing::create(panel, shape(), options).unwrap()
}

#[test]
fn another_handle_finds_ring_and_panel_by_name_and_adds_in_a_lane_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let base = Base::at(folder.path());
    let shared = data(1.0).share("prices", &base, Exist::Error, false).unwrap();
    let mut first = named(folder.path(), 11, 2, shared);
    let mut second = TransitionRing::attach(&base, "moves", None, 1, 1).unwrap();
    assert_eq!(second.shape(), &shape());
    assert_eq!((second.capacity(), second.len().unwrap()), (11, 0));
    first.add(&numbered(0, 9)).unwrap();
    second.add(&numbered(100, 4)).unwrap();
    // Six places for the first adder, five for the second.
    let all = [6, 7, 8, 3, 4, 5, 100, 101, 102, 103];
    assert_eq!(held(&first), all);
    assert_eq!(held(&second), all);
    second.add(&numbered(104, 2)).unwrap();
    assert_eq!(held(&first), [6, 7, 8, 3, 4, 5, 105, 101, 102, 103, 104]);
    assert_eq!(first.len().unwrap(), 11);

    let refused = first.clear().unwrap_err();
    assert!(
        matches!(&refused, TransitionError::HeldByOthers { held, .. } if held.len() == 1),
        "{refused}"
    );
    let mut third = TransitionRing::attach(&base, "moves", None, 1, 1).unwrap();
    let refused = third.add(&numbered(0, 1)).unwrap_err();
    assert!(matches!(refused, TransitionError::NoPlace { places: 2, .. }), "{refused}");
    assert_eq!(held(&first).len(), 11, "nothing was lost");

    // A released lane continues at its position.
    drop(second);
    third.add(&numbered(200, 1)).unwrap();
    assert_eq!(held(&first), [6, 7, 8, 3, 4, 5, 105, 200, 102, 103, 104]);
    drop(third);
    first.clear().unwrap();
    assert!(first.is_empty().unwrap());
    let last = TransitionRing::attach(&base, "moves", None, 1, 1).unwrap();
    assert!(last.is_empty().unwrap(), "cleared for everybody, before the next is added");
}

#[test]
fn a_ring_of_other_sizes_is_not_joined_as_what_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let made = named(folder.path(), 10, 2, panel());
    let joined = |capacity, lanes, shape| {
        let options = TransitionOptions {
            name: Some("moves".to_owned()),
            base: Base::at(folder.path()),
            exist: Exist::Attach,
            lanes,
            ..TransitionOptions::with_capacity(capacity)
        };
        TransitionRing::create(panel(), shape, options)
    };
    assert_eq!(joined(10, 2, shape()).unwrap().capacity(), made.capacity());
    let wide = TransitionShape { tickers: 3, ..shape() };
    for (capacity, lanes, shape, message) in [
        // Every lane has the same number of rows.
        (9, 2, shape(), "it has capacity 10, but capacity 9 was requested; ask for the same"),
        (10, 1, shape(), "it has n_adders 2, but n_adders 1 was requested; ask"),
        (
            30,
            3,
            wide.clone(),
            "it has n_adders 2, capacity 10, 2 tickers, action_shape [2, 2] and n_objectives 2, \
             but",
        ),
        (10, 2, wide, "but 3 tickers, action_shape [2, 2] and n_objectives 2 was requested; ask"),
    ] {
        let refused = joined(capacity, lanes, shape).unwrap_err().to_string();
        assert!(refused.starts_with("the buffer named `moves` differs from"), "{refused}");
        assert!(refused.contains(message), "{refused}");
    }
}

#[test]
fn rings_of_something_else_or_of_another_panel_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let base = Base::at(folder.path());
    let private = named(folder.path(), 10, 1, panel());
    let refused = TransitionRing::attach(&base, "moves", None, 1, 1).unwrap_err();
    assert!(matches!(refused, TransitionError::NotTransitions { .. }), "{refused}");
    TransitionRing::attach(&base, "moves", Some(panel()), 1, 1).unwrap();
    let refused = TransitionRing::attach(&base, "moves", Some(data(2.0).into_heap()), 1, 1);
    assert!(matches!(refused.unwrap_err(), TransitionError::OtherPanel { .. }));
    let refused = TransitionRing::attach(&base, "moves", Some(without_macro()), 1, 1).unwrap_err();
    assert!(matches!(refused, TransitionError::OtherMacroTickers { .. }), "{refused}");

    let path = private.ring().path().unwrap().join("transitions.json");
    let whole = fs::read_to_string(&path).unwrap();
    for text in [&whole[..9], "{}", &whole.replace("\"capacity\":10", "\"capacity\":900")] {
        fs::write(&path, text).unwrap();
        let refused = TransitionRing::attach(&base, "moves", Some(panel()), 1, 1).unwrap_err();
        assert!(matches!(refused, TransitionError::NotTransitions { .. }), "{refused}");
    }
    let schema = backcast_core::Schema::builder()
        .column("obs", backcast_core::DType::F32, &[2])
        .build()
        .unwrap();
    let options = RingOptions::with_capacity(10).base(base.clone());
    let _other = Ring::create("other", &schema, options).unwrap();
    let refused = TransitionRing::attach(&base, "other", Some(panel()), 1, 1).unwrap_err();
    assert!(refused.to_string().contains("has no transitions.json"), "{refused}");
}

#[test]
fn a_file_brings_back_slots_and_draws() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("moves.bct");
    let mut saved = ring(8);
    saved.add(&numbered(0, 21)).unwrap();
    saved.draw_indices(3).unwrap();
    saved.save(&path).unwrap();

    let mut loaded = ring(8);
    loaded.add(&numbered(50, 3)).unwrap();
    loaded.load(&path).unwrap();
    assert_eq!(held(&loaded), held(&saved));
    assert_eq!(loaded.draw_indices(8).unwrap(), saved.draw_indices(8).unwrap());
    for ring in [&mut loaded, &mut saved] {
        ring.add(&numbered(21, 3)).unwrap();
    }
    assert_eq!(held(&loaded), held(&saved), "overwriting goes on where it stood");

    let mut smaller = ring(3);
    smaller.load(&path).unwrap();
    let mut newest = held(&smaller);
    newest.sort_unstable();
    assert_eq!(newest, [18, 19, 20]);
    let mut larger = ring(30);
    larger.load(&path).unwrap();
    assert_eq!(held(&larger), (13..21).collect::<Vec<_>>());
}

#[test]
fn a_file_cut_or_changed_or_of_something_else_is_refused_and_all_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("moves.bct");
    let mut kept = ring(8);
    kept.add(&numbered(0, 5)).unwrap();
    kept.save(&path).unwrap();
    let whole = fs::read(&path).unwrap();
    let before = held(&kept);
    for at in (0..whole.len()).step_by(7).chain([whole.len() - 1]) {
        fs::write(&path, &whole[..at]).unwrap();
        assert!(matches!(kept.load(&path), Err(TransitionError::BadFile { .. })), "cut at {at}");
        let mut changed = whole.clone();
        changed[at] ^= 4;
        fs::write(&path, changed).unwrap();
        assert!(
            matches!(kept.load(&path), Err(TransitionError::BadFile { .. })),
            "changed at {at}"
        );
    }
    assert_eq!(held(&kept), before);

    fs::write(&path, &whole).unwrap();
    let options = || TransitionOptions::with_capacity(8);
    let other = data(2.0).into_heap();
    let mut elsewhere = TransitionRing::create(other, shape(), options()).unwrap();
    assert!(matches!(elsewhere.load(&path), Err(TransitionError::OtherPanel { .. })));
    let mut untold = TransitionRing::create(without_macro(), shape(), options()).unwrap();
    assert_eq!(
        untold.load(&path).unwrap_err().to_string(),
        format!(
            "{} belongs to the panel with the macro ticker VIX, this one has no macro tickers; \
             name the same where the prices are loaded (macro_tickers, or macro of a Panel)",
            path.display()
        )
    );
    let shape = TransitionShape { objectives: 3, ..shape() };
    let mut wider = TransitionRing::create(panel(), shape, options()).unwrap();
    assert!(matches!(wider.load(&path), Err(TransitionError::OtherShape { .. })));
    assert!(matches!(kept.load(folder.path()), Err(TransitionError::File { .. })));
    let nowhere = folder.path().join("no").join("folder");
    assert!(matches!(kept.save(nowhere), Err(TransitionError::File { .. })));
    assert_eq!(held(&kept), before);
}
