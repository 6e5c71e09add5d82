//! Verifies the checksum of every byte of a snapshot.

use std::ops::ControlFlow;

use backcast_files::{OnProgress, Progress};

use crate::chunk::ChunkFile;
use crate::damage::{Damage, DamageKind};
use crate::error::{LoadError, StoreError};
use crate::layout::BatchLayout;
use crate::manifest::{SavedTable, params_layout};
use crate::read_failure::ReadFailure;
use crate::spec::SnapshotSpec;
use crate::store::Store;
use crate::waiting::Stops;

/// Outcome of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// `name@label` of the snapshots whose files were checked.
    pub snapshots: Vec<String>,
    /// Chunk files checked, including those that could not be opened. Manifests are not counted.
    pub files: u64,
    /// Bytes of those files, as saved.
    pub bytes: u64,
    /// Damage found.
    pub damages: Vec<Damage>,
    /// Files that the system did not read. Their bytes may be right.
    pub unread: Vec<Damage>,
}

impl Store {
    /// Reads all files of `"pong@epoch-10"`, or of every snapshot of `"pong"`, and both manifests,
    /// and checks every byte. Makes no ring. O(bytes).
    ///
    /// A file that the system does not read is reported apart from damage. Fails if the process
    /// runs out of files or memory, so that no file can be read.
    pub fn verify(
        &self,
        spec: &str,
        progress: impl FnMut(&Progress) -> ControlFlow<()> + Send,
    ) -> Result<VerifyReport, LoadError> {
        let spec: SnapshotSpec = spec.parse()?;
        let folder = self.folder(&spec.name)?;
        folder.read()?.ok_or_else(|| self.not_found(&spec, None))?;
        let mut progress: OnProgress<'_> = Box::new(progress);
        let _reading = {
            let stops = Stops::new(Some(&mut progress));
            let locked = folder.lock_for_reading(&|| stops.ask());
            if stops.is_cancelled() {
                return Err(LoadError::Cancelled);
            }
            locked?
        };
        let slots = folder.read()?.ok_or_else(|| self.not_found(&spec, None))?;
        let manifest = &slots.manifest;
        let wanted: Vec<_> = manifest
            .snapshots
            .iter()
            .filter(|snapshot| spec.label.as_ref().is_none_or(|label| *label == snapshot.label))
            .collect();
        // A manifest that was not read is in the report. It is an error only if the label was not
        // found, since that manifest may have it.
        if spec.label.is_some() && wanted.is_empty() {
            self.find(&spec, &slots)?;
        }
        let mut report = VerifyReport {
            snapshots: wanted.iter().map(|s| format!("{}@{}", spec.name, s.label)).collect(),
            ..VerifyReport::default()
        };
        slots.damage.into_iter().for_each(|damage| report.add(damage));
        let mut todo = Vec::new();
        for ring in &manifest.rings {
            let layout = BatchLayout::of(&ring.schema()?);
            let of_ring: Vec<_> = wanted.iter().filter(|s| s.ring == ring.uuid).collect();
            let chunks = ring.chunks.iter().filter(|chunk| {
                chunk.batches.iter().any(|batch| of_ring.iter().any(|s| s.names(batch)))
            });
            todo.extend(chunks.map(|chunk| (layout.clone(), chunk)));
        }
        for params in wanted.iter().flat_map(|snapshot| &snapshot.params) {
            // A checked manifest has valid shapes.
            let layout = params.shape().and_then(|shape| params_layout(&shape).ok());
            let Some(layout) = layout else { continue };
            todo.extend(params.chunks.iter().map(|chunk| (layout.clone(), chunk)));
        }
        let tables = wanted.iter().flat_map(|snapshot| &snapshot.tables);
        let of_tables = tables.flat_map(|table| &table.chunks);
        todo.extend(of_tables.map(|chunk| (SavedTable::layout(), chunk)));
        for table in wanted.iter().flat_map(|snapshot| &snapshot.learned) {
            todo.extend(table.chunks.iter().map(|chunk| (table.layout(), chunk)));
        }
        let batches = || todo.iter().flat_map(|(_, chunk)| &chunk.batches);
        let mut done = Progress {
            total_rows: batches().map(|batch| batch.rows).sum(),
            total_bytes: todo.iter().map(|(_, chunk)| chunk.bytes).sum(),
            ..Progress::default()
        };
        let mut body = Vec::new();
        for (layout, chunk) in &todo {
            report.files += 1;
            report.bytes += chunk.bytes;
            // Bytes outside of batches count as done with the last batch of their file.
            let rows = done.rows + chunk.batches.iter().map(|batch| batch.rows).sum::<u64>();
            let whole = Progress { rows, bytes: report.bytes, ..done };
            let file = match ChunkFile::open(self.storage(), &folder.chunks, chunk, layout) {
                Ok(file) => file,
                Err(failure) => {
                    report.add_failure(failure)?;
                    done = whole;
                    if progress(&done).is_break() {
                        return Err(LoadError::Cancelled);
                    }
                    continue;
                }
            };
            file.rest(chunk).into_iter().try_for_each(|failure| report.add_failure(failure))?;
            for (number, batch) in (1..).zip(&chunk.batches) {
                if let Err(failure) = file.body(batch, &mut body) {
                    report.add_failure(failure)?;
                }
                done.rows += batch.rows;
                done.bytes = whole.bytes.min(done.bytes + body.len() as u64);
                if number == chunk.batches.len() {
                    done = whole;
                }
                if progress(&done).is_break() {
                    return Err(LoadError::Cancelled);
                }
            }
        }
        Ok(report)
    }
}

impl VerifyReport {
    /// Returns whether every file was read and no damage was found.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.damages.is_empty() && self.unread.is_empty()
    }

    fn add_failure(&mut self, failure: ReadFailure) -> Result<(), StoreError> {
        self.add(failure.of_file()?);
        Ok(())
    }

    fn add(&mut self, found: Damage) {
        let unread = matches!(found.kind, DamageKind::Unreadable { .. });
        let list = if unread { &mut self.unread } else { &mut self.damages };
        // Each part of a file that cannot be read would repeat the same error.
        if !unread || !list.contains(&found) {
            list.push(found);
        }
    }
}
