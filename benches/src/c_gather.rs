//! The baseline for windows: a gather in the style of a C program from columns in private memory,
//! with the checks of a sampler: row numbers, episodes, masks, end flags, indices, ages, and the
//! writer's counter after the copy.
#![expect(
    unsafe_code,
    reason = "pointers without bounds checks, as in C; no user's program has it"
)]

use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::record::{MEDIUM, Record};

/// Transitions up to and including the drawn one.
pub const HISTORY: usize = 20;
/// Transitions after it.
pub const FUTURE: usize = 5;
/// Rows of a window, the successor of the last transition included.
const ROWS: usize = HISTORY + FUTURE + 1;
const RECORD: Record = MEDIUM;
/// Rows of an episode, its FINAL row included.
const EPISODE: usize = 201;

/// A lane in private memory.
#[derive(Debug)]
pub struct Columns {
    seq: Vec<u64>,
    episode: Vec<u64>,
    t: Vec<u32>,
    flags: Vec<u32>,
    obs: Vec<f32>,
    action: Vec<f32>,
    reward: Vec<f32>,
    reserved: AtomicU64,
    state: u64,
}

/// A batch in the caller's memory, overwritten by each gather.
#[derive(Debug)]
pub struct Windows {
    obs: Vec<f32>,
    action: Vec<f32>,
    reward: Vec<f32>,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
    mask: Vec<bool>,
    index: Vec<i64>,
    age: Vec<i64>,
}

impl Windows {
    /// Allocates `batch` windows.
    #[must_use]
    pub fn new(batch: usize) -> Self {
        let transitions = batch * (ROWS - 1);
        Self {
            obs: vec![0.0; batch * ROWS * RECORD.obs],
            action: vec![0.0; transitions * RECORD.action],
            reward: vec![0.0; transitions],
            terminated: vec![false; transitions],
            truncated: vec![false; transitions],
            mask: vec![false; transitions],
            index: vec![0; batch],
            age: vec![0; batch],
        }
    }

    /// Returns the number of places that hold a transition.
    #[must_use]
    pub fn transitions(&self) -> usize {
        self.mask.iter().filter(|there| **there).count()
    }
}

impl Columns {
    /// Returns a full lane of `rows` rows, with episodes of 200 steps.
    #[must_use]
    pub fn filled(rows: usize) -> Self {
        let number = |row: usize| row as u64;
        let step = |row: usize| u32::try_from(row % EPISODE).unwrap_or(0);
        let flags = |row: usize| match row % EPISODE {
            199 => 2,
            200 => 4,
            _ => 0,
        };
        Self {
            seq: (0..rows).map(number).collect(),
            episode: (0..rows).map(|row| number(row / EPISODE)).collect(),
            t: (0..rows).map(step).collect(),
            flags: (0..rows).map(flags).collect(),
            obs: vec![0.5; rows * RECORD.obs],
            action: vec![0.25; rows * RECORD.action],
            reward: vec![1.0; rows],
            reserved: AtomicU64::new(rows as u64),
            state: 7,
        }
    }

    /// Draws a row that starts a transition and whose window lies in the lane.
    fn draw(&mut self) -> usize {
        loop {
            self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let rows = self.seq.len() - ROWS;
            let row = HISTORY + usize::try_from(self.state >> 33).unwrap_or(0) % rows;
            if self.flags[row] & 4 == 0 {
                return row;
            }
        }
    }

    /// Fills a batch with windows at random rows. Returns `false` if a row has a wrong number.
    #[must_use]
    pub fn gather(&mut self, out: &mut Windows) -> bool {
        let batch = out.index.len();
        let mut next = self.draw();
        let mut whole = true;
        for b in 0..batch {
            let row = next;
            next = self.draw();
            #[cfg(target_arch = "x86_64")]
            self.prefetch(next);
            whole &= self.window(row, b, out);
        }
        whole
    }

    #[cfg(target_arch = "x86_64")]
    fn prefetch(&self, row: usize) {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        let first = row + 1 - HISTORY;
        let bytes = ROWS * RECORD.obs * 4;
        // SAFETY: a prefetch accesses no memory, and the window lies in the column (`draw`).
        unsafe {
            let obs = self.obs.as_ptr().add(first * RECORD.obs).cast::<i8>();
            for line in (0..bytes).step_by(64) {
                _mm_prefetch::<_MM_HINT_T1>(obs.add(line));
            }
            _mm_prefetch::<_MM_HINT_T1>(self.action.as_ptr().add(first * RECORD.action).cast());
            _mm_prefetch::<_MM_HINT_T1>(self.reward.as_ptr().add(first).cast());
            _mm_prefetch::<_MM_HINT_T1>(self.seq.as_ptr().add(first).cast());
            _mm_prefetch::<_MM_HINT_T1>(self.episode.as_ptr().add(first).cast());
            _mm_prefetch::<_MM_HINT_T1>(self.flags.as_ptr().add(first).cast());
        }
    }

    fn window(&self, row: usize, b: usize, out: &mut Windows) -> bool {
        let first = row + 1 - HISTORY;
        let (of_obs, of_action) = (RECORD.obs, RECORD.action);
        // SAFETY: `draw` leaves `HISTORY` rows before and `FUTURE + 1` after the row, so that
        // source ranges lie in the columns. `Windows::new` allocated as many windows as `b` counts.
        // Source and destination vectors never overlap.
        unsafe {
            let copy = |from: &Vec<f32>, to: &mut Vec<f32>, rows: usize, width: usize| {
                let source = from.as_ptr().add(first * width);
                let target = to.as_mut_ptr().add(b * rows * width);
                ptr::copy_nonoverlapping(source, target, rows * width);
            };
            copy(&self.obs, &mut out.obs, ROWS, of_obs);
            copy(&self.action, &mut out.action, ROWS - 1, of_action);
            copy(&self.reward, &mut out.reward, ROWS - 1, 1);
            let episode = *self.episode.get_unchecked(row);
            let (mut whole, begin) = (true, b * (ROWS - 1));
            for k in 0..ROWS - 1 {
                let flags = *self.flags.get_unchecked(first + k);
                let same = *self.episode.get_unchecked(first + k) == episode && flags & 4 == 0;
                whole &= *self.seq.get_unchecked(first + k) == (first + k) as u64;
                *out.terminated.get_unchecked_mut(begin + k) = same && flags & 1 != 0;
                *out.truncated.get_unchecked_mut(begin + k) = same && flags & 2 != 0;
                *out.mask.get_unchecked_mut(begin + k) = same;
                if !same {
                    let (obs, action) = (b * ROWS + k, begin + k);
                    out.obs[obs * of_obs..(obs + 1) * of_obs].fill(0.0);
                    out.action[action * of_action..(action + 1) * of_action].fill(0.0);
                    out.reward[action] = 0.0;
                }
            }
            fence(Ordering::Acquire);
            let reserved = self.reserved.load(Ordering::Relaxed);
            whole &= reserved <= (first + self.seq.len()) as u64;
            *out.index.get_unchecked_mut(b) = row.cast_signed() as i64;
            *out.age.get_unchecked_mut(b) = reserved.cast_signed() - row.cast_signed() as i64;
            whole && usize::try_from(*self.t.get_unchecked(row)).is_ok_and(|t| t < EPISODE)
        }
    }
}
