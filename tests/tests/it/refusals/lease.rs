//! Rows that cannot be leased, and refused accesses to a lease.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use backcast_core::{LanePolicy, Ring, RingOptions, SamplerOptions};
use backcast_layout::RingStore;

use crate::refusals::stage::{Stage, options, schema};
use crate::refusals::{Refusal, Row, refusal, row};

/// Most rows of a lease: a quarter of a lane's 50 rows.
const MOST: u64 = 12;
/// Leases that one handle may hold.
const MAX_PINNED_RANGES: u64 = 1024;

pub(crate) const ROWS: &[Row] = &[
    row("a lease of no lane", |s| lease(s, 4, 0, 1), "NoSuchLane", &["no lane 4", "0 to 3"]),
    row("a lease of nothing", |s| lease(s, 0, 90, 0), "BadLength", &["0 rows", "1 and 12"]),
    row(
        "a lease of more than a quarter",
        |s| lease(s, 0, 90, MOST + 1),
        "BadLength",
        &["13 rows", "12", "quarter of the 50", "larger capacity"],
    ),
    row(
        "a lease of a whole lane",
        |s| lease(s, 0, 70, 50),
        "BadLength",
        &["50 rows", "lease fewer"],
    ),
    row(
        "a lease that ends before it begins",
        |s| {
            let (start, end) = (100, 90);
            refusal(s.ring.lease(0, start..end))
        },
        "BadLength",
        &["0 rows", "1 and 12"],
    ),
    row(
        "a lease of rows overwritten",
        |s| lease(s, 0, 69, 2),
        "NotReadable",
        &["69..71", "lane 0", "70..120", "lease some of those"],
    ),
    row(
        "a lease of rows to come",
        |s| lease(s, 0, 119, 2),
        "NotReadable",
        &["119..121", "70..120", "lease some of those"],
    ),
    row(
        "a lease beyond counting",
        |s| lease(s, 0, u64::MAX - 1, 1),
        "NotReadable",
        &["18446744073709551614", "70..120"],
    ),
    row(
        "a lease of an empty lane",
        |s| lease(s, 3, 0, 1),
        "NotReadable",
        &["0..1", "lane 3", "no row yet", "wait for its writer"],
    ),
    row(
        "a lease of a ring that grants none",
        |s| refusal(Ring::attach_in(&s.base, "fast").unwrap().lease(0, 0..1)),
        "Overwrite",
        &["\"overwrite\"", "copy rows with `rows`", "lane_policy \"block\""],
    )
    .given(|s| {
        let fast = options(&s.base, 50).lane_policy(LanePolicy::Overwrite);
        s.hold(Ring::create("fast", &schema(), fast).unwrap());
    }),
    row(
        "a lease where every reader slot is taken",
        |s| {
            let tight = Ring::attach_in(&s.base, "tight").unwrap();
            refusal(tight.lease(0, 0..1))
        },
        "NoSlot",
        &["all 1 reader slots", "close a sampler", "`reader_slots`"],
    )
    .given(|s| {
        let tight = Ring::create("tight", &schema(), options(&s.base, 50).reader_slots(1)).unwrap();
        Stage::fill(&tight, 10);
        s.hold(tight.sampler(SamplerOptions::seeded(1)).unwrap());
        s.hold(tight);
    }),
    row(
        "one lease too many",
        |s| lease(s, 0, 90, 1),
        "Pins(TooMany",
        &["1024 leases", "limit is 1024", "close some"],
    )
    .given(|s| {
        for n in 0..MAX_PINNED_RANGES {
            let start = 80 + n % 30;
            s.hold(s.ring.lease(0, start..start + 1).unwrap());
        }
    }),
    row(
        "a lease over the end of private memory",
        |_| {
            let ring = Ring::heap(&schema(), RingOptions::with_capacity(100)).unwrap();
            Stage::fill(&ring, 1_000);
            let seam = 1_000 - 1_000 % ring.slots();
            refusal(ring.lease(0, seam - 2..seam + 2))
        },
        "Wraps",
        &["private memory", "lease up to there", "give the ring a name"],
    ),
    row(
        "another lane policy",
        |_| refusal("wait".parse::<LanePolicy>()),
        "BadLanePolicy",
        &["`wait`", "\"block\"", "\"overwrite\""],
    ),
    row(
        "a wait for leases of more than an hour",
        |s| {
            let policy = LanePolicy::Block(LanePolicy::MAX_TIMEOUT * 2);
            refusal(Ring::create("new", &schema(), options(&s.base, 50).lane_policy(policy)))
        },
        "Segment(Limit",
        &["7200", "3600"],
    ),
    row(
        "another lane policy under a name",
        |s| {
            let other = options(&s.base, 200).lanes(4).exist(backcast_core::Exist::Attach);
            refusal(Ring::create("pong", &schema(), other.lane_policy(LanePolicy::Fail)))
        },
        "Segment(Different",
        &["`pong`", "block", "fail", "choose another name"],
    ),
];

fn lease(stage: &Stage, lane: u32, start: u64, length: u64) -> Option<Refusal> {
    refusal(stage.ring.lease(lane, start..start.saturating_add(length)))
}

#[test]
fn rows_that_another_process_damaged_are_not_leased_nor_pinned() {
    let stage = Stage::set();
    // Every row header begins with `seq`.
    let store = RingStore::attach(&stage.base, "pong").unwrap();
    let marks = store.geometry().places[0];
    let lane = stage.folder("pong").join("lane-0000.dat");
    let file = OpenOptions::new().write(true).open(lane).unwrap();
    for slot in 0..stage.ring.slots() {
        file.write_all_at(&[0xee; 8], marks.offset + marks.width as u64 * slot).unwrap();
    }
    let Refusal { variant, message } = lease(&stage, 0, 90, 5).unwrap();
    assert!(variant.starts_with("Damaged"), "{variant}");
    for part in ["row 90", "lane 0", "its sequence number is", "; create the ring again"] {
        assert!(message.contains(part), "{message}");
    }
    assert!(stage.ring.stats().pins.is_empty());
}
