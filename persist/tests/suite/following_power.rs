//! If any operation of a follower fails, or is the last one before the power fails, the rows that a
//! step had confirmed are on disk. The next follower continues, and every row is on disk or
//! counted.

use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use backcast_core::{Exist, Ring, Schema};
use backcast_persist::{FollowOptions, Following, Keep, LoadOptions, PersistMode, Store};

use crate::power::{Crash, Fault, Power};
use crate::rings::{Place, append, content, heap, rows, schema, writer};

const LANES: u32 = 2;
const STEPS: u64 = 11;

struct Run<'a> {
    place: &'a Place,
    schema: Schema,
}

/// A ring after a run, and the rows known to be on disk.
struct After {
    ring: Ring,
    /// One past the last row of each lane after the last step that returned without an error.
    heads: Vec<u64>,
    /// Rows on disk and lapped after that step.
    persisted: u64,
    lapped: u64,
}

impl Run<'_> {
    fn store(power: &Power) -> Store {
        Store::with_storage("/data/store", Arc::new(power.clone()))
    }

    fn options() -> FollowOptions {
        let keep = Keep { bytes: Some(40_000), age: None };
        let flush = Duration::from_secs(3600);
        FollowOptions { mode: PersistMode::Continuous, flush, keep, ..small() }
    }

    /// Runs the steps of one process, some of them with more rows than the ring keeps.
    fn life(&self, power: &Power) -> After {
        let store = Self::store(power);
        let ring = heap(&self.schema, LANES, 60);
        let mut writer = writer(&ring);
        let mut after = After { ring: ring.clone(), heads: vec![0; 2], persisted: 0, lapped: 0 };
        let Ok(mut following) = Following::new(&store, "pong", &ring, Self::options()) else {
            return after;
        };
        for step in 0..STEPS {
            let steps = if step % 5 == 4 { 70 } else { 3 };
            append(&mut writer, &self.schema, LANES, steps, step);
            if following.step(&|| false).is_ok() {
                after.heads = (0..LANES).map(|l| ring.lane_span(l).unwrap().end).collect();
                after.persisted = following.rows_persisted();
                after.lapped = following.rows_lapped();
            }
        }
        after
    }

    fn load(&self, store: &Store) -> Ring {
        let options = LoadOptions::default().name("loaded").exist(Exist::Replace);
        let options = options.base(self.place.base()).huge_pages(false);
        store.load("pong@live", options).expect("what is confirmed loads")
    }

    /// Checks the state that the next process finds.
    fn check(&self, power: &Power, after: &After, context: &str) {
        let store = Self::store(power);
        let listing = store.snapshots("pong").unwrap_or_else(|e| panic!("{context}: {e}"));
        assert!(listing.damages.is_empty(), "{context}: {:?}", listing.damages);
        let confirmed = after.persisted > 0;
        assert!(!confirmed || !listing.snapshots.is_empty(), "{context}: everything is lost");
        if !listing.snapshots.is_empty() {
            let live = self.load(&store);
            for (lane, head) in (0..).zip(&after.heads) {
                let span = live.lane_span(lane).unwrap();
                assert!(span.end >= *head, "{context}: lane {lane} ends at {}", span.end);
                let there = after.ring.lane_span(lane).unwrap();
                let both = span.start.max(there.start)..span.end.max(there.start);
                if both.is_empty() {
                    continue;
                }
                let (a, b) = (rows(&live, lane, both.clone()), rows(&after.ring, lane, both));
                assert_eq!(a, b, "{context}");
            }
            let verified = store.verify("pong", |_| ControlFlow::Continue(())).expect(context);
            assert!(verified.is_whole(), "{context}: {:?}", verified.damages);
        }
        // The next follower continues: no row is on disk twice, none is missing.
        let mut next = Following::new(&store, "pong", &after.ring, Self::options())
            .unwrap_or_else(|e| panic!("{context}: {e}"));
        assert!(next.rows_persisted() >= after.persisted, "{context}");
        assert!(next.rows_lapped() >= after.lapped, "{context}");
        next.step(&|| false).unwrap_or_else(|e| panic!("{context}: {e}"));
        let all = next.rows_before() + next.rows_persisted() + next.rows_lapped();
        assert_eq!(all, after.ring.rows_published(), "{context}");
        assert_eq!(content(&self.load(&store)), content(&after.ring), "{context}");
        // It leaves no unused file once it has written both manifests.
        next.step(&|| false).unwrap_or_else(|e| panic!("{context}: {e}"));
        store.remove("pong").expect(context);
        let left: Vec<_> =
            power.files().into_iter().filter(|f| !f.ends_with("store.lck")).collect();
        assert_eq!(left.len(), 2, "{context}: {left:?}");
    }
}

fn small() -> FollowOptions {
    FollowOptions { batch_bytes: 1_500, file_bytes: 4_000, ..FollowOptions::default() }
}

/// Breaks every operation of a life in turn, each once, and checks the states after it.
fn break_everywhere(fault: Fault, crashes: impl Fn(u64) -> Vec<Crash>) {
    let place = Place::new();
    let run = Run { place: &place, schema: schema() };
    let whole = Power::new();
    let after = run.life(&whole);
    let operations = whole.operations();
    assert!(operations >= 200, "{operations}");
    assert!(after.lapped > 0, "some rows are lapped, and counted");
    run.check(&whole.after(Crash::LosesAll), &after, "unbroken");
    let mut worlds = 0;
    for at in 0..operations {
        let power = Power::new();
        power.break_at(at, fault);
        let after = run.life(&power);
        for crash in crashes(at) {
            let context = format!("operation {at} of {operations} {fault:?}, {crash:?}");
            run.check(&power.after(crash), &after, &context);
            worlds += 1;
        }
    }
    println!("{operations} operations broken in turn, {worlds} worlds after them");
}

#[test]
fn any_operation_of_a_follower_may_be_the_last_one() {
    break_everywhere(Fault::Ends, |at| vec![Crash::OfProcess, Crash::LosesAll, Crash::Random(at)]);
}

#[test]
fn any_operation_of_a_follower_may_find_the_disk_full() {
    break_everywhere(Fault::Fails(ErrorKind::StorageFull), |at| {
        vec![Crash::LosesAll, Crash::Random(at)]
    });
}
