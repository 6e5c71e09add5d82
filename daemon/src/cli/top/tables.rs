//! Tables of rings, one line each: what their priorities amount to, and how often they handed out
//! rows.

use serde::Serialize;

use super::columns;
use super::reading::RingReading;
use crate::cli::console::printable;
use crate::objects::table_distributions::{PrioritiesReport, TimesReport, in_words};
use crate::text::units;

/// JSON of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct TableFrame {
    pub(crate) name: String,
    /// Distribution of its priorities; null for a table of claims.
    pub(crate) priorities: Option<PrioritiesReport>,
    /// Transitions by the times they were handed out; null for a table of priorities.
    pub(crate) times_sampled: Option<Vec<TimesReport>>,
}

impl TableFrame {
    /// Returns the tables of a ring, by name, those of priorities first. Empty for a ring that is
    /// too large to be counted.
    pub(crate) fn all_of(seen: &RingReading) -> Vec<Self> {
        let found = &seen.distributions;
        let by_priority = found.priorities.iter().map(|(name, found)| Self {
            name: name.clone(),
            priorities: Some(found.into()),
            times_sampled: None,
        });
        let of_claims = found.times_sampled.iter().map(|(name, bins)| Self {
            name: name.clone(),
            priorities: None,
            times_sampled: Some(bins.iter().map(TimesReport::from).collect()),
        });
        by_priority.chain(of_claims).collect()
    }

    /// Describes the table of a ring in a line.
    pub(crate) fn line(&self, ring: &str) -> String {
        /// Maximum length of a name beside the numbers.
        const LONGEST: u16 = 24;
        let short = |name: &str| columns::shortened(&printable(name), LONGEST);
        let priorities = self.priorities.as_ref().map(|found| {
            let (rows, effective) = (units::exact(found.rows), found.effective_rows);
            format!("{rows} rows with a priority, {effective:.1} effective")
        });
        let times = self.times_sampled.as_ref();
        let times = times.map(|bins| format!("transitions by times sampled {}", in_words(bins)));
        let facts: Vec<String> = priorities.into_iter().chain(times).collect();
        format!("table {} of {}: {}", short(&self.name), short(ring), facts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use backcast_core::{PriorityBin, PriorityDistribution, TimesBin};

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
        let lines: Vec<String> =
            TableFrame::all_of(&seen).iter().map(|table| table.line("pong")).collect();
        assert_eq!(lines[0], "table priority of pong: 1,234 rows with a priority, 812.4 effective");
        assert!(!lines[1].contains('\u{1b}') && lines[1].ends_with(" sampled -"), "{lines:?}");
        assert_eq!(
            lines[2],
            "table queue of pong: transitions by times sampled 0: 30, 1: 1,000, 3: 5"
        );
    }
}
