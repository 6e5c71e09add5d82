//! Choice of whole episodes: the selector chooses their first rows.

use super::Selection;
use crate::error::SampleError;
use crate::ring::lane_inspection::MAX_RELOCATIONS;
use crate::sampler::eligibility::{CompleteEpisode, EpisodeIndex, number};
use crate::sampler::gather::MAX_ATTEMPTS;
use crate::sampler::stream::DrawStream;

/// Attempts of an item after which new rows get priorities, and rows that are gone lose theirs.
pub(in crate::sampler) const ATTEMPTS_A_LOOK: u32 = 64;

/// Item whose episode is to be drawn.
#[derive(Clone, Copy, Debug)]
pub(in crate::sampler) struct OpenItem {
    item: usize,
    /// Next attempt of the RNG.
    attempt: u32,
}

impl OpenItem {
    /// Returns the items of a batch, for which nothing was drawn yet.
    pub(in crate::sampler) fn all(batch: usize) -> Vec<Self> {
        (0..batch).map(|item| Self { item, attempt: 0 }).collect()
    }

    /// Returns its number in the batch.
    pub(in crate::sampler) fn item(&self) -> usize {
        self.item
    }
}

impl Selection {
    /// Returns whether whole episodes are drawn.
    pub(in crate::sampler) fn has_episodes(&self) -> bool {
        self.eligibility.episodes().is_some()
    }

    /// Chooses a complete episode for every open item, among those of this moment.
    pub(in crate::sampler) fn choose_episodes(
        &mut self,
        stream: &mut DrawStream,
        open: &mut [OpenItem],
    ) -> Result<Vec<CompleteEpisode>, SampleError> {
        // Every draw reads the rows before its first choice.
        let is_first = open.iter().all(|open| open.attempt == 0);
        if !is_first {
            self.eligibility.refresh();
        }
        for _ in 0..MAX_RELOCATIONS {
            if self.complete() > 0 || !self.eligibility.is_overtaken() {
                break;
            }
            self.eligibility.refresh();
        }
        // A table of claims waits for episodes.
        if self.complete() == 0 && !self.awaits_rows() {
            return Err(self.nothing());
        }
        if is_first {
            self.begin(stream, open.len())?;
        } else {
            self.refresh_priorities()?;
        }
        open.iter_mut().map(|open| self.choose_episode(stream, open)).collect()
    }

    /// Returns the number of complete episodes.
    fn complete(&self) -> u64 {
        self.eligibility.episodes().map_or(0, EpisodeIndex::total)
    }

    /// Gives priorities to the new rows, and takes those of rows that are gone, if the selector has
    /// a table of them.
    pub(in crate::sampler) fn refresh_priorities(&mut self) -> Result<(), SampleError> {
        let Self { eligibility, selector, .. } = self;
        match selector.as_mut().and_then(|state| state.priorities_mut()) {
            Some(of) => Ok(eligibility.enter_rows(of)?),
            None => Ok(()),
        }
    }

    fn choose_episode(
        &mut self,
        stream: &mut DrawStream,
        open: &mut OpenItem,
    ) -> Result<CompleteEpisode, SampleError> {
        let (batch, item) = (stream.number(), open.item);
        while open.attempt < MAX_ATTEMPTS {
            let attempt = open.attempt;
            open.attempt += 1;
            let by_length = self.windows.episodes().is_some_and(|of| of.by_length);
            let Self { eligibility, selector, .. } = self;
            let Some(episodes) = eligibility.episodes() else { break };
            let row = match selector {
                None => {
                    let below = |total| stream.rng().below(total, batch, number(item), attempt);
                    let found = if by_length {
                        below(episodes.transitions()).and_then(|n| episodes.of_transition(n))
                    } else {
                        below(episodes.total()).and_then(|n| episodes.nth(n))
                    };
                    match found {
                        Some(episode) => return Ok(episode),
                        None => continue,
                    }
                }
                Some(state) if attempt == 0 => state.first_draw(item),
                Some(state) => {
                    let found =
                        state.candidate(stream.rng(), eligibility, (batch, item), attempt)?;
                    found.map(|row| (row.lane as usize, row.seq))
                }
            };
            if let Some(episode) = row.and_then(|(lane, row)| episodes.beginning_at(lane, row)) {
                return Ok(episode);
            }
            // Another process may have begun the pass of a table, and have seen newer rows.
            if self.awaits_rows() || open.attempt.is_multiple_of(ATTEMPTS_A_LOOK) {
                self.eligibility.refresh();
                self.refresh_priorities()?;
            }
        }
        Err(self.gave_up(false))
    }
}
