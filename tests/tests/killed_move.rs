//! A writer is killed after its lane was relocated to larger memory and before the new file has the
//! lane's name. The next process finds exactly the rows of the lane.
#![cfg(target_os = "linux")]

use std::error::Error;
use std::fs::File;
use std::mem::offset_of;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;

use backcast_core::{Base, Observed, ResizeProgress, Ring, RingOptions};
use backcast_layout::LaneHeader;
use backcast_layout::protocol::RELOCATED;
use backcast_tests::storm::{Seen, audit, schema};
use backcast_tests::victim::Victim;
use tempfile::TempDir;

const LANES: u32 = 3;
const LANE_CAPACITY: u64 = 1024 - 16;
/// Rows that a writer reserves at a time.
const ANNOUNCED: u64 = 16;
const LARGER: u64 = 3 * LANE_CAPACITY;
/// Attempts to kill a writer before the resize relocates its lane.
const TRIES: u32 = 20;
const NOT_AT_ALL: Option<Duration> = Some(Duration::ZERO);

/// The process that continues after the kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The running resize, which still waits for the lanes.
    RunningResize,
    /// A new call of the same resize.
    SameResize,
    /// A resize to another size.
    OtherResize,
    /// A daemon's sweep, which holds no lane.
    Sweep,
    /// The next writer of the lanes.
    Writer,
}

fn on(_: ResizeProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn writer(dir: &TempDir, life: u64, point: &[&str]) -> Victim {
    let (life, lanes) = (life.to_string(), LANES.to_string());
    let args = [&["grows", &life, &lanes], point].concat();
    Victim::start(env!("CARGO_BIN_EXE_storm_writer"), dir.path(), &args)
}

/// Reads every row of every lane, and checks it.
fn rows(ring: &Ring) -> Vec<Vec<Seen>> {
    let of_lane = |lane| {
        let span = ring.lane_span(lane).expect("the ring has the lane");
        let rows = ring.rows(lane, span).expect("nobody writes now");
        audit(&rows).unwrap_or_else(|why| panic!("{why}"))
    };
    (0..LANES).map(of_lane).collect()
}

fn has_relocated(file: &Path) -> bool {
    let mut word = [0; 8];
    let at = offset_of!(LaneHeader, reserved) as u64;
    File::open(file).and_then(|file| file.read_exact_at(&mut word, at)).expect("a lane's header");
    u64::from_ne_bytes(word) == RELOCATED
}

#[test]
fn a_lane_whose_writer_is_killed_before_the_rename_is_kept() -> Result<(), Box<dyn Error>> {
    use Next::{OtherResize, RunningResize, SameResize, Sweep, Writer};
    // Lives append whole rows or reserved ones, in each autoreset mode.
    for life in 1..=4 {
        for next in [RunningResize, SameResize, OtherResize, Sweep, Writer] {
            let mut tries = 0..TRIES;
            while !killed_then(next, life)? {
                assert!(
                    tries.next().is_some(),
                    "{next:?}: the resize always moved the lane itself"
                );
            }
        }
    }
    Ok(())
}

/// Kills a writer and continues with `next`. Returns whether the writer left a relocated lane
/// without the new file at its name: a slow resize finds the writer dead and finishes it itself.
fn killed_then(next: Next, life: u64) -> Result<bool, Box<dyn Error>> {
    let dir = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new())?;
    let base = Base::at(dir.path());
    let options = RingOptions::with_capacity(LANE_CAPACITY * u64::from(LANES)).lanes(LANES);
    let ring = Ring::create("grows", &schema()?, options.base(base.clone()))?;
    let mut victim = writer(&dir, life, &["dies-before-rename"]);
    // Past the first lap, so that old rows could be lost too.
    victim.spin_until(|| ring.rows_published() > 2 * LANE_CAPACITY * u64::from(LANES));
    let larger = LARGER * u64::from(LANES);
    let path = ring.path().ok_or("a directory")?.to_owned();
    let file = |lane: u32, end: &str| path.join(format!("lane-{lane:04}.{end}"));
    let mut left = true;
    if next == Next::RunningResize {
        let resized = ring.resize(larger, None, &mut on)?;
        assert!(resized.lanes_waiting.is_empty(), "{next:?}: {resized:?}");
        assert_eq!(victim.wait_bounded().signal(), Some(libc::SIGSYS), "{next:?}");
    } else {
        let resized = ring.resize(larger, NOT_AT_ALL, &mut on)?;
        assert_eq!(victim.wait_bounded().signal(), Some(libc::SIGSYS), "{next:?}: {resized:?}");
        // One lane is relocated, and its new file does not have the name yet.
        let moved: Vec<u32> =
            (0..LANES).filter(|lane| has_relocated(&file(*lane, "dat"))).collect();
        left = !moved.is_empty();
        assert!(moved.len() <= 1, "{next:?}: {moved:?}");
        assert!(moved.iter().all(|lane| file(*lane, "next").exists()), "{next:?}");
    }
    // Reads through the earlier handle and through a new one.
    let before = rows(&ring);
    assert!(rows(&Ring::attach_in(&base, "grows")?) == before, "{next:?}");
    let kept = before.iter().map(Vec::len).min().unwrap_or(0) as u64;
    assert!(kept + 2 * ANNOUNCED >= LANE_CAPACITY, "{next:?}: {kept} rows");
    let mut capacity = LARGER;
    match next {
        Next::RunningResize => {}
        Next::SameResize => assert_eq!(ring.resize(larger, None, &mut on)?.rows_copied, 0),
        Next::OtherResize => {
            // The first resize must be finished before another one.
            assert!(ring.finish_resize()?.is_empty(), "{next:?}");
            capacity = LARGER + 500;
            ring.resize(capacity * u64::from(LANES), None, &mut on)?;
        }
        Next::Sweep => assert!(Observed::open(&base, "grows")?.finish_resize()?.is_empty()),
        Next::Writer => {
            let mut successor = writer(&dir, life + 4, &[]);
            let published = ring.rows_published();
            successor.spin_until(|| ring.rows_published() > published + 300);
            assert!(successor.kill().code().is_none());
            assert!(ring.finish_resize()?.is_empty(), "{next:?}");
        }
    }
    let after = rows(&ring);
    for (lane, (before, after)) in before.iter().zip(&after).enumerate() {
        let [(was, last), (is, newest)] = [before, after].map(|rows| {
            let ends = (rows.first(), rows.last());
            ends.0.zip(ends.1).map_or((0, 0), |(first, last)| (first.seq, last.seq))
        });
        assert!(newest == last || next == Next::Writer && newest > last, "{next:?}: lane {lane}");
        // Rows that were reserved and not written cost old rows.
        assert!(next == Next::Writer || is <= was + ANNOUNCED, "{next:?}: lane {lane}: {was} {is}");
        let common = before.iter().filter(|row| row.seq >= is);
        let again = after.iter().filter(|row| row.seq >= was);
        assert!(common.zip(again).all(|(old, now)| old == now), "{next:?}: lane {lane}");
    }
    assert_eq!(ring.lane_capacity(), capacity, "{next:?}");
    assert_eq!(ring.stats().capacity, capacity * u64::from(LANES));
    // The lane may still have the temporary name, which a sweep replaces.
    assert!(ring.finish_resize()?.is_empty());
    assert!((0..LANES).all(|lane| !file(lane, "next").exists()), "{next:?}");
    assert!(rows(&Ring::attach_in(&base, "grows")?) == after, "{next:?}");
    Ok(left)
}
