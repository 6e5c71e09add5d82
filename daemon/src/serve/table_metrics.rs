//! Metrics of tables of priorities and of claims: their distributions, bin by bin. Locked tables.
//! Counters of tables of learned columns.

use backcast_core::{LearnedCounters, LearnedTableInfo};

use super::metrics::{Family, MetricKind, Sample};
use crate::objects::table_distributions::TableDistributions;

/// Metrics of tables, all of them gauges.
#[expect(clippy::cast_precision_loss, reason = "Prometheus has 64-bit floats")]
pub(super) fn families(rings: &[(String, TableDistributions)]) -> [Family; 5] {
    let [mut rows, mut effective, mut bins, mut times, mut locked] = [const { Vec::new() }; 5];
    for (ring, found) in rings {
        locked.push((vec![("ring", ring.clone())], found.locked.len() as f64));
        let sample = |table: &str, bin: Option<(&'static str, String)>, value| -> Sample {
            let labels = [("ring", ring.clone()), ("table", table.to_owned())];
            (labels.into_iter().chain(bin).collect(), value)
        };
        for (table, found) in &found.priorities {
            rows.push(sample(table, None, found.rows as f64));
            effective.push(sample(table, None, found.effective_rows));
            let bin = |from: f64| Some(("from", from.to_string()));
            let of_table = found.histogram.iter();
            bins.extend(of_table.map(|found| sample(table, bin(found.from), found.rows as f64)));
        }
        for (table, found) in &found.times_sampled {
            let bin = |times: u64| Some(("times", times.to_string()));
            times.extend(found.iter().map(|f| sample(table, bin(f.times), f.rows as f64)));
        }
    }
    let gauge = |name, help, samples| Family { name, help, form: MetricKind::Gauge, samples };
    [
        gauge("backcast_priority_rows", "Rows that have a priority", rows),
        gauge(
            "backcast_priority_effective_rows",
            "Rows of equal priority that would be drawn with the same diversity",
            effective,
        ),
        gauge(
            "backcast_priority_bin_rows",
            "Rows whose priority, plus eps, to the exponent is from the label up to twice that",
            bins,
        ),
        gauge(
            "backcast_times_sampled_rows",
            "Transitions by the times that a table of claims handed them out",
            times,
        ),
        gauge("backcast_locked_tables", "Tables that a process keeps locked", locked),
    ]
}

/// Metric of a table of learned columns: name, help and value.
type OfLearned = (&'static str, &'static str, fn(&LearnedCounters) -> u64);

const LEARNED: [OfLearned; 2] = [
    ("backcast_learned_updated", "Values set in tables of learned columns", |table| table.updated),
    ("backcast_learned_stale", "Values dropped since their row was gone", |table| table.stale),
];

/// Metrics of the tables of learned columns of each ring, all of them counters.
#[expect(clippy::cast_precision_loss, reason = "Prometheus has 64-bit floats")]
pub(super) fn learned(rings: &[(&str, &[LearnedTableInfo])]) -> [Family; 2] {
    LEARNED.map(|(name, help, number)| {
        let of_ring = |&(ring, tables): &(&str, &[LearnedTableInfo])| -> Vec<Sample> {
            let sample = |table: &LearnedTableInfo| {
                let labels = vec![("ring", ring.to_owned()), ("table", table.name.clone())];
                (labels, number(&table.counters) as f64)
            };
            tables.iter().map(sample).collect()
        };
        let samples = rings.iter().flat_map(of_ring).collect();
        Family { name, help, form: MetricKind::Counter, samples }
    })
}
