//! Content of a manifest: rings, their chunk files, and snapshots of rows in them.

use std::collections::BTreeMap;
use std::ops::Range;

use backcast_core::{Column, LanePolicy, MAX_LANES, Role, Schema, SchemaError};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::followed::Followed;
use crate::layout::BatchLayout;
use crate::spec::{LIVE, check_name};

mod params;
mod tables;

pub use self::params::SnapshotParams;
pub(crate) use self::params::{SavedParams, layout as params_layout};
pub(crate) use self::tables::{SavedClaims, SavedLearned, SavedLimiter, SavedTable};

/// Upper limit of sequence numbers.
const MAX_SEQ: u64 = 1 << 48;

/// Content of a manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    /// Generation. The manifest with the higher one is current.
    pub(crate) generation: u64,
    pub(crate) name: String,
    pub(crate) rings: Vec<SavedRing>,
    /// Snapshots, oldest first.
    pub(crate) snapshots: Vec<SavedSnapshot>,
}

/// A ring that had the name. Successive rings of a name have different identities.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedRing {
    pub(crate) uuid: String,
    pub(crate) created_unix_ns: u64,
    pub(crate) columns: Vec<SavedColumn>,
    pub(crate) lanes: u32,
    pub(crate) lane_capacity: u64,
    pub(crate) lane_policy: String,
    pub(crate) lease_timeout_ms: u64,
    pub(crate) reader_slots: u32,
    /// State of the follower; `None` if the ring is not followed.
    pub(crate) follow: Option<Followed>,
    pub(crate) chunks: Vec<SavedChunk>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedColumn {
    pub(crate) name: String,
    pub(crate) dtype: String,
    pub(crate) shape: Vec<u32>,
    pub(crate) role: String,
}

/// A chunk file. Head, batches and tail cover every byte.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedChunk {
    pub(crate) file: String,
    pub(crate) bytes: u64,
    /// Wall clock of the write, in nanoseconds since 1970. A file that replaces others has the
    /// clock of the newest one.
    pub(crate) unix_ns: u64,
    pub(crate) head_crc32: u32,
    pub(crate) tail_crc32: u32,
    pub(crate) batches: Vec<SavedBatch>,
}

/// Consecutive rows of one lane. Schema and `rows` determine the places of columns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedBatch {
    pub(crate) lane: u32,
    pub(crate) first: u64,
    pub(crate) rows: u64,
    /// First byte of the frame.
    pub(crate) frame_at: u64,
    /// First byte of the body, at the end of the frame.
    pub(crate) body_at: u64,
    pub(crate) frame_crc32: u32,
    /// Checksum of each column, padding included.
    pub(crate) column_crc32: Vec<u32>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedSnapshot {
    pub(crate) label: String,
    pub(crate) unix_ns: u64,
    /// UUID of its ring.
    pub(crate) ring: String,
    /// First row and one past the last, by lane.
    pub(crate) lanes: Vec<(u64, u64)>,
    /// State that the user saved with the snapshot.
    pub(crate) state: Value,
    /// Tables of priorities, by name.
    pub(crate) tables: Vec<SavedTable>,
    /// Tables of claims, by name. Snapshots without any do not have the key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) claims: Vec<SavedClaims>,
    /// Tables of learned columns, by name. Snapshots without any do not have the key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) learned: Vec<SavedLearned>,
    /// The rate limiter, if the ring has one and it could be read.
    pub(crate) limiters: Vec<SavedLimiter>,
    /// Parameters that were saved with it. Snapshots without any do not have the key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) params: Vec<SavedParams>,
}

impl SavedBatch {
    pub(crate) fn range(&self) -> Range<u64> {
        self.first..self.first + self.rows
    }
}

impl SavedSnapshot {
    pub(crate) fn rows(&self) -> u64 {
        self.lanes.iter().map(|(first, head)| head - first).sum()
    }

    /// Returns the files of its tables and parameters, which it shares with no other snapshot.
    pub(crate) fn chunks_beside_rows(&self) -> impl Iterator<Item = &SavedChunk> {
        let of_tables = self.tables.iter().flat_map(|table| &table.chunks);
        let of_learned = self.learned.iter().flat_map(|table| &table.chunks);
        let of_params = self.params.iter().flat_map(|params| &params.chunks);
        of_tables.chain(of_learned).chain(of_params)
    }

    /// Returns whether the snapshot has rows of the batch.
    pub(crate) fn names(&self, batch: &SavedBatch) -> bool {
        let rows = batch.range();
        self.lanes
            .get(batch.lane as usize)
            .is_some_and(|(first, head)| rows.start < *head && *first < rows.end)
    }
}

impl SavedColumn {
    pub(crate) fn of(column: &Column) -> Self {
        Self {
            name: column.name().to_owned(),
            dtype: column.dtype().code().to_owned(),
            shape: column.shape().to_owned(),
            role: column.role().as_str().to_owned(),
        }
    }
}

impl SavedRing {
    /// Returns the checked schema.
    pub(crate) fn schema(&self) -> Result<Schema, SchemaError> {
        let mut builder = Schema::builder();
        for column in &self.columns {
            let dtype = column.dtype.parse().map_err(SchemaError::Column)?;
            let role: Role = column.role.parse().map_err(SchemaError::Column)?;
            builder = builder.column_as(&column.name, dtype, &column.shape, role);
        }
        builder.build_existing()
    }

    pub(crate) fn policy(&self) -> Option<LanePolicy> {
        let policy: LanePolicy = self.lane_policy.parse().ok()?;
        let timeout = std::time::Duration::from_millis(self.lease_timeout_ms);
        match policy {
            LanePolicy::Block(_) if timeout <= LanePolicy::MAX_TIMEOUT => {
                Some(LanePolicy::Block(timeout))
            }
            LanePolicy::Block(_) => None,
            policy => (self.lease_timeout_ms == 0).then_some(policy),
        }
    }

    /// Returns all batches with their files, by lane and row.
    pub(crate) fn batches(&self) -> Vec<(&SavedChunk, &SavedBatch)> {
        let mut batches: Vec<_> = self
            .chunks
            .iter()
            .flat_map(|chunk| chunk.batches.iter().map(move |batch| (chunk, batch)))
            .collect();
        batches.sort_unstable_by_key(|(_, batch)| (batch.lane, batch.first));
        batches
    }

    /// Returns the contiguous ranges of saved rows by lane, in order.
    pub(crate) fn covered(&self) -> BTreeMap<u32, Vec<Range<u64>>> {
        let mut covered: BTreeMap<u32, Vec<Range<u64>>> = BTreeMap::new();
        for (_, batch) in self.batches() {
            let runs = covered.entry(batch.lane).or_default();
            match runs.last_mut() {
                Some(run) if run.end == batch.first => run.end = batch.range().end,
                _ => runs.push(batch.range()),
            }
        }
        covered
    }
}

impl Manifest {
    pub(crate) fn new(name: &str) -> Self {
        Self { generation: 0, name: name.to_owned(), rings: Vec::new(), snapshots: Vec::new() }
    }

    /// Returns all chunk files.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = &SavedChunk> {
        let beside = self.snapshots.iter().flat_map(SavedSnapshot::chunks_beside_rows);
        self.rings.iter().flat_map(|ring| &ring.chunks).chain(beside)
    }

    pub(crate) fn ring(&self, uuid: &str) -> Option<&SavedRing> {
        self.rings.iter().find(|ring| ring.uuid == uuid)
    }

    /// Clears the positions of followed rings whose live snapshot was removed since `before`, so
    /// that all their rows are saved again.
    pub(crate) fn reset_unfollowed(&mut self, before: &Self) {
        let live = |snapshots: &[SavedSnapshot], ring: &str| {
            snapshots.iter().any(|s| s.label == LIVE && s.ring == ring)
        };
        let Self { rings, snapshots, .. } = self;
        for ring in rings {
            if live(&before.snapshots, &ring.uuid) && !live(snapshots, &ring.uuid) {
                ring.follow = None;
            }
        }
    }

    /// Removes chunk files without rows of a snapshot from the manifest, except those to be kept.
    /// Then removes rings without snapshots.
    pub(crate) fn prune(&mut self, now_unix_ns: u64) {
        for ring in &mut self.rings {
            let of_ring: Vec<_> = self.snapshots.iter().filter(|s| s.ring == ring.uuid).collect();
            let follow = ring.follow.as_ref();
            let mut bytes = 0_u64;
            // Goes from the newest file to the oldest, so that the limit drops the oldest.
            ring.chunks.reverse();
            ring.chunks.retain(|chunk| {
                bytes = bytes.saturating_add(chunk.bytes);
                let age_ns = now_unix_ns.saturating_sub(chunk.unix_ns);
                chunk.batches.iter().any(|batch| of_ring.iter().any(|s| s.names(batch)))
                    || follow.is_some_and(|follow| follow.keeps(bytes, age_ns))
            });
            ring.chunks.reverse();
        }
        let snapshots = &self.snapshots;
        self.rings.retain(|ring| snapshots.iter().any(|snapshot| snapshot.ring == ring.uuid));
    }

    /// Describes the first invalid part. Returns `None` if there is none.
    pub(crate) fn problem(&self, name: &str) -> Option<String> {
        if self.name != name {
            return Some(format!("its name is `{}`", self.name));
        }
        let mut names = Names::default();
        for ring in &self.rings {
            if let Some(problem) = ring_problem(ring, &mut names) {
                return Some(format!("ring {}: {problem}", ring.uuid));
            }
        }
        let mut labels = std::collections::BTreeSet::new();
        for snapshot in &self.snapshots {
            let problem = if labels.insert(&snapshot.label) {
                snapshot_problem(self, snapshot, &mut names)
            } else {
                Some("it is listed twice".to_owned())
            };
            if let Some(problem) = problem {
                return Some(format!("snapshot `{}`: {problem}", snapshot.label));
            }
        }
        None
    }
}

/// Names that must be unique.
#[derive(Default)]
struct Names<'a> {
    rings: std::collections::BTreeSet<&'a str>,
    files: std::collections::BTreeSet<&'a str>,
}

fn ring_problem<'a>(ring: &'a SavedRing, names: &mut Names<'a>) -> Option<String> {
    if ring.uuid.len() != 32 || !ring.uuid.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Some("its identity is not a UUID".to_owned());
    }
    if !names.rings.insert(&ring.uuid) {
        return Some("it is listed twice".to_owned());
    }
    if !(1..=MAX_LANES).contains(&ring.lanes) || ring.lane_capacity == 0 {
        return Some(format!("it has {} lanes of {} rows", ring.lanes, ring.lane_capacity));
    }
    if ring.lane_capacity > MAX_SEQ {
        return Some(format!("its lanes keep {} rows", ring.lane_capacity));
    }
    let schema = match ring.schema() {
        Ok(schema) => schema,
        Err(error) => return Some(error.to_string()),
    };
    if let Some(problem) = ring.follow.as_ref().and_then(|f| f.problem(ring.lanes, MAX_SEQ)) {
        return Some(problem);
    }
    if ring.policy().is_none() {
        return Some(format!("its lane policy is {}", ring.lane_policy));
    }
    let layout = BatchLayout::of(&schema);
    if let Some(problem) = chunks_problem(&ring.chunks, ring, &layout, names) {
        return Some(problem);
    }
    let batches = ring.batches();
    let mut pairs = batches.iter().zip(batches.iter().skip(1));
    let overlap = pairs.find(|((_, a), (_, b))| a.lane == b.lane && a.range().end > b.first);
    overlap.map(|((_, a), _)| format!("rows of lane {} are listed twice", a.lane))
}

fn chunks_problem<'a>(
    chunks: &'a [SavedChunk],
    ring: &SavedRing,
    layout: &BatchLayout,
    names: &mut Names<'a>,
) -> Option<String> {
    chunks.iter().find_map(|chunk| {
        let file = &chunk.file;
        if !is_chunk_name(file) || !names.files.insert(file) {
            return Some(format!("{file:?} is not the name of a chunk, or is listed twice"));
        }
        let problem = chunk_problem(chunk, ring, layout)?;
        Some(format!("chunk {file}: {problem}"))
    })
}

fn chunk_problem(chunk: &SavedChunk, ring: &SavedRing, layout: &BatchLayout) -> Option<String> {
    let mut end = None;
    for batch in &chunk.batches {
        let last = batch.first.checked_add(batch.rows);
        if batch.lane >= ring.lanes || batch.rows == 0 || last.is_none_or(|last| last > MAX_SEQ) {
            return Some(format!("{} rows of lane {}", batch.rows, batch.lane));
        }
        if batch.column_crc32.len() != layout.columns.len() {
            return Some(format!("checksums of {} columns", batch.column_crc32.len()));
        }
        let body = layout.places(batch.rows).map(|(_, body)| body);
        let after = body.and_then(|body| batch.body_at.checked_add(body));
        let follows = end.is_none_or(|end| batch.frame_at == end);
        match after {
            Some(after) if follows && batch.frame_at <= batch.body_at && after <= chunk.bytes => {
                end = Some(after);
            }
            _ => return Some(format!("a batch at {} does not fit", batch.frame_at)),
        }
    }
    end.is_none().then(|| "it has no batch".to_owned())
}

fn snapshot_problem<'a>(
    manifest: &'a Manifest,
    snapshot: &'a SavedSnapshot,
    names: &mut Names<'a>,
) -> Option<String> {
    if check_name("label", &snapshot.label).is_err() {
        return Some("its label is not valid".to_owned());
    }
    let Some(ring) = manifest.ring(&snapshot.ring) else {
        return Some("its ring is missing".to_owned());
    };
    if snapshot.lanes.len() != ring.lanes as usize {
        return Some(format!("it has {} lanes", snapshot.lanes.len()));
    }
    let covered = ring.covered();
    for (lane, (first, head)) in (0..).zip(&snapshot.lanes) {
        let within = |run: &Range<u64>| run.start <= *first && *head <= run.end;
        let there = || covered.get(&lane).is_some_and(|runs| runs.iter().any(within));
        let rows = head.checked_sub(*first);
        let fits = rows.is_some_and(|rows| rows <= ring.lane_capacity) && *head <= MAX_SEQ;
        if !fits || (rows != Some(0) && !there()) {
            return Some(format!("rows {first}..{head} of lane {lane} are not saved"));
        }
    }
    let mut tables = std::collections::BTreeSet::new();
    for table in &snapshot.tables {
        if check_name("name", &table.name).is_err() || !tables.insert(&table.name) {
            return Some("the name of a table is not valid, or is listed twice".to_owned());
        }
        let batches = table.chunks.iter().flat_map(|chunk| &chunk.batches);
        let problem = chunks_problem(&table.chunks, ring, &SavedTable::layout(), names)
            .or_else(|| tables::batches_problem(batches));
        if let Some(problem) = problem {
            return Some(format!("table `{}`: {problem}", table.name));
        }
    }
    for table in &snapshot.claims {
        if check_name("name", &table.name).is_err() || !tables.insert(&table.name) {
            return Some("the name of a table is not valid, or is listed twice".to_owned());
        }
        if let Some(problem) = table.problem(&snapshot.lanes) {
            return Some(format!("table `{}`: {problem}", table.name));
        }
    }
    for table in &snapshot.learned {
        if check_name("name", &table.name).is_err() || !tables.insert(&table.name) {
            return Some("the name of a table is not valid, or is listed twice".to_owned());
        }
        if table.columns().is_none() {
            return Some(format!("table `{}`: no table has its columns", table.name));
        }
        let batches = table.chunks.iter().flat_map(|chunk| &chunk.batches);
        let problem = chunks_problem(&table.chunks, ring, &table.layout(), names)
            .or_else(|| tables::batches_problem(batches));
        if let Some(problem) = problem {
            return Some(format!("table `{}`: {problem}", table.name));
        }
    }
    let mut listed = std::collections::BTreeSet::new();
    for params in &snapshot.params {
        if check_name("name", &params.name).is_err() || !listed.insert(&params.name) {
            return Some("the name of parameters is not valid, or is listed twice".to_owned());
        }
        let layout = params.shape().and_then(|shape| params::layout(&shape).ok());
        let problem = match layout {
            Some(layout) => chunks_problem(&params.chunks, ring, &layout, names)
                .or_else(|| params.file_problem()),
            None => Some("its arrays are not valid".to_owned()),
        };
        if let Some(problem) = problem {
            return Some(format!("parameters `{}`: {problem}", params.name));
        }
    }
    let valid = snapshot.limiters.iter().all(|limiter| limiter.limits().is_some());
    (snapshot.limiters.len() > 1 || !valid).then(|| "its rate limiter is not valid".to_owned())
}

/// Returns whether a name is one of a chunk file. Such a name cannot lead out of the directory.
pub(crate) fn is_chunk_name(name: &str) -> bool {
    name.strip_suffix(".arrow").is_some_and(|stem| {
        (1..=64).contains(&stem.len())
            && stem.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b) || b == b'-')
    })
}

#[cfg(test)]
mod tests;
