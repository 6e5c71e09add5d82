//! Builder of a plan: adds arenas, and the views of each.

use backcast_layout::{Column, DType, LearnedColumn, Role};

use super::{Arena, ArenaField, Axis, BatchPlan, NStep, Source, View};
use crate::batch_key as key;
use crate::sampler::columns::{ColumnWindow, SelectedColumns};
use crate::schema::{Schema, USER};
use crate::table::SET;

/// Plan that is being built, and the windows of the columns that are added.
pub(super) struct Builder {
    pub(super) plan: BatchPlan,
    pub(super) history: Option<u32>,
    pub(super) future: usize,
    pub(super) copy: bool,
    /// Whether observations are repeated beyond the ends of an episode.
    pub(super) repeat: bool,
    /// Whether windows start at the drawn transition, instead of ending there.
    pub(super) forward: bool,
}

impl Builder {
    /// Returns the number of transitions up to and including the drawn one, or those of a sequence.
    fn past(&self) -> usize {
        self.history.unwrap_or(1) as usize
    }

    /// Returns the first transition of the history or sequence, relative to the drawn one.
    pub(super) fn oldest(&self) -> i64 {
        if self.forward { 0 } else { 1 - to_i64(self.past()) }
    }

    /// Returns the part of an arena with a time axis that holds the history or sequence, from place
    /// `start` on.
    fn past_axis(&self, start: usize) -> Axis {
        match self.history {
            Some(_) => Axis::Window { start, len: self.past() },
            None => Axis::At(start),
        }
    }

    /// Adds the n-step return: its sum, the discount after it, and the observation after it.
    pub(super) fn n_step(&mut self, schema: &Schema, selection: &SelectedColumns, n_step: NStep) {
        let dtype = n_step.reward.dtype;
        self.whole(key::N_REWARD, dtype, &[], Source::NReward, None, 0, (0, 0));
        self.whole(key::N_DISCOUNT, dtype, &[], Source::NDiscount, None, 0, (0, 0));
        let shown = |i| !matches!(selection.window(i), None | Some(ColumnWindow::First));
        for (i, column) in schema.columns().iter().enumerate() {
            if column.role() == Role::Obs && shown(i) {
                let (key, shape) = (format!("n_next_{}", column.name()), shape(column));
                let source = Source::NNext(USER + i);
                self.whole(&key, column.dtype(), &shape, source, None, 0, (0, 0));
            }
        }
    }

    /// Adds an observation column: up to four overlapping views of one arena, or separate arenas.
    pub(super) fn obs(&mut self, column: &Column, source: Source) {
        let first = self.plan.fields.len();
        self.obs_arenas(column, source);
        for field in self.plan.fields.iter_mut().skip(first) {
            field.repeat = self.repeat;
        }
    }

    fn obs_arenas(&mut self, column: &Column, source: Source) {
        let (name, dtype, shape) = (column.name(), column.dtype(), shape(column));
        let (past, future, oldest) = (self.past(), self.future, self.oldest());
        let next = format!("next_{name}");
        if self.copy || (self.history.is_none() && future == 0) {
            let steps = self.history.map(|h| h as usize);
            self.whole(name, dtype, &shape, source, steps, oldest, (0, 0));
            self.whole(&next, dtype, &shape, source, steps, oldest + 1, (1, 1));
            if future > 0 {
                let (now, next) = (format!("future/{name}"), format!("future/{next}"));
                self.whole(&now, dtype, &shape, source, Some(future), 1, (0, 0));
                self.whole(&next, dtype, &shape, source, Some(future), 2, (1, 1));
            }
            return;
        }
        let arena = self.arena(dtype, &shape, source, Some(past + future + 1), oldest, (0, 1));
        let (now, after) = (self.past_axis(0), self.past_axis(1));
        self.view(name.to_owned(), arena, now);
        self.view(next.clone(), arena, after);
        if future > 0 {
            let window = |start| Axis::Window { start, len: future };
            self.view(format!("future/{name}"), arena, window(past));
            self.view(format!("future/{next}"), arena, window(past + 1));
        }
    }

    /// Adds a step column: history and future in one arena, or in separate ones.
    pub(super) fn step(&mut self, name: &str, dtype: DType, shape: &[usize], source: Source) {
        let (past, future, oldest) = (self.past(), self.future, self.oldest());
        if self.copy || future == 0 {
            let steps = self.history.map(|h| h as usize);
            self.whole(name, dtype, shape, source, steps, oldest, (0, 0));
            if future > 0 {
                let key = format!("future/{name}");
                self.whole(&key, dtype, shape, source, Some(future), 1, (0, 0));
            }
            return;
        }
        let arena = self.arena(dtype, shape, source, Some(past + future), oldest, (0, 0));
        self.view(name.to_owned(), arena, self.past_axis(0));
        let after = Axis::Window { start: past, len: future };
        self.view(format!("future/{name}"), arena, after);
    }

    /// Adds learned columns, with windows as those of a step column, in separate arenas.
    pub(super) fn learned(&mut self, columns: &[LearnedColumn]) {
        let first = self.plan.fields.len();
        let (steps, oldest) = (self.history.map(|h| h as usize), self.oldest());
        let future = (self.future > 0).then_some(("future/", Some(self.future), 1));
        for (at, LearnedColumn { name, dtype }) in columns.iter().enumerate() {
            for (prefix, steps, first) in [("", steps, oldest)].into_iter().chain(future) {
                let [values, set] = [format!("{prefix}{name}"), format!("{prefix}{name}{SET}")];
                self.whole(&values, *dtype, &[], Source::Learned(at), steps, first, (0, 0));
                self.whole(&set, DType::Bool, &[], Source::LearnedSet(at), steps, first, (0, 0));
            }
        }
        self.plan.learned = first..self.plan.fields.len();
    }

    /// Adds an arena that is one column.
    #[expect(clippy::too_many_arguments, reason = "a table's row, not a concept")]
    pub(super) fn whole(
        &mut self,
        key: &str,
        dtype: DType,
        shape: &[usize],
        source: Source,
        steps: Option<usize>,
        first: i64,
        shift: (i64, i64),
    ) {
        let arena = self.arena(dtype, shape, source, steps, first, shift);
        self.view(key.to_owned(), arena, Axis::Whole);
    }

    pub(super) fn arena(
        &mut self,
        dtype: DType,
        shape: &[usize],
        source: Source,
        steps: Option<usize>,
        first: i64,
        shift: (i64, i64),
    ) -> usize {
        let width = shape.iter().product::<usize>() * dtype.size();
        let shape = [self.plan.batch].into_iter().chain(steps).chain(shape.iter().copied());
        self.plan.arenas.push(Arena { dtype, shape: shape.collect() });
        let rows = steps.unwrap_or(1);
        let (repeat, slice) = (false, None);
        let field = ArenaField { source, dtype, first, rows, width, shift, repeat, slice };
        self.plan.fields.push(field);
        self.plan.arenas.len() - 1
    }

    pub(super) fn view(&mut self, key: String, arena: usize, axis: Axis) {
        self.plan.views.push(View { key, arena, axis, shared: false });
    }
}

pub(super) fn shape(column: &Column) -> Vec<usize> {
    column.shape().iter().map(|axis| *axis as usize).collect()
}

pub(super) fn to_i64(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
