//! Memory of batches that is kept for the next batch when its last user lets go of it.
//!
//! The allocator gives large blocks back to the system each time, and the next batch would pay for
//! them again, a page fault for every 4 KiB.

use std::fmt;
use std::sync::{Arc, Mutex, Weak};

use backcast_layout::Bytes;

/// Unused blocks kept for each arena: one batch is being dropped while the next is made.
const KEPT: usize = 2;

/// One arena of a batch: plain bytes that begin on a cache line, and many on huge pages. Returns to its pool when dropped, if
/// that is still there.
pub struct Block {
    /// None once they are given back.
    bytes: Option<Bytes>,
    arena: usize,
    pool: Weak<Pool>,
}

impl Block {
    /// The bytes, as many as were asked for.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_deref().unwrap_or_default()
    }

    /// The bytes, to be written.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes.as_deref_mut().unwrap_or_default()
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Block({} bytes)", self.bytes().len())
    }
}

impl Clone for Block {
    /// A copy that belongs to no pool.
    ///
    /// # Panics
    /// If there is no memory for it.
    fn clone(&self) -> Self {
        let mut bytes = Bytes::zeroed(self.bytes().len()).expect("memory for a copy");
        bytes.copy_from_slice(self.bytes());
        Self { bytes: Some(bytes), arena: self.arena, pool: Weak::new() }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.upgrade()
            && let Some(bytes) = self.bytes.take()
        {
            pool.keep(self.arena, bytes);
        }
    }
}

/// Unused blocks of batches that have the same arenas, or nearly always have.
#[derive(Default)]
pub struct Pool {
    /// By arena.
    free: Mutex<Vec<Vec<Bytes>>>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pool")
    }
}

impl Pool {
    /// A block of so many bytes for each arena: what was in it before, or zeros. `None` where there is no memory for one.
    #[must_use]
    pub fn take(
        self: &Arc<Self>,
        arenas: impl ExactSizeIterator<Item = usize>,
    ) -> Option<Vec<Block>> {
        let arenas: Vec<usize> = arenas.collect();
        let mut kept = Vec::new();
        if let Ok(mut free) = self.free.lock() {
            let all = arenas.len().max(free.len());
            free.resize_with(all, Vec::new);
            kept.extend(free.iter_mut().zip(&arenas).map(|(free, len)| {
                let fits = free.iter().rposition(|bytes| bytes.len() == *len);
                fits.map(|at| free.remove(at))
            }));
        }
        let blocks = arenas.into_iter().enumerate().map(|(arena, len)| {
            let kept = kept.get_mut(arena).and_then(Option::take);
            let bytes = Some(kept.or_else(|| Bytes::zeroed(len))?);
            Some(Block { bytes, arena, pool: Arc::downgrade(self) })
        });
        blocks.collect()
    }

    fn keep(&self, arena: usize, bytes: Bytes) {
        // Never waits: a thread that a fork left behind may have held the lock, and a block that
        // is not kept is only memory that is freed.
        let Ok(mut free) = self.free.try_lock() else { return };
        let Some(free) = free.get_mut(arena) else { return };
        if free.len() >= KEPT {
            free.remove(0);
        }
        free.push(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(pool: &Arc<Pool>, arenas: &[usize]) -> Vec<Block> {
        pool.take(arenas.iter().copied()).expect("memory")
    }

    fn places(blocks: &[Block]) -> Vec<*const u8> {
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
        let pool: Arc<Pool> = Arc::default();
        assert!(pool.take([64, usize::MAX].into_iter()).is_none());
    }
}
