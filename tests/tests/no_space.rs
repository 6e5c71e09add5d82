//! A full tmpfs: rings that do not fit are refused at creation with a typed error, and leave
//! nothing behind.
//!
//! The small tmpfs is mounted in a private mount namespace, which ends with its process. The tests
//! start this binary again inside it. If namespaces are not permitted, they
//! report that they were skipped.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Barrier;
use std::thread;

use backcast_budget::{BoundedCommand, skipped};
use backcast_core::plumbing::SealedSegment;
use backcast_core::{
    Base, Capacity, DType, Exist, ObjectKind, Ring, RingError, RingOptions, Schema, SegmentError,
};

/// Environment variable with the path of the small tmpfs, for the test that runs inside.
const SMALL_TMPFS: &str = "BACKCAST_TEST_SMALL_TMPFS";
const MIB: u64 = 1 << 20;
/// Text that a test prints when it completes inside the namespace.
const DONE: &str = "done inside the namespace";
/// Exit status of the shell when mounting is not permitted.
const NO_MOUNT: i32 = 77;

/// Runs one of the ignored tests of this file with a small tmpfs.
fn run_inside(options: &str, test: &str) -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let as_root = rustix::process::geteuid().is_root();
    let namespaces: &[&str] =
        if as_root { &["--mount"] } else { &["--user", "--map-root-user", "--mount"] };
    let script =
        format!("mount -t tmpfs -o {options} tmpfs \"$0\" || exit {NO_MOUNT}; exec \"$@\"");
    let output = Command::new("unshare")
        .args(namespaces)
        .args(["sh", "-c", &script])
        .arg(dir.path())
        .arg(env::current_exe()?)
        .args(["--ignored", "--exact", "--nocapture", test])
        .env(SMALL_TMPFS, dir.path())
        .output_bounded();
    let output = match output {
        Err(error) => {
            skipped(test, &format!("no `unshare` here: {error}"));
            return Ok(());
        }
        Ok(output) => output,
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complained = String::from_utf8_lossy(&output.stderr).into_owned();
    // If neither the shell nor the test harness printed anything, the namespace was refused.
    let refused = output.status.code() == Some(NO_MOUNT) || said.is_empty();
    if refused && !output.status.success() {
        skipped(test, &format!("no private tmpfs here: {complained}"));
        return Ok(());
    }
    assert!(output.status.success() && said.contains(DONE), "{said}\n{complained}");
    println!("{said}");
    Ok(())
}

/// Returns the small tmpfs.
///
/// # Panics
///
/// Outside the namespace that another test makes.
fn small_tmpfs() -> PathBuf {
    env::var_os(SMALL_TMPFS).expect("another test runs this one, in a namespace").into()
}

fn schema() -> Result<Schema, Box<dyn Error>> {
    Ok(Schema::builder().column("obs", DType::U8, &[1024]).build()?)
}

fn is_empty(dir: &Path) -> Result<bool, Box<dyn Error>> {
    // The base directory itself may remain, empty.
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        names.extend(fs::read_dir(entry?.path())?.filter_map(Result::ok).map(|e| e.path()));
    }
    println!("left behind: {names:?}");
    Ok(names.is_empty())
}

/// Returns the numbers of a refusal; panics on any other outcome.
fn refusal(outcome: Result<Ring, RingError>) -> (u64, u64) {
    match outcome {
        Err(RingError::Segment(ref error @ SegmentError::NoSpace { asked, available, .. })) => {
            let text = error.to_string();
            assert!(text.contains("B asked for, ") && text.contains("B available"), "{text}");
            (asked, available)
        }
        other => panic!("not a refusal for want of space: {other:?}"),
    }
}

#[test]
fn a_ring_or_panel_larger_than_the_file_system_is_refused_and_leaves_nothing()
-> Result<(), Box<dyn Error>> {
    run_inside("size=8m", "inside_too_large_for_eight_mebibytes")
}

#[test]
#[ignore = "runs inside the namespace that the test above makes"]
fn inside_too_large_for_eight_mebibytes() -> Result<(), Box<dyn Error>> {
    let dir = small_tmpfs();
    let base = Base::at(&dir);
    let create = |capacity: Capacity| {
        Ring::create(
            "big",
            &schema().unwrap(),
            RingOptions::with_capacity(capacity).base(base.clone()),
        )
    };
    // Capacities in rows and in bytes, just above and far above the free space.
    for capacity in [
        Capacity::Rows(10_000),
        Capacity::Bytes(9 * MIB),
        Capacity::Bytes(64 * MIB),
        Capacity::Rows(1 << 34),
    ] {
        let (asked, available) = refusal(create(capacity));
        assert!(asked > available && available <= 8 * MIB, "{asked} of {available}");
        assert!(is_empty(&dir)?, "{capacity:?}");
    }
    let data = vec![0; 9 << 20];
    let panel = SealedSegment::create(
        &base,
        ObjectKind::Panel,
        "big",
        b"meta",
        &[&data],
        Exist::Error,
        false,
    );
    assert!(matches!(panel, Err(SegmentError::NoSpace { .. })), "{panel:?}");
    assert!(is_empty(&dir)?);

    // A ring that fits is created, and a second one is refused.
    let ring = create(Capacity::Bytes(6 * MIB))?;
    let options = RingOptions::with_capacity(Capacity::Bytes(4 * MIB)).base(base.clone());
    refusal(Ring::create("second", &schema()?, options));
    assert_eq!(backcast_core::list_objects(&base)?.len(), 1);
    drop(ring);
    assert!(is_empty(&dir)?);
    println!("{DONE}");
    Ok(())
}

#[test]
fn creators_that_race_for_the_last_space_get_it_or_are_refused() -> Result<(), Box<dyn Error>> {
    run_inside("size=8m", "inside_creators_race")
}

#[test]
#[ignore = "runs inside the namespace that the test above makes"]
fn inside_creators_race() -> Result<(), Box<dyn Error>> {
    const CREATORS: usize = 4;
    let dir = small_tmpfs();
    let base = Base::at(&dir);
    let (mut made, mut refused) = (0, 0);
    for round in 0..50 {
        // All creators start at the same time, before any has taken the space.
        let start = Barrier::new(CREATORS);
        let outcomes: Vec<_> = thread::scope(|scope| {
            let create = |n: usize| {
                let (base, start) = (base.clone(), &start);
                scope.spawn(move || {
                    let options = RingOptions::with_capacity(Capacity::Bytes(3 * MIB)).base(base);
                    let schema = schema().expect("a schema");
                    start.wait();
                    Ring::create(&format!("racer-{n}"), &schema, options)
                })
            };
            let racers: Vec<_> = (0..CREATORS).map(create).collect();
            racers.into_iter().map(|racer| racer.join().expect("no panic")).collect()
        });
        let winners: Vec<u64> =
            outcomes.iter().flatten().map(|ring| ring.stats().bytes_allocated).collect();
        assert!(winners.iter().sum::<u64>() <= 8 * MIB, "round {round}: {winners:?} bytes");
        made += winners.len();
        for loser in outcomes.into_iter().filter(Result::is_err) {
            refusal(loser);
            refused += 1;
        }
        assert!(is_empty(&dir)?, "round {round}");
    }
    println!("{made} made, {refused} refused");
    assert!(made > 0 && refused > 0);
    println!("{DONE}");
    Ok(())
}

#[test]
fn a_file_system_without_inodes_is_out_of_space_too() -> Result<(), Box<dyn Error>> {
    run_inside("size=8m,nr_inodes=7", "inside_no_inodes")
}

#[test]
#[ignore = "runs inside the namespace that the test above makes"]
fn inside_no_inodes() -> Result<(), Box<dyn Error>> {
    let dir = small_tmpfs();
    let base = Base::at(&dir);
    // The root, the base, the ring, its lock, `ring.rdr`, `ring.low` and the first lane use all
    // inodes, so none is left for `ring.ctl`.
    let options = RingOptions::with_capacity(Capacity::Bytes(3 * MIB)).base(base);
    refusal(Ring::create("ring", &schema()?, options));
    assert!(is_empty(&dir)?);
    println!("{DONE}");
    Ok(())
}
