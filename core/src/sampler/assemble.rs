//! A batch on its way: drawn, looked at, copied and validated, block by block.

use std::mem;
use std::sync::Arc;

use backcast_layout::protocol::still_whole;

use super::job::{Job, MAX_ATTEMPTS, Stopped, Wanted};
use super::pick::Picks;
use super::{OFTEN, Sampler};
use crate::block::Block;
use crate::error::SampleError;
use crate::fill::Filler;
use crate::mark::Mark;
use crate::plan::BatchPlan;
use crate::reader::MOVES;

impl Sampler {
    /// Fills a batch. How many draws it took.
    pub(super) fn fill(
        &mut self,
        wanted: Wanted<'_>,
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
    ) -> Result<u64, SampleError> {
        for _ in 0..MOVES {
            let blind = !self.indexed || matches!(wanted, Wanted::Rows(_));
            let short = plan.is_short() && blind && !self.eventful;
            self.events = 0;
            let lanes = Arc::clone(&self.lanes);
            let filler = Filler { plan, gamma: self.options.gamma.unwrap_or(0.0) };
            let job = Job { wanted, lanes: &lanes, mapped: &lanes, filler };
            let tried = match lanes.first().filter(|_| short) {
                Some(lane) => self.fill_hands(job, lane, arenas),
                None => self.fill_blocks(job, arenas),
            };
            match tried {
                Ok(attempts) => {
                    self.eventful = self.events * OFTEN > plan.batch();
                    return Ok(attempts);
                }
                // What was drawn stays drawn: which rows a batch has does not depend on where they are.
                Err(Stopped::Moved) => {}
                Err(Stopped::Failed(error)) => return Err(error),
            }
        }
        // A peer says again and again that lanes moved.
        Err(SampleError::Outrun { attempts: MAX_ATTEMPTS })
    }

    /// The same, block by block, from the memory that the lanes have now.
    fn fill_blocks(&mut self, job: Job<'_>, arenas: &mut [&mut [u8]]) -> Result<u64, Stopped> {
        let plan = job.filler.plan;
        let (reach, size, batch) =
            (self.reach, Block::size(plan.copies().row_bytes()), plan.batch());
        let span = |number: usize| (number * size).min(batch)..((number + 1) * size).min(batch);
        let marks = size.saturating_mul(reach.most_rows());
        for memory in &mut self.scratch {
            if memory.try_reserve(marks.saturating_sub(memory.len())).is_err() {
                let bytes = marks.saturating_mul(size_of::<Mark>());
                return Err(SampleError::TooLarge { batch, bytes }.into());
            }
        }
        // Put back at the end: after an error they are made anew.
        let scratch = mem::take(&mut self.scratch);
        let mut blocks =
            scratch.map(|memory| Block::over(memory, size, reach, plan.copies().stretches()));
        let [mut now, mut next] = blocks.each_mut();
        let (mut picks, mut attempts) = (Picks::new(reach, job.lanes), 0);
        self.draw(job, span(0), &mut picks);
        self.draw(job, span(1), &mut picks);
        self.look_at(job, span(0), &picks, now)?;
        now.find(plan.copies().stretches());
        now.ask_for_long();
        for number in 0..batch.div_ceil(size) {
            self.draw(job, span(number + 2), &mut picks);
            self.look_at(job, span(number + 1), &picks, next)?;
            next.find(plan.copies().stretches());
            job.filler.fill(now, Some(next), arenas);
            self.events += now.events();
            if now.is_still_whole() {
                attempts += now.attempts();
            } else {
                attempts += self.fill_some_again(job, now, arenas)?;
            }
            mem::swap(&mut now, &mut next);
        }
        self.scratch = blocks.map(Block::into_memory);
        Ok(attempts)
    }

    /// Draws those items of a block anew that somebody overwrote. How many draws all took.
    #[cold]
    pub(super) fn fill_some_again(
        &mut self,
        job: Job<'_>,
        block: &Block<'_>,
        arenas: &mut [&mut [u8]],
    ) -> Result<u64, Stopped> {
        let mut attempts = 0;
        for (i, item) in block.items().iter().enumerate() {
            let mut attempt = item.attempt;
            if !still_whole(item.run.lane(), block.first_row(i, item)) {
                attempt = self.fill_again(job, block.first() + i, attempt, arenas)?;
            }
            attempts += u64::from(attempt) + 1;
        }
        Ok(attempts)
    }

    /// Draws an item anew until nobody overwrites it meanwhile; the draw that did.
    fn fill_again(
        &mut self,
        job: Job<'_>,
        item: usize,
        attempt: u32,
        arenas: &mut [&mut [u8]],
    ) -> Result<u32, Stopped> {
        let mut again =
            Block::over(Vec::new(), 1, self.reach, job.filler.plan.copies().stretches());
        self.note_lap(job)?;
        again.begin(item);
        self.look(job, item, attempt + 1, &mut again)?;
        self.fill_alone(job, item, &mut again, arenas)
    }

    /// Fills a block of one item, and draws it anew until nobody overwrites it meanwhile; the draw that did.
    pub(super) fn fill_alone<'a>(
        &mut self,
        job: Job<'a>,
        item: usize,
        block: &mut Block<'a>,
        arenas: &mut [&mut [u8]],
    ) -> Result<u32, Stopped> {
        loop {
            block.find(job.filler.plan.copies().stretches());
            job.filler.fill(block, None, arenas);
            let Some(found) = block.items().first() else { return Ok(0) };
            let attempt = found.attempt;
            if still_whole(found.run.lane(), block.first_row(0, found)) {
                return Ok(attempt);
            }
            self.note_lap(job)?;
            block.begin(item);
            self.look(job, item, attempt + 1, block)?;
        }
    }
}
