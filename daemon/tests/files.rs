//! Files of other programs from the command line: written and read.

mod shelf;

use std::fs;

use backcast_core::{Ring, StepColumns, WriterOptions};
use shelf::{Shelf, schema};

/// A shelf with a ring `pong` of so many rows in each of two lanes.
fn with_pong(rows: u16) -> Shelf {
    let shelf = Shelf::new();
    let ring = Ring::create("pong", &schema(), shelf.options().persistent(true)).unwrap();
    let mut writer = ring.writer(WriterOptions::lanes(2)).unwrap();
    for row in 0..rows {
        let (obs, action) = ([f32::from(row); 12], [i32::from(row); 2]);
        let mut columns = StepColumns::of(ring.schema())
            .with("obs", &obs)
            .and_then(|columns| columns.with("action", &action))
            .unwrap();
        writer.append(&columns.step(&[row % 10 == 9; 2], &[false; 2]).unwrap()).unwrap();
    }
    drop(writer);
    shelf
}

/// Runs words, of which `DIR` is the shelf's directory.
fn run(shelf: &Shelf, words: &str) -> shelf::Ran {
    let words = words.replace("DIR", shelf.path().to_str().unwrap());
    shelf.run(&words.split_whitespace().collect::<Vec<_>>())
}

#[test]
fn a_ring_goes_out_and_comes_in_the_same() {
    let shelf = with_pong(30);
    let out = run(&shelf, "export pong DIR/pong.parquet").expect(0);
    assert!(out.out.starts_with("exported pong to "), "{}", out.out);
    assert!(out.out.contains("60 rows"), "{}", out.out);
    assert!(out.err.is_empty(), "no progress where there is no terminal: {}", out.err);
    let out = run(&shelf, "import DIR/pong.parquet again").expect(0);
    assert!(out.out.contains("as again: 60 rows"), "{}", out.out);
    run(&shelf, "export again DIR/twice.parquet").expect(0);
    let read = |name: &str| fs::read(shelf.path().join(name)).unwrap();
    assert!(read("pong.parquet") == read("twice.parquet"));
    run(&shelf, "export pong DIR/pong.csv").expect(0);
    assert_eq!(fs::read_to_string(shelf.path().join("pong.csv")).unwrap().lines().count(), 61);
}

#[test]
fn a_snapshot_is_exported_like_a_ring() {
    let shelf = with_pong(30);
    run(&shelf, "save pong a").expect(0);
    run(&shelf, "export pong DIR/pong.parquet").expect(0);
    run(&shelf, "rm pong").expect(0);
    run(&shelf, "export pong@a DIR/a.parquet").expect(0);
    let read = |name: &str| fs::read(shelf.path().join(name)).unwrap();
    assert!(read("pong.parquet") == read("a.parquet"));
    assert!(shelf.states().iter().all(|(name, state)| name != "pong@a" || state == "saved"));
}

#[test]
fn refusals_say_what_to_do() {
    let shelf = with_pong(10);
    run(&shelf, "export pong DIR/pong.parquet").expect(0);
    shelf.file("cut.parquet", "PAR1");
    for (words, status, says) in [
        ("export pnog DIR/x.parquet", 3, ["pnog", "did you mean `pong`"]),
        ("export pong@a DIR/x.parquet", 3, ["`pong`", "backcast ls"]),
        ("export pong DIR/pong.parquet", 1, ["pong.parquet exists", "overwrite"]),
        ("export pong DIR/x.xlsx", 2, ["x.xlsx", "--format parquet"]),
        ("export pong DIR/x.npz", 2, ["npz", "parquet, csv or minari"]),
        ("export pong DIR/x --format xlsx", 2, ["xlsx", "\"parquet\""]),
        ("export pong DIR/x", 1, ["`reward`", "parquet"]),
        ("export pong DIR/no/x.csv", 1, ["no/x.csv", "cannot write"]),
        ("export pong", 2, ["PATH", "Usage"]),
        ("import DIR/pong.parquet pong", 1, ["pong", "--exist replace"]),
        ("import DIR/none.parquet x", 3, ["none.parquet", "cannot read"]),
        ("import DIR/cut.parquet x", 1, ["cut.parquet", "PAR1"]),
        ("import DIR/pong.csv x", 2, ["csv", "written and not read"]),
        ("import DIR/pong.parquet x --capacity 3", 2, ["capacity is 3", "20"]),
        ("import DIR/pong.parquet x --capacity 3GiB", 2, ["3GiB", "1_000_000"]),
        ("import DIR/pong.parquet x/y", 2, ["x/y", "outside"]),
        ("import DIR/pong.parquet", 2, ["NAME", "Usage"]),
        ("import DIR/pong.parquet x --exist attach", 2, ["attach", "replace"]),
    ] {
        let ran = run(&shelf, words).expect(status);
        for text in says {
            assert!(ran.err.contains(text), "{words}: {}", ran.err);
        }
        assert!(ran.out.is_empty(), "{words}: {}", ran.out);
    }
    let names: Vec<String> = shelf.states().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["pong"], "nothing was made");
}
