//! A disk without room: a typed error, the ring runs on, and a later save succeeds.
//!
//! The small tmpfs is mounted in a private mount namespace, which ends with the process in it. The
//! test starts its own binary again inside. Where namespaces are not permitted it fails, unless the
//! variable `BACKCAST_TEST_WITHOUT_NAMESPACES` says that it need not run.

use std::env;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use backcast_budget::{BoundedCommand, skipped};
use backcast_core::{DType, Exist, Schema};
use backcast_persist::{
    FollowOptions, FollowState, Follower, LoadOptions, SaveError, SaveOptions, Store, StoreError,
};

use crate::rings::{Place, append, content, heap, writer};

/// Environment variable with the path of the small tmpfs, for the test that runs inside.
const SMALL_TMPFS: &str = "BACKCAST_TEST_SMALL_TMPFS";
/// Printed by a test that ran to its end inside the namespace.
const DONE: &str = "done inside the namespace";
/// Environment variable that is set where no namespace can be created: the test does not run.
const WITHOUT_NAMESPACES: &str = "BACKCAST_TEST_WITHOUT_NAMESPACES";
/// Exit status of the shell when mounting is not permitted.
const NO_MOUNT: i32 = 77;

#[test]
fn a_full_disk_is_said_and_the_ring_runs_on() {
    if env::var_os(WITHOUT_NAMESPACES).is_some() {
        return skipped("full_disk", &format!("{WITHOUT_NAMESPACES} is set"));
    }
    let dir = tempfile::tempdir().unwrap();
    let as_root = rustix::process::geteuid().is_root();
    let namespaces: &[&str] =
        if as_root { &["--mount"] } else { &["--user", "--map-root-user", "--mount"] };
    let script = format!("mount -t tmpfs -o size=2m tmpfs \"$0\" || exit {NO_MOUNT}; exec \"$@\"");
    let output = Command::new("unshare")
        .args(namespaces)
        .args(["sh", "-c", &script])
        .arg(dir.path())
        .arg(env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "full_disk::inside_a_small_tmpfs"])
        .env(SMALL_TMPFS, dir.path())
        .output_bounded();
    let output = output.expect("util-linux has `unshare`");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complained = String::from_utf8_lossy(&output.stderr).into_owned();
    // If mounting is not permitted, or nothing was printed, the namespace was refused.
    let refused = output.status.code() == Some(NO_MOUNT) || said.is_empty();
    assert!(
        !refused || output.status.success(),
        "no private tmpfs can be mounted, set {WITHOUT_NAMESPACES} to go without: {complained}"
    );
    assert!(output.status.success() && said.contains(DONE), "{said}\n{complained}");
    println!("{said}");
}

/// A disk that fills up under a follower: it reports this, the ring runs on, and the remaining rows
/// go to disk when there is room.
fn a_follower_waits_for_room(place: &Place, disk: &std::path::Path, schema: &Schema) {
    let store = Store::at(disk.join("followed"));
    let ring = heap(schema, 1, 200);
    let mut writer = writer(&ring);
    let flush = Duration::from_millis(1);
    let options = FollowOptions { flush, ..FollowOptions::default() };
    let follower = Follower::start(&store, "pong", &ring, options).unwrap();
    let until = |what: &str, is_so: &dyn Fn(&FollowState) -> bool| {
        let since = Instant::now();
        while !is_so(&follower.state()) {
            assert!(since.elapsed() < Duration::from_secs(60), "{what}: {:?}", follower.state());
            std::thread::yield_now();
        }
    };
    append(&mut writer, schema, 1, 50, 1);
    until("the first rows are on disk", &|state| state.rows_persisted == ring.rows_published());
    // Fill the disk to the last byte.
    let ballast = disk.join("ballast");
    let mut file = std::fs::File::create(&ballast).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
    drop(file);
    append(&mut writer, schema, 1, 50, 2);
    until("the full disk is said", &|state| state.error.is_some());
    let error = follower.state().error.expect("just seen");
    assert!(error.contains("backcast rm"), "{error}");
    let published = ring.rows_published();
    append(&mut writer, schema, 1, 400, 3);
    assert!(ring.rows_published() >= published + 400, "writers go on");
    std::fs::remove_file(&ballast).unwrap();
    until("it goes on", &|state| state.error.is_none() && state.rows_behind == 0);
    let state = follower.stop();
    let all = state.rows_before + state.rows_persisted + state.rows_lapped;
    assert!(all == ring.rows_published() && state.rows_lapped > 0, "{state:?}");
    let load = LoadOptions::default().name("followed").base(place.base());
    assert_eq!(content(&store.load("pong@live", load).unwrap()), content(&ring));
}

#[test]
#[ignore = "runs inside the namespace that another test makes"]
fn inside_a_small_tmpfs() {
    let disk = env::var_os(SMALL_TMPFS).map(PathBuf::from);
    let disk = disk.expect("runs inside the namespace that another test makes");
    let place = Place::new();
    let store = Store::at(disk.join("store"));
    let schema = Schema::builder().column("obs", DType::U8, &[1000]).build().unwrap();
    let ring = heap(&schema, 1, 4_000);
    let mut writer = writer(&ring);
    let options = || SaveOptions::default().name("pong").sizes(100_000, 400_000);
    append(&mut writer, &schema, 1, 300, 1);
    store.save(&ring, "fits", options()).unwrap();
    let fits = content(&ring);
    append(&mut writer, &schema, 1, 3_000, 2);
    let ballast = disk.join("ballast");
    for attempt in 0..3 {
        let refused = store.save(&ring, "large", options()).unwrap_err();
        let SaveError::Store(StoreError::NoSpace { path, .. }) = &refused else {
            panic!("{attempt}: {refused}")
        };
        assert!(
            path.starts_with(&disk) && refused.to_string().contains("backcast rm"),
            "{refused}"
        );
        // The failed save removed its files: the disk has room again.
        std::fs::write(&ballast, vec![1; 1 << 20]).unwrap();
        std::fs::remove_file(&ballast).unwrap();
    }
    append(&mut writer, &schema, 1, 10, 3);
    let options_of_load = || {
        let name = LoadOptions::default().name("loaded").exist(Exist::Replace);
        name.base(place.base())
    };
    assert_eq!(content(&store.load("pong@fits", options_of_load()).unwrap()), fits);
    drop(writer);
    let small = heap(&schema, 1, 100);
    append(&mut crate::rings::writer(&small), &schema, 1, 90, 4);
    let saved = store.save(&small, "later", options()).unwrap();
    assert_eq!(saved.rows, 90);
    assert_eq!(content(&store.load("pong@later", options_of_load()).unwrap()), content(&small));
    a_follower_waits_for_room(&place, &disk, &schema);
    println!("{DONE}");
}
