//! Files that this user may not open: each command says so, and does not call an object damaged
//! that may be whole.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shelf::{Ran, Shelf};
use backcast_budget::BoundedCommand;
use backcast_core::{Base, Ring, StepColumns, WriterOptions};
use serde_json::Value;

/// A user id without rights on every Linux system.
const NOBODY: u32 = 65_534;

/// A stocked shelf whose owner is bound by file permissions: the user that runs the tests, or
/// `nobody` if that is root.
struct Bound {
    shelf: Shelf,
    /// The user to run commands as, and a copy of the binary that it may run.
    other: Option<(u32, PathBuf)>,
}

impl Bound {
    fn new() -> Self {
        let shelf = Shelf::stocked();
        let ring = Ring::attach_in(&shelf.base(), "pong").unwrap();
        let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
        let (obs, action) = ([0.5_f32; 6], [1_i32]);
        let columns = StepColumns::of(ring.schema()).with("obs", &obs).unwrap();
        let columns = columns.with("action", &action).unwrap();
        writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
        drop((writer, ring));
        shelf.run(&["save", "pong", "kept"]).expect(0);
        let is_root = rustix::process::geteuid().is_root();
        let other = is_root.then(|| {
            let base = shelf.path().join(format!("backcast-{NOBODY}"));
            fs::rename(shelf.base().path(), &base).unwrap();
            let binary = shelf.path().join("backcast");
            // Another process copies it: a file that this process, or a child of another test, has
            // open for writing cannot be run.
            let copied = Command::new("cp")
                .arg(env!("CARGO_BIN_EXE_backcast"))
                .arg(&binary)
                .status_bounded();
            assert!(copied.unwrap().success());
            give(shelf.path(), NOBODY);
            (NOBODY, binary)
        });
        Self { shelf, other }
    }

    /// Returns the directory of the objects.
    fn base(&self) -> PathBuf {
        let base = Base::at(self.shelf.path()).path().to_owned();
        self.other
            .as_ref()
            .map_or(base, |(uid, _)| self.shelf.path().join(format!("backcast-{uid}")))
    }

    fn run(&self, line: &str) -> Ran {
        let mut command = self.shelf.command();
        if let Some((uid, binary)) = &self.other {
            command = Command::new(binary);
            command.uid(*uid).gid(*uid).current_dir(self.shelf.path());
            command.env("BACKCAST_DIR", self.shelf.path());
            command.env("BACKCAST_STORE", self.shelf.store());
        }
        command.args(line.split_whitespace()).output_bounded().expect("the binary runs").into()
    }

    fn row(&self, kind: &str, name: &str) -> Value {
        let listed = self.run("--json ls").expect(1).out;
        let rows = listed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut of_name = rows.filter(|row| row["kind"] == kind && row["name"] == name);
        of_name.next().unwrap_or_else(|| panic!("{name} is not listed: {listed}"))
    }
}

/// Gives a directory and all in it to a user.
fn give(path: &Path, uid: u32) {
    chown(path, Some(uid), Some(uid)).unwrap();
    for entry in fs::read_dir(path).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            give(&entry.path(), uid);
        } else {
            chown(entry.path(), Some(uid), Some(uid)).unwrap();
        }
    }
}

/// Takes all rights on a file or directory away until it is dropped.
struct Closed {
    path: PathBuf,
    before: Permissions,
}

impl Closed {
    fn new(path: PathBuf) -> Self {
        let before = fs::metadata(&path).unwrap().permissions();
        fs::set_permissions(&path, Permissions::from_mode(0o000)).unwrap();
        Self { path, before }
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        fs::set_permissions(&self.path, self.before.clone()).unwrap();
    }
}

/// Checks the text about an object that may be whole: it says `denied`, not `damaged`.
#[track_caller]
fn says_denied(what: &str, text: &str) {
    assert!(text.to_lowercase().contains("permission denied"), "{what}: {text}");
    for wrong in ["damaged or not", "is damaged", "restore", "backcast rm", "does not exist"] {
        assert!(!text.contains(wrong), "{what}: `{wrong}`: {text}");
    }
}

#[test]
fn an_object_whose_files_may_not_be_opened_is_denied_not_damaged() {
    let bound = Bound::new();
    for (name, file) in [
        ("pong", "pong.ring"),
        ("pong", "pong.ring/ring.lck"),
        ("pong", "pong.ring/ring.ctl"),
        ("pong", "pong.ring/ring.rdr"),
        ("pong", "pong.ring/lane-0001.dat"),
        ("prices", "prices.panel"),
        ("prices", "prices.panel/panel.dat"),
    ] {
        let _closed = Closed::new(bound.base().join(file));
        let row = bound.row(if name == "pong" { "ring" } else { "panel" }, name);
        assert_eq!(row["state"], "denied", "{file}: {row}");
        says_denied(file, row["error"].as_str().unwrap());
        let ls = bound.run("ls").expect(1);
        assert!(ls.err.contains("1 denied"), "{file}: {}", ls.err);
        says_denied(file, &format!("{}{}", ls.out, ls.err));
        says_denied(file, &bound.run(&format!("stat {name}")).expect(1).err);
        let doctor = bound.run("doctor").expect(1).out;
        let stale = doctor.split("stale_objects").nth(1).unwrap();
        assert!(stale.contains(name), "{file}: {doctor}");
        let findings = bound.run("--json doctor").expect(1).out;
        let mut findings = findings.lines().map(|l| serde_json::from_str::<Value>(l).unwrap());
        let found = findings.find(|finding| finding["check"] == "stale_objects").unwrap();
        assert_eq!(found["evidence"]["denied"][0]["name"], name, "{file}: {found}");
        assert_eq!(found["evidence"]["damaged"], Value::Array(Vec::new()), "{file}: {found}");
        assert_eq!(bound.run("gc").expect(0).out, "", "{file}");
        if name == "pong" {
            let top = bound.run("top --once --interval 0.05").expect(0).out;
            assert!(
                top.lines().any(|l| l.contains("pong") && l.contains("denied")),
                "{file}: {top}"
            );
            for line in ["export pong out.csv", "save pong other", "resize pong --capacity 9_000"] {
                says_denied(&format!("{line}: {file}"), &bound.run(line).expect(1).err);
            }
        } else {
            says_denied(file, &bound.run("panel stat prices").expect(1).err);
        }
    }
    bound.run("ls").expect(0);
}

#[test]
fn a_saved_ring_that_may_not_be_read_is_denied_not_damaged() {
    let bound = Bound::new();
    let folder = bound.shelf.store().join("pong");
    let manifest = folder.join("manifest-0");
    for path in [folder.clone(), manifest] {
        let what = path.display().to_string();
        let _closed = Closed::new(path);
        let row = bound.row("snapshot", "pong");
        assert_eq!(row["state"], "denied", "{what}: {row}");
        says_denied(&what, row["error"].as_str().unwrap());
        for line in ["stat pong@kept", "load pong@kept --as old", "verify pong", "rm pong@kept"] {
            says_denied(&format!("{line}: {what}"), &bound.run(line).expect(1).err);
        }
    }
    // A file of rows that the manifest, which can be read, lists.
    let chunks = folder.join("chunks");
    let chunk = fs::read_dir(&chunks).unwrap().next().expect("a file of rows").unwrap().path();
    let _closed = Closed::new(chunk);
    says_denied("load", &bound.run("load pong@kept --as old").expect(1).err);
    says_denied("verify", &bound.run("verify pong").expect(1).out);
}

#[test]
fn a_directory_that_may_not_be_looked_into_is_not_said_to_be_missing() {
    let bound = Bound::new();
    let outer = bound.shelf.path().join("outer");
    fs::create_dir_all(outer.join("inner")).unwrap();
    let _closed = Closed::new(outer.clone());
    let inner = outer.join("inner").display().to_string();
    for line in [format!("ls --dir {inner}"), format!("man --into {inner}")] {
        let refused = bound.run(&line).expect(2).err;
        says_denied(&line, &refused);
        assert!(refused.contains(&inner) && !refused.contains("create it"), "{line}: {refused}");
    }
    let ls = bound.run(&format!("ls --store {inner}")).expect(1);
    assert!(ls.out.contains("pong") && ls.err.contains(&inner), "{}", ls.err);
    fs::create_dir(bound.shelf.path().join("empty")).unwrap();
    let empty = bound.shelf.path().join("empty").display().to_string();
    if let Some((uid, _)) = &bound.other {
        give(Path::new(&empty), *uid);
    }
    let none = bound.run(&format!("ls --dir {empty} --store {inner}")).expect(1).err;
    assert!(none.contains(&empty) && none.contains(&inner), "{none}");
    for line in [format!("ls --store {inner}"), format!("stat pong@kept --store {inner}")] {
        says_denied(&line, &bound.run(&line).expect(1).err);
    }
    let import = format!("import {inner}/x.parquet new");
    says_denied(&import, &bound.run(&import).expect(1).err);
    let schema = format!("create new --schema {inner}/x.json --capacity 10");
    says_denied(&schema, &bound.run(&schema).expect(2).err);
    let panel = format!("panel stat {inner}/x.csv");
    says_denied(&panel, &bound.run(&panel).expect(1).err);
    let config = format!("serve --config {inner}/x.toml");
    says_denied(&config, &bound.run(&config).expect(2).err);
}
