//! A drawn batch in memory of its own.

use std::sync::Arc;

use ndarray::{ArrayViewD, Axis as NdAxis, Slice};

use crate::element::Element;
use crate::error::{BatchError, SampleError};
use crate::plan::{Axis, BatchPlan};

/// The columns of a batch. Belongs to the caller; nothing in it changes any more.
#[derive(Clone, Debug)]
pub struct Batch {
    plan: Arc<BatchPlan>,
    /// Words, so that every element type is aligned.
    arenas: Vec<Vec<u64>>,
}

impl Batch {
    /// New memory for a plan; a batch that does not fit is an error, and no abort.
    pub(crate) fn zeroed(plan: Arc<BatchPlan>) -> Result<Self, SampleError> {
        let bytes = plan.arenas().iter().fold(0_usize, |sum, a| sum.saturating_add(a.bytes()));
        let too_large = |_| SampleError::TooLarge { batch: plan.batch(), bytes };
        let mut arenas = Vec::with_capacity(plan.arenas().len());
        for arena in plan.arenas() {
            let words = arena.bytes().div_ceil(8);
            let mut memory = Vec::new();
            memory.try_reserve_exact(words).map_err(too_large)?;
            memory.resize(words, 0);
            arenas.push(memory);
        }
        Ok(Self { plan, arenas })
    }

    pub(crate) fn buffers(&mut self) -> Vec<&mut [u8]> {
        self.arenas
            .iter_mut()
            .zip(self.plan.arenas())
            .map(|(words, arena)| {
                let bytes: &mut [u8] = bytemuck::cast_slice_mut(words);
                let len = arena.bytes().min(bytes.len());
                bytes.split_at_mut(len).0
            })
            .collect()
    }

    /// Items, `B`.
    #[must_use]
    pub fn len(&self) -> usize {
        self.plan.batch()
    }

    /// Whether it has no item; no batch of ours has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keys of all columns.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.plan.views().iter().map(|view| view.key.as_str())
    }

    /// A column: `[B, ...]`, or `[B, H, ...]` and `[B, F, ...]` for windows.
    pub fn column<T: Element>(&self, key: &str) -> Result<ArrayViewD<'_, T>, BatchError> {
        let unknown = || BatchError::UnknownKey {
            key: key.to_owned(),
            known: self.keys().map(str::to_owned).collect(),
        };
        let view = self.plan.views().iter().find(|v| v.key == key).ok_or_else(unknown)?;
        let arena = self.plan.arenas().get(view.arena).ok_or_else(unknown)?;
        let words = self.arenas.get(view.arena).ok_or_else(unknown)?;
        let wrong = || BatchError::WrongDType {
            key: key.to_owned(),
            holds: arena.dtype(),
            asked: T::DTYPE,
        };
        if arena.dtype() != T::DTYPE {
            return Err(wrong());
        }
        let bytes: &[u8] = bytemuck::cast_slice(words);
        let bytes = bytes.get(..arena.bytes()).ok_or_else(unknown)?;
        let elements: &[T] = bytemuck::checked::try_cast_slice(bytes).map_err(|_| wrong())?;
        let whole = ArrayViewD::from_shape(arena.shape(), elements).map_err(|_| wrong())?;
        Ok(match view.axis {
            Axis::Whole => whole,
            Axis::At(place) => whole.index_axis_move(NdAxis(1), place),
            Axis::Window { start, len } => {
                let mut whole = whole;
                whole.slice_axis_inplace(NdAxis(1), Slice::from(start..start + len));
                whole
            }
        })
    }

    /// Indices of the drawn transitions, `[B]`; see [`RowIndex`](crate::RowIndex).
    #[must_use]
    pub fn index(&self) -> Vec<i64> {
        self.column::<i64>("index").map(|index| index.iter().copied().collect()).unwrap_or_default()
    }
}
