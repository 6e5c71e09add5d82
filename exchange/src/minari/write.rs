//! Writes the rows of a ring as the folders of a dataset.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use backcast_core::{Column, FINAL, GAP, Role, Rows, Schema, TRUNCATED};
use serde_json::json;

use super::episode_file::EpisodeData;
use super::notes::RingColumns;
use super::parts::DatasetParts;
use super::space::{self, Choices};
use super::{DATA, EPISODE, METADATA, NOTES};
use crate::error::{ExportError, WriteFailure};
use crate::integers::integers;
use crate::report::ExportReport;
use crate::rows::{RowReader, part};

/// Version of Minari that defines the layout.
const MINARI: &str = "0.5.4";

/// Makes the new folder `path` of a dataset, and forces it to disk. The dataset will have the name
/// of `to`.
pub(crate) fn write(
    reader: &mut RowReader<'_, '_>,
    path: &Path,
    to: &Path,
) -> Result<ExportReport, WriteFailure> {
    let parts = DatasetParts::of(reader.ring().schema())?;
    let data = path.join(DATA);
    fs::create_dir_all(&data)?;
    let mut writer = DatasetWriter::new(&parts, data, &reader.spans());
    while reader.read_group(|lane, rows| writer.rows(lane, rows))? > 0 {}
    writer.cut_all()?;
    Ok(writer.finish(to)?)
}

/// Checks that a dataset can be made of a ring.
pub(crate) fn check(schema: &Schema) -> Result<(), ExportError> {
    DatasetParts::of(schema).map(drop)
}

/// Rows of a lane's current episode.
struct OpenEpisode {
    /// One past the episode's last row.
    next: u64,
    /// Bytes by column of the schema.
    columns: Vec<Vec<u8>>,
    flags: Vec<u32>,
}

/// Writer of a dataset. Collects the current episode of every lane and writes it when it ends.
struct DatasetWriter<'a> {
    parts: &'a DatasetParts<'a>,
    folder: PathBuf,
    /// One past the last row, by lane.
    ends: Vec<u64>,
    /// Current episodes by lane.
    open: BTreeMap<u32, OpenEpisode>,
    /// Range of values by column, for scalar integers of observations and actions.
    choices: Vec<Choices>,
    report: ExportReport,
    steps: u64,
}

impl<'a> DatasetWriter<'a> {
    fn new(parts: &'a DatasetParts<'a>, folder: PathBuf, spans: &[Range<u64>]) -> Self {
        let choices = vec![None; parts.schema.columns().len()];
        let report = ExportReport { episodes: Some(0), ..ExportReport::default() };
        let ends = spans.iter().map(|span| span.end).collect();
        Self { parts, folder, ends, open: BTreeMap::new(), choices, report, steps: 0 }
    }

    fn rows(&mut self, lane: u32, rows: &Rows) -> Result<(), WriteFailure> {
        let schema = self.parts.schema;
        let columns = schema.columns().iter();
        let columns: Vec<(&Column, &[u8])> =
            columns.map(|column| (column, rows.bytes(column.name()).unwrap_or_default())).collect();
        let marks = u32_column(rows, "flags").into_iter().zip(u32_column(rows, "t"));
        for (row, (seq, (flags, t))) in rows.place().1.zip(marks).enumerate() {
            // A row starts another episode if its predecessor was not read, it is the first of its
            // episode, or it follows a gap.
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

    /// Ends every current episode.
    fn cut_all(&mut self) -> Result<(), WriteFailure> {
        while let Some((lane, _)) = self.open.first_key_value() {
            self.cut(*lane)?;
        }
        Ok(())
    }

    /// Ends a lane's episode where its rows stop: the last row becomes the final observation, and
    /// the step before it is truncated.
    fn cut(&mut self, lane: u32) -> Result<(), WriteFailure> {
        if let Some([.., last, _]) = self.open.get_mut(&lane).map(|open| &mut *open.flags) {
            *last |= TRUNCATED;
        }
        self.end(lane)
    }

    /// Writes a lane's episode if it has at least one step.
    fn end(&mut self, lane: u32) -> Result<(), WriteFailure> {
        let Some(episode) = self.open.remove(&lane) else { return Ok(()) };
        let rows = episode.flags.len();
        if rows < 2 {
            return Ok(());
        }
        let number = self.report.episodes.unwrap_or_default();
        let folder = self.folder.join(number.to_string());
        self.count_choices(&episode)?;
        fs::create_dir(&folder)?;
        let OpenEpisode { columns, flags, .. } = &episode;
        let file = EpisodeData { parts: self.parts, columns, flags };
        self.report.bytes += file.write(&folder.join(EPISODE))?;
        let about = json!({ "id": number, "total_steps": rows - 1 });
        write_json(&folder.join(METADATA), &about)?;
        // The names of both files.
        File::open(&folder)?.sync_all()?;
        self.report.rows += rows as u64;
        self.report.episodes = Some(number + 1);
        self.steps += rows as u64 - 1;
        Ok(())
    }

    /// Widens the ranges of integer observations and actions. The last row has no action.
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
                        limit: space::MAX_CHOICES,
                    });
                };
                *choices = Some(more);
            }
        }
        Ok(())
    }

    /// Writes the metadata of the dataset.
    fn finish(mut self, to: &Path) -> io::Result<ExportReport> {
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
            NOTES: RingColumns::of(parts),
        });
        write_json(&self.folder.join(METADATA), &about)?;
        File::open(&self.folder)?.sync_all()?;
        self.report.bytes += self.folder.join(METADATA).metadata()?.len();
        Ok(self.report)
    }
}

fn write_json(path: &Path, value: &serde_json::Value) -> io::Result<()> {
    let file = File::create_new(path)?;
    serde_json::to_writer_pretty(&file, value)?;
    file.sync_all()
}

fn u32_column(rows: &Rows, name: &str) -> Vec<u32> {
    rows.column::<u32>(name).map(<[u32]>::to_vec).unwrap_or_default()
}
