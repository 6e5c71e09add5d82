//! Metrics of parameters: versions, their age, and the processes that publish and pull.

use backcast_core::ParamsStats;

use super::metrics::{Family, MetricKind};
use crate::text::units::seconds_since;

/// Metric of parameters: name, help, kind and value. `None` before the first version.
type OfParams = (&'static str, &'static str, MetricKind, fn(&ParamsStats) -> Option<f64>);

#[expect(clippy::cast_precision_loss, reason = "Prometheus has 64-bit floats")]
const PARAMS: [OfParams; 9] = {
    use MetricKind::{Counter, Gauge};
    [
        ("backcast_params_version", "Newest version, 0 before the first", Gauge, |params| {
            Some(params.version as f64)
        }),
        ("backcast_params_age_seconds", "Seconds since it was published", Gauge, |params| {
            params.published_unix_ns.map(seconds_since)
        }),
        ("backcast_params_published", "Versions published", Counter, |params| {
            Some(params.counters.published as f64)
        }),
        (
            "backcast_params_refused",
            "Publishes refused since views pin all slots",
            Counter,
            |params| Some(params.counters.refused as f64),
        ),
        ("backcast_params_publisher", "1 while a process is the publisher", Gauge, |params| {
            Some(f64::from(u8::from(params.has_publisher)))
        }),
        ("backcast_params_pulls", "Versions copied by readers", Counter, |params| {
            Some(params.counters.pulls as f64)
        }),
        (
            "backcast_params_retries",
            "Copies made again since the publisher reused the slot",
            Counter,
            |params| Some(params.counters.retries as f64),
        ),
        ("backcast_params_viewers", "Handles that read a version in place", Gauge, |params| {
            Some(params.viewers.len() as f64)
        }),
        ("backcast_params_allocated_bytes", "Bytes of memory", Gauge, |params| {
            Some(params.bytes as f64)
        }),
    ]
};

/// Returns the metrics of all parameters, by name.
pub(super) fn families(all: &[(String, ParamsStats)]) -> impl Iterator<Item = Family> {
    PARAMS.into_iter().map(|(name, help, form, number)| {
        let sample = |(params, stats): &(String, ParamsStats)| {
            Some((vec![("params", params.clone())], number(stats)?))
        };
        Family { name, help, form, samples: all.iter().filter_map(sample).collect() }
    })
}
