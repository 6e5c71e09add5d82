//! `backcast doctor` on the machine that runs the tests finds the problems that the tests arrange.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use backcast_budget::BoundedCommand;

use crate::shelf::{Holder, Shelf};
use serde_json::Value;

/// Returns the finding of one check, from lines of JSON.
fn check(findings: &[Value], name: &str) -> Value {
    let of = |finding: &&Value| finding["check"] == name;
    findings.iter().find(of).unwrap_or_else(|| panic!("no check `{name}`")).clone()
}

#[test]
fn leftovers_of_a_killed_process_are_found_and_removed_by_gc() {
    let shelf = Shelf::stocked();
    let stale = || check(&shelf.json(&["doctor"]), "stale_objects");
    assert_eq!(stale()["status"], "ok");
    Holder::spawn(&shelf).kill();
    let found = stale();
    assert_eq!(found["status"], "finding");
    assert_eq!(found["evidence"]["orphans"], Value::from(vec!["held"]));
    assert!(found["remedy"].as_str().unwrap().contains("backcast gc"), "{found}");
    let said = shelf.run(&["doctor"]).expect(1);
    for text in ["finding  stale_objects", "held", "remedy: `backcast gc`"] {
        assert!(said.out.contains(text), "`{text}` is missing:\n{}", said.out);
    }
    assert!(!said.err.is_empty());
    shelf.run(&["gc"]).expect(0);
    assert_eq!(stale()["status"], "ok");
    assert_eq!(shelf.states().len(), 4, "looking changes nothing");
}

#[test]
fn a_damaged_ring_is_found_with_its_reason() {
    let shelf = Shelf::stocked();
    fs::write(shelf.object("pong.ring").join("ring.ctl"), "").unwrap();
    let found = check(&shelf.json(&["doctor"]), "stale_objects");
    assert_eq!(found["evidence"]["damaged"][0]["name"], "pong");
    assert!(found["remedy"].as_str().unwrap().contains("backcast rm pong"), "{found}");
}

#[test]
fn a_directory_from_which_others_may_take_rings_is_found() {
    let shelf = Shelf::stocked();
    assert_eq!(check(&shelf.json(&["doctor"]), "permissions")["status"], "ok");
    fs::set_permissions(shelf.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let found = check(&shelf.json(&["doctor"]), "permissions");
    assert_eq!(
        (&found["status"], &found["evidence"]["directory_mode"]),
        (&"finding".into(), &"0777".into())
    );
    assert!(found["remedy"].as_str().unwrap().starts_with("`chmod +t "), "{found}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_directory_named_from_here_is_judged_as_the_one_named_in_full() {
    let shelf = Shelf::new();
    fs::create_dir(shelf.path().join("small")).unwrap();
    let whole = shelf.path().join("small").display().to_string();
    let judged = |dir: &str| {
        let mut findings = shelf.json(&["doctor", "--dir", dir]);
        findings.retain(|finding| {
            ["directory", "memory", "permissions"].contains(&finding["check"].as_str().unwrap())
        });
        for finding in &mut findings {
            // The amount of free space changes meanwhile.
            finding["summary"].take();
            finding["evidence"].as_object_mut().unwrap().retain(|key, _| key == "path");
        }
        findings
    };
    let short = judged("small");
    assert_eq!(short.len(), 3);
    assert_eq!(short, judged(&whole));
    assert_eq!(short[0]["evidence"]["path"], whole);
    assert_ne!(short[0]["status"], "unknown");
}

/// The exit status says whether a check has a finding.
#[test]
fn the_exit_status_says_whether_there_is_a_finding() {
    let shelf = Shelf::new();
    let findings = shelf.json(&["doctor"]);
    assert!(findings.len() > 10, "{findings:?}");
    let found = findings.iter().any(|finding| finding["status"] == "finding");
    let said = shelf.run(&["doctor"]).expect(i32::from(found));
    assert_eq!(said.err.is_empty(), !found, "{}", said.err);
    assert!(!shelf.base().path().exists(), "nothing is made");
}

#[cfg(target_os = "linux")]
#[test]
fn a_limit_below_the_lanes_of_a_ring_is_found() {
    let shelf = Shelf::new();
    let create = "create wide --column x:f4 --capacity 4096 --lanes 32";
    shelf.run(&create.split_whitespace().collect::<Vec<_>>()).expect(0);
    let output = std::process::Command::new("sh")
        .args(["-c", "ulimit -n 64; exec \"$0\" --json doctor", env!("CARGO_BIN_EXE_backcast")])
        .env("BACKCAST_DIR", shelf.path())
        .output_bounded()
        .unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let findings: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let found = check(&findings, "open_files");
    assert_eq!(found["evidence"]["soft_limit_files"], 64);
    assert_eq!(found["evidence"]["largest_ring_lanes"], 32);
    assert!(found["remedy"].as_str().unwrap().contains("96"), "{found}");
}
