//! Files of other programs from the command line: written and read.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus, Stdio};
use std::thread;
use std::time::Instant;

use crate::shelf::{Shelf, schema};
use backcast_budget::{BoundedChild, BoundedCommand, until};
use backcast_core::{AutoresetMode, DType, Ring, RingOptions, Schema, StepColumns, WriterOptions};
use rustix::process::{Pid, Signal, kill_process};

/// Returns a shelf with a ring `pong` of `rows` rows in each of two lanes.
fn with_pong(rows: u16) -> Shelf {
    let shelf = Shelf::new();
    let ring = Ring::create("pong", &schema(), shelf.options().persistent(true)).unwrap();
    let mut writer =
        ring.writer(WriterOptions::lanes(2).autoreset(AutoresetMode::NextStep)).unwrap();
    for row in 0..rows {
        let (obs, action) = ([f32::from(row); 12], [i32::from(row); 2]);
        let columns = StepColumns::of(ring.schema())
            .with("obs", &obs)
            .and_then(|columns| columns.with("action", &action))
            .unwrap();
        writer.append(&columns.step(&[row % 10 == 9; 2], &[false; 2]).unwrap()).unwrap();
    }
    drop(writer);
    shelf
}

/// Runs a command line in which `DIR` stands for the shelf's directory.
fn run(shelf: &Shelf, words: &str) -> crate::shelf::Ran {
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
    // A byte of the values of the first column in the first row group, after the page's header.
    let lane = (0..table.len()).find(|at| table[*at..].starts_with(&[0x28, 0xb5, 0x2f, 0xfd]));
    table[lane.unwrap() + 10] ^= 1;
    fs::write(&path, table).unwrap();
    for words in ["import DIR/pong.parquet again", "--json import DIR/pong.parquet again"] {
        let refused = run(&shelf, words).expect(1);
        let named = refused.err.contains("pong.parquet");
        assert!(named && refused.err.contains("row group 0"), "{}", refused.err);
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

/// Returns a shelf with a ring of rows so wide, and so hard to compress, that an export takes a
/// while.
fn with_wide() -> Shelf {
    let shelf = Shelf::new();
    let schema = Schema::builder().column("obs", DType::F32, &[512]).build().unwrap();
    let options = RingOptions::with_capacity(4_000).base(shelf.base()).persistent(true);
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
        let columns = StepColumns::of(ring.schema()).with("obs", &obs).unwrap();
        writer.append(&columns.step(&[row % 10 == 9], &[false]).unwrap()).unwrap();
    }
    drop(writer);
    shelf
}

/// Maximum runs of a command that ends before the signal reaches it.
const MOST_TRIES: u32 = 1_000;

/// Spawns a command and waits for a sign of its work, such as a file. Returns `None` if the command
/// ended before.
fn begun(shelf: &Shelf, words: &[&str], sign: impl Fn() -> bool) -> Option<Child> {
    let mut child = shelf.command().args(words).stdout(Stdio::null()).spawn().unwrap();
    let mut ended = false;
    until("a sign or the end of a command", || {
        ended = child.try_wait().unwrap().is_some();
        ended || sign()
    });
    (!ended).then_some(child)
}

#[test]
fn an_export_killed_at_random_moments_leaves_nothing_that_gc_does_not_collect() {
    let shelf = with_wide();
    let out = shelf.path().join("out");
    fs::create_dir(&out).unwrap();
    let to = out.join("wide.parquet");
    let words = ["--json", "export", "wide", to.to_str().unwrap(), "--group-rows", "300"];
    let began = Instant::now();
    shelf.run(&words).expect(0);
    let mut whole = began.elapsed();
    let expected = fs::read(&to).unwrap();
    let (mut kills, mut tries, mut dice) = (0, 0, 5_u64);
    while kills < 10 {
        tries += 1;
        assert!(tries < MOST_TRIES, "the export is too fast to be killed");
        let old = kills % 2 == 0;
        if old {
            fs::write(&to, "old").unwrap();
        } else {
            fs::remove_file(&to).unwrap();
        }
        let words = [&words[..], &["--overwrite"]].concat();
        let mut child = shelf.command().args(words).stdout(Stdio::null()).spawn().unwrap();
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // Sleeps for a random time instead of waiting for an event.
        thread::sleep(whole * u32::try_from(dice >> 56).unwrap() / 256);
        let _ = child.kill();
        let status = child.wait_bounded().unwrap();
        let killed = status.signal() == Some(9);
        kills += u32::from(killed);
        if !killed {
            // The first export may have been slow by chance.
            whole = whole * 7 / 8;
        }
        shelf.run(&["gc", out.to_str().unwrap()]).expect(0);
        let left: Vec<_> = fs::read_dir(&out).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert!(left.iter().all(|name| name == "wide.parquet"), "{left:?}");
        match fs::read(&to) {
            Ok(bytes) => assert!(bytes == expected || old && bytes == b"old", "{kills}"),
            Err(_) => assert!(!old, "{kills}"),
        }
        fs::write(&to, "any").unwrap();
    }
}

#[test]
fn an_export_stopped_by_ctrl_c_leaves_the_old_file_and_nothing_else() {
    let shelf = with_wide();
    let to = shelf.path().join("wide.csv");
    let staging = shelf.path().join("wide.csv.backcast-partial");
    let words = ["export", "wide", to.to_str().unwrap(), "--overwrite"];
    for _ in 0..MOST_TRIES {
        fs::write(&to, "old").unwrap();
        if let Some(mut child) = begun(&shelf, &words, || staging.join("new").exists()) {
            kill_process(Pid::from_child(&child), Signal::INT).unwrap();
            let status = child.wait_bounded().unwrap();
            if !status.success() {
                assert_eq!(status.code(), Some(130));
                assert!(fs::read(&to).unwrap() == b"old" && !staging.exists());
                return;
            }
        }
        // The export ended before the signal.
    }
    panic!("the export was always faster than Ctrl-C");
}

#[test]
fn gc_names_unfinished_exports_of_the_given_folders() {
    let shelf = with_wide();
    let to = shelf.path().join("wide.csv");
    let staging = shelf.path().join("wide.csv.backcast-partial");
    let words = ["export", "wide", to.to_str().unwrap()];
    let mut tries = 0;
    loop {
        if let Some(mut child) = begun(&shelf, &words, || staging.join("new").exists()) {
            child.kill().unwrap();
            child.wait_bounded().unwrap();
            if staging.exists() {
                break;
            }
        }
        // The export ended before the signal.
        fs::remove_file(&to).unwrap();
        tries += 1;
        assert!(tries < MOST_TRIES, "the export is too fast to be killed");
    }
    let planned = run(&shelf, "--json gc DIR --dry-run").expect(0);
    let said: serde_json::Value = serde_json::from_str(&planned.out).unwrap();
    assert_eq!((&said["action"], &said["kind"]), (&"would_remove".into(), &"export".into()));
    assert_eq!(said["path"], staging.to_str().unwrap());
    assert!(staging.exists());
    run(&shelf, "gc DIR/none").expect(2);
    let collected = run(&shelf, "gc DIR").expect(0);
    let line = format!("removed unfinished export {} (", staging.display());
    assert!(collected.out.starts_with(&line), "{}", collected.out);
    assert!(!staging.exists());
}

/// Returns a shelf with a table `wide.parquet` that takes a while to import.
fn with_table() -> Shelf {
    let shelf = Shelf::new();
    let schema = Schema::builder().column("obs", DType::F32, &[8192]).build().unwrap();
    let options = RingOptions::with_capacity(4_000).base(shelf.base()).persistent(true);
    let ring = Ring::create("wide", &schema, options).unwrap();
    let mut writer =
        ring.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep)).unwrap();
    for row in 0..4_000_u16 {
        let obs = vec![f32::from(row); 8192];
        let columns = StepColumns::of(ring.schema()).with("obs", &obs).unwrap();
        writer.append(&columns.step(&[row % 10 == 9], &[false]).unwrap()).unwrap();
    }
    drop(writer);
    run(&shelf, "export wide DIR/wide.parquet").expect(0);
    shelf
}

/// Sends a signal to an import of the table as `in` while the ring is being filled.
fn cut(shelf: &Shelf, signal: Signal) -> ExitStatus {
    let path = shelf.path().join("wide.parquet");
    let being_built = || {
        let entries = fs::read_dir(shelf.base().path()).unwrap();
        let mut names = entries.map(|entry| entry.unwrap().file_name());
        names.any(|name| name.to_string_lossy().starts_with(".building-"))
    };
    for _ in 0..MOST_TRIES {
        let child = begun(shelf, &["import", path.to_str().unwrap(), "in"], being_built);
        if let Some(mut child) = child {
            kill_process(Pid::from_child(&child), signal).unwrap();
            let status = child.wait_bounded().unwrap();
            if !status.success() {
                return status;
            }
        }
        // The import ended before the signal.
        run(shelf, "rm in").expect(0);
    }
    panic!("the import was always faster than {signal:?}");
}

#[test]
fn a_killed_import_is_an_orphan_that_gc_removes_and_a_stopped_one_leaves_nothing() {
    let shelf = with_table();
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        assert_eq!(cut(&shelf, signal).code(), Some(status), "{signal:?}");
        assert_eq!(shelf.states().len(), 1, "{signal:?}");
    }
    assert_eq!(cut(&shelf, Signal::KILL).signal(), Some(9));
    let states = shelf.states();
    let left = states.iter().find(|(name, _)| name != "wide").expect("a remnant");
    assert_eq!(left.1, "orphaned", "{states:?}");
    let planned = run(&shelf, "--json gc --dry-run").expect(0);
    assert!(planned.out.contains("\"would_remove\""), "{}", planned.out);
    run(&shelf, "gc").expect(0);
    assert_eq!(shelf.states().len(), 1);
    run(&shelf, "import DIR/wide.parquet in").expect(0);
    run(&shelf, "export in DIR/twice.parquet").expect(0);
    let read = |name: &str| fs::read(shelf.path().join(name)).unwrap();
    assert!(read("wide.parquet") == read("twice.parquet"));
}

#[test]
fn exports_beyond_the_file_size_limit_are_refused_and_leave_no_file() {
    let shelf = with_pong(400);
    for (words, path) in [
        ("export pong DIR/pong.csv", "pong.csv.backcast-partial"),
        ("export pong DIR/pong.parquet", "pong.parquet.backcast-partial"),
        ("create large --column x:f4 --capacity 100000", "large.ring"),
    ] {
        let words = words.replace("DIR", shelf.path().to_str().unwrap());
        let mut sh = std::process::Command::new("sh");
        let limited = format!("ulimit -f 2; exec \"$0\" --dir \"$1\" {words}");
        let program = env!("CARGO_BIN_EXE_backcast");
        let ran = sh.args(["-c", &limited, program]).arg(shelf.path()).output_bounded().unwrap();
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
    shelf.file("taken.csv.backcast-partial", "mine");
    fs::create_dir(shelf.path().join("mine.csv")).unwrap();
    for (words, status, says) in [
        ("export pnog DIR/x.parquet", 3, ["pnog", "`pong`"]),
        ("export pong@a DIR/x.parquet", 3, ["`pong`", "backcast ls"]),
        ("export pong DIR/pong.parquet", 1, ["pong.parquet", "`--overwrite`"]),
        ("export pong DIR/mine.csv --overwrite", 1, ["mine.csv", ""]),
        ("export pong DIR/y.parquet/", 2, ["y.parquet/", "slash"]),
        ("export pong DIR/taken.csv", 1, ["taken.csv.backcast-partial", ""]),
        ("export pong DIR/x.csv --group-rows 0", 2, ["'0'", "1 to 1048576"]),
        ("export pong DIR/x.xlsx", 2, ["x.xlsx", "--format parquet, csv or minari\n"]),
        ("import DIR/x.py x", 2, ["x.py", "--format parquet, npz or minari\n"]),
        ("export pong DIR/x.npz", 2, ["npz", "parquet, csv or minari"]),
        ("export pong DIR/x --format xlsx", 2, ["xlsx", "parquet, csv or minari\n"]),
        ("export pong DIR/x --format npz", 2, ["'npz'", "parquet, csv or minari\n"]),
        ("import DIR/x x --format csvv", 2, ["csvv", "parquet, npz or minari\n"]),
        ("import DIR/x x --format csv", 2, ["'csv'", "parquet, npz or minari\n"]),
        ("export pong DIR/x", 1, ["`reward`", "parquet"]),
        ("export pong DIR/no/x.csv", 1, ["no/x.csv", ""]),
        ("export pong", 2, ["PATH", "Usage"]),
        ("import DIR/pong.parquet pong", 1, ["pong", "--exist replace"]),
        ("import DIR/none.parquet x", 3, ["none.parquet", ""]),
        ("import DIR/cut.parquet x", 1, ["cut.parquet", "PAR1"]),
        ("import DIR/pong.csv x", 2, ["csv", "parquet"]),
        ("import DIR/pong.parquet x --capacity 3", 2, ["3", "20"]),
        ("import DIR/pong.parquet x --capacity 3GiB", 2, ["3GiB", "1_000_000"]),
        ("import DIR/pong.parquet x/y", 2, ["x/y", "A-Z a-z 0-9 _ - ."]),
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
