//! Tables of rings, one line each: distributions of priorities, draws by claims, learned columns.

use serde::Serialize;

use super::columns;
use super::reading::RingReading;
use crate::cli::console::printable;
use crate::objects::ring_report::LearnedValuesReport;
use crate::objects::table_distributions::{PrioritiesReport, TimesReport, in_words};
use crate::text::units;

/// JSON of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct TableFrame {
    pub(crate) name: String,
    /// Distribution of its priorities; null for another kind of table.
    pub(crate) priorities: Option<PrioritiesReport>,
    /// Transitions by the times they were handed out; null unless it is a table of claims.
    pub(crate) times_sampled: Option<Vec<TimesReport>>,
    /// Columns and counters of a table of learned columns; null for another kind of table.
    pub(crate) learned: Option<LearnedValuesReport>,
}

impl TableFrame {
    /// Returns the tables of a ring: of priorities, of claims, then of learned columns, each by
    /// name. Those of priorities and of claims are left out of a ring too large to be counted.
    pub(crate) fn all_of(seen: &RingReading) -> Vec<Self> {
        let found = &seen.distributions;
        let by_priority = found.priorities.iter().map(|(name, found)| Self {
            name: name.clone(),
            priorities: Some(found.into()),
            times_sampled: None,
            learned: None,
        });
        let of_claims = found.times_sampled.iter().map(|(name, bins)| Self {
            name: name.clone(),
            priorities: None,
            times_sampled: Some(bins.iter().map(TimesReport::from).collect()),
            learned: None,
        });
        let of_learned =
            seen.stats.iter().flat_map(|stats| &stats.learned_tables).map(|table| Self {
                name: table.name.clone(),
                priorities: None,
                times_sampled: None,
                learned: Some(table.into()),
            });
        by_priority.chain(of_claims).chain(of_learned).collect()
    }

    /// Describes the table of a ring in a line.
    pub(crate) fn line(&self, ring: &str) -> String {
        let short = |name: &str| columns::shortened(&printable(name), columns::LONGEST_NAME);
        let priorities = self.priorities.as_ref().map(|found| {
            let (rows, effective) = (units::exact(found.rows), found.effective_rows);
            format!("{rows} rows with a priority, {effective:.1} effective")
        });
        let times = self.times_sampled.as_ref();
        let times = times.map(|bins| format!("transitions by times sampled {}", in_words(bins)));
        let learned = self.learned.as_ref().map(|found| {
            let (set, stale) = (found.updated_values, found.stale_values);
            let (set, stale) = (units::exact(set), units::exact(stale));
            let (size, columns) = (units::bytes(found.size_bytes), found.columns_in_words());
            format!("{set} values set, {stale} dropped, {size}, columns {}", printable(&columns))
        });
        let facts: Vec<String> = priorities.into_iter().chain(times).chain(learned).collect();
        format!("table {} of {}: {}", short(&self.name), short(ring), facts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use backcast_core::{
        DType, LearnedColumn, LearnedCounters, LearnedTableInfo, PriorityBin, PriorityDistribution,
        TimesBin,
    };

    use super::super::frame::made_up::ring;
    use super::*;

    #[test]
    fn a_line_says_what_a_table_holds() {
        let mut seen = ring("pong", 50);
        assert_eq!(TableFrame::all_of(&seen), []);
        let histogram = vec![PriorityBin { from: 0.5, rows: 1_234 }];
        let found = PriorityDistribution { rows: 1_234, effective_rows: 812.44, histogram };
        seen.distributions.priorities.insert("priority".to_owned(), found);
        let bins = [(0, 30), (1, 1_000), (3, 5)].map(|(times, rows)| TimesBin { times, rows });
        seen.distributions.times_sampled.insert("queue".to_owned(), bins.to_vec());
        seen.distributions.times_sampled.insert("\u{1b}[2J".to_owned(), Vec::new());
        let column = |name: &str, dtype| LearnedColumn { name: name.to_owned(), dtype };
        let learned = LearnedTableInfo {
            name: "online".to_owned(),
            columns: vec![column("value", DType::F32), column("\u{1b}[31m", DType::U16)],
            bytes: 3 << 20,
            lane_rows: 128,
            counters: LearnedCounters { updated: 2_048, stale: 3 },
        };
        seen.stats.as_mut().expect("made up with statistics").learned_tables = vec![learned];
        let lines: Vec<String> =
            TableFrame::all_of(&seen).iter().map(|table| table.line("pong")).collect();
        assert_eq!(lines[0], "table priority of pong: 1,234 rows with a priority, 812.4 effective");
        assert!(!lines[1].contains('\u{1b}') && lines[1].ends_with(" sampled -"), "{lines:?}");
        assert_eq!(
            lines[2],
            "table queue of pong: transitions by times sampled 0: 30, 1: 1,000, 3: 5"
        );
        assert_eq!(
            lines[3],
            "table online of pong: 2,048 values set, 3 dropped, 3 MiB, columns value f4, \
             \u{fffd}[31m u2"
        );
        seen.stats = None;
        assert_eq!(TableFrame::all_of(&seen).len(), 3);
    }
}
