//! Priorities, learned columns, claims and rate limits in a manifest.

use std::collections::BTreeMap;
use std::ops::Range;

use backcast_core::{
    BehindTree, ClaimPass, ClaimSettings, ClaimTableState, DType, LearnedColumn, LearnedState,
    Limiter, LimiterCounts, LimiterError, NoLearner, NoWriter, RateLimiter, TableSettings,
};
use serde::{Deserialize, Serialize};

use super::{SavedBatch, SavedChunk};
use crate::layout::{BatchLayout, FileColumn};

/// Columns of a table's file after `lane`.
const COLUMNS: [(&str, DType); 2] = [("seq", DType::U64), ("leaf", DType::U64)];

/// Selectors of tables of claims.
const EPOCH: &str = "epoch";
const CONSUME: &str = "consume";

/// A table of priorities.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedTable {
    pub(crate) name: String,
    pub(crate) exponent: f64,
    pub(crate) eps: f64,
    /// Steps of an episode from one transition that has a priority to the next; absent: 1.
    #[serde(default = "every", skip_serializing_if = "is_every")]
    pub(crate) stride: u32,
    /// Whether new rows get the largest leaf of the table; absent: the largest so far.
    #[serde(default, skip_serializing_if = "is_not")]
    pub(crate) tracks_largest: bool,
    /// Whether the files have priorities in place of leaves, so that the exponent can change;
    /// absent: leaves.
    #[serde(default, skip_serializing_if = "is_not")]
    pub(crate) keeps_priorities: bool,
    /// Whether rows are drawn by the ranks of priorities; absent: by priorities.
    #[serde(default, skip_serializing_if = "is_not")]
    pub(crate) counts_ranks: bool,
    /// Largest leaf so far, or largest priority.
    pub(crate) largest: u64,
    /// Files with its leaves.
    pub(crate) chunks: Vec<SavedChunk>,
}

/// A table of learned columns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedLearned {
    pub(crate) name: String,
    /// Name and dtype of each column.
    pub(crate) columns: Vec<(String, String)>,
    /// Files with its values.
    pub(crate) chunks: Vec<SavedChunk>,
}

/// A table of claims: its settings, its pass and the next position in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedClaims {
    pub(crate) name: String,
    /// `epoch` or `consume`.
    pub(crate) selector: String,
    pub(crate) shuffled: bool,
    pub(crate) times: u32,
    pub(crate) seed: u64,
    /// Number of the pass.
    pub(crate) pass: u64,
    /// Earlier passes over the same rows.
    pub(crate) round: u64,
    /// Rows of the pass, by lane: the first, and one past the last.
    pub(crate) lanes: Vec<(u64, u64)>,
    /// Rows of the pass that were claimed.
    pub(crate) claimed: u64,
    pub(crate) passes: u64,
    pub(crate) drawn: u64,
}

/// A rate limiter: its limits, and the counts that they compare.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedLimiter {
    pub(crate) samples_per_insert: f64,
    pub(crate) min_size: u64,
    /// Lower end of the error band; `None` for no limit.
    pub(crate) min_diff: Option<f64>,
    /// Upper end of the error band; `None` for no limit.
    pub(crate) max_diff: Option<f64>,
    pub(crate) no_learner: String,
    /// Behaviour of samplers while no writer is alive. Files made before there was a choice lack
    /// it.
    #[serde(default = "waits")]
    pub(crate) no_writer: String,
    pub(crate) enabled: bool,
    pub(crate) inserts: u64,
    pub(crate) samples: u64,
    pub(crate) deletes: u64,
    /// Inserts at the last drop of rows. Older files lack it.
    #[serde(default)]
    pub(crate) dropped_at: u64,
}

/// Returns the stride of tables that have a priority for every transition.
fn every() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_every(stride: &u32) -> bool {
    *stride == every()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_not(flag: &bool) -> bool {
    !*flag
}

fn waits() -> String {
    NoWriter::Wait.as_str().to_owned()
}

impl SavedTable {
    /// Returns the columns of the file of a table.
    pub(crate) fn layout() -> BatchLayout {
        let columns = std::iter::once(("lane", DType::U32)).chain(COLUMNS);
        BatchLayout {
            columns: columns.map(|(name, dtype)| FileColumn::scalar(name, dtype)).collect(),
        }
    }

    pub(crate) fn settings(&self) -> TableSettings {
        let Self { exponent, eps, stride, tracks_largest, .. } = *self;
        let behind = match (self.keeps_priorities, self.counts_ranks) {
            (_, true) => BehindTree::RankCounts,
            (true, false) => BehindTree::Priorities,
            (false, false) => BehindTree::Nothing,
        };
        TableSettings { exponent, eps, stride, tracks_largest, behind }
    }
}

impl SavedLearned {
    pub(crate) fn of(state: &LearnedState, chunks: Vec<SavedChunk>) -> Self {
        let column = |of: &LearnedColumn| (of.name.clone(), of.dtype.code().to_owned());
        let columns = state.columns.iter().map(column).collect();
        Self { name: state.name.clone(), columns, chunks }
    }

    /// Returns the columns, or `None` if a table cannot have them.
    pub(crate) fn columns(&self) -> Option<Vec<LearnedColumn>> {
        let column = |(name, dtype): &(String, String)| {
            let column = LearnedColumn { name: name.clone(), dtype: dtype.parse().ok()? };
            column.problem().is_none().then_some(column)
        };
        self.columns.iter().map(column).collect::<Option<Vec<_>>>().filter(|all| !all.is_empty())
    }

    /// Returns the columns of the files: row, then each value and whether it was set.
    pub(crate) fn layout(&self) -> BatchLayout {
        Self::layout_of(&self.columns().unwrap_or_default())
    }

    /// Returns the columns of the files of a table with `columns`.
    pub(crate) fn layout_of(columns: &[LearnedColumn]) -> BatchLayout {
        let lane = if columns.iter().any(|of| of.name == "lane") { "#lane" } else { "lane" };
        let row = [(lane, DType::U32), ("seq", DType::U64)];
        let row = row.map(|(name, dtype)| FileColumn::scalar(name, dtype));
        let pair = |LearnedColumn { name, dtype }: &LearnedColumn| {
            let set = FileColumn::scalar(&format!("{name}_set"), DType::Bool);
            [FileColumn::scalar(name, *dtype), set]
        };
        BatchLayout { columns: row.into_iter().chain(columns.iter().flat_map(pair)).collect() }
    }
}

impl SavedClaims {
    pub(crate) fn of(state: ClaimTableState) -> Self {
        let ClaimTableState { name, settings, pass, next, passes, drawn } = state;
        Self {
            name,
            selector: if settings.renewed { EPOCH } else { CONSUME }.to_owned(),
            shuffled: settings.shuffled,
            times: settings.times,
            seed: settings.seed,
            pass: pass.number,
            round: pass.round,
            lanes: pass.ranges.iter().map(|rows| (rows.start, rows.end)).collect(),
            claimed: next,
            passes,
            drawn,
        }
    }

    /// Describes a selector that is unknown, or a pass that contradicts the saved rows. The loaded
    /// ring checks the rest.
    pub(super) fn problem(&self, saved: &[(u64, u64)]) -> Option<String> {
        if ![EPOCH, CONSUME].contains(&self.selector.as_str()) {
            return Some("its selector is unknown".to_owned());
        }
        if self.lanes.len() != saved.len() {
            return Some(format!("its pass has {} lanes", self.lanes.len()));
        }
        let ends = self.lanes.iter().zip(saved);
        let mut bad = ends.filter(|((first, end), (_, head))| first > end || end > head);
        let ((first, end), _) = bad.next()?;
        Some(format!("rows {first}..{end} of its pass are not saved"))
    }

    pub(crate) fn state(&self) -> ClaimTableState {
        let renewed = self.selector == EPOCH;
        let Self { shuffled, times, seed, passes, drawn, .. } = *self;
        ClaimTableState {
            name: self.name.clone(),
            settings: ClaimSettings { renewed, shuffled, times, seed },
            pass: ClaimPass {
                number: self.pass,
                round: self.round,
                ranges: self.lanes.iter().map(|(first, end)| *first..*end).collect(),
            },
            next: self.claimed,
            passes,
            drawn,
        }
    }
}

impl SavedLimiter {
    /// Returns the limits and counts of a limiter.
    pub(crate) fn of(limiter: &Limiter) -> Result<Self, LimiterError> {
        let (limits, counts) = (limiter.limits()?, limiter.counts());
        let (min_diff, max_diff) = limits.error_band();
        let finite = |end: f64| end.is_finite().then_some(end);
        let LimiterCounts { inserts, samples, deletes } = counts;
        Ok(Self {
            samples_per_insert: limits.samples_per_insert(),
            min_size: limits.min_size_to_sample(),
            min_diff: finite(min_diff),
            max_diff: finite(max_diff),
            no_learner: limits.no_learner_choice().as_str().to_owned(),
            no_writer: limits.no_writer_choice().as_str().to_owned(),
            enabled: limits.is_enabled(),
            inserts,
            samples,
            deletes,
            dropped_at: limiter.inserts_at_last_drop(),
        })
    }

    /// Returns the limits, or `None` if `no_learner` or `no_writer` is not a known word. The ring
    /// checks the numbers.
    pub(crate) fn limits(&self) -> Option<RateLimiter> {
        let no_learner: NoLearner = self.no_learner.parse().ok()?;
        let no_writer: NoWriter = self.no_writer.parse().ok()?;
        let min_diff = self.min_diff.unwrap_or(f64::NEG_INFINITY);
        let max_diff = self.max_diff.unwrap_or(f64::INFINITY);
        let band = RateLimiter::band(self.samples_per_insert, self.min_size, min_diff, max_diff);
        Some(band.no_learner(no_learner).no_writer(no_writer).enabled(self.enabled))
    }

    pub(crate) fn counts(&self) -> LimiterCounts {
        let Self { inserts, samples, deletes, .. } = *self;
        LimiterCounts { inserts, samples, deletes }
    }
}

/// Describes invalid batches of a table: those of a lane must be contiguous and in order.
pub(super) fn batches_problem<'a>(batches: impl Iterator<Item = &'a SavedBatch>) -> Option<String> {
    let mut ends: BTreeMap<u32, Range<u64>> = BTreeMap::new();
    for batch in batches {
        let rows = ends.entry(batch.lane).or_insert(batch.first..batch.first);
        if rows.end != batch.first {
            return Some(format!("values of lane {} are not in order", batch.lane));
        }
        rows.end = batch.range().end;
    }
    None
}
