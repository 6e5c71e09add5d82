//! From the folders of a dataset to a ring of one lane: an episode after the other.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use backcast_core::{Capacity, Column, DType, Ring, RingOptions, Role, Schema};
use serde_json::Value;

use super::space::{self, Leaf as SpaceLeaf};
use super::{ACTIONS, DATA, METADATA, OBSERVATIONS, REWARDS, TERMINATIONS, TRUNCATIONS};
use crate::arrays;
use crate::careful::{CarefulFile, Leaf, identify};
use crate::episodes::{Episode, EpisodeRows, part};
use crate::error::ImportError;
use crate::export::Format;
use crate::import::{ImportOptions, ImportReport};
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
    let mut dataset = Dataset::open(from)?;
    let rows = dataset.count_rows()?;
    if let Some(asked) = options.capacity.filter(|asked| *asked < rows) {
        return Err(ImportError::Capacity { asked, rows });
    }
    let capacity = options.capacity.unwrap_or(rows).max(1);
    let spans = vec![0..rows; 1];
    let task = Task {
        format: Format::Minari,
        source: dataset.identity.finalize().to_hex().to_string(),
        schema: &dataset.schema,
        ring: RingOptions::with_capacity(Capacity::Rows(capacity)),
        spans: &spans,
        parts: dataset.episodes,
    };
    let mut rows_of = EpisodeRows::new(&dataset.schema);
    let put = |number: u64, sink: &mut Sink<'_, '_, '_>| {
        let episode = dataset.episode(number)?;
        episode.with(&dataset.schema, |episode| rows_of.put(number, episode, sink))?;
        sink.step()
    };
    let (ring, resumed) = resume::restore(&task, options, put)?;
    let (rows_resumed, began_anew) = (resumed.rows, resumed.began_anew);
    let report = ImportReport { rows, rows_resumed, began_anew, ..ImportReport::default() };
    Ok((ring, ImportReport { episodes: Some(dataset.episodes), ..report }))
}

/// What a dataset's words say, and the columns that follow from them.
struct Dataset {
    data: PathBuf,
    schema: Schema,
    /// Per column of the schema, the path of its leaf.
    paths: Vec<Vec<String>>,
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
    fn open(from: &Path) -> Result<Self, ImportError> {
        // The folder of the dataset, or the one in it.
        let inner = from.join(DATA);
        let data = if inner.is_dir() { inner } else { from.to_owned() };
        let about = data.join(METADATA);
        let mut identity = blake3::Hasher::new();
        let words = words(&about, &mut identity)?;
        let bad = |what: String| ImportError::Damaged {
            path: about.clone(),
            part: "the dataset's words".to_owned(),
            what,
        };
        let text = |key: &str| words.get(key).and_then(Value::as_str);
        match text("data_format") {
            Some("parquet") => {}
            other => {
                return Err(bad(format!(
                    "data_format is {}, which is not read; write the dataset anew with \
                     data_format=\"parquet\", or append its episodes in Python",
                    other.map_or("missing".to_owned(), |other| format!("{other:?}"))
                )));
            }
        }
        if words.get("jpeg_encoding").and_then(Value::as_bool) == Some(true)
            && text("observation_space").is_some_and(|space| space.contains("uint8"))
        {
            let what = "its images are packed as JPEG; write it anew with jpeg_encoding=False";
            return Err(bad(what.to_owned()));
        }
        let episodes = words.get("total_episodes").and_then(Value::as_u64);
        let episodes = episodes.ok_or_else(|| bad("it does not say total_episodes".to_owned()))?;
        let leaves = |key: &str| {
            let space = text(key).ok_or_else(|| bad(format!("it does not say its {key}")))?;
            let space = serde_json::from_str(space).map_err(|error| bad(error.to_string()))?;
            space::leaves(&space).map_err(&bad)
        };
        let mut columns = Vec::new();
        for (key, ours, theirs) in
            [("observation_space", "obs", OBSERVATIONS), ("action_space", "action", ACTIONS)]
        {
            for SpaceLeaf { path, dtype, shape } in leaves(key)? {
                let name = [&[ours.to_owned()], &*path].concat().join("/");
                columns.push((name, dtype, shape, [&[theirs.to_owned()], &*path].concat()));
            }
        }
        let reward = Self::reward(&data, episodes)?;
        columns.push(("reward".to_owned(), reward, Vec::new(), vec![REWARDS.to_owned()]));
        let builder = columns.iter().fold(Schema::builder(), |builder, (name, dtype, shape, _)| {
            builder.column(name, *dtype, shape)
        });
        let schema = builder
            .build()
            .map_err(|source| ImportError::Schema { path: about.clone(), source })?;
        let paths = columns.into_iter().map(|(.., path)| path).collect();
        Ok(Self { data, schema, paths, episodes, identity })
    }

    /// The type of rewards, which no space tells: that of the first episode's.
    fn reward(data: &Path, episodes: u64) -> Result<DType, ImportError> {
        if episodes == 0 {
            return Ok(DType::F64);
        }
        let file = CarefulFile::open(&episode_file(data, 0)?)?;
        let field = file.schema().field_with_name(REWARDS).ok();
        let found = field.map(arrow_schema::Field::data_type);
        DType::ALL
            .into_iter()
            .find(|dtype| found == Some(&arrays::element_type(*dtype)))
            .ok_or_else(|| file.damaged("column `rewards`", format!("elements of type {found:?}")))
    }

    /// Looks at every file.
    fn count_rows(&mut self) -> Result<u64, ImportError> {
        let mut rows = 0_u64;
        for number in 0..self.episodes {
            let file = CarefulFile::open(&episode_file(&self.data, number)?)?;
            let row_bytes = self.schema.row_bytes() as u64;
            file.check_unpacked(row_bytes)?;
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
        let rows = usize::try_from(file.rows()).unwrap_or(usize::MAX);
        let mut columns = Vec::with_capacity(self.paths.len());
        for (column, path) in self.schema.columns().iter().zip(&self.paths) {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            let shape = (column.dtype(), column.items(), column.shape().is_empty());
            columns.push(leaf(&file, &path, shape)?);
        }
        let flag = |name: &str| {
            let flags = leaf(&file, &[name], (DType::Bool, 1, true))?;
            // The last row is the one after the last step.
            Ok::<_, ImportError>(flags.iter().rev().nth(1).is_some_and(|flag| *flag != 0))
        };
        let (terminated, truncated) = (flag(TERMINATIONS)?, flag(TRUNCATIONS)?);
        Ok(Loaded { rows, columns, terminated, truncated })
    }
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
        })
    }
}

/// All rows of one leaf of a file.
fn leaf(
    file: &CarefulFile,
    path: &[&str],
    (dtype, items, scalar): (DType, usize, bool),
) -> Result<Vec<u8>, ImportError> {
    let name = path.join("/");
    let number = file.leaf(path);
    let number = number.ok_or_else(|| file.damaged("the footer", format!("no column `{name}`")))?;
    let leaf = Leaf { number, dtype, items, scalar };
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
    let file = fs::File::open(path).map_err(unreadable)?;
    identify(identity, &file.metadata().map_err(unreadable)?);
    file.take(MOST_WORDS).read_to_string(&mut text).map_err(unreadable)?;
    identity.update(text.as_bytes());
    serde_json::from_str(&text).map_err(|error| ImportError::Damaged {
        path: path.to_owned(),
        part: "the dataset's words".to_owned(),
        what: error.to_string(),
    })
}
