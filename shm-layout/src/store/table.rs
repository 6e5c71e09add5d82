//! Tables of priorities of a ring: read, changed under their lock, listed, restored.

use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;

use super::table_file::{
    HeapTable, Held, Listed, NamedTable, NewTable, OpenTable, TableFile, TableKind, TableLock,
    TableName, listed, lock_byte, make_unnamed, open_or_make, opened_again, readable,
};
use super::table_view::{TableView, settings_of};
use crate::error::SegmentError;
use crate::layout::priority_table::{
    BehindTree, TableCounters, TableHeader, TableMemory, TableSettings, TableShape,
};
use crate::layout::table_header::KIND_PRIORITIES;
use crate::os::mapping::Mapping;
use crate::protocol::sum_tree::{self, Ancestors, FAN_OUT, LeafChange};
use crate::store::ring_store::RingStore;
use crate::store::unnamed_ring::UnnamedRing;

/// A table of priorities, with a leaf for each of the newest rows of every lane.
///
/// Draws take no lock. Changes need a [`guard`](Self::try_lock), of which there is one in all
/// processes. A handle serves one thread.
#[derive(Debug)]
pub struct PriorityTable {
    // Dropped before the store: the lock holds the object too, and the store removes the object
    // only as its last holder.
    lock: TableLock,
    store: Arc<RingStore>,
    view: TableView,
    name: TableName,
    settings: TableSettings,
    ancestors: Ancestors,
}

impl Deref for PriorityTable {
    type Target = TableView;

    fn deref(&self) -> &TableView {
        &self.view
    }
}

impl Deref for TableGuard<'_> {
    type Target = TableView;

    fn deref(&self) -> &TableView {
        self.view
    }
}

/// The right to change a table. The kernel takes it back when the process dies, and the next holder
/// finishes the change that the process had begun.
#[derive(Debug)]
pub struct TableGuard<'a> {
    view: &'a TableView,
    ancestors: &'a mut Ancestors,
    _held: Held<'a>,
}

impl TableGuard<'_> {
    /// Changes leaves; of two changes of a leaf the later one counts.
    pub fn commit(&mut self, changes: &[LeafChange]) {
        let memory = &*self.view.memory;
        sum_tree::commit(memory, &memory.shape.tree, changes, self.ancestors);
    }

    /// Changes leaves like [`commit`](Self::commit), and sets the rows of some lanes that have
    /// leaves. A reader that met no change has seen all of it, or nothing: a leaf that passes to a
    /// newer row is never read as that of the older one.
    pub fn commit_rows(
        &mut self,
        changes: &[LeafChange],
        lanes: impl Iterator<Item = (u32, Range<u64>)>,
    ) {
        let Self { view, ancestors, .. } = self;
        let memory = &*view.memory;
        let set = || {
            for (lane, rows) in lanes.filter(|(lane, _)| *lane < memory.shape.lanes) {
                memory.set_lane(lane, rows.end, rows.start);
            }
        };
        sum_tree::commit_with(memory, &memory.shape.tree, changes, ancestors, set);
    }

    /// Sets the rows of a lane that have leaves: from `expired` up to, and without, `entered`.
    pub fn set_lane(&mut self, lane: u32, entered: u64, expired: u64) {
        if lane < self.view.memory.shape.lanes {
            self.view.memory.set_lane(lane, entered, expired);
        }
    }

    /// Changes the exponent, and all leaves with it, if the table keeps priorities. O(leaves).
    pub fn set_exponent(&mut self, exponent: f64) {
        let memory = &*self.view.memory;
        sum_tree::set_exponent(memory, &memory.shape.tree, exponent.to_bits());
    }

    /// Raises the largest word given so far: of a leaf, or of a priority if they are kept.
    pub fn raise_largest(&mut self, value: u64) {
        self.view.memory.raise_largest(value);
    }

    /// Sets the largest leaf of other rings, if the table tracks its own largest leaf and keeps
    /// nothing behind its tree.
    pub fn set_largest_of_others(&mut self, value: u64) {
        self.view.memory.set_largest_of_others(value);
    }

    /// Adds to the counters.
    pub fn count(&mut self, more: TableCounters) {
        self.view.memory.count(more);
    }
}

/// Description of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableInfo {
    /// Name of the table.
    pub name: String,
    /// Its settings.
    pub settings: TableSettings,
    /// Bytes of the table.
    pub bytes: u64,
    /// Rows of a lane that can have a leaf.
    pub lane_leaves: u64,
    /// Sum of all leaves.
    pub total: u64,
    /// Largest leaf value given so far, or largest priority, as bits of an f64, if they are kept.
    pub largest: u64,
    /// Its counters.
    pub counters: TableCounters,
}

impl PriorityTable {
    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name.name
    }

    /// Returns the ring that it is a table of.
    #[must_use]
    pub fn store(&self) -> &Arc<RingStore> {
        &self.store
    }

    /// Returns the settings that it was opened with.
    #[must_use]
    pub fn settings(&self) -> TableSettings {
        self.settings
    }

    /// Fails if the table was removed since it was opened. At most one system call if it was not.
    pub fn check_not_removed(&self) -> Result<(), SegmentError> {
        self.name.check(&self.store, &self.view.memory)
    }

    /// Takes the lock unless another handle, in any process, holds it. Finishes the change of a
    /// holder that was killed. Fails if the table was removed.
    pub fn try_lock(&mut self) -> Result<Option<TableGuard<'_>>, SegmentError> {
        let path = self.store.path().unwrap_or(Path::new("private memory"));
        let byte = lock_byte(&self.name.name);
        let Some(held) = self.lock.try_lock(byte, path)? else { return Ok(None) };
        self.name.check(&self.store, &self.view.memory)?;
        let (view, ancestors) = (&self.view, &mut self.ancestors);
        let memory = &*view.memory;
        if sum_tree::repair(memory, &memory.shape.tree, ancestors) {
            memory.count(TableCounters { repairs: 1, ..TableCounters::default() });
        }
        Ok(Some(TableGuard { view, ancestors, _held: held }))
    }
}

impl RingStore {
    /// Opens a table of the ring, or creates it. Returns `None` while another process creates it:
    /// try again. `rows` are the rows of a lane that a new table covers. Fails if the table has
    /// other settings or is of another kind.
    pub fn try_table(
        self: &Arc<Self>,
        name: &str,
        settings: TableSettings,
        rows: u64,
    ) -> Result<Option<PriorityTable>, SegmentError> {
        let shape = shape(self.spec().lanes, rows, settings)?;
        let image = |uuid| TableHeader::image(&shape, uuid, settings);
        let new = NewTable { shape: shape.clone(), image: &image };
        let Some(opened) = open_or_make(self, name, &new)? else { return Ok(None) };
        let OpenTable { lock, memory, name } = opened;
        let found = settings_of(&memory);
        // The exponent of a table that keeps priorities may have changed since it was created.
        // Samplers by rank have exponents of their own.
        let varies = found.behind == settings.behind && found.behind != BehindTree::Nothing;
        let exponent = if varies { found.exponent } else { settings.exponent };
        let settings = TableSettings { exponent, ..settings };
        if found != settings {
            let (table, what) = (name.name, differing(found, settings));
            return Err(SegmentError::TableDiffers { table, what });
        }
        let (store, view) = (Arc::clone(self), TableView { memory });
        let ancestors = Ancestors::default();
        Ok(Some(PriorityTable { lock, store, view, name, settings, ancestors }))
    }

    /// Lists the tables of priorities of the ring, by name. Tables that cannot be opened are left
    /// out.
    #[must_use]
    pub fn tables(&self) -> Vec<TableInfo> {
        let info = |(name, memory): (String, Arc<TableMemory>)| TableInfo {
            name,
            settings: settings_of(&memory),
            bytes: memory.shape.bytes,
            lane_leaves: memory.shape.lane_leaves,
            total: sum_tree::total(&*memory, &memory.shape.tree),
            largest: memory.largest(),
            counters: memory.counters(),
        };
        readable(self).map(info).collect()
    }

    /// Lists the settings of the tables of priorities of the ring, by name, or the error of one
    /// that cannot be opened. Fails if the ring cannot be listed.
    pub fn table_settings(&self) -> Result<Vec<NamedTable<TableSettings>>, SegmentError> {
        let settings =
            |(name, memory): Listed<TableMemory>| (name, memory.map(|memory| settings_of(&memory)));
        Ok(listed(self)?.into_iter().map(settings).collect())
    }

    /// Fails if the ring cannot be listed, or if the process has too few files or too little memory
    /// left to open all of its tables.
    pub fn check_tables(&self) -> Result<(), SegmentError> {
        let tables = listed::<TableMemory>(self)?.into_iter();
        let mut errors = tables.filter_map(|(_, table)| table.err());
        errors.find(SegmentError::is_of_process).map_or(Ok(()), Err)
    }

    /// Maps the tables of priorities of the ring, to be read, by name. Tables that cannot be opened
    /// are left out.
    #[must_use]
    pub fn table_views(&self) -> Vec<(String, TableView)> {
        let view = |(name, memory)| (name, TableView { memory });
        readable(self).map(view).collect()
    }

    /// Maps a table of priorities that was opened before, to be read. Creates none: fails if it was
    /// removed.
    pub fn table_view(&self, name: &str) -> Result<TableView, SegmentError> {
        Ok(TableView { memory: opened_again(self, name)? })
    }
}

/// A table of a ring that has no name yet.
#[derive(Debug)]
pub struct UnnamedTable {
    view: TableView,
    ancestors: Ancestors,
}

impl UnnamedTable {
    /// Returns the right to change the table, which no other handle has.
    pub fn guard(&mut self) -> TableGuard<'_> {
        TableGuard { view: &self.view, ancestors: &mut self.ancestors, _held: Held::Unnamed }
    }
}

impl UnnamedRing<'_> {
    /// Creates a table of the ring. `rows` are the rows of a lane that it covers.
    pub fn table(
        &self,
        name: &str,
        settings: TableSettings,
        rows: u64,
    ) -> Result<UnnamedTable, SegmentError> {
        let shape = shape(self.spec().lanes, rows, settings)?;
        let image = |uuid| TableHeader::image(&shape, uuid, settings);
        let memory = make_unnamed(self, name, &NewTable { shape: shape.clone(), image: &image })?;
        Ok(UnnamedTable { view: TableView { memory }, ancestors: Ancestors::default() })
    }
}

/// Returns the sizes of a table that covers `rows` rows of each lane.
fn shape(lanes: u32, rows: u64, settings: TableSettings) -> Result<TableShape, SegmentError> {
    let shape = rows.checked_next_multiple_of(FAN_OUT as u64);
    let parts = (settings.tracks_largest, settings.behind);
    let of = |leaves| TableShape::new(lanes, leaves, parts);
    shape.and_then(of).ok_or_else(|| {
        let remedy = "prioritise a ring of fewer rows";
        let (value, limit) = (rows, crate::layout::priority_table::MAX_LEAVES);
        SegmentError::Limit { what: "rows of a table's lane", value, limit, remedy }
    })
}

fn differing(found: TableSettings, asked: TableSettings) -> String {
    if found.stride != asked.stride {
        let of = |stride| match stride {
            1 => "for every transition".to_owned(),
            u32::MAX => "for the first transition of an episode".to_owned(),
            stride => format!("for one transition in {stride} of an episode"),
        };
        let (found, asked) = (of(found.stride), of(asked.stride));
        return format!("it has a priority {found}, and one {asked} was requested");
    }
    if found.tracks_largest != asked.tracks_largest {
        let of = |held: bool| if held { "held" } else { "ever" };
        let (found, asked) = (of(found.tracks_largest), of(asked.tracks_largest));
        return format!("its initial priority is `{found}`, but `{asked}` was requested");
    }
    if found.counts_ranks() != asked.counts_ranks() {
        let of = |ranks: bool| if ranks { "rank" } else { "priority" };
        let (found, asked) = (of(found.counts_ranks()), of(asked.counts_ranks()));
        return format!("its rows are drawn by {found}, and draws by {asked} were requested");
    }
    if found.behind != asked.behind {
        let of = |settings: TableSettings| match settings.behind {
            BehindTree::Priorities => "can change".to_owned(),
            _ => format!("is fixed at {}", settings.exponent),
        };
        return format!("its alpha {}, and one that {} was requested", of(found), of(asked));
    }
    #[expect(clippy::float_cmp, reason = "settings are kept to the bit")]
    if found.exponent == asked.exponent {
        format!("its eps is {}, but {} was requested", found.eps, asked.eps)
    } else {
        format!("its alpha is {}, but {} was requested", found.exponent, asked.exponent)
    }
}

impl TableKind for TableMemory {
    const KIND: u32 = KIND_PRIORITIES;
    type Header = TableHeader;
    type Shape = TableShape;

    fn check(file: &TableFile<'_>, header: &TableHeader) -> Result<TableShape, SegmentError> {
        header.check(file.path, file.ring_uuid, file.lanes).map(|(shape, _)| shape)
    }

    fn bytes(shape: &TableShape) -> u64 {
        shape.bytes
    }

    fn new(map: Mapping, shape: TableShape) -> Self {
        Self { map, shape }
    }

    fn into_heap(table: Arc<Self>) -> HeapTable {
        HeapTable::Priorities(table)
    }

    fn of_heap(table: &HeapTable) -> Option<Arc<Self>> {
        if let HeapTable::Priorities(memory) = table { Some(Arc::clone(memory)) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::layout::column::{Column, DType, Role};
    use crate::layout::geometry::RingSpec;
    use crate::layout::lane_policy::LanePolicy;
    use crate::layout::names::{Base, Exist};

    const SETTINGS: TableSettings = TableSettings {
        exponent: 0.6,
        eps: 1e-6,
        stride: 1,
        tracks_largest: false,
        behind: BehindTree::Nothing,
    };

    fn spec() -> RingSpec {
        RingSpec {
            columns: vec![Column::new("reward", DType::F32, &[], Role::Step).unwrap()],
            lanes: 2,
            lane_capacity: 100,
            reserve_chunk: 16,
            reader_slots: 4,
            asked_rows: 200,
            asked_bytes: 0,
            policy: LanePolicy::Overwrite,
            huge_pages: false,
            memfd: false,
            snapshot: false,
            snapshot_of: String::new(),
            limits: None,
        }
    }

    fn stores() -> (tempfile::TempDir, Vec<Arc<RingStore>>) {
        let dir = tempfile::tempdir().unwrap();
        let (named, _) =
            RingStore::create(&Base::at(dir.path()), "r", &spec(), Exist::Error, false).unwrap();
        let heap = RingStore::heap(&spec()).unwrap();
        (dir, vec![Arc::new(named), Arc::new(heap)])
    }

    fn table(store: &Arc<RingStore>) -> PriorityTable {
        store.try_table("p", SETTINGS, 100).unwrap().unwrap()
    }

    #[test]
    fn two_handles_share_one_table_and_one_lock() {
        let (_dir, stores) = stores();
        for store in &stores {
            let (mut a, mut b) = (table(store), table(store));
            assert_eq!((a.lanes(), a.lane_leaves(), a.total()), (2, 104, 0));
            let mut guard = a.try_lock().unwrap().unwrap();
            assert!(b.try_lock().unwrap().is_none(), "one holder at a time");
            let leaf = b.leaf_of(1, 304);
            guard.commit(&[LeafChange { leaf, value: 7 }]);
            guard.set_lane(1, 310, 206);
            drop(guard);
            assert!(b.try_lock().unwrap().is_some());
            assert_eq!((b.total(), b.least(), b.leaf(leaf), b.row_of(leaf)), (7, 7, 7, (1, 304)));
            assert_eq!((b.lane(1), b.lane(2)), ((310, 206), (0, 0)));
            let listed = store.tables();
            assert_eq!((listed.len(), &*listed[0].name, listed[0].total), (1, "p", 7));
        }
    }

    #[test]
    fn other_settings_and_names_that_are_none_are_refused() {
        let (_dir, stores) = stores();
        for store in &stores {
            table(store);
            let other = TableSettings { exponent: 0.7, ..SETTINGS };
            let refused = store.try_table("p", other, 100).unwrap_err().to_string();
            assert!(refused.contains("0.6") && refused.contains("0.7"), "{refused}");
            let other = TableSettings { tracks_largest: true, ..SETTINGS };
            let refused = store.try_table("p", other, 100).unwrap_err();
            assert!(matches!(refused, SegmentError::TableDiffers { .. }), "{refused}");
            assert!(store.try_table("../p", SETTINGS, 100).is_err());
            let refused = store.try_table("q", SETTINGS, 1 << 60).unwrap_err();
            assert!(matches!(refused, SegmentError::Limit { .. }), "{refused}");
        }
    }

    #[test]
    fn a_table_goes_with_its_ring_and_another_one_is_refused() {
        let (dir, stores) = stores();
        let path = stores[0].path().unwrap().join("table-p.dat");
        drop(table(&stores[0]));
        assert!(path.exists());
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.write_all_at(&99_u32.to_le_bytes(), 8).unwrap();
        let refused = stores[0].try_table("p", SETTINGS, 100).unwrap_err();
        assert!(matches!(refused, SegmentError::WrongVersion { found: 99, .. }), "{refused}");
        file.set_len(64).unwrap();
        assert!(stores[0].try_table("p", SETTINGS, 100).is_err());
        assert!(stores[0].tables().is_empty());
        drop(stores);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "the ring is left over");
    }

    #[test]
    fn a_creator_that_was_killed_leaves_nothing_in_the_way() {
        let (_dir, stores) = stores();
        let path = stores[0].path().unwrap().join("table-p.dat.building");
        std::fs::write(&path, b"half of it").unwrap();
        assert_eq!(table(&stores[0]).total(), 0);
        assert!(!path.exists());
    }
}
