//! Page of metrics of all rings and of the daemon, in the `OpenMetrics` text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use backcast_core::{
    Base, LearnedTableInfo, LimiterStats, ObjectInfo, ObjectKind, Observed, Params, ParamsError,
    ParamsStats, RingError, RingStats, SegmentError, list_objects,
};
use backcast_persist::FollowState;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use thiserror::Error;

use super::budget;
use super::reader_totals::{self, ReaderTotals};
use super::shared::Shared;
use super::{fleet_metrics, params_metrics, table_metrics};
use crate::objects::catalogue::is_garbage;
use crate::objects::fleet::FleetReport;
use crate::objects::persist::behind_now;
use crate::objects::table_distributions::{TableDistributions, TableScan};

/// Content type of the page.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Error of writing the page.
#[derive(Debug, Error)]
pub(crate) enum PageError {
    /// The objects cannot be listed, or the daemon has no files or memory left to open them.
    #[error("cannot read the objects: {0}")]
    Objects(#[from] SegmentError),
    #[error("cannot write metrics")]
    Text(#[from] fmt::Error),
}

/// Returns the current page. Writers and readers go on, so the numbers are not of one instant.
/// Fails if the daemon has no files or memory left to read every ring.
pub(crate) fn page(shared: &Shared) -> Result<String, PageError> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Taken(take(shared)?)));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

/// Kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetricKind {
    Gauge,
    /// Never decreases; its name ends with `_total` on the page.
    Counter,
}

/// Labels and a number.
pub(super) type Sample = (Vec<(&'static str, String)>, f64);

#[derive(Debug)]
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) form: MetricKind,
    pub(super) samples: Vec<Sample>,
}

/// All metrics of a page.
#[derive(Debug)]
struct Taken(Vec<Family>);

impl Collector for Taken {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for Family { name, help, form, samples } in &self.0 {
            let (gauge, counter) = (ConstGauge::new(0.0), ConstCounter::new(0.0));
            let kind = match form {
                MetricKind::Gauge => gauge.metric_type(),
                MetricKind::Counter => counter.metric_type(),
            };
            let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
            for (labels, value) in samples {
                let encode = |encoder| match form {
                    MetricKind::Gauge => ConstGauge::new(*value).encode(encoder),
                    MetricKind::Counter => ConstCounter::new(*value).encode(encoder),
                };
                if !labels.is_empty() {
                    encode(metric.encode_family(labels)?)?;
                    continue;
                }
                match form {
                    MetricKind::Gauge => metric.encode_gauge(value)?,
                    MetricKind::Counter => {
                        type Nothing = prometheus_client::encoding::NoLabelSet;
                        metric.encode_counter::<Nothing, f64, f64>(value, None)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Metric of a ring: name, help, kind and value.
type OfRing = (&'static str, &'static str, MetricKind, fn(&RingStats, &ReaderTotals) -> f64);

#[expect(clippy::cast_precision_loss, reason = "Prometheus has 64-bit floats")]
const RING: [OfRing; 18] = {
    use MetricKind::{Counter, Gauge};
    [
        ("backcast_ring_rows", "Rows readable now", Gauge, |ring, _| {
            ring.lane_stats.iter().map(|lane| lane.rows).sum::<u64>() as f64
        }),
        ("backcast_ring_capacity_rows", "Rows that it keeps", Gauge, |ring, _| {
            ring.capacity as f64
        }),
        ("backcast_ring_fill_ratio", "Rows readable of rows kept, 0 to 1", Gauge, |ring, _| {
            let rows: u64 = ring.lane_stats.iter().map(|lane| lane.rows).sum();
            rows as f64 / ring.capacity.max(1) as f64
        }),
        ("backcast_ring_transitions", "Transitions that can be drawn", Gauge, |ring, _| {
            ring.transitions as f64
        }),
        ("backcast_ring_rows_published", "Rows published", Counter, |ring, _| {
            ring.rows_published as f64
        }),
        ("backcast_ring_cuts", "Episodes cut since a step did not follow", Counter, |ring, _| {
            ring.lane_stats.iter().map(|lane| lane.cuts).sum::<u64>() as f64
        }),
        ("backcast_ring_lanes", "Lanes", Gauge, |ring, _| f64::from(ring.lanes)),
        ("backcast_ring_lanes_held", "Lanes that a writer holds", Gauge, |ring, _| {
            ring.lane_stats.iter().filter(|lane| lane.held).count() as f64
        }),
        ("backcast_ring_readers", "Readers that hold a slot", Gauge, |ring, _| {
            ring.readers.len() as f64
        }),
        ("backcast_ring_pins", "Runs of rows that leases freeze", Gauge, |ring, _| {
            ring.pins.len() as f64
        }),
        ("backcast_ring_sampled_rows", "Rows drawn by readers with a slot", Counter, |_, all| {
            all.rows as f64
        }),
        ("backcast_ring_sampled_batches", "Batches drawn by them", Counter, |_, all| {
            all.batches as f64
        }),
        ("backcast_ring_lapped", "Draws thrown away since a writer passed", Counter, |_, all| {
            all.lapped as f64
        }),
        ("backcast_ring_leases", "Leases granted", Counter, |_, all| all.leases as f64),
        (
            "backcast_ring_reader_stalls",
            "Times that a lease held up a writer",
            Counter,
            |_, all| all.stalls as f64,
        ),
        ("backcast_ring_stalls", "Appends held up by leases", Counter, |ring, _| {
            ring.lane_stats.iter().map(|lane| lane.stalls).sum::<u64>() as f64
        }),
        ("backcast_ring_dropped_rows", "Rows dropped because of leases", Counter, |ring, _| {
            ring.lane_stats.iter().map(|lane| lane.dropped).sum::<u64>() as f64
        }),
        ("backcast_ring_allocated_bytes", "Bytes of memory", Gauge, |ring, _| {
            ring.bytes_allocated as f64
        }),
    ]
};

/// Metric of a rate limiter: name, help, kind and value.
type OfLimiter = (&'static str, &'static str, MetricKind, fn(&LimiterStats) -> f64);

#[expect(clippy::cast_precision_loss, reason = "Prometheus has 64-bit floats")]
const LIMITER: [OfLimiter; 10] = {
    use MetricKind::{Counter, Gauge};
    [
        ("backcast_limiter_on", "1 while the rate limiter is on", Gauge, |limiter| {
            f64::from(u8::from(limiter.limits.is_some_and(|limits| limits.is_enabled())))
        }),
        ("backcast_limiter_inserts", "Transitions inserted", Counter, |limiter| {
            limiter.counts.inserts as f64
        }),
        // A gauge, since items of draws that failed are given back.
        ("backcast_limiter_samples", "Items drawn", Gauge, |limiter| limiter.counts.samples as f64),
        ("backcast_limiter_deletes", "Inserted and dropped by hand", Gauge, |limiter| {
            limiter.counts.deletes as f64
        }),
        ("backcast_limiter_waiting_writers", "Writers held back now", Gauge, |limiter| {
            limiter.writers.waiting as f64
        }),
        ("backcast_limiter_waiting_samplers", "Samplers held back now", Gauge, |limiter| {
            limiter.samplers.waiting as f64
        }),
        ("backcast_limiter_writer_waits", "Waits of writers begun", Counter, |limiter| {
            limiter.writers.waits as f64
        }),
        ("backcast_limiter_sampler_waits", "Waits of samplers begun", Counter, |limiter| {
            limiter.samplers.waits as f64
        }),
        ("backcast_limiter_writer_wait_seconds", "Time of their waits", Counter, |limiter| {
            limiter.writers.waited.as_secs_f64()
        }),
        ("backcast_limiter_sampler_wait_seconds", "Time of their waits", Counter, |limiter| {
            limiter.samplers.waited.as_secs_f64()
        }),
    ]
};

/// Metric of a followed ring: name, help, kind and value.
type OfFollowed = (&'static str, &'static str, MetricKind, fn(&FollowState) -> f64);

#[expect(clippy::cast_precision_loss, reason = "Prometheus has 64-bit floats")]
const PERSIST: [OfFollowed; 7] = {
    use MetricKind::{Counter, Gauge};
    [
        ("backcast_persist_behind_rows", "Rows published that are not on disk", Gauge, |state| {
            state.rows_behind as f64
        }),
        ("backcast_persist_behind_seconds", "How old the oldest of them may be", Gauge, |state| {
            state.behind_for.as_secs_f64()
        }),
        ("backcast_persist_rows", "Rows brought to disk", Gauge, |state| {
            state.rows_persisted as f64
        }),
        (
            "backcast_persist_lapped_rows",
            "Rows overwritten before they could be copied",
            Counter,
            |state| state.rows_lapped as f64,
        ),
        ("backcast_persist_written_bytes", "Bytes written by this daemon", Counter, |state| {
            state.bytes_written as f64
        }),
        ("backcast_persist_errors", "Attempts that failed", Counter, |state| state.errors as f64),
        ("backcast_persist_failing", "1 while rows cannot be brought to disk", Gauge, |state| {
            f64::from(u8::from(state.error.is_some()))
        }),
    ]
};

/// Reads the numbers of a ring.
fn read(base: &Base, ring: &str) -> Result<(Observed, RingStats, TableDistributions), RingError> {
    let observed = Observed::open(base, ring)?;
    let stats = observed.ring().whole_stats()?;
    let distributions = TableDistributions::read(&observed, TableScan::Repeated)?;
    Ok((observed, stats, distributions))
}

/// Numbers of all objects, by name.
#[derive(Debug)]
struct Readings {
    rings: Vec<(String, RingStats, ReaderTotals)>,
    tables: Vec<(String, TableDistributions)>,
    fleets: Vec<(String, FleetReport)>,
    params: Vec<(String, ParamsStats)>,
}

impl Readings {
    /// Reads the objects. One that cannot be read has no numbers. The sweep logs why, unless it was
    /// removed.
    fn of(shared: &Shared, objects: &[ObjectInfo]) -> Result<Self, SegmentError> {
        let (mut rings, mut tables) = (Vec::new(), Vec::new());
        let (mut fleets, mut params) = (Vec::new(), Vec::new());
        for info in objects.iter().filter(|info| !info.building && !is_garbage(info)) {
            let name = &info.name;
            match info.kind {
                ObjectKind::Panel => {}
                ObjectKind::Params => match Params::observe(&shared.base, name) {
                    Err(ParamsError::Segment(error)) if error.is_of_process() => return Err(error),
                    Err(_) => {}
                    Ok(observed) => params.push((name.clone(), observed.stats())),
                },
                ObjectKind::Ring => {
                    let (observed, stats, distributions) = match read(&shared.base, name) {
                        Err(RingError::Segment(error)) if error.is_of_process() => {
                            return Err(error);
                        }
                        Err(_) => continue,
                        Ok(read) => read,
                    };
                    let (created, records) = (observed.created_unix_ns(), observed.readers());
                    let totals = shared.reader_totals().update(name, created, &records);
                    rings.push((name.clone(), stats, totals));
                    tables.push((name.clone(), distributions));
                    fleets.extend(FleetReport::read(&info.path).map(|fleet| (name.clone(), fleet)));
                }
            }
        }
        Ok(Self { rings, tables, fleets, params })
    }
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus has 64-bit floats")]
fn take(shared: &Shared) -> Result<Vec<Family>, SegmentError> {
    let objects = list_objects(&shared.base)?;
    let Readings { rings, tables, fleets, params } = Readings::of(shared, &objects)?;
    let of_ages = reader_totals::ages(&rings);
    let of_rings = RING.iter().map(|&(name, help, form, number)| {
        let sample = |(ring, stats, totals): &(String, RingStats, ReaderTotals)| {
            (vec![("ring", ring.clone())], number(stats, totals))
        };
        Family { name, help, form, samples: rings.iter().map(sample).collect() }
    });
    let of_limiters = LIMITER.iter().map(|&(name, help, form, number)| {
        let sample = |(ring, stats, _): &(String, RingStats, ReaderTotals)| {
            Some((vec![("ring", ring.clone())], number(stats.limiter.as_ref()?)))
        };
        Family { name, help, form, samples: rings.iter().filter_map(sample).collect() }
    });
    let mut followed = shared.keeper().states();
    for (name, state) in &mut followed {
        // The follower's own count is older than this page.
        if let Some((_, stats, _)) = rings.iter().find(|(ring, ..)| ring == name) {
            state.rows_behind = behind_now(stats.rows_published, state.rows_done);
        }
    }
    let of_followed = PERSIST.iter().map(|&(name, help, form, number)| {
        let sample =
            |(ring, state): &(String, FollowState)| (vec![("ring", ring.clone())], number(state));
        Family { name, help, form, samples: followed.iter().map(sample).collect() }
    });
    let live = shared.live();
    let tally = &shared.tally;
    let count = |counter: &AtomicU64| counter.load(Relaxed) as f64;
    let plain =
        |name, help, form, value| Family { name, help, form, samples: vec![(Vec::new(), value)] };
    let by = |name, help, label, counts: BTreeMap<&'static str, u64>| {
        let sample = |(word, n): (&'static str, u64)| (vec![(label, word.to_owned())], n as f64);
        let samples = counts.into_iter().map(sample).collect();
        Family { name, help, form: MetricKind::Counter, samples }
    };
    let kinds = ObjectKind::ALL.map(|kind| {
        let of_kind = objects.iter().filter(|info| info.kind == kind && !info.building).count();
        (vec![("kind", kind.as_str().to_owned())], of_kind as f64)
    });
    let (gauge, counter) = (MetricKind::Gauge, MetricKind::Counter);
    let of_daemon = [
        plain(
            "backcast_budget_bytes",
            "Bytes that all objects may have",
            gauge,
            live.budget_bytes as f64,
        ),
        plain("backcast_used_bytes", "Bytes that they have", gauge, budget::used(&objects) as f64),
        Family { name: "backcast_objects", help: "Objects", form: gauge, samples: kinds.to_vec() },
        plain(
            "backcast_uptime_seconds",
            "Seconds since the daemon began",
            gauge,
            shared.began.elapsed().as_secs_f64(),
        ),
        plain("backcast_sweeps", "Sweeps of the directory", counter, count(&tally.sweeps)),
        plain(
            "backcast_orphans_removed",
            "Objects removed that no process held",
            counter,
            count(&tally.orphans_removed),
        ),
        plain(
            "backcast_pins_cleared",
            "Pins of dead readers taken away",
            counter,
            count(&tally.pins_cleared),
        ),
        plain("backcast_connections", "Connections of clients", counter, count(&tally.connections)),
        plain(
            "backcast_strangers_refused",
            "Connections of other users, refused",
            counter,
            count(&tally.strangers_refused),
        ),
        by("backcast_requests", "Requests of clients", "ask", tally.requests()),
        by("backcast_errors", "Requests refused", "code", tally.errors()),
    ];
    let learned: Vec<(&str, &[LearnedTableInfo])> = rings
        .iter()
        .map(|(ring, stats, _)| (ring.as_str(), stats.learned_tables.as_slice()))
        .collect();
    let of_learned = table_metrics::learned(&learned);
    let of_tables = table_metrics::families(&tables).into_iter().chain(of_learned);
    let of_params = params_metrics::families(&params).chain(fleet_metrics::families(&fleets));
    let of_rings = of_rings.chain([of_ages]);
    let all = of_rings.chain(of_limiters).chain(of_tables).chain(of_params);
    let all = all.chain(of_followed).chain(of_daemon);
    Ok(all.collect())
}

/// Returns the names of all metrics on the page.
#[cfg(test)]
pub(crate) fn names(shared: &Shared) -> Vec<String> {
    let full = |family: &Family| match family.form {
        MetricKind::Gauge => family.name.to_owned(),
        MetricKind::Counter => format!("{}_total", family.name),
    };
    take(shared).unwrap().iter().map(full).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::os::unix::fs::DirBuilderExt;

    use backcast_core::{
        Base, DType, ParamsArray, ParamsOptions, RateLimiter, Ring, RingOptions, Schema,
    };

    use super::*;
    use crate::serve::ServeOptions;

    #[test]
    fn the_page_has_every_number_once_and_ends_as_it_must() {
        let dir = tempfile::tempdir().unwrap();
        let base = Base::at(dir.path());
        let schema = Schema::builder().column("obs", DType::F32, &[]).build().unwrap();
        let options = RingOptions::with_capacity(100).lanes(3).base(base.clone());
        let limited = options.clone().limiter(RateLimiter::min_size(10));
        let _limited = Ring::create("held", &schema, limited).unwrap();
        let ring = Ring::create("pong", &schema, options).unwrap();
        let shared = Shared::new(&base, &ServeOptions::default()).unwrap();
        shared.tally.count_request("ping");
        let text = page(&shared).unwrap();
        assert!(text.ends_with("# EOF\n"), "{text}");
        assert!(text.contains("backcast_ring_lanes{ring=\"pong\"} 3.0\n"), "{text}");
        assert!(text.contains("backcast_limiter_on{ring=\"held\"} 1.0\n"), "{text}");
        assert!(!text.contains("backcast_limiter_on{ring=\"pong\"}"), "{text}");
        assert!(text.contains("backcast_requests_total{ask=\"ping\"} 1.0\n"), "{text}");
        assert!(text.contains("backcast_sweeps_total 0.0\n"), "{text}");
        let used = ring.stats().bytes_allocated;
        assert!(text.contains(&format!("backcast_ring_allocated_bytes{{ring=\"pong\"}} {used}.0")));
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let series: BTreeSet<&str> =
            samples.iter().map(|line| line.rsplit_once(' ').unwrap().0).collect();
        assert_eq!(series.len(), samples.len(), "{text}");
    }

    #[test]
    fn parameters_and_fleets_are_on_the_page() {
        let dir = tempfile::tempdir().unwrap();
        let base = Base::at(dir.path());
        let schema = Schema::builder().column("obs", DType::F32, &[]).build().unwrap();
        let options = RingOptions::with_capacity(100).base(base.clone());
        let ring = Ring::create("reports", &schema, options).unwrap();
        let report = FleetReport {
            buffer: Some("a \"ring\"\n".to_owned()),
            n: 4,
            running: 3,
            return_mean: Some(f64::NAN),
            policy_age_s: Some(1.5),
            ..FleetReport::default()
        };
        let written = serde_json::to_string(&report).unwrap();
        std::fs::write(ring.stats().path.unwrap().join("fleet.json"), written).unwrap();
        let arrays = vec![ParamsArray::new("w", DType::F32, &[2]).unwrap()];
        let options = ParamsOptions::default().base(base.clone());
        let mut params = Params::create("policy", arrays, options).unwrap();
        let shared = Shared::new(&base, &ServeOptions::default()).unwrap();
        let before = page(&shared).unwrap();
        assert!(before.contains("backcast_params_version{params=\"policy\"} 0.0\n"), "{before}");
        assert!(!before.contains("backcast_params_age_seconds{"), "{before}");
        params.publish_bytes(&[&[0; 8]], None).unwrap();
        let text = page(&shared).unwrap();
        let labels = "{fleet=\"reports\",ring=\"a \\\"ring\\\"\\n\"}";
        for line in [
            "backcast_params_version{params=\"policy\"} 1.0\n",
            "backcast_params_published_total{params=\"policy\"} 1.0\n",
            "backcast_params_publisher{params=\"policy\"} 1.0\n",
            "backcast_params_age_seconds{params=\"policy\"} ",
            &format!("backcast_fleet_actors{labels} 4.0\n"),
            &format!("backcast_fleet_running{labels} 3.0\n"),
            &format!("backcast_fleet_policy_age_seconds{labels} 1.5\n"),
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(!text.contains("backcast_fleet_return_mean{"), "{text}");
    }

    /// Parses the alerts of the file, which uses a subset of YAML: two levels of lists and one
    /// `key: value` a line.
    fn alerts() -> Vec<BTreeMap<String, String>> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/alerts.yml");
        let text = std::fs::read_to_string(path).unwrap();
        let mut alerts: Vec<BTreeMap<String, String>> = Vec::new();
        for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
            assert!(!line.contains('\t') && line.trim_end() == line, "`{line}`");
            let Some((key, value)) = line.trim_start().split_once(':') else {
                assert!(line.is_empty(), "`{line}`");
                continue;
            };
            if key == "- alert" {
                alerts.push(BTreeMap::new());
            }
            if let Some(alert) = alerts.last_mut() {
                let before = alert.insert(key.to_owned(), value.trim().to_owned());
                assert_eq!(before, None, "`{key}` twice: {line}");
            }
        }
        alerts
    }

    #[test]
    fn every_alert_uses_existing_metrics_and_names_a_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let base = Base::at(dir.path());
        std::fs::DirBuilder::new().mode(0o700).create(base.path()).unwrap();
        let known = names(&Shared::new(&base, &ServeOptions::default()).unwrap());
        let alerts = alerts();
        assert!(alerts.len() > 8, "{alerts:?}");
        let titles: BTreeSet<&String> = alerts.iter().map(|alert| &alert["- alert"]).collect();
        assert_eq!(titles.len(), alerts.len());
        for alert in &alerts {
            let query = &alert["expr"];
            let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let asked: Vec<&str> = words.filter(|word| word.starts_with("backcast_")).collect();
            assert!(!asked.is_empty(), "{query}");
            for metric in asked {
                assert!(known.iter().any(|name| name == metric), "{metric}: {query}");
            }
            for (open, close) in [('(', ')'), ('{', '}'), ('[', ']')] {
                assert_eq!(query.matches(open).count(), query.matches(close).count(), "{query}");
            }
            // Values with colons must be quoted.
            for key in ["summary", "description"] {
                let text = &alert[key];
                assert!(text.starts_with('"') && text.ends_with('"') && text.len() > 12, "{text}");
            }
            assert!(query.starts_with('\'') && query.ends_with('\''), "{query}");
            assert!(["warning", "critical"].contains(&alert["severity"].as_str()), "{alert:?}");
            let minutes = alert["for"].strip_suffix('m').map(str::parse::<u32>);
            assert!(matches!(minutes, Some(Ok(_))), "{alert:?}");
        }
        // Labels in queries must be values of the daemon.
        let codes = alerts.iter().filter_map(|alert| alert["expr"].split("code=~\"").nth(1));
        for code in codes.flat_map(|rest| rest.split('"').next().unwrap().split('|')) {
            let known: Result<crate::protocol::Code, _> = serde_json::from_value(code.into());
            assert!(known.is_ok(), "{code}");
        }
    }

    #[test]
    fn the_dashboard_shows_every_metric_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let base = Base::at(dir.path());
        std::fs::DirBuilder::new().mode(0o700).create(base.path()).unwrap();
        let shared = Shared::new(&base, &ServeOptions::default()).unwrap();
        let known: BTreeSet<String> = names(&shared).into_iter().collect();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/grafana.json");
        let board = std::fs::read_to_string(path).unwrap();
        let board: serde_json::Value = serde_json::from_str(&board).unwrap();
        let mut shown = BTreeSet::new();
        for panel in board["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().unwrap() {
                let query = target["expr"].as_str().unwrap();
                let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                shown.extend(words.filter(|w| w.starts_with("backcast_")).map(str::to_owned));
            }
        }
        assert_eq!(shown, known);
    }
}
