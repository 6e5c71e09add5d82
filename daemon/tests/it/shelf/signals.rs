//! Default signal actions in the child processes of tests, however the tests were started.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Once};

use backcast_budget::BoundedCommand;

use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ};
use signal_hook::flag;

/// Gives later children the default action of the signals that this process ignores.
///
/// `nohup`, the `&` of a script and some runners of jobs start programs with signals ignored, and a
/// program hands that on to its children. A signal that it handles has the default action there.
/// The handlers do nothing, so this process itself goes on ignoring the signals.
pub(crate) fn give_children_defaults() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for signal in [SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ] {
            if ignored() & (1 << (signal - 1)) != 0 {
                flag::register(signal, Arc::new(AtomicBool::new(false))).expect("a handler");
            }
        }
    });
}

/// Returns a bitmask of the signals that this process ignores.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(target_os = "linux")]
#[test]
fn tests_that_were_started_with_signals_ignored_pass_too() {
    let mut sh = std::process::Command::new("sh");
    sh.args(["-c", "trap '' HUP INT QUIT TERM; exec \"$0\" --exact \"$1\""]);
    sh.arg(std::env::current_exe().expect("this binary"));
    let ran =
        sh.arg("top::signals_give_the_terminal_back").output_bounded().expect("sh is everywhere");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && said.contains("1 passed"), "{said}");
}
