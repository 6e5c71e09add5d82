//! Windows of drawn transitions against the panel, in both layouts.

use backcast_market::{
    Panel, TransitionBatch, TransitionError, TransitionLayout, TransitionOptions, TransitionRing,
    TransitionSelection, TransitionShape, TransitionSide, TransitionWindows, WindowError,
};

use super::{numbered, panel, ring, shape};

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
            for layout in [TransitionLayout::Ticker, TransitionLayout::Batched] {
                let windows = TransitionWindows { history, future, lead: 1, layout, apart };
                let selection =
                    TransitionSelection { macros: macros.clone(), columns: columns.clone() };
                compare(&mut ring, &batch, windows, &selection);
            }
        }
        // All samples have the same tickers, in the panel's order and in another.
        for first in [0, 1] {
            let alike = ring.get(&(first..1_200).step_by(4).collect::<Vec<_>>()).unwrap();
            assert!(alike.tokens.chunks_exact(2).all(|tokens| *tokens == alike.tokens[..2]));
            for layout in [TransitionLayout::Ticker, TransitionLayout::Batched] {
                let windows =
                    TransitionWindows { history: 3, future: 2, lead: 1, layout, apart: false };
                let selection = TransitionSelection { macros: macros.clone(), columns: None };
                compare(&mut ring, &alike, windows, &selection);
            }
        }
    }
}

fn compare(
    ring: &mut TransitionRing,
    batch: &TransitionBatch,
    windows: TransitionWindows,
    selection: &TransitionSelection,
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
                        TransitionLayout::Batched => Some(u32::from(own[slot]) - 1),
                        TransitionLayout::Ticker => Some(plan.unique()[slot])
                            .filter(|ticker| own.iter().any(|own| u32::from(*own) == ticker + 1)),
                    }
                };
                let cell = match windows.layout {
                    TransitionLayout::Ticker => slot * batch.len() + sample,
                    TransitionLayout::Batched => sample * slots + slot,
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
    let windows = TransitionWindows { history: 2, future: 1, ..TransitionWindows::default() };
    let plan =
        |of: &[i64]| ring.plan(&ring.get(of).unwrap(), windows, &TransitionSelection::default());
    assert_eq!(plan(&[0, 1, 3]).unwrap().arenas(), 1);
    assert_eq!(plan(&[0, 2, 3]).unwrap().arenas(), 2);
}

#[test]
fn a_batch_is_filled_by_any_ring_of_its_panel_whatever_the_sizes_of_its_transitions() {
    let mut drawn = ring(40);
    drawn.add(&numbered(0, 40)).unwrap();
    let wider = TransitionShape { tickers: 4, action: vec![4], objectives: 1 };
    let options = TransitionOptions::with_capacity(5);
    let mut other = TransitionRing::create(drawn.panel().clone(), wider, options).unwrap();
    let batch = drawn.get(&(0..40).collect::<Vec<_>>()).unwrap();
    for layout in [TransitionLayout::Ticker, TransitionLayout::Batched] {
        let windows = TransitionWindows { history: 3, future: 2, lead: 1, layout, apart: true };
        let selection = TransitionSelection { macros: vec![5], columns: None };
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
fn windows_of_many_times_the_panel_are_refused() {
    let mut ring = ring(10);
    ring.add(&numbered(0, 6)).unwrap();
    let batch = ring.get(&[1, 2]).unwrap();
    let most = ring.panel().longest_window();
    let plan = |history, future, lead| {
        let windows = TransitionWindows { history, future, lead, ..TransitionWindows::default() };
        ring.plan(&batch, windows, &TransitionSelection::default())
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
