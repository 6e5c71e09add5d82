//! Files of other programs from the command line: written and read.

mod shelf;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Instant;

use backcast_core::{AutoresetMode, DType, Ring, RingOptions, Schema, StepColumns, WriterOptions};
use rustix::process::{Pid, Signal, kill_process};
use shelf::{Shelf, schema};

/// A shelf with a ring `pong` of so many rows in each of two lanes.
fn with_pong(rows: u16) -> Shelf {
    let shelf = Shelf::new();
    let ring = Ring::create("pong", &schema(), shelf.options().persistent(true)).unwrap();
    let mut writer =
        ring.writer(WriterOptions::lanes(2).autoreset(AutoresetMode::NextStep)).unwrap();
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
fn a_table_that_changed_on_disk_makes_no_ring_and_its_row_group_is_named() {
    let shelf = with_pong(30);
    run(&shelf, "export pong DIR/pong.parquet --group-rows 20").expect(0);
    let path = shelf.path().join("pong.parquet");
    let mut table = fs::read(&path).unwrap();
    // Of the numbers of the first column of the first row group, after the page's header.
    let lane = (0..table.len()).find(|at| table[*at..].starts_with(&[0x28, 0xb5, 0x2f, 0xfd]));
    table[lane.unwrap() + 10] ^= 1;
    fs::write(&path, table).unwrap();
    for words in ["import DIR/pong.parquet again", "--json import DIR/pong.parquet again"] {
        let refused = run(&shelf, words).expect(1);
        let named = refused.err.contains("pong.parquet is damaged");
        assert!(named && refused.err.contains("row group 0: "), "{}", refused.err);
    }
    assert_eq!(shelf.states().len(), 1);
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

/// Rows so wide, and so hard to pack, that an export of them takes a while.
fn with_wide() -> Shelf {
    let shelf = Shelf::new();
    let schema = Schema::builder().column("obs", DType::F32, &[512]).build().unwrap();
    let options = RingOptions::with_capacity(4_000).base(shelf.base());
    let ring = Ring::create("wide", &schema, options.persistent(true)).unwrap();
    let mut writer =
        ring.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep)).unwrap();
    let mut dice = 1_u64;
    let mut obs = [0_f32; 512];
    for row in 0..4_000 {
        for value in obs.iter_mut().step_by(4) {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *value = f32::from_bits(u32::try_from(dice >> 34).unwrap());
        }
        let mut columns = StepColumns::of(ring.schema()).with("obs", &obs).unwrap();
        writer.append(&columns.step(&[row % 10 == 9], &[false]).unwrap()).unwrap();
    }
    drop(writer);
    shelf
}

#[test]
fn an_export_killed_at_random_moments_gives_the_same_bytes_and_says_that_it_went_on() {
    let shelf = with_wide();
    let began = Instant::now();
    run(&shelf, "export wide DIR/whole.parquet --group-rows 300").expect(0);
    let whole = began.elapsed();
    let expected = fs::read(shelf.path().join("whole.parquet")).unwrap();
    let to = shelf.path().join("wide.parquet");
    let words = ["--json", "export", "wide", to.to_str().unwrap(), "--group-rows", "300"];
    let (mut kills, mut went_on, mut dice) = (0, 0, 5_u64);
    while kills < 10 || went_on < 2 {
        let mut child = shelf.command().args(words).stdout(Stdio::piped()).spawn().unwrap();
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // Not to wait for anything: the moment is the test's dice.
        thread::sleep(whole * u32::try_from(dice >> 56).unwrap() / 256);
        let _ = child.kill();
        let output = child.wait_with_output().unwrap();
        if output.status.signal() == Some(9) {
            kills += 1;
            // All but the saying so may have been done.
            if !to.exists() {
                continue;
            }
            let ran = shelf.run(&[&words[..], &["--overwrite"]].concat()).expect(0);
            assert!(ran.out.contains("\"began_anew\":null"), "{}", ran.out);
        } else {
            assert!(output.status.success(), "{output:?}");
            let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(said["began_anew"], serde_json::Value::Null, "{said}");
            assert_eq!(said["rows"], 4_000, "{said}");
            went_on += u32::from(said["resumed_rows"] != 0);
        }
        assert!(fs::read(&to).unwrap() == expected, "after {kills} kills");
        assert!(!shelf.path().join("wide.parquet.partial").exists());
        fs::remove_file(&to).unwrap();
    }
}

/// A command that has written something to its journal; `None`: it ended before.
fn begun(shelf: &Shelf, words: &[&str], journal: &Path) -> Option<Child> {
    let mut child = shelf.command().args(words).stdout(Stdio::null()).spawn().unwrap();
    while !fs::metadata(journal).is_ok_and(|journal| journal.len() > 0) {
        if child.try_wait().unwrap().is_some() {
            return None;
        }
        thread::yield_now();
    }
    Some(child)
}

#[test]
fn an_export_of_newer_rows_begins_anew_in_words() {
    let shelf = with_wide();
    let to = shelf.path().join("wide.csv");
    let left = shelf.path().join("wide.csv.partial/journal");
    let words = ["export", "wide", to.to_str().unwrap(), "--group-rows", "300"];
    let mut child = begun(&shelf, &words, &left).expect("it did not wait to be killed");
    child.kill().unwrap();
    child.wait().unwrap();
    let went_on = run(&shelf, "export wide DIR/wide.csv --group-rows 300").expect(0);
    assert!(went_on.err.contains("went on where an earlier export had stopped"), "{}", went_on.err);
    fs::remove_file(&to).unwrap();
    let mut child = begun(&shelf, &words, &left).expect("it did not wait to be killed");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(left.exists() && !to.exists());
    let ring = Ring::attach_in(&shelf.base(), "wide").unwrap();
    let mut writer =
        ring.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep)).unwrap();
    let mut columns = StepColumns::of(ring.schema()).with("obs", &[0_f32; 512]).unwrap();
    writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
    let anew = run(&shelf, "export wide DIR/wide.csv --group-rows 300").expect(0);
    assert!(anew.err.contains("began anew") && anew.err.contains("other rows"), "{}", anew.err);
}

/// A table of several units, of rows that are quickly read.
fn with_table() -> Shelf {
    let shelf = Shelf::new();
    let schema = Schema::builder().column("obs", DType::F32, &[8192]).build().unwrap();
    let options = RingOptions::with_capacity(4_000).base(shelf.base());
    let ring = Ring::create("wide", &schema, options).unwrap();
    let mut writer =
        ring.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep)).unwrap();
    for row in 0..4_000_u16 {
        let obs = vec![f32::from(row); 8192];
        let mut columns = StepColumns::of(ring.schema()).with("obs", &obs).unwrap();
        writer.append(&columns.step(&[row % 10 == 9], &[false]).unwrap()).unwrap();
    }
    drop(writer);
    run(&shelf, "export wide DIR/wide.parquet").expect(0);
    shelf
}

/// Begins to import the table as `in`, and cuts it by a signal when a part is there.
fn cut(shelf: &Shelf, signal: Signal) -> std::process::ExitStatus {
    let path = shelf.path().join("wide.parquet");
    let journal = shelf.base().path().join(".partial-in.ring/journal");
    loop {
        let child = begun(shelf, &["import", path.to_str().unwrap(), "in"], &journal);
        if let Some(mut child) = child {
            kill_process(Pid::from_child(&child), signal).unwrap();
            let status = child.wait().unwrap();
            if !status.success() {
                return status;
            }
        }
        // It was faster.
        run(shelf, "rm in").expect(0);
    }
}

#[test]
fn an_import_that_was_cut_is_listed_and_goes_on() {
    let shelf = with_table();
    assert_eq!(cut(&shelf, Signal::KILL).signal(), Some(9));
    let partial = shelf.states().into_iter().find(|(name, _)| name == "in");
    assert_eq!(partial, Some(("in".to_owned(), "partial".to_owned())));
    let listed = run(&shelf, "ls").expect(0);
    assert!(listed.err.contains("1 partial (") && listed.err.contains("rm NAME"), "{}", listed.err);
    let doctor = run(&shelf, "doctor");
    assert!(doctor.out.contains("of cut imports"), "{}", doctor.out);
    let again = run(&shelf, "--json import DIR/wide.parquet in").expect(0);
    let said: serde_json::Value = serde_json::from_str(&again.out).unwrap();
    assert!(said["resumed_rows"].as_u64().unwrap() >= 1_000, "{said}");
    assert_eq!((&said["rows"], &said["began_anew"]), (&4_000.into(), &serde_json::Value::Null));
    assert!(again.err.contains("went on where an earlier import had stopped"), "{}", again.err);
    run(&shelf, "export in DIR/twice.parquet").expect(0);
    let read = |name: &str| fs::read(shelf.path().join(name)).unwrap();
    assert!(read("wide.parquet") == read("twice.parquet"));
}

#[test]
fn an_import_stopped_by_ctrl_c_goes_on_unless_the_file_changed_or_it_is_removed() {
    let shelf = with_table();
    assert_eq!(cut(&shelf, Signal::INT).code(), Some(130));
    let table = fs::File::options().append(true).open(shelf.path().join("wide.parquet")).unwrap();
    table.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    let anew = run(&shelf, "import DIR/wide.parquet in").expect(0);
    assert!(anew.err.contains("began anew") && anew.err.contains("changed since"), "{}", anew.err);
    run(&shelf, "rm in").expect(0);
    cut(&shelf, Signal::INT);
    let removed = run(&shelf, "rm in").expect(0);
    assert!(removed.out.starts_with("removed partial ring in ("), "{}", removed.out);
    run(&shelf, "rm in").expect(3);
    cut(&shelf, Signal::KILL);
    let planned = run(&shelf, "--json gc --dry-run").expect(0);
    assert!(planned.out.contains("\"would_remove\""), "{}", planned.out);
    let collected = run(&shelf, "gc").expect(0);
    assert!(collected.out.contains("removed partial ring in ("), "{}", collected.out);
    let (names, base) = (shelf.states(), shelf.base());
    assert!(names.is_empty() && !base.path().exists(), "{names:?}");
}

#[test]
fn what_is_larger_than_files_may_be_is_refused_in_words_and_leaves_nothing() {
    let shelf = with_pong(400);
    for (words, path) in [
        ("export pong DIR/pong.csv", "pong.csv.partial"),
        ("export pong DIR/pong.parquet", "pong.parquet.partial"),
        ("create large --column x:f4 --capacity 100000", "large.ring"),
    ] {
        let words = words.replace("DIR", shelf.path().to_str().unwrap());
        let mut sh = std::process::Command::new("sh");
        let limited = format!("ulimit -f 2; exec \"$0\" --dir \"$1\" {words}");
        let program = env!("CARGO_BIN_EXE_backcast");
        let ran = sh.args(["-c", &limited, program]).arg(shelf.path()).output().unwrap();
        let err = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(1), "{words}: {:?}: {err}", ran.status);
        assert!(err.contains("File too large"), "{words}: {err}");
        assert!(!shelf.path().join(path).exists() && !shelf.base().path().join(path).exists());
    }
}

#[test]
fn refusals_say_what_to_do() {
    let shelf = with_pong(10);
    run(&shelf, "export pong DIR/pong.parquet").expect(0);
    shelf.file("cut.parquet", "PAR1");
    shelf.file("taken.csv.partial", "mine");
    fs::create_dir(shelf.path().join("mine.csv")).unwrap();
    for (words, status, says) in [
        ("export pnog DIR/x.parquet", 3, ["pnog", "did you mean `pong`"]),
        ("export pong@a DIR/x.parquet", 3, ["`pong`", "backcast ls"]),
        ("export pong DIR/pong.parquet", 1, ["pong.parquet exists", "`--overwrite`"]),
        ("export pong DIR/mine.csv --overwrite", 1, ["mine.csv is not replaced", "another path"]),
        ("export pong DIR/y.parquet/", 2, ["y.parquet/ ends in a slash", "leave it out"]),
        ("export pong DIR/taken.csv", 1, ["taken.csv.partial is there", "another path"]),
        ("export pong DIR/x.csv --group-rows 0", 2, ["'0'", "1 to 1048576"]),
        ("export pong DIR/x.xlsx", 2, ["x.xlsx", "--format parquet, csv or minari\n"]),
        ("import DIR/x.py x", 2, ["x.py", "--format parquet, npz or minari\n"]),
        ("export pong DIR/x.npz", 2, ["npz", "parquet, csv or minari"]),
        ("export pong DIR/x --format xlsx", 2, ["xlsx", "give parquet, csv or minari\n"]),
        ("import DIR/x x --format csvv", 2, ["csvv", "give parquet, npz or minari\n"]),
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
