//! Gathering what is there of some indices, and saying what is not.

use std::mem;
use std::sync::Arc;

use super::job::{Job, Stopped, Wanted};
use super::{Sampler, check_arenas};
use crate::batch::{Batch, Memory};
use crate::block::Block;
use crate::error::SampleError;
use crate::fill::Filler;
use crate::plan::{Arena, BatchPlan, Source};
use crate::reader::MOVES;

impl Sampler {
    /// Copies those of the transitions that `index` names which the ring holds, into memory of their
    /// own, and says which were there. Everything of the others is zero, but `index`, which is as it
    /// was given.
    ///
    /// Missing are rows that were overwritten, dropped, or not published yet, those that begin no
    /// transition, and those whose window the boundary refuses. One look more at each index than
    /// [`gather`](Self::gather) takes, and one more copy of the batch for each that is overwritten
    /// meanwhile.
    pub fn gather_present(&mut self, index: &[i64]) -> Result<(Batch, Vec<bool>), SampleError> {
        let plan = self.plan_of(index)?;
        let mut drawn = self.blank(index.len())?;
        let found = self.gather_present_into(index, &plan, &mut drawn.buffers())?;
        Ok((drawn, found))
    }

    /// Gathers as `gather_present` does, into the caller's memory.
    pub fn gather_present_into(
        &mut self,
        index: &[i64],
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
    ) -> Result<Vec<bool>, SampleError> {
        let plan = self.own_plan(plan)?;
        check_arenas(&plan, arenas)?;
        if index.len() != plan.batch() {
            let (got, expected) = (index.len(), plan.batch());
            return Err(SampleError::WrongIndexCount { got, expected });
        }
        self.lanes = self.spans.refresh(&self.ring);
        let mut found = self.look_for_all(index, &plan)?;
        // One that is there stands in for each that is not.
        let mut asked = Vec::new();
        while let Some(there) = found.iter().rposition(|found| *found) {
            asked.clear();
            let stand_in = index.get(there).copied().unwrap_or_default();
            let either = index.iter().zip(&found);
            asked.extend(either.map(|(index, found)| if *found { *index } else { stand_in }));
            match self.gather_into(&asked, &plan, arenas) {
                Ok(()) => break,
                Err(error) => {
                    let Some(gone) = missing(&error) else { return Err(error) };
                    let gone = asked.get(gone).copied().unwrap_or(stand_in);
                    for (found, _) in found.iter_mut().zip(index).filter(|(_, i)| **i == gone) {
                        *found = false;
                    }
                }
            }
        }
        blank(index, &found, &plan, arenas);
        Ok(found)
    }

    /// Which of the transitions that `index` names are there.
    fn look_for_all(&mut self, index: &[i64], plan: &BatchPlan) -> Result<Vec<bool>, SampleError> {
        let mut found = Vec::with_capacity(index.len());
        for _ in 0..MOVES {
            let lanes = Arc::clone(&self.lanes);
            let filler = Filler { plan, gamma: 0.0 };
            let job = Job { wanted: Wanted::Rows(index), lanes: &lanes, mapped: &lanes, filler };
            let scratch = mem::take(&mut self.scratch[0]);
            let mut block = Block::over(scratch, 1, self.reach, plan.copies().stretches());
            let mut moved = false;
            for position in found.len()..index.len() {
                block.begin(position);
                match self.look(job, position, 0, &mut block) {
                    Ok(()) => found.push(true),
                    Err(Stopped::Failed(error)) if missing(&error).is_some() => found.push(false),
                    Err(Stopped::Failed(error)) => return Err(error),
                    Err(Stopped::Moved) => {
                        moved = true;
                        break;
                    }
                }
            }
            self.scratch[0] = block.into_memory();
            if !moved {
                break;
            }
        }
        // A peer says again and again that lanes moved: those rows cannot be had.
        found.resize(index.len(), false);
        Ok(found)
    }
}

/// The position of the index that an error says is not there.
fn missing(error: &SampleError) -> Option<usize> {
    match error {
        SampleError::BadIndex { position, .. } | SampleError::Lapped { position, .. } => {
            Some(*position)
        }
        _ => None,
    }
}

/// Zeroes what stands in the places of missing items, and puts every index as it was given.
fn blank(index: &[i64], found: &[bool], plan: &BatchPlan, arenas: &mut [&mut [u8]]) {
    for ((arena, fill), shape) in arenas.iter_mut().zip(plan.fills()).zip(plan.arenas()) {
        let bytes = Arena::bytes(shape) / plan.batch().max(1);
        let places = arena.chunks_exact_mut(bytes.max(1)).zip(index).zip(found);
        for ((place, index), _) in places.filter(|(_, found)| !**found) {
            match (fill.source, place.len()) {
                (Source::Index, 8) => place.copy_from_slice(&index.to_ne_bytes()),
                _ => place.fill(0),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        DType, Ring, RingOptions, RowIndex, SampleError, SamplerOptions, Schema, StepColumns,
        Writer, WriterOptions,
    };

    fn ring() -> (Ring, Writer) {
        let schema = Schema::builder().column("obs", DType::F32, &[]).build().unwrap();
        let ring = Ring::heap(&schema, RingOptions::with_capacity(20)).unwrap();
        let writer = ring.writer(WriterOptions::lanes(1)).unwrap();
        (ring, writer)
    }

    fn append(writer: &mut Writer, steps: std::ops::Range<u8>) {
        let schema = writer.schema().clone();
        for step in steps {
            let obs = [f32::from(step)];
            let mut columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
            writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
        }
    }

    #[test]
    fn what_is_missing_is_zero_and_said_and_the_rest_is_there() {
        let (ring, mut writer) = ring();
        append(&mut writer, 1..51);
        let index = [49, 48, 3, 40, -1, 40, 1 << 48];
        for options in [
            SamplerOptions::seeded(1),
            SamplerOptions::seeded(1).history(3).future(1),
            SamplerOptions::seeded(1).history(3).copy(true),
        ] {
            let mut sampler = ring.sampler(options).unwrap();
            let (batch, found) = sampler.gather_present(&index).unwrap();
            assert_eq!(found, [false, true, false, true, false, true, false], "{options:?}");
            assert_eq!(batch.index(), index);
            let next = batch.column::<f32>("next_obs").unwrap();
            let newest: Vec<f32> =
                next.outer_iter().map(|row| *row.iter().last().unwrap()).collect();
            assert_eq!(newest, [0.0, 50.0, 0.0, 42.0, 0.0, 42.0, 0.0], "{options:?}");
        }
        let mut sampler = ring.sampler(SamplerOptions::seeded(1)).unwrap();
        let (batch, found) = sampler.gather_present(&[3, 4]).unwrap();
        assert_eq!((found, batch.index()), (vec![false; 2], vec![3, 4]), "none is there");
        assert!(matches!(sampler.gather_present(&[]), Err(SampleError::BadIndexCount { .. })));
    }

    #[test]
    fn each_reason_is_said() {
        let (ring, mut writer) = ring();
        append(&mut writer, 1..51);
        writer.restart(&[true]).unwrap();
        append(&mut writer, 51..54);
        let mut sampler = ring.sampler(SamplerOptions::seeded(1)).unwrap();
        for (index, why) in [
            (RowIndex::new(0, 52).0, "newest row of its lane"),
            (RowIndex::new(0, 53).0, "not published yet"),
            (RowIndex::new(0, 49).0, "broken off there"),
            (RowIndex::new(1, 0).0, "fewer lanes"),
            (-1, "dropped"),
        ] {
            let refused = sampler.gather(&[index]).unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
