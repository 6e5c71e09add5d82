//! Processes that a wait is for, in words.

use std::fs;

/// Maximum processes that are named.
const MAX_NAMED: usize = 8;

/// Names at most eight processes, such as `process 123 (python3, stopped)`. Without any, says
/// `another process`. Reads `/proc`, so it is only for messages.
#[must_use]
pub fn processes_in_words(pids: &[u32]) -> String {
    let named: Vec<String> = pids.iter().take(MAX_NAMED).map(|pid| in_words(*pid)).collect();
    match named.len() {
        0 => "another process".to_owned(),
        1 => format!("process {}", named.concat()),
        _ => format!("processes {}", named.join(", ")),
    }
}

fn in_words(pid: u32) -> String {
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let command = read("comm");
    let command = backcast_layout::printable(command.trim());
    // The name, which may contain anything, is in parentheses before the state.
    let stat = read("stat");
    let state = stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
    let is_stopped = matches!(state, Some('T' | 't'));
    match (command.is_empty(), is_stopped) {
        (true, _) => pid.to_string(),
        (false, false) => format!("{pid} ({command})"),
        (false, true) => format!("{pid} ({command}, stopped)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_process_is_another_one_and_many_are_cut() {
        let [other, one, many] = [0, 1, 20].map(|count| processes_in_words(&vec![u32::MAX; count]));
        let named = |text: &str| text.matches(&u32::MAX.to_string()).count();
        assert!(!other.is_empty());
        assert_eq!([&other, &one, &many].map(|text| named(text)), [0, 1, MAX_NAMED]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_stopped_process_is_said_to_be_stopped() {
        use std::process::{Command, Stdio};

        use backcast_budget::BoundedChild;

        let mut child = Command::new("sleep").arg("600").stdout(Stdio::null()).spawn().unwrap();
        let pid = child.id();
        let process = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(process, rustix::process::Signal::STOP).unwrap();
        // Returns when the kernel has stopped it.
        let options = rustix::process::WaitOptions::UNTRACED;
        rustix::process::waitpid(Some(process), options).unwrap();
        let named = processes_in_words(&[pid]);
        child.kill().unwrap();
        child.wait_bounded().unwrap();
        assert!(named.contains(&format!("{pid} (sleep, stopped)")), "{named}");
    }
}
