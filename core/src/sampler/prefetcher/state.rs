//! State of an iterator over batches: its draws run in the calls of its user, or in a thread.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Batches;
use super::thread::{Drawn, Running, draw};
use crate::error::SampleError;
use crate::sampler::Sampler;
use crate::sampler::batch::BatchBuffers;
use crate::wait::WaitStart;

/// Owner of the sampler.
pub(super) enum State<M> {
    Idle(Box<Sampler>),
    Running(Running<M>),
    /// Placeholder during a change of state.
    Gone,
}

impl<M: BatchBuffers> Batches<M> {
    /// Draws without a thread. A wait for the rate limiter or for rows is interrupted after `wait`.
    /// If `wait` is [`Duration::MAX`], the interrupt of the ring ends it instead.
    pub(super) fn draw_here(&mut self, wait: Duration) -> Drawn<M> {
        let State::Idle(sampler) = &mut self.state else {
            return Err((None, SampleError::NothingToFill { memory: self.memory }));
        };
        let memory = match self.make {
            Some(make) => make(sampler, self.plan.batch()).map_err(|error| (None, error))?,
            None => self
                .spare
                .pop_front()
                .ok_or((None, SampleError::NothingToFill { memory: self.memory }))?,
        };
        let now = Instant::now();
        let since = *self.since.get_or_insert(WaitStart::at(now));
        let Some(pause_at) = now.checked_add(wait) else {
            return draw(sampler, &self.plan, memory, Some(since));
        };
        sampler.gate.set_interrupt(self.pause.at(pause_at));
        let drawn = draw(sampler, &self.plan, memory, Some(since));
        sampler.gate.set_interrupt(self.ring.interrupt().clone());
        drawn
    }

    /// Returns the thread; starts it if there is none.
    pub(super) fn start(&mut self) -> Result<&Running<M>, SampleError> {
        if matches!(self.state, State::Idle(_))
            && let State::Idle(mut sampler) = std::mem::replace(&mut self.state, State::Gone)
        {
            // Keep the claims of the batches that wait, of the one being drawn, of the one returned
            // last, and of unused ones.
            sampler.selection.keep(self.kept().saturating_add(self.prefetch + 1));
            let plan = Arc::clone(&self.plan);
            let (make, left, prefetch) = (self.make, self.left, self.prefetch);
            match Running::start(sampler, plan, make, left, prefetch, &self.report) {
                Ok(running) => {
                    for memory in self.spare.drain(..) {
                        let _ = running.give(memory);
                    }
                    self.state = State::Running(running);
                }
                Err((sampler, error)) => {
                    self.state = State::Idle(sampler);
                    return Err(error);
                }
            }
        }
        match &self.state {
            State::Running(running) => Ok(running),
            _ => Err(SampleError::NothingToFill { memory: self.memory }),
        }
    }

    /// Stops the thread and takes back the sampler and all memory.
    pub(super) fn stop(&mut self) {
        if let Err(panic) = self.join() {
            resume_unwind(panic);
        }
    }

    pub(super) fn join(&mut self) -> std::thread::Result<()> {
        match std::mem::replace(&mut self.state, State::Gone) {
            State::Running(running) => {
                // Memory of the caller is kept; dropping other memory returns it to the sampler's
                // pool.
                let (callers, spare) = (self.make.is_none(), &mut self.spare);
                let keep = |memory| spare.extend(callers.then_some(memory));
                let mut sampler = running.stop(keep)?;
                let unreturned = sampler.next_batch().wrapping_sub(self.at.batches);
                let items = unreturned.saturating_mul(self.plan.batch() as u64);
                sampler.return_to(self.at.batches, items);
                sampler.selection.keep(self.kept());
                self.state = State::Idle(sampler);
            }
            other => self.state = other,
        }
        Ok(())
    }

    /// Returns the number of returned batches that can be drawn again.
    fn kept(&self) -> usize {
        usize::try_from(self.max_unused).map_or(usize::MAX, |unused| unused.saturating_add(1))
    }

    /// Lets a sampler that has no thread draw the unused batches again.
    pub(super) fn return_unused(&mut self) {
        let unused = std::mem::take(&mut self.unused);
        if let State::Idle(sampler) = &mut self.state {
            if unused > 0 {
                self.at.batches = self.at.batches.wrapping_sub(unused);
                let items = unused.saturating_mul(self.plan.batch() as u64);
                sampler.return_to(self.at.batches, items);
            }
            sampler.selection.keep(1);
        }
    }
}
