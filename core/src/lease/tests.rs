//! Counts of leases: which one stalls a writer, and how many were granted.

use crate::{
    DType, LanePolicy, LeaseError, Ring, RingOptions, Schema, StepColumns, Writer, WriterOptions,
};

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

/// Makes a ring of one lane with two columns, whose memory has begun a second lap of 20 rows.
fn two_columns() -> (Ring, Writer) {
    let schema = Schema::builder().column("obs", DType::U16, &[3]).column("a", DType::U8, &[]);
    let schema = schema.build().unwrap();
    let ring = Ring::heap(&schema, RingOptions::with_capacity(64)).unwrap();
    let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
    for t in 0..ring.slots() + 20 {
        let t = u16::try_from(t).unwrap();
        let (obs, a) = ([t, t + 1_000, t + 2_000], [t.to_le_bytes()[0]]);
        let columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
        let columns = columns.with("a", &a).unwrap();
        writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
    }
    (ring, writer)
}

#[test]
fn a_lease_has_the_rows_that_a_copy_has_and_no_others() {
    let (ring, _writer) = two_columns();
    let range = ring.slots() + 4..ring.slots() + 20;
    let (lease, rows) = (ring.lease(0, range.clone()).unwrap(), ring.rows(0, range.clone()));
    let rows = rows.unwrap();
    assert_eq!((lease.place(), lease.len(), lease.is_empty()), ((0, range), 16, false));
    for (column, of) in lease.columns().iter().enumerate() {
        let (name, width) = (of.name(), of.width());
        let copied = rows.bytes(name).unwrap();
        for row in 0..16 {
            let mut out = vec![0; width];
            assert!(lease.copy_row(column, row, &mut out), "{name}");
            assert_eq!(out[..], copied[row * width..][..width], "{name} of row {row}");
        }
        assert!(!lease.copy_row(column, 16, &mut vec![0; width]), "{name} has 16 rows");
        assert!(!lease.copy_row(column, 0, &mut vec![0; width + 1]), "{name} has another width");
    }
    assert!(!lease.copy_row(lease.columns().len(), 0, &mut [0]));
}

#[test]
fn columns_of_a_lease_lie_where_their_widths_put_them() {
    let (ring, _writer) = two_columns();
    let first = ring.slots() + 4;
    let [one, later] = [first, first + 3].map(|from| ring.lease(0, from..from + 2).unwrap());
    let header = one.address(0).unwrap().0.addr();
    // Sequence number, episode, step and flags share an array of 24 bytes a row.
    for (column, offset) in [(0, 0), (1, 8), (2, 16), (3, 20)] {
        let (address, stride) = one.address(column).unwrap();
        assert_eq!((address.addr() - header, stride), (offset, 24), "column {column}");
    }
    for (column, of) in one.columns().iter().enumerate() {
        let (address, stride) = one.address(column).unwrap();
        assert_eq!(stride, if column < 4 { 24 } else { of.width() }, "{}", of.name());
        let (later, _) = later.address(column).unwrap();
        assert_eq!(later.addr() - address.addr(), 3 * stride, "{}", of.name());
    }
    assert!(one.address(one.columns().len()).is_none());
}

#[test]
fn rows_that_can_be_leased_are_readable_few_and_in_one_piece() {
    let (ring, _writer) = two_columns();
    let (span, seam) = (ring.lane_span(0).unwrap(), ring.slots());
    let length = |from: u64, rows: u64| ring.lease(0, from..from + rows).map(drop);
    for (from, rows) in
        [(span.start, 1), (span.end - 1, 1), (seam - 16, 16), (seam, 16), (span.end - 16, 16)]
    {
        assert!(length(from, rows).is_ok(), "{rows} rows from {from} on");
    }
    for rows in [0, 17] {
        let refused = length(seam, rows).unwrap_err();
        let LeaseError::BadLength { asked, limit: 16, lane_capacity: 64 } = refused else {
            panic!("{refused}")
        };
        assert_eq!(asked, rows);
    }
    for (from, rows) in [(span.start - 1, 1), (span.start - 1, 2), (span.end - 1, 2)] {
        let refused = length(from, rows).unwrap_err();
        let LeaseError::NotReadable { oldest, head, .. } = refused else { panic!("{refused}") };
        assert_eq!(oldest..head, span);
    }
    for from in [seam - 1, seam - 5] {
        let refused = length(from, 8).unwrap_err();
        let LeaseError::Wraps { split, .. } = refused else { panic!("{refused}") };
        assert_eq!(split, seam - 1);
    }
}
