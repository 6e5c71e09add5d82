//! What was done so far, a line for each unit of it, so that the same call goes on from there when it was
//! cut. A line begins with its own hash: one that is torn ends the journal.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::marker::PhantomData;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What is to be done, beside the journal of what is.
const PLAN: &str = "plan.json";
const JOURNAL: &str = "journal";
const NEXT: &str = "journal.next";
/// The files of a journal.
pub(crate) const FILES: [&str; 3] = [JOURNAL, NEXT, PLAN];
/// Longest plan or journal that is read.
const MOST_WORDS: u64 = 1 << 30;

/// A line of the journal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Line<U> {
    Unit(U),
    /// All is done; the next step gives this file or folder its name.
    Whole(Inode),
}

/// The device and the number of a file or folder, which stay when it is renamed.
pub(crate) type Inode = (u64, u64);

/// The inode at a path.
pub(crate) fn inode(path: &Path) -> Option<Inode> {
    path.symlink_metadata().ok().map(|found| (found.dev(), found.ino()))
}

/// What an earlier call left.
#[derive(Debug)]
pub(crate) struct Found<P, U> {
    pub(crate) plan: Option<P>,
    /// Up to the first line that is torn.
    pub(crate) units: Vec<U>,
    /// What had all of them.
    pub(crate) whole: Option<Inode>,
}

/// Reads what is in a folder. What cannot be understood is as if it were not there.
pub(crate) fn find<P: DeserializeOwned, U: DeserializeOwned>(
    folder: &Path,
) -> io::Result<Found<P, U>> {
    let plan = serde_json::from_slice(&words(&folder.join(PLAN))?).ok();
    let (mut units, mut whole) = (Vec::new(), None);
    for line in words(&folder.join(JOURNAL))?.split_inclusive(|byte| *byte == b'\n') {
        match line.strip_suffix(b"\n").and_then(parse) {
            Some(Line::Unit(unit)) => units.push(unit),
            Some(Line::Whole(inode)) => {
                whole = Some(inode);
                break;
            }
            None => break,
        }
    }
    Ok(Found { plan, units, whole })
}

/// Notes down what is to be done.
pub(crate) fn write_plan<P: Serialize>(folder: &Path, plan: &P) -> io::Result<()> {
    fs::write(folder.join(PLAN), serde_json::to_vec(plan)?)
}

/// A journal that is being written.
#[derive(Debug)]
pub(crate) struct Journal<U> {
    file: File,
    of: PhantomData<U>,
}

impl<U: Serialize + Clone> Journal<U> {
    /// One of the units so far: what was torn at the end of the old one would spoil the next line.
    pub(crate) fn of(folder: &Path, units: &[U]) -> io::Result<Self> {
        let next = folder.join(NEXT);
        let mut journal = Self { file: File::create(&next)?, of: PhantomData };
        for unit in units {
            journal.add(unit)?;
        }
        fs::rename(next, folder.join(JOURNAL))?;
        Ok(journal)
    }

    pub(crate) fn add(&mut self, unit: &U) -> io::Result<()> {
        self.write(&Line::Unit(unit.clone()))
    }

    /// Says that all is done.
    pub(crate) fn end(&mut self, whole: Inode) -> io::Result<()> {
        self.write(&Line::Whole(whole))
    }

    fn write(&mut self, line: &Line<U>) -> io::Result<()> {
        let text = serde_json::to_string(line)?;
        let hash = blake3::hash(text.as_bytes()).to_hex();
        self.file.write_all(format!("{hash}{text}\n").as_bytes())
    }
}

fn parse<U: DeserializeOwned>(line: &[u8]) -> Option<Line<U>> {
    let (hash, text) = line.split_at_checked(2 * blake3::OUT_LEN)?;
    if blake3::hash(text).to_hex().as_bytes() != hash {
        return None;
    }
    serde_json::from_slice(text).ok()
}

/// What is there of a file; nothing if it is not.
fn words(path: &Path) -> io::Result<Vec<u8>> {
    let mut words = Vec::new();
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        opened => {
            opened?.take(MOST_WORDS).read_to_end(&mut words)?;
        }
    }
    Ok(words)
}
