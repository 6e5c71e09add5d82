//! Sentences on who waits for whom at a ring.

use backcast_core::{LimiterStats, LimiterWaiter, LockedTable, RingStats, processes_in_words};

/// Shortest wait for a rate limiter that is reported. Shorter ones are its regular work.
const LEAST_MS: u64 = 1_000;
/// Most sentences on waits for a rate limiter, and most processes or leases in one.
const MOST_NAMED: usize = 8;

/// Returns a sentence for each wait at a ring, at a moment in milliseconds since 1970. Waits for a
/// rate limiter are described in the words of the error that would end them.
pub(crate) fn sentences(stats: &RingStats, locked: &[LockedTable], unix_ms: u64) -> Vec<String> {
    let writers = stats.lane_stats.iter().filter(|lane| lane.held).filter_map(|lane| lane.pid);
    let writers = distinct(writers);
    let limiter = stats.limiter.iter();
    let mut said: Vec<String> =
        limiter.flat_map(|limiter| limited(stats, limiter, &writers, unix_ms)).collect();
    if stats.release_awaited {
        said.push(lease(stats));
    }
    if stats.rows_awaited {
        let by = match writers.as_slice() {
            [] => "no process writes the ring".to_owned(),
            pids => format!("it is written by {}", named(pids)),
        };
        said.push(format!("a process waits for rows or transitions; {by}"));
    }
    said.extend(locked.iter().map(|LockedTable { table, pids, .. }| {
        format!(
            "the table `{table}` is locked by {}, and changes of it wait; let that process \
             continue (`kill -CONT PID` if it is stopped), or end it",
            processes_in_words(pids)
        )
    }));
    said
}

/// Describes the waits for the rate limiter that are not part of its regular work.
fn limited(
    stats: &RingStats,
    limiter: &LimiterStats,
    writers: &[u64],
    unix_ms: u64,
) -> Vec<String> {
    let readers = distinct(stats.readers.iter().map(|reader| reader.pid));
    let late = |waiter: &&LimiterWaiter| unix_ms.saturating_sub(waiter.since_unix_ms) >= LEAST_MS;
    let late: Vec<&LimiterWaiter> = limiter.waiters.iter().filter(late).collect();
    let sentence = |waiter: &&LimiterWaiter| {
        let peers = if waiter.lane.is_some() { readers.as_slice() } else { writers };
        // Whole seconds: views that read again and again show a sentence that rarely changes.
        let waited_s = unix_ms.saturating_sub(waiter.since_unix_ms) / 1_000;
        let until = waiter.since_unix_ms.saturating_add(waited_s * 1_000);
        let wait = limiter.describe(waiter, until, peers.to_vec());
        // The error names processes by their numbers. A stopped one may be what the wait is for.
        let names = Some(named(peers)).filter(|names| names.contains(", stopped)"));
        let names = names.map_or_else(String::new, |names| format!(": {names}"));
        format!("{}: {wait}{names}", named(&[waiter.pid]))
    };
    let mut said: Vec<String> = late.iter().take(MOST_NAMED).map(sentence).collect();
    if let Some(more @ 1..) = late.len().checked_sub(MOST_NAMED) {
        said.push(format!("{more} more writers or samplers wait for the rate limiter"));
    }
    said
}

/// Describes the wait of a writer for a lease, with the leases that there are.
fn lease(stats: &RingStats) -> String {
    let pins = stats.pins.iter().take(MOST_NAMED);
    let pins: Vec<String> = pins
        .map(|pin| format!("lane {} from row {} on, by {}", pin.lane, pin.start, named(&[pin.pid])))
        .collect();
    let leases = if pins.is_empty() { "it ended just now".to_owned() } else { pins.join("; ") };
    format!(
        "a writer waits for a lease to end ({leases}); end the lease, or that process (`kill -CONT \
         PID` if it is stopped)"
    )
}

/// Returns at most [`MOST_NAMED`] numbers, in order, without 0 and without duplicates.
fn distinct(pids: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut pids: Vec<u64> = pids.filter(|pid| *pid != 0).collect();
    pids.sort_unstable();
    pids.dedup();
    pids.truncate(MOST_NAMED);
    pids
}

fn named(pids: &[u64]) -> String {
    let pids = pids.iter().filter_map(|pid| u32::try_from(*pid).ok());
    processes_in_words(&pids.collect::<Vec<_>>())
}
