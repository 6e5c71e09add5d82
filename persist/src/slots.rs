//! The two manifests of a directory, written in turn. The newer valid one is current.
//!
//! A manifest is one line and the JSON text after it. The line is `backcast-manifest 1 <bytes of
//! the JSON> <BLAKE3 of the line up to here and of the JSON>`. Every version has that line, so that
//! another version can be told from damage.

use std::io::ErrorKind;
use std::path::Path;

use backcast_core::IoCause;
use backcast_core::plumbing::printable;

use crate::damage::{Damage, DamageKind};
use crate::error::StoreError;
use crate::manifest::Manifest;
use crate::read_failure::ReadFailure;
use crate::storage::Storage;

/// Version that this program writes.
const VERSION: u64 = 1;
const MAGIC: &str = "backcast-manifest";
const SLOTS: [&str; 2] = ["manifest-0", "manifest-1"];
/// Maximum bytes of a manifest.
const MAX_BYTES: u64 = 1 << 30;

/// Manifests of a directory.
#[derive(Debug)]
pub(crate) struct ManifestSlots {
    /// The newer valid manifest.
    pub(crate) manifest: Manifest,
    /// Slot of that manifest.
    current: usize,
    /// Manifest of the other slot, for the files that it names.
    pub(crate) older: Option<Manifest>,
    /// Damage of the other slot.
    pub(crate) damage: Option<Damage>,
}

impl ManifestSlots {
    /// Returns the slots of a new directory.
    pub(crate) fn empty(name: &str) -> Self {
        Self { manifest: Manifest::new(name), current: 1, older: None, damage: None }
    }

    /// Fails if the system did not read the other manifest, which may be newer than this one.
    pub(crate) fn all_read(&self) -> Result<(), StoreError> {
        match &self.damage {
            Some(Damage { file, kind: DamageKind::Unreadable { problem } }) => {
                let (path, problem) = (file.clone(), problem.clone());
                Err(StoreError::Unreadable { path, problem })
            }
            _ => Ok(()),
        }
    }
}

/// Content of the slots.
#[derive(Default)]
struct FoundSlots {
    good: Vec<(usize, Manifest)>,
    damages: Vec<Damage>,
    /// Error of a manifest that the system did not read.
    unread: Option<StoreError>,
}

impl FoundSlots {
    /// Reads a slot. Returns `false` if it is empty.
    fn read(
        &mut self,
        storage: &dyn Storage,
        dir: &Path,
        name: &str,
        slot: usize,
    ) -> Result<bool, StoreError> {
        let path = dir.join(SLOTS[slot]);
        match read_slot(storage, &path, name) {
            Ok(Some(manifest)) => self.good.push((slot, manifest)),
            Ok(None) => return Ok(false),
            Err(Unusable::Damaged(kind)) => self.damages.push(Damage { file: path, kind }),
            // Do not fall back to the other manifest, which may be older: a later read may succeed.
            Err(Unusable::Unread(source)) if IoCause::of(&source).is_of_process() => {
                return Err(StoreError::io("read", &path)(source));
            }
            Err(Unusable::Unread(source)) => {
                let kind = DamageKind::Unreadable { problem: source.to_string() };
                self.damages.push(Damage { file: path.clone(), kind });
                self.unread = Some(StoreError::io("read", &path)(source));
            }
            Err(Unusable::OtherVersion(found)) => {
                return Err(StoreError::OtherVersion { path, found, known: VERSION });
            }
        }
        Ok(true)
    }
}

/// Reads both slots. Returns `None` if both are empty.
pub(crate) fn read(
    storage: &dyn Storage,
    dir: &Path,
    name: &str,
) -> Result<Option<ManifestSlots>, StoreError> {
    let mut found = FoundSlots::default();
    for slot in 0..SLOTS.len() {
        found.read(storage, dir, name, slot)?;
    }
    // From the second generation on no slot is empty. Read the empty slot again: it may have been
    // written meanwhile.
    if let ([(slot, Manifest { generation: generation @ 2.., .. })], []) =
        (&*found.good, &*found.damages)
    {
        let (missing, generation) = (1 - slot, *generation);
        if !found.read(storage, dir, name, missing)? {
            let problem = format!("it is missing, and generation {generation} is not the first");
            let kind = DamageKind::Manifest { problem };
            found.damages.push(Damage { file: dir.join(SLOTS[missing]), kind });
        }
    }
    let FoundSlots { mut good, mut damages, unread } = found;
    good.sort_by_key(|(_, manifest)| manifest.generation);
    let older = if good.len() == 2 { Some(good.remove(0).1) } else { None };
    match good.pop() {
        Some((current, manifest)) => {
            Ok(Some(ManifestSlots { manifest, current, older, damage: damages.pop() }))
        }
        None if damages.is_empty() => Ok(None),
        // A manifest that was not read may be valid.
        None => Err(unread.unwrap_or(StoreError::NoManifest { path: dir.to_owned(), damages })),
    }
}

/// Writes `next` as the next generation into the other slot, and forces it to disk. The current
/// slot is untouched.
pub(crate) fn write(
    storage: &dyn Storage,
    dir: &Path,
    slots: &ManifestSlots,
    mut next: Manifest,
) -> Result<ManifestSlots, StoreError> {
    next.generation = slots.manifest.generation.saturating_add(1);
    let slot = 1 - slots.current;
    let file = SLOTS.get(slot).copied().unwrap_or(SLOTS[0]);
    let (path, beside) =
        (dir.join(file), dir.join(format!("{file}.{:08x}.tmp", rand::random::<u32>())));
    let written = (|| -> Result<(), StoreError> {
        let mut new = storage.create(&beside).map_err(StoreError::io("create", &beside))?;
        new.write_all(&encode(&next)).map_err(StoreError::io("write", &beside))?;
        new.sync().map_err(StoreError::io("force to disk", &beside))?;
        storage.rename(&beside, &path).map_err(StoreError::io("put in place", &path))
    })();
    if let Err(error) = written {
        // Report the error of the write.
        let _ = storage.remove(&beside);
        return Err(error);
    }
    storage.sync_dir(dir).map_err(StoreError::io("force to disk", dir))?;
    Ok(ManifestSlots {
        older: Some(slots.manifest.clone()),
        manifest: next,
        current: slot,
        damage: None,
    })
}

/// Returns whether a name is that of a temporary manifest.
pub(crate) fn is_leftover(name: &str) -> bool {
    SLOTS.iter().any(|slot| name.starts_with(slot) && name.len() > slot.len())
}

enum Unusable {
    Damaged(DamageKind),
    /// The system did not read it.
    Unread(std::io::Error),
    OtherVersion(u64),
}

impl Unusable {
    /// Returns a problem of the manifest on one printable line. The problem may quote any string of
    /// the file.
    fn manifest(problem: impl AsRef<str>) -> Self {
        let problem = printable(problem.as_ref()).replace('\n', "\u{fffd}");
        Self::Damaged(DamageKind::Manifest { problem })
    }
}

fn read_slot(storage: &dyn Storage, path: &Path, name: &str) -> Result<Option<Manifest>, Unusable> {
    let unread = |error: std::io::Error| match ReadFailure::of(path, error) {
        ReadFailure::Damaged(damage) => Unusable::Damaged(damage.kind),
        ReadFailure::Unread { source, .. } => Unusable::Unread(source),
    };
    let file = match storage.open(path) {
        Ok(file) => file,
        // A plain file in place of the directory has no snapshots.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(unread(error)),
    };
    let bytes = file.bytes().map_err(unread)?;
    if bytes > MAX_BYTES {
        return Err(Unusable::manifest(format!("it has {bytes} bytes, more than {MAX_BYTES}")));
    }
    let (mut content, len) = (Vec::new(), usize::try_from(bytes).unwrap_or_default());
    content.try_reserve_exact(len).map_err(|_| unread(ErrorKind::OutOfMemory.into()))?;
    content.resize(len, 0);
    file.read_exact_at(&mut content, 0).map_err(unread)?;
    let manifest = decode(&content)?;
    match manifest.problem(name) {
        Some(problem) => Err(Unusable::manifest(problem)),
        None => Ok(Some(manifest)),
    }
}

fn encode(manifest: &Manifest) -> Vec<u8> {
    // Strings, numbers and lists always serialise.
    let mut json = serde_json::to_vec(manifest).unwrap_or_default();
    json.push(b'\n');
    let line = format!("{MAGIC} {VERSION} {} ", json.len());
    let hash = hash(&line, &json);
    let mut bytes = format!("{line}{hash}\n").into_bytes();
    bytes.extend_from_slice(&json);
    bytes
}

fn hash(line: &str, json: &[u8]) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(line.as_bytes()).update(json);
    hasher.finalize().to_hex().to_string()
}

fn decode(bytes: &[u8]) -> Result<Manifest, Unusable> {
    let damaged = || Unusable::manifest("it is cut or changed: its checksum does not fit");
    let end = bytes.iter().take(256).position(|byte| *byte == b'\n').ok_or_else(damaged)?;
    let (line, json) =
        (bytes.get(..end).unwrap_or_default(), bytes.get(end + 1..).unwrap_or_default());
    let line = std::str::from_utf8(line).map_err(|_| damaged())?;
    let (signed, said) = line.rsplit_once(' ').ok_or_else(damaged)?;
    if hash(&format!("{signed} "), json) != said {
        return Err(damaged());
    }
    let words: Vec<&str> = signed.split(' ').collect();
    let [MAGIC, version, length] = words[..] else { return Err(damaged()) };
    match version.parse() {
        Ok(VERSION) => {}
        Ok(other) => return Err(Unusable::OtherVersion(other)),
        Err(_) => return Err(damaged()),
    }
    if length.parse() != Ok(json.len()) {
        return Err(damaged());
    }
    serde_json::from_slice(json).map_err(|error| Unusable::manifest(format!("its text: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Disk;

    fn manifest(generation: u64) -> Manifest {
        Manifest { generation, ..Manifest::new("pong") }
    }

    #[test]
    fn slots_are_written_in_turn_and_the_higher_generation_counts() {
        let dir = tempfile::tempdir().unwrap();
        assert!(read(&Disk, dir.path(), "pong").unwrap().is_none());
        let mut slots = ManifestSlots::empty("pong");
        for generation in 1..5_u64 {
            slots = write(&Disk, dir.path(), &slots, Manifest::new("pong")).unwrap();
            let found = read(&Disk, dir.path(), "pong").unwrap().unwrap();
            assert_eq!(found.manifest.generation, generation);
            assert_eq!(found.older.map(|m| m.generation), (generation > 1).then(|| generation - 1));
            assert!(found.damage.is_none());
        }
    }

    #[test]
    fn a_slot_is_missing_from_the_second_generation_on_and_that_is_damage() {
        let dir = tempfile::tempdir().unwrap();
        let mut slots = ManifestSlots::empty("pong");
        for generation in 1..4_u64 {
            slots = write(&Disk, dir.path(), &slots, Manifest::new("pong")).unwrap();
            for slot in SLOTS.map(|slot| dir.path().join(slot)).into_iter().filter(|s| s.exists()) {
                let content = std::fs::read(&slot).unwrap();
                std::fs::remove_file(&slot).unwrap();
                let found = read(&Disk, dir.path(), "pong").unwrap();
                let damage = found.and_then(|found| found.damage);
                // A single generation cannot show that a slot is missing.
                let told = generation > 2 || (generation == 2 && slot.ends_with(SLOTS[0]));
                assert_eq!(damage.as_ref().map(|d| &d.file), told.then_some(&slot));
                if let Some(damage) = damage {
                    let DamageKind::Manifest { problem } = &damage.kind else { panic!("{damage}") };
                    assert!(problem.contains("missing"), "{problem}");
                }
                std::fs::write(&slot, content).unwrap();
            }
        }
    }

    #[test]
    fn another_version_is_distinguished_from_damage() {
        let bytes = encode(&manifest(3));
        assert_eq!(decode(&bytes).ok(), Some(manifest(3)));
        let json_at = bytes.iter().position(|b| *b == b'\n').unwrap() + 1;
        let json = &bytes[json_at..];
        let line = format!("{MAGIC} 2 {} ", json.len());
        let newer = [format!("{line}{}\n", hash(&line, json)).as_bytes(), json].concat();
        assert!(matches!(decode(&newer), Err(Unusable::OtherVersion(2))));
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x10;
            assert!(matches!(decode(&flipped), Err(Unusable::Damaged(_))), "byte {at}");
            assert!(matches!(decode(&bytes[..at]), Err(Unusable::Damaged(_))), "cut at {at}");
        }
    }
}
