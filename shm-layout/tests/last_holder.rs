//! The last holder removes what is not persistent, also when two leave at the same moment.

use std::sync::Barrier;
use std::thread;

use backcast_layout::{Base, Exist, ObjectKind, SealedSegment, list_objects};

/// Returns a directory in memory if there is one: thousands of segments on a disk take a minute.
fn memory_dir() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

#[test]
fn two_last_holders_that_leave_at_once_leave_nothing() {
    const ROUNDS: usize = 3_000;
    let dir = memory_dir();
    let base = Base::at(dir.path());
    for round in 0..ROUNDS {
        let name = format!("s{round}");
        let create = |exist| {
            SealedSegment::create(&base, ObjectKind::Panel, &name, b"meta", &[], exist, false)
                .unwrap()
        };
        let (a, b) = (create(Exist::Error), create(Exist::Attach));
        let barrier = Barrier::new(2);
        thread::scope(|scope| {
            for handle in [a, b] {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    drop(handle);
                });
            }
        });
    }
    assert_eq!(list_objects(&base).unwrap(), [], "every segment is gone");
}

#[test]
fn a_persistent_segment_outlives_its_holders() {
    let dir = tempfile::tempdir().unwrap();
    let base = Base::at(dir.path());
    let create = |persistent, exist| {
        SealedSegment::create(&base, ObjectKind::Panel, "p", b"meta", &[&[7; 8]], exist, persistent)
    };
    drop(create(true, Exist::Error).unwrap());
    let found = list_objects(&base).unwrap();
    assert!(found.len() == 1 && found[0].persistent && !found[0].held, "{found:?}");
    assert!(create(true, Exist::Error).is_err(), "the name is taken");
    assert_eq!(create(true, Exist::Attach).unwrap().data_bytes(), 8);
    drop(create(false, Exist::Replace).unwrap());
    assert_eq!(list_objects(&base).unwrap(), [], "the one that replaced it was not persistent");
}
