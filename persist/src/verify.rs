//! Verifies the checksum of every byte of a snapshot.

use std::ops::ControlFlow;

use backcast_files::{OnProgress, Progress};

use crate::chunk::ChunkFile;
use crate::damage::Damage;
use crate::error::LoadError;
use crate::layout::BatchLayout;
use crate::manifest::{SavedTable, params_layout};
use crate::spec::SnapshotSpec;
use crate::store::Store;

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
}

impl Store {
    /// Reads all files of `"pong@epoch-10"`, or of every snapshot of `"pong"`, and both manifests,
    /// and checks every byte. Makes no ring. O(bytes).
    pub fn verify(
        &self,
        spec: &str,
        progress: impl FnMut(&Progress) -> ControlFlow<()> + Send,
    ) -> Result<VerifyReport, LoadError> {
        let spec: SnapshotSpec = spec.parse()?;
        let folder = self.folder(&spec.name)?;
        folder.read()?.ok_or_else(|| self.not_found(&spec, None))?;
        let _reading = folder.lock_for_reading()?;
        let slots = folder.read()?.ok_or_else(|| self.not_found(&spec, None))?;
        let manifest = &slots.manifest;
        if spec.label.is_some() {
            self.find(&spec, manifest)?;
        }
        let wanted: Vec<_> = manifest
            .snapshots
            .iter()
            .filter(|snapshot| spec.label.as_ref().is_none_or(|label| *label == snapshot.label))
            .collect();
        let mut report = VerifyReport {
            snapshots: wanted.iter().map(|s| format!("{}@{}", spec.name, s.label)).collect(),
            damages: slots.damage.into_iter().collect(),
            ..VerifyReport::default()
        };
        let mut progress: OnProgress<'_> = Box::new(progress);
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
                Err(damage) => {
                    report.damages.push(damage);
                    done = whole;
                    if progress(&done).is_break() {
                        return Err(LoadError::Cancelled);
                    }
                    continue;
                }
            };
            report.damages.extend(file.rest(chunk));
            for (number, batch) in (1..).zip(&chunk.batches) {
                report.damages.extend(file.body(batch, &mut body).err());
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
    /// Returns whether no damage was found.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.damages.is_empty()
    }
}
