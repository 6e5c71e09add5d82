//! Counts of leases: which one stalls a writer, and how many were granted.

use crate::{DType, LanePolicy, Ring, RingOptions, Schema, StepColumns, Writer, WriterOptions};

/// Makes a ring of two lanes with a writer for each. Each lane has 8 rows.
fn two_lanes() -> (Ring, [Writer; 2]) {
    let schema = Schema::builder().column("obs", DType::U8, &[]).build().unwrap();
    let options = RingOptions::with_capacity(64).lanes(2).lane_policy(LanePolicy::Fail);
    let ring = Ring::heap(&schema, options).unwrap();
    let mut writers = [0, 1].map(|_| ring.writer(WriterOptions::lanes(1)).unwrap());
    for writer in &mut writers {
        assert!((0..8).all(|_| append(writer)));
    }
    (ring, writers)
}

/// Appends a row, unless a lease is in the way. Returns whether it was appended.
fn append(writer: &mut Writer) -> bool {
    let schema = writer.schema().clone();
    let columns = StepColumns::of(&schema).with("obs", &[7_u8]).unwrap();
    writer.try_append(&columns.step(&[false], &[false]).unwrap()).is_ok()
}

/// Appends until leases have made `stalls` appends fail.
fn stall(ring: &Ring, writer: &mut Writer, stalls: u32) {
    let rows = 2 * ring.slots() + u64::from(stalls);
    let failed = (0..rows).filter(|_| !append(writer)).take(stalls as usize).count();
    assert_eq!(failed, stalls as usize);
}

#[test]
fn a_stall_counts_for_the_lease_that_is_in_the_way() {
    let (ring, [mut first, mut second]) = two_lanes();
    let [newer, twin] = [(); 2].map(|()| ring.lease(0, 4..8).unwrap());
    let older = ring.lease(0, 0..4).unwrap();
    let elsewhere = ring.lease(1, 0..4).unwrap();
    let stalls = || [&newer, &older, &elsewhere].map(crate::Lease::stalls);
    stall(&ring, &mut first, 3);
    assert_eq!(stalls(), [0, 3, 0]);
    stall(&ring, &mut second, 2);
    assert_eq!(stalls(), [0, 3, 2]);
    // An end of the older lease puts the newer one in the way.
    drop(older);
    stall(&ring, &mut first, 1);
    assert_eq!([&newer, &twin, &elsewhere].map(crate::Lease::stalls), [1, 1, 2]);
    drop(twin);
    stall(&ring, &mut first, 1);
    assert_eq!([&newer, &elsewhere].map(crate::Lease::stalls), [2, 2]);
    assert_eq!(ring.stats().readers[0].stalls, 7);
}

#[test]
fn every_lease_of_threads_that_share_a_handle_is_counted() {
    const LEASES: u64 = 20_000;
    let (ring, _writers) = two_lanes();
    // The reader slot stays claimed, and its counters with it.
    let _kept = ring.lease(0, 0..1).unwrap();
    std::thread::scope(|scope| {
        for lane in [0, 1] {
            let ring = &ring;
            scope.spawn(move || (0..LEASES).for_each(|_| drop(ring.lease(lane, 0..1).unwrap())));
        }
    });
    assert_eq!(ring.stats().readers[0].leases, 2 * LEASES + 1);
}
