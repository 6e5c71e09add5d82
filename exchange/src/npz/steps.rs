//! Plain steps, and the episodes that they make.

use std::ops::Range;
use std::path::Path;

use backcast_core::{Role, Schema};

use super::archive::NpzArray;
use crate::error::ImportError;
use crate::leave_out;
use crate::rows::{EpisodeSteps, part};

/// Columns of plain steps, and the flags that end episodes.
#[derive(Debug)]
pub(super) struct Steps {
    pub(super) schema: Schema,
    count: usize,
    /// Bytes by column of the schema.
    columns: Vec<Vec<u8>>,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
    /// Bytes of the next observations by column of role obs, if the file has them.
    next_obs: Option<Vec<Vec<u8>>>,
    /// Whether `next_obs` of a step without a flag differs from the next step's observation. Then
    /// the buffer was shuffled or wrapped, or time limits were not stored.
    pub(super) jumps: Vec<bool>,
}

impl Steps {
    pub(super) fn of(path: &Path, mut arrays: Vec<NpzArray>) -> Result<Self, ImportError> {
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
        for NpzArray { name, shape, .. } in &arrays {
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
        let (next, mut own): (Vec<NpzArray>, Vec<NpzArray>) =
            arrays.into_iter().partition(|array| array.name.starts_with("next_obs"));
        // The order in an archive has no meaning.
        own.sort_by(|a, b| a.name.cmp(&b.name));
        let mut builder = Schema::builder();
        for NpzArray { name, dtype, shape, .. } in &own {
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

    /// Returns the next observations in the order of the columns of role obs.
    fn next_obs(
        bad: &impl Fn(&str, String) -> ImportError,
        own: &[NpzArray],
        mut next: Vec<NpzArray>,
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
                bad(&name, "is missing, though the file has other next observations".to_owned())
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
                let what = "has no matching observation; leave it out".to_owned();
                Err(bad(&array.name, what))
            }
            None => Ok(Some(found)),
        }
    }

    /// Returns whether a step without a flag leads to another observation than the next step has.
    /// Compares bytes, so that NaN equals itself.
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

    /// Returns the steps of each episode. The last episode may be incomplete.
    pub(super) fn episodes(&self) -> Vec<Range<usize>> {
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

    /// Returns whether an episode gets a FINAL row. A truncated one needs a known final
    /// observation, which learners bootstrap from; a terminated one does not.
    pub(super) fn has_final(&self, range: &Range<usize>) -> bool {
        let (terminated, truncated) = self.ends(range.end - 1);
        let observed = || self.schema.columns().iter().any(|column| column.role() == Role::Obs);
        self.next_obs.is_some() || terminated || truncated && !observed()
    }

    pub(super) fn rows_of(&self, range: &Range<usize>) -> u64 {
        range.len() as u64 + u64::from(self.has_final(range))
    }

    pub(super) fn with_episode<R>(
        &self,
        range: &Range<usize>,
        after_gap: bool,
        work: impl FnOnce(&EpisodeSteps<'_>) -> R,
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
            // The final observation of a terminated episode is not used.
            None => unknown.iter().map(Vec::as_slice).collect(),
        };
        let (terminated, truncated) = self.ends(range.end - 1);
        work(&EpisodeSteps {
            steps: range.len(),
            columns: &parts,
            final_obs: self.has_final(range).then_some(&finals),
            terminated,
            // The data end before the episode does.
            truncated: truncated || (!terminated && self.has_final(range)),
            after_gap,
        })
    }
}
