//! Windows by column: the columns of a batch, and the history of each.

use std::collections::BTreeMap;

use backcast_layout::{Column, Role};

use super::options::SamplerOptions;
use crate::error::SampleError;
use crate::schema::Schema;

/// Part of a window that a batch shows of one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum ColumnWindow {
    /// The drawn transition alone, without a window axis: `[B, ...]`. In sequences and padded
    /// episodes, all of their transitions: `[B, L, ...]`.
    Drawn,
    /// The last `h` transitions, the drawn one included: `[B, h, ...]`.
    History(u32),
    /// The first unmasked row of the longest window, `[B, ...]`, such as the recurrent state with
    /// which the window begins. The batch has no `next_*` and no future of the column.
    First,
}

/// The columns of a batch, and the window of each.
///
/// A name stands for the column of that name, or else for all columns below it with `/`: `"obs"`
/// for `"obs/pixels"` and `"obs/speed"`. `"terminated"` and `"truncated"` are columns too. Columns
/// without a name here have the window of [`rest`](Self::rest), or are left out and not copied.
///
/// ```
/// use backcast_core::{
///     ColumnWindow, ColumnWindows, DType, Ring, RingOptions, SamplerOptions, Schema, StepColumns,
///     WriterOptions,
/// };
///
/// let schema = Schema::builder()
///     .column("obs", DType::F32, &[3])
///     .column("reward", DType::F32, &[])
///     .column("lstm", DType::F32, &[2, 8])
///     .build()?;
/// let ring = Ring::heap(&schema, RingOptions::with_capacity(100))?;
/// let mut writer = ring.writer(WriterOptions::lanes(1))?;
/// for t in 0..20_u8 {
///     let obs = [f32::from(t); 3];
///     let columns = StepColumns::of(&schema)
///         .with("obs", &obs)?
///         .with("reward", &[1.0_f32])?
///         .with("lstm", &[0.5_f32; 16])?;
///     writer.append(&columns.step(&[false], &[false])?)?;
/// }
/// let columns = ColumnWindows::default()
///     .column("obs", ColumnWindow::History(10))
///     .column("lstm", ColumnWindow::First)
///     .rest(ColumnWindow::Drawn);
/// let mut sampler = ring.sampler(SamplerOptions::seeded(7).columns(columns))?;
/// let batch = sampler.sample(32)?;
/// assert_eq!(batch.column::<f32>("obs")?.shape(), [32, 10, 3]);
/// assert_eq!(batch.column::<f32>("lstm")?.shape(), [32, 2, 8]);
/// assert_eq!(batch.column::<f32>("reward")?.shape(), [32]);
/// assert_eq!(batch.column::<bool>("mask")?.shape(), [32, 10]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ColumnWindows {
    named: BTreeMap<String, ColumnWindow>,
    rest: Option<ColumnWindow>,
}

impl ColumnWindows {
    /// Sets the window of a column, or of all columns below a name.
    #[must_use]
    pub fn column(mut self, name: &str, window: ColumnWindow) -> Self {
        self.named.insert(name.to_owned(), window);
        self
    }

    /// Sets the window of all other columns, which are left out otherwise.
    #[must_use]
    pub fn rest(mut self, window: ColumnWindow) -> Self {
        self.rest = Some(window);
        self
    }

    /// Iterates over the names and their windows, sorted by name.
    pub fn named(&self) -> impl Iterator<Item = (&str, ColumnWindow)> {
        self.named.iter().map(|(name, window)| (name.as_str(), *window))
    }

    /// Returns the window of all other columns, unless they are left out.
    #[must_use]
    pub fn others(&self) -> Option<ColumnWindow> {
        self.rest
    }

    /// Returns the window of a column: that of its own name, else of the longest name above it,
    /// else that of the rest.
    fn of(&self, column: &str) -> Option<ColumnWindow> {
        let named = self.named.iter().filter(|(name, _)| stands_for(name, column));
        named.max_by_key(|(name, _)| name.len()).map(|(_, window)| *window).or(self.rest)
    }

    /// Returns whether the window of some column, or of the rest, is a history.
    pub(super) fn has_history(&self) -> bool {
        let mut windows = self.named.values().chain(&self.rest);
        windows.any(|window| matches!(window, ColumnWindow::History(_)))
    }

    /// Returns the windows of a schema's columns.
    fn select(&self, schema: &Schema) -> Result<SelectedColumns, SampleError> {
        let all = || schema.columns().iter().map(Column::name).chain(FLAGS);
        for name in self.named.keys() {
            if !all().any(|column| stands_for(name, column)) {
                let known = all().map(str::to_owned).collect();
                let next_of = next_of(name, schema).map(str::to_owned);
                return Err(SampleError::UnknownColumn { name: name.clone(), known, next_of });
            }
        }
        let windows = schema.columns().iter().map(|column| self.of(column.name()));
        let selection = SelectedColumns::new(windows.collect(), FLAGS.map(|flag| self.of(flag)));
        if selection.is_empty() { Err(SampleError::NoColumns) } else { Ok(selection) }
    }
}

/// Names of the flags that batches show as columns.
const FLAGS: [&str; 2] = ["terminated", "truncated"];

/// Strips `next_` from a name. Returns `None` for a name without that prefix, or if the rest stands
/// for no observation column.
fn next_of<'a>(name: &'a str, schema: &Schema) -> Option<&'a str> {
    let of = name.strip_prefix("next_")?;
    let is_of = |column: &Column| column.role() == Role::Obs && stands_for(of, column.name());
    schema.columns().iter().any(is_of).then_some(of)
}

/// Returns whether a name stands for a column: it is the column's, or the column lies below it.
fn stands_for(name: &str, column: &str) -> bool {
    column.strip_prefix(name).is_some_and(|below| below.is_empty() || below.starts_with('/'))
}

/// The windows of a schema's columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SelectedColumns {
    /// Windows in the order of the schema; `None` for columns that are left out.
    windows: Vec<Option<ColumnWindow>>,
    /// Windows of `terminated` and `truncated`.
    flags: [Option<ColumnWindow>; 2],
    /// Transitions of the longest history, if there is any.
    longest: Option<u32>,
}

impl SelectedColumns {
    fn new(windows: Vec<Option<ColumnWindow>>, flags: [Option<ColumnWindow>; 2]) -> Self {
        let history = |window: &Option<ColumnWindow>| match window {
            Some(ColumnWindow::History(h)) => Some(*h),
            _ => None,
        };
        let longest = windows.iter().chain(&flags).filter_map(history).max();
        Self { windows, flags, longest }
    }

    /// Returns the windows that a sampler with these options has of a schema's columns.
    pub(crate) fn of(options: &SamplerOptions, schema: &Schema) -> Result<Self, SampleError> {
        let history = options.draws.history;
        let selection = match (&options.columns, history) {
            (Some(_), Some(history)) => Err(SampleError::HistoryTwice { history }),
            (Some(columns), None) => columns.select(schema),
            (None, history) => Ok(Self::alike(schema, history)),
        }?;
        Ok(match options.draws.form.sequence() {
            Some(sequence) => selection.over(sequence.length),
            None => selection,
        })
    }

    /// Gives windows of `length` transitions to the columns that show only the drawn transition.
    fn over(self, length: u32) -> Self {
        let longer = |window: Option<ColumnWindow>| match window {
            Some(ColumnWindow::Drawn) => Some(ColumnWindow::History(length)),
            other => other,
        };
        Self::new(self.windows.into_iter().map(longer).collect(), self.flags.map(longer))
    }

    /// Returns the same window for all columns.
    pub(crate) fn alike(schema: &Schema, history: Option<u32>) -> Self {
        let window = Some(history.map_or(ColumnWindow::Drawn, ColumnWindow::History));
        Self::new(vec![window; schema.columns().len()], [window; 2])
    }

    /// Returns whether no column is shown.
    fn is_empty(&self) -> bool {
        self.windows.iter().chain(&self.flags).all(Option::is_none)
    }

    /// Returns whether some column has this window.
    pub(crate) fn any(&self, window: ColumnWindow) -> bool {
        self.windows.iter().chain(&self.flags).any(|of| *of == Some(window))
    }

    /// Returns whether some window holds no transition.
    pub(crate) fn has_empty_window(&self) -> bool {
        self.any(ColumnWindow::History(0))
    }

    /// Returns the window of the column of this number in the schema.
    pub(crate) fn window(&self, column: usize) -> Option<ColumnWindow> {
        self.windows.get(column).copied().flatten()
    }

    /// Returns the windows of `terminated` and `truncated`.
    pub(crate) fn flags(&self) -> [Option<ColumnWindow>; 2] {
        self.flags
    }

    /// Returns the transitions of the longest history, if there is any.
    pub(crate) fn longest(&self) -> Option<u32> {
        self.longest
    }
}

#[cfg(test)]
mod tests {
    use backcast_layout::DType;

    use super::ColumnWindow::{Drawn, First, History};
    use super::*;

    fn schema() -> Schema {
        ["obs/a", "obs/b/c", "reward", "lstm"]
            .into_iter()
            .fold(Schema::builder(), |builder, name| builder.column(name, DType::F32, &[]))
            .build()
            .unwrap()
    }

    fn windows(columns: &ColumnWindows) -> Result<Vec<Option<ColumnWindow>>, SampleError> {
        let selection = columns.select(&schema())?;
        let flags = selection.flags();
        Ok((0..4).map(|at| selection.window(at)).chain(flags).collect())
    }

    #[test]
    fn a_name_stands_for_its_column_or_all_below_it_and_the_longest_one_counts() {
        let columns = ColumnWindows::default().column("obs", History(4)).column("lstm", First);
        let none = [None; 2];
        let shown = [Some(History(4)), Some(History(4)), None, Some(First)];
        assert_eq!(windows(&columns).unwrap(), [&shown[..], &none].concat());
        let columns =
            columns.column("obs/b", Drawn).column("truncated", History(9)).rest(History(2));
        let shown = [Some(History(4)), Some(Drawn), Some(History(2)), Some(First)];
        let flags = [Some(History(2)), Some(History(9))];
        assert_eq!(windows(&columns).unwrap(), [&shown[..], &flags].concat());
        assert_eq!(columns.select(&schema()).unwrap().longest(), Some(9));
    }

    #[test]
    fn names_of_no_column_and_no_columns_at_all_are_refused() {
        for name in ["ob", "obs/", "obs/bb", "next_obs", "mask", ""] {
            let refused = windows(&ColumnWindows::default().column(name, Drawn)).unwrap_err();
            let SampleError::UnknownColumn { name: found, known, .. } = &refused else {
                panic!("{refused}")
            };
            assert_eq!(found, name);
            assert_eq!(*known, ["obs/a", "obs/b/c", "reward", "lstm", "terminated", "truncated"]);
        }
        let refused = windows(&ColumnWindows::default()).unwrap_err();
        assert!(matches!(refused, SampleError::NoColumns), "{refused}");
    }
}
