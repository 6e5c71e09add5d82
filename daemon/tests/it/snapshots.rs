//! Snapshots from the command line: saved, listed, checked, loaded and removed.

use std::fs;
use std::path::PathBuf;

use crate::shelf::{Shelf, schema};
use backcast_core::{
    AutoresetMode, DType, Params, ParamsArray, ParamsOptions, Ring, StepColumns, WriterOptions,
};
use serde_json::Value;

/// Returns a shelf with a ring `pong` of `rows` rows in each of two lanes.
fn with_pong(rows: u16) -> Shelf {
    let shelf = Shelf::new();
    let ring = Ring::create("pong", &schema(), shelf.options().persistent(true)).unwrap();
    append(&ring, rows);
    shelf
}

fn append(ring: &Ring, rows: u16) {
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
}

/// Returns the actions of both lanes.
fn actions(shelf: &Shelf, name: &str) -> Vec<i32> {
    let ring = Ring::attach_in(&shelf.base(), name).unwrap();
    let of = |lane| {
        let rows = ring.rows(lane, ring.lane_span(lane).unwrap()).unwrap();
        rows.column::<i32>("action").unwrap().to_vec()
    };
    [of(0), of(1)].concat()
}

fn chunk(shelf: &Shelf) -> PathBuf {
    let folder = fs::read_dir(shelf.store().join("pong/chunks")).unwrap();
    folder.map(|entry| entry.unwrap().path()).max().expect("a chunk")
}

#[test]
fn a_ring_goes_to_disk_and_comes_back() {
    let shelf = with_pong(100);
    let is = actions(&shelf, "pong");
    let saved = shelf.run(&["save", "pong", "epoch-1"]).expect(0);
    assert!(saved.out.contains("pong@epoch-1: 200 rows (200 new, "), "{}", saved.out);
    assert!(saved.err.is_empty(), "no progress where there is no terminal: {}", saved.err);
    append(&Ring::attach_in(&shelf.base(), "pong").unwrap(), 10);
    let saved = shelf.run(&["save", "pong"]).expect(0);
    assert!(saved.out.contains("pong@s1: 220 rows (20 new, "), "{}", saved.out);
    assert!(shelf.run(&["save", "pong"]).expect(0).out.contains("pong@s2"));
    shelf.run(&["rm", "pong"]).expect(0);
    let listed = shelf.states();
    let saved = |label: &str| (format!("pong@{label}"), "saved".to_owned());
    assert_eq!(listed, ["epoch-1", "s1", "s2"].map(saved));

    let loaded = shelf.run(&["load", "pong@epoch-1"]).expect(0);
    assert!(loaded.out.contains("pong@epoch-1 as pong: 200 rows, "), "{}", loaded.out);
    assert_eq!(actions(&shelf, "pong"), is);
    shelf.run(&["load", "pong", "--as", "newest"]).expect(0);
    assert_eq!(actions(&shelf, "newest").len(), 220);
    shelf.run(&["load", "pong", "--exist", "replace"]).expect(0);
    assert_eq!(actions(&shelf, "pong").len(), 220);

    let stat = shelf.run(&["stat", "pong@epoch-1"]).expect(0);
    for text in ["pong@epoch-1", "200", "obs", "2x3", "LANE", "FIRST"] {
        assert!(stat.out.contains(text), "{}", stat.out);
    }
    let removed = shelf.run(&["rm", "pong@s1"]).expect(0);
    assert!(removed.out.contains("pong@s1"), "{}", removed.out);
    shelf.run(&["rm", "pong@s1"]).expect(3);
    assert!(shelf.run(&["verify", "pong"]).expect(0).out.contains("pong"));
    let taken = shelf.run(&["save", "pong", "epoch-1"]).expect(1);
    assert!(taken.err.contains("`--replace`"), "{}", taken.err);
    let reserved = shelf.run(&["save", "pong", "live"]).expect(2);
    assert!(reserved.err.contains("`live`"), "{}", reserved.err);
    let saved = shelf.run(&["save", "pong", "epoch-1", "--replace"]).expect(0);
    assert!(saved.out.contains("220 rows"), "{}", saved.out);
}

#[test]
fn parameters_are_saved_and_loaded_with_a_ring() {
    let shelf = with_pong(10);
    let policy = |name: &str, version| {
        let array = ParamsArray::new("w", DType::F32, &[6]).unwrap();
        let options = ParamsOptions::default().base(shelf.base()).persistent(true);
        let mut params = Params::create(name, vec![array], options).unwrap();
        params.publish_bytes(&[&[7; 24]], Some(version)).unwrap();
    };
    policy("policy", 40);
    policy("target", 30);
    shelf.run(&["save", "pong", "plain"]).expect(0);
    let saved = shelf.run(&["save", "pong", "a", "--params", "policy", "--params", "target"]);
    let saved = saved.expect(0).out;
    assert!(saved.contains("policy: version 40\n"), "{saved}");
    let json = shelf.json(&["save", "pong", "b", "--params", "policy"]);
    assert_eq!(
        (&json[0]["params"][0]["version"], &json[0]["written_files"]),
        (&40.into(), &1.into())
    );
    let unknown = shelf.run(&["save", "pong", "c", "--params", "polcy"]).expect(3);
    assert!(unknown.err.contains("`policy`"), "{}", unknown.err);
    shelf.run(&["save", "pong", "c", "--daemon", "--params", "policy"]).expect(2);
    assert!(shelf.run(&["stat", "pong@a"]).expect(0).out.contains("policy: version 40, target:"));

    for name in ["pong", "policy", "target"] {
        shelf.run(&["rm", name]).expect(0);
    }
    let none = shelf.run(&["load", "pong@plain", "--params", "policy"]).expect(3);
    assert!(none.err.contains("`policy`"), "{}", none.err);
    let two = ["load", "pong@b", "--params", "policy", "--params", "target"];
    let one = shelf.run(&two).expect(3);
    assert!(one.err.contains("`policy`"), "{}", one.err);
    assert!(Params::attach_in(&shelf.base(), "policy").is_err(), "it was removed again");
    let loaded = shelf.run(&["load", "pong@b", "--params", "policy"]).expect(0).out;
    assert!(loaded.contains("policy: version 40"), "{loaded}");
    let mut found = Params::attach_in(&shelf.base(), "policy").unwrap();
    let mut bytes = [0; 24];
    assert_eq!((found.read_bytes(&mut [&mut bytes]).unwrap(), bytes), (40, [7; 24]));
    drop(found);
    // `load` attaches to nothing, and cannot rename parameters.
    let taken = shelf.run(&["load", "pong@b", "--as", "c", "--params", "policy"]).expect(1);
    for part in ["`policy`", "--exist replace"] {
        assert!(taken.err.contains(part) && !taken.err.contains("attach"), "{}", taken.err);
    }
    // If the ring's name is taken, the parameters are not created either.
    shelf.run(&["rm", "policy"]).expect(0);
    let taken = shelf.run(&["load", "pong@b", "--params", "policy"]).expect(1);
    assert!(taken.err.contains("--exist replace"), "{}", taken.err);
    assert!(Params::attach_in(&shelf.base(), "policy").is_err());
}

#[test]
fn the_option_says_which_store() {
    let shelf = with_pong(10);
    let other = shelf.path().join("other");
    let other = other.to_str().unwrap();
    shelf.run(&["save", "pong", "a", "--store", other]).expect(0);
    shelf.run(&["stat", "pong@a"]).expect(3);
    shelf.run(&["stat", "pong@a", "--store", other]).expect(0);
    assert_eq!(shelf.json(&["ls", "--store", other]).len(), 2);
    assert_eq!(shelf.json(&["ls"]).len(), 1);
    shelf.run(&["verify", "pong", "--store", other]).expect(0);
    shelf.run(&["load", "pong", "--as", "b", "--store", other]).expect(0);
    shelf.run(&["rm", "pong@a", "--store", other]).expect(0);
}

#[test]
fn a_damaged_snapshot_is_described_line_by_line_and_not_loaded() {
    let shelf = with_pong(100);
    shelf.run(&["save", "pong", "a"]).expect(0);
    let path = chunk(&shelf);
    let mut bytes = fs::read(&path).unwrap();
    let seq: Vec<u8> = (0..100_u64).flat_map(u64::to_le_bytes).collect();
    let at = bytes.windows(seq.len()).position(|window| window == seq).expect("column `seq`");
    let last = bytes.len() - 1;
    bytes[at + 77] ^= 1;
    bytes[last] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let verified = shelf.run(&["verify", "pong@a"]).expect(1);
    assert_eq!(verified.out.lines().count(), 2, "{}", verified.out);
    assert!(verified.out.contains("footer"), "{}", verified.out);
    assert!(
        ["`seq`", "0..100", "lane 0"].iter().all(|part| verified.out.contains(part))
            && verified.out.contains(path.to_str().unwrap())
    );
    let json = &shelf.json(&["verify", "pong@a"])[0];
    assert_eq!(
        (&json["whole"], json["damages"].as_array().map(Vec::len)),
        (&false.into(), Some(2))
    );
    let loaded = shelf.run(&["load", "pong@a", "--as", "b"]).expect(1);
    assert!(loaded.err.contains("damaged") && loaded.out.is_empty(), "{}", loaded.err);
    assert_eq!(shelf.json(&["ls"]).len(), 2, "the ring and the snapshot, and no `b`");

    let manifest = shelf.store().join("pong/manifest-0");
    fs::write(&manifest, "x").unwrap();
    let listed = shelf.run(&["ls"]).expect(1);
    assert!(listed.out.contains("damaged") && listed.out.contains("manifest-0"), "{}", listed.out);
    shelf.run(&["load", "pong@a"]).expect(1);
}

#[test]
fn json_has_the_keys_that_programs_rely_on() {
    let shelf = with_pong(50);
    let keys = |object: &Value| -> Vec<String> {
        let mut keys: Vec<_> = object.as_object().expect("an object").keys().cloned().collect();
        keys.sort_unstable();
        keys
    };
    let one = |args: &[&str]| {
        let mut lines = shelf.json(args);
        assert_eq!(lines.len(), 1, "{args:?}: {lines:?}");
        lines.remove(0)
    };
    let saved = one(&["save", "pong", "a"]);
    assert_eq!(
        keys(&saved).join(" "),
        "action freed_bytes lapped_rows left_out name params rows size_bytes written_files \
         written_rows"
    );
    assert_eq!((&saved["rows"], &saved["lapped_rows"]), (&100.into(), &0.into()));
    let stat = one(&["stat", "pong@a"]);
    assert_eq!(
        keys(&stat).join(" "),
        "columns files kind label lane_capacity_rows lane_count lanes name params ring_uuid rows \
         saved_state saved_unix_ns size_bytes state"
    );
    assert_eq!(keys(&stat["lanes"][0]).join(" "), "first_seq head_seq lane rows");
    assert_eq!(stat["size_bytes"], saved["size_bytes"]);
    let listed = shelf.json(&["ls"]);
    assert_eq!(keys(&listed[0]), keys(&listed[1]), "the same keys as a ring");
    assert_eq!(listed[1]["kind"], "snapshot");
    let loaded = one(&["load", "pong@a", "--as", "b"]);
    assert_eq!(
        keys(&loaded).join(" "),
        "action allocated_bytes lane_count name params path rows snapshot transitions"
    );
    let verified = one(&["verify", "pong"]);
    assert_eq!(
        keys(&verified).join(" "),
        "damages file_count name size_bytes snapshots unread whole"
    );
    let removed = one(&["rm", "pong@a"]);
    assert_eq!(keys(&removed).join(" "), "action kind name path size_bytes");
    assert_eq!(removed["size_bytes"], saved["size_bytes"], "one file, and nobody else's");
}

#[test]
fn refusals_say_what_to_do() {
    let shelf = with_pong(10);
    shelf.run(&["save", "pong", "epoch-1"]).expect(0);
    for (args, status, says) in [
        ("save zebra", 3, ["zebra", "backcast ls"]),
        ("save pong epoch-1", 1, ["pong@epoch-1", "backcast rm pong@epoch-1"]),
        ("save pong a/b", 2, ["a/b", "A-Z a-z 0-9 _ - ."]),
        ("save pong --replace", 2, ["--replace", "LABEL"]),
        ("save pong b --wait long", 2, ["long", "--wait"]),
        ("load pong@epoch-1", 1, ["--as", "--exist replace"]),
        ("load pong@epoch-2", 3, ["pong@epoch-2", "`pong@epoch-1`"]),
        ("load zebra", 3, ["zebra", "backcast ls"]),
        ("load pong@", 2, ["label", "``"]),
        ("load pong --exist attach", 2, ["attach", "replace"]),
        ("load pong --as x/y", 2, ["x/y", "A-Z a-z 0-9 _ - ."]),
        ("verify pong@epoch-2", 3, ["pong@epoch-2", "pong@epoch-1"]),
        ("verify", 2, ["NAME", "Usage"]),
        ("stat pong@epoch-2", 3, ["pong@epoch-2", "pong@epoch-1"]),
        ("rm pong@epoch-2", 3, ["pong@epoch-2", "pong@epoch-1"]),
    ] {
        let args: Vec<&str> = args.split_whitespace().collect();
        let ran = shelf.run(&args).expect(status);
        for text in says {
            assert!(ran.err.contains(text), "{args:?}: {}", ran.err);
        }
        assert!(ran.out.is_empty(), "{args:?}: {}", ran.out);
    }
}

#[test]
fn every_command_says_that_the_newest_manifest_is_damaged_or_missing() {
    for damage in ["changed", "missing"] {
        let shelf = with_pong(10);
        for label in ["a", "b", "c"] {
            shelf.run(&["save", "pong", label]).expect(0);
        }
        shelf.run(&["rm", "pong"]).expect(0);
        let slots = ["manifest-0", "manifest-1"].map(|slot| shelf.store().join("pong").join(slot));
        let has_newest = |slot: &&std::path::PathBuf| {
            fs::read_to_string(slot).unwrap().contains("\"label\":\"c\"")
        };
        let newest = slots.iter().find(has_newest).unwrap();
        match damage {
            "changed" => fs::write(newest, "backcast-manifest 1").unwrap(),
            _ => fs::remove_file(newest).unwrap(),
        }
        for (words, status) in [
            ("ls", 0),
            ("stat pong@b", 0),
            ("stat pong@c", 3),
            ("load pong", 0),
            ("export pong@b b.parquet", 0),
            ("rm pong@a", 0),
        ] {
            let words: Vec<&str> = words.split(' ').collect();
            let ran = shelf.run(&words).expect(status);
            let slot = newest.to_str().unwrap();
            assert!(
                ran.err.contains("warning") && ran.err.contains(slot),
                "{words:?}: {}",
                ran.err
            );
        }
    }
}

#[test]
fn a_verification_names_a_manifest_that_is_missing() {
    let shelf = with_pong(10);
    for label in ["a", "b", "c"] {
        shelf.run(&["save", "pong", label]).expect(0);
    }
    shelf.run(&["verify", "pong"]).expect(0);
    fs::remove_file(shelf.store().join("pong/manifest-0")).unwrap();
    let verified = shelf.run(&["verify", "pong"]).expect(1);
    assert!(verified.out.contains("manifest-0") && verified.out.contains("missing"));
}

/// `stat` finds a snapshot that is only in shared memory, and prefers one on disk.
#[test]
fn a_snapshot_in_shared_memory_is_found_by_its_name() {
    let shelf = with_pong(10);
    shelf.run(&["save", "pong", "a"]).expect(0);
    let store = backcast_persist::Store::at(shelf.store());
    let options = backcast_persist::LoadOptions::default().base(shelf.base());
    let open = store.attach_snapshot("pong@a", options).unwrap();
    let stated = &shelf.json(&["stat", "pong@a"])[0];
    assert_eq!(stated["kind"], "snapshot", "the one on disk has precedence");
    shelf.run(&["rm", "pong@a"]).expect(0);
    assert_eq!(shelf.json(&["stat", "pong@a"])[0]["kind"], "ring");
    drop(open);
    shelf.run(&["stat", "pong@a"]).expect(3);
}

#[test]
#[cfg(target_os = "linux")]
fn ctrl_c_ends_a_save_and_leaves_nothing_of_it() {
    use std::process::Stdio;

    use backcast_budget::{BoundedChild, until};
    use backcast_persist::{Disk, LockKind, Storage};
    use rustix::process::{Pid, Signal, kill_process};

    let shelf = with_pong(100);
    shelf.run(&["save", "pong", "a"]).expect(0);
    let files = || fs::read_dir(shelf.store().join("pong/chunks")).unwrap().count();
    let before = files();
    // The save waits for a lock that this test holds, until it is interrupted.
    let lock = shelf.store().join("pong/store.lck");
    let held = Disk.lock(&lock, LockKind::Exclusive).unwrap().expect("nobody saves");
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut command = shelf.command();
        command.args(["save", "pong", "b"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let listens = || {
            let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
            let caught = u64::from_str_radix(caught.trim(), 16).unwrap();
            // The mask has one bit per signal, from signal 1 in the lowest bit. Both signals are
            // caught.
            caught & (1 << 1) != 0 && caught & (1 << 14) != 0
        };
        until("the signals are caught", listens);
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.output_bounded().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{said}");
        assert!(said.contains("interrupted") && output.stdout.is_empty(), "{said}");
    }
    drop(held);
    assert_eq!(files(), before);
    assert_eq!(shelf.json(&["ls"]).len(), 2);
    shelf.run(&["save", "pong", "b"]).expect(0);
}
