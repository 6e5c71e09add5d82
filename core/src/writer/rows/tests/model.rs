//! Model of a lane, from the meaning of a row alone: a list of episodes, each a list of steps.
//!
//! It keeps every row that was ever written. Sequence numbers, numbers of episodes, and steps
//! follow from the places in the lists.

use crate::autoreset::AutoresetMode;
use crate::row_flags::{FINAL, GAP, TERMINATED, TRUNCATED};
use crate::writer::{ResetHint, WriterWarning};

/// One step of a lane. Observations are numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) obs: u8,
    pub(super) action: u8,
    pub(super) has_reward: bool,
    pub(super) terminated: bool,
    pub(super) truncated: bool,
    /// Observation that the step led to, if given.
    pub(super) next: Option<u8>,
    /// Final observation, if given.
    pub(super) last: Option<u8>,
}

impl Moment {
    pub(super) fn ends(&self) -> bool {
        self.terminated || self.truncated
    }
}

#[derive(Debug)]
struct Episode {
    /// Whether its first row is marked GAP.
    after_gap: bool,
    steps: Vec<Moment>,
    /// Observation of the FINAL row.
    last: Option<u8>,
}

/// A row as readers must see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) seq: u64,
    pub(super) episode: u64,
    pub(super) t: u32,
    pub(super) flags: u32,
    pub(super) obs: u8,
    pub(super) action: u8,
    pub(super) has_reward: bool,
}

/// A lane, and what its statistics must say.
#[derive(Debug, Default)]
pub(super) struct Lane {
    episodes: Vec<Episode>,
    /// Whether the next row does not continue the newest one.
    gap_due: bool,
    /// Final observation of the episode that ended with the last step.
    just_ended: Option<u8>,
    pub(super) cuts: u64,
    pub(super) suspect_resets: u64,
}

impl Lane {
    /// Returns the episode that the next step continues, or whose FINAL row it brings.
    fn open(&mut self) -> Option<&mut Episode> {
        let open = !self.gap_due;
        self.episodes.last_mut().filter(|episode| open && episode.last.is_none())
    }

    /// Returns whether the next step brings the FINAL row of an episode.
    pub(super) fn awaits_final(&mut self) -> bool {
        self.open().is_some_and(|episode| episode.steps.last().is_some_and(Moment::ends))
    }

    /// Ends the open episode with the `next_obs` of its newest step, if there is one. Returns that
    /// observation.
    fn end_with_next(&mut self) -> Option<u8> {
        let episode = self.open()?;
        let newest = *episode.steps.last()?;
        episode.last = newest.next;
        self.gap_due |= newest.next.is_some() && !newest.ends();
        newest.next
    }

    /// Finishes the lane: a `next_obs` that waits becomes the FINAL row.
    pub(super) fn finish(&mut self) {
        self.end_with_next();
    }

    /// Resets the environment, which ends an episode that is open.
    pub(super) fn restart(&mut self) {
        self.finish();
        self.gap_due |= self.open().is_some();
        self.just_ended = None;
    }

    /// Continues the lane with another writer.
    pub(super) fn change_writer(&mut self) {
        self.finish();
        self.gap_due = !self.episodes.is_empty();
        self.just_ended = None;
    }

    /// Returns the number of rows ever written.
    pub(super) fn head(&self) -> u64 {
        let rows = |episode: &Episode| episode.steps.len() + usize::from(episode.last.is_some());
        self.episodes.iter().map(rows).sum::<usize>() as u64
    }

    /// Returns the rows ever written, oldest first.
    pub(super) fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::<Row>::new();
        for (number, episode) in (0..).zip(&self.episodes) {
            for (t, step) in (0..).zip(&episode.steps) {
                let mut flags = 0;
                flags |= if step.terminated { TERMINATED } else { 0 };
                flags |= if step.truncated { TRUNCATED } else { 0 };
                flags |= if t == 0 && episode.after_gap { GAP } else { 0 };
                let Moment { obs, action, has_reward, .. } = *step;
                let seq = rows.len() as u64;
                rows.push(Row { seq, episode: number, t, flags, obs, action, has_reward });
            }
            if let Some(obs) = episode.last {
                let (seq, t) = (rows.len() as u64, u32::try_from(episode.steps.len()).unwrap());
                let (action, has_reward) = (0, false);
                rows.push(Row { seq, episode: number, t, flags: FINAL, obs, action, has_reward });
            }
        }
        rows
    }
}

/// A writer of the lanes, and what it must report.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) mode: AutoresetMode,
    /// Whether the rows have observations. Without them nothing is compared.
    pub(super) observes: bool,
    /// Whether a reward in the append after an end hints at a wrong mode.
    pub(super) judges_reward: bool,
    pub(super) lanes: Vec<Lane>,
    /// Rows whose `next_obs` the next append must show.
    appends: u64,
    cuts: u64,
    /// Warnings, each kind once.
    pub(super) warnings: Vec<WriterWarning>,
}

impl Writer {
    pub(super) fn new(
        mode: AutoresetMode,
        lanes: usize,
        observes: bool,
        judges_reward: bool,
    ) -> Self {
        let lanes = (0..lanes).map(|_| Lane::default()).collect();
        let (appends, cuts, warnings) = (0, 0, Vec::new());
        Self { mode, observes, judges_reward, lanes, appends, cuts, warnings }
    }

    /// Continues the lanes with another writer.
    pub(super) fn change(&mut self) {
        self.lanes.iter_mut().for_each(Lane::change_writer);
        (self.appends, self.cuts) = (0, 0);
        self.warnings.clear();
    }

    /// Adds a step of lane `i`. Returns the sequence number of its row.
    pub(super) fn step(&mut self, i: usize, mut step: Moment) -> u64 {
        let counts_next = step.next.is_some();
        if !self.observes {
            // Nothing follows from observations that are not stored.
            (step.obs, step.next, step.last) = (0, None, Some(0));
        }
        let (mode, judges_reward, of) = (self.mode, self.judges_reward, self.lanes.len() as u64);
        let lane = &mut self.lanes[i];
        let just_ended = lane.just_ended.take();
        let mut hint = None;
        if lane.awaits_final() {
            // Only in next-step mode. Action and reward are dropped; the observation is the final
            // one, unless the end said which it is.
            let episode = lane.open().unwrap();
            let said = episode.steps.last().unwrap().next;
            episode.last = Some(said.unwrap_or(step.obs));
            if said.is_some_and(|said| said != step.obs) {
                hint = Some(ResetHint::Differs);
            } else if step.ends() || (step.has_reward && judges_reward) {
                hint = Some(ResetHint::Acted);
            }
        } else {
            let next = lane.open().and_then(|episode| episode.steps.last()?.next);
            let is_cut = next.is_some_and(|next| next != step.obs);
            if is_cut {
                lane.end_with_next();
                lane.cuts += 1;
            }
            if self.observes && just_ended == Some(step.obs) {
                hint = Some(ResetHint::Repeated);
            }
            let after_gap = std::mem::take(&mut lane.gap_due);
            if after_gap || lane.open().is_none() {
                lane.episodes.push(Episode { after_gap, steps: Vec::new(), last: None });
            }
            let episode = lane.open().unwrap();
            episode.steps.push(step);
            let both = step.ends() && mode != AutoresetMode::NextStep;
            if both {
                let disabled = mode == AutoresetMode::Disabled;
                episode.last = step.last.or(step.next.filter(|_| disabled));
                lane.just_ended = episode.last;
            }
            self.appends += u64::from(counts_next && !both);
            if is_cut {
                self.cuts += 1;
                let (cuts, appends) = (self.cuts, self.appends);
                let told = self.warnings.iter().any(|w| matches!(w, WriterWarning::Cuts { .. }));
                // More than 5 % of at least 20 appends of each lane.
                if !told && appends >= 20 * of && cuts * 20 > appends {
                    self.warnings.push(WriterWarning::Cuts { cuts, appends });
                }
            }
        }
        if let Some(hint) = hint {
            self.lanes[i].suspect_resets += 1;
            let told = self.warnings.iter().any(|w| matches!(w, WriterWarning::Reset { .. }));
            if !told {
                self.warnings.push(WriterWarning::Reset { lane: i, mode, hint });
            }
        }
        // The newest row, or the one before its FINAL row.
        let is_pair = step.ends() && mode != AutoresetMode::NextStep;
        self.lanes[i].head() - if is_pair { 2 } else { 1 }
    }
}
