//! Reason why a wait for rows goes on: which rows cannot be drawn yet, and which processes write.

use super::Ring;
use super::lane_inspection::InspectedLane;
use crate::row_flags::FINAL;
use crate::row_header::RowHeader;
use crate::wait::processes_in_words;

/// Maximum lanes that are named.
const MAX_NAMED: usize = 8;

impl Ring {
    /// Says why there are not more transitions: rows without a successor, and the writers.
    /// O(lanes), and a search of all processes at worst, so it is only for messages.
    pub(crate) fn why_no_transitions(&self) -> String {
        let lanes: Vec<u32> =
            (0..self.lanes()).filter(|lane| self.awaits_successor(*lane)).collect();
        let writers = self.writers_in_words();
        if lanes.is_empty() {
            return writers;
        }
        let named: Vec<String> = lanes.iter().take(MAX_NAMED).map(u32::to_string).collect();
        let more = if lanes.len() > MAX_NAMED { ", …" } else { "" };
        format!(
            "a transition needs its next row, and {} of {} lanes wait for theirs (lane {}{more}); \
             {writers}",
            lanes.len(),
            self.lanes(),
            named.join(", ")
        )
    }

    /// Says which processes write the ring: none, only this one, or the named ones.
    pub(crate) fn writers_in_words(&self) -> String {
        let store = self.store();
        let held: Vec<u32> = (0..self.lanes()).filter(|lane| store.lane_held(*lane)).collect();
        if self.name().is_none() || !cfg!(target_os = "linux") {
            let pids = self.holders(&held).into_iter().map(|(pid, _)| u32::try_from(pid).ok());
            return in_words(&pids.map(|pid| pid.into_iter().collect()).collect::<Vec<_>>());
        }
        // The number in a lane's header may be that of a process in another container.
        let mut holders = store.lane_holders();
        let holders = held.iter().map(|lane| holders.remove(lane).unwrap_or_default());
        in_words(&holders.collect::<Vec<_>>())
    }

    /// Returns whether the newest row of a lane would begin a transition if it had a successor.
    fn awaits_successor(&self, lane: u32) -> bool {
        let Some(InspectedLane { memory, rows, .. }) = self.inspect_lane(lane) else {
            return false;
        };
        let newest = rows.end.checked_sub(1).filter(|_| !rows.is_empty());
        // A header torn by a fast writer only makes a message wrong.
        newest.is_some_and(|newest| RowHeader::read(&*memory, newest).flags & FINAL == 0)
    }
}

/// Names the processes that hold lanes, given those of each held lane. A lane without any is held
/// by a process of another user or container, which is not seen.
fn in_words(holders: &[Vec<u32>]) -> String {
    let own = std::process::id();
    if holders.is_empty() {
        return "no process writes the ring".to_owned();
    }
    if holders.iter().all(|pids| *pids == [own]) {
        return format!(
            "its only writer is of this process ({own}): a thread that waits cannot append, so \
             append in another thread or process, or wait for less"
        );
    }
    let mut pids = holders.concat();
    pids.sort_unstable();
    pids.dedup();
    let named = processes_in_words(&pids);
    let is_unseen = holders.iter().any(Vec::is_empty) && !pids.is_empty();
    format!("it is written by {named}{}", if is_unseen { " and another one" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AutoresetMode, DType, RingOptions, Schema, StepColumns, WriterOptions};

    #[test]
    fn a_writer_that_is_not_seen_is_of_another_process() {
        let own = std::process::id();
        let other = u32::MAX;
        let [no_writer, ours, unseen] =
            [vec![], vec![vec![own]], vec![vec![]]].map(|h| in_words(&h));
        assert!(no_writer != unseen && ours.contains(&own.to_string()), "{no_writer} {ours}");
        assert_eq!(in_words(&[vec![own], vec![own]]), ours);
        assert_eq!(in_words(&[vec![], vec![]]), unseen);
        let [seen, and_unseen, and_ours] =
            [vec![vec![other]], vec![vec![other], vec![]], vec![vec![other], vec![own]]]
                .map(|holders| in_words(&holders));
        assert!(and_unseen.starts_with(&seen) && and_unseen != seen, "{and_unseen}");
        for said in [&seen, &and_unseen, &and_ours] {
            assert!(said.contains(&other.to_string()), "{said}");
        }
        assert!(and_ours.contains(&own.to_string()) && and_ours != ours, "{and_ours}");
    }

    #[test]
    fn lanes_whose_newest_row_has_no_successor_are_counted_and_at_most_eight_are_named() {
        let schema = Schema::builder().column("obs", DType::U8, &[]).build().unwrap();
        for lanes in [1_u32, 8, 9, 12] {
            let capacity = 20 * u64::from(lanes);
            let options = RingOptions::with_capacity(capacity).lanes(lanes);
            let ring = Ring::heap(&schema, options).unwrap();
            let options = WriterOptions::lanes(lanes).autoreset(AutoresetMode::SameStep);
            let mut writer = ring.writer(options).unwrap();
            let told = |lanes: std::ops::Range<u32>, of: u32| {
                let named: Vec<String> = lanes.clone().take(8).map(|n| n.to_string()).collect();
                let more = if lanes.len() > 8 { ", …" } else { "" };
                let named = named.join(", ");
                format!("{} of {of} lanes wait for theirs (lane {named}{more});", lanes.len())
            };
            let why = ring.why_no_transitions();
            assert!(!why.contains("next row"), "no row was written: {why}");
            let obs = vec![7_u8; lanes as usize];
            let none = vec![false; lanes as usize];
            let mut first = none.clone();
            first[0] = true;
            // In the second step the first lane ends, and has its final row.
            for (ends, awaiting) in [(&none, 0..lanes), (&first, 1..lanes)] {
                let columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
                let columns = columns.with_final("obs", &obs).unwrap();
                writer.append(&columns.step(ends, &none).unwrap()).unwrap();
                let why = ring.why_no_transitions();
                let is_told = why.contains(&told(awaiting.clone(), lanes));
                assert_eq!(is_told, !awaiting.is_empty(), "{awaiting:?}: {why}");
                assert_eq!(why.contains("next row"), !awaiting.is_empty(), "{why}");
            }
        }
    }
}
