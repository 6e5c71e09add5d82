//! From the rows of a ring to the folders of a dataset.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use backcast_core::{Column, FINAL, GAP, Role, Rows, Schema, TRUNCATED};
use serde_json::json;

use super::episode_file::EpisodeData;
use super::notes::Notes;
use super::parts::Parts;
use super::space::{self, Choices};
use super::{DATA, EPISODE, METADATA, NOTES};
use crate::episodes::part;
use crate::error::ExportError;
use crate::export::{ExportReport, Failure};
use crate::integers::integers;
use crate::partial::{Partial, read_file};
use crate::row_reader::{Halt, RowReader};
use crate::rows_hash::RowsHash;

/// The version of Minari whose layout this is.
const MINARI: &str = "0.5.4";

/// Writes the dataset into the folder that it is made in.
pub(crate) fn write(
    reader: &mut RowReader<'_, '_>,
    partial: &mut Partial,
    to: &Path,
) -> Result<ExportReport, Failure> {
    let ring = reader.ring();
    let parts = Parts::of(ring.schema()).map_err(Halt::from)?;
    let data = partial.path().join(DATA);
    if !partial.is_named() {
        fs::create_dir_all(&data)?;
        clear_after(&data, partial.end())?;
    }
    let mut writer = DatasetWriter::new(&parts, data, partial.end(), &reader.spans());
    let known = partial.units().len();
    for number in 0.. {
        let mut hash = RowsHash::default();
        let rows = reader.read_unit(|lane, rows| {
            hash.add(lane, rows);
            writer.rows(lane, rows)
        })?;
        if reader.is_over() || rows == 0 {
            writer.cut_all()?;
        }
        if rows == 0 {
            break;
        }
        if number >= known && reader.is_undisturbed() {
            let to = writer.report.episodes.unwrap_or_default();
            partial.add(rows, hash.finish(), to, String::new())?;
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

/// The rows of a lane's episode that were read so far.
struct OpenEpisode {
    /// One past its last row.
    next: u64,
    /// Per column of the schema.
    columns: Vec<Vec<u8>>,
    flags: Vec<u32>,
}

/// Collects the rows of episodes, of each lane one, and writes them when they end.
struct DatasetWriter<'a> {
    parts: &'a Parts<'a>,
    folder: PathBuf,
    /// Per lane, one past its last row.
    ends: Vec<u64>,
    /// Episodes that are being collected, by lane.
    open: BTreeMap<u32, OpenEpisode>,
    /// Of each column, if it is an integer of one element.
    choices: Vec<Choices>,
    report: ExportReport,
    steps: u64,
    /// Episodes whose files are there.
    present: u64,
}

impl<'a> DatasetWriter<'a> {
    fn new(parts: &'a Parts<'a>, folder: PathBuf, present: u64, spans: &[Range<u64>]) -> Self {
        let choices = vec![None; parts.schema.columns().len()];
        let report = ExportReport { episodes: Some(0), ..ExportReport::default() };
        let ends = spans.iter().map(|span| span.end).collect();
        Self { parts, folder, ends, open: BTreeMap::new(), choices, report, steps: 0, present }
    }

    fn rows(&mut self, lane: u32, rows: &Rows) -> Result<(), Failure> {
        let schema = self.parts.schema;
        let columns = schema.columns().iter();
        let columns: Vec<(&Column, &[u8])> =
            columns.map(|column| (column, rows.bytes(column.name()).unwrap_or_default())).collect();
        let marks = words(rows, "flags").into_iter().zip(words(rows, "t"));
        for (row, (seq, (flags, t))) in rows.place().1.zip(marks).enumerate() {
            // Rows before it were overwritten, or it continues none of them: what was begun ends there.
            let goes_on = self.open.get(&lane).is_some_and(|open| open.next == seq);
            if !goes_on || t == 0 || flags & GAP != 0 {
                self.cut(lane)?;
            }
            let open = self.open.entry(lane).or_insert_with(|| OpenEpisode {
                next: seq,
                columns: vec![Vec::new(); columns.len()],
                flags: Vec::new(),
            });
            for ((column, bytes), collected) in columns.iter().zip(&mut open.columns) {
                collected.extend_from_slice(part(column, bytes, row, row + 1));
            }
            open.flags.push(flags);
            open.next = seq + 1;
            if flags & FINAL != 0 {
                self.end(lane)?;
            } else if self.ends.get(lane as usize) == Some(&(seq + 1)) {
                self.cut(lane)?;
            }
        }
        Ok(())
    }

    /// Ends every episode that is open.
    fn cut_all(&mut self) -> Result<(), Failure> {
        while let Some((lane, _)) = self.open.first_key_value() {
            self.cut(*lane)?;
        }
        Ok(())
    }

    /// Ends a lane's episode where its rows stop: its newest row is the observation after the step before
    /// it, which is truncated.
    fn cut(&mut self, lane: u32) -> Result<(), Failure> {
        if let Some([.., last, _]) = self.open.get_mut(&lane).map(|open| &mut *open.flags) {
            *last |= TRUNCATED;
        }
        self.end(lane)
    }

    /// Writes a lane's episode, if that is a step and what came after it.
    fn end(&mut self, lane: u32) -> Result<(), Failure> {
        let Some(episode) = self.open.remove(&lane) else { return Ok(()) };
        let rows = episode.flags.len();
        if rows < 2 {
            return Ok(());
        }
        let number = self.report.episodes.unwrap_or_default();
        let folder = self.folder.join(number.to_string());
        self.count_choices(&episode).map_err(Halt::from)?;
        self.report.bytes += if number < self.present {
            folder.join(EPISODE).metadata()?.len()
        } else {
            fs::create_dir(&folder)?;
            let OpenEpisode { columns, flags, .. } = &episode;
            let bytes =
                EpisodeData { parts: self.parts, columns, flags }.write(&folder.join(EPISODE))?;
            let about = json!({ "id": number, "total_steps": rows - 1 });
            write_json(&folder.join(METADATA), &about)?;
            bytes
        };
        self.report.rows += rows as u64;
        self.report.episodes = Some(number + 1);
        self.steps += rows as u64 - 1;
        Ok(())
    }

    /// Notes the integers that were observed, and those chosen: the row after the last step chooses nothing.
    fn count_choices(&mut self, episode: &OpenEpisode) -> Result<(), ExportError> {
        let columns = self.parts.schema.columns().iter().zip(&episode.columns);
        for (at, ((column, bytes), choices)) in columns.zip(&mut self.choices).enumerate() {
            if !self.parts.is_choice(at) {
                continue;
            }
            let rows = episode.flags.len() - usize::from(column.role() != Role::Obs);
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

    /// Writes what there is to say of all episodes. It comes last: without it there is no dataset.
    fn finish(mut self, to: &Path, is_there: bool) -> io::Result<ExportReport> {
        let parts = self.parts;
        let columns = parts.schema.columns();
        let space = |at: &[usize], root: &str| {
            let of = |at: &usize| {
                let choices = *self.choices.get(*at)?;
                Some((
                    columns.get(*at)?,
                    choices.or_else(|| parts.is_choice(*at).then_some((0, 0))),
                ))
            };
            let columns: Vec<(&Column, Choices)> = at.iter().filter_map(of).collect();
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
            "observation_space": space(&parts.obs, parts.obs_root),
            "action_space": space(&parts.action, parts.action_root),
            NOTES: Notes::of(parts),
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

fn words(rows: &Rows, name: &str) -> Vec<u32> {
    rows.column::<u32>(name).map(<[u32]>::to_vec).unwrap_or_default()
}
