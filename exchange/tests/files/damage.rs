//! A table with flipped bits imports as the same rows, or fails with an error that says where.

use std::env;
use std::fs;
use std::thread;

use backcast_core::{Base, DType, Ring, Schema, list_objects};
use backcast_exchange::{ExportOptions, Format, ImportError, ImportOptions, export, import};
use parquet::file::metadata::{
    FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataReader, ParquetMetaDataWriter,
    RowGroupMetaData,
};
use serde_json::Value;

use super::made;

/// Few, so that there are many row groups.
const GROUP_ROWS: u64 = 16;

fn schema() -> Schema {
    let builder =
        Schema::builder().column("obs", DType::F32, &[3]).column("done", DType::Bool, &[]);
    builder.column("action", DType::I16, &[]).column("reward", DType::F64, &[]).build().unwrap()
}

/// A folder with a ring and the table that it was exported to.
struct Place {
    folder: tempfile::TempDir,
    ring: Ring,
    table: Vec<u8>,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ring = made::ring(&Base::at(folder.path()), "walk", &schema(), 60, 2, 20, 6);
        let file = folder.path().join("walk.parquet");
        export(&ring, &file, Format::Parquet, options()).unwrap();
        let table = fs::read(&file).unwrap();
        Self { folder, ring, table }
    }

    /// Imports these bytes.
    fn import(&self, bytes: &[u8]) -> Result<Ring, ImportError> {
        let file = self.folder.path().join("changed.parquet");
        fs::write(&file, bytes).unwrap();
        let options = ImportOptions::named("in").base(Base::at(self.folder.path()));
        import(&file, Format::Parquet, options.huge_pages(false)).map(|(ring, _)| ring)
    }

    /// Returns the error of importing `bytes`, and checks that the import left nothing.
    fn refused(&self, bytes: &[u8]) -> ImportError {
        let error = self.import(bytes).unwrap_err();
        assert_eq!(list_objects(&Base::at(self.folder.path())).unwrap().len(), 1, "{error}");
        let left = fs::read_dir(Base::at(self.folder.path()).path()).unwrap();
        assert_eq!(left.count(), 1, "{error}");
        error
    }

    fn assert_same(&self, ring: &Ring, when: &str) {
        made::assert_same(&self.ring, ring);
        assert_eq!(ring.lane_capacity(), self.ring.lane_capacity(), "{when}");
    }
}

fn options<'a>() -> ExportOptions<'a> {
    ExportOptions::default().group_rows(GROUP_ROWS)
}

fn metadata(table: &[u8]) -> ParquetMetaData {
    let table = bytes::Bytes::copy_from_slice(table);
    ParquetMetaDataReader::new().parse_and_finish(&table).unwrap()
}

/// Returns the end of the last column chunk.
fn end_of(groups: &[RowGroupMetaData]) -> usize {
    let ends = groups.iter().flat_map(RowGroupMetaData::columns).map(|chunk| {
        let (from, bytes) = chunk.byte_range();
        usize::try_from(from + bytes).unwrap()
    });
    ends.max().unwrap()
}

/// Returns the position of a byte in the first values of a column chunk, after the head of a zstd
/// frame.
fn first_values(table: &[u8], from: u64, count: u64) -> usize {
    let (from, to) = (usize::try_from(from).unwrap(), usize::try_from(from + count).unwrap());
    let packed = table[from..to].windows(4).position(|bytes| bytes == [0x28, 0xb5, 0x2f, 0xfd]);
    from + packed.unwrap() + 10
}

/// Returns the part that an error names.
fn part_of(error: &ImportError) -> &str {
    match error {
        ImportError::Damaged { path, part, .. } if path.ends_with("changed.parquet") => part,
        error => panic!("{error}"),
    }
}

/// Returns the row groups of a table with a footer of another description, hash and creator.
fn described(
    table: &[u8],
    by: Option<&str>,
    change: impl FnOnce(&mut Value, &mut Option<String>),
) -> Vec<u8> {
    let found = metadata(table);
    let about = found.file_metadata();
    let mut words: Vec<KeyValue> = about.key_value_metadata().unwrap().clone();
    let mut take = |key: &str| {
        let at = words.iter().position(|word| word.key == key).unwrap();
        words.remove(at).value
    };
    let (text, mut hash) = (take("backcast").unwrap(), take("backcast.hash"));
    let mut description: Value = serde_json::from_str(&text).unwrap();
    change(&mut description, &mut hash);
    words.push(KeyValue::new("backcast".to_owned(), description.to_string()));
    words.extend(hash.map(|hash| KeyValue::new("backcast.hash".to_owned(), hash)));
    let about = FileMetaData::new(
        about.version(),
        about.num_rows(),
        by.map(str::to_owned),
        Some(words),
        about.schema_descr_ptr(),
        about.column_orders().cloned(),
    );
    let groups = found.row_groups().to_vec();
    let mut changed = table[..end_of(&groups)].to_vec();
    // Drops the page index between the groups and the footer, which is optional.
    let groups = groups.into_iter().map(|group| {
        let columns = group.columns().iter().map(|chunk| {
            let chunk = chunk.clone().into_builder();
            let chunk = chunk.set_offset_index_offset(None).set_offset_index_length(None);
            chunk.set_column_index_offset(None).set_column_index_length(None).build().unwrap()
        });
        let columns = columns.collect();
        group.into_builder().set_column_metadata(columns).build().unwrap()
    });
    let whole = ParquetMetaData::new(about, groups.collect());
    ParquetMetaDataWriter::new(&mut changed, &whole).finish().unwrap();
    changed
}

fn rehash(description: &Value, hash: &mut Option<String>) {
    *hash = Some(blake3::hash(description.to_string().as_bytes()).to_hex().to_string());
}

/// Changes a description to that of an earlier version.
fn to_old(description: &mut Value, hash: &mut Option<String>) {
    description["format"] = 1.into();
    description.as_object_mut().unwrap().remove("groups");
    *hash = None;
}

/// Threads that flip bits, each in a table of its own.
const FLIPPERS: usize = 2;

#[test]
fn a_bit_flipped_anywhere_in_a_table_is_an_error_or_changes_no_row() {
    let parts: [_; FLIPPERS] = std::array::from_fn(|part| thread::spawn(move || flip_bits(part)));
    let parts = parts.map(|part| part.join().unwrap());
    let given_away: Vec<u32> =
        (0..parts[0].len()).map(|group| parts.iter().map(|part| part[group]).sum()).collect();
    assert!(given_away.iter().all(|times| *times > 0), "{given_away:?}");
}

/// Flips bits at one of [`FLIPPERS`] bytes, one after the other. Returns how often the hash of each
/// row group gave a flip away.
fn flip_bits(part: usize) -> Vec<u32> {
    let place = Place::new();
    let found = metadata(&place.table);
    let groups = found.num_row_groups();
    assert!(groups > 2, "{groups}");
    let mut given_away = vec![0; groups];
    // One bit of every byte of the values, and of every fifth other byte; all bits take minutes.
    let every_bit = env::var_os("BACKCAST_EVERY_BIT").is_some();
    let values = end_of(found.row_groups());
    let places = (0..place.table.len()).filter(|at| every_bit || *at < values || at % 5 == 0);
    for at in places.skip(part).step_by(FLIPPERS) {
        for bit in 0..8 {
            if bit != (at + at / 5) % 8 && !every_bit {
                continue;
            }
            let mut bytes = place.table.clone();
            bytes[at] ^= 1 << bit;
            let when = format!("bit {bit} of byte {at}");
            match place.import(&bytes) {
                Ok(ring) => place.assert_same(&ring, &when),
                Err(error) => {
                    assert!(error.to_string().contains("changed.parquet"), "{when}: {error}");
                    if let ImportError::Damaged { part, what, .. } = &error
                        && what.contains("hash")
                        && let Some(group) = part.strip_prefix("row group ")
                    {
                        given_away[group.parse::<usize>().unwrap()] += 1;
                    }
                }
            }
        }
    }
    assert_eq!(list_objects(&Base::at(place.folder.path())).unwrap().len(), 1);
    given_away
}

#[test]
fn a_bit_flipped_in_any_column_of_any_row_group_is_an_error_that_names_the_group() {
    let place = Place::new();
    for (number, group) in metadata(&place.table).row_groups().iter().enumerate() {
        for chunk in group.columns() {
            let (from, count) = chunk.byte_range();
            let values = first_values(&place.table, from, count);
            let mut bytes = place.table.clone();
            bytes[values] ^= 0x10;
            let error = place.refused(&bytes);
            let part = part_of(&error);
            assert!(part.ends_with(&format!("row group {number}")), "{error}");
        }
    }
}

#[test]
fn a_table_without_hashes_of_an_earlier_version_or_by_another_program_is_read_unchecked() {
    let place = Place::new();
    let old = described(&place.table, Some("backcast"), to_old);
    place.assert_same(&place.import(&old).unwrap(), "old");
    // Another program may have copied the description to a file with changed rows.
    for by in [Some("parquet-cpp-arrow version 21.0.0"), None] {
        let theirs = described(&place.table, by, |description, _| {
            description["groups"][0] = "0".repeat(64).into();
        });
        place.assert_same(&place.import(&theirs).unwrap(), "theirs");
    }
}

#[test]
fn hashes_that_are_wrong_missing_or_of_other_words_are_refused() {
    type Change = fn(&mut Value, &mut Option<String>);
    let place = Place::new();
    let same = described(&place.table, Some("backcast"), rehash_only);
    place.assert_same(&place.import(&same).unwrap(), "the words in another order");
    let cases: [(&str, &str, Change); 7] = [
        ("another hash of a group", "row group 1", |description, hash| {
            description["groups"][1] = description["groups"][0].clone();
            rehash(description, hash);
        }),
        ("a group's hash too few", "its description", |description, hash| {
            description["groups"].as_array_mut().unwrap().pop();
            rehash(description, hash);
        }),
        ("no hashes of groups", "its description", |description, hash| {
            description.as_object_mut().unwrap().remove("groups");
            rehash(description, hash);
        }),
        ("no hash of the words", "its description", |_, hash| *hash = None),
        ("another capacity", "its description", |description, _| {
            description["ring"]["lane_capacity"] = 31.into();
        }),
        ("fewer rows", "its description", |description, _| description["rows"][0][0] = 1.into()),
        ("hashes in the old format", "its description", |description, _| {
            description["format"] = 1.into();
        }),
    ];
    for (case, part, change) in cases {
        let changed = described(&place.table, Some("backcast"), change);
        let error = place.refused(&changed);
        assert_eq!(part_of(&error), part, "{case}: {error}");
        assert!(error.to_string().contains("hash"), "{case}: {error}");
    }
}

fn rehash_only(description: &mut Value, hash: &mut Option<String>) {
    rehash(description, hash);
}

#[test]
fn an_exported_table_has_the_hashes_of_all_its_row_groups() {
    let place = Place::new();
    for (number, group) in metadata(&place.table).row_groups().iter().enumerate() {
        let mut bytes = place.table.clone();
        let (from, count) = group.columns().last().unwrap().byte_range();
        bytes[first_values(&place.table, from, count)] ^= 1;
        let error = place.refused(&bytes);
        assert!(part_of(&error).ends_with(&format!("row group {number}")), "{error}");
    }
}
