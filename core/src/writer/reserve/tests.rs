//! Reserved rows equal appended ones, and rows that are refused leave nothing behind.

use std::time::Duration;

use backcast_layout::LanePolicy;

use super::*;
use crate::{
    AutoresetMode, FINAL, GAP, ReadError, Ring, RingOptions, RowIndex, Schema, StepColumns,
    WriterOptions,
};

fn ring(policy: LanePolicy) -> Ring {
    let schema = Schema::builder()
        .column("obs", DType::F32, &[5])
        .column("pixels", DType::U8, &[7])
        .column("action", DType::I64, &[])
        .build()
        .unwrap();
    Ring::heap(&schema, RingOptions::with_capacity(40).lane_policy(policy)).unwrap()
}

fn contents(ring: &Ring) -> Vec<Vec<u8>> {
    let rows = ring.rows(0, ring.lane_span(0).unwrap()).unwrap();
    rows.columns().iter().map(|c| rows.bytes(c.name()).unwrap().to_vec()).collect()
}

fn obs(step: u8) -> [f32; 5] {
    [0.0, 1.0, 2.0, 3.0, 4.0].map(|at: f32| at + 10.0 * f32::from(step))
}

fn append(writer: &mut Writer, step: u8, end: (bool, bool)) -> RowIndex {
    let (obs, pixels, action) = (obs(step), [step; 7], [i64::from(step)]);
    let schema = writer.schema().clone();
    let columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
    let columns = columns.with("pixels", &pixels).unwrap();
    let columns = columns.with("action", &action).unwrap();
    writer.append(&columns.step(&[end.0], &[end.1]).unwrap()).unwrap()[0]
}

fn fill(row: &mut Reserved<'_>, step: u8) {
    let mut column = row.column("obs").unwrap();
    column.write_at(2, &obs(step)[2..]).unwrap();
    column.write(&obs(step)[..2]).unwrap();
    row.column("pixels").unwrap().fill(step);
    row.column("obs").unwrap().write_with(|at| obs(step)[at]);
    row.column("action").unwrap().write(&[i64::from(step)]).unwrap();
}

#[test]
fn rows_written_in_place_are_those_that_appends_make() {
    let [appended, reserved] = [(); 2].map(|()| ring(LanePolicy::default()));
    let [mut one, mut other] = [&appended, &reserved].map(|ring| {
        ring.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep)).unwrap()
    });
    // Two laps, with abandoned rows in between and all kinds of ends.
    for step in 0..150_u8 {
        let end = (step % 7 == 6, step % 11 == 10);
        if step % 5 == 0 {
            let mut row = other.reserve().unwrap();
            row.column("obs").unwrap().fill(f32::NAN);
        }
        let index = append(&mut one, step, end);
        let mut row = other.reserve().unwrap();
        fill(&mut row, step);
        assert_eq!(row.commit(end.0, end.1).unwrap(), index);
        assert_eq!(reserved.lane_span(0), appended.lane_span(0));
    }
    assert_eq!(contents(&reserved), contents(&appended));
    assert_eq!(other.rows_written(), one.rows_written());
    // Appends and reserved rows take turns.
    append(&mut one, 7, (false, false));
    append(&mut other, 7, (false, false));
    assert_eq!(contents(&reserved), contents(&appended));
}

#[test]
fn a_reserved_row_is_invisible_before_its_commit() {
    let ring = ring(LanePolicy::default());
    let mut writer =
        ring.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep)).unwrap();
    for step in 0..200 {
        append(&mut writer, step, (false, false));
    }
    let before = ring.lane_span(0).unwrap();
    let oldest = before.end - ring.slots();
    let mut row = writer.reserve().unwrap();
    fill(&mut row, 9);
    assert_eq!(ring.lane_span(0).unwrap().end, before.end);
    let old = ring.rows(0, oldest..oldest + 1);
    assert!(matches!(old, Err(ReadError::NotReadable { .. } | ReadError::Lapped { .. })));
    row.abort();
    assert_eq!(ring.lane_span(0).unwrap().end, before.end);
    append(&mut writer, 1, (false, false));
    let last = ring.rows(0, before.end..before.end + 1).unwrap();
    assert_eq!(last.column::<f32>("obs").unwrap(), obs(1));
    assert_eq!(last.column::<u32>("flags").unwrap(), [0]);
}

#[test]
fn of_a_final_row_only_observations_count() {
    let ring = ring(LanePolicy::default());
    let mut writer =
        ring.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep)).unwrap();
    append(&mut writer, 1, (true, false));
    let mut row = writer.reserve().unwrap();
    assert!(row.is_final());
    row.column("obs").unwrap().write(&obs(2)).unwrap();
    row.column("pixels").unwrap().fill(2_u8);
    // Not an observation: it may be left unwritten, and writes to it are discarded.
    row.column("action").unwrap().write(&[5_i64]).unwrap();
    row.commit(true, true).unwrap();
    let rows = ring.rows(0, 0..2).unwrap();
    assert_eq!(rows.column::<u32>("flags").unwrap(), [1, FINAL]);
    assert_eq!(rows.column::<i64>("action").unwrap(), [1, 0]);
    assert!(!writer.reserve().unwrap().is_final());
}

#[test]
fn an_end_without_observations_has_room_for_its_final_row() {
    let schema = Schema::builder().column("action", DType::I64, &[]).build().unwrap();
    for mode in [AutoresetMode::SameStep, AutoresetMode::Disabled] {
        let ring = Ring::heap(&schema, RingOptions::with_capacity(40)).unwrap();
        let mut writer = ring.writer(WriterOptions::lanes(1).autoreset(mode)).unwrap();
        // The ends have odd sequence numbers, so one is the last row of a reserve chunk.
        for step in 0..60 {
            let mut row = writer.reserve().unwrap();
            row.column("action").unwrap().write(&[1_i64]).unwrap();
            row.commit(step > 0, false).unwrap();
        }
        assert_eq!(writer.rows_written(), 119, "{mode}");
    }
}

#[test]
fn a_lease_in_the_way_is_honoured_as_by_an_append() {
    for policy in [LanePolicy::DropNew, LanePolicy::Fail, LanePolicy::Block(Duration::ZERO)] {
        let ring = ring(policy);
        let mut writer =
            ring.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep)).unwrap();
        for step in 0..200 {
            append(&mut writer, step, (false, false));
        }
        let span = ring.lane_span(0).unwrap();
        let lease = ring.lease(0, span.start..span.start + 1).unwrap();
        let mut leased = [0_u8; 20];
        assert!(lease.copy_row(4, 0, &mut leased));
        let mut dropped = 0;
        for step in 0..40_u8 {
            match writer.reserve() {
                Ok(mut row) => {
                    fill(&mut row, step);
                    dropped += u32::from(row.commit(false, false).unwrap() == RowIndex::NONE);
                }
                Err(error) => {
                    assert!(matches!(error, AppendError::Leased { .. }), "{error}");
                    dropped += 1;
                }
            }
        }
        assert!(dropped > 0, "{policy}: the lease was in the way");
        let mut after = [1_u8; 20];
        assert!(lease.copy_row(4, 0, &mut after) && after == leased, "{policy}: frozen");
        drop(lease);
        let mut row = writer.reserve().unwrap();
        fill(&mut row, 3);
        let seq = row.commit(false, false).unwrap().seq();
        let flags = ring.rows(0, seq..seq + 1).unwrap().column::<u32>("flags").unwrap().to_vec();
        let gap = if policy == LanePolicy::Fail { 0 } else { GAP };
        assert_eq!(flags, [gap], "{policy}");
    }
}

#[test]
fn a_suspended_row_resumes_unless_another_was_published() {
    let ring = ring(LanePolicy::DropNew);
    let mut writer =
        ring.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep)).unwrap();
    for step in 0..200 {
        append(&mut writer, step, (false, false));
    }
    let suspended = writer.reserve().unwrap().suspend();
    for step in [1, 2] {
        let mut row = writer.resume(&suspended).unwrap();
        fill(&mut row, step);
        if step == 1 {
            row.abort();
        } else {
            assert_eq!(row.commit(false, false).unwrap().seq(), 200);
        }
    }
    assert!(writer.resume(&suspended).is_none(), "the row is published");
    // A row that a lease leaves no room for is dropped, suspended or not.
    let oldest = ring.lane_span(0).unwrap().start;
    let lease = ring.lease(0, oldest..oldest + 1).unwrap();
    let mut dropped = 0;
    for step in 0..40 {
        let suspended = writer.reserve().unwrap().suspend();
        let mut row = writer.resume(&suspended).unwrap();
        fill(&mut row, step);
        dropped += u32::from(row.commit(false, false).unwrap() == RowIndex::NONE);
    }
    assert!(dropped > 0);
    drop(lease);
}

#[test]
fn refused_reservations_say_why_and_leave_no_row() {
    let ring = ring(LanePolicy::default());
    let two = Ring::heap(ring.schema(), RingOptions::with_capacity(40).lanes(2)).unwrap();
    let mut both = two.writer(WriterOptions::lanes(2).autoreset(AutoresetMode::NextStep)).unwrap();
    let refused = both.reserve().unwrap_err();
    assert_eq!(refused, AppendError::NotReservable { lanes: 2 });
    let mut writer =
        ring.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep)).unwrap();
    let mut row = writer.reserve().unwrap();
    let error = row.column::<f32>("obz").unwrap_err();
    assert!(matches!(&error, AppendError::UnknownColumn { name, .. } if name == "obz"), "{error}");
    let error = row.column::<f64>("obs").unwrap_err();
    let AppendError::WrongDType { expected: DType::F32, got: DType::F64, .. } = error else {
        panic!("{error}")
    };
    for (error, at, values) in [
        (row.column::<f32>("obs").unwrap().write(&[0.0; 6]), 0, 6),
        (row.column("obs").unwrap().write_at(3, &obs(0)[..3]), 3, 3),
        (row.column("obs").unwrap().write_at(usize::MAX, &obs(0)), usize::MAX, 5),
    ] {
        assert_eq!(error.unwrap_err(), AppendError::BeyondColumn { at, values, items: 5 });
    }
    let error = row.commit(false, false).unwrap_err();
    assert_eq!(error, AppendError::NotWritten { name: "pixels".to_owned() });
    assert_eq!(ring.lane_span(0), Some(0..0));
}
