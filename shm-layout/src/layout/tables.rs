//! Byte tables as data. A test compares docs/layout.md with them. The hash of the tables of rings
//! and panels is the fingerprint by which two builds check that they agree.

use std::mem::offset_of;
use std::sync::OnceLock;

use crate::layout::claim_table::{ClaimCounterBytes, ClaimHeader};
use crate::layout::column::{ColumnRecord, DType, Role};
use crate::layout::lane_header::{LaneHeader, LaneIdentity};
use crate::layout::learned_table::{LearnedColumnRecord, LearnedCounterBytes, LearnedHeader};
use crate::layout::limiter_table::{
    LimitBytes, LimitCounterBytes, LimitDeletesBytes, LimitSlotBytes, LimiterHeader, WaitMarkBytes,
};
use crate::layout::low_marks::LowMarksHeader;
use crate::layout::params_shape::ParamsArrayRecord;
use crate::layout::params_table::{
    ParamsCounterBytes, ParamsDataHeader, ParamsHeader, ParamsReadBytes, ParamsSlotBytes,
};
use crate::layout::priority_table::{TableCounterBytes, TableHeader, TableLaneBytes};
use crate::layout::reader_table::{NotifierBytes, ReaderSlotBytes, ReadersHeader};
use crate::layout::sealed_header::SealedHeader;
use crate::layout::superblock::Superblock;

/// One field of a byte table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name of the struct.
    pub table: &'static str,
    /// Name of the field.
    pub field: &'static str,
    /// First byte.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
}

fn size_of_field<S, F>(_: fn(&S) -> &F) -> usize {
    size_of::<F>()
}

fn innermost(path: &[&'static str]) -> &'static str {
    path.last().copied().unwrap_or_default()
}

macro_rules! fields {
    ($($table:ident { $($($field:ident).+),+ $(,)? })+) => {
        vec![$($(Field {
            table: stringify!($table),
            field: innermost(&[$(stringify!($field)),+]),
            offset: offset_of!($table, $($field).+),
            size: size_of_field(|s: &$table| &s.$($field).+),
        }),+),+]
    };
}

/// Returns all fields of all tables, in order of offset within each.
#[must_use]
pub fn tables() -> Vec<Field> {
    fields! {
        Superblock {
            magic, layout_version, endian_tag, abi_fingerprint, ctl_bytes, rdr_bytes, lane_bytes,
            map_align, line_bytes, lane_count, column_count, slots, lane_capacity, reserve_chunk,
            reader_slots, asked_rows, asked_bytes, schema_offset, schema_hash, ring_uuid,
            created_unix_ns, boot_id_hash, lane_policy, lease_timeout_ms, huge_bytes,
            made_lane_capacity, resizes, files, unused, crc32,
        }
        ColumnRecord {
            name, dtype, word, axes, role, shape, width_bytes, offset_bytes, length_bytes, unused,
        }
        LaneIdentity {
            magic, ring_uuid, schema_hash, lane, resizes, slots, lane_capacity, unused, crc32,
        }
        LaneHeader {
            identity, reserved, pad1, head, pad2, generation, pid, claimed_unix_ns, dropped,
            stalls, cuts, suspect_resets, pad3,
        }
        ReadersHeader { magic, ring_uuid, reader_slots, unused, crc32 }
        NotifierBytes { seq, listening, resizes, unused }
        ReaderSlotBytes {
            generation, pid, claimed_unix_ns, sampled_rows, sampled_batches, lapped, leases, stalls,
            ages, unused,
        }
        LimitBytes { samples_per_insert, min_size, min_diff, max_diff, switches }
        LimiterHeader { magic, ring_uuid, lane_count, reader_slots, made, unused, crc32 }
        LimitCounterBytes { count, wake_at, seq, unused1, waits, waited_ns, unused2 }
        LimitSlotBytes { limits, ceiling, unused }
        LimitDeletesBytes { deletes, dropped_at, least_samples, unused }
        WaitMarkBytes { since_unix_ms, wanted }
        LowMarksHeader { magic, ring_uuid, lane_count, unused, crc32 }
        SealedHeader {
            magic, layout_version, endian_tag, meta_bytes, data_bytes, meta_hash,
            created_unix_ns, boot_id_hash, unused, crc32,
        }
        TableHeader {
            origin.magic, origin.layout_version, origin.endian_tag, origin.boot_id_hash,
            origin.ring_uuid, lane_leaves, lane_count,
            kind, exponent, eps, file_bytes, stride, tracks_largest, keeps_priorities, unused,
            crc32,
        }
        TableCounterBytes {
            journal_count, largest, entered, updated, stale, repairs, changes, exponent,
            unused,
        }
        TableLaneBytes { entered, expired }
        ClaimHeader {
            origin.magic, origin.layout_version, origin.endian_tag, origin.boot_id_hash,
            origin.ring_uuid, seed, lane_count, kind,
            times, flags, file_bytes, unused, crc32,
        }
        ClaimCounterBytes { claim, unused1, drawn, passes, overwritten, unused2 }
        LearnedHeader {
            origin.magic, origin.layout_version, origin.endian_tag, origin.boot_id_hash,
            origin.ring_uuid, lane_rows, lane_count,
            kind, column_count, columns_crc32, file_bytes, unused, crc32,
        }
        LearnedCounterBytes { updated, stale, unused }
        LearnedColumnRecord { name, dtype, unused }
        ParamsHeader {
            magic, layout_version, endian_tag, boot_id_hash, params_uuid, array_count, slots,
            versions_kept, reader_slots, block_bytes, data_bytes, created_unix_ns, records_hash,
            unused, crc32,
        }
        ParamsArrayRecord {
            name, dtype, axes, unused1, shape, offset_bytes, length_bytes, unused2,
        }
        ParamsDataHeader { magic, params_uuid, unused, crc32 }
        ParamsCounterBytes { newest, unused1, published, refused, pid, generation, unused2 }
        ParamsSlotBytes { stamp, published_unix_ns }
        ParamsReadBytes { pulls, retries, unused }
    }
}

/// Returns whether the table of a field belongs to an object of parameters and not to a ring.
fn is_of_params(field: &Field) -> bool {
    field.table.starts_with("Params")
}

/// Returns whether a table is of learned columns, which a program without them never opens.
fn is_of_learned(field: &Field) -> bool {
    field.table.starts_with("Learned")
}

/// Returns the hash of the tables of rings and panels, and of numbered enums.
pub(crate) fn abi_fingerprint() -> u64 {
    static FINGERPRINT: OnceLock<u64> = OnceLock::new();
    *FINGERPRINT.get_or_init(|| {
        let hashed = |field: &Field| !is_of_params(field) && !is_of_learned(field);
        let tables: Vec<Field> = tables().into_iter().filter(hashed).collect();
        // A ring without columns of a newer type is the same ring to an older program.
        let hashed = DType::ALL.iter().filter(|dtype| **dtype != DType::BF16);
        let dtypes: Vec<(u8, &str)> = hashed.map(|d| (*d as u8, d.code())).collect();
        let roles = [Role::Obs as u8, Role::Step as u8];
        let text = format!("{tables:?}{dtypes:?}{roles:?}");
        let hash = blake3::hash(text.as_bytes());
        hash.as_bytes().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::superblock::LAYOUT_VERSION;

    /// A change of the tables fails here: raise the version and state their new hash.
    #[test]
    fn the_tables_of_a_layout_version_do_not_change() {
        assert_eq!((LAYOUT_VERSION, abi_fingerprint()), (12, 0xe55d_bbdc_7455_cca1));
    }

    #[test]
    fn the_tables_of_parameters_do_not_change_either() {
        let tables: Vec<Field> = tables().into_iter().filter(is_of_params).collect();
        let hash = blake3::hash(format!("{tables:?}").as_bytes());
        let hash = u64::from_le_bytes(*hash.as_bytes().first_chunk().unwrap());
        assert_eq!((LAYOUT_VERSION, hash), (12, 0x3969_cab0_8772_5000));
    }

    #[test]
    fn the_tables_of_learned_columns_do_not_change_either() {
        let tables: Vec<Field> = tables().into_iter().filter(is_of_learned).collect();
        let hash = blake3::hash(format!("{tables:?}").as_bytes());
        let hash = u64::from_le_bytes(*hash.as_bytes().first_chunk().unwrap());
        assert_eq!((LAYOUT_VERSION, hash), (12, 0x4bf8_0932_5db0_2783));
    }

    #[test]
    fn no_table_has_a_hole() {
        let tables = tables();
        for pair in tables.windows(2) {
            let [a, b] = pair else { unreachable!() };
            let expected = if a.table == b.table { a.offset + a.size } else { 0 };
            assert_eq!(b.offset, expected, "between {a:?} and {b:?}");
        }
    }
}
