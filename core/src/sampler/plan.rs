//! The memory of a batch: contiguous arenas to be allocated, and the views that are its columns.
//!
//! One gather of `H + F + 1` rows serves an observation column. Its history, its `next_`, its
//! future and the future's `next_` are overlapping views of one arena, unless `copy` is set.

mod builder;
mod episodes;
mod field;
mod prefetch_policy;
mod rollouts;
mod segments;

use std::ops::Range;

use backcast_layout::{DType, LearnedColumn, Role};

use self::builder::{Builder, shape};
pub(crate) use self::field::{ArenaField, NStep, Source, Summed};
use self::prefetch_policy::micro_batch;
pub(crate) use self::prefetch_policy::{MICRO_BATCH, PrefetchPolicy, ROW_MICRO_BATCH};
pub(crate) use self::segments::{ColumnSegment, SegmentSlice, Segments};
use super::boundary::Boundary;
use super::columns::{ColumnWindow, SelectedColumns};
use super::options::DrawOptions;
use super::window::WindowExtent;
use crate::batch_key as key;
use crate::error::SampleError;
use crate::row_flags::{TERMINATED, TRUNCATED};
use crate::schema::{Schema, USER};

/// One contiguous array in C order; the first axis is the batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arena {
    dtype: DType,
    shape: Vec<usize>,
}

impl Arena {
    /// Returns the element type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the shape: `[B, ...]`, and `[N, ...]` or `[B + 1]` in batches of ragged episodes;
    /// `[T, N, ...]` in blocks of rollouts.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the number of bytes, saturating.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.shape.iter().fold(self.dtype.size(), |bytes, axis| bytes.saturating_mul(*axis))
    }
}

/// The part of its arena that a view shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// The whole arena.
    Whole,
    /// One place of axis 1; the axis is dropped.
    At(usize),
    /// Places `start..start + len` of axis 1.
    Window {
        /// First place.
        start: usize,
        /// Number of places.
        len: usize,
    },
}

impl Axis {
    /// Returns the places of axis 1 that a view shows; all of them for a whole arena.
    fn places(self) -> Range<usize> {
        match self {
            Axis::Whole => 0..usize::MAX,
            Axis::At(place) => place..place + 1,
            Axis::Window { start, len } => start..start + len,
        }
    }
}

/// One column of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// `"obs"`, `"next_obs"`, `"future/reward"`, `"mask"`, …; `/` separates nested keys.
    pub key: String,
    /// Number of its arena.
    pub arena: usize,
    /// Its part of the arena.
    pub axis: Axis,
    /// Whether another view shares some of its memory, so that a write to one shows in the other.
    pub shared: bool,
}

/// Arenas and views of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchPlan {
    batch: usize,
    /// Windows of the items.
    extent: WindowExtent,
    arenas: Vec<Arena>,
    views: Vec<View>,
    fields: Vec<ArenaField>,
    segments: Segments,
    n_step: Option<NStep>,
    /// Range of `fields` with the learned columns, in pairs: the values, then whether each was set.
    /// A future window adds a second pair to each column.
    learned: Range<usize>,
    /// Columns of a block of rollouts, whose arrays are time-major.
    columns: Option<usize>,
}

/// Columns of a batch that no row of the ring has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ExtraColumns<'a> {
    /// The importance weight.
    pub(crate) weight: bool,
    pub(crate) learned: &'a [LearnedColumn],
}

impl BatchPlan {
    pub(crate) fn new(
        schema: &Schema,
        batch: usize,
        options: &DrawOptions,
        selection: &SelectedColumns,
        extent: WindowExtent,
        n_step: Option<NStep>,
        extra: ExtraColumns<'_>,
    ) -> Self {
        let DrawOptions { future, copy, boundary, form, .. } = *options;
        let (arenas, views, fields) = (Vec::new(), Vec::new(), Vec::new());
        let (segments, learned) = (Segments::default(), 0..0);
        let columns = None;
        let plan =
            Self { batch, extent, arenas, views, fields, segments, n_step, learned, columns };
        let forward = form.sequence().is_some();
        let repeat = boundary == Boundary::Clamp && !forward;
        let (history, future) = (None, future as usize);
        let mut builder = Builder { plan, history, future, copy, repeat, forward };
        let version = schema.policy_version();
        for (i, column) in schema.columns().iter().enumerate() {
            let Some(window) = selection.window(i) else { continue };
            let (name, dtype, shape) = (column.name(), column.dtype(), shape(column));
            builder.history = match window {
                ColumnWindow::History(history) => Some(history),
                ColumnWindow::Drawn => None,
                ColumnWindow::First => {
                    builder.whole(name, dtype, &shape, Source::First(USER + i), None, 0, (0, 0));
                    if version == Some(i) {
                        let age = Source::PolicyAge;
                        builder.whole(key::POLICY_AGE, DType::I64, &[], age, None, 0, (0, 0));
                    }
                    continue;
                }
            };
            let source = Source::Column(USER + i);
            match column.role() {
                Role::Obs => builder.obs(column, source),
                Role::Step => builder.step(name, dtype, &shape, source),
            }
            if version == Some(i) {
                builder.step(key::POLICY_AGE, DType::I64, &[], Source::PolicyAge);
            }
        }
        let flags = [(key::TERMINATED, TERMINATED), (key::TRUNCATED, TRUNCATED)];
        for ((name, flag), window) in flags.into_iter().zip(selection.flags()) {
            builder.history = match window {
                None => continue,
                Some(ColumnWindow::History(history)) => Some(history),
                Some(ColumnWindow::Drawn) => None,
                Some(ColumnWindow::First) => {
                    builder.whole(name, DType::Bool, &[], Source::FirstFlag(flag), None, 0, (0, 0));
                    continue;
                }
            };
            builder.step(name, DType::Bool, &[], Source::Flag(flag));
        }
        let longest = form.sequence().map(|of| of.length).or(selection.longest());
        builder.history = longest;
        if let Some(history) = builder.history {
            let (steps, oldest) = (Some(history as usize), builder.oldest());
            builder.whole(key::MASK, DType::Bool, &[], Source::Mask, steps, oldest, (0, 0));
        }
        if future > 0 {
            let steps = Some(future);
            builder.whole(key::FUTURE_MASK, DType::Bool, &[], Source::Mask, steps, 1, (0, 0));
        }
        builder.whole(key::INDEX, DType::I64, &[], Source::Index, None, 0, (0, 0));
        builder.whole(key::AGE, DType::I64, &[], Source::Age, None, 0, (0, 0));
        if extra.weight {
            builder.whole(key::WEIGHT, DType::F32, &[], Source::Weight, None, 0, (0, 0));
        }
        if let Some(n_step) = n_step {
            builder.n_step(schema, selection, n_step);
        }
        builder.history = longest;
        builder.learned(extra.learned);
        let mut plan = builder.plan;
        let summed = n_step.into_iter().flat_map(NStep::columns);
        plan.segments = Segments::of(&mut plan.fields, summed, extent);
        plan.mark_shared();
        plan
    }

    /// Adds the flags of relabelled transitions, `[B]`.
    pub(crate) fn with_relabelled(self) -> Self {
        let places = (self.batch, 1);
        self.with_field(key::RELABELLED, DType::Bool, Source::Relabelled, places)
    }

    /// Adds an array of `len` elements, of which an item has `rows`.
    fn with_field(
        mut self,
        key: &str,
        dtype: DType,
        source: Source,
        (len, rows): (usize, usize),
    ) -> Self {
        let (key, arena) = (key.to_owned(), self.arenas.len());
        self.views.push(View { key, arena, axis: Axis::Whole, shared: false });
        self.arenas.push(Arena { dtype, shape: vec![len] });
        let (first, width, shift, repeat, slice) = (0, dtype.size(), (0, 0), false, None);
        let field = ArenaField { source, dtype, first, rows, width, shift, repeat, slice };
        self.fields.push(field);
        self
    }

    /// Marks exactly the views that overlap another one. Without a future, `obs` and `next_obs` of
    /// one transition do not overlap and stay writable.
    fn mark_shared(&mut self) {
        let spans: Vec<_> =
            self.views.iter().map(|view| (view.arena, view.axis.places())).collect();
        for (i, view) in self.views.iter_mut().enumerate() {
            let mine = view.axis.places();
            view.shared = spans.iter().enumerate().any(|(j, (arena, theirs))| {
                i != j && *arena == view.arena && theirs.start < mine.end && mine.start < theirs.end
            });
        }
    }

    /// Returns the number of items of the batch, `B`; for ragged episodes the number of
    /// transitions, `N`, and for rollouts that of the places, `T * N`.
    #[must_use]
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// Returns the arenas to allocate, in order.
    #[must_use]
    pub fn arenas(&self) -> &[Arena] {
        &self.arenas
    }

    /// Returns the columns of the batch, each a view of an arena.
    #[must_use]
    pub fn views(&self) -> &[View] {
        &self.views
    }

    fn fits(&self, other: &BatchPlan) -> bool {
        self.batch == other.batch && self.arenas == other.arenas && self.views == other.views
    }

    /// Checks that memory for another plan can hold a batch of this one: it must have the same
    /// keys, types and shapes, in the same places of the arenas. The error names the first key
    /// whose type, shape or overlap differs, if there is one.
    pub fn check_memory(&self, other: &BatchPlan) -> Result<(), SampleError> {
        if self.fits(other) { Ok(()) } else { Err(self.mismatch(other)) }
    }

    fn mismatch(&self, other: &BatchPlan) -> SampleError {
        let describe = |plan: &BatchPlan, key: &str| {
            let view = plan.views.iter().find(|view| view.key == key)?;
            let arena = plan.arenas.get(view.arena)?;
            let mut shape = arena.shape.clone();
            match view.axis {
                Axis::Whole => {}
                Axis::At(_) => drop(shape.remove(1)),
                Axis::Window { len, .. } => shape[1] = len,
            }
            let shape: Vec<String> = shape.iter().map(ToString::to_string).collect();
            let overlaps = if view.shared { ", overlapping others" } else { "" };
            Some(format!("{} [{}]{overlaps}", arena.dtype.code(), shape.join(", ")))
        };
        let keys = self.views.iter().chain(&other.views).map(|view| view.key.as_str());
        for key in keys {
            let (expected, got) = (describe(self, key), describe(other, key));
            if expected != got {
                let expected = expected.unwrap_or_else(|| "none".to_owned());
                let got = got.unwrap_or_else(|| "missing".to_owned());
                return SampleError::OtherPlan { key: key.to_owned(), got, expected };
            }
        }
        let same = "the same array in other memory".to_owned();
        SampleError::OtherPlan { key: "every key".to_owned(), got: same.clone(), expected: same }
    }

    /// Returns the windows of the items.
    pub(crate) fn extent(&self) -> WindowExtent {
        self.extent
    }

    /// Returns the number of items that are copied together.
    pub(crate) fn micro_batch(&self) -> usize {
        micro_batch(self.segments.row_bytes())
    }

    /// Returns when the rows of a micro-batch are prefetched.
    pub(crate) fn prefetch_policy(&self) -> PrefetchPolicy {
        PrefetchPolicy::of(&self.segments)
    }

    /// Returns the rows of an item's window that are copied.
    pub(crate) fn segments(&self) -> &Segments {
        &self.segments
    }

    /// Returns columns and length of the n-step returns; `None` without them.
    pub(crate) fn n_step(&self) -> Option<NStep> {
        self.n_step
    }

    /// Returns the range of fields with the learned columns, in pairs: the values, then whether
    /// each was set. A future window adds a second pair to each column.
    pub(crate) fn learned(&self) -> Range<usize> {
        self.learned.clone()
    }

    /// Returns how each arena is filled, in the order of arenas.
    pub(crate) fn fields(&self) -> &[ArenaField] {
        &self.fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::options::SamplerOptions;

    /// Returns the plan of a batch whose rows have `numbers` numbers.
    pub(super) fn plan_of(numbers: u32, options: &SamplerOptions) -> BatchPlan {
        let options = &options.draws;
        let schema = Schema::builder().column("action", DType::F32, &[numbers]).build().unwrap();
        let extent = WindowExtent {
            back: u64::from(options.history.unwrap_or(1)) - 1,
            ahead: options.future.into(),
            steps: 0,
        };
        let selection = SelectedColumns::alike(&schema, options.history);
        BatchPlan::new(&schema, 2, options, &selection, extent, None, ExtraColumns::default())
    }

    #[test]
    fn items_of_up_to_eight_kibibytes_of_rows_are_copied_together() {
        let seeded = SamplerOptions::seeded(1);
        let together = |numbers, options| plan_of(numbers, options).micro_batch();
        assert_eq!([2_048, 2_049].map(|numbers| together(numbers, &seeded)), [MICRO_BATCH, 1]);
        let windows = seeded.clone().history(4);
        assert_eq!([512, 513].map(|numbers| together(numbers, &windows)), [MICRO_BATCH, 1]);
    }
}
