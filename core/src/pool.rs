//! Memory of batches that is kept for the next batch when its last user lets go of it.
//!
//! The allocator gives large blocks back to the system each time, and the next batch would pay for
//! them again, a page fault for every 4 KiB.

use std::fmt;
use std::sync::{Arc, Mutex, Weak};

use bytemuck::{Pod, Zeroable};

use crate::error::SampleError;
use crate::plan::BatchPlan;

/// Unused blocks kept for each arena of a plan: one batch is being dropped while the next is made.
const KEPT: usize = 2;

/// A cache line: blocks begin on one.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u64; 8]);

/// One arena of a batch: plain bytes that begin on a cache line. Returns to the sampler that made
/// it when dropped, if that sampler is still there and still draws batches of this size.
pub struct Block {
    lines: Vec<Line>,
    bytes: usize,
    arena: usize,
    pool: Weak<Pool>,
}

impl Block {
    fn new(bytes: usize, arena: usize, pool: Weak<Pool>) -> Option<Self> {
        let (mut lines, count) = (Vec::new(), bytes.div_ceil(size_of::<Line>()));
        lines.try_reserve_exact(count).ok()?;
        lines.resize(count, Line::zeroed());
        Some(Self { lines, bytes, arena, pool })
    }

    /// The bytes, as many as the plan's arena says.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.lines).get(..self.bytes).unwrap_or_default()
    }

    /// The bytes, to be written.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.lines).get_mut(..self.bytes).unwrap_or_default()
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Block({} bytes)", self.bytes)
    }
}

impl Clone for Block {
    /// A copy that belongs to no sampler.
    fn clone(&self) -> Self {
        Self { lines: self.lines.clone(), bytes: self.bytes, arena: self.arena, pool: Weak::new() }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.upgrade() {
            pool.keep(self.arena, std::mem::take(&mut self.lines));
        }
    }
}

/// Unused blocks of one plan.
#[derive(Default)]
pub(crate) struct Pool {
    /// By arena.
    free: Mutex<Vec<Vec<Vec<Line>>>>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pool")
    }
}

impl Pool {
    /// Memory for a batch: what was in it before, or zeros. A batch that does not fit is an error,
    /// and no abort.
    pub(crate) fn take(self: &Arc<Self>, plan: &BatchPlan) -> Result<Vec<Block>, SampleError> {
        let mut kept = Vec::new();
        if let Ok(mut free) = self.free.lock() {
            free.resize_with(plan.arenas().len(), Vec::new);
            kept.extend(free.iter_mut().map(Vec::pop));
        }
        let mut blocks = Vec::with_capacity(plan.arenas().len());
        for (arena, needed) in plan.arenas().iter().enumerate() {
            let (bytes, pool) = (needed.bytes(), Arc::downgrade(self));
            let block = match kept.get_mut(arena).and_then(Option::take) {
                Some(lines) => Some(Block { lines, bytes, arena, pool }),
                None => Block::new(bytes, arena, pool),
            };
            blocks.push(block.ok_or_else(|| SampleError::TooLarge {
                batch: plan.batch(),
                bytes: plan.arenas().iter().fold(0, |sum: usize, a| sum.saturating_add(a.bytes())),
            })?);
        }
        Ok(blocks)
    }

    fn keep(&self, arena: usize, lines: Vec<Line>) {
        // Never waits: a thread that a fork left behind may have held the lock, and a block that
        // is not kept is only memory that is freed.
        let Ok(mut free) = self.free.try_lock() else { return };
        if let Some(free) = free.get_mut(arena)
            && free.len() < KEPT
        {
            free.push(lines);
        }
    }
}
