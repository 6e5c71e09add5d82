//! Rings that are made with rows in them, as other handles see them.

use backcast_core::{
    Base, DType, Exist, Filling, Leftover, PartialRing, ReadError, RestoreError, Ring, RingOptions,
    Schema, SegmentError, collect, list,
};

fn schema() -> Schema {
    Schema::builder().column("reward", DType::F64, &[]).build().unwrap()
}

/// One row per number of `seq`, with the number as its reward.
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
fn what_fails_leaves_nothing_and_takes_nothing_away() {
    let dir = tempfile::tempdir().unwrap();
    let base = Base::at(dir.path());
    let options = || RingOptions::with_capacity(50).base(base.clone());
    let gap = restored("pong", options(), &[1, 3]).unwrap_err();
    assert!(matches!(gap, RestoreError::OutOfOrder { expected: 2, found: 3, .. }), "{gap}");
    assert_eq!(list(&base).unwrap(), []);

    let old = restored("pong", options(), &[1, 2]).unwrap();
    restored("pong", options().exist(Exist::Replace), &[1, 3]).unwrap_err();
    assert_eq!(Ring::attach_in(&base, "pong").unwrap().uuid(), old.uuid());
    let new = restored("pong", options().exist(Exist::Replace), &[7, 8]).unwrap();
    assert_eq!(Ring::attach_in(&base, "pong").unwrap().uuid(), new.uuid());
    assert_eq!(list(&base).unwrap().len(), 1, "no remnant is left");
}

#[test]
fn a_snapshot_stands_beside_its_ring_and_can_be_leased_whole() {
    let dir = tempfile::tempdir().unwrap();
    let base = Base::at(dir.path());
    let options = || RingOptions::with_capacity(4).base(base.clone());
    let ring = restored("pong", options(), &[1, 2]).unwrap();
    let snapshot = restored("pong@best", options().snapshot(true), &[5, 6, 7, 8]).unwrap();
    let seen = Ring::attach_in(&base, "pong@best").unwrap();
    assert!(seen.is_snapshot());
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
    assert_eq!(list(&base).unwrap().len(), 1, "the last holder of a snapshot removes it");
    drop(ring);
    assert_eq!(collect(&base).unwrap(), []);
}

/// Gives rows of lane 0, with their numbers as rewards.
fn give(filling: &mut Filling<'_>, seq: &[u64]) -> Result<(), RestoreError> {
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let reward: Vec<f64> = seq.iter().map(|seq| *seq as f64).collect();
    let (zeros, words) = (vec![0_u64; seq.len()], vec![0_u32; seq.len()]);
    let columns: [&[u8]; 5] = [
        bytemuck::cast_slice(seq),
        bytemuck::cast_slice(&zeros),
        bytemuck::cast_slice(&words),
        bytemuck::cast_slice(&words),
        bytemuck::cast_slice(&reward),
    ];
    filling.rows(0, seq.len() as u64, &columns)
}

#[test]
fn rows_that_were_stored_before_a_failure_can_be_kept() {
    let dir = tempfile::tempdir().unwrap();
    let base = Base::at(dir.path());
    let options = || RingOptions::with_capacity(50).base(base.clone());
    let partial = PartialRing::claim(&base, "pong").unwrap();
    let failed = Ring::restore_in(&partial, &schema(), options(), |filling| {
        assert!(matches!(filling.leftover(), Leftover::Nothing));
        filling.begin(0, 7..10)?;
        give(filling, &[7, 8])
    });
    assert!(matches!(failed, Err(RestoreError::Incomplete { .. })), "{failed:?}");
    assert!(Ring::attach_in(&base, "pong").is_err());
    drop(partial);

    let partial = PartialRing::claim(&base, "pong").unwrap();
    let ring = Ring::restore_in(&partial, &schema(), options(), |filling| {
        assert!(matches!(filling.leftover(), Leftover::Ring));
        filling.begin(0, 7..10)?;
        let [mut seq, mut episode, mut t, mut flags, mut reward] =
            [8, 8, 4, 4, 8].map(|width| vec![0; 2 * width]);
        let mut columns: [&mut [u8]; 5] = [&mut seq, &mut episode, &mut t, &mut flags, &mut reward];
        filling.read_back(0, 7..9, &mut columns).unwrap();
        let outside = filling.read_back(0, 9..11, &mut columns).unwrap_err();
        assert!(matches!(outside, ReadError::NotReadable { oldest: 7, head: 10, .. }), "{outside}");
        let none = filling.read_back(1, 7..9, &mut columns).unwrap_err();
        assert!(matches!(none, ReadError::NoSuchLane { .. }), "{none}");
        assert_eq!(reward, [7_f64, 8.0].map(f64::to_ne_bytes).concat());
        let more = filling.keep(0, 4).unwrap_err();
        assert!(matches!(more, RestoreError::TooManyRows { .. }), "{more}");
        filling.keep(0, 2)?;
        assert_eq!(filling.missing(0)?, Some(9..10));
        give(filling, &[9])
    });
    let ring = ring.unwrap();
    partial.remove().unwrap();
    assert_eq!(ring.lane_span(0), Some(7..10));
    assert_eq!(ring.rows(0, 7..10).unwrap().column::<f64>("reward").unwrap(), [7.0, 8.0, 9.0]);
    assert_eq!(list(&base).unwrap().len(), 1);
}

#[test]
fn a_ring_that_is_not_the_one_asked_for_is_not_gone_on_with() {
    let dir = tempfile::tempdir().unwrap();
    let base = Base::at(dir.path());
    let options = |rows: u64| RingOptions::with_capacity(rows).base(base.clone());
    let partial = PartialRing::claim(&base, "pong").unwrap();
    let stop = |_: &mut Filling<'_>| Err(RestoreError::NotBegun { lane: 0 });
    Ring::restore_in(&partial, &schema(), options(50), stop).unwrap_err();
    let ring = Ring::restore_in(&partial, &schema(), options(60), |filling| {
        let Leftover::Useless(why) = filling.leftover() else { panic!("{:?}", filling.leftover()) };
        assert!(matches!(why, SegmentError::Different { .. }), "{why}");
        Ok::<(), RestoreError>(())
    });
    assert_eq!(ring.unwrap().lane_capacity(), 60);
}
