//! Reason why a wait for rows goes on: which rows cannot be drawn yet, and who writes.

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

    /// Says who writes the ring: no process, this one alone, or which ones.
    pub(crate) fn writers_in_words(&self) -> String {
        let store = self.store();
        let held: Vec<u32> = (0..self.lanes()).filter(|lane| store.lane_held(*lane)).collect();
        let mut pids: Vec<u64> = self.holders(&held).into_iter().map(|(pid, _)| pid).collect();
        pids.sort_unstable();
        pids.dedup();
        match pids.as_slice() {
            [] => "no process writes the ring".to_owned(),
            [pid] if *pid == u64::from(std::process::id()) => format!(
                "its only writer is of this process ({pid}): a thread that waits cannot append, so \
                 append in another thread or process, or wait for less"
            ),
            pids => {
                let pids: Vec<u32> =
                    pids.iter().filter_map(|pid| u32::try_from(*pid).ok()).collect();
                format!("it is written by {}", processes_in_words(&pids))
            }
        }
    }

    /// Returns whether the newest row of a lane would begin a transition if it had a successor.
    fn awaits_successor(&self, lane: u32) -> bool {
        let Some(InspectedLane { memory, rows, .. }) = self.inspect_lane(lane) else {
            return false;
        };
        let newest = rows.end.checked_sub(1).filter(|_| !rows.is_empty());
        // Torn by a fast writer, it may be wrong, in a message.
        newest.is_some_and(|newest| RowHeader::read(&*memory, newest).flags & FINAL == 0)
    }
}
