//! The model of a lane: a plain list of episodes, each a plain list of steps.

/// Bytes of one row, a cell per user's column.
pub(crate) type Cells = Vec<Vec<u8>>;

pub(crate) const TERMINATED: u32 = 1;
pub(crate) const TRUNCATED: u32 = 2;
pub(crate) const FINAL: u32 = 4;
pub(crate) const GAP: u32 = 8;

#[derive(Debug)]
struct Step {
    cells: Cells,
    terminated: bool,
    truncated: bool,
}

#[derive(Debug)]
struct Episode {
    gap: bool,
    steps: Vec<Step>,
    /// The FINAL row: the final observation, step columns zero.
    last: Option<Cells>,
}

/// All rows ever written to a lane, overwritten ones included.
#[derive(Debug)]
pub(crate) struct Lane {
    capacity: usize,
    episodes: Vec<Episode>,
    /// Whether the next row does not continue the row before it.
    gap_due: bool,
    written: u64,
}

/// A row as readers must see it.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    pub(crate) seq: u64,
    pub(crate) episode: u64,
    pub(crate) t: u32,
    pub(crate) flags: u32,
    pub(crate) cells: &'a Cells,
}

/// A transition as samplers must see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transition<'a> {
    pub(crate) seq: u64,
    pub(crate) t: u32,
    /// Rows of the lane after the transition's own.
    pub(crate) age: i64,
    pub(crate) cells: &'a Cells,
    pub(crate) next: &'a Cells,
    pub(crate) terminated: bool,
    pub(crate) truncated: bool,
    /// Whether it is the last one of an episode that ended or was cut.
    pub(crate) is_last: bool,
}

impl Lane {
    pub(crate) fn new(capacity: u64) -> Self {
        let capacity = usize::try_from(capacity).unwrap();
        Self { capacity, episodes: Vec::new(), gap_due: false, written: 0 }
    }

    /// Adds a step, which continues the episode or begins the next one.
    pub(crate) fn step(&mut self, cells: Cells, terminated: bool, truncated: bool) {
        let over = self.episodes.last().is_none_or(|episode| episode.last.is_some());
        if over || self.gap_due {
            self.episodes.push(Episode { gap: self.gap_due, steps: Vec::new(), last: None });
            self.gap_due = false;
        }
        let episode = self.episodes.last_mut().unwrap();
        episode.steps.push(Step { cells, terminated, truncated });
        self.written += 1;
    }

    /// Adds the final observation of the episode.
    pub(crate) fn finish(&mut self, final_cells: Cells) {
        self.episodes.last_mut().unwrap().last = Some(final_cells);
        self.written += 1;
    }

    /// Returns whether the episode has ended and its final observation is missing.
    pub(crate) fn awaits_final(&self) -> bool {
        let Some(episode) = self.episodes.last() else { return false };
        let ended = episode.steps.last().is_some_and(|step| step.terminated || step.truncated);
        ended && episode.last.is_none() && !self.gap_due
    }

    /// Resets the environment, which has an effect only in the middle of an episode.
    pub(crate) fn restart(&mut self) {
        self.gap_due |= self.episodes.last().is_some_and(|episode| episode.last.is_none());
    }

    /// Continues with another writer.
    pub(crate) fn change_writer(&mut self) {
        self.gap_due = !self.episodes.is_empty();
    }

    pub(crate) fn episodes(&self) -> u64 {
        self.episodes.len() as u64
    }

    /// Returns every row ever written, oldest first.
    fn all_rows(&self) -> Vec<Row<'_>> {
        let mut rows = Vec::new();
        for (number, episode) in (0..).zip(&self.episodes) {
            for (t, step) in (0..).zip(&episode.steps) {
                let mut flags = 0;
                if step.terminated {
                    flags |= TERMINATED;
                }
                if step.truncated {
                    flags |= TRUNCATED;
                }
                if episode.gap && t == 0 {
                    flags |= GAP;
                }
                let seq = rows.len() as u64;
                rows.push(Row { seq, episode: number, t, flags, cells: &step.cells });
            }
            if let Some(cells) = &episode.last {
                let t = u32::try_from(episode.steps.len()).unwrap();
                let seq = rows.len() as u64;
                rows.push(Row { seq, episode: number, t, flags: FINAL, cells });
            }
        }
        rows
    }

    /// Returns the number of rows ever written.
    pub(crate) fn head(&self) -> u64 {
        self.written
    }

    /// Returns the rows within capacity, oldest first.
    pub(crate) fn rows(&self) -> Vec<Row<'_>> {
        let mut rows = self.all_rows();
        let forgotten = rows.len().saturating_sub(self.capacity);
        rows.drain(..forgotten);
        rows
    }

    /// Returns the transitions within capacity: a list per episode, oldest first.
    pub(crate) fn transitions(&self) -> Vec<Vec<Transition<'_>>> {
        let written = self.head();
        let oldest = self.rows().first().map_or(0, |row| row.seq);
        let mut seq = 0;
        let mut episodes = Vec::new();
        for episode in &self.episodes {
            let mut transitions = Vec::new();
            for (i, step) in episode.steps.iter().enumerate() {
                // The next observation is that of the next step, or the final one.
                let next = match episode.steps.get(i + 1) {
                    Some(after) => Some(&after.cells),
                    None => episode.last.as_ref(),
                };
                if let Some(next) = next
                    && seq >= oldest
                {
                    transitions.push(Transition {
                        seq,
                        t: u32::try_from(i).unwrap(),
                        age: i64::try_from(written - seq - 1).unwrap(),
                        cells: &step.cells,
                        next,
                        terminated: step.terminated,
                        truncated: step.truncated,
                        is_last: false,
                    });
                }
                seq += 1;
            }
            seq += u64::from(episode.last.is_some());
            let is_over = episode.last.is_some() || seq < written;
            if let Some(last) = transitions.last_mut() {
                last.is_last = is_over;
            }
            episodes.push(transitions);
        }
        episodes.retain(|transitions| !transitions.is_empty());
        episodes
    }
}
