//! Makes a ring of one lane from the folders of a dataset.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use backcast_core::{Capacity, Column, DType, Ring, RingOptions, Role, Schema};
use serde_json::Value;

use super::columns::{ColumnSource, DatasetColumns, find};
use super::episode_file::SHAPE;
use super::{DATA, METADATA, TERMINATIONS, TRUNCATIONS};
use crate::columns::{FileLeaf, LeafLayout, UntrustedParquet};
use crate::error::ImportError;
use crate::integers::integers;
use crate::leave_out::LeaveOut;
use crate::options::{ImportOptions, make_ring};
use crate::report::ImportReport;
use crate::rows::{EpisodeRows, EpisodeSteps, Sink, part};

/// Maximum bytes of a metadata file.
const MAX_METADATA: u64 = 64 << 20;
/// Maximum bytes of an episode, which is in memory as a whole.
const MAX_EPISODE: u64 = 4 << 30;

/// Makes a ring from the dataset `from`.
pub(crate) fn read(
    from: &Path,
    options: ImportOptions<'_>,
) -> Result<(Ring, ImportReport), ImportError> {
    let dataset = Dataset::open(from, &options.leave_out)?;
    let rows = dataset.count_rows()?;
    if let Some(asked) = options.capacity.filter(|asked| *asked < rows) {
        return Err(ImportError::Capacity { asked, rows });
    }
    let capacity = options.capacity.unwrap_or(rows).max(1);
    let made = options.placement.apply(RingOptions::with_capacity(Capacity::Rows(capacity)));
    let schema = &dataset.columns.schema;
    let mut on_progress = options.progress;
    let ring = make_ring(options.name.as_deref(), schema, made, |filling| {
        filling.begin(0, 0..rows)?;
        let mut sink = Sink::new(filling, schema, rows, &mut on_progress);
        let mut rows_of = EpisodeRows::new(schema);
        for number in 0..dataset.episodes {
            let episode = dataset.episode(number)?;
            episode.with(schema, |episode| rows_of.put(number, episode, &mut sink))?;
            sink.step()?;
        }
        Ok::<(), ImportError>(())
    })?;
    let episodes = Some(dataset.episodes);
    Ok((ring, ImportReport { rows, episodes, ..ImportReport::default() }))
}

/// Signature of HDF5 files.
const HDF5: &[u8] = b"\x89HDF\r\n\x1a\n";
/// File with all episodes of a dataset stored as HDF5.
const HDF5_FILE: &str = "main_data.hdf5";

/// A dataset and its columns.
struct Dataset {
    data: PathBuf,
    columns: DatasetColumns,
    episodes: u64,
}

/// Rows of one episode.
struct Loaded {
    rows: usize,
    columns: Vec<Vec<u8>>,
    terminated: bool,
    truncated: bool,
}

impl Dataset {
    fn open(from: &Path, leave_out: &LeaveOut) -> Result<Self, ImportError> {
        // `from` may be the folder of the dataset or its `data` folder.
        let inner = from.join(DATA);
        let data = if inner.is_dir() { inner } else { from.to_owned() };
        let about = data.join(METADATA);
        let not_read = |what: String| ImportError::NotRead { path: from.to_owned(), what };
        if is_hdf5(from) || !about.exists() && is_hdf5(&data.join(HDF5_FILE)) {
            return Err(not_read(other_format("hdf5")));
        }
        let metadata = read_metadata(&about)?;
        let bad = |what: &str| ImportError::Damaged {
            path: about.clone(),
            part: "the dataset's metadata".to_owned(),
            what: what.to_owned(),
        };
        match metadata.get("data_format").and_then(Value::as_str) {
            Some("parquet") => {}
            Some(other) => return Err(not_read(other_format(other))),
            // Versions of Minari without `data_format` wrote HDF5 only.
            None if is_hdf5(&data.join(HDF5_FILE)) => return Err(not_read(other_format("hdf5"))),
            None => return Err(bad("it has no data_format")),
        }
        let episodes = metadata.get("total_episodes").and_then(Value::as_u64);
        let episodes = episodes.ok_or_else(|| bad("it has no total_episodes"))?;
        let first =
            (episodes > 0).then(|| UntrustedParquet::open(&episode_file(&data, 0)?)).transpose()?;
        let columns = DatasetColumns::of(&about, &metadata, first.as_ref(), leave_out)?;
        Ok(Self { data, columns, episodes })
    }

    /// Checks every file and counts the rows.
    fn count_rows(&self) -> Result<u64, ImportError> {
        let mut rows = 0_u64;
        for number in 0..self.episodes {
            let file = UntrustedParquet::open(&episode_file(&self.data, number)?)?;
            let row_bytes = self.columns.schema.row_bytes() as u64;
            file.check_unpacked(row_bytes)?;
            self.columns.check(&file)?;
            if file.rows() < 2 || file.rows().saturating_mul(row_bytes) > MAX_EPISODE {
                let what = format!("{} rows; an episode has at least 2", file.rows());
                return Err(file.damaged("the footer", what));
            }
            rows += file.rows();
        }
        Ok(rows)
    }

    fn episode(&self, number: u64) -> Result<Loaded, ImportError> {
        let file = UntrustedParquet::open(&episode_file(&self.data, number)?)?;
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

/// Returns whether a file has the signature of HDF5.
fn is_hdf5(path: &Path) -> bool {
    let mut lead = [0; 8];
    path.is_file()
        && File::open(path).is_ok_and(|mut file| file.read_exact(&mut lead).is_ok())
        && lead == *HDF5
}

/// Returns the message about a dataset stored in another format, with the remedy.
fn other_format(format: &str) -> String {
    let default = if format == "hdf5" { ", Minari's default" } else { "" };
    format!(
        "the dataset is stored as {format:?}{default}, and only \"parquet\" is supported; write it \
         again in Python with MinariStorage.new(..., data_format=\"parquet\"), or append its \
         episodes to a ring"
    )
}

impl Loaded {
    fn with<R>(&self, schema: &Schema, work: impl FnOnce(&EpisodeSteps<'_>) -> R) -> R {
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
        work(&EpisodeSteps {
            steps,
            columns: &columns,
            final_obs: Some(&finals),
            terminated: self.terminated,
            // Every episode of a dataset ends. One without a flag was cut off.
            truncated: self.truncated || !self.terminated,
            after_gap: false,
        })
    }
}

/// Reads the rows of a column and narrows integers to its type.
fn values(
    file: &UntrustedParquet,
    leaves: &[FileLeaf],
    source: &ColumnSource,
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
        file.damaged(part, format!("a value does not fit {}", column.dtype()))
    })
}

/// Returns whether the flag is set at the last step; an error if it is set before.
fn ends(file: &UntrustedParquet, leaves: &[FileLeaf], name: &str) -> Result<bool, ImportError> {
    let found = find(file, leaves, &[name.to_owned()])?;
    let dtype = found.dtype.clone().unwrap_or(DType::Bool);
    let bytes = leaf(file, found, (dtype, 1, true))?;
    let flags = bytes.chunks_exact(dtype.size()).map(|flag| flag.iter().any(|byte| *byte != 0));
    // The last row is not a step.
    let steps = (bytes.len() / dtype.size()).saturating_sub(1);
    let first = flags.take(steps).position(|flag| flag);
    if let Some(step) = first.filter(|step| step + 1 < steps) {
        let what = format!(
            "is set at step {step} of {steps}, where an episode of a ring ends; write the dataset \
             again, with an episode that ends there"
        );
        return Err(ImportError::Array {
            path: file.path().to_owned(),
            name: name.to_owned(),
            what,
        });
    }
    Ok(first.is_some())
}

/// Reads all rows of one leaf of a file.
fn leaf(
    file: &UntrustedParquet,
    leaf: &FileLeaf,
    (dtype, items, scalar): (DType, usize, bool),
) -> Result<Vec<u8>, ImportError> {
    let leaf = LeafLayout { number: leaf.number, dtype, items, scalar };
    let mut bytes = Vec::new();
    for (group, about) in file.footer().row_groups().iter().enumerate() {
        let rows = usize::try_from(about.num_rows()).unwrap_or(0);
        if rows > 0 {
            file.reader(group, leaf, rows)?.next(rows, &mut bytes)?;
        }
    }
    Ok(bytes)
}

/// Returns the path of the only Parquet file in an episode's folder. Refuses none and several.
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
            what: format!("{} Parquet files instead of one", found.len()),
        }),
    }
}

/// Reads a JSON file. A file of more than [`MAX_METADATA`] bytes is cut there, and refused.
fn read_metadata(path: &Path) -> Result<Value, ImportError> {
    let unreadable = |source| ImportError::Read { path: path.to_owned(), source };
    let mut text = String::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(MAX_METADATA).read_to_string(&mut text).map_err(unreadable)?;
    serde_json::from_str(&text).map_err(|error| ImportError::Damaged {
        path: path.to_owned(),
        part: "the dataset's metadata".to_owned(),
        what: error.to_string(),
    })
}
