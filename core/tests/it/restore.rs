//! Restored rings: their rows, seen through other handles.

use backcast_core::{
    Base, DType, Exist, RestoreError, Ring, RingOptions, Schema, SegmentError, collect_garbage,
    list_objects,
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
