//! Pool of batch memory: a dropped batch leaves its memory to the next one.
//!
//! Without it the allocator returns large blocks to the system each time, and the next batch pays a
//! page fault for every 4 KiB.

use std::fmt;
use std::sync::{Arc, Mutex, Weak};

use backcast_layout::Bytes;

/// Unused blocks kept for each arena: two, as one batch is often dropped after the next is made.
const SPARE_BLOCKS: usize = 2;
/// Bytes from which on block sizes are rounded up, so that batches of varying size share blocks.
const ROUND_UP_FROM: usize = 1 << 20;

/// Memory of one arena: bytes aligned to a cache line, on huge pages if the block is large enough.
/// A dropped block returns to its pool, if the pool still exists.
pub struct ArenaBlock {
    /// Memory of the block, at least `len` bytes; `None` once it is returned to the pool.
    bytes: Option<Bytes>,
    len: usize,
    arena: usize,
    pool: Weak<ArenaPool>,
}

impl ArenaBlock {
    /// Returns the bytes of the arena.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_deref().and_then(|bytes| bytes.get(..self.len)).unwrap_or_default()
    }

    /// Returns the bytes of the arena for writing.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes.as_deref_mut().and_then(|bytes| bytes.get_mut(..self.len)).unwrap_or_default()
    }
}

impl fmt::Debug for ArenaBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ArenaBlock({} bytes)", self.bytes().len())
    }
}

impl Clone for ArenaBlock {
    /// Copies the bytes into a block that belongs to no pool.
    ///
    /// # Panics
    /// If the memory cannot be allocated.
    fn clone(&self) -> Self {
        let mut bytes = Bytes::zeroed(self.bytes().len()).expect("memory for a copy");
        bytes.copy_from_slice(self.bytes());
        Self { bytes: Some(bytes), len: self.len, arena: self.arena, pool: Weak::new() }
    }
}

impl Drop for ArenaBlock {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.upgrade()
            && let Some(bytes) = self.bytes.take()
        {
            pool.keep(self.arena, bytes);
        }
    }
}

/// Unused blocks of batches with equal, or mostly equal, arenas.
#[derive(Default)]
pub struct ArenaPool {
    /// Unused blocks by arena.
    free: Mutex<Vec<Vec<Bytes>>>,
}

impl fmt::Debug for ArenaPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ArenaPool")
    }
}

impl ArenaPool {
    /// Returns a block for each arena, of the given number of bytes. A block holds zeros or an
    /// earlier batch. Returns `None` if one cannot be allocated.
    #[must_use]
    pub fn take(
        self: &Arc<Self>,
        arenas: impl ExactSizeIterator<Item = usize>,
    ) -> Option<Vec<ArenaBlock>> {
        let arenas: Vec<usize> = arenas.collect();
        let mut kept = Vec::new();
        if let Ok(mut free) = self.free.lock() {
            let all = arenas.len().max(free.len());
            free.resize_with(all, Vec::new);
            kept.extend(free.iter_mut().zip(&arenas).map(|(free, len)| {
                let room = room_for(*len)?;
                let fits = free.iter().rposition(|bytes| bytes.len() == room);
                fits.map(|at| free.remove(at))
            }));
        }
        let blocks = arenas.into_iter().enumerate().map(|(arena, len)| {
            let kept = kept.get_mut(arena).and_then(Option::take);
            let bytes = Some(kept.or_else(|| Bytes::zeroed(room_for(len)?))?);
            Some(ArenaBlock { bytes, len, arena, pool: Arc::downgrade(self) })
        });
        blocks.collect()
    }

    fn keep(&self, arena: usize, bytes: Bytes) {
        // Never waits: in a forked child the lock may be held by a thread that no longer exists. A
        // block that is not kept is freed.
        let Ok(mut free) = self.free.try_lock() else { return };
        let Some(free) = free.get_mut(arena) else { return };
        if free.len() >= SPARE_BLOCKS {
            free.remove(0);
        }
        free.push(bytes);
    }
}

/// Returns the size of the block for `len` bytes, rounded up by at most a sixteenth if large.
/// Returns `None` on overflow.
fn room_for(len: usize) -> Option<usize> {
    if len < ROUND_UP_FROM {
        return Some(len);
    }
    let step = (len / 2 + 1).next_power_of_two() / 16;
    len.checked_next_multiple_of(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(pool: &Arc<ArenaPool>, arenas: &[usize]) -> Vec<ArenaBlock> {
        pool.take(arenas.iter().copied()).expect("memory")
    }

    fn places(blocks: &[ArenaBlock]) -> Vec<*const u8> {
        blocks.iter().map(|block| block.bytes().as_ptr()).collect()
    }

    #[test]
    fn batches_of_two_sizes_in_turns_keep_their_memory() {
        let pool = Arc::default();
        let [small, large] = [[100, 3 << 20], [200, 5 << 20]];
        let before = [small, large].map(|arenas| places(&take(&pool, &arenas)));
        for _ in 0..3 {
            for (arenas, before) in [small, large].iter().zip(&before) {
                let blocks = take(&pool, arenas);
                assert!(blocks.iter().map(|block| block.bytes().len()).eq(*arenas));
                assert_eq!(places(&blocks), *before);
            }
        }
    }

    #[test]
    fn large_batches_of_nearly_one_size_share_their_memory() {
        let pool = Arc::default();
        let sizes = [380_usize, 384, 381, 383].map(|tickers| tickers * 9_000);
        let before = places(&take(&pool, &[sizes[0]]));
        for size in sizes {
            let mut blocks = take(&pool, &[size]);
            assert_eq!((places(&blocks), blocks[0].bytes().len()), (before.clone(), size));
            assert_eq!(blocks[0].bytes_mut().len(), size);
        }
        for len in (0..40).map(|power| 1_usize << power).flat_map(|len| [len, len + 1, len * 3 / 2])
        {
            let room = room_for(len).unwrap();
            assert!((len..=len + len / 16 + 1).contains(&room), "{len}: {room}");
        }
        assert_eq!(room_for(usize::MAX), None);
    }

    #[test]
    fn the_last_blocks_are_kept_and_no_more() {
        let pool = Arc::default();
        let blocks: Vec<_> = (1..=4).map(|n| take(&pool, &[n * 100])).collect();
        drop(blocks);
        let kept: Vec<usize> =
            pool.free.lock().unwrap()[0].iter().map(|bytes| bytes.len()).collect();
        assert_eq!(kept, [300, 400]);
        let one = take(&pool, &[400]);
        drop(pool);
        assert_eq!(one[0].bytes().len(), 400, "it outlives the pool");
    }

    #[test]
    fn a_batch_without_memory_is_none() {
        let pool: Arc<ArenaPool> = Arc::default();
        assert!(pool.take([64, usize::MAX].into_iter()).is_none());
    }
}
