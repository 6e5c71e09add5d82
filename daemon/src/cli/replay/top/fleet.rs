//! Fleets of actors, one line each, as their parents report them.

use std::time::Duration;

use serde::Serialize;

use super::columns;
use super::reading::RingReading;
use crate::cli::console::printable;
use crate::objects::fleet::FleetReport;
use crate::text::units;

/// JSON of a fleet.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct FleetFrame {
    /// Name of its ring of reports.
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) report: FleetReport,
}

impl FleetFrame {
    /// Returns the fleet whose reports a ring has.
    pub(crate) fn of(seen: &RingReading) -> Option<Self> {
        let report = seen.fleet.clone()?;
        Some(Self { name: seen.name.clone(), report })
    }

    /// Describes the fleet in a line.
    pub(crate) fn line(&self, now_ns: u64) -> String {
        /// Age from which the age of a report is shown. The parent writes two reports a second.
        const LATE: Duration = Duration::from_secs(5);
        let fleet = &self.report;
        let number =
            |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.1}"));
        let rate = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), columns::rate);
        let version = fleet.policy_version.map_or_else(|| "-".to_owned(), units::exact);
        let age = fleet.policy_age_s.map_or_else(|| "-".to_owned(), columns::age);
        let late = Duration::from_nanos(now_ns.saturating_sub(fleet.updated_unix_ns));
        let late = if late < LATE {
            String::new()
        } else {
            format!(" ({} ago)", columns::age(late.as_secs_f64()))
        };
        format!(
            "fleet {}{late}: {} of {} running, {} restarts, return {} in {} episodes, policy \
             {version}, age {} versions {age}, {} rows/s, {} updates/s, {} samples per insert",
            columns::shortened(&printable(&self.name), columns::LONGEST_NAME),
            fleet.running,
            fleet.n,
            units::exact(fleet.restarts),
            number(fleet.return_mean),
            units::exact(fleet.episodes),
            number(fleet.policy_age_versions),
            rate(fleet.rows_per_s),
            columns::rate(fleet.updates_per_s),
            number(fleet.samples_per_insert),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::Frame;
    use super::super::frame::made_up::{reading, ring};
    use super::*;

    #[test]
    fn a_line_has_returns_restarts_and_the_age_of_the_policy() {
        let mut reports = ring("fleet-1", 50);
        reports.fleet = Some(FleetReport {
            buffer: Some("pong".to_owned()),
            n: 4,
            running: 3,
            restarts: 2,
            rows_per_s: Some(1_200.0),
            updates: 10_000,
            updates_per_s: 30.0,
            samples_per_insert: Some(7.96),
            policy_version: Some(1_234),
            policy_age_versions: Some(2.5),
            policy_age_s: Some(0.5),
            episodes: 340,
            return_mean: Some(189.25),
            updated_unix_ns: 0,
        });
        let frame = Frame::of(&reading(3, vec![ring("pong", 9), reports]), None);
        let [fleet] = &frame.fleets[..] else { panic!("{:?}", frame.fleets) };
        assert_eq!(
            fleet.line(0),
            "fleet fleet-1: 3 of 4 running, 2 restarts, return 189.2 in 340 episodes, policy \
             1,234, age 2.5 versions 0.5 s, 1,200 rows/s, 30 updates/s, 8.0 samples per insert"
        );
        let late = fleet.line(9_000_000_000);
        assert!(late.starts_with("fleet fleet-1 (9.0 s ago): 3 of 4"), "{late}");
        let new = FleetFrame { name: "new".to_owned(), report: FleetReport::default() };
        assert!(new.line(0).contains("policy -, age - versions -, - rows/s"), "{}", new.line(0));
    }
}
