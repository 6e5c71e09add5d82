//! NumPy's `.npz`: arrays of plain steps, all with one row per step, become the episodes of one lane.
//!
//! The header of an array is read here: a few words of a fixed form. The archive is a library's.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

use backcast_core::{Capacity, DType, Ring, RingOptions, Role, Schema};
use backcast_files::parquet::caught;
use zip::ZipArchive;

use crate::episodes::{Episode, EpisodeRows, part};
use crate::error::ImportError;
use crate::import::{ImportOptions, ImportReport};
use crate::sink::Sink;

/// A file may unpack to so many times its own size ...
const MOST_UNPACKED: u64 = 1000;
/// ... and any file to this much.
const SMALL_BYTES: u64 = 256 << 20;
/// Longest header of an array that is read.
const MOST_HEADER: usize = 1 << 16;

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
    let steps = Steps::of(from, arrays(from)?)?;
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
        for (number, range) in (0..).zip(&episodes) {
            steps.with_episode(range, |episode| put.put(number, episode, &mut sink))?;
            sink.step()?;
        }
        Ok::<(), ImportError>(())
    })?;
    let open_end = episodes.last().is_some_and(|range| !steps.has_final(range));
    let cut = steps.jumps.iter().filter(|jumps| **jumps).count();
    Ok((
        ring,
        ImportReport {
            rows,
            episodes: Some(episodes.len() as u64),
            rows_without_successor: u64::from(open_end),
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
                None => return Err(bad(name, "is a single value; give one row per step".into())),
                Some(rows) if *rows != count => {
                    let what = format!("has {rows} rows, and `{first}` has {count}; give as many");
                    return Err(bad(name, what));
                }
                Some(_) => {}
            }
        }
        let mut flags = |name: &str| match arrays.iter().position(|array| array.name == name) {
            None => Ok(None),
            Some(at) => {
                let array = arrays.swap_remove(at);
                if array.shape.len() != 1 {
                    let shape = array.shape;
                    return Err(bad(
                        name,
                        format!("has the shape {shape:?}; give one flag per step"),
                    ));
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
        let cut =
            steps.truncated.iter().zip(&steps.terminated).filter(|(cut, end)| **cut && !**end);
        let cut = cut.count();
        let observed = steps.schema.columns().iter().any(|column| column.role() == Role::Obs);
        if cut > 0 && observed && steps.next_obs.is_none() {
            let what = format!(
                "is missing, and {cut} steps are truncated: what was observed after them cannot be \
                 made up; add it, or leave out the episodes that they end"
            );
            return Err(bad("next_obs", what));
        }
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

    /// Whether an episode gets a row for what was observed after it.
    fn has_final(&self, range: &Range<usize>) -> bool {
        self.next_obs.is_some() || self.ends(range.end - 1) != (false, false)
    }

    fn rows_of(&self, range: &Range<usize>) -> u64 {
        range.len() as u64 + u64::from(self.has_final(range))
    }

    fn with_episode<R>(&self, range: &Range<usize>, work: impl FnOnce(&Episode<'_>) -> R) -> R {
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
        })
    }
}

/// Every array of the file, by the names that a ring uses.
fn arrays(path: &Path) -> Result<Vec<Array>, ImportError> {
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
    let mut arrays: Vec<Array> = Vec::new();
    let mut total = 0_u64;
    for at in 0..archive.len() {
        let read = caught(|| entry(&mut archive, at, limit.saturating_sub(total)));
        let (name, found) = read.unwrap_or_else(|what| (format!("entry {at}"), Err(what)));
        let Some(name) = name.strip_suffix(".npy") else { continue };
        let array = found.map_err(|what| damaged(&format!("array `{name}`"), what))?;
        total += array.bytes.len() as u64;
        if let Some(twin) = arrays.iter().find(|other| other.name == array.name) {
            let what = format!("means the same as another one, `{}`; leave one out", twin.name);
            return Err(ImportError::Array { path: path.to_owned(), name: name.to_owned(), what });
        }
        arrays.push(array);
    }
    Ok(arrays)
}

/// One file of the archive.
fn entry(archive: &mut ZipArchive<File>, at: usize, limit: u64) -> (String, Result<Array, String>) {
    let mut entry = match archive.by_index(at) {
        Ok(entry) => entry,
        Err(error) => return (format!("entry {at}.npy"), Err(error.to_string())),
    };
    let file_name = match entry.name() {
        Ok(name) => name.into_owned(),
        Err(error) => return (format!("entry {at}.npy"), Err(error.to_string())),
    };
    let array = match file_name.strip_suffix(".npy") {
        Some(name) => read_array(&mut entry, limit).map(|(dtype, shape, bytes)| {
            let name = our_name(name);
            Array { name, dtype, shape, bytes }
        }),
        None => Err("it is no array".to_owned()),
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

/// Type, shape and numbers of an array in NumPy's format, versions 1 to 3.
fn read_array(input: &mut impl Read, limit: u64) -> Result<(DType, Vec<u64>, Vec<u8>), String> {
    let mut lead = [0; 8];
    input.read_exact(&mut lead).map_err(|error| error.to_string())?;
    if lead[..6] != *b"\x93NUMPY" {
        return Err("it does not begin as an array of NumPy does".to_owned());
    }
    let mut length = [0; 4];
    let width = if lead[6] == 1 { 2 } else { 4 };
    input.read_exact(&mut length[..width]).map_err(|error| error.to_string())?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MOST_HEADER {
        return Err(format!("its header has {length} bytes; the limit is {MOST_HEADER}"));
    }
    let mut header = vec![0; length];
    input.read_exact(&mut header).map_err(|error| error.to_string())?;
    let header = String::from_utf8(header).map_err(|_| "its header is no text".to_owned())?;
    let (dtype, shape) = parse_header(&header)?;
    let bytes = shape.iter().try_fold(dtype.size() as u64, |bytes, axis| bytes.checked_mul(*axis));
    let bytes = bytes.filter(|bytes| *bytes <= limit).ok_or_else(|| {
        format!("the shape {shape:?} of {dtype} unpacks to more than {limit} bytes")
    })?;
    let mut numbers = Vec::new();
    // Grows with what is there, not with what is claimed.
    input.take(bytes).read_to_end(&mut numbers).map_err(|error| error.to_string())?;
    if numbers.len() as u64 != bytes {
        return Err(format!("it has {} bytes of numbers, not {bytes}", numbers.len()));
    }
    if dtype == DType::Bool {
        for byte in &mut numbers {
            *byte = u8::from(*byte != 0);
        }
    }
    Ok((dtype, shape, numbers))
}

/// `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`
fn parse_header(header: &str) -> Result<(DType, Vec<u64>), String> {
    let after = |key: &str| {
        let at = header.find(&format!("'{key}'"))? + key.len() + 2;
        Some(header.get(at..)?.trim_start().strip_prefix(':')?.trim_start())
    };
    let lacks = |key: &str| format!("its header lacks `{key}`: {}", header.trim());
    let descr = after("descr").ok_or_else(|| lacks("descr"))?;
    let descr = descr.strip_prefix('\'').and_then(|text| text.split('\'').next());
    let descr = descr.ok_or("it is an array of records; give one array per column")?;
    let order = after("fortran_order").ok_or_else(|| lacks("fortran_order"))?;
    let shape = after("shape").ok_or_else(|| lacks("shape"))?;
    let shape = shape.strip_prefix('(').and_then(|text| text.split(')').next());
    let shape: Option<Vec<u64>> =
        shape.map(|text| text.split(',').map(str::trim)).and_then(|axes| {
            axes.filter(|axis| !axis.is_empty()).map(|axis| axis.parse().ok()).collect()
        });
    let shape = shape.ok_or_else(|| lacks("shape"))?;
    if order.starts_with("True") && shape.len() > 1 {
        return Err("it lies column by column; save numpy.ascontiguousarray(it)".to_owned());
    }
    let dtype = match descr {
        "|b1" | "?" => DType::Bool,
        code => {
            let (order, code) = code.split_at_checked(1).unwrap_or(("", code));
            let dtype: Option<DType> = code.parse().ok();
            match dtype {
                Some(dtype) if order != ">" || dtype.size() == 1 => dtype,
                Some(_) => return Err(format!("it is big-endian ({descr}); save it as '<{code}'")),
                None => {
                    return Err(format!(
                        "its elements are {descr}, which no column can hold; save numbers or flags"
                    ));
                }
            }
        }
    };
    Ok((dtype, shape))
}
