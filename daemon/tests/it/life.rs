//! Objects are created, held, damaged and removed: the reaction of each command.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use backcast_budget::{BoundedChild, BoundedCommand};

use crate::shelf::{Holder, Shelf};

/// Runs a command with its address space limited to `kib` KiB; returns status and stderr.
fn limited(shelf: &Shelf, kib: u64, words: &str) -> (Option<i32>, String) {
    let mut sh = Command::new("sh");
    let limited = format!("ulimit -v {kib}; exec \"$0\" --dir \"$1\" {words}");
    sh.args(["-c", &limited, env!("CARGO_BIN_EXE_backcast")]).arg(shelf.path());
    let ran = sh.output_bounded().expect("a shell");
    (ran.status.code(), String::from_utf8_lossy(&ran.stderr).into_owned())
}

#[test]
fn a_ring_that_does_not_fit_the_address_space_gets_no_name_and_what_has_it_keeps_it() {
    let shelf = Shelf::stocked();
    let rows = |name| {
        let ring = backcast_core::Ring::attach_in(&shelf.base(), name).unwrap();
        ring.stats().capacity
    };
    let before = rows("pong");
    // 524 MB where 400 are allowed.
    let large = "--column x:f8:1000 --capacity 60000 --exist";
    for (words, name) in [("error", "large"), ("replace", "pong")] {
        let (status, err) = limited(&shelf, 400_000, &format!("create {name} {large} {words}"));
        assert_eq!(status, Some(1), "{err}");
        assert!(err.contains("ulimit -v"), "{err}");
        assert!(!err.contains("yours and writable"), "{err}");
    }
    assert_eq!(rows("pong"), before);
    assert!(shelf.states().iter().all(|(name, _)| name != "large"), "{:?}", shelf.states());
}

#[test]
fn directories_that_are_no_rings_are_removed_by_force() {
    let shelf = Shelf::stocked();
    let junk = shelf.base().path().join("junk.ring");
    fs::create_dir(&junk).unwrap();
    fs::set_permissions(&junk, fs::Permissions::from_mode(0o755)).unwrap();
    let refused = shelf.run(&["rm", "junk"]).expect(1);
    assert!(refused.err.contains("backcast rm junk --force"), "{}", refused.err);
    assert!(!refused.err.contains("cannot see"), "{}", refused.err);
    shelf.run(&["rm", "junk", "--force"]).expect(0);
    assert!(!junk.exists());
}

#[test]
fn a_ring_made_here_outlives_the_command_and_can_be_removed() {
    let shelf = Shelf::new();
    let create = ["create", "pong", "--column", "obs:f4:4", "--capacity", "1000"];
    let created = shelf.run(&create).expect(0);
    assert!(created.out.contains("pong") && created.out.contains("1,000"), "{}", created.out);
    assert_eq!(shelf.states(), [("pong".into(), "idle".into())]);
    shelf.run(&create).expect(1);
    shelf.run(&[&create[..], &["--exist", "attach"]].concat()).expect(0);
    shelf.run(&[&create[..], &["--exist", "replace"]].concat()).expect(0);
    let removed = shelf.run(&["rm", "pong"]).expect(0);
    assert!(removed.out.contains("ring pong"), "{}", removed.out);
    assert_eq!(shelf.states(), []);
    shelf.run(&["rm", "pong"]).expect(3);
}

#[test]
fn nothing_is_an_answer_too() {
    let shelf = Shelf::new();
    let ls = shelf.run(&["ls"]).expect(0);
    let place = shelf.path().display().to_string();
    assert!(ls.out.is_empty() && ls.err.contains(&place), "{}", ls.err);
    let gc = shelf.run(&["gc"]).expect(0);
    assert!(gc.out.is_empty() && !gc.err.is_empty(), "{}", gc.err);
    assert_eq!(shelf.run(&["--json", "ls"]).expect(0).out, "");
}

#[test]
fn the_option_outranks_the_environment() {
    let (shelf, other) = (Shelf::new(), Shelf::stocked());
    let dir = other.path().to_str().unwrap();
    assert_eq!(shelf.json(&["ls"]).len(), 0);
    assert_eq!(shelf.json(&["ls", "--dir", dir]).len(), 4);
}

#[test]
fn a_held_ring_is_removed_only_by_force_and_the_refusal_names_its_holder() {
    let shelf = Shelf::new();
    let holder = Holder::spawn(&shelf);
    assert_eq!(shelf.states(), [("held".into(), "held".into())]);
    let refused = shelf.run(&["rm", "held"]).expect(1);
    if cfg!(target_os = "linux") {
        let pid = format!("pid {} (", holder.pid());
        assert!(refused.err.contains(&pid), "{}", refused.err);
    }
    assert!(refused.err.contains("--force") && refused.out.is_empty(), "{}", refused.err);
    assert_eq!(shelf.states(), [("held".into(), "held".into())]);
    shelf.run(&["rm", "held", "--force"]).expect(0);
    assert_eq!(shelf.states(), []);
}

#[test]
fn gc_takes_what_a_killed_process_left_and_nothing_else() {
    let shelf = Shelf::stocked();
    let holder = Holder::spawn(&shelf);
    assert_eq!(shelf.run(&["gc"]).expect(0).out, "");
    assert_eq!(shelf.states().len(), 5);

    holder.kill();
    assert!(shelf.states().contains(&("held".into(), "orphaned".into())));
    assert!(shelf.run(&["ls"]).expect(0).err.contains("backcast gc"));
    let file = shelf.path().join("held.csv");
    for args in [
        &["stat", "held"][..],
        &["save", "held"],
        &["export", "held", file.to_str().unwrap()],
        &["resize", "held", "--capacity", "9_000"],
    ] {
        let refused = shelf.run(args).expect(1).err;
        for part in ["`held`", "orphaned", "`backcast gc`"] {
            assert!(refused.contains(part), "{args:?}: {refused}");
        }
    }
    assert!(!file.exists());

    let dry = shelf.run(&["gc", "--dry-run"]).expect(0);
    assert!(dry.out.starts_with("would remove ring held ("), "{}", dry.out);
    assert_eq!(shelf.states().len(), 5, "a dry run removes nothing");
    let gone = shelf.json(&["gc"]);
    assert_eq!(gone.len(), 1);
    assert_eq!((&gone[0]["name"], &gone[0]["action"]), (&"held".into(), &"removed".into()));
    assert_eq!(shelf.states().len(), 4);
}

#[test]
fn damaged_files_are_listed_as_such_and_can_be_removed() {
    for (id, damage) in [
        ("emptied", (|file| fs::write(file, "").unwrap()) as fn(&std::path::Path)),
        ("cut", |file| {
            let file = File::options().write(true).open(file).unwrap();
            file.set_len(file.metadata().unwrap().len() / 2).unwrap();
        }),
        ("overwritten", |file| {
            let mut bytes = fs::read(file).unwrap();
            bytes[..512].fill(0xa5);
            fs::write(file, bytes).unwrap();
        }),
        ("missing", |file| fs::remove_file(file).unwrap()),
    ] {
        let shelf = Shelf::stocked();
        for object in ["pong.ring", "prices.panel"] {
            damage(&largest_but_locks(&shelf.object(object)));
        }
        let ls = shelf.run(&["ls"]).expect(1);
        let state = |line: &str| line.split_whitespace().nth(2).map(str::to_owned);
        let damaged = ls.out.lines().filter(|line| state(line).as_deref() == Some("damaged"));
        assert_eq!(damaged.count(), 2, "{id}: {}", ls.out);
        assert_eq!(ls.out.lines().count(), 5, "{id}: the others are listed: {}", ls.out);
        let listed = shelf.json(&["ls"]);
        let errors = listed.iter().filter(|object| object["error"].is_string()).count();
        assert_eq!(errors, 2, "{id}: {listed:?}");
        for name in ["pong", "prices"] {
            let stat = shelf.run(&["stat", name]).expect(1);
            assert!(stat.err.contains(name) && stat.out.is_empty(), "{id}: {}", stat.err);
            shelf.run(&["rm", name]).expect(0);
        }
        shelf.run(&["ls"]).expect(0);
    }
}

/// Returns the file that describes the object: the control file of a ring, the largest file of a
/// panel.
fn largest_but_locks(object: &std::path::Path) -> std::path::PathBuf {
    let control = object.join("ring.ctl");
    if control.exists() {
        return control;
    }
    let files = fs::read_dir(object).unwrap().map(|entry| entry.unwrap().path());
    files.max_by_key(|file| file.metadata().unwrap().len()).unwrap()
}

/// Writes a shell script that takes the place of the Python interpreter, and returns its path.
fn python(shelf: &Shelf, script: &str) -> std::path::PathBuf {
    let path = shelf.path().join("python");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

const IMPORTABLE: &str = "if [ \"$1\" = -c ]; then exit 0; fi\n";

#[test]
fn the_demo_becomes_the_python_module_with_its_status() {
    let shelf = Shelf::new();
    let script = format!("{IMPORTABLE}echo \"$$ $BACKCAST_DIR $*\"; exit 7");
    let python = python(&shelf, &script);
    let mut command = shelf.command();
    command.env("BACKCAST_PYTHON", python).stdout(Stdio::piped());
    let mut child = command
        .args(["--dir", "/dev/shm", "demo", "--seconds", "3", "--kill", "--help"])
        .spawn()
        .unwrap();
    let pid = child.id();
    let output = child.output_bounded().unwrap();
    let expected = format!("{pid} /dev/shm -m backcast.demo --seconds 3 --kill --help\n");
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "same process, same arguments");
    assert_eq!(output.status.code(), Some(7));
}

#[test]
fn the_page_is_the_command_of_the_python_package() {
    let shelf = Shelf::new();
    let python = python(&shelf, &format!("{IMPORTABLE}echo \"$*\"; exit 7"));
    let mut command = shelf.command();
    let args = ["--dir", "/dev/shm", "ui", "--no-token", "--shards", "a"];
    let output = command.env("BACKCAST_PYTHON", python).args(args).output_bounded().unwrap();
    let expected = "-m backcast --dir /dev/shm ui --no-token --shards a\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    assert_eq!(output.status.code(), Some(7));
}

#[test]
fn a_demo_that_dies_by_a_signal_is_seen_to_die_by_it() {
    let shelf = Shelf::new();
    let python = python(&shelf, &format!("{IMPORTABLE}kill -TERM $$"));
    let output =
        shelf.command().env("BACKCAST_PYTHON", python).arg("demo").output_bounded().unwrap();
    assert_eq!(output.status.signal(), Some(15));
}

#[test]
fn without_the_python_package_demo_and_page_say_what_to_install() {
    let shelf = Shelf::new();
    let python = python(&shelf, "exit 1");
    let python = python.to_str().unwrap();
    for (name, interpreter, says) in [
        ("demo", python, "pip install backcast"),
        ("ui", python, "pip install \"backcast[ui]\""),
        ("demo", "/no/such/python", "/no/such/python"),
        ("ui", "/no/such/python", "`backcast ui` comes with the Python package"),
    ] {
        let mut command = shelf.command();
        let output =
            command.env("BACKCAST_PYTHON", interpreter).arg(name).output_bounded().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{err}");
        assert!(err.contains(says) && err.contains("BACKCAST_PYTHON"), "{err}");
    }
}
