//! Blocks of rollouts.

use std::sync::Arc;

use super::BlockSize;
use crate::batch_key as key;
use crate::error::SampleError;
use crate::index::RowIndex;
use crate::sampler::Sampler;
use crate::sampler::batch::{Batch, BatchBuffers};
use crate::sampler::gather::{BatchRequest, MissingRows};
use crate::sampler::named_rows::blank;
use crate::sampler::plan::{BatchPlan, Source};
use crate::sampler::selection::RolloutColumn;

impl Sampler {
    /// Draws a block of rollouts of `length` transitions.
    pub(in crate::sampler) fn sample_block(
        &mut self,
        length: u32,
        size: BlockSize,
    ) -> Result<Batch, SampleError> {
        let lapped_before = self.lapped();
        let (mut drawn, transitions) = self.draw_batch(1, None, |sampler| {
            let (mut drawn, transitions) = sampler.drawn_block(length as usize, size)?;
            let plan = Arc::clone(drawn.plan());
            sampler.hooks.transform(&sampler.gate, &plan, &mut drawn.buffers(), 1);
            Ok(((drawn, transitions), 1))
        })?;
        self.gate.count(transitions as u64 - 1);
        let plan = Arc::clone(drawn.plan());
        self.end_batch(transitions, lapped_before, &plan, &drawn.buffers());
        Ok(drawn)
    }

    /// Returns a block, and how many transitions it has.
    fn drawn_block(
        &mut self,
        length: usize,
        size: BlockSize,
    ) -> Result<(Batch, usize), SampleError> {
        loop {
            let overwritten = self.selection.begin_block(size)?;
            self.counts.add_lapped(overwritten);
            // Another process may have begun the pass, and have seen newer rows.
            if self.selection.eligibility.is_limited() {
                self.selection.eligibility.refresh();
                if self.selection.trim_block() {
                    continue;
                }
            } else {
                self.selection.eligibility.refresh_ranges();
            }
            let columns = self.selection.block();
            let width = columns.len();
            let (index, cut) = index_of(columns, length);
            let mut drawn = self.gather.plans.block(length, width)?;
            let plan = Arc::clone(drawn.plan());
            let mut arenas = drawn.buffers();
            let request = BatchRequest::Rows(&index, MissingRows::Blank);
            let gathered = self.fill(request, &plan, &mut arenas)?;
            let is_lost = |at: &usize| index.get(*at) != Some(&RowIndex::NONE.0);
            let lost: Vec<usize> = gathered.missing.iter().copied().filter(is_lost).collect();
            if !lost.is_empty() {
                self.counts.add_lapped(lost.len() as u64);
                let lost: Vec<_> = lost.iter().map(|at| (at % width, at / width)).collect();
                self.selection.remove_from_block(&lost);
                continue;
            }
            for at in gathered.missing {
                blank(at, &index, &plan, &mut arenas);
            }
            let there: Vec<bool> = index.iter().map(|row| *row != RowIndex::NONE.0).collect();
            mark(&plan, &mut arenas, &there, &cut);
            return Ok((drawn, there.into_iter().filter(|there| *there).count()));
        }
    }
}

/// Returns the rows of a block, `[T, N]`, and the places whose transition is not continued by the
/// next one of its column.
fn index_of(columns: &[RolloutColumn], length: usize) -> (Vec<i64>, Vec<usize>) {
    let width = columns.len();
    let mut index = vec![RowIndex::NONE.0; length * width];
    let mut cut = Vec::new();
    for (number, column) in columns.iter().enumerate() {
        let places = (number..index.len()).step_by(width);
        for ((at, row), next) in places.zip(&column.rows).zip(1..) {
            if let Some(place) = index.get_mut(at) {
                *place = RowIndex::new(column.lane, *row).0;
            }
            // A short column has nothing after its last transition.
            let goes_on = match column.rows.get(next) {
                Some(next) => *next == row + 1,
                None => next == length,
            };
            if !goes_on {
                cut.push(at);
            }
        }
    }
    (index, cut)
}

/// Stores which places hold a transition, and marks those whose episode was cut as truncated.
fn mark(plan: &BatchPlan, arenas: &mut [&mut [u8]], there: &[bool], cut: &[usize]) {
    let view = |name: &str| plan.views().iter().find(|view| view.key == name);
    let terminated = view(key::TERMINATED).and_then(|view| arenas.get(view.arena));
    let ended =
        |at: usize| terminated.and_then(|flags| flags.get(at)).is_some_and(|flag| *flag != 0);
    let cut: Vec<usize> = cut.iter().copied().filter(|at| !ended(*at)).collect();
    for (field, arena) in plan.fields().iter().zip(arenas.iter_mut()) {
        if field.source == Source::Mask {
            arena.copy_from_slice(bytemuck::cast_slice(there));
        }
    }
    let Some(truncated) = view(key::TRUNCATED).and_then(|view| arenas.get_mut(view.arena)) else {
        return;
    };
    for at in cut {
        if let Some(flag) = truncated.get_mut(at) {
            *flag = 1;
        }
    }
}
