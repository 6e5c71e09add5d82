//! Ways to damage the files of a named object, with and without repaired checksums.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::mem::offset_of;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use backcast_layout::protocol::RELOCATED;
use backcast_layout::{
    Base, ColumnRecord, Geometry, LANE_MAGIC, LOW_MAGIC, LaneHeader, LaneIdentity, READERS_MAGIC,
    RingStore, SUPERBLOCK_BYTES, Superblock, page_size,
};
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};

use super::dice::Dice;

/// The files of one object, by name.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Returns a number, mostly one near which arithmetic overflows or rounds.
pub fn odd_number(dice: &mut Dice) -> u64 {
    let power = 1_u64 << dice.random_range(0..64);
    let near = [power, power - 1, power + 1, power.wrapping_neg(), u64::MAX, u64::MAX - 4096, 0];
    if dice.random_ratio(1, 4) { dice.random() } else { *near.choose(dice).unwrap_or(&0) }
}

/// Reads the files of a healthy object.
pub fn read_files(dir: &Path) -> io::Result<Files> {
    let read = |entry: io::Result<fs::DirEntry>| {
        let entry = entry?;
        Ok((entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?))
    };
    fs::read_dir(dir)?.map(read).collect()
}

/// Writes files as their creator would, in place of earlier ones.
pub fn put_files(dir: &Path, files: &Files) -> io::Result<()> {
    clear(dir)?;
    DirBuilder::new().mode(0o700).create(dir)?;
    for (name, bytes) in files {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        options.open(dir.join(name))?.write_all(bytes)?;
    }
    Ok(())
}

fn clear(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
    }
}

/// Damages any file. Returns a description of the damage.
pub fn damage_any(
    dir: &Path,
    file: &str,
    strangers: &[&Files],
    dice: &mut Dice,
) -> io::Result<String> {
    let path = dir.join(file);
    let len = fs::metadata(&path)?.len();
    let open = || OpenOptions::new().read(true).write(true).open(&path);
    Ok(match dice.random_range(0..12) {
        0 => {
            let lens = [0, 1, 4095, 4096, len.saturating_sub(1), len / 2];
            let to = *lens.choose(dice).unwrap_or(&0);
            open()?.set_len(to.min(len))?;
            format!("{file} cut to {to} of {len} bytes")
        }
        1 => {
            let more = 1 << dice.random_range(0..40);
            open()?.set_len(len + more)?;
            format!("{file} longer by {more} bytes")
        }
        2 => {
            let mut noise = vec![0; usize::try_from(len).unwrap_or(0)];
            dice.fill_bytes(&mut noise);
            fs::write(&path, noise)?;
            format!("{file} is noise")
        }
        3..=5 => {
            let mut bytes = fs::read(&path)?;
            let flips = dice.random_range(1..9);
            for _ in 0..flips {
                // Half of the flips hit the headers, which are checked.
                let end = if dice.random() { bytes.len().min(600) } else { bytes.len() };
                let at = dice.random_range(0..end.max(1));
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << dice.random_range(0..8);
                }
            }
            fs::write(&path, bytes)?;
            format!("{flips} bits of {file} flipped")
        }
        6 => {
            let mut foreign = Vec::new();
            for stranger in strangers {
                foreign.extend(stranger.values().filter(|bytes| !bytes.is_empty()));
            }
            fs::write(&path, foreign.choose(dice).map_or(&b"#!/bin/sh\n"[..], |bytes| bytes))?;
            format!("{file} is some other file")
        }
        7 => {
            let theirs = strangers.choose(dice).and_then(|files| files.get(file));
            fs::write(&path, theirs.map_or(&b""[..], |bytes| bytes))?;
            format!("{file} is that of another object")
        }
        8 => {
            fs::remove_file(&path)?;
            format!("{file} is missing")
        }
        9 => {
            let mode = *[0o644, 0o666, 0o604, 0o777].choose(dice).unwrap_or(&0o644);
            let what = if dice.random() { dir } else { &path };
            fs::set_permissions(what, Permissions::from_mode(mode | 0o100))?;
            format!("{} has mode {mode:o}", what.display())
        }
        10 => {
            let real = dir.with_extension("real");
            clear(&real)?;
            if dice.random() {
                fs::rename(&path, &real)?;
                symlink(if dice.random() { &real } else { dir }, &path)?;
                format!("{file} is a symbolic link")
            } else {
                fs::rename(dir, &real)?;
                symlink(&real, dir)?;
                "the directory is a symbolic link".to_owned()
            }
        }
        _ => {
            fs::remove_file(&path)?;
            if dice.random() {
                fs::create_dir(&path)?;
                format!("{file} is a directory")
            } else {
                // The path of a socket must be short, so the socket is made elsewhere and moved.
                let elsewhere = tempfile::tempdir()?;
                let socket = elsewhere.path().join("s");
                let listener = UnixListener::bind(&socket)?;
                drop(listener);
                // If the move fails across file systems, the file is missing, which is damage too.
                let _ = fs::rename(&socket, &path);
                format!("{file} is a socket")
            }
        }
    })
}

/// Damages `ring.ctl`, repairs its checksums and makes the other files agree, so that the checks
/// behind the checksums have to find it.
pub fn damage_repaired(dir: &Path, dice: &mut Dice) -> io::Result<String> {
    let path = dir.join("ring.ctl");
    let mut ctl = fs::read(&path)?;
    let what = match dice.random_range(0..6) {
        0 => {
            let bits = dice.random_range(1..5);
            for _ in 0..bits {
                // Bytes after the magic: either in front of the checksum, or up to the schema's
                // end.
                let end = if dice.random() { 0xe0 } else { 4096 + 8 * 128 };
                let at = dice.random_range(8..end);
                ctl[at] ^= 1 << dice.random_range(0..8);
            }
            format!("{bits} bits of ring.ctl flipped")
        }
        1 | 2 => {
            let fields = [
                (offset_of!(Superblock, layout_version), 4),
                (offset_of!(Superblock, endian_tag), 4),
                (offset_of!(Superblock, abi_fingerprint), 8),
                (offset_of!(Superblock, ctl_bytes), 8),
                (offset_of!(Superblock, rdr_bytes), 8),
                (offset_of!(Superblock, lane_bytes), 8),
                (offset_of!(Superblock, map_align), 4),
                (offset_of!(Superblock, line_bytes), 4),
                (offset_of!(Superblock, lane_count), 4),
                (offset_of!(Superblock, column_count), 4),
                (offset_of!(Superblock, slots), 8),
                (offset_of!(Superblock, lane_capacity), 8),
                (offset_of!(Superblock, reserve_chunk), 4),
                (offset_of!(Superblock, reader_slots), 4),
                (offset_of!(Superblock, asked_rows), 8),
                (offset_of!(Superblock, asked_bytes), 8),
                (offset_of!(Superblock, schema_offset), 8),
                (offset_of!(Superblock, created_unix_ns), 8),
                (offset_of!(Superblock, boot_id_hash), 8),
            ];
            set_field(&mut ctl, 0, &fields, dice)
        }
        3 => {
            let fields = [
                (offset_of!(ColumnRecord, name), 1),
                (offset_of!(ColumnRecord, dtype), 1),
                (offset_of!(ColumnRecord, word), 1),
                (offset_of!(ColumnRecord, axes), 1),
                (offset_of!(ColumnRecord, role), 1),
                (offset_of!(ColumnRecord, shape), 4),
                (offset_of!(ColumnRecord, width_bytes), 4),
                (offset_of!(ColumnRecord, offset_bytes), 8),
                (offset_of!(ColumnRecord, length_bytes), 8),
                (offset_of!(ColumnRecord, unused), 8),
            ];
            let record = 4096 + 128 * dice.random_range(0..5);
            set_field(&mut ctl, record, &fields, dice)
        }
        4 => {
            let names =
                ["seq", "next_obs", "obs", "obs/x", "", "a//b", "future/x", "épée", "reward"];
            let name = *names.choose(dice).unwrap_or(&"");
            let record = 4096 + 128 * dice.random_range(0..5_usize);
            ctl[record..record + 48].fill(0);
            ctl[record..record + name.len()].copy_from_slice(name.as_bytes());
            format!("column record at byte {record} named {name:?}")
        }
        _ => grow(dir, &mut ctl, dice).map_err(io::Error::other)?,
    };
    repair(&mut ctl);
    fs::write(&path, &ctl)?;
    agree(dir, &ctl)?;
    Ok(format!("{what}, checksums repaired"))
}

/// Changes one byte of a column's record and repairs every checksum.
pub fn change_record(dir: &Path, column: usize, byte: usize) -> io::Result<()> {
    let path = dir.join("ring.ctl");
    let mut ctl = fs::read(&path)?;
    ctl[4096 + 128 * column + byte] ^= 1;
    repair(&mut ctl);
    fs::write(&path, &ctl)?;
    agree(dir, &ctl)
}

fn set_field(ctl: &mut [u8], at: usize, fields: &[(usize, usize)], dice: &mut Dice) -> String {
    let (offset, size) = *fields.choose(dice).unwrap_or(&(8, 4));
    let value = odd_number(dice);
    ctl[at + offset..at + offset + size].copy_from_slice(&value.to_le_bytes()[..size]);
    format!("{size} bytes at {at} + {offset} of ring.ctl set to {value:#x}")
}

/// Makes a ring that is consistent in every number and larger than its files, up to more than an
/// address space.
fn grow(dir: &Path, ctl: &mut [u8], dice: &mut Dice) -> Result<String, String> {
    let base = Base::at(dir.parent().and_then(Path::parent).unwrap_or(dir));
    let name = dir.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut spec = RingStore::attach(&base, &name).map_err(|e| e.to_string())?.spec().clone();
    spec.lane_capacity = 1 << dice.random_range(1..40);
    spec.lane_capacity += dice.random_range(0..100);
    let geometry = Geometry::of(&spec, page_size()).map_err(|e| e.to_string())?;
    let mut set = |offset: usize, value: u64| {
        ctl[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
    };
    set(offset_of!(Superblock, lane_capacity), spec.lane_capacity);
    set(offset_of!(Superblock, slots), geometry.slots);
    set(offset_of!(Superblock, lane_bytes), geometry.lane_bytes);
    for (i, place) in geometry.places.iter().enumerate() {
        let record = 4096 + 128 * i;
        set(record + offset_of!(ColumnRecord, offset_bytes), place.offset);
        set(record + offset_of!(ColumnRecord, length_bytes), place.length);
    }
    Ok(format!("{} rows a lane", spec.lane_capacity))
}

fn word<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

/// Repairs the schema's hash and the superblock's checksum.
fn repair(ctl: &mut [u8]) {
    let columns = u32::from_le_bytes(word(ctl, offset_of!(Superblock, column_count))) as usize;
    let from = usize::try_from(SUPERBLOCK_BYTES).unwrap_or(4096);
    let to = columns.saturating_mul(size_of::<ColumnRecord>()).saturating_add(from).min(ctl.len());
    let hash = *blake3::hash(&ctl[from..to]).as_bytes();
    let at = offset_of!(Superblock, schema_hash);
    ctl[at..at + 32].copy_from_slice(&hash);
    let at = offset_of!(Superblock, crc32);
    let sum = crc32fast::hash(&ctl[..at]);
    ctl[at..at + 4].copy_from_slice(&sum.to_le_bytes());
}

/// Gives the readers' file and the lanes the headers and lengths that `ring.ctl` implies.
fn agree(dir: &Path, ctl: &[u8]) -> io::Result<()> {
    let uuid: [u8; 16] = word(ctl, offset_of!(Superblock, ring_uuid));
    let long = |offset| u64::from_le_bytes(word(ctl, offset));
    let short = |offset| u32::from_le_bytes(word(ctl, offset));
    let sum = |bytes: &mut [u8]| {
        if let Some((head, tail)) = bytes.split_last_chunk_mut::<4>() {
            *tail = crc32fast::hash(head).to_le_bytes();
        }
    };
    let put = |name: String, header: &[u8], len: u64| -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(dir.join(name))?;
        file.write_all(header)?;
        // A length that no file system allows leaves the file as it is.
        let _ = file.set_len(len);
        Ok(())
    };
    let mut readers = [0; 128];
    readers[..8].copy_from_slice(&READERS_MAGIC);
    readers[8..24].copy_from_slice(&uuid);
    readers[24..28].copy_from_slice(&short(offset_of!(Superblock, reader_slots)).to_le_bytes());
    sum(&mut readers);
    put("ring.rdr".to_owned(), &readers, long(offset_of!(Superblock, rdr_bytes)))?;
    let lanes = short(offset_of!(Superblock, lane_count));
    let mut marks = [0; 128];
    marks[..8].copy_from_slice(&LOW_MAGIC);
    marks[8..24].copy_from_slice(&uuid);
    marks[24..28].copy_from_slice(&lanes.to_le_bytes());
    sum(&mut marks);
    let len = (128 + 8 * u64::from(lanes)).next_multiple_of(4096);
    put("ring.low".to_owned(), &marks, len)?;
    for lane in 0..lanes.min(8) {
        let mut identity = LaneIdentity {
            magic: LANE_MAGIC,
            ring_uuid: uuid,
            schema_hash: word(ctl, offset_of!(Superblock, schema_hash)),
            lane,
            resizes: short(offset_of!(Superblock, resizes)),
            slots: long(offset_of!(Superblock, slots)),
            lane_capacity: long(offset_of!(Superblock, lane_capacity)),
            unused: [0; 60],
            crc32: 0,
        };
        sum(bytemuck::bytes_of_mut(&mut identity));
        let len = long(offset_of!(Superblock, lane_bytes));
        put(format!("lane-{lane:04}.dat"), bytemuck::bytes_of(&identity), len)?;
    }
    Ok(())
}

/// Overwrites the beginning of a file. With `repair`, also repairs the checksums in `ring.ctl` and
/// makes the other files agree with it.
pub fn overlay(dir: &Path, file: &str, bytes: &[u8], repair: bool) -> io::Result<()> {
    let path = dir.join(file);
    let mut content = fs::read(&path)?;
    let end = bytes.len().min(content.len());
    content[..end].copy_from_slice(&bytes[..end]);
    if repair && file == "ring.ctl" {
        self::repair(&mut content);
        agree(dir, &content)?;
    }
    fs::write(&path, content)
}

/// Writes live counters and rows that no correct writer leaves. Attaching accepts them, and readers
/// must survive them.
pub fn damage_lane(dir: &Path, lane: u32, dice: &mut Dice) -> io::Result<String> {
    let path = dir.join(format!("lane-{lane:04}.dat"));
    let mut bytes = fs::read(&path)?;
    let counters = [
        offset_of!(LaneHeader, reserved),
        offset_of!(LaneHeader, head),
        offset_of!(LaneHeader, generation),
        offset_of!(LaneHeader, pid),
    ];
    let head = odd_number(dice) >> dice.random_range(0..48);
    for (i, at) in counters.into_iter().enumerate() {
        // Half of the values are plausible, so that later checks are reached too.
        let value = if dice.random() { odd_number(dice) } else { head.wrapping_sub(i as u64) };
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    let noise = dice.random_range(4096..=bytes.len());
    dice.fill_bytes(&mut bytes[noise..]);
    // The lane claims to be relocated: to a file that contradicts it, to a relocated one, or
    // nowhere.
    let moved = dice.random_ratio(1, 4);
    if moved {
        let next = dir.join(format!("lane-{lane:04}.next"));
        let reserved = offset_of!(LaneHeader, reserved);
        let say_so = |bytes: &mut [u8]| {
            bytes[reserved..reserved + 8].copy_from_slice(&RELOCATED.to_le_bytes());
        };
        match dice.random_range(0..3) {
            0 => fs::copy(&path, &next).and_then(|_| fs::write(&next, &bytes))?,
            1 => {
                say_so(&mut bytes);
                fs::copy(&path, &next).and_then(|_| fs::write(&next, &bytes))?;
            }
            _ => {}
        }
        say_so(&mut bytes);
    }
    fs::write(&path, bytes)?;
    let moved = if moved { ", moved" } else { "" };
    Ok(format!("counters of lane {lane} are {head} or odd, noise from byte {noise} on{moved}"))
}
