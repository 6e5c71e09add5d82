//! Saves a ring of transitions to a file, and loads it.
//!
//! | part | bytes |
//! |---|---|
//! | `89 42 4b 54 0d 0a 1a 0a` | 8 |
//! | length of the description, u64 | 8 |
//! | description, JSON: version, panel, sizes, draws, transitions of each lane | as it says |
//! | numbers of each column of each lane, oldest transition first | as it says |
//! | BLAKE3 of all bytes before it | 32 |
//!
//! Numbers are little-endian. No part of a file is used before its hash is verified.

use std::{
    fs,
    io::{self, Write},
    path::Path,
};

use backcast_files::write_atomically;
use serde::{Deserialize, Serialize};

use super::{
    batch::TransitionBatch, columns::TransitionShape, draw::DrawStream, error::TransitionError,
    identity::same_panel, lanes::quota, ring::TransitionRing,
};
const MAGIC: [u8; 8] = *b"\x89BKT\r\n\x1a\n";
const VERSION: u32 = 1;
const HASH_BYTES: usize = blake3::OUT_LEN;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    version: u32,
    /// Fingerprint of the panel whose days and tokens are stored.
    panel: String,
    /// Macro tickers of that panel; `None` in files of earlier versions.
    #[serde(default)]
    macro_tickers: Option<Vec<String>>,
    capacity: u64,
    tickers: usize,
    action: Vec<usize>,
    objectives: usize,
    seed: u64,
    batches: u64,
    lanes: Vec<SavedLane>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedLane {
    /// Position of the lane's first transition.
    position: u64,
    transitions: usize,
}

impl Description {
    fn shape(&self) -> TransitionShape {
        let Self { tickers, objectives, .. } = *self;
        TransitionShape { tickers, action: self.action.clone(), objectives }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TransitionError> {
    let failed =
        |source| TransitionError::File { operation: "read", path: path.to_owned(), source };
    fs::read(path).map_err(failed)
}

impl TransitionRing {
    /// Saves all transitions and the position in the stream of draws. The file is replaced
    /// atomically.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), TransitionError> {
        let path = path.as_ref();
        let lanes = self.everything()?;
        let description = Description {
            version: VERSION,
            panel: self.panel.fingerprint().to_owned(),
            macro_tickers: Some(self.panel.macro_tickers()),
            capacity: self.capacity,
            tickers: self.shape.tickers,
            action: self.shape.action.clone(),
            objectives: self.shape.objectives,
            seed: self.draws.seed,
            batches: self.draws.batches,
            lanes: lanes
                .iter()
                .map(|(position, batch)| SavedLane {
                    position: *position,
                    transitions: batch.len(),
                })
                .collect(),
        };
        // Strings, numbers and lists always have a JSON form.
        let json = serde_json::to_vec(&description).unwrap_or_default();
        let written = write_atomically(path, |file| -> io::Result<()> {
            let mut hashed = Hashed { file, hasher: blake3::Hasher::new() };
            hashed.put(&MAGIC)?;
            hashed.put(&(json.len() as u64).to_le_bytes())?;
            hashed.put(&json)?;
            for (_, batch) in &lanes {
                batch.columns().iter().try_for_each(|column| hashed.put(column))?;
            }
            let hash = hashed.hasher.finalize();
            hashed.file.write_all(hash.as_bytes())
        });
        written.map_err(|source| TransitionError::File {
            operation: "write",
            path: path.to_owned(),
            source,
        })
    }

    /// Replaces all transitions by those of a file, and continues its stream of draws. Refuses a
    /// file that is truncated, altered, of another kind, of another panel or of other sizes, and
    /// then changes nothing. With one adding process the capacities may differ: a smaller buffer
    /// keeps the newest transitions.
    ///
    /// Fails while other live processes hold lanes.
    pub fn load(&mut self, path: impl AsRef<Path>) -> Result<(), TransitionError> {
        let path = path.as_ref();
        let bytes = read(path)?;
        let (description, columns) = parse(&bytes)
            .map_err(|problem| TransitionError::BadFile { path: path.to_owned(), problem })?;
        self.fits(&description, path)?;
        let lanes = self.lanes_of(&description, columns).map_err(|problem| {
            TransitionError::BadFile { path: path.to_owned(), problem: problem.to_owned() }
        })?;
        self.replace(&lanes)?;
        self.draws = DrawStream::resumed(description.seed, description.batches);
        Ok(())
    }

    /// Returns the sizes of the transitions in a file, for the creation of a ring that can load it.
    pub fn saved_shape(path: impl AsRef<Path>) -> Result<TransitionShape, TransitionError> {
        let path = path.as_ref();
        let bytes = read(path)?;
        let parsed = parse(&bytes).map(|(description, _)| description.shape());
        parsed.map_err(|problem| TransitionError::BadFile { path: path.to_owned(), problem })
    }

    fn fits(&self, saved: &Description, path: &Path) -> Result<(), TransitionError> {
        let macro_tickers = saved.macro_tickers.as_deref();
        same_panel(|| path.display().to_string(), &saved.panel, macro_tickers, &self.panel)?;
        let there = saved.shape();
        let other = |what, found, expected| {
            Err(TransitionError::OtherShape { path: path.to_owned(), what, found, expected })
        };
        if there != self.shape {
            return other("transitions", there.to_string(), self.shape.to_string());
        }
        let (found, lanes) = (saved.lanes.len(), self.ring.lanes());
        let alike = found == lanes as usize && saved.capacity == self.capacity;
        if !alike && (found > 1 || lanes > 1) {
            let of = |lanes: usize, capacity: u64| {
                format!("{lanes} adding processes and capacity {capacity}")
            };
            return other("lanes", of(found, saved.capacity), of(lanes as usize, self.capacity));
        }
        Ok(())
    }

    /// Returns the transitions of each lane; the newest ones, if not all fit.
    fn lanes_of(
        &self,
        saved: &Description,
        mut columns: &[u8],
    ) -> Result<Vec<(u64, TransitionBatch)>, &'static str> {
        const SIZES: &str = "its transitions do not fit its size";
        let row: usize =
            TransitionBatch::zeros(1, &self.shape).columns().iter().map(|c| c.len()).sum();
        let mut lanes = Vec::with_capacity(saved.lanes.len());
        for (number, lane) in (0..).zip(&saved.lanes) {
            let n = lane.transitions;
            let room = quota(self.capacity, self.ring.lanes(), number);
            let room = usize::try_from(room).unwrap_or(usize::MAX);
            if n.checked_mul(row).is_none_or(|bytes| bytes > columns.len()) {
                return Err(SIZES);
            }
            let dropped = n.saturating_sub(room);
            let mut batch = TransitionBatch::zeros(n - dropped, &self.shape);
            for (_, out) in batch.columns_mut() {
                let width = if n == dropped { 0 } else { out.len() / (n - dropped) };
                let (column, rest) = columns.split_at(n * width);
                out.copy_from_slice(&column[dropped * width..]);
                columns = rest;
            }
            // Sequence numbers have 48 bits, so positions this large are invalid.
            let position = lane.position.checked_add(dropped as u64);
            let position = position.filter(|position| *position < 1 << 62).ok_or(SIZES)?;
            // A lane that is not full starts at position 0.
            lanes.push((if batch.len() < room { 0 } else { position }, batch));
        }
        if columns.is_empty() { Ok(lanes) } else { Err(SIZES) }
    }
}

/// Returns description and columns of a file whose hash is right, or the problem with the file.
fn parse(bytes: &[u8]) -> Result<(Description, &[u8]), String> {
    let body = bytes.len().saturating_sub(HASH_BYTES);
    let (body, hash) = bytes.split_at(body);
    let Some(after) = body.strip_prefix(&MAGIC) else {
        return Err("it does not begin as one".to_owned());
    };
    if blake3::hash(body).as_bytes() != hash {
        return Err("it is cut or changed: its checksum does not fit".to_owned());
    }
    let (length, after) = after.split_first_chunk().ok_or("it ends before its description")?;
    let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
    let (json, columns) = after.split_at_checked(length).ok_or("it ends within its description")?;
    let description: Description =
        serde_json::from_slice(json).map_err(|error| format!("its description: {error}"))?;
    if description.version != VERSION {
        return Err(format!("version {}, where version {VERSION} is known", description.version));
    }
    Ok((description, columns))
}

/// A file and the hash of the bytes written to it.
struct Hashed<'a, W> {
    file: &'a mut W,
    hasher: blake3::Hasher,
}

impl<W: Write> Hashed<'_, W> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hasher.update(bytes);
        self.file.write_all(bytes)
    }
}
