//! Exports of rings whose writers go on: they append when the export reports progress.

use std::collections::BTreeSet;
use std::ops::{ControlFlow, Range};
use std::path::Path;

use backcast_core::{Base, DType, Ring, RingOptions, Schema, StepColumns, Writer, WriterOptions};
use backcast_exchange::{ExportOptions, ExportReport, Format, ImportOptions, export, import};
use backcast_files::Progress;

const LANES: u32 = 4;
/// Rows of a lane.
const ROWS: u64 = 1_000;
/// Elements of 8 bytes in a row: a read of a megabyte has about 217 rows.
const WIDE: usize = 600;
const FORMATS: [Format; 3] = [Format::Parquet, Format::Csv, Format::Minari];

/// Returns a full ring, and a writer for each of its lanes.
fn running(base: &Base, lanes: u32) -> (Ring, Vec<Writer>) {
    let wide = u32::try_from(WIDE).unwrap();
    let schema = Schema::builder()
        .column("obs", DType::U64, &[wide])
        .column("action", DType::I32, &[])
        .column("reward", DType::F32, &[])
        .build()
        .unwrap();
    let options = RingOptions::with_capacity(ROWS * u64::from(lanes)).lanes(lanes);
    let ring = Ring::create("running", &schema, options.base(base.clone())).unwrap();
    let mut writers: Vec<Writer> =
        (0..lanes).map(|_| ring.writer(WriterOptions::lanes(1)).unwrap()).collect();
    for writer in &mut writers {
        publish(&ring, writer, ROWS + 7);
    }
    (ring, writers)
}

/// Appends rows of one running episode.
fn publish(ring: &Ring, writer: &mut Writer, rows: u64) {
    let obs = [3_u64; WIDE];
    for row in 0..rows {
        let action = [i32::try_from(row % 5).unwrap()];
        let columns = StepColumns::of(ring.schema());
        let columns = columns.with("obs", &obs).unwrap().with("action", &action).unwrap();
        let columns = columns.with("reward", &[1.0_f32]).unwrap();
        writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
    }
}

/// Exports while each lane publishes its rate of rows for every hundred rows that are done. Also
/// returns how many rows were published, and which were readable before.
fn export_beside(
    to: &Path,
    format: Format,
    rates: &[u64],
    read_ahead: u64,
) -> (ExportReport, u64, Vec<Range<u64>>) {
    let dir = tempfile::tempdir().unwrap();
    let lanes = u32::try_from(rates.len()).unwrap();
    let (ring, mut writers) = running(&Base::at(dir.path()), lanes);
    let before = (0..lanes).map(|lane| ring.lane_span(lane).unwrap()).collect();
    let mut published = 0;
    let (writing, mut done) = (ring.clone(), 0);
    let step = move |progress: &Progress| {
        for (writer, rate) in writers.iter_mut().zip(rates) {
            publish(&writing, writer, progress.rows * rate / 100 - done * rate / 100);
        }
        done = progress.rows;
        ControlFlow::Continue(())
    };
    let options =
        ExportOptions::default().group_rows(2_000).read_ahead(read_ahead).on_progress(step);
    let report = export(&ring, to, format, options).unwrap();
    for (lane, span) in (0..).zip(&before) {
        let span: &Range<u64> = span;
        published += ring.lane_span(lane).unwrap().end - span.end;
    }
    (report, published, before)
}

/// Returns lane and sequence number of every row of a table.
fn rows_of(csv: &Path) -> Vec<(u32, u64)> {
    let text = std::fs::read_to_string(csv).unwrap();
    let cells = text.lines().skip(1).map(|line| line.split(','));
    cells
        .map(|mut cells| {
            let lane = cells.next().unwrap().parse().unwrap();
            (lane, cells.next().unwrap().parse().unwrap())
        })
        .collect()
}

#[test]
fn a_writer_slower_than_the_export_costs_no_row() {
    let dir = tempfile::tempdir().unwrap();
    for (case, rates) in [
        ("one lane", &[70][..]),
        ("a lane of four", &[0, 0, 0, 90]),
        ("a lane of four before those that stand", &[90, 0, 0, 0]),
        ("all lanes", &[20, 20, 20, 20]),
        ("all lanes, at their own pace", &[3, 8, 15, 50]),
    ] {
        for format in FORMATS {
            let to = dir.path().join(format!("{case}-{format}"));
            let (report, published, before) = export_beside(&to, format, rates, 4 << 20);
            assert!(published >= ROWS / 2, "{case}: {published} rows are a good part of a lane");
            assert_eq!(report.rows_lapped, 0, "{case} {format}: {report:?}");
            assert_eq!(report.rows, rates.len() as u64 * ROWS, "{case} {format}");
            if format == Format::Csv {
                let rows = rows_of(&to);
                let found: BTreeSet<(u32, u64)> = rows.iter().copied().collect();
                let expected = (0..).zip(before);
                let expected = expected.flat_map(|(lane, span)| span.map(move |seq| (lane, seq)));
                assert!(found.iter().copied().eq(expected), "{case}");
                assert_eq!(rows.len(), found.len(), "{case}: no row comes twice");
            }
        }
    }
}

#[test]
fn a_writer_faster_than_the_export_costs_no_more_than_it_published_and_it_is_said() {
    let dir = tempfile::tempdir().unwrap();
    for (case, rates) in [
        ("one lane", &[150][..]),
        ("one lane, around", &[1_000]),
        ("all lanes", &[50, 50, 50, 50]),
        ("a lane of four", &[0, 0, 400, 0]),
    ] {
        for format in FORMATS {
            let to = dir.path().join(format!("{case}-{format}"));
            let (report, published, before) = export_beside(&to, format, rates, 0);
            let all: u64 = before.iter().map(|span| span.end - span.start).sum();
            assert!((1..=published).contains(&report.rows_lapped), "{case} {format}: {report:?}");
            if format == Format::Minari {
                // An episode of a single row has no step and is not written.
                let missing = all - report.rows - report.rows_lapped;
                assert!(missing <= report.rows_lapped, "{case}: {report:?}");
                continue;
            }
            assert_eq!(report.rows + report.rows_lapped, all, "{case} {format}");
            if format == Format::Csv {
                let mut rows = rows_of(&to);
                assert_eq!(rows.len() as u64, report.rows, "{case}");
                rows.sort_unstable();
                rows.dedup();
                assert_eq!(rows.len() as u64, report.rows, "{case}: no row comes twice");
                assert!(rows.iter().all(|(lane, seq)| before[*lane as usize].contains(seq)));
            }
        }
    }
}

#[test]
fn lanes_read_by_turns_come_back_as_the_lanes_that_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let base = Base::at(dir.path());
    let (ring, mut writers) = running(&base, LANES);
    let before: Vec<Range<u64>> = (0..LANES).map(|lane| ring.lane_span(lane).unwrap()).collect();
    let rows = before.iter().enumerate();
    let rows =
        rows.map(|(lane, span)| ring.rows(u32::try_from(lane).unwrap(), span.clone()).unwrap());
    let rows: Vec<_> = rows.collect();
    let to = dir.path().join("running.parquet");
    let writing = ring.clone();
    let step = move |_: &_| {
        for writer in &mut writers {
            publish(&writing, writer, 40);
        }
        ControlFlow::Continue(())
    };
    let options = ExportOptions::default().group_rows(2_000).read_ahead(4 << 20).on_progress(step);
    assert_eq!(export(&ring, &to, Format::Parquet, options).unwrap().rows_lapped, 0);
    let (again, _) =
        import(&to, Format::Parquet, ImportOptions::named("again").base(base)).unwrap();
    for ((lane, span), rows) in (0..).zip(before).zip(rows) {
        assert_eq!(again.lane_span(lane).unwrap(), span);
        let found = again.rows(lane, span).unwrap();
        for column in found.columns() {
            assert!(found.bytes(column.name()) == rows.bytes(column.name()), "{}", column.name());
        }
    }
}

#[test]
fn rows_of_a_table_with_a_gap_that_are_not_imported_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("gap.parquet");
    let (report, _, _) = export_beside(&to, Format::Parquet, &[150], 0);
    let base = Base::at(dir.path());
    let (again, found) =
        import(&to, Format::Parquet, ImportOptions::named("again").base(base)).unwrap();
    let span = again.lane_span(0).unwrap();
    assert_eq!(found.rows, span.end - span.start);
    assert_eq!(found.rows + found.rows_before_gap, report.rows);
    assert!(found.rows_before_gap > 0, "{found:?}");
}
