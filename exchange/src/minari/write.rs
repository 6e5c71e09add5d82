//! From the rows of a ring to the folders of a dataset.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StructArray};
use arrow_schema::{DataType, Field, Fields, Schema as ArrowSchema};
use backcast_core::{Column, DType, FINAL, GAP, Role, Rows, Schema, TERMINATED, TRUNCATED};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use serde_json::json;

use super::space::{self, Choices};
use super::{
    ACTIONS, DATA, EPISODE, INFOS, METADATA, OBSERVATIONS, REWARDS, TERMINATIONS, TRUNCATIONS,
};
use crate::arrays;
use crate::error::ExportError;
use crate::export::{ExportReport, Failure};
use crate::partial::{Partial, read_file};
use crate::plan::Plan;
use crate::rows_hash::RowsHash;
use crate::walk::{Halt, Walk};

/// The version of Minari whose layout this is.
const MINARI: &str = "0.5.4";

/// Writes the dataset into the folder that it is made in.
pub(crate) fn write(
    walk: &mut Walk<'_, '_>,
    partial: &mut Partial,
    plan: &Plan,
    to: &Path,
) -> Result<ExportReport, Failure> {
    let ring = walk.ring();
    let parts = Parts::of(ring.schema()).map_err(Halt::from)?;
    let data = partial.path().join(DATA);
    if !partial.is_named() {
        fs::create_dir_all(&data)?;
        clear_after(&data, partial.end())?;
    }
    let mut writer = DatasetWriter::new(&parts, data, partial.end());
    let known = partial.units().len();
    let mut of = None;
    for number in 0.. {
        let places = walk.next(plan.unit_rows);
        if places.is_empty() {
            break;
        }
        let mut hash = RowsHash::default();
        let mut written = Ok(());
        walk.read(&places, |lane, rows| {
            hash.add(lane, rows);
            let (_, range) = rows.place();
            // Another lane, or rows that were overwritten in between: what was begun ends here.
            let goes_on = of.replace((lane, range.end)) == Some((lane, range.start));
            let cut = if goes_on { Ok(()) } else { writer.cut() };
            written = cut.and_then(|()| writer.rows(rows));
            written.is_ok()
        })?;
        written?;
        if walk.is_over() {
            writer.cut()?;
        }
        if number >= known && walk.lapped() == 0 {
            let to = writer.report.episodes.unwrap_or_default();
            partial.add(&places, hash.finish(), to, String::new())?;
        }
    }
    Ok(writer.finish(to, partial.is_named())?)
}

/// Refuses a ring that no dataset can be made of.
pub(crate) fn check(schema: &Schema) -> Result<(), ExportError> {
    Parts::of(schema).map(drop)
}

/// Reads the files of episodes.
pub(crate) fn read_back(
    dataset: &Path,
    from: u64,
    count: u64,
    take: &mut dyn FnMut(&[u8]),
) -> io::Result<()> {
    for number in from..from.saturating_add(count) {
        let episode = dataset.join(DATA).join(number.to_string());
        for path in [episode.join(EPISODE), episode.join(METADATA)] {
            let bytes = path.metadata()?.len();
            take(&bytes.to_le_bytes());
            read_file(&path, 0, bytes, take)?;
        }
    }
    Ok(())
}

/// Removes what was begun after the first `episodes`.
fn clear_after(data: &Path, episodes: u64) -> io::Result<()> {
    for entry in fs::read_dir(data)? {
        let entry = entry?;
        let number = entry.file_name().to_str().and_then(|name| name.parse::<u64>().ok());
        if number.is_some_and(|number| number < episodes) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Which columns of a ring are what in a dataset.
struct Parts<'a> {
    schema: &'a Schema,
    obs: Vec<usize>,
    action: Vec<usize>,
    reward: usize,
    infos: Vec<usize>,
}

impl<'a> Parts<'a> {
    fn of(schema: &'a Schema) -> Result<Self, ExportError> {
        let columns = schema.columns();
        let below = |name: &str, root: &str| {
            name.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let named = |root: &'static str| {
            let at = columns.iter().enumerate().filter(|(_, c)| below(c.name(), root));
            at.map(|(at, _)| at).collect::<Vec<usize>>()
        };
        let lacks = |wanted| {
            let found: Vec<&str> = columns.iter().map(Column::name).collect();
            ExportError::NoColumn { wanted, found: found.join(", ") }
        };
        let (obs, action) = (named("obs"), named("action"));
        let reward = columns.iter().position(|c| c.name() == "reward" && c.items() == 1);
        let observed = |at: &usize| columns.get(*at).is_some_and(|c| c.role() == Role::Obs);
        if obs.is_empty() || !obs.iter().all(observed) {
            return Err(lacks("`obs` (or some below `obs/`) with the role obs"));
        }
        if action.is_empty() {
            return Err(lacks("`action` (or some below `action/`)"));
        }
        let reward = reward.ok_or_else(|| lacks("`reward` with one number a step"))?;
        let used = |at: &usize| obs.contains(at) || action.contains(at) || *at == reward;
        let infos = (0..columns.len()).filter(|at| !used(at)).collect();
        Ok(Self { schema, obs, action, reward, infos })
    }
}

/// Collects the rows of an episode, and writes it when it ends.
struct DatasetWriter<'a> {
    parts: &'a Parts<'a>,
    folder: PathBuf,
    /// Of the episode that is being collected: per column of the schema.
    columns: Vec<Vec<u8>>,
    flags: Vec<u32>,
    /// Of each column, if it is an integer of one element.
    choices: Vec<Choices>,
    report: ExportReport,
    steps: u64,
    /// Episodes whose files are there.
    present: u64,
}

impl<'a> DatasetWriter<'a> {
    fn new(parts: &'a Parts<'a>, folder: PathBuf, present: u64) -> Self {
        let count = parts.schema.columns().len();
        let report = ExportReport { episodes: Some(0), ..ExportReport::default() };
        let (columns, choices) = (vec![Vec::new(); count], vec![None; count]);
        Self { parts, folder, columns, flags: Vec::new(), choices, report, steps: 0, present }
    }

    fn rows(&mut self, rows: &Rows) -> Result<(), Failure> {
        let flags = words(rows, "flags");
        let t = words(rows, "t");
        for (row, (flags, t)) in flags.iter().zip(&t).enumerate() {
            // A row that continues nothing: what was begun ends before it.
            if *t == 0 || flags & GAP != 0 {
                self.cut()?;
            }
            for (column, collected) in self.parts.schema.columns().iter().zip(&mut self.columns) {
                let width = column.width();
                let bytes = rows.bytes(column.name()).unwrap_or_default();
                let bytes = bytes.get(row * width..(row + 1) * width).unwrap_or_default();
                collected.extend_from_slice(bytes);
            }
            self.flags.push(*flags);
            if flags & FINAL != 0 {
                self.episode()?;
            }
        }
        Ok(())
    }

    /// The rows stop where the episode does not: its newest row is the observation after the step
    /// before it.
    fn cut(&mut self) -> Result<(), Failure> {
        if let [.., last, _] = &mut *self.flags {
            *last |= TRUNCATED;
        }
        self.episode()
    }

    /// Writes what was collected, if that is a step and what came after it.
    fn episode(&mut self) -> Result<(), Failure> {
        let rows = self.flags.len();
        if rows >= 2 {
            let number = self.report.episodes.unwrap_or_default();
            let folder = self.folder.join(number.to_string());
            self.count_choices(rows - 1).map_err(Halt::from)?;
            self.report.bytes += if number < self.present {
                folder.join(EPISODE).metadata()?.len()
            } else {
                fs::create_dir(&folder)?;
                let bytes = self.write_rows(&folder.join(EPISODE), rows)?;
                let about = json!({ "id": number, "total_steps": rows - 1 });
                write_json(&folder.join(METADATA), &about)?;
                bytes
            };
            self.report.rows += rows as u64;
            self.report.episodes = Some(number + 1);
            self.steps += rows as u64 - 1;
        }
        self.columns.iter_mut().for_each(Vec::clear);
        self.flags.clear();
        Ok(())
    }

    fn write_rows(&self, path: &Path, rows: usize) -> io::Result<u64> {
        let Parts { obs, action, reward, infos, schema } = self.parts;
        let flag = |mask: u32| {
            // The last row is no step.
            let set = self.flags.iter().take(rows - 1).map(|flags| u8::from(flags & mask != 0));
            let bytes: Vec<u8> = set.chain([0]).collect();
            arrays::array(DType::Bool, &[], &bytes)
        };
        let mut columns = vec![
            self.tree(OBSERVATIONS, obs, "obs"),
            self.tree(ACTIONS, action, "action"),
            (Field::new(REWARDS, self.data_type(*reward), false), self.array(*reward)),
            (Field::new(TERMINATIONS, DataType::Boolean, false), flag(TERMINATED)),
            (Field::new(TRUNCATIONS, DataType::Boolean, false), flag(TRUNCATED)),
        ];
        if !infos.is_empty() {
            let names = infos.iter().filter_map(|at| schema.columns().get(*at));
            let names: Vec<Vec<&str>> =
                names.map(|column| column.name().split('/').collect()).collect();
            columns.push(self.nested(INFOS, infos, &names));
        }
        let (fields, columns): (Vec<Field>, Vec<ArrayRef>) = columns.into_iter().unzip();
        let schema = Arc::new(ArrowSchema::new(fields));
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).map_err(io::Error::other)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_created_by("backcast".to_owned())
            .build();
        let mut file = File::create_new(path)?;
        let mut writer =
            ArrowWriter::try_new(&mut file, schema, Some(properties)).map_err(io::Error::other)?;
        writer.write(&batch).map_err(io::Error::other)?;
        writer.close().map_err(io::Error::other)?;
        file.sync_all()?;
        Ok(file.metadata()?.len())
    }

    /// Columns that are one array, or a struct of those below.
    fn tree(&self, name: &str, at: &[usize], root: &str) -> (Field, ArrayRef) {
        let columns = self.parts.schema.columns();
        let names = at.iter().filter_map(|at| columns.get(*at).map(Column::name));
        let names: Vec<Vec<&str>> = names.map(|name| name.split('/').skip(1).collect()).collect();
        if let ([only], [path]) = (at, &*names)
            && path.is_empty()
            && columns.get(*only).is_some_and(|column| column.name() == root)
        {
            return (Field::new(name, self.data_type(*only), false), self.array(*only));
        }
        self.nested(name, at, &names)
    }

    /// A struct of the columns `at`, under their paths.
    fn nested(&self, name: &str, at: &[usize], paths: &[Vec<&str>]) -> (Field, ArrayRef) {
        let mut fields = Vec::new();
        let mut arrays = Vec::new();
        let mut done: Vec<&str> = Vec::new();
        for (column, path) in at.iter().zip(paths) {
            let Some(first) = path.first().filter(|first| !done.contains(first)) else { continue };
            done.push(first);
            let (field, array) = if path.len() == 1 {
                (Field::new(*first, self.data_type(*column), false), self.array(*column))
            } else {
                let below = || at.iter().zip(paths).filter(|(_, path)| path.first() == Some(first));
                let inner: Vec<usize> = below().map(|(at, _)| *at).collect();
                let rest: Vec<Vec<&str>> = below().map(|(_, path)| path[1..].to_vec()).collect();
                self.nested(first, &inner, &rest)
            };
            fields.push(Arc::new(field));
            arrays.push(array);
        }
        let fields = Fields::from(fields);
        let array = StructArray::new(fields.clone(), arrays, None);
        (Field::new(name, DataType::Struct(fields), false), Arc::new(array))
    }

    fn data_type(&self, at: usize) -> DataType {
        self.array(at).data_type().clone()
    }

    /// A column as Minari has it: a list in each row, but a number for a space of choices or a reward.
    fn array(&self, at: usize) -> ArrayRef {
        let (Some(column), Some(bytes)) =
            (self.parts.schema.columns().get(at), self.columns.get(at))
        else {
            return arrays::array(DType::U8, &[], &[]);
        };
        let (dtype, scalar) = (column.dtype(), column.shape().is_empty());
        if is_choice(column) && !self.parts.infos.contains(&at) {
            // The space has room for those that count.
            let choices = integers(dtype, bytes).map(|value| i64::try_from(value).unwrap_or(0));
            let choices: Vec<u8> = choices.flat_map(i64::to_ne_bytes).collect();
            return arrays::array(DType::I64, &[], &choices);
        }
        let lone = scalar && (at == self.parts.reward || self.parts.infos.contains(&at));
        let items = u32::try_from(column.items()).unwrap_or(u32::MAX);
        let dtype = if dtype == DType::Bool && !lone { DType::I8 } else { dtype };
        arrays::array(dtype, if lone { &[] } else { std::slice::from_ref(&items) }, bytes)
    }

    /// Takes note of the integers that were observed, and of those chosen: the row after the last step chooses
    /// nothing.
    fn count_choices(&mut self, steps: usize) -> Result<(), ExportError> {
        let columns = self.parts.schema.columns().iter().zip(&self.columns).zip(&mut self.choices);
        for (at, ((column, bytes), choices)) in columns.enumerate() {
            if !is_choice(column) || self.parts.infos.contains(&at) {
                continue;
            }
            let rows = steps + usize::from(column.role() == Role::Obs);
            for value in integers(column.dtype(), bytes).take(rows) {
                let Some(more) = space::with_choice(*choices, value) else {
                    let (least, most) = choices.unwrap_or_default();
                    return Err(ExportError::TooManyChoices {
                        column: column.name().to_owned(),
                        value,
                        least: value.min(least.into()),
                        most: value.max(most.into()),
                        limit: space::MOST_CHOICES,
                    });
                };
                *choices = Some(more);
            }
        }
        Ok(())
    }

    /// Writes the words about all of it. They come last: without them it is no dataset.
    fn finish(mut self, to: &Path, is_there: bool) -> io::Result<ExportReport> {
        let columns = self.parts.schema.columns();
        let space = |at: &[usize], root: &str| {
            let of = |at: &usize| Some((columns.get(*at)?, *self.choices.get(*at)?));
            let columns: Vec<_> = at.iter().filter_map(of).collect();
            let choice = |(column, choices): (&'a Column, Choices)| {
                (column, choices.or_else(|| is_choice(column).then_some((0, 0))))
            };
            let columns: Vec<_> = columns.into_iter().map(choice).collect();
            space::of_columns(root, &columns).to_string()
        };
        let id = to.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let about = json!({
            "dataset_id": id,
            "minari_version": MINARI,
            "data_format": "parquet",
            "jpeg_encoding": false,
            "total_episodes": self.report.episodes,
            "total_steps": self.steps,
            "observation_space": space(&self.parts.obs, "obs"),
            "action_space": space(&self.parts.action, "action"),
        });
        if !is_there {
            write_json(&self.folder.join(METADATA), &about)?;
            File::open(&self.folder)?.sync_all()?;
        }
        self.report.bytes += self.folder.join(METADATA).metadata()?.len();
        Ok(self.report)
    }
}

fn write_json(path: &Path, value: &serde_json::Value) -> io::Result<()> {
    let file = File::create_new(path)?;
    serde_json::to_writer_pretty(&file, value)?;
    file.sync_all()
}

/// Whether a column is one integer a row: an action, or an observation, of so many.
fn is_choice(column: &Column) -> bool {
    let number = !matches!(column.dtype(), DType::Bool | DType::F16 | DType::F32 | DType::F64);
    number && column.shape().is_empty() && column.name() != "reward"
}

/// Integers of any type.
fn integers(dtype: DType, bytes: &[u8]) -> impl Iterator<Item = i128> + '_ {
    bytes.chunks_exact(dtype.size()).map(move |bytes| {
        let mut wide = [0; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        let unsigned = u64::from_le_bytes(wide);
        match dtype {
            DType::I8 | DType::I16 | DType::I32 | DType::I64 => {
                let unused = 64 - 8 * u32::try_from(bytes.len()).unwrap_or(8);
                i128::from((unsigned << unused).cast_signed() >> unused)
            }
            _ => i128::from(unsigned),
        }
    })
}

fn words(rows: &Rows, name: &str) -> Vec<u32> {
    rows.column::<u32>(name).map(<[u32]>::to_vec).unwrap_or_default()
}
