//! Tables of a ring, of any kind: lists those that cannot be opened, finds the holders of their
//! locks, and removes tables.

use rustix::fs::{AtFlags, unlinkat};

use super::memfd;
use super::table_file::{HeapTable, OpenFile, file_name, kind_of, lock_byte, names};
use crate::error::SegmentError;
use crate::layout::claim_table::ClaimMemory;
use crate::layout::learned_table::LearnedMemory;
use crate::layout::names::check_table_name;
use crate::layout::priority_table::TableMemory;
use crate::layout::table_header::{KIND_CLAIMS, KIND_LEARNED, KIND_PRIORITIES};
use crate::os::byte_lock::LockMode;
use crate::store::ring_store::RingStore;

/// A table that cannot be opened.
#[derive(Debug)]
pub struct UnreadableTable {
    /// Name of the table.
    pub name: String,
    /// Error of opening it.
    pub error: SegmentError,
}

impl RingStore {
    /// Returns the names of the tables of the ring, of every kind, in order. Fails if the directory
    /// of the ring cannot be listed.
    pub fn table_names(&self) -> Result<Vec<String>, SegmentError> {
        match self.object() {
            Some(object) => names(object),
            None => Ok(self.heap_tables().into_iter().map(|(name, _)| name).collect()),
        }
    }

    /// Returns the tables that cannot be opened, by name, such as damaged ones, and those of
    /// another ring or another version. Fails if the directory of the ring cannot be listed.
    pub fn unreadable_tables(&self) -> Result<Vec<UnreadableTable>, SegmentError> {
        let Some(object) = self.object() else { return Ok(Vec::new()) };
        let error = |name: &str| {
            let opened = kind_of(object, name).and_then(|kind| match kind {
                KIND_PRIORITIES => self.open_table::<TableMemory>(object, name).map(drop),
                KIND_CLAIMS => self.open_table::<ClaimMemory>(object, name).map(drop),
                KIND_LEARNED => self.open_table::<LearnedMemory>(object, name).map(drop),
                kind => {
                    let path = object.path().join(file_name(name));
                    Err(SegmentError::corrupt(&path, format!("it is a table of kind {kind}")))
                }
            });
            // Leave out a table that was removed meanwhile, or whose memory was freed with its
            // processes.
            let is_gone = |error: &SegmentError| matches!(error, SegmentError::MemoryGone { .. });
            opened.err().filter(|error| !is_gone(error) && object.has(&file_name(name)))
        };
        let unreadable = |name: String| error(&name).map(|error| UnreadableTable { name, error });
        Ok(names(object)?.into_iter().filter_map(unreadable).collect())
    }

    /// Returns whether some handle, in any process, holds the lock of a table. One system call.
    #[must_use]
    pub fn table_is_locked(&self, table: &str) -> bool {
        self.held(lock_byte(table))
    }

    /// Returns the processes that hold the lock of a table, where the system reports them. Searches
    /// all processes, so it is only for messages.
    #[must_use]
    pub fn table_holders(&self, table: &str) -> Vec<u32> {
        self.holders_of(lock_byte(table))
    }

    /// Removes a table. Returns `None` while another handle holds its lock: try again, or set
    /// `force`. Handles that have it open keep its memory, and fail at their next change. Changes
    /// the word of [`notices`](Self::notices), so that samplers find out too.
    pub fn try_remove_table(&self, table: &str, force: bool) -> Result<Option<()>, SegmentError> {
        let removed = self.try_remove_file(table, force)?;
        if removed.is_some() {
            self.count_removed_table();
        }
        Ok(removed)
    }

    fn try_remove_file(&self, table: &str, force: bool) -> Result<Option<()>, SegmentError> {
        check_table_name(table)?;
        let missing = || SegmentError::NoTable {
            name: self.name().unwrap_or_default().to_owned(),
            table: table.to_owned(),
            known: self.table_names().unwrap_or_default(),
        };
        let Some(object) = self.object() else {
            let locks = self.heap_locks();
            let held = locks.claim(lock_byte(table));
            if held.is_none() && !force {
                return Ok(None);
            }
            return if self.remove_heap_table(table) { Ok(Some(())) } else { Err(missing()) };
        };
        let file = file_name(table);
        if !object.has(&file) {
            return Err(missing());
        }
        let lock = object.lock_handle()?;
        let taken = lock.try_lock(lock_byte(table), LockMode::Exclusive);
        if !taken.map_err(SegmentError::io("lock", object.path()))? && !force {
            return Ok(None);
        }
        match unlinkat(object.dir(), &file, AtFlags::empty()) {
            Ok(()) => Ok(Some(())),
            // Another process removed it first.
            Err(rustix::io::Errno::NOENT) => Err(missing()),
            Err(error) => Err(SegmentError::io("remove", &object.path().join(file))(error.into())),
        }
    }

    /// Fails if a table was removed since it was opened. `open` is the file that was opened. Makes
    /// one system call if the table was not removed.
    pub(super) fn check_table_file(
        &self,
        table: &str,
        open: &OpenFile,
    ) -> Result<(), SegmentError> {
        let Some(object) = self.object() else { return Ok(()) };
        let removed = match open {
            OpenFile::Named(file) => rustix::fs::fstat(file).is_ok_and(|is| is.st_nlink == 0),
            // A memfd never has a name of its own, and a link to it may be renewed.
            OpenFile::Memfd(id) => !memfd::leads_to(object.dir(), &file_name(table), *id),
        };
        // The removal or replacement of the ring takes the names of its files too. It does not
        // count as the removal of a table.
        if !removed || object.is_unlinked(true) {
            return Ok(());
        }
        Err(SegmentError::TableRemoved { table: table.to_owned() })
    }

    /// Fails if a table on the heap was removed. `is_it` tells whether the table of that name is
    /// the one that is open.
    pub(super) fn check_heap_table(
        &self,
        table: &str,
        is_it: impl Fn(&HeapTable) -> bool,
    ) -> Result<(), SegmentError> {
        let there = self.heap_tables().iter().any(|(name, found)| name == table && is_it(found));
        if there {
            return Ok(());
        }
        Err(SegmentError::TableRemoved { table: table.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;
    use std::sync::Arc;

    use super::*;
    use crate::layout::claim_table::ClaimSettings;
    use crate::layout::column::DType;
    use crate::layout::counted::spec;
    use crate::layout::learned_table::LearnedColumn;
    use crate::layout::priority_table::{BehindTree, TableSettings};
    use crate::{Base, Exist, RingSpec};

    const SETTINGS: TableSettings = TableSettings {
        exponent: 0.6,
        eps: 0.0,
        stride: 1,
        tracks_largest: false,
        behind: BehindTree::Nothing,
    };
    const CLAIMS: ClaimSettings =
        ClaimSettings { renewed: true, shuffled: false, times: 1, seed: 0 };

    fn columns() -> [LearnedColumn; 1] {
        [LearnedColumn { name: "value".to_owned(), dtype: DType::F32 }]
    }

    /// Returns a ring in files, one on the heap and, on Linux, one in memfds, each with a table of
    /// every kind.
    fn stores() -> (tempfile::TempDir, Vec<Arc<RingStore>>) {
        let dir = tempfile::tempdir().unwrap();
        let base = Base::at(dir.path());
        let spec = RingSpec { lanes: 2, ..spec(&[8], 1_000) };
        let named = |name: &str, memfd| {
            let spec = RingSpec { memfd, ..spec.clone() };
            RingStore::create(&base, name, &spec, Exist::Error, false).unwrap().0
        };
        let mut stores = vec![named("t", false), RingStore::heap(&spec).unwrap()];
        if cfg!(target_os = "linux") {
            stores.push(named("m", true));
        }
        let stores: Vec<_> = stores.into_iter().map(Arc::new).collect();
        for store in &stores {
            store.try_table("p", SETTINGS, 100).unwrap().unwrap();
            store.try_claims("c", CLAIMS).unwrap().unwrap();
            store.try_learned("v", &columns(), 100).unwrap().unwrap();
        }
        (dir, stores)
    }

    #[test]
    fn a_removed_table_is_made_anew_and_its_old_handles_fail_at_their_next_change() {
        let (_dir, stores) = stores();
        for store in &stores {
            let mut priorities = store.try_table("p", SETTINGS, 100).unwrap().unwrap();
            let claims = store.try_claims("c", CLAIMS).unwrap().unwrap();
            let learned = store.try_learned("v", &columns(), 100).unwrap().unwrap();
            priorities.try_lock().unwrap().unwrap().raise_largest(1 << 30);
            assert_eq!(store.table_names().unwrap(), ["c", "p", "v"]);
            for name in ["c", "p", "v"] {
                assert_eq!(store.try_remove_table(name, false).unwrap(), Some(()), "{name}");
                let missing = store.try_remove_table(name, false).unwrap_err();
                assert!(matches!(missing, SegmentError::NoTable { .. }), "{missing}");
            }
            // First without a new table of the name, then with one.
            for _ in 0..2 {
                let refused = [
                    priorities.try_lock().map(drop).unwrap_err(),
                    claims.try_begin(0, |_, _| None).map(drop).unwrap_err(),
                    learned.check_not_removed().unwrap_err(),
                ];
                for error in refused {
                    assert!(matches!(error, SegmentError::TableRemoved { .. }), "{error}");
                }
                let fresh = store.try_table("p", SETTINGS, 100).unwrap().unwrap();
                assert!(fresh.largest() < 1 << 30);
                store.try_claims("c", CLAIMS).unwrap().unwrap();
                store.try_learned("v", &columns(), 100).unwrap().unwrap();
            }
        }
    }

    #[test]
    fn every_removal_is_noticed_and_counts_as_no_resize_and_no_loss_of_the_name() {
        let (_dir, stores) = stores();
        for store in &stores {
            // More removals than the count has values.
            for removal in 0..130 {
                let before = store.notices();
                assert!(store.try_remove_table("missing", false).is_err());
                assert_eq!(store.notices(), before, "nothing was removed");
                store.try_remove_table("p", false).unwrap().unwrap();
                assert_ne!(store.notices(), before, "removal {removal}");
                assert_eq!((store.resizes(), store.is_unlinked()), (0, false), "{removal}");
                store.try_table("p", SETTINGS, 100).unwrap().unwrap();
            }
            store.count_resizes(3);
            assert_eq!((store.resizes(), store.is_unlinked()), (3, false));
            let before = store.notices();
            store.unlink().unwrap();
            let named = store.name().is_some();
            assert_eq!((store.resizes(), store.is_unlinked()), (3, named));
            assert_eq!(store.notices() != before, named);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_link_that_its_keeper_renews_still_leads_to_the_open_table() {
        let (_dir, stores) = stores();
        let store = &stores[2];
        let mut table = store.try_table("p", SETTINGS, 100).unwrap().unwrap();
        let (dir, file) = (store.object().unwrap().dir(), file_name("p"));
        let link = || rustix::fs::readlinkat(dir, &file, Vec::new()).unwrap();
        let renewed = format!("{}0", link().to_str().unwrap());
        unlinkat(dir, &file, AtFlags::empty()).unwrap();
        rustix::fs::symlinkat(&renewed, dir, &file).unwrap();
        assert!(table.try_lock().unwrap().is_some());
        // A link to memory that no process of this namespace has.
        let other = "backcast-memfd:0000000000000001:1:1";
        unlinkat(dir, &file, AtFlags::empty()).unwrap();
        rustix::fs::symlinkat(other, dir, &file).unwrap();
        let error = table.try_lock().map(drop).unwrap_err();
        assert!(matches!(error, SegmentError::TableRemoved { .. }), "{error}");
        store.try_table("p", SETTINGS, 100).unwrap().unwrap();
        let error = table.try_lock().map(drop).unwrap_err();
        assert!(matches!(error, SegmentError::TableRemoved { .. }), "{error}");
    }

    #[test]
    fn a_locked_table_is_removed_by_force_only_and_its_holder_is_named() {
        let (_dir, stores) = stores();
        for store in &stores {
            let mut table = store.try_table("p", SETTINGS, 100).unwrap().unwrap();
            assert!(!store.table_is_locked("p"));
            let guard = table.try_lock().unwrap().unwrap();
            assert!(store.table_is_locked("p") && !store.table_is_locked("c"));
            if cfg!(target_os = "linux") && store.name().is_some() {
                assert_eq!(store.table_holders("p"), [std::process::id()]);
            }
            assert_eq!(store.try_remove_table("p", false).unwrap(), None);
            assert_eq!(store.try_remove_table("p", true).unwrap(), Some(()));
            drop(guard);
            assert!(table.try_lock().is_err());
        }
    }

    #[test]
    fn tables_of_a_removed_ring_count_as_removed_with_it_only() {
        let (_dir, stores) = stores();
        for store in stores.iter().filter(|store| store.name().is_some()) {
            let mut table = store.try_table("p", SETTINGS, 100).unwrap().unwrap();
            store.unlink().unwrap();
            assert!(table.try_lock().unwrap().is_some(), "its holders keep the ring");
        }
    }

    #[test]
    fn tables_that_cannot_be_opened_are_listed_once_and_can_be_removed() {
        let (_dir, stores) = stores();
        let store = &stores[0];
        let folder = store.path().unwrap().to_owned();
        let damage = |name: &str, at: u64| {
            let path = folder.join(file_name(name));
            let file = std::fs::File::options().write(true).open(path).unwrap();
            file.write_all_at(&[0xee], at).unwrap();
        };
        assert!(store.unreadable_tables().unwrap().is_empty());
        damage("p", 0x30);
        damage("c", 0);
        std::fs::write(folder.join(file_name("w")), b"short").unwrap();
        std::os::unix::fs::symlink("/dev/null", folder.join(file_name("x"))).unwrap();
        let found: Vec<String> =
            store.unreadable_tables().unwrap().into_iter().map(|table| table.name).collect();
        assert_eq!(found, ["c", "p", "w", "x"]);
        assert_eq!(store.learned_tables().len(), 1, "the others are read");
        for name in found {
            assert_eq!(store.try_remove_table(&name, false).unwrap(), Some(()), "{name}");
        }
        assert!(store.unreadable_tables().unwrap().is_empty());
        assert!(store.try_remove_table("../p", false).is_err());
    }
}
