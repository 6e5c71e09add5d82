//! Lanes and counts of the model.

use super::{BASE, Setting, State, samples_at};

/// A lane: for each row that it keeps, oldest first, whether it starts a transition.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ModelLane {
    rows: Vec<bool>,
    /// Whether the next row completes a transition. The row that starts it may have been dropped.
    has_begun: bool,
}

impl ModelLane {
    fn push(&mut self, most: usize) {
        self.rows.push(false);
        if self.rows.len() > most {
            self.rows.remove(0);
        }
    }

    fn complete(&mut self) {
        if let Some(newest) = self.rows.last_mut() {
            *newest = true;
        }
    }

    /// Appends a row, and a FINAL row if the episode ends.
    fn append(&mut self, most: usize, ends: bool) {
        if self.has_begun {
            self.complete();
        }
        self.push(most);
        self.has_begun = true;
        if ends {
            self.complete();
            self.push(most);
            self.has_begun = false;
        }
    }

    fn wanted(&self, ends: bool) -> u64 {
        u64::from(self.has_begun) + u64::from(ends)
    }

    pub(super) fn drop_all(&mut self) {
        self.rows.clear();
    }

    pub(super) fn drop_oldest(&mut self) {
        if !self.rows.is_empty() {
            self.rows.remove(0);
        }
    }
}

/// Writer of the lanes whose number modulo the number of writers is its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Writer {
    /// It waits for its turn, or for its environment.
    Idle,
    /// It has published this number of transitions and has not counted them.
    Published(u64),
}

impl State {
    pub(super) fn drawable(&self) -> u64 {
        let rows = self.lanes.iter().flat_map(|lane| &lane.rows);
        rows.filter(|starts| **starts).count() as u64
    }

    /// Returns the transitions of the next append of a writer.
    pub(super) fn wanted(&self, number: usize, writers: usize, ends: bool) -> u64 {
        self.lanes.iter().skip(number).step_by(writers).map(|lane| lane.wanted(ends)).sum()
    }

    pub(super) fn publish(&mut self, number: usize, setting: &Setting, ends: bool) {
        let n = self.wanted(number, setting.writers, ends);
        for lane in self.lanes.iter_mut().skip(number).step_by(setting.writers) {
            lane.append(setting.rows, ends);
        }
        self.writers[number] = if n == 0 { Writer::Idle } else { Writer::Published(n) };
    }

    /// Replaces a killed writer: its lanes begin new episodes.
    pub(super) fn kill_writer(&mut self, number: usize, writers: usize) {
        for lane in self.lanes.iter_mut().skip(number).step_by(writers) {
            lane.has_begun = false;
        }
        self.writers[number] = Writer::Idle;
    }

    pub(super) fn clear(&mut self, setting: &Setting) {
        self.lanes.iter_mut().for_each(ModelLane::drop_all);
        self.count_dropped(setting);
    }

    /// Counts the transitions that can no longer be drawn, like `Ring::clear`.
    pub(super) fn count_dropped(&mut self, setting: &Setting) {
        let gone = self.inserts.saturating_sub(self.drawable());
        let draws = setting.limits[self.limits].draws_of(gone);
        self.samples = self.samples.max(draws);
        self.least_samples = self.least_samples.max(draws);
        self.dropped_at = self.dropped_at.max(self.inserts);
    }

    /// Sorts the writers if each has one lane, and the samplers of each batch size: their numbers
    /// decide nothing.
    fn sort(&mut self, setting: &Setting) {
        if setting.writers == setting.lanes {
            let mut pairs: Vec<_> =
                self.lanes.drain(..).zip(self.writers.iter().copied()).collect();
            pairs.sort();
            (self.lanes, self.writers) = pairs.into_iter().unzip();
        }
        let mut first = 0;
        for same in setting.batches.chunk_by(|a, b| a == b) {
            self.held[first..first + same.len()].sort_unstable();
            first += same.len();
        }
    }

    /// Shifts all counts, so that states that differ in nothing else are equal.
    pub(super) fn normalise(&mut self, setting: &Setting) {
        // The limits of a setting have one ratio.
        let limits = &setting.limits[self.limits];
        // Shift by an even number, so that half a sample for each stays whole.
        let shift = (self.inserts - BASE.min(self.inserts)) / 2 * 2;
        self.inserts -= shift;
        self.samples = self.samples.saturating_sub(samples_at(shift, limits));
        self.least_samples = self.least_samples.saturating_sub(samples_at(shift, limits));
        self.dropped_at = self.dropped_at.saturating_sub(shift);
        // A ceiling that was reached holds alike, however long ago.
        self.ceiling = self.ceiling.map(|at| at.saturating_sub(shift).max(self.inserts));
        // Bounds the counts that grow without end, since each `clear` lets writers insert without
        // draws. Older drops of rows, and a lead farther above the band, decide the same.
        self.dropped_at = self.dropped_at.max(self.inserts.saturating_sub(setting.most()));
        self.sort(setting);
        let lead = setting.far_lead();
        self.samples = self.samples.max(samples_at(self.inserts, limits).saturating_sub(lead));
        // Draws give back at most what samplers hold.
        let least = self.samples.saturating_sub(self.held.iter().sum());
        self.least_samples = self.least_samples.clamp(least, self.samples);
    }
}
