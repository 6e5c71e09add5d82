//! Memory of batches that is kept for the next batch when its last user lets go of it.
//!
//! The allocator gives large blocks back to the system each time, and the next batch would pay for
//! them again, a page fault for every 4 KiB.

use std::fmt;
use std::sync::{Arc, Mutex, Weak};

use backcast_layout::Bytes;

/// Unused blocks kept for each arena: one batch is being dropped while the next is made.
const KEPT: usize = 2;
/// From so many bytes on a block has room for somewhat more: batches whose size differs from draw to draw
/// share blocks.
const LARGE: usize = 1 << 20;

/// One arena of a batch: plain bytes that begin on a cache line, and many on huge pages. Returns to its pool when dropped, if
/// that is still there.
pub struct Block {
    /// None once they are given back. May be more than were asked for.
    bytes: Option<Bytes>,
    len: usize,
    arena: usize,
    pool: Weak<Pool>,
}

impl Block {
    /// The bytes, as many as were asked for.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_deref().and_then(|bytes| bytes.get(..self.len)).unwrap_or_default()
    }

    /// The bytes, to be written.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes.as_deref_mut().and_then(|bytes| bytes.get_mut(..self.len)).unwrap_or_default()
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
        Self { bytes: Some(bytes), len: self.len, arena: self.arena, pool: Weak::new() }
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
                let room = room_for(*len)?;
                let fits = free.iter().rposition(|bytes| bytes.len() == room);
                fits.map(|at| free.remove(at))
            }));
        }
        let blocks = arenas.into_iter().enumerate().map(|(arena, len)| {
            let kept = kept.get_mut(arena).and_then(Option::take);
            let bytes = Some(kept.or_else(|| Bytes::zeroed(room_for(len)?))?);
            Some(Block { bytes, len, arena, pool: Arc::downgrade(self) })
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

/// Bytes of the block that `len` bytes lie in: of large ones up to a sixteenth more. `None`: too many.
fn room_for(len: usize) -> Option<usize> {
    if len < LARGE {
        return Some(len);
    }
    let step = (len / 2 + 1).next_power_of_two() / 16;
    len.checked_next_multiple_of(step)
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
        let pool: Arc<Pool> = Arc::default();
        assert!(pool.take([64, usize::MAX].into_iter()).is_none());
    }
}
