//! A hostile peer: it writes into the files of a ring while others use it.

use std::fs::{File, OpenOptions};
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use backcast_core::{Base, Ring, SegmentError};
use backcast_layout::protocol::RELOCATED;
use backcast_layout::{LaneHeader, RingStore};
use rand::{Rng, RngExt};

use super::dice::Dice;
use super::files::odd_number;

/// Bytes of a row header: the sequence number, then episode, step and flags.
const MARK: u64 = 24;

/// The open files of a ring of two lanes, each written as a plain file.
#[derive(Debug)]
pub struct Noise {
    lanes: [File; 2],
    readers: File,
    /// Offset and length of every column, in bytes.
    columns: Vec<(u64, u64)>,
}

impl Noise {
    /// Opens the files of a named ring with at least two lanes.
    ///
    /// # Panics
    /// If the ring has no name, or its files cannot be opened.
    pub fn against(ring: &Ring, base: &Base, name: &str) -> Result<Self, SegmentError> {
        let store = RingStore::attach(base, name)?;
        let columns = store.geometry().places.iter().map(|place| (place.offset, place.length));
        let dir = ring.path().expect("a named ring");
        let open =
            |name| OpenOptions::new().write(true).open(dir.join(name)).expect("a file of ours");
        Ok(Self {
            lanes: [open("lane-0000.dat"), open("lane-0001.dat")],
            readers: open("ring.rdr"),
            columns: columns.collect(),
        })
    }

    /// Writes in a thread while `work` runs. Returns the result of `work`, and the number of
    /// writes.
    ///
    /// # Panics
    /// If the files cannot be written.
    pub fn beside<T>(&self, mut dice: Dice, work: impl FnOnce() -> T) -> (T, u64) {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let peer = scope.spawn(|| {
                let mut writes = 0;
                while !stop.load(Relaxed) {
                    self.write(&mut dice).expect("a file of ours can be written");
                    writes += 1;
                }
                writes
            });
            let done = {
                let _stop = Stop(&stop);
                work()
            };
            (done, peer.join().expect("the peer does not panic"))
        })
    }

    /// Writes once. Most numbers are plausible, so that later checks are reached too.
    pub fn write(&self, dice: &mut Dice) -> io::Result<()> {
        let lane = &self.lanes[dice.random_range(0..2_usize)];
        let (reserved, head) =
            (offset_of!(LaneHeader, reserved) as u64, offset_of!(LaneHeader, head) as u64);
        let mut noise = [0; 64];
        match dice.random_range(0..10) {
            0 => {
                let counter = if dice.random() { reserved } else { head };
                // A lane that claims to be relocated, without a new file or with a corrupt one.
                let value = if dice.random_ratio(1, 10) { RELOCATED } else { odd_number(dice) };
                lane.write_all_at(&value.to_le_bytes(), counter)
            }
            1..=5 => {
                let rows = dice.random_range(20_u64..60);
                lane.write_all_at(&rows.to_le_bytes(), head)?;
                lane.write_all_at(&(rows + rows % 9).to_le_bytes(), reserved)
            }
            6..=8 => {
                // Noise in every column but `seq`, since a wrong `seq` is refused before other
                // checks.
                dice.fill_bytes(&mut noise);
                let column = dice.random_range(0..self.columns.len());
                let (offset, length) = self.columns[column];
                if column == 0 {
                    let row = dice.random_range(0..length.min(2_000) / MARK);
                    lane.write_all_at(&noise[..16], offset + MARK * row + 8)
                } else {
                    let at = offset + dice.random_range(0..length.min(2_000) - 64);
                    lane.write_all_at(&noise, at)
                }
            }
            _ => {
                dice.fill_bytes(&mut noise);
                let row = dice.random_range(0..2_000);
                if dice.random_ratio(1, 200) {
                    let (offset, length) = self.columns[0];
                    lane.write_all_at(&noise[..8], offset + MARK * (row % (length / MARK)))
                } else {
                    self.readers.write_all_at(&noise, 128 + row / 8)
                }
            }
        }
    }
}

/// Stops the peer when the work ends, even by a panic.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}
