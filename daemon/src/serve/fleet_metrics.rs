//! Metrics of fleets, from the reports that their parents write.

use super::metrics::{Family, MetricKind};
use crate::objects::fleet::FleetReport;
use crate::text::units::seconds_since;

/// Metric of a fleet: name, help, kind and value. `None` while it is not known.
type OfFleet = (&'static str, &'static str, MetricKind, fn(&FleetReport) -> Option<f64>);

#[expect(clippy::cast_precision_loss, reason = "Prometheus has 64-bit floats")]
const FLEET: [OfFleet; 13] = {
    use MetricKind::{Counter, Gauge};
    [
        ("backcast_fleet_actors", "Actors that the fleet should have", Gauge, |fleet| {
            Some(f64::from(fleet.n))
        }),
        ("backcast_fleet_running", "Actors that run now", Gauge, |fleet| {
            Some(f64::from(fleet.running))
        }),
        ("backcast_fleet_restarts", "Actors started again", Counter, |fleet| {
            Some(fleet.restarts as f64)
        }),
        ("backcast_fleet_rows_per_second", "Rows that the actors append", Gauge, |fleet| {
            fleet.rows_per_s
        }),
        ("backcast_fleet_updates", "Updates of the learner", Counter, |fleet| {
            Some(fleet.updates as f64)
        }),
        ("backcast_fleet_updates_per_second", "Updates a second", Gauge, |fleet| {
            Some(fleet.updates_per_s)
        }),
        ("backcast_fleet_samples_per_insert", "Items drawn for each transition", Gauge, |fleet| {
            fleet.samples_per_insert
        }),
        ("backcast_fleet_policy_version", "Version of the learner's policy", Gauge, |fleet| {
            fleet.policy_version.map(|version| version as f64)
        }),
        (
            "backcast_fleet_policy_age_versions",
            "Versions that the actors are behind",
            Gauge,
            |fleet| fleet.policy_age_versions,
        ),
        ("backcast_fleet_policy_age_seconds", "Age of the actors' policy", Gauge, |fleet| {
            fleet.policy_age_s
        }),
        ("backcast_fleet_episodes", "Episodes reported", Counter, |fleet| {
            Some(fleet.episodes as f64)
        }),
        ("backcast_fleet_return_mean", "Mean return of the newest episodes", Gauge, |fleet| {
            fleet.return_mean
        }),
        (
            "backcast_fleet_report_age_seconds",
            "Seconds since the fleet wrote its report",
            Gauge,
            |fleet| Some(seconds_since(fleet.updated_unix_ns)),
        ),
    ]
};

/// Returns the metrics of all fleets, by the name of the ring of reports.
pub(super) fn families(all: &[(String, FleetReport)]) -> impl Iterator<Item = Family> {
    FLEET.into_iter().map(|(name, help, form, number)| {
        let sample = |(fleet, report): &(String, FleetReport)| {
            let number = number(report).filter(|number| number.is_finite())?;
            let mut labels = vec![("fleet", fleet.clone())];
            labels.extend(report.buffer.clone().map(|ring| ("ring", ring)));
            Some((labels, number))
        };
        Family { name, help, form, samples: all.iter().filter_map(sample).collect() }
    })
}
