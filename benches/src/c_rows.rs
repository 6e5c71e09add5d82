//! The baseline for single rows: a gather of given rows in the style of a C program that maps a
//! ring's lanes and knows the offsets of their columns. It makes the checks of a sampler: row
//! numbers, episodes, end flags, ages, and the writer's counter after the copy.
//!
//! There are three variants. One takes the widths of columns as arguments, as a library must. One
//! is compiled for these columns, whose widths are constants. One draws the rows itself, like a
//! sampler of the same seed.
#![expect(
    unsafe_code,
    reason = "pointers without bounds checks, as in C; no user's program has it"
)]

use std::fs::File;
use std::hint::black_box;
use std::io;
use std::mem::offset_of;
use std::os::fd::AsFd;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use backcast_core::{Base, Ring};
use backcast_layout::{LaneHeader, RingStore};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::c_draws::Draws;
use crate::record::Record;

/// Longest prefetch distance, in rows. A power of two.
const MOST_AHEAD: usize = 32;
/// Bytes of a huge page.
const HUGE: usize = 2 << 20;
/// Bytes of a cache line.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// Source of the column widths in a gather.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Widths {
    /// Arguments, as in a library.
    Dynamic,
    /// Constants: only these columns can be gathered.
    Constant,
}

/// Prefetch setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefetch {
    /// Prefetch distance in rows: even, at most 32.
    pub ahead: usize,
    /// Whether to prefetch into L1, not into L2.
    pub nearest: bool,
}

impl Prefetch {
    /// Settings of which one is likely to be the fastest on any processor and for any size of a
    /// ring.
    pub const ALL: [Self; 8] = [
        Self { ahead: 4, nearest: true },
        Self { ahead: 8, nearest: true },
        Self { ahead: 16, nearest: true },
        Self { ahead: MOST_AHEAD, nearest: true },
        Self { ahead: 4, nearest: false },
        Self { ahead: 8, nearest: false },
        Self { ahead: 16, nearest: false },
        Self { ahead: MOST_AHEAD, nearest: false },
    ];
}

/// Row header, as it lies in memory.
#[derive(Clone, Copy)]
#[repr(C)]
struct Mark {
    seq: u64,
    episode: u64,
    t: u32,
    flags: u32,
}

/// Offsets of the columns in a lane's file.
#[derive(Clone, Copy, Debug)]
struct Places {
    marks: usize,
    obs: usize,
    action: usize,
    reward: usize,
}

/// A lane's file, mapped for reading at a multiple of the huge page size, as a sampler maps it.
#[derive(Debug)]
struct Mapped {
    base: *const u8,
    reservation: *mut u8,
    reserved_bytes: usize,
}

impl Mapped {
    fn file(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let len = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        let reserved_bytes = len + HUGE;
        // SAFETY: the kernel chooses unused addresses. The file replaces only pages among them, as
        // the distance to the next multiple of `HUGE` is below `HUGE`.
        unsafe {
            let flags = MapFlags::PRIVATE;
            let all = mmap_anonymous(ptr::null_mut(), reserved_bytes, ProtFlags::empty(), flags)?;
            let reservation = all.cast::<u8>();
            let base = reservation.wrapping_add(reservation.addr().wrapping_neg() % HUGE);
            let mapped = Self { base, reservation, reserved_bytes };
            let flags = MapFlags::SHARED | MapFlags::FIXED;
            mmap(base.cast(), len, ProtFlags::READ, flags, file.as_fd(), 0)?;
            Ok(mapped)
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what `file` reserved, once.
        let _ = unsafe { munmap(self.reservation.cast(), self.reserved_bytes) };
    }
}

/// The mapped lanes of a ring whose rows have `OBS` and `ACTION` floats.
#[derive(Debug)]
pub struct MappedRing<const OBS: usize, const ACTION: usize> {
    lanes: Vec<Mapped>,
    places: Places,
    slots: usize,
    /// For each lane, the rows ever published, and the sequence number of the row in slot 0.
    heads: Vec<(usize, usize)>,
}

/// A batch in the caller's memory, overwritten by each gather.
#[derive(Debug)]
pub struct Rows {
    /// Observations.
    pub obs: Vec<f32>,
    /// Observations of the next rows.
    pub next_obs: Vec<f32>,
    /// Actions.
    pub action: Vec<f32>,
    /// Rewards.
    pub reward: Vec<f32>,
    /// Whether the transition is terminated.
    pub terminated: Vec<u8>,
    /// Whether the transition is truncated.
    pub truncated: Vec<u8>,
    /// Indices of the rows.
    pub index: Vec<i64>,
    /// Number of newer rows in the lane.
    pub age: Vec<i64>,
}

impl Rows {
    /// Allocates `batch` rows.
    #[must_use]
    pub fn new(record: Record, batch: usize) -> Self {
        Self {
            obs: vec![0.0; batch * record.obs],
            next_obs: vec![0.0; batch * record.obs],
            action: vec![0.0; batch * record.action],
            reward: vec![0.0; batch],
            terminated: vec![0; batch],
            truncated: vec![0; batch],
            index: vec![0; batch],
            age: vec![0; batch],
        }
    }

    /// Returns the columns as bytes, in the order of a sampler's arenas.
    #[must_use]
    pub fn arenas(&self) -> [&[u8]; 8] {
        [
            bytemuck::cast_slice(&self.obs),
            bytemuck::cast_slice(&self.next_obs),
            bytemuck::cast_slice(&self.action),
            bytemuck::cast_slice(&self.reward),
            &self.terminated,
            &self.truncated,
            bytemuck::cast_slice(&self.index),
            bytemuck::cast_slice(&self.age),
        ]
    }
}

impl<const OBS: usize, const ACTION: usize> MappedRing<OBS, ACTION> {
    /// Sizes of the rows that are gathered.
    pub const RECORD: Record = Record { obs: OBS, action: ACTION };

    /// Maps a ring that no process writes any more.
    ///
    /// # Panics
    /// If its columns have other widths.
    pub fn of(ring: &Ring, base: &Base, name: &str) -> Result<Self, Box<dyn std::error::Error>> {
        let store = RingStore::attach(base, name)?;
        let geometry = store.geometry();
        let [marks, obs, action, reward] = geometry.places.as_slice() else {
            return Err("a ring of other columns".into());
        };
        let widths = [marks.width, obs.width, action.width, reward.width];
        assert_eq!(widths, [size_of::<Mark>(), OBS * 4, ACTION * 4, 4], "bytes of a row");
        let places = Places {
            marks: usize::try_from(marks.offset)?,
            obs: usize::try_from(obs.offset)?,
            action: usize::try_from(action.offset)?,
            reward: usize::try_from(reward.offset)?,
        };
        let slots = usize::try_from(geometry.slots)?;
        let dir = ring.path().ok_or("a ring without files")?;
        let (mut lanes, mut heads) = (Vec::new(), Vec::new());
        for lane in 0..ring.lanes() {
            lanes.push(Mapped::file(&dir.join(format!("lane-{lane:04}.dat")))?);
            let head = usize::try_from(ring.lane_span(lane).ok_or("a lane")?.end)?;
            heads.push((head, head - head % slots));
        }
        Ok(Self { lanes, places, slots, heads })
    }

    /// Copies the rows that `index` names and the observations after them. Returns `false` if a row
    /// was overwritten or begins no transition.
    ///
    /// # Panics
    /// If the batch has another number of rows.
    #[must_use]
    pub fn gather(
        &self,
        widths: Widths,
        prefetch: Prefetch,
        index: &[i64],
        out: &mut Rows,
    ) -> bool {
        match (widths, prefetch.nearest) {
            (Widths::Dynamic, false) => self.gather_of::<false, false>(prefetch.ahead, index, out),
            (Widths::Dynamic, true) => self.gather_of::<false, true>(prefetch.ahead, index, out),
            (Widths::Constant, false) => self.gather_of::<true, false>(prefetch.ahead, index, out),
            (Widths::Constant, true) => self.gather_of::<true, true>(prefetch.ahead, index, out),
        }
    }

    #[inline(never)]
    fn gather_of<const COMPILED: bool, const NEAREST: bool>(
        &self,
        ahead: usize,
        index: &[i64],
        out: &mut Rows,
    ) -> bool {
        assert_eq!(index.len(), out.index.len(), "rows of a batch");
        assert_eq!(out.obs.len(), index.len() * OBS, "a batch of such rows");
        // Only x86-64 has prefetches here.
        #[cfg(not(target_arch = "x86_64"))]
        let _ = ahead;
        let mut whole = true;
        for (b, of) in index.iter().enumerate() {
            #[cfg(target_arch = "x86_64")]
            if let Some(of) = index.get(b + ahead) {
                self.prefetch::<NEAREST>(*of);
            }
            // SAFETY: `b` is below the length of the batch, just asserted.
            whole &= unsafe { self.row::<COMPILED>(*of, b, out) };
        }
        whole
    }

    /// Draws the rows of the sampler's batch of this number, and copies them.
    ///
    /// # Panics
    /// If the batch is of other rows, or the prefetch distance is too long.
    pub fn sample(&self, draws: &Draws, prefetch: Prefetch, batch: u64, out: &mut Rows) {
        if prefetch.nearest {
            self.sample_of::<true>(draws, prefetch.ahead, batch, out);
        } else {
            self.sample_of::<false>(draws, prefetch.ahead, batch, out);
        }
    }

    #[inline(never)]
    fn sample_of<const NEAREST: bool>(
        &self,
        draws: &Draws,
        ahead: usize,
        batch: u64,
        out: &mut Rows,
    ) {
        assert_eq!(out.obs.len(), out.index.len() * OBS, "a batch of such rows");
        assert!(ahead <= MOST_AHEAD, "{ahead} rows ahead");
        let mut found = [None; 2 * MOST_AHEAD];
        let (pairs, pairs_ahead) = (out.index.len().div_ceil(2), ahead / 2);
        let draw = |found: &mut [Option<i64>; 2 * MOST_AHEAD], pair: usize| {
            let of = draws.pair(batch, u32::try_from(pair).unwrap_or(u32::MAX), 0);
            for (number, index) in of.into_iter().enumerate() {
                found[(2 * pair + number) % (2 * MOST_AHEAD)] = index;
                #[cfg(target_arch = "x86_64")]
                if let Some(index) = index {
                    self.prefetch::<NEAREST>(index);
                }
            }
        };
        (0..pairs_ahead.min(pairs)).for_each(|pair| draw(&mut found, pair));
        for b in 0..out.index.len() {
            // Draws and prefetches nothing beyond the batch.
            if b.is_multiple_of(2) && b / 2 + pairs_ahead < pairs {
                draw(&mut found, b / 2 + pairs_ahead);
            }
            let (mut index, mut attempt) = (found[b % (2 * MOST_AHEAD)], 0);
            // SAFETY: `b` is below the length of the batch, for which every output has room.
            while !index.is_some_and(|index| unsafe { self.row::<false>(index, b, out) }) {
                attempt += 1;
                index = draws.again(batch, u32::try_from(b).unwrap_or(u32::MAX), attempt);
            }
        }
    }

    /// Returns the lane, the row and its slot.
    #[expect(clippy::cast_sign_loss, reason = "an index is not negative")]
    fn place(&self, index: i64) -> (usize, usize, usize) {
        let (lane, seq) = ((index >> 48) as usize, (index & ((1 << 48) - 1)) as usize);
        assert!(lane < self.lanes.len(), "an index of a sampler of this ring");
        // SAFETY: the lane was asserted above, and there are as many heads as lanes.
        let (_, around) = unsafe { *self.heads.get_unchecked(lane) };
        let slot = if seq >= around { seq - around } else { seq + self.slots - around };
        assert!(slot < self.slots, "an index of a sampler of this ring");
        (lane, seq, slot)
    }

    #[cfg(target_arch = "x86_64")]
    fn prefetch<const NEAREST: bool>(&self, index: i64) {
        use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        let (lane, _, slot) = self.place(index);
        let base = self.lanes[lane].base;
        let ask = |place: usize, width: usize, rows: usize| {
            let first = base.wrapping_add(place + slot * width);
            let last = rows * width - 1;
            for at in (0..last).step_by(LINE).chain([last]) {
                let asked = first.wrapping_add(at).cast();
                // SAFETY: a prefetch accesses no memory.
                unsafe {
                    if NEAREST {
                        _mm_prefetch::<_MM_HINT_T0>(asked);
                    } else {
                        _mm_prefetch::<_MM_HINT_T1>(asked);
                    }
                }
            }
        };
        // The header of the successor, which suffices for most rows.
        ask(self.places.marks + size_of::<Mark>(), size_of::<Mark>(), 1);
        ask(self.places.obs, OBS * 4, 2);
        ask(self.places.action, ACTION * 4, 1);
        ask(self.places.reward, 4, 1);
    }

    /// Copies one row. Returns `false` if it was overwritten or begins no transition.
    ///
    /// # Safety
    /// `b` is below the length of the batch.
    #[expect(
        clippy::cast_ptr_alignment,
        reason = "columns begin on pages, with rows of whole words"
    )]
    unsafe fn row<const COMPILED: bool>(&self, index: i64, b: usize, out: &mut Rows) -> bool {
        let (lane, seq, slot) = self.place(index);
        let next = if slot + 1 == self.slots { 0 } else { slot + 1 };
        let Places { marks, obs, action, reward } = self.places;
        // SAFETY: both slots are below the lane's number of slots (`place`), and every column has a
        // row in each, aligned to its words, as columns begin on multiples of a page. The caller
        // ensures that `Rows::new` made room for `b`. No process writes the ring.
        unsafe {
            let (base, (head, _)) = (self.lanes[lane].base, *self.heads.get_unchecked(lane));
            let mark = |slot: usize| *base.add(marks + slot * size_of::<Mark>()).cast::<Mark>();
            let after = mark(next);
            // The successor is an unflagged step that is not the first of its episode, so the row
            // before it is unflagged too.
            let quiet = after.seq == seq as u64 + 1 && after.flags == 0 && after.t > 0;
            let (flags, follows) = if quiet {
                (0, true)
            } else {
                let this = mark(slot);
                let follows = after.episode == this.episode && after.t == this.t + 1;
                let theirs = (this.seq, after.seq) == (seq as u64, seq as u64 + 1);
                (this.flags, follows && theirs)
            };
            let columns = [
                (&mut out.obs, obs, OBS * 4, slot),
                (&mut out.next_obs, obs, OBS * 4, next),
                (&mut out.action, action, ACTION * 4, slot),
                (&mut out.reward, reward, size_of::<f32>(), slot),
            ];
            for (to, place, width, slot) in columns {
                let width = if COMPILED { width } else { black_box(width) };
                let to = to.as_mut_ptr().cast::<u8>().add(b * width);
                ptr::copy_nonoverlapping(base.add(place + slot * width), to, width);
            }
            *out.terminated.get_unchecked_mut(b) = u8::from(flags & 1 != 0);
            *out.truncated.get_unchecked_mut(b) = u8::from(flags & 2 != 0);
            *out.index.get_unchecked_mut(b) = index;
            *out.age.get_unchecked_mut(b) = (head - seq - 1).cast_signed() as i64;
            fence(Ordering::Acquire);
            let at = base.add(offset_of!(LaneHeader, reserved)).cast::<AtomicU64>();
            let reserved = (*at).load(Ordering::Relaxed);
            let whole = reserved <= (seq + self.slots) as u64 && flags & 4 == 0;
            whole && follows
        }
    }
}
