//! Tables of rows: exported, imported, and exported again; damaged, cut and of other data.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use backcast_core::{Base, DType, Exist, RestoreError, Ring, Schema, list_objects};
use backcast_exchange::{
    ExportError, ExportOptions, Format, ImportError, ImportOptions, export, import,
};

use super::made;

fn plain() -> Schema {
    Schema::builder()
        .column("obs", DType::F32, &[3])
        .column("action", DType::I32, &[])
        .column("reward", DType::F32, &[])
        .build()
        .unwrap()
}

fn parquet(ring: &Ring, to: &Path) -> u64 {
    export(ring, to, Format::Parquet, ExportOptions::default()).unwrap().rows
}

#[test]
fn a_ring_comes_back_from_a_table_as_it_was_and_goes_out_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let base = Base::at(dir.path());
    for (name, schema, rows, lanes, steps) in [
        ("every", made::every_type(), 90, 3, 17),
        ("wrapped", made::every_type(), 60, 2, 200),
        ("long", plain(), 20_000, 1, 30_000),
        ("empty", plain(), 100, 2, 0),
        ("one", plain(), 10, 1, 1),
    ] {
        let ring = made::ring(&base, name, &schema, rows, lanes, steps, 6);
        let file = dir.path().join(format!("{name}.parquet"));
        let written = parquet(&ring, &file);
        let expected: u64 = ring.stats().lane_stats.iter().map(|lane| lane.rows).sum();
        assert_eq!(written, expected, "{name}");
        let options = ImportOptions::named("again").base(base.clone());
        let (again, report) = import(&file, Format::Parquet, options).unwrap();
        assert_eq!(report.rows, expected, "{name}");
        made::assert_same(&ring, &again);
        assert_eq!(again.lane_capacity(), ring.lane_capacity());
        let twice = dir.path().join(format!("{name}-again.parquet"));
        parquet(&again, &twice);
        assert!(fs::read(&file).unwrap() == fs::read(&twice).unwrap(), "{name} differs");
        // A writer continues where the table ended.
        made::write(&again, 1, 100);
        let head = |ring: &Ring| ring.lane_span(0).unwrap().end;
        assert_eq!(head(&again), head(&ring) + 1, "{name}");
    }
}

#[test]
fn rows_that_were_overwritten_meanwhile_are_left_out_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let base = Base::at(dir.path());
    // Rows so wide that a piece is a part of the lane.
    let schema = Schema::builder().column("obs", DType::F32, &[300]).build().unwrap();
    let ring = made::ring(&base, "fast", &schema, 10_000, 1, 10_000, 1000);
    let file = dir.path().join("fast.parquet");
    let mut calls = 0;
    let progress = |_: &_| {
        calls += 1;
        if calls == 1 {
            // Overwrite the whole lane after the first piece.
            made::write(&ring, 15_000, 1000);
        }
        ControlFlow::Continue(())
    };
    let options = ExportOptions::default().read_ahead(0).on_progress(progress);
    let report = export(&ring, &file, Format::Parquet, options).unwrap();
    assert!(report.rows_lapped > 0, "{report:?}");
    assert_eq!(report.rows + report.rows_lapped, 10_000);
    let options = ImportOptions::named("rest").base(base);
    let (rest, found) = import(&file, Format::Parquet, options).unwrap();
    let span = rest.lane_span(0).unwrap();
    assert_eq!(span.end - span.start, found.rows);
    rest.rows(0, span).unwrap();
}

#[test]
fn an_interrupted_export_or_import_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let base = Base::at(dir.path());
    let ring = made::ring(&base, "pong", &plain(), 500, 1, 400, 9);
    let stop = |_: &_| ControlFlow::Break(());
    for format in [Format::Parquet, Format::Csv, Format::Minari] {
        let file = dir.path().join("out");
        let options = ExportOptions::default().on_progress(stop);
        let stopped = export(&ring, &file, format, options).unwrap_err();
        assert!(matches!(stopped, ExportError::Interrupted), "{format}: {stopped}");
        let left: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left.len(), 1, "{format}: {left:?}");
    }
    let file = dir.path().join("pong.parquet");
    parquet(&ring, &file);
    let options = ImportOptions::named("new").base(base.clone()).on_progress(stop);
    let stopped = import(&file, Format::Parquet, options).unwrap_err();
    assert!(matches!(stopped, ImportError::Interrupted), "{stopped}");
    assert_eq!(list_objects(&base).unwrap().len(), 1);
}

#[test]
fn existing_files_are_kept_unless_replacing_is_allowed() {
    let dir = tempfile::tempdir().unwrap();
    let base = Base::at(dir.path());
    let ring = made::ring(&base, "pong", &plain(), 500, 1, 40, 9);
    for (format, name) in
        [(Format::Parquet, "a.parquet"), (Format::Csv, "a.csv"), (Format::Minari, "a")]
    {
        let file = dir.path().join(name);
        export(&ring, &file, format, ExportOptions::default()).unwrap();
        let refused = export(&ring, &file, format, ExportOptions::default()).unwrap_err();
        assert!(matches!(refused, ExportError::Exists { .. }), "{refused}");
        export(&ring, &file, format, ExportOptions::default().overwrite(true)).unwrap();
    }
    let file = dir.path().join("a.parquet");
    let named = || ImportOptions::named("pong").base(base.clone());
    let taken = import(&file, Format::Parquet, named()).unwrap_err();
    let ImportError::Restore(RestoreError::Taken { name, .. }) = &taken else { panic!("{taken}") };
    assert!(name == "pong" && taken.to_string().contains("\"replace\""), "{taken}");
    let (new, _) = import(&file, Format::Parquet, named().exist(Exist::Replace)).unwrap();
    assert_ne!(new.uuid(), ring.uuid());
    let small =
        import(&file, Format::Parquet, ImportOptions::named("s").base(base.clone()).capacity(3));
    assert!(matches!(small.unwrap_err(), ImportError::Capacity { asked: 3, .. }));
    let large = ImportOptions::named("large").base(base).capacity(1000);
    let (large, _) = import(&file, Format::Parquet, large).unwrap();
    assert_eq!(large.lane_capacity(), 1000);
    made::assert_same(&ring, &large);
}

#[test]
fn a_damaged_table_is_an_error_or_has_the_same_rows_and_never_ends_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let base = Base::at(dir.path());
    let ring = made::ring(&base, "pong", &made::every_type(), 60, 2, 20, 4);
    let file = dir.path().join("pong.parquet");
    parquet(&ring, &file);
    let whole = fs::read(&file).unwrap();
    let hurt = dir.path().join("hurt.parquet");
    let mut refused = 0;
    let mut tried = 0;
    let mut attempt = |bytes: &[u8]| {
        tried += 1;
        fs::write(&hurt, bytes).unwrap();
        let options = ImportOptions::named("hurt").base(base.clone());
        match import(&hurt, Format::Parquet, options) {
            Ok(_) => {}
            Err(error) => {
                assert!(
                    error.to_string().contains("hurt.parquet")
                        || matches!(error, ImportError::Restore(_)),
                    "{error}"
                );
                refused += 1;
            }
        }
    };
    for cut in (0..whole.len()).step_by(whole.len() / 40) {
        attempt(&whole[..cut]);
    }
    let mut bytes = whole.clone();
    for at in (0..whole.len()).step_by(whole.len() / 130) {
        for change in [0x01, 0x80, 0xff] {
            bytes[at] ^= change;
            attempt(&bytes);
            bytes[at] ^= change;
        }
    }
    assert!(refused > tried / 4, "{refused} of {tried} were refused");
    assert_eq!(list_objects(&base).unwrap().len(), 1, "a refused import leaves no ring");
}

#[test]
fn a_table_of_something_else_says_what_it_lacks() {
    let dir = tempfile::tempdir().unwrap();
    let base = Base::at(dir.path());
    let read = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        let options = ImportOptions::named("x").base(base.clone());
        import(&path, Format::Parquet, options).unwrap_err().to_string()
    };
    assert!(read("empty", b"").contains("PAR1"));
    assert!(read("text", b"lane,seq,episode\n0,0,0\n").contains("PAR1"));
    let missing = import(Path::new("/no/such.parquet"), Format::Parquet, ImportOptions::named("x"));
    assert!(matches!(missing.unwrap_err(), ImportError::Read { .. }));
    let csv = import(Path::new("x.csv"), Format::Csv, ImportOptions::named("x")).unwrap_err();
    assert!(matches!(csv, ImportError::OnlyWritten { format: "csv" }), "{csv}");
}

#[test]
fn text_has_a_cell_per_element_that_reads_back_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let base = Base::at(dir.path());
    let ring = made::ring(&base, "pong", &plain(), 100, 2, 7, 3);
    let file = dir.path().join("pong.csv");
    let report = export(&ring, &file, Format::Csv, ExportOptions::default()).unwrap();
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(report.bytes, text.len() as u64);
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("lane,seq,episode,t,flags,obs[0],obs[1],obs[2],action,reward"));
    assert_eq!(report.rows, lines.clone().count() as u64);
    let rows = ring.rows(1, ring.lane_span(1).unwrap()).unwrap();
    let obs = rows.column::<f32>("obs").unwrap();
    let flags = rows.column::<u32>("flags").unwrap();
    let of_lane: Vec<Vec<&str>> = lines
        .map(|line| line.split(',').collect())
        .filter(|cells: &Vec<&str>| cells[0] == "1")
        .collect();
    for (at, cells) in of_lane.iter().enumerate() {
        assert_eq!(cells[4].parse::<u32>().unwrap(), flags[at]);
        for element in 0..3 {
            let found: f32 = cells[5 + element].parse().unwrap();
            assert_eq!(found.to_bits(), obs[at * 3 + element].to_bits());
        }
    }
}
