//! Restored rings: their rows, seen through other handles.

use std::ops::Range;

use backcast_core::{
    AutoresetMode, Base, ClaimTableState, DType, Exist, Filling, Interrupt, LaneLeaves, LaneValues,
    LearnedOptions, LearnedState, PriorityOptions, RestoreError, Ring, RingOptions, RowIndex,
    SamplerOptions, Schema, SegmentError, Selector, StepColumns, TableOptions, TableState, Wait,
    WriterOptions, collect_garbage, list_objects,
};

fn schema() -> Schema {
    Schema::builder().column("reward", DType::F64, &[]).build().unwrap()
}

/// Restores one row per number of `seq`, with the number as its reward.
fn restored(name: &str, options: RingOptions, seq: &[u64]) -> Result<Ring, RestoreError> {
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let reward: Vec<f64> = seq.iter().map(|seq| *seq as f64).collect();
    let (zeros, words) = (vec![0_u64; seq.len()], vec![0_u32; seq.len()]);
    Ring::restore(name, &schema(), options, |filling| {
        let (first, count) = (seq[0], seq.len() as u64);
        filling.begin(0, first..first + count)?;
        let columns: [&[u8]; 5] = [
            bytemuck::cast_slice(seq),
            bytemuck::cast_slice(&zeros),
            bytemuck::cast_slice(&words),
            bytemuck::cast_slice(&words),
            bytemuck::cast_slice(&reward),
        ];
        filling.rows(0, count, &columns)
    })
}

#[test]
fn a_restored_ring_is_found_by_name_with_its_rows() {
    let dir = tempfile::tempdir().unwrap();
    let base = Base::at(dir.path());
    let options = RingOptions::with_capacity(50).base(base.clone());
    let ring = restored("pong", options, &[90, 91, 92]).unwrap();
    let seen = Ring::attach_in(&base, "pong").unwrap();
    assert_eq!(seen.uuid(), ring.uuid());
    assert_eq!(seen.lane_span(0), Some(90..93));
    assert_eq!(seen.rows(0, 90..93).unwrap().column::<f64>("reward").unwrap(), [90.0, 91.0, 92.0]);
    assert!(!seen.is_snapshot());
}

#[test]
fn a_failed_restore_creates_and_removes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let base = Base::at(dir.path());
    let options = || RingOptions::with_capacity(50).base(base.clone());
    let gap = restored("pong", options(), &[1, 3]).unwrap_err();
    assert!(matches!(gap, RestoreError::OutOfOrder { expected: 2, found: 3, .. }), "{gap}");
    assert_eq!(list_objects(&base).unwrap(), []);

    let old = restored("pong", options(), &[1, 2]).unwrap();
    restored("pong", options().exist(Exist::Replace), &[1, 3]).unwrap_err();
    assert_eq!(Ring::attach_in(&base, "pong").unwrap().uuid(), old.uuid());
    let new = restored("pong", options().exist(Exist::Replace), &[7, 8]).unwrap();
    assert_eq!(Ring::attach_in(&base, "pong").unwrap().uuid(), new.uuid());
    assert_eq!(list_objects(&base).unwrap().len(), 1, "no remnant is left");
    let attached = restored("pong", options().exist(Exist::Attach), &[7, 8]).unwrap_err();
    assert!(matches!(attached, RestoreError::Taken { .. }), "it would lack the rows: {attached}");
}

#[test]
fn a_snapshot_stands_beside_its_ring_and_can_be_leased_whole() {
    let dir = tempfile::tempdir().unwrap();
    let base = Base::at(dir.path());
    let options = || RingOptions::with_capacity(4).base(base.clone());
    let ring = restored("pong", options(), &[1, 2]).unwrap();
    let best = options().snapshot(true).snapshot_of("pong at step 9");
    let snapshot = restored("pong@best", best, &[5, 6, 7, 8]).unwrap();
    let seen = Ring::attach_in(&base, "pong@best").unwrap();
    assert!(seen.is_snapshot());
    assert_eq!((seen.snapshot_of(), ring.snapshot_of()), ("pong at step 9", ""));
    assert_eq!(seen.lease(0, 5..9).unwrap().len(), 4);
    assert!(ring.lease(0, 1..3).is_err(), "of a live lane of four rows one can be leased");

    let refused = restored("pong@mine", options(), &[1]).unwrap_err();
    assert!(refused.to_string().contains('@'), "{refused}");
    for name in ["@", "a@", "@b", "a@b@c", "a@../b"] {
        let Err(refused) = Ring::attach_in(&base, name) else { panic!("{name} is no name") };
        let backcast_core::RingError::Segment(SegmentError::BadName { .. }) = refused else {
            panic!("{name}: {refused}")
        };
    }
    drop((seen, snapshot));
    assert_eq!(list_objects(&base).unwrap().len(), 1, "the last holder of a snapshot removes it");
    drop(ring);
    assert_eq!(collect_garbage(&base).unwrap(), []);
}

/// Makes a ring of two lanes, of which each has the rows 4 to 19 of one episode.
fn two_lanes() -> Ring {
    let ring = Ring::heap(&schema(), RingOptions::with_capacity(32).lanes(2)).unwrap();
    let options = WriterOptions::lanes(2).autoreset(AutoresetMode::NextStep);
    let mut writer = ring.writer(options).unwrap();
    for step in 0..20_u8 {
        let reward = [f64::from(step); 2];
        let columns = StepColumns::of(ring.schema()).with("reward", &reward).unwrap();
        writer.append(&columns.step(&[false; 2], &[false; 2]).unwrap()).unwrap();
    }
    assert_eq!([0, 1].map(|lane| ring.lane_span(lane)), [Some(4..20), Some(4..20)]);
    drop(writer);
    ring
}

/// Restores the rows of a ring, and what `add` adds.
fn with_rows_of(
    ring: &Ring,
    add: impl Fn(&mut Filling<'_>) -> Result<(), RestoreError>,
) -> Result<Ring, RestoreError> {
    Ring::restore_heap(ring.schema(), ring.options(), |filling| {
        for lane in 0..ring.lanes() {
            let range = ring.lane_span(lane).unwrap();
            filling.begin(lane, range.clone())?;
            let rows = ring.rows(lane, range).unwrap();
            let columns: Vec<&[u8]> =
                rows.columns().iter().map(|of| rows.bytes(of.name()).unwrap()).collect();
            filling.rows(lane, rows.len() as u64, &columns)?;
        }
        add(filling)
    })
}

fn changed<T: Clone>(state: &T, change: fn(&mut T)) -> T {
    let mut state = state.clone();
    change(&mut state);
    state
}

/// Fails unless a table was refused for its state.
fn assert_refused(restored: Result<Ring, RestoreError>, table: &str, change: usize) {
    match restored.map(drop) {
        Err(RestoreError::BadTable { table: refused, .. }) => assert_eq!(refused, table),
        other => panic!("change {change} of the table `{table}`: {other:?}"),
    }
}

fn priorities_of(ring: &Ring) -> TableState {
    let never = Interrupt::never();
    let mut wait = Wait::new(None, &never);
    let mut states: Vec<_> = ring.table_states(&mut wait).unwrap().collect();
    states.remove(0).1.unwrap()
}

#[test]
fn priorities_of_rows_that_a_restored_ring_lacks_are_refused() {
    let ring = two_lanes();
    let mut priorities = ring.priorities(&PriorityOptions::alpha(0.6)).unwrap();
    assert_eq!(priorities.update(&[6_i64], &[3.0]).unwrap(), 0);
    let state = priorities_of(&ring);
    assert_eq!(state.lanes.iter().map(LaneLeaves::rows).collect::<Vec<_>>(), [4..19, 4..19]);
    let restored = |given: &TableState| with_rows_of(&ring, |filling| filling.table(given));
    let accepted: [fn(&mut TableState); 5] = [
        |_| {},
        |state| state.lanes[0].leaves[5] = 0,
        |state| state.lanes[1].leaves.truncate(3),
        |state| state.lanes[1].leaves.clear(),
        |state| state.lanes[1] = LaneLeaves { first: 99, leaves: Vec::new() },
    ];
    for change in accepted {
        let given = changed(&state, change);
        let found = priorities_of(&restored(&given).unwrap());
        let leaves = |of: &TableState| of.lanes.iter().map(|of| of.leaves.clone()).collect();
        let [found_leaves, given_leaves]: [Vec<Vec<u64>>; 2] = [&found, &given].map(leaves);
        assert_eq!(found_leaves, given_leaves);
        assert_eq!((found.settings, found.largest), (given.settings, given.largest));
    }
    let refused: [fn(&mut TableState); 9] = [
        |state| drop(state.lanes.pop()),
        |state| state.lanes.push(LaneLeaves::default()),
        |state| state.largest = u64::MAX,
        |state| state.lanes[1].leaves[2] = u64::MAX,
        |state| state.lanes[0].first = 3,
        |state| state.lanes[0].first = 5,
        |state| state.lanes[1].leaves.push(1),
        |state| state.lanes[1] = LaneLeaves { first: 0, leaves: vec![1] },
        |state| state.lanes[1] = LaneLeaves { first: 30, leaves: vec![1] },
    ];
    for (at, change) in refused.into_iter().enumerate() {
        assert_refused(restored(&changed(&state, change)), &state.name, at);
    }
}

fn claims_of(ring: &Ring) -> ClaimTableState {
    ring.claim_states().unwrap().remove(0).1.unwrap()
}

#[test]
fn claims_of_rows_that_a_restored_ring_lacks_are_refused() {
    let ring = two_lanes();
    let queue = Selector::Table(TableOptions::consume("queue").max_times_sampled(3));
    ring.sampler(SamplerOptions::seeded(1).selector(queue)).unwrap().sample(8).unwrap();
    let state = claims_of(&ring);
    assert!((8..state.pass.total()).contains(&state.next), "{state:?}");
    let restored = |given: &ClaimTableState| with_rows_of(&ring, |filling| filling.claims(given));
    let accepted: [fn(&mut ClaimTableState); 6] = [
        |_| {},
        |state| state.next = state.pass.total(),
        |state| state.pass.round = 2,
        |state| state.pass.ranges[1].end = 20,
        |state| state.pass.ranges[1] = 50..50,
        |state| (state.settings.renewed, state.settings.times) = (true, 1),
    ];
    for change in accepted {
        let given = changed(&state, change);
        let found = claims_of(&restored(&given).unwrap());
        assert_eq!((found.next, found.settings), (given.next, given.settings));
        let [found, given] = [found, given].map(|state| (state.pass.round, state.pass.ranges));
        assert_eq!(found, given);
    }
    let refused: [fn(&mut ClaimTableState); 9] = [
        |state| _ = state.pass.ranges.pop(),
        |state| state.pass.ranges.push(0..0),
        |state| state.settings.times = 0,
        |state| state.pass.round = 3,
        |state| state.settings.renewed = true,
        |state| {
            (state.settings.renewed, state.settings.times) = (true, 1);
            state.pass.round = 1;
        },
        |state| state.pass.ranges[1].end = 21,
        |state| state.pass.ranges[1] = Range { start: 9, end: 8 },
        |state| state.next = state.pass.total() + 1,
    ];
    for (at, change) in refused.into_iter().enumerate() {
        assert_refused(restored(&changed(&state, change)), &state.name, at);
    }
}

fn learned_of(ring: &Ring) -> LearnedState {
    let mut states: Vec<_> = ring.learned_states().unwrap().collect();
    states.remove(0).1.unwrap()
}

#[test]
fn learned_values_of_rows_that_a_restored_ring_lacks_are_refused() {
    let ring = two_lanes();
    let options = LearnedOptions::new("online");
    let options = options.column("value", DType::F32).column("cluster", DType::I32);
    let learned = ring.learned(&options).unwrap();
    let index = [RowIndex::new(0, 4), RowIndex::new(1, 19)];
    assert_eq!(learned.update("value", &index, &[0.5_f32, 0.25]).unwrap(), 0);
    assert_eq!(learned.update("cluster", &index[1..], &[7_i32]).unwrap(), 0);
    let state = learned_of(&ring);
    assert_eq!(state.lanes.iter().map(|of| of.rows(2)).collect::<Vec<_>>(), [4..20, 4..20]);
    let restored = |given: &LearnedState| with_rows_of(&ring, |filling| filling.learned(given));
    assert_eq!(learned_of(&restored(&state).unwrap()), state);
    let accepted: [fn(&mut LearnedState); 3] = [
        |state| state.lanes[1].values.clear(),
        |state| state.lanes[0].values.truncate(6),
        |state| state.lanes[1] = LaneValues { first: 99, values: Vec::new() },
    ];
    for change in accepted {
        let found = learned_of(&restored(&changed(&state, change)).unwrap());
        assert_eq!((found.columns, found.lanes[0].values[0]), (state.columns.clone(), VALUE));
    }
    let refused: [fn(&mut LearnedState); 9] = [
        |state| drop(state.lanes.pop()),
        |state| state.lanes.push(LaneValues::default()),
        |state| state.lanes[0].first = 3,
        |state| state.lanes[0].first = 5,
        |state| state.lanes[0].values.push(None),
        |state| state.lanes[1].values.extend([None, None]),
        |state| state.lanes[1] = LaneValues { first: 0, values: vec![Some(1), None] },
        |state| state.columns.clear(),
        |state| state.columns[1].name = "reward".to_owned(),
    ];
    for (at, change) in refused.into_iter().enumerate() {
        assert_refused(restored(&changed(&state, change)), &state.name, at);
    }
}

/// Bits of the value 0.5.
const VALUE: Option<u32> = Some(0x3f00_0000);
