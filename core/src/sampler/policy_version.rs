//! The version of the policy that made a row, and that of the newest policy.
//!
//! No process keeps the newest version for the others: each sampler reads it from the newest rows
//! of the lanes, so that a lane stays the only memory that its writer writes. Once a learner tells
//! its sampler the version, that one alone counts: rows of a run that was abandoned may have larger
//! ones.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use backcast_layout::protocol::{Words, still_whole};
use backcast_layout::{Column, DType, Lane, Lanes};

use super::plan::{ArenaField, BatchPlan, Source};
use crate::row_flags::FINAL;
use crate::row_header::RowHeader;
use crate::schema::{Schema, USER};

/// No version.
const NONE: i64 = i64::MIN;

/// Version of the policy that a learner has published last, as it tells its sampler.
///
/// `policy_age` in a batch, and the limit of
/// [`max_policy_age`](crate::SamplerOptions::max_policy_age), count from it. Before the first call
/// of [`set`](Self::set) they count from the largest `policy_version` in the newest rows of the
/// lanes, which lags by the time in which actors pull and act. Set it after each publish, and after
/// a return to an older checkpoint: the lanes may still have rows of larger versions, whose age
/// then is 0. A clone can do so while a thread of the sampler draws ahead.
#[derive(Clone, Debug)]
pub struct PolicyVersion(Arc<AtomicI64>);

impl PolicyVersion {
    fn none() -> Self {
        Self(Arc::new(AtomicI64::new(NONE)))
    }

    /// Sets the version, for the next draws. It may be smaller than before.
    pub fn set(&self, version: u64) {
        self.0.store(saturated(version), Relaxed);
    }

    /// Returns the version that was set last; `None` before that.
    #[must_use]
    pub fn get(&self) -> Option<u64> {
        u64::try_from(self.0.load(Relaxed)).ok()
    }
}

impl Default for PolicyVersion {
    fn default() -> Self {
        Self::none()
    }
}

/// Versions of the rows of a ring, and the newest one.
#[derive(Debug)]
pub(super) struct PolicyVersions {
    /// Number of the column in the file of a lane.
    column: usize,
    dtype: DType,
    set: PolicyVersion,
    /// For each lane the end of its rows when it was read last, and the version of its newest row.
    lanes: Vec<(u64, i64)>,
    newest: i64,
}

impl PolicyVersions {
    /// Returns the versions of a ring of this schema; `None` if it has no column of them.
    pub(super) fn of(schema: &Schema, set: &PolicyVersion) -> Option<Self> {
        let at = schema.policy_version()?;
        let dtype = schema.columns().get(at).map(Column::dtype)?;
        let (lanes, set) = (Vec::new(), set.clone());
        Some(Self { column: USER + at, dtype, set, lanes, newest: NONE })
    }

    /// Reads the newest version: what the learner has set, else the largest one in the newest rows
    /// of the lanes, of which those that have grown are read. O(lanes).
    pub(super) fn refresh<'a>(
        &mut self,
        lanes: &Lanes,
        readable: impl Iterator<Item = &'a Range<u64>>,
    ) {
        self.newest = self.set.0.load(Relaxed);
        if self.newest != NONE {
            return;
        }
        let mut known = std::mem::take(&mut self.lanes);
        known.resize(lanes.len(), (0, NONE));
        for ((lane, rows), known) in lanes.iter().zip(readable).zip(&mut known) {
            if rows.is_empty() {
                *known = (0, NONE);
            } else if known.0 != rows.end {
                // Rows that were overwritten meanwhile are read at the next draw.
                if let Some(version) = self.newest_of(lane, rows) {
                    *known = (rows.end, version);
                }
            }
            self.newest = self.newest.max(known.1);
        }
        self.lanes = known;
    }

    /// Returns the version of the newest row of a lane that is no FINAL row, which has none.
    fn newest_of(&self, lane: &Lane, rows: &Range<u64>) -> Option<i64> {
        let (mut headers, mut versions) = (Vec::new(), Vec::new());
        // A FINAL row comes after one that is none.
        let first = rows.end.saturating_sub(2).max(rows.start);
        self.read(lane, first..rows.end, &mut headers, &mut versions);
        let mut found = headers.iter().zip(versions).rev();
        let version = found.find(|(header, _)| header.flags & FINAL == 0)?.1;
        still_whole(lane, first).then_some(version)
    }

    /// Copies headers and versions of some rows. The caller validates the copies.
    pub(super) fn read(
        &self,
        lane: &Lane,
        rows: Range<u64>,
        headers: &mut Vec<RowHeader>,
        versions: &mut Vec<i64>,
    ) {
        let (slot, count) = (rows.start % lane.slots(), rows.end - rows.start);
        let len = usize::try_from(count).unwrap_or(0);
        headers.resize(len, RowHeader::default());
        RowHeader::read_into(lane, slot, headers);
        let mut bytes = vec![0; len * self.dtype.size()];
        lane.copy_out(self.column, slot, count, &mut bytes);
        versions.clear();
        versions.extend(bytes.chunks_exact(self.dtype.size()).map(|row| number(self.dtype, row)));
    }

    /// Returns the newest version at the last refresh; the smallest number if none is known.
    pub(super) fn newest(&self) -> i64 {
        self.newest
    }

    /// Writes the ages of the rows of a batch, whose versions and masks are written. Masked places
    /// get 0.
    pub(super) fn write_ages(&self, plan: &BatchPlan, arenas: &mut [&mut [u8]]) {
        let is_version = |field: &&ArenaField| {
            [Source::Column(self.column), Source::First(self.column)].contains(&field.source)
        };
        let fields = plan.fields().iter().enumerate();
        let versions = fields.clone().filter(|(_, field)| is_version(field));
        let ages = fields.clone().filter(|(_, field)| field.source == Source::PolicyAge);
        for ((from, field), (to, _)) in versions.zip(ages) {
            let Some(out) = arenas.get_mut(to).map(std::mem::take) else { continue };
            let rows = arenas.get(from).map_or(&[][..], |arena| arena);
            let rows = rows.chunks_exact(self.dtype.size()).map(|row| number(self.dtype, row));
            let masks: Vec<_> = (0..field.rows).map(|at| mask_of(plan, field, at)).collect();
            let places = (0..plan.batch()).flat_map(|item| masks.iter().map(move |at| (item, at)));
            let outs = out.chunks_exact_mut(size_of::<i64>());
            for ((out, version), (item, mask)) in outs.zip(rows).zip(places) {
                let is_there = mask.is_none_or(|(arena, rows, at)| {
                    let mask = arenas.get(arena).and_then(|mask| mask.get(item * rows + at));
                    mask.is_none_or(|there| *there != 0)
                });
                let age = if is_there { self.newest.saturating_sub(version).max(0) } else { 0 };
                out.copy_from_slice(&age.to_ne_bytes());
            }
            if let Some(arena) = arenas.get_mut(to) {
                *arena = out;
            }
        }
    }
}

/// Returns the mask that says whether place `at` of an item of a field holds a row: its arena, the
/// places of an item in it, and the place of the row among these. Places without a mask hold one.
fn mask_of(plan: &BatchPlan, field: &ArenaField, at: usize) -> Option<(usize, usize, usize)> {
    let is_first = matches!(field.source, Source::First(_));
    let row = field.first.saturating_add_unsigned(at as u64);
    let fields = plan.fields().iter().enumerate().filter(|_| !is_first);
    let masks = fields.filter(|(_, field)| field.source == Source::Mask);
    let mut places = masks.filter_map(|(arena, mask)| {
        let at = usize::try_from(row.checked_sub(mask.first)?).ok()?;
        (at < mask.rows).then_some((arena, mask.rows, at))
    });
    places.next()
}

/// Returns a whole number as one of 64 bits with a sign.
fn number(dtype: DType, bytes: &[u8]) -> i64 {
    macro_rules! of {
        ($type:ty) => {
            bytes.try_into().map_or(0, <$type>::from_ne_bytes)
        };
    }
    match dtype {
        DType::I8 => of!(i8).into(),
        DType::I16 => of!(i16).into(),
        DType::I32 => of!(i32).into(),
        DType::U8 => of!(u8).into(),
        DType::U16 => of!(u16).into(),
        DType::U32 => of!(u32).into(),
        DType::U64 => saturated(of!(u64)),
        _ => of!(i64),
    }
}

fn saturated(version: u64) -> i64 {
    i64::try_from(version).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_every_whole_number_are_read_and_large_ones_are_the_largest() {
        for (dtype, bytes, expected) in [
            (DType::I8, i8::MIN.to_ne_bytes().to_vec(), -128),
            (DType::I16, i16::MIN.to_ne_bytes().to_vec(), -32_768),
            (DType::I32, i32::MIN.to_ne_bytes().to_vec(), -2_147_483_648),
            (DType::I64, i64::MIN.to_ne_bytes().to_vec(), i64::MIN),
            (DType::U8, u8::MAX.to_ne_bytes().to_vec(), 255),
            (DType::U16, u16::MAX.to_ne_bytes().to_vec(), 65_535),
            (DType::U32, u32::MAX.to_ne_bytes().to_vec(), 4_294_967_295),
            (DType::U64, 7_u64.to_ne_bytes().to_vec(), 7),
            (DType::U64, i64::MAX.to_ne_bytes().to_vec(), i64::MAX),
            (DType::U64, u64::MAX.to_ne_bytes().to_vec(), i64::MAX),
        ] {
            assert_eq!(number(dtype, &bytes), expected, "{dtype} of {bytes:?}");
        }
    }
}
