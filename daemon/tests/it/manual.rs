//! Completion in real shells, and the pages of the manual.

use std::fs;
use std::process::Command;

use backcast_budget::BoundedCommand;

use crate::shelf::{Shelf, commands};

#[test]
fn every_script_names_every_command_and_comes_without_a_directory() {
    let shelf = Shelf::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = shelf.run(&["--dir", "/no/such/place", "completions", shell]).expect(0);
        assert!(script.err.is_empty(), "{}", script.err);
        for command in commands(&shelf) {
            assert!(script.out.contains(&command), "{shell}: {command} is missing");
        }
        assert!(script.out.contains("persistent") || script.out.contains("no-huge-pages"));
        // Where the shell is installed, it parses the script without complaint.
        let file = shelf.file(&format!("script.{shell}"), &script.out);
        if let Ok(read) = Command::new(shell).args(["-n", &file]).output_bounded() {
            assert!(read.status.success(), "{shell}: {}", String::from_utf8_lossy(&read.stderr));
        }
    }
}

#[test]
fn bash_completes_commands_options_and_values() {
    let Ok(found) = Command::new("bash").arg("--version").output_bounded() else { return };
    assert!(found.status.success());
    let shelf = Shelf::new();
    let script = shelf.file("complete", &shelf.run(&["completions", "bash"]).expect(0).out);
    for (typed, offered) in [
        ("backcast st", "stat"),
        ("backcast doc", "doctor"),
        ("backcast ls --j", "--json"),
        ("backcast stat --kind pan", "panel"),
        ("backcast create --lane-p", "--lane-policy"),
        ("backcast completions z", "zsh"),
        ("backcast panel s", "stat"),
        ("backcast zzz", ""),
    ] {
        let line = format!(
            "source {script}; COMP_WORDS=({typed}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 )); \
             last=${{COMP_WORDS[COMP_CWORD]}}; \
             $(complete -p backcast | sed 's/.*-F \\([^ ]*\\).*/\\1/') \
             backcast \"$last\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"; echo \"${{COMPREPLY[*]}}\""
        );
        let ran = Command::new("bash").args(["--norc", "-c", &line]).output_bounded().unwrap();
        let err = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(String::from_utf8_lossy(&ran.stdout).trim(), offered, "{typed}: {err}");
        assert!(err.is_empty(), "{typed}: {err}");
    }
}

#[test]
fn the_manual_has_a_page_for_each_command_with_its_examples() {
    let shelf = Shelf::new();
    let into = shelf.path().join("man1");
    fs::create_dir(&into).unwrap();
    let pages = shelf.json(&["man", "--into", into.to_str().unwrap()]);
    let names: Vec<&str> = pages.iter().map(|page| page["name"].as_str().unwrap()).collect();
    for command in commands(&shelf) {
        assert!(names.contains(&format!("backcast-{command}").as_str()), "{command}: {names:?}");
    }
    assert!(names.contains(&"backcast-panel-stat"), "{names:?}");
    for page in &pages {
        let text = fs::read_to_string(page["path"].as_str().unwrap()).unwrap();
        assert!(text.contains(".SH SYNOPSIS") && text.contains(".TH backcast"), "{text}");
        // A page may have exit statuses in place of examples.
        let shows = text.contains("Examples:") || text.contains("Exit status:");
        assert!(shows, "{}: {text}", page["name"]);
    }
    assert_eq!(fs::read_dir(&into).unwrap().count(), pages.len());
    let printed = shelf.run(&["man"]).expect(0).out;
    assert_eq!(printed, fs::read_to_string(into.join("backcast.1")).unwrap());
}
