//! Plans of whole episodes: padded to one length, or one after the other.

use backcast_layout::{DType, Role};

use super::{Axis, BatchPlan, Builder, Segments, Source, shape};
use crate::batch_key as key;
use crate::row_flags::{TERMINATED, TRUNCATED};
use crate::sampler::columns::SelectedColumns;
use crate::sampler::window::WindowExtent;
use crate::schema::{Schema, USER};

impl BatchPlan {
    /// Returns the plan of `batch` padded episodes of up to `length` transitions.
    pub(crate) fn padded(
        schema: &Schema,
        batch: usize,
        length: usize,
        copy: bool,
        selection: &SelectedColumns,
        extent: WindowExtent,
    ) -> Self {
        let (arenas, views, fields) = (Vec::new(), Vec::new(), Vec::new());
        let (segments, n_step, learned) = (Segments::default(), None, 0..0);
        let columns = None;
        let plan =
            Self { batch, extent, arenas, views, fields, segments, n_step, learned, columns };
        let (repeat, forward) = (false, true);
        let mut builder = Builder { plan, history: None, future: 0, copy, repeat, forward };
        let steps = Some(length);
        for (i, column) in schema.columns().iter().enumerate() {
            if selection.window(i).is_none() {
                continue;
            }
            let (name, dtype, shape) = (column.name(), column.dtype(), shape(column));
            let (source, next) = (Source::Column(USER + i), format!("next_{name}"));
            match column.role() {
                Role::Step => {
                    builder.whole(name, dtype, &shape, source, steps, 0, (0, 0));
                    if schema.policy_version() == Some(i) {
                        let age = Source::PolicyAge;
                        builder.whole(key::POLICY_AGE, DType::I64, &[], age, steps, 0, (0, 0));
                    }
                }
                Role::Obs if copy => {
                    builder.whole(name, dtype, &shape, source, steps, 0, (0, 0));
                    builder.whole(&next, dtype, &shape, source, steps, 1, (1, 1));
                }
                Role::Obs => {
                    let arena = builder.arena(dtype, &shape, source, Some(length + 1), 0, (0, 1));
                    let window = |start| Axis::Window { start, len: length };
                    builder.view(name.to_owned(), arena, window(0));
                    builder.view(next, arena, window(1));
                }
            }
        }
        let flags = [(key::TERMINATED, TERMINATED), (key::TRUNCATED, TRUNCATED)];
        for ((name, flag), window) in flags.into_iter().zip(selection.flags()) {
            if window.is_some() {
                builder.whole(name, DType::Bool, &[], Source::Flag(flag), steps, 0, (0, 0));
            }
        }
        builder.whole(key::MASK, DType::Bool, &[], Source::Mask, steps, 0, (0, 0));
        builder.whole(key::LENGTH, DType::I64, &[], Source::Length, None, 0, (0, 0));
        builder.whole(key::INDEX, DType::I64, &[], Source::Index, None, 0, (0, 0));
        builder.whole(key::AGE, DType::I64, &[], Source::Age, None, 0, (0, 0));
        let mut plan = builder.plan;
        plan.segments = Segments::of(&mut plan.fields, std::iter::empty(), extent);
        plan.mark_shared();
        plan
    }

    /// Adds the first places of `episodes` episodes that lie one after the other, and the end of
    /// the last one: `[episodes + 1]`.
    pub(crate) fn with_offsets(self, episodes: usize) -> Self {
        self.with_field(key::OFFSETS, DType::I64, Source::Offsets, (episodes + 1, 0))
    }

    /// Adds the importance weights of episodes. `places` is the number of weights, and how many of
    /// them belong to one item of the batch.
    pub(crate) fn with_weights(self, places: (usize, usize)) -> Self {
        self.with_field(key::WEIGHT, DType::F32, Source::Weight, places)
    }

    /// Returns whether the batch holds ragged episodes, which have `offsets`.
    pub(crate) fn is_ragged(&self) -> bool {
        self.fields.iter().any(|field| matches!(field.source, Source::Offsets))
    }
}
