//! A drawn batch that owns its memory.

use std::sync::Arc;

use bytemuck::Pod;
use ndarray::{ArrayD, ArrayViewD, ArrayViewMutD, Axis as NdAxis, Slice};

use super::plan::{Arena, Axis, BatchPlan, View};
use super::pool::{ArenaBlock, ArenaPool};
use crate::element::Element;
use crate::error::{BatchError, SampleError};
use crate::index::RowIndex;

/// Memory that a sampler fills: one slice for each arena of a [`BatchPlan`], in its order.
///
/// [`Batch`] owns such memory. Other types let a prefetching sampler fill memory of another
/// allocator, such as NumPy's.
pub trait BatchBuffers: Send + 'static {
    /// Returns the bytes of every arena.
    fn buffers(&mut self) -> Vec<&mut [u8]>;
}

/// The columns of a batch, owned by the caller. A later draw overwrites them only if the caller
/// passes the batch, or its buffers, to it: see
/// [`Sampler::sample_over`](crate::Sampler::sample_over) and
/// [`Sampler::gather_over`](crate::Sampler::gather_over).
///
/// Keys are the selected columns of the ring, and:
///
/// | key | type | shape | present |
/// | --- | --- | --- | --- |
/// | `next_NAME` | of the column | of the column | for selected columns of role obs |
/// | `terminated`, `truncated` | bool | of a step column | unless left out by `columns` |
/// | `future/NAME` | of the column | `[B, f, ...]` | with a future window |
/// | `mask` | bool | `[B, H]`, `[B, L]`, `[T, N]` | history, sequences, padded episodes, rollouts |
/// | `future_mask` | bool | `[B, f]` | with a future window |
/// | `index`, `age` | i64 | `[B]` | always; `[N]` for ragged episodes, `[T, N]` for rollouts |
/// | `n_reward`, `n_discount` | of `reward` | `[B]` | with an n-step return |
/// | `n_next_NAME` | of the column | `[B, ...]` | with an n-step return |
/// | `weight` | f32 | `[B]` | with [`Selector::Priority`](crate::Selector::Priority) |
/// | `relabelled` | bool | `[B]` | with [`Hindsight`](crate::Hindsight) |
/// | `length` | i64 | `[B]` | for padded episodes |
/// | `offsets` | i64 | `[B + 1]` | for ragged episodes |
/// | `NAME`, `NAME_set` | of the learned column, bool | of a step column | with learned columns |
///
/// A future window also has `future/next_NAME`, `future/terminated` and `future/truncated`. Columns
/// with [`ColumnWindow::First`](crate::ColumnWindow::First) have neither `next_NAME` nor a future.
#[derive(Clone, Debug)]
pub struct Batch {
    plan: Arc<BatchPlan>,
    arenas: Vec<ArenaBlock>,
}

impl BatchBuffers for Batch {
    fn buffers(&mut self) -> Vec<&mut [u8]> {
        self.arenas.iter_mut().map(ArenaBlock::bytes_mut).collect()
    }
}

impl Batch {
    /// Returns memory for a plan: zeros, or an earlier batch of the pool.
    pub(crate) fn of(plan: Arc<BatchPlan>, pool: &Arc<ArenaPool>) -> Result<Self, SampleError> {
        let bytes = || plan.arenas().iter().map(Arena::bytes);
        let Some(arenas) = pool.take(bytes()) else {
            let bytes = bytes().fold(0, usize::saturating_add);
            return Err(SampleError::TooLarge { batch: plan.batch(), bytes });
        };
        Ok(Self { plan, arenas })
    }

    /// Returns the plan, and the memory of its arenas in order.
    #[must_use]
    pub fn into_blocks(self) -> (Arc<BatchPlan>, Vec<ArenaBlock>) {
        (self.plan, self.arenas)
    }

    /// Returns the plan: where the columns lie.
    #[must_use]
    pub fn plan(&self) -> &Arc<BatchPlan> {
        &self.plan
    }

    /// Returns the number of items, `B`; for ragged episodes the number of transitions, `N`,
    /// and for rollouts that of the places, `T * N`.
    #[must_use]
    pub fn len(&self) -> usize {
        self.plan.batch()
    }

    /// Returns whether the batch has no item; no sampler makes such a batch.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over the keys of all columns.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.plan.views().iter().map(|view| view.key.as_str())
    }

    /// Returns a column: `[B, ...]`, or `[B, H, ...]` and `[B, F, ...]` for windows. Fails for an
    /// unknown key, or if the column has another element type.
    pub fn column<T: Element>(&self, key: &str) -> Result<ArrayViewD<'_, T>, BatchError> {
        column(&self.plan, key, |arena| self.arenas.get(arena).map(ArenaBlock::bytes))
    }

    /// Returns a copy of a column as one contiguous array in C order. The views that
    /// [`column`](Self::column) returns of windows, `next_*` and the future may be strided.
    pub fn array<T: Element>(&self, key: &str) -> Result<ArrayD<T>, BatchError> {
        Ok(self.column::<T>(key)?.as_standard_layout().into_owned())
    }

    /// Returns a copy of a column as its elements in C order, and its shape: tensors of candle,
    /// burn and tch are made of these. One copy.
    ///
    /// ```
    /// use backcast_core::{
    ///     DType, Ring, RingOptions, SamplerOptions, Schema, StepColumns, WriterOptions,
    /// };
    ///
    /// let schema = Schema::builder().column("obs", DType::F32, &[2]).build()?;
    /// let ring = Ring::heap(&schema, RingOptions::with_capacity(100))?;
    /// let mut writer = ring.writer(WriterOptions::lanes(1))?;
    /// for t in 0..20_u8 {
    ///     let obs = [f32::from(t), 0.5];
    ///     writer.append(&StepColumns::of(&schema).with("obs", &obs)?.step(&[false], &[false])?)?;
    /// }
    /// let batch = ring.sampler(SamplerOptions::seeded(7).history(4))?.sample(3)?;
    /// let (elements, shape) = batch.elements::<f32>("next_obs")?;
    /// assert_eq!((elements.len(), shape), (3 * 4 * 2, vec![3, 4, 2]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn elements<T: Element>(&self, key: &str) -> Result<(Vec<T>, Vec<usize>), BatchError> {
        let column = self.column::<T>(key)?;
        Ok((column.iter().copied().collect(), column.shape().to_vec()))
    }

    /// Returns the indices of the drawn transitions, `[B]`, or `[N]` for ragged episodes.
    #[must_use]
    pub fn index(&self) -> Vec<RowIndex> {
        let index = self.column::<i64>("index");
        index.map(|index| index.iter().copied().map(RowIndex).collect()).unwrap_or_default()
    }
}

/// Returns a view and its arena.
fn viewed<'p>(plan: &'p BatchPlan, key: &str) -> Result<(&'p View, &'p Arena), BatchError> {
    let unknown = || BatchError::UnknownKey {
        key: key.to_owned(),
        known: plan.views().iter().map(|view| view.key.clone()).collect(),
    };
    let view = plan.views().iter().find(|view| view.key == key).ok_or_else(unknown)?;
    Ok((view, plan.arenas().get(view.arena).ok_or_else(unknown)?))
}

/// Returns a column of a batch whose arenas are `bytes`.
pub(super) fn column<'a, T: Element>(
    plan: &BatchPlan,
    key: &str,
    bytes: impl FnOnce(usize) -> Option<&'a [u8]>,
) -> Result<ArrayViewD<'a, T>, BatchError> {
    let (view, arena) = viewed(plan, key)?;
    let wrong =
        || BatchError::WrongDType { key: key.to_owned(), holds: arena.dtype(), asked: T::DTYPE };
    if arena.dtype() != T::DTYPE {
        return Err(wrong());
    }
    let bytes = bytes(view.arena).ok_or_else(wrong)?;
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

/// A batch in the memory that it was gathered into, for functions that change it.
#[derive(Debug)]
pub struct BatchMut<'a, 'b> {
    plan: &'a BatchPlan,
    arenas: &'a mut [&'b mut [u8]],
}

impl<'a, 'b> BatchMut<'a, 'b> {
    pub(crate) fn new(plan: &'a BatchPlan, arenas: &'a mut [&'b mut [u8]]) -> Self {
        Self { plan, arenas }
    }

    /// Returns the plan: where the columns lie.
    #[must_use]
    pub fn plan(&self) -> &BatchPlan {
        self.plan
    }

    /// Returns a column: `[B, ...]`, or `[B, H, ...]` and `[B, F, ...]` for windows. Fails for an
    /// unknown key, or if the column has another element type.
    pub fn column<T: Element>(&self, key: &str) -> Result<ArrayViewD<'_, T>, BatchError> {
        column(self.plan, key, |arena| self.arenas.get(arena).map(|bytes| &**bytes))
    }

    /// Returns a column for writing. Windows of `obs` and `next_obs` overlap, unless the sampler
    /// was made with [`copy`](crate::SamplerOptions::copy): what is written to one shows in the
    /// other. `bool` columns cannot be written.
    pub fn column_mut<T: Element + Pod>(
        &mut self,
        key: &str,
    ) -> Result<ArrayViewMutD<'_, T>, BatchError> {
        let (view, arena) = viewed(self.plan, key)?;
        let wrong = || BatchError::WrongDType {
            key: key.to_owned(),
            holds: arena.dtype(),
            asked: T::DTYPE,
        };
        if arena.dtype() != T::DTYPE {
            return Err(wrong());
        }
        let bytes = self.arenas.get_mut(view.arena).ok_or_else(wrong)?;
        let elements: &mut [T] = bytemuck::try_cast_slice_mut(bytes).map_err(|_| wrong())?;
        let whole = ArrayViewMutD::from_shape(arena.shape(), elements).map_err(|_| wrong())?;
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
}
