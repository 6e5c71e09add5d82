//! The system refuses any one operation with any error number: the error is about that operation,
//! and nothing that is stored is called damaged.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use backcast_core::Exist;
use backcast_persist::{
    DamageKind, Disk, LoadError, LoadOptions, LockGuard, LockKind, NewFile, SaveError, SaveOptions,
    Storage, Store, StoreError, StoredFile,
};
use rustix::io::Errno;

use crate::rings::{Place, append, heap, schema, writer};

/// `NOTDIR` is none of them: a plain file in place of a directory has no snapshots.
const ERRNOS: [Errno; 13] = [
    Errno::MFILE,
    Errno::NFILE,
    Errno::ACCESS,
    Errno::PERM,
    Errno::IO,
    Errno::NOSPC,
    Errno::DQUOT,
    Errno::ROFS,
    Errno::NOMEM,
    Errno::INTR,
    Errno::LOOP,
    Errno::NAMETOOLONG,
    Errno::STALE,
];
/// More operations than any call needs.
const MOST: u32 = 200;

/// Counts operations, and refuses one.
#[derive(Debug)]
struct Countdown {
    left: AtomicU32,
    errno: Errno,
}

impl Countdown {
    fn pass(&self) -> io::Result<()> {
        let was = self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        if was == Ok(1) { Err(self.errno.into()) } else { Ok(()) }
    }
}

/// A disk of which one operation is refused.
#[derive(Debug)]
struct Refusing(Arc<Countdown>);

#[derive(Debug)]
struct Read(Box<dyn StoredFile>, Arc<Countdown>);

#[derive(Debug)]
struct Written(Box<dyn NewFile>, Arc<Countdown>);

impl StoredFile for Read {
    fn bytes(&self) -> io::Result<u64> {
        self.1.pass()?;
        self.0.bytes()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.1.pass()?;
        self.0.read_exact_at(buffer, offset)
    }
}

impl NewFile for Written {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.1.pass()?;
        self.0.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.1.pass()?;
        self.0.sync()
    }
}

impl Storage for Refusing {
    fn make_dir(&self, path: &Path) -> io::Result<bool> {
        self.0.pass()?;
        Disk.make_dir(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        self.0.pass()?;
        Ok(Box::new(Written(Disk.create(path)?, Arc::clone(&self.0))))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn StoredFile>> {
        self.0.pass()?;
        Ok(Box::new(Read(Disk.open(path)?, Arc::clone(&self.0))))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.pass()?;
        Disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.pass()?;
        Disk.remove(path)
    }

    fn names(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.0.pass()?;
        Disk.names(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.pass()?;
        Disk.sync_dir(dir)
    }

    fn lock(&self, path: &Path, kind: LockKind) -> io::Result<Option<Box<dyn LockGuard>>> {
        self.0.pass()?;
        Disk.lock(path, kind)
    }
}

/// Calls `work` with the first, second, ... operation refused until none is left to refuse. `work`
/// gets a store on that disk, and returns its error, or whether its result says what was refused.
fn refuse_each(place: &Place, work: impl Fn(&Store) -> Result<bool, StoreError>) {
    for errno in ERRNOS {
        let mut refused = 0;
        for at in 1..=MOST {
            let countdown = Arc::new(Countdown { left: AtomicU32::new(at), errno });
            let storage = Arc::new(Refusing(Arc::clone(&countdown)));
            let found = work(&Store::with_storage(place.store().path(), storage));
            if countdown.left.load(Relaxed) > 0 {
                // The work has fewer operations than `at`.
                assert!(matches!(found, Ok(false)) && at > 1, "{errno} at {at}: {found:?}");
                break;
            }
            refused += u32::from(!matches!(found, Ok(false)));
            let Err(error) = found else { continue };
            let told = error.to_string();
            match error {
                StoreError::Io { .. } | StoreError::NoSpace { .. } => {}
                // It may be the newer manifest, so it is not overwritten.
                StoreError::Unreadable { .. } => continue,
                error => panic!("{errno} at {at}: {error:?}"),
            }
            for wrong in ["damaged", "backup", "remove it"] {
                assert!(!told.contains(wrong), "{errno} at {at}: {told}");
            }
            assert!(at < MOST, "{errno}: it never succeeds");
        }
        assert!(refused > 0, "{errno}: no operation was refused");
    }
}

fn stocked() -> Place {
    let (place, schema) = (Place::new(), schema());
    let ring = heap(&schema, 1, 40);
    let mut writer = writer(&ring);
    for label in ["a", "b"] {
        append(&mut writer, &schema, 1, 9, 9);
        place.store().save(&ring, label, SaveOptions::default().name("pong")).unwrap();
    }
    place
}

#[test]
fn what_a_load_is_refused_is_no_damage() {
    let place = stocked();
    refuse_each(&place, |store| {
        let options = LoadOptions::default().name("loaded").exist(Exist::Replace);
        match store.load("pong", options.huge_pages(false).base(place.base())) {
            Ok(ring) => {
                assert_eq!(ring.rows(0, 0..18).unwrap().len(), 18);
                Ok(false)
            }
            Err(LoadError::Store(error)) => Err(error),
            Err(error) => panic!("{error:?}"),
        }
    });
}

#[test]
fn a_label_that_was_replaced_never_names_the_older_snapshot() {
    let (place, schema) = (stocked(), schema());
    let ring = heap(&schema, 1, 40);
    append(&mut writer(&ring), &schema, 1, 30, 9);
    place.store().save(&ring, "a", SaveOptions::default().name("pong").replace(true)).unwrap();
    refuse_each(&place, |store| {
        assert_eq!(store.snapshot("pong@a")?.rows, 30);
        let options = LoadOptions::default().name("loaded").exist(Exist::Replace);
        match store.load("pong@a", options.huge_pages(false).base(place.base())) {
            Ok(ring) => {
                assert_eq!(ring.rows(0, 0..30).unwrap().len(), 30);
                Ok(false)
            }
            Err(LoadError::Store(error)) => Err(error),
            Err(error) => panic!("{error:?}"),
        }
    });
}

#[test]
fn what_a_check_is_refused_is_no_damage() {
    let place = stocked();
    for spec in ["pong", "pong@a"] {
        refuse_each(&place, |store| match store.verify(spec, |_| ControlFlow::Continue(())) {
            Ok(report) => {
                assert_eq!(report.damages, []);
                let unread = |kind: &DamageKind| matches!(kind, DamageKind::Unreadable { .. });
                assert!(report.unread.iter().all(|found| unread(&found.kind)));
                assert_eq!(report.is_whole(), report.unread.is_empty());
                Ok(!report.is_whole())
            }
            Err(LoadError::Store(error)) => Err(error),
            Err(error) => panic!("{error:?}"),
        });
    }
}

#[test]
fn a_list_is_whole_or_says_what_was_not_read() {
    let place = stocked();
    refuse_each(&place, |store| {
        assert_eq!(store.names()?, ["pong"]);
        let listing = store.snapshots("pong")?;
        assert!(listing.snapshots.len() == 2 || !listing.damages.is_empty());
        Ok(!listing.damages.is_empty())
    });
}

#[test]
fn what_a_save_is_refused_changes_no_earlier_snapshot() {
    let (place, schema) = (stocked(), schema());
    let ring = heap(&schema, 1, 40);
    append(&mut writer(&ring), &schema, 1, 9, 9);
    refuse_each(&place, |store| {
        let options = SaveOptions::default().name("pong").replace(true);
        let found = match store.save(&ring, "c", options) {
            Ok(_) => Ok(false),
            Err(SaveError::Store(error)) => Err(error),
            Err(error) => panic!("{error:?}"),
        };
        let report = place.store().verify("pong", |_| ControlFlow::Continue(())).unwrap();
        assert!(report.is_whole() && report.snapshots.len() >= 2, "{report:?}");
        found
    });
}

/// A disk that can be read and not written.
#[derive(Debug)]
struct ReadOnly(Errno);

impl Storage for ReadOnly {
    fn make_dir(&self, _: &Path) -> io::Result<bool> {
        Err(self.0.into())
    }

    fn create(&self, _: &Path) -> io::Result<Box<dyn NewFile>> {
        Err(self.0.into())
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn StoredFile>> {
        Disk.open(path)
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(self.0.into())
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        Err(self.0.into())
    }

    fn names(&self, dir: &Path) -> io::Result<Vec<String>> {
        Disk.names(dir)
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Err(self.0.into())
    }

    fn lock(&self, _: &Path, _: LockKind) -> io::Result<Option<Box<dyn LockGuard>>> {
        Err(self.0.into())
    }
}

#[test]
fn a_store_that_cannot_be_written_is_read_and_every_other_refusal_is_told() {
    let (place, ring) = (stocked(), heap(&schema(), 1, 40));
    for errno in ERRNOS {
        let store = Store::with_storage(place.store().path(), Arc::new(ReadOnly(errno)));
        let is_read_only = [Errno::ROFS, Errno::ACCESS, Errno::PERM].contains(&errno);
        let options = LoadOptions::default().name("loaded").exist(Exist::Replace);
        let loaded = store.load("pong", options.huge_pages(false).base(place.base()));
        match loaded {
            Ok(ring) => assert_eq!(ring.rows(0, 0..18).unwrap().len(), 18),
            Err(LoadError::Store(StoreError::Io { .. } | StoreError::NoSpace { .. }))
                if !is_read_only => {}
            Err(error) => panic!("{errno}: {error:?}"),
        }
        let checked = store.verify("pong", |_| ControlFlow::Continue(()));
        assert_eq!(checked.is_ok_and(|report| report.is_whole()), is_read_only, "{errno}");
        assert_eq!(store.snapshots("pong").unwrap().snapshots.len(), 2, "{errno}");
        let saved = store.save(&ring, "c", SaveOptions::default().name("pong"));
        assert!(matches!(saved, Err(SaveError::Store(_))), "{errno}: {saved:?}");
        assert!(store.remove("pong@a").is_err(), "{errno}");
    }
    assert_eq!(place.store().snapshots("pong").unwrap().snapshots.len(), 2);
}
