//! Sizes and offsets of the files of a ring. They are computed from the schema and never read from
//! a file.

use crate::error::SegmentError;
use crate::kernels::racy_copy::Word;
use crate::layout::column::{Column, ColumnRecord};
use crate::layout::lane_header::LANE_HEADER_BYTES;
use crate::layout::lane_policy::LanePolicy;
use crate::layout::limiter_table::{LimitBytes, LimiterTable};
use crate::layout::low_marks::LowMarks;
use crate::layout::reader_table::ReaderTable;
use crate::layout::superblock::SUPERBLOCK_BYTES;

/// Maximum lanes of a ring.
pub const MAX_LANES: u32 = 4096;
/// Maximum columns of a ring, built-in ones included.
pub const MAX_COLUMNS: usize = 256;
/// Maximum reader slots of a ring.
pub const MAX_READER_SLOTS: u32 = 1024;
/// Maximum slots of a lane.
pub(crate) const MAX_SLOTS: u64 = 1 << 40;
/// Maximum bytes of a lane's file.
pub(crate) const MAX_LANE_BYTES: u64 = 1 << 46;

/// Description of a ring, before its sizes are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingSpec {
    /// Every column, in order, built-in ones included.
    pub columns: Vec<Column>,
    /// Number of lanes, `1..=4096`. Each has one writer.
    pub lanes: u32,
    /// Rows that a reader may count on, per lane.
    pub lane_capacity: u64,
    /// Rows that a writer announces at a time.
    pub reserve_chunk: u32,
    /// Reader slots, `1..=1024`.
    pub reader_slots: u32,
    /// Capacity that the user gave in rows; 0 if in bytes.
    pub asked_rows: u64,
    /// Capacity that the user gave in bytes; 0 if in rows.
    pub asked_bytes: u64,
    /// Policy of writers when a lease stops them.
    pub policy: LanePolicy,
    /// Whether to request huge pages.
    pub huge_pages: bool,
    /// Whether the ring is in sealed memfds, which no process can truncate, instead of in files
    /// (Linux).
    pub memfd: bool,
    /// Whether the ring is a snapshot: its rows are stored before it has a name, and it has no
    /// writers.
    pub snapshot: bool,
    /// Source of a snapshot, of which up to 255 bytes are stored. Empty for other rings.
    pub snapshot_of: String,
    /// Limits at creation; `None` for a ring without a limiter.
    pub limits: Option<LimitBytes>,
}

/// Place of a column in `lane-NNNN.dat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnPlace {
    /// First byte in the file.
    pub offset: u64,
    /// Bytes in the file: `slots * width`.
    pub length: u64,
    /// Bytes of a row.
    pub width: usize,
    /// Access size.
    pub word: Word,
}

/// Sizes of the files of a ring, and the places in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Rows of a lane that a reader may count on.
    pub lane_capacity: u64,
    /// Physical rows of a lane; row `seq` is in slot `seq % slots`.
    pub slots: u64,
    /// A place per column, in the columns' order.
    pub places: Vec<ColumnPlace>,
    /// Bytes of the lane's header, in a file a multiple of the page size.
    pub lane_header_bytes: u64,
    /// Bytes of `lane-NNNN.dat`.
    pub lane_bytes: u64,
    /// Bytes of `ring.ctl`.
    pub ctl_bytes: u64,
    /// Bytes of `ring.rdr`.
    pub rdr_bytes: u64,
    /// Bytes of `ring.lim`; 0 for a ring without a limiter.
    pub lim_bytes: u64,
    /// Bytes of `ring.low`.
    pub low_bytes: u64,
}

/// Maximum alignment of the size of `ring.low` in bytes. Larger pages do not change this size.
const LOW_ALIGN: u64 = 4096;

impl Geometry {
    /// Computes the geometry of a ring whose mapped parts are multiples of `map_align` bytes: 1 on
    /// the heap, where nothing is mapped. Fails if a number of `spec` or the size of a lane is
    /// outside its limits.
    pub fn of(spec: &RingSpec, map_align: u64) -> Result<Self, SegmentError> {
        check(spec)?;
        let least = spec.lane_capacity + u64::from(spec.reserve_chunk);
        let slots = least.next_multiple_of(granule(&spec.columns, map_align));
        let header = LANE_HEADER_BYTES.next_multiple_of(map_align);
        let mut lane_bytes = header;
        let mut places = Vec::with_capacity(spec.columns.len());
        for (number, column) in narrowest_first(&spec.columns) {
            let width = column.width();
            let length = slots.saturating_mul(width as u64);
            // On the heap columns need only the alignment of their words.
            let offset = lane_bytes.next_multiple_of(8);
            let place = ColumnPlace { offset, length, width, word: Word::of_width(width) };
            places.push((number, place));
            lane_bytes = offset.saturating_add(length);
            if slots > MAX_SLOTS || lane_bytes > MAX_LANE_BYTES {
                return Err(SegmentError::Limit {
                    what: "the size of a lane in bytes",
                    value: lane_bytes,
                    limit: MAX_LANE_BYTES,
                    remedy: "lower the capacity or use more lanes",
                });
            }
        }
        places.sort_by_key(|(number, _)| *number);
        let places = places.into_iter().map(|(_, place)| place).collect();
        let records = size_of::<ColumnRecord>() * spec.columns.len();
        let rdr = ReaderTable::bytes(spec.reader_slots, spec.lanes);
        let lim = spec.limits.map_or(0, |_| LimiterTable::bytes(spec.lanes, spec.reader_slots));
        Ok(Self {
            lane_capacity: spec.lane_capacity,
            slots,
            places,
            lane_header_bytes: header,
            lane_bytes,
            ctl_bytes: (SUPERBLOCK_BYTES + records as u64).next_multiple_of(map_align),
            rdr_bytes: rdr.next_multiple_of(map_align),
            lim_bytes: lim.next_multiple_of(map_align),
            low_bytes: LowMarks::bytes(spec.lanes).next_multiple_of(map_align.min(LOW_ALIGN)),
        })
    }

    /// Returns the bytes of `ring.ctl`, `ring.rdr`, `ring.lim` and `ring.low` together.
    pub(crate) fn tables_bytes(&self) -> u64 {
        self.ctl_bytes + self.rdr_bytes + self.lim_bytes + self.low_bytes
    }

    /// Returns the bytes of all files of a new ring together.
    #[must_use]
    pub fn total_bytes(&self, lanes: u32) -> u64 {
        self.tables_bytes() + self.lane_bytes.saturating_mul(u64::from(lanes))
    }

    /// Returns the rows per lane that fit if all files together may take `bytes`. Fails if not even
    /// the smallest lanes fit.
    pub fn lane_capacity_for_bytes(
        spec: &RingSpec,
        map_align: u64,
        bytes: u64,
    ) -> Result<u64, SegmentError> {
        let chunk = u64::from(spec.reserve_chunk);
        let granule = granule(&spec.columns, map_align);
        let smallest = Self::of(&RingSpec { lane_capacity: 1, ..spec.clone() }, map_align)?;
        let least = smallest.total_bytes(spec.lanes);
        if bytes < least {
            return Err(SegmentError::Limit {
                what: "the capacity in bytes",
                value: bytes,
                limit: least,
                remedy: "ask for at least the limit, for fewer lanes, or for a narrower schema",
            });
        }
        let row: u64 = spec.columns.iter().map(|c| c.width() as u64).sum();
        let fixed = smallest.tables_bytes();
        let per_lane = (bytes - fixed) / u64::from(spec.lanes) - smallest.lane_header_bytes;
        let slots = per_lane / row / granule * granule;
        Ok(slots.max(smallest.slots) - chunk)
    }
}

/// Returns the columns with their numbers, in the order that they have in a file: narrow ones
/// first, those of equal width as in the schema.
///
/// The end of a file after its last whole huge page lies on small pages, each of which costs a TLB
/// entry. In this order only some rows of the widest column lie there, not all rows of a narrow
/// one.
fn narrowest_first(columns: &[Column]) -> Vec<(usize, &Column)> {
    let mut order: Vec<_> = columns.iter().enumerate().collect();
    order.sort_by_key(|(_, column)| column.width());
    order
}

/// Returns the smallest number of rows after which every column ends on a multiple of `map_align`.
///
/// `map_align` is a power of two, so every quotient is one too and their largest is their least
/// common multiple.
fn granule(columns: &[Column], map_align: u64) -> u64 {
    let width_align = |column: &Column| 1 << (column.width() as u64).trailing_zeros().min(63);
    columns.iter().map(|c| (map_align / map_align.min(width_align(c))).max(1)).max().unwrap_or(1)
}

const CAPACITY: &str =
    "choose another `capacity`: rows over all lanes together, or bytes such as \"8GiB\"";

fn check(spec: &RingSpec) -> Result<(), SegmentError> {
    let within = |what, value: u64, limit: u64, remedy| {
        if (1..=limit).contains(&value) {
            return Ok(());
        }
        let limit = if value == 0 { 1 } else { limit };
        Err(SegmentError::Limit { what, value, limit, remedy })
    };
    let columns = spec.columns.len() as u64;
    let timeout = spec.policy.timeout();
    if timeout > LanePolicy::MAX_TIMEOUT {
        return Err(SegmentError::Limit {
            what: "the lease time-out in milliseconds",
            value: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
            limit: u64::try_from(LanePolicy::MAX_TIMEOUT.as_millis()).unwrap_or(u64::MAX),
            remedy: "a writer should not wait longer; use 1 second",
        });
    }
    within("the number of lanes", spec.lanes.into(), MAX_LANES.into(), "use one lane per env")?;
    within("the capacity of a lane in rows", spec.lane_capacity, MAX_SLOTS, CAPACITY)?;
    within("the reserve chunk in rows", spec.reserve_chunk.into(), 1 << 20, "use 16")?;
    within(
        "the number of reader slots",
        spec.reader_slots.into(),
        MAX_READER_SLOTS.into(),
        "use 64",
    )?;
    within("the number of columns", columns, MAX_COLUMNS as u64, "merge some into one array")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::counted::spec;

    #[test]
    fn slots_are_the_fewest_that_let_every_column_end_on_a_page() {
        for (widths, granule) in [
            (&[8][..], 512),
            (&[1], 4096),
            (&[7056, 4], 1024),
            (&[4096], 1),
            (&[12, 8], 1024),
            (&[3], 4096),
        ] {
            let geometry = Geometry::of(&spec(widths, 1000), 4096).unwrap();
            assert_eq!(geometry.slots, 1016_u64.next_multiple_of(granule), "{widths:?}");
            for place in &geometry.places {
                assert!(place.offset.is_multiple_of(4096) && place.length.is_multiple_of(4096));
            }
        }
        assert_eq!(
            Geometry::of(&spec(&[1], 1000), 1).unwrap().slots,
            1016,
            "the heap has no pages"
        );
    }

    #[test]
    fn columns_stand_one_behind_the_other_and_the_widest_last() {
        for (widths, order) in [
            (&[24, 336, 24, 4][..], &[3, 0, 2, 1][..]),
            (&[24, 8], &[1, 0]),
            (&[24, 24, 24], &[0, 1, 2]),
        ] {
            for map_align in [1, 4096] {
                let geometry = Geometry::of(&spec(widths, 1000), map_align).unwrap();
                let mut at = geometry.lane_header_bytes;
                for number in order {
                    let place = geometry.places[*number];
                    assert_eq!((place.offset, place.width), (at, widths[*number]), "{widths:?}");
                    at = (at + place.length).next_multiple_of(8);
                }
                assert_eq!(geometry.lane_bytes.next_multiple_of(8), at);
            }
        }
    }

    #[test]
    fn a_capacity_in_bytes_is_used_up_and_not_exceeded() {
        for bytes in [1_500_000, 2 << 20, (2 << 20) + 4095, 1 << 30] {
            let mut spec = spec(&[8, 4, 700], 1);
            spec.lane_capacity = Geometry::lane_capacity_for_bytes(&spec, 4096, bytes).unwrap();
            let total = Geometry::of(&spec, 4096).unwrap().total_bytes(2);
            assert!(total <= bytes, "{total} > {bytes}");
            spec.lane_capacity += 1;
            assert!(Geometry::of(&spec, 4096).unwrap().total_bytes(2) > bytes, "room was left");
        }
        let error = Geometry::lane_capacity_for_bytes(&spec(&[8], 1), 4096, 100).unwrap_err();
        assert!(error.to_string().contains("100"), "{error}");
    }

    #[test]
    fn sizes_beyond_the_layout_are_refused_without_overflow() {
        for change in [
            (|s: &mut RingSpec| s.lanes = 0) as fn(&mut RingSpec),
            |s| s.lanes = 4097,
            |s| s.lane_capacity = 0,
            |s| s.lane_capacity = u64::MAX,
            |s| s.lane_capacity = MAX_SLOTS,
            |s| s.reader_slots = 0,
            |s| s.columns.clear(),
        ] {
            let mut spec = spec(&[1 << 30], 10);
            change(&mut spec);
            assert!(matches!(Geometry::of(&spec, 4096), Err(SegmentError::Limit { .. })));
        }
    }
}
