//! Records of three sizes, and the same bytes in private memory.

use std::hint::black_box;

use backcast_core::{Base, DType, Schema, SegmentError};
use backcast_layout::RingStore;

/// A row of floats: an observation, an action, a reward. Its size counts the 24 bytes of the
/// built-in columns too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Floats of an observation.
    pub obs: usize,
    /// Floats of an action.
    pub action: usize,
}

/// 64 B: a cache line.
pub const SMALL: Record = Record { obs: 8, action: 1 };
/// 396 B: a continuous-control task, the peers' workload.
pub const MEDIUM: Record = Record { obs: 84, action: 8 };
/// 700 B.
pub const LARGE: Record = Record { obs: 160, action: 8 };

/// Columns of one append.
#[derive(Clone, Debug)]
pub struct Rows {
    /// Observations.
    pub obs: Vec<f32>,
    /// Actions.
    pub action: Vec<f32>,
    /// Rewards.
    pub reward: Vec<f32>,
}

impl Record {
    /// Returns the bytes of a row.
    #[must_use]
    pub fn bytes(self) -> usize {
        24 + 4 * (self.obs + self.action + 1)
    }

    /// Returns the schema.
    ///
    /// # Panics
    /// Never: the schema is valid.
    #[must_use]
    pub fn schema(self) -> Schema {
        let axis = |len| u32::try_from(len).expect("a short row");
        Schema::builder()
            .column("obs", DType::F32, &[axis(self.obs)])
            .column("action", DType::F32, &[axis(self.action)])
            .column("reward", DType::F32, &[])
            .build()
            .expect("a valid schema")
    }

    /// Returns rows for `lanes` lanes.
    #[must_use]
    pub fn rows(self, lanes: usize) -> Rows {
        Rows {
            obs: vec![0.5; lanes * self.obs],
            action: vec![0.25; lanes * self.action],
            reward: vec![1.0; lanes],
        }
    }
}

impl Rows {
    /// Returns the columns as bytes, in the order of the schema.
    #[must_use]
    pub fn columns(&self) -> [&[u8]; 3] {
        [&self.obs, &self.action, &self.reward].map(|column| bytemuck::cast_slice(column))
    }
}

/// Private memory laid out as a ring's lanes are: the same columns, built-in ones included, with as
/// many rows.
#[derive(Debug)]
pub struct Copies {
    columns: Vec<(usize, Vec<u8>)>,
    rows: usize,
    lanes: usize,
    at: usize,
    source: Vec<u8>,
}

impl Copies {
    /// Allocates memory with the layout of the ring of this name.
    ///
    /// # Panics
    /// If it is too large for this machine.
    pub fn like(base: &Base, name: &str) -> Result<Self, SegmentError> {
        let store = RingStore::attach(base, name)?;
        let (lanes, slots) = (store.spec().lanes as usize, store.geometry().slots);
        let rows = usize::try_from(slots).expect("a ring that fits into memory");
        let widths: Vec<usize> = (store.geometry().places.iter())
            .map(|place| usize::try_from(place.length / slots).expect("a row fits into memory"))
            .collect();
        let source = vec![1; widths.iter().copied().max().unwrap_or(0)];
        // Written once, so that every page is mapped.
        let columns = widths.into_iter().map(|width| (width, vec![1; width * rows * lanes]));
        Ok(Self { columns: columns.collect(), rows, lanes, at: 0, source })
    }

    /// Returns the number of columns.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    /// Copies the next row into every lane, column by column.
    #[inline]
    pub fn append(&mut self) {
        for lane in 0..self.lanes {
            for (width, column) in &mut self.columns {
                let start = (lane * self.rows + self.at) * *width;
                column[start..start + *width].copy_from_slice(black_box(&self.source[..*width]));
            }
        }
        self.at = if self.at + 1 == self.rows { 0 } else { self.at + 1 };
    }
}
