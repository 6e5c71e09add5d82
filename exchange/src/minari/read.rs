//! From the folders of a dataset to a ring of one lane: an episode after the other.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use backcast_core::{Capacity, Column, DType, Ring, RingOptions, Role, Schema};
use serde_json::Value;

use super::columns::{Columns, Source, find};
use super::episode_file::SHAPE;
use super::{DATA, METADATA, TERMINATIONS, TRUNCATIONS};
use crate::careful::{CarefulFile, Leaf, identify};
use crate::episodes::{Episode, EpisodeRows, part};
use crate::error::ImportError;
use crate::export::Format;
use crate::import::{ImportOptions, ImportReport};
use crate::integers::integers;
use crate::leave_out::LeaveOut;
use crate::leaves::FileLeaf;
use crate::resume::{self, Task};
use crate::sink::Sink;

/// Longest file of words that is read.
const MOST_WORDS: u64 = 64 << 20;
/// Most bytes of an episode's rows: they are in memory at once.
const MOST_EPISODE: u64 = 4 << 30;

/// Makes a ring of a dataset.
pub(crate) fn read(
    from: &Path,
    options: ImportOptions<'_>,
) -> Result<(Ring, ImportReport), ImportError> {
    let mut dataset = Dataset::open(from, &options.leave_out)?;
    let rows = dataset.count_rows()?;
    if let Some(asked) = options.capacity.filter(|asked| *asked < rows) {
        return Err(ImportError::Capacity { asked, rows });
    }
    let capacity = options.capacity.unwrap_or(rows).max(1);
    let spans = vec![0..rows; 1];
    let task = Task {
        format: Format::Minari,
        source: dataset.identity.finalize().to_hex().to_string(),
        schema: &dataset.columns.schema,
        ring: RingOptions::with_capacity(Capacity::Rows(capacity)),
        spans: &spans,
        parts: dataset.episodes,
    };
    let mut rows_of = EpisodeRows::new(&dataset.columns.schema);
    let put = |number: u64, sink: &mut Sink<'_, '_, '_>| {
        let episode = dataset.episode(number)?;
        episode.with(&dataset.columns.schema, |episode| rows_of.put(number, episode, sink))?;
        sink.step()
    };
    let (ring, resumed) = resume::restore(&task, options, put)?;
    let (rows_resumed, began_anew) = (resumed.rows, resumed.began_anew);
    let report = ImportReport { rows, rows_resumed, began_anew, ..ImportReport::default() };
    Ok((ring, ImportReport { episodes: Some(dataset.episodes), ..report }))
}

/// What HDF5 files begin with.
const HDF5: &[u8] = b"\x89HDF\r\n\x1a\n";
/// Where Minari keeps all episodes of a dataset that is stored so.
const HDF5_FILE: &str = "main_data.hdf5";

/// A dataset, and the columns that it becomes.
struct Dataset {
    data: PathBuf,
    columns: Columns,
    episodes: u64,
    /// Of the files that were looked at so far.
    identity: blake3::Hasher,
}

/// One episode's rows.
struct Loaded {
    rows: usize,
    columns: Vec<Vec<u8>>,
    terminated: bool,
    truncated: bool,
}

impl Dataset {
    fn open(from: &Path, leave_out: &LeaveOut) -> Result<Self, ImportError> {
        // The folder of the dataset, or the one in it.
        let inner = from.join(DATA);
        let data = if inner.is_dir() { inner } else { from.to_owned() };
        let about = data.join(METADATA);
        let not_read = |what: String| ImportError::NotRead { path: from.to_owned(), what };
        if is_hdf5(from) || !about.exists() && is_hdf5(&data.join(HDF5_FILE)) {
            return Err(not_read(of_format("hdf5")));
        }
        let mut identity = blake3::Hasher::new();
        for name in leave_out.names() {
            identity.update(name.as_bytes()).update(&[0]);
        }
        let words = words(&about, &mut identity)?;
        let bad = |what: &str| ImportError::Damaged {
            path: about.clone(),
            part: "the dataset's words".to_owned(),
            what: what.to_owned(),
        };
        match words.get("data_format").and_then(Value::as_str) {
            Some("parquet") => {}
            Some(other) => return Err(not_read(of_format(other))),
            // Minari wrote no other format before it said which.
            None if is_hdf5(&data.join(HDF5_FILE)) => return Err(not_read(of_format("hdf5"))),
            None => return Err(bad("it does not say its data_format")),
        }
        let episodes = words.get("total_episodes").and_then(Value::as_u64);
        let episodes = episodes.ok_or_else(|| bad("it does not say total_episodes"))?;
        let first =
            (episodes > 0).then(|| CarefulFile::open(&episode_file(&data, 0)?)).transpose()?;
        let columns = Columns::of(&about, &words, first.as_ref(), leave_out)?;
        Ok(Self { data, columns, episodes, identity })
    }

    /// Looks at every file.
    fn count_rows(&mut self) -> Result<u64, ImportError> {
        let mut rows = 0_u64;
        for number in 0..self.episodes {
            let file = CarefulFile::open(&episode_file(&self.data, number)?)?;
            let row_bytes = self.columns.schema.row_bytes() as u64;
            file.check_unpacked(row_bytes)?;
            self.columns.check(&file)?;
            if file.rows() < 2 || file.rows().saturating_mul(row_bytes) > MOST_EPISODE {
                let what = format!("{} rows, where an episode has 2 or more", file.rows());
                return Err(file.damaged("the footer", what));
            }
            self.identity.update(file.identity().as_bytes());
            rows += file.rows();
        }
        Ok(rows)
    }

    fn episode(&self, number: u64) -> Result<Loaded, ImportError> {
        let file = CarefulFile::open(&episode_file(&self.data, number)?)?;
        let leaves = file.leaves(SHAPE)?;
        let rows = usize::try_from(file.rows()).unwrap_or(usize::MAX);
        let columns = self.columns.schema.columns().iter().zip(&self.columns.sources);
        let columns = columns.map(|(column, source)| values(&file, &leaves, source, column));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let (terminated, truncated) =
            (ends(&file, &leaves, TERMINATIONS)?, ends(&file, &leaves, TRUNCATIONS)?);
        Ok(Loaded { rows, columns, terminated, truncated })
    }
}

/// Whether a file begins as HDF5 files do.
fn is_hdf5(path: &Path) -> bool {
    let mut lead = [0; 8];
    path.is_file()
        && File::open(path).is_ok_and(|mut file| file.read_exact(&mut lead).is_ok())
        && lead == *HDF5
}

/// Why a dataset that is stored in that format is not read, and what to do.
fn of_format(format: &str) -> String {
    let default = if format == "hdf5" { ", Minari's default" } else { "" };
    format!(
        "the dataset is stored as {format:?}{default}, and only those stored as \"parquet\" are; write it anew \
         in Python with MinariStorage.new(..., data_format=\"parquet\"), or append its episodes to a ring"
    )
}

impl Loaded {
    fn with<R>(&self, schema: &Schema, work: impl FnOnce(&Episode<'_>) -> R) -> R {
        let steps = self.rows - 1;
        let of = |from: usize, to: usize| {
            move |(column, bytes): (&Column, &Vec<u8>)| part(column, bytes, from, to).to_vec()
        };
        let columns: Vec<Vec<u8>> =
            schema.columns().iter().zip(&self.columns).map(of(0, steps)).collect();
        let obs = schema.columns().iter().zip(&self.columns);
        let finals: Vec<Vec<u8>> = obs
            .filter(|(column, _)| column.role() == Role::Obs)
            .map(of(steps, self.rows))
            .collect();
        let columns: Vec<&[u8]> = columns.iter().map(Vec::as_slice).collect();
        let finals: Vec<&[u8]> = finals.iter().map(Vec::as_slice).collect();
        work(&Episode {
            steps,
            columns: &columns,
            final_obs: Some(&finals),
            terminated: self.terminated,
            // A dataset's episodes all end; one that does not say how was cut off.
            truncated: self.truncated || !self.terminated,
            after_gap: false,
        })
    }
}

/// The rows of a column, in its own type.
fn values(
    file: &CarefulFile,
    leaves: &[FileLeaf],
    source: &Source,
    column: &Column,
) -> Result<Vec<u8>, ImportError> {
    let found = find(file, leaves, &source.path)?;
    let scalar = column.shape().is_empty();
    let bytes = leaf(file, found, (source.stored, column.items(), scalar))?;
    if source.stored == column.dtype() {
        return Ok(bytes);
    }
    let narrow = |value: i128| -> Option<Vec<u8>> {
        let bytes = value.to_le_bytes()[..column.dtype().size()].to_vec();
        let kept = integers(column.dtype(), &bytes).next() == Some(value);
        kept.then_some(bytes)
    };
    let narrowed: Option<Vec<Vec<u8>>> = integers(source.stored, &bytes).map(narrow).collect();
    narrowed.map(|values| values.concat()).ok_or_else(|| {
        let part = format!("column `{}`", source.path.join("/"));
        file.damaged(part, format!("a value that is no {}", column.dtype()))
    })
}

/// Whether the last step has a flag, which no step before it may have.
fn ends(file: &CarefulFile, leaves: &[FileLeaf], name: &str) -> Result<bool, ImportError> {
    let found = find(file, leaves, &[name.to_owned()])?;
    let dtype = found.dtype.clone().unwrap_or(DType::Bool);
    let bytes = leaf(file, found, (dtype, 1, true))?;
    let flags = bytes.chunks_exact(dtype.size()).map(|flag| flag.iter().any(|byte| *byte != 0));
    // The last row is the one after the last step.
    let steps = (bytes.len() / dtype.size()).saturating_sub(1);
    let first = flags.take(steps).position(|flag| flag);
    if let Some(step) = first.filter(|step| step + 1 < steps) {
        let what = format!(
            "is set at step {step} of {steps}, and an episode of a ring ends with it; write the dataset anew, with \
             an episode that ends there"
        );
        return Err(ImportError::Array {
            path: file.path().to_owned(),
            name: name.to_owned(),
            what,
        });
    }
    Ok(first.is_some())
}

/// All rows of one leaf of a file.
fn leaf(
    file: &CarefulFile,
    leaf: &FileLeaf,
    (dtype, items, scalar): (DType, usize, bool),
) -> Result<Vec<u8>, ImportError> {
    let leaf = Leaf { number: leaf.number, dtype, items, scalar };
    let mut bytes = Vec::new();
    for (group, about) in file.footer().row_groups().iter().enumerate() {
        let rows = usize::try_from(about.num_rows()).unwrap_or(0);
        if rows > 0 {
            file.reader(group, leaf, rows)?.next(rows, &mut bytes)?;
        }
    }
    Ok(bytes)
}

/// The one Parquet file in an episode's folder.
fn episode_file(data: &Path, number: u64) -> Result<PathBuf, ImportError> {
    let folder = data.join(number.to_string());
    let unreadable = |source| ImportError::Read { path: folder.clone(), source };
    let mut found = Vec::new();
    for entry in fs::read_dir(&folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|extension| extension == "parquet") {
            found.push(path);
        }
    }
    match <[PathBuf; 1]>::try_from(found) {
        Ok([path]) => Ok(path),
        Err(found) => Err(ImportError::Damaged {
            path: folder.clone(),
            part: "the episode".to_owned(),
            what: format!("{} Parquet files, not one", found.len()),
        }),
    }
}

/// A file of words; a hostile one is not read to its end.
fn words(path: &Path, identity: &mut blake3::Hasher) -> Result<Value, ImportError> {
    let unreadable = |source| ImportError::Read { path: path.to_owned(), source };
    let mut text = String::new();
    let file = File::open(path).map_err(unreadable)?;
    identify(identity, &file.metadata().map_err(unreadable)?);
    file.take(MOST_WORDS).read_to_string(&mut text).map_err(unreadable)?;
    identity.update(text.as_bytes());
    serde_json::from_str(&text).map_err(|error| ImportError::Damaged {
        path: path.to_owned(),
        part: "the dataset's words".to_owned(),
        what: error.to_string(),
    })
}
