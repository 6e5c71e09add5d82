//! Parameters of policies, one line each: version, age, rates and readers.

use std::time::Duration;

use backcast_core::ParamsStats;
use serde::Serialize;

use super::columns;
use super::reading::Reading;
use crate::cli::console::printable;
use crate::objects::catalogue::{Content, Entry, ObjectState};
use crate::text::units;

/// Reading of parameters.
#[derive(Clone, Debug)]
pub(crate) struct ParamsReading {
    pub(crate) name: String,
    pub(crate) state: ObjectState,
    pub(crate) size_bytes: u64,
    /// Statistics; `None` if the parameters were not opened.
    pub(crate) stats: Option<ParamsStats>,
    pub(crate) error: Option<String>,
}

impl From<Entry> for ParamsReading {
    fn from(Entry { info, state, content, .. }: Entry) -> Self {
        let (stats, error) = match content {
            Content::Params(stats) => (Some(*stats), None),
            Content::Unopenable(_, why) => (None, Some(why)),
            Content::Ring(_) | Content::Panel(_) | Content::Unopened => (None, None),
        };
        Self { name: info.name, state, size_bytes: info.bytes, stats, error }
    }
}

/// JSON of parameters. If they cannot be opened, `allocated_bytes` is the size of their files, and
/// other statistics are zero or null.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ParamsFrame {
    pub(crate) name: String,
    pub(crate) state: ObjectState,
    pub(crate) error: Option<String>,
    pub(crate) allocated_bytes: u64,
    pub(crate) version: u64,
    /// Time since the newest version was published.
    pub(crate) version_age_s: Option<f64>,
    pub(crate) publish_rate_per_s: Option<f64>,
    pub(crate) pull_rate_per_s: Option<f64>,
    pub(crate) publisher_pid: Option<u64>,
    /// Handles with views.
    pub(crate) readers: u64,
}

impl ParamsFrame {
    /// Makes a frame of the newer reading with rates since the older one.
    pub(crate) fn of(
        seen: &ParamsReading,
        now_ns: u64,
        before: Option<(&Reading, Duration)>,
    ) -> Self {
        let mut row = Self {
            name: seen.name.clone(),
            state: seen.state,
            error: seen.error.clone(),
            allocated_bytes: seen.size_bytes,
            version: 0,
            version_age_s: None,
            publish_rate_per_s: None,
            pull_rate_per_s: None,
            publisher_pid: None,
            readers: 0,
        };
        let Some(stats) = &seen.stats else { return row };
        row.version = stats.version;
        // The clock of the publisher may be ahead.
        row.version_age_s = stats
            .published_unix_ns
            .map(|at| Duration::from_nanos(now_ns.saturating_sub(at)).as_secs_f64());
        row.publisher_pid = stats.has_publisher.then_some(stats.counters.pid);
        row.readers = stats.viewers.len() as u64;
        if let Some((earlier, apart)) = before.and_then(|(before, apart)| {
            let same = |other: &&ParamsReading| other.name == seen.name;
            let earlier = before.params.iter().find(same)?.stats.as_ref()?;
            (earlier.created_unix_ns == stats.created_unix_ns).then_some((earlier, apart))
        }) {
            // A hostile peer may decrease a counter.
            let rate = |now: u64, before: u64| {
                now.checked_sub(before).map(|count| super::frame::per_second(count, apart))
            };
            row.publish_rate_per_s = rate(stats.counters.published, earlier.counters.published);
            row.pull_rate_per_s = rate(stats.counters.pulls, earlier.counters.pulls);
        }
        row
    }

    /// Describes the parameters in a line.
    pub(crate) fn line(&self) -> String {
        let name = columns::shortened(&printable(&self.name), columns::LONGEST_NAME);
        if let Some(error) = &self.error {
            return format!("params {name}: {}: {}", self.state, printable(error));
        }
        let rate = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), columns::rate);
        let age = self.version_age_s.map_or_else(|| "-".to_owned(), columns::age);
        format!(
            "params {name}: {}, version {}, age {age}, {} publishes/s, {} pulls/s, readers {}, {}",
            self.state,
            units::exact(self.version),
            rate(self.publish_rate_per_s),
            rate(self.pull_rate_per_s),
            self.readers,
            units::bytes(self.allocated_bytes),
        )
    }
}

#[cfg(test)]
mod tests {
    use backcast_core::{DType, Params, ParamsArray, ParamsOptions};

    use super::super::frame::Frame;
    use super::super::frame::made_up::reading;
    use super::*;

    fn seen(versions: u64) -> ParamsReading {
        let like = vec![ParamsArray::new("w", DType::F32, &[2]).unwrap()];
        let mut params = Params::heap(like, &ParamsOptions::default()).unwrap();
        let arrays = params.arrays();
        for _ in 0..versions {
            params.publish(&arrays, None).unwrap();
        }
        let mut stats = params.stats();
        stats.created_unix_ns = 7;
        stats.published_unix_ns = Some(2_500_000_000);
        ParamsReading {
            name: "policy".to_owned(),
            state: ObjectState::Held,
            size_bytes: 1 << 20,
            stats: Some(stats),
            error: None,
        }
    }

    fn at(second: u64, params: ParamsReading) -> Reading {
        let unix_ns = second * 1_000_000_000;
        Reading { params: vec![params], unix_ns, ..reading(second, Vec::new()) }
    }

    #[test]
    fn a_line_has_the_version_its_age_and_rates() {
        let frame = Frame::of(&at(5, seen(6)), Some(&at(3, seen(2))));
        let row = &frame.params[0];
        assert_eq!((row.version, row.version_age_s), (6, Some(2.5)));
        assert_eq!((row.publish_rate_per_s, row.pull_rate_per_s), (Some(2.0), Some(0.0)));
        assert_eq!(
            row.line(),
            "params policy: held, version 6, age 2.5 s, 2 publishes/s, 0 pulls/s, readers 0, 1 MiB"
        );
    }

    #[test]
    fn others_of_the_same_name_and_earlier_clocks_give_no_rate_and_no_age() {
        let mut another = seen(9);
        another.stats.as_mut().unwrap().created_unix_ns += 1;
        let frame = Frame::of(&at(2, another), Some(&at(1, seen(2))));
        assert_eq!(frame.params[0].publish_rate_per_s, None);
        assert_eq!(frame.params[0].version_age_s, Some(0.0));
        let fewer = Frame::of(&at(5, seen(2)), Some(&at(3, seen(6))));
        assert_eq!(fewer.params[0].publish_rate_per_s, None);
        assert!(fewer.params[0].line().contains("- publishes/s"), "{:?}", fewer.params[0]);
    }

    #[test]
    fn damaged_parameters_say_so() {
        let mut damaged = seen(0);
        (damaged.stats, damaged.state) = (None, ObjectState::Damaged);
        damaged.error = Some("torn\u{1b}".to_owned());
        let frame = Frame::of(&at(5, damaged), None);
        assert_eq!(frame.params[0].line(), "params policy: damaged: torn\u{fffd}");
    }
}
