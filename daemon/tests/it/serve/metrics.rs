//! Metrics, as a scraper gets them.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;

use backcast_budget::WATCHDOG;
use backcast_core::{
    PriorityOptions, SamplerOptions, Selector, StepColumns, TableOptions, WriterOptions,
};

use super::running::{Running, until};
use crate::shelf::{Shelf, schema};

/// Sends a request, and returns the whole answer.
fn get(daemon: &Running, request: &str) -> (String, String) {
    let url = daemon.ready["metrics"].as_str().unwrap();
    let address = url.strip_prefix("http://").unwrap().strip_suffix("/metrics").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(WATCHDOG)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// Returns every series and its value.
pub(crate) fn scrape(daemon: &Running) -> BTreeMap<String, f64> {
    let (head, body) = get(daemon, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(
        head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text"),
        "{head}"
    );
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    assert!(body.ends_with("# EOF\n"));
    let samples = body.lines().filter(|line| !line.starts_with('#'));
    let pairs = samples.map(|line| line.rsplit_once(' ').unwrap());
    pairs.map(|(series, value)| (series.to_owned(), value.parse().unwrap())).collect()
}

#[test]
fn the_numbers_are_those_of_the_ring() {
    let shelf = Shelf::new();
    let args = ["--metrics", "127.0.0.1:0", "--budget", "64MiB"];
    let daemon = Running::spawn(&shelf, &args);
    let (ring, granted) = daemon.client().create("pong", &schema(), &shelf.options()).unwrap();
    let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
    let (obs, action) = ([0.5_f32; 6], [1_i32]);
    for _ in 0..20 {
        let columns = StepColumns::of(ring.schema()).with("obs", &obs).unwrap();
        let columns = columns.with("action", &action).unwrap();
        writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
    }
    let lease = ring.lease(0, 3..9).unwrap();
    let mut sampler = ring.sampler(SamplerOptions::seeded(1)).unwrap();
    sampler.sample(16).unwrap();
    sampler.sample(16).unwrap();
    let seen = scrape(&daemon);
    let of = |name: &str| seen[&format!("{name}{{ring=\"pong\"}}")];
    for (name, value) in [
        ("backcast_ring_rows", 20.0),
        ("backcast_ring_rows_published_total", 20.0),
        ("backcast_ring_transitions", 19.0),
        ("backcast_ring_capacity_rows", 1000.0),
        ("backcast_ring_fill_ratio", 0.02),
        ("backcast_ring_lanes", 2.0),
        ("backcast_ring_lanes_held", 1.0),
        ("backcast_ring_readers", 2.0),
        ("backcast_ring_pins", 1.0),
        ("backcast_ring_leases_total", 1.0),
        ("backcast_ring_sampled_rows_total", 32.0),
        ("backcast_ring_sampled_batches_total", 2.0),
        ("backcast_ring_lapped_total", 0.0),
        ("backcast_ring_stalls_total", 0.0),
        ("backcast_ring_dropped_rows_total", 0.0),
    ] {
        assert!((of(name) - value).abs() < 1e-9, "{name}: {} and not {value}", of(name));
    }
    #[expect(clippy::cast_precision_loss, reason = "a few bytes")]
    let bytes = granted.allocated_bytes as f64;
    assert_eq!(of("backcast_ring_allocated_bytes").to_bits(), bytes.to_bits());
    assert_eq!(seen["backcast_used_bytes"].to_bits(), bytes.to_bits());
    assert_eq!(seen["backcast_budget_bytes"].to_bits(), f64::from(64 << 20).to_bits());
    assert_eq!(seen["backcast_objects{kind=\"ring\"}"].to_bits(), 1_f64.to_bits());
    assert_eq!(seen["backcast_requests_total{ask=\"create\"}"].to_bits(), 1_f64.to_bits());
    assert!(seen["backcast_uptime_seconds"] > 0.0);
    // Counters stay when the reader that counted is gone and another has its slot.
    drop((sampler, lease));
    let mut sampler = ring.sampler(SamplerOptions::seeded(2)).unwrap();
    sampler.sample(8).unwrap();
    let seen = scrape(&daemon);
    let rows = seen["backcast_ring_sampled_rows_total{ring=\"pong\"}"];
    assert_eq!(rows.to_bits(), 40_f64.to_bits());
}

#[test]
fn removed_orphans_and_refusals_are_counted() {
    let shelf = Shelf::new();
    let args = ["--metrics", "127.0.0.1:0", "--budget", "1MiB", "--interval", "50ms"];
    let daemon = Running::spawn(&shelf, &args);
    crate::shelf::Holder::spawn(&shelf).kill();
    until("the orphan is counted", || scrape(&daemon)["backcast_orphans_removed_total"] > 0.0);
    let big = shelf.options().capacity(10_000_000u64);
    daemon.client().create("big", &schema(), &big).map(drop).unwrap_err();
    let seen = scrape(&daemon);
    assert_eq!(seen["backcast_errors_total{code=\"over_budget\"}"].to_bits(), 1_f64.to_bits());
    assert!(seen["backcast_sweeps_total"] > 0.0);
}

/// The metrics are read between the saves of a follower, which come every twelve hours.
#[test]
fn metrics_and_stat_say_the_same_of_what_is_not_on_disk() {
    let shelf = Shelf::new();
    let args = ["--metrics", "127.0.0.1:0", "--persist-mode", "periodic", "--persist-every", "12h"];
    let daemon = Running::spawn(&shelf, &[&args[..], &["--interval", "3600s"]].concat());
    let options = shelf.options().persistent(true);
    let (ring, _) = daemon.client().create("pong", &schema(), &options).unwrap();
    let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
    for rows in [20, 40, 60_u32] {
        super::rings::append(&mut writer, 20);
        let of_metrics = scrape(&daemon)["backcast_persist_behind_rows{ring=\"pong\"}"];
        let of_stat = &shelf.json(&["stat", "pong"])[0]["persist"]["behind_rows"];
        assert_eq!((of_metrics.to_bits(), of_stat), (f64::from(rows).to_bits(), &rows.into()));
        assert!(daemon.client().stats("pong").unwrap()["persist"]["behind_rows"] == rows);
    }
}

#[test]
fn health_is_answered_while_requests_are_at_work() {
    let shelf = Shelf::new();
    let daemon = Running::spawn(&shelf, &["--metrics", "127.0.0.1:0"]);
    for path in ["/health", "/healthz"] {
        let (head, body) = get(&daemon, &format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && body == "ok\n", "{head}: {body}");
    }
}

#[test]
fn a_scraper_that_stops_half_way_delays_no_other() {
    let shelf = Shelf::new();
    let daemon = Running::spawn(&shelf, &["--metrics", "127.0.0.1:0"]);
    let address = daemon.ready["metrics"].as_str().unwrap();
    let address = address.strip_prefix("http://").unwrap().strip_suffix("/metrics").unwrap();
    let silent: Vec<TcpStream> = (0..100)
        .map(|i| {
            let mut stream = TcpStream::connect(address).unwrap();
            if i % 2 == 0 {
                let _ = stream.write_all(b"GET /metr");
            }
            stream
        })
        .collect();
    assert!(scrape(&daemon).contains_key("backcast_uptime_seconds"));
    drop(silent);
    assert!(get(&daemon, "GET / HTTP/1.1\r\n\r\n").0.contains("404"));
    assert!(get(&daemon, "rubbish\r\n\r\n").0.contains("400"));
}

#[test]
fn an_address_that_is_taken_is_an_error_and_leaves_nothing() {
    let shelf = Shelf::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let refused = shelf.run(&["serve", "--metrics", &address]).expect(1);
    assert!(refused.err.contains(&address) && refused.err.contains("--metrics"), "{}", refused.err);
    assert!(!shelf.base().path().exists());
}

#[test]
fn tables_are_counted_bin_by_bin() {
    let shelf = Shelf::new();
    let daemon = Running::spawn(&shelf, &["--metrics", "127.0.0.1:0"]);
    let (ring, _) = daemon.client().create("pong", &schema(), &shelf.options()).unwrap();
    let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
    let (obs, action) = ([0.5_f32; 6], [1_i32]);
    for _ in 0..21 {
        let columns = StepColumns::of(ring.schema()).with("obs", &obs).unwrap();
        let columns = columns.with("action", &action).unwrap();
        writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
    }
    let is_of_table = |series: &&String| series.contains("table=");
    assert_eq!(scrape(&daemon).keys().find(is_of_table), None);
    let by_priority = PriorityOptions::alpha(1.0).eps(0.0);
    ring.priorities(&by_priority).unwrap().update(&[3, 7], &[0.5, 0.5]).unwrap();
    for (name, batch) in [("queue", 5), ("other", 20)] {
        let table = Selector::Table(TableOptions::consume(name));
        let mut sampler = ring.sampler(SamplerOptions::seeded(1).selector(table)).unwrap();
        sampler.sample(batch).unwrap();
    }
    let seen = scrape(&daemon);
    let expected = [
        ("priority_bin_rows", "priority", ",from=\"0.5\"", 2.0),
        ("priority_bin_rows", "priority", ",from=\"1\"", 18.0),
        ("priority_effective_rows", "priority", "", 19.0 * 19.0 / 18.5),
        ("priority_rows", "priority", "", 20.0),
        ("times_sampled_rows", "other", ",times=\"1\"", 20.0),
        ("times_sampled_rows", "queue", ",times=\"0\"", 15.0),
        ("times_sampled_rows", "queue", ",times=\"1\"", 5.0),
    ];
    let series = |(name, table, bin, _): &(&str, &str, &str, f64)| {
        format!("backcast_{name}{{ring=\"pong\",table=\"{table}\"{bin}}}")
    };
    let names: Vec<String> = seen.keys().filter(is_of_table).cloned().collect();
    assert_eq!(names, expected.iter().map(series).collect::<Vec<_>>());
    for one in &expected {
        assert!((seen[&series(one)] - one.3).abs() < 1e-9, "{one:?}: {}", seen[&series(one)]);
    }
}
