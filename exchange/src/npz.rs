//! NumPy's `.npz`: arrays of plain steps, all with one row per step, become the episodes of one lane.
//!
//! The archive is a library's; `npy` reads an array of it.

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use backcast_core::{Capacity, DType, Ring, RingOptions, Role, Schema};
use backcast_files::parquet::caught;
use zip::ZipArchive;

use crate::episodes::{Episode, EpisodeRows, part};
use crate::error::ImportError;
use crate::import::{ImportOptions, ImportReport};
use crate::leave_out::{self, LeaveOut};
use crate::npy::{self, Unread};
use crate::sink::Sink;

/// A file may unpack to so many times its own size ...
const MOST_UNPACKED: u64 = 1000;
/// ... and any file to this much.
const SMALL_BYTES: u64 = 256 << 20;

/// What other programs call the same things.
const NAMES: [(&str, &[&str]); 6] = [
    ("obs", &["observations", "observation", "states"]),
    ("action", &["actions"]),
    ("reward", &["rewards", "rew"]),
    ("terminated", &["terminations", "terminals", "dones", "done"]),
    ("truncated", &["truncations", "timeouts"]),
    ("next_obs", &["next_observations", "next_observation", "next_states"]),
];

/// One array of the file.
#[derive(Debug)]
struct Array {
    /// As a ring calls it.
    name: String,
    dtype: DType,
    /// Rows first.
    shape: Vec<u64>,
    bytes: Vec<u8>,
}

/// Makes a ring of one lane of the steps in a file.
pub(crate) fn read(
    from: &Path,
    options: ImportOptions<'_>,
) -> Result<(Ring, ImportReport), ImportError> {
    let steps = Steps::of(from, arrays(from, &options.leave_out)?)?;
    let episodes: Vec<Range<usize>> = steps.episodes();
    let rows: u64 = episodes.iter().map(|range| steps.rows_of(range)).sum();
    if options.capacity.is_some_and(|asked| asked < rows) {
        let asked = options.capacity.unwrap_or_default();
        return Err(ImportError::Capacity { asked, rows });
    }
    let capacity = options.capacity.unwrap_or(rows).max(1);
    let made = options.of_ring(RingOptions::with_capacity(Capacity::Rows(capacity)));
    let mut on_progress = options.progress;
    let ring = Ring::restore(&options.name, &steps.schema, made, |filling| {
        filling.begin(0, 0..rows)?;
        let mut sink = Sink::new(filling, &steps.schema, rows, &mut on_progress);
        let mut put = EpisodeRows::new(&steps.schema);
        let mut after_gap = false;
        for (number, range) in (0..).zip(&episodes) {
            steps.with_episode(range, after_gap, |episode| put.put(number, episode, &mut sink))?;
            after_gap = !steps.has_final(range);
            sink.step()?;
        }
        Ok::<(), ImportError>(())
    })?;
    let open_ends = episodes.iter().filter(|range| !steps.has_final(range)).count();
    let cut = steps.jumps.iter().filter(|jumps| **jumps).count();
    Ok((
        ring,
        ImportReport {
            rows,
            episodes: Some(episodes.len() as u64),
            rows_without_successor: open_ends as u64,
            episodes_cut: cut as u64,
            ..ImportReport::default()
        },
    ))
}

/// Plain steps: columns of equal length, and where episodes end.
#[derive(Debug)]
struct Steps {
    schema: Schema,
    count: usize,
    /// Per column of the schema.
    columns: Vec<Vec<u8>>,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
    /// Per column of role obs, if the file has them.
    next_obs: Option<Vec<Vec<u8>>>,
    /// Steps that no flag ends, and after which the next one begins elsewhere than they led: a buffer that
    /// was shuffled or went round, or episodes whose time limits were not stored.
    jumps: Vec<bool>,
}

impl Steps {
    fn of(path: &Path, mut arrays: Vec<Array>) -> Result<Self, ImportError> {
        let bad = |name: &str, what: String| ImportError::Array {
            path: path.to_owned(),
            name: name.to_owned(),
            what,
        };
        let count = match arrays.first() {
            Some(first) => first.shape.first().copied().unwrap_or(0),
            None => return Err(bad("obs", "is missing: the file has no array".to_owned())),
        };
        let first = arrays.first().map(|array| array.name.clone()).unwrap_or_default();
        for Array { name, shape, .. } in &arrays {
            match shape.first() {
                None => {
                    let what = format!(
                        "is a single value; give one row per step, or {}",
                        leave_out::remedy(name)
                    );
                    return Err(bad(name, what));
                }
                Some(rows) if *rows != count => {
                    let out = leave_out::remedy(name);
                    let what = format!(
                        "has {rows} rows, and `{first}` has {count}; give as many, or {out}"
                    );
                    return Err(bad(name, what));
                }
                Some(_) => {}
            }
        }
        let mut flags = |name: &str| match arrays.iter().position(|array| array.name == name) {
            None => Ok(None),
            Some(at) => {
                let array = arrays.swap_remove(at);
                if array.shape.iter().skip(1).any(|axis| *axis != 1) {
                    let shape = array.shape;
                    let what = format!("has the shape {shape:?}; give one flag per step");
                    return Err(bad(name, what));
                }
                let width = array.dtype.size();
                let nonzero = |bytes: &[u8]| bytes.iter().any(|byte| *byte != 0);
                Ok(Some(array.bytes.chunks_exact(width).map(nonzero).collect::<Vec<bool>>()))
            }
        };
        let none = || vec![false; usize::try_from(count).unwrap_or(0)];
        let terminated = flags("terminated")?.unwrap_or_else(none);
        let truncated = flags("truncated")?.unwrap_or_else(none);
        let (next, mut own): (Vec<Array>, Vec<Array>) =
            arrays.into_iter().partition(|array| array.name.starts_with("next_obs"));
        // In the order of names, since the order in an archive means nothing.
        own.sort_by(|a, b| a.name.cmp(&b.name));
        let mut builder = Schema::builder();
        for Array { name, dtype, shape, .. } in &own {
            let axes: Option<Vec<u32>> =
                shape.iter().skip(1).map(|axis| u32::try_from(*axis).ok()).collect();
            let axes = axes.ok_or_else(|| bad(name, format!("has the shape {shape:?}")))?;
            builder = builder.column(name, *dtype, &axes);
        }
        let schema = builder
            .build()
            .map_err(|source| ImportError::Schema { path: path.to_owned(), source })?;
        let next_obs = Self::next_obs(&bad, &own, next, &schema)?;
        let count = usize::try_from(count).unwrap_or(0);
        let columns = own.into_iter().map(|array| array.bytes).collect();
        let jumps = vec![false; count];
        let mut steps = Self { schema, count, columns, terminated, truncated, next_obs, jumps };
        steps.jumps = (0..count).map(|step| steps.jumps_after(step)).collect();
        Ok(steps)
    }

    /// What follows each step, in the order of the columns of role obs.
    fn next_obs(
        bad: &impl Fn(&str, String) -> ImportError,
        own: &[Array],
        mut next: Vec<Array>,
        schema: &Schema,
    ) -> Result<Option<Vec<Vec<u8>>>, ImportError> {
        if next.is_empty() {
            return Ok(None);
        }
        let mut found = Vec::new();
        for column in schema.columns().iter().filter(|column| column.role() == Role::Obs) {
            let name = format!("next_{}", column.name());
            let at = next.iter().position(|array| array.name == name);
            let array = at.map(|at| next.swap_remove(at));
            let array = array.ok_or_else(|| {
                bad(&name, "is missing, though another next observation is there".to_owned())
            })?;
            let like = own.iter().find(|array| array.name == column.name());
            if like.is_some_and(|like| (like.dtype, &like.shape) != (array.dtype, &array.shape)) {
                let what = format!("differs from `{}` in type or shape", column.name());
                return Err(bad(&name, what));
            }
            found.push(array.bytes);
        }
        match next.first() {
            Some(array) => {
                let what = "has no observation that it follows; leave it out".to_owned();
                Err(bad(&array.name, what))
            }
            None => Ok(Some(found)),
        }
    }

    /// Whether the step goes on, and what it led to is not what the next one begins with. Bytes are compared:
    /// a NaN equals itself, and what is stored is what was given.
    fn jumps_after(&self, step: usize) -> bool {
        let Some(next) = &self.next_obs else { return false };
        if step + 1 >= self.count || self.ends(step) != (false, false) {
            return false;
        }
        let columns = self.schema.columns().iter().zip(&self.columns);
        let mut obs = columns.filter(|(column, _)| column.role() == Role::Obs).zip(next);
        obs.any(|((column, own), next)| {
            part(column, next, step, step + 1) != part(column, own, step + 1, step + 2)
        })
    }

    fn ends(&self, step: usize) -> (bool, bool) {
        let flag = |flags: &[bool]| flags.get(step).copied().unwrap_or(false);
        (flag(&self.terminated), flag(&self.truncated) || flag(&self.jumps))
    }

    /// Steps of each episode; the last one may go on after the data.
    fn episodes(&self) -> Vec<Range<usize>> {
        let mut episodes = Vec::new();
        let mut from = 0;
        for step in 0..self.count {
            if self.ends(step) != (false, false) || step + 1 == self.count {
                episodes.push(from..step + 1);
                from = step + 1;
            }
        }
        episodes
    }

    /// Whether an episode gets a row for what was observed after it. That of a truncated one has to be known,
    /// since a learner asks for it.
    fn has_final(&self, range: &Range<usize>) -> bool {
        let (terminated, truncated) = self.ends(range.end - 1);
        let observed = || self.schema.columns().iter().any(|column| column.role() == Role::Obs);
        self.next_obs.is_some() || terminated || truncated && !observed()
    }

    fn rows_of(&self, range: &Range<usize>) -> u64 {
        range.len() as u64 + u64::from(self.has_final(range))
    }

    fn with_episode<R>(
        &self,
        range: &Range<usize>,
        after_gap: bool,
        work: impl FnOnce(&Episode<'_>) -> R,
    ) -> R {
        let columns = self.schema.columns();
        let parts: Vec<&[u8]> = columns
            .iter()
            .zip(&self.columns)
            .map(|(column, bytes)| part(column, bytes, range.start, range.end))
            .collect();
        let obs = || columns.iter().filter(|column| column.role() == Role::Obs);
        let unknown: Vec<Vec<u8>> = obs().map(|column| vec![0; column.width()]).collect();
        let finals: Vec<&[u8]> = match &self.next_obs {
            Some(next) => obs()
                .zip(next)
                .map(|(column, bytes)| part(column, bytes, range.end - 1, range.end))
                .collect(),
            // Of a terminated episode nobody asks for it.
            None => unknown.iter().map(Vec::as_slice).collect(),
        };
        let (terminated, truncated) = self.ends(range.end - 1);
        work(&Episode {
            steps: range.len(),
            columns: &parts,
            final_obs: self.has_final(range).then_some(&finals),
            terminated,
            // The data stop where the episode does not.
            truncated: truncated || (!terminated && self.has_final(range)),
            after_gap,
        })
    }
}

/// Every array of the file but those left out, by the names that a ring uses.
fn arrays(path: &Path, leave_out: &LeaveOut) -> Result<Vec<Array>, ImportError> {
    let unreadable = |source| ImportError::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    let file_bytes = file.metadata().map_err(unreadable)?.len();
    let limit = SMALL_BYTES.max(file_bytes.saturating_mul(MOST_UNPACKED));
    let damaged = |part: &str, what: String| ImportError::Damaged {
        path: path.to_owned(),
        part: part.to_owned(),
        what,
    };
    let mut archive = caught(|| ZipArchive::new(file))
        .and_then(|archive| archive.map_err(|error| error.to_string()))
        .map_err(|what| damaged("the archive", what))?;
    let (mut arrays, mut names) = (Vec::<Array>::new(), Vec::new());
    let mut total = 0_u64;
    for at in 0..archive.len() {
        let left = limit.saturating_sub(total);
        let read = caught(|| entry(&mut archive, at, left, leave_out));
        let (name, found) =
            read.unwrap_or_else(|what| (format!("entry {at}.npy"), Err(Unread::Damaged(what))));
        let Some(name) = name.strip_suffix(".npy") else { continue };
        names.extend([name.to_owned(), our_name(name)]);
        let of_array =
            |what| ImportError::Array { path: path.to_owned(), name: name.to_owned(), what };
        let array = match found {
            Ok(None) => continue,
            Ok(Some(array)) => array,
            Err(Unread::Damaged(what)) => return Err(damaged(&format!("array `{name}`"), what)),
            Err(Unread::Unfit(what)) => {
                return Err(of_array(format!("{what}, or {}", leave_out::remedy(name))));
            }
        };
        total += array.bytes.len() as u64;
        if let Some(twin) = arrays.iter().find(|other| other.name == array.name) {
            let (twin, remedy) = (&twin.name, leave_out::remedy(name));
            return Err(of_array(format!("means the same as another one, `{twin}`; {remedy}")));
        }
        arrays.push(array);
    }
    names.dedup();
    leave_out.check(path, &names)?;
    Ok(arrays)
}

/// One file of the archive; `None` is one that is left out.
fn entry(
    archive: &mut ZipArchive<File>,
    at: usize,
    limit: u64,
    leave_out: &LeaveOut,
) -> (String, Result<Option<Array>, Unread>) {
    let unnamed = |what| (format!("entry {at}.npy"), Err(Unread::Damaged(what)));
    let mut entry = match archive.by_index(at) {
        Ok(entry) => entry,
        Err(error) => return unnamed(error.to_string()),
    };
    let file_name = match entry.name() {
        Ok(name) => name.into_owned(),
        Err(error) => return unnamed(error.to_string()),
    };
    let array = match file_name.strip_suffix(".npy") {
        Some(name) if leave_out.has(&[name, &our_name(name)]) => Ok(None),
        Some(name) => npy::read(&mut entry, limit).map(|(dtype, shape, bytes)| {
            let name = our_name(name);
            Some(Array { name, dtype, shape, bytes })
        }),
        None => Ok(None),
    };
    (file_name, array)
}

/// What a ring calls it: `observations/x` is `obs/x`.
fn our_name(theirs: &str) -> String {
    let (first, rest) = theirs.split_once('/').map_or((theirs, None), |(a, b)| (a, Some(b)));
    let ours =
        NAMES.iter().find(|(_, names)| names.contains(&first)).map_or(first, |(ours, _)| ours);
    rest.map_or_else(|| ours.to_owned(), |rest| format!("{ours}/{rest}"))
}
