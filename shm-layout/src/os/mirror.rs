//! Private blocks mapped twice, back to back: the last block is followed by the first.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::os::huge_pages;
use crate::os::mapping::{Access, Mapping, page_size};

/// Parts of a page. A block is an odd number of parts, so equal places of consecutive blocks fall
/// into different L1 sets. As many blocks as a page has parts fill whole pages.
const PARTS: usize = 8;

/// Blocks mapped twice in a row. From any block on, all blocks are contiguous in memory, so a
/// sliding window needs no copy.
///
/// The blocks are on huge pages where the system grants them. A forked child shares the memory with
/// its parent.
#[derive(Debug)]
pub struct MirroredBlocks {
    memory: Mapping,
    blocks: usize,
    bytes: usize,
    stride: usize,
    lent: AtomicBool,
}

/// All blocks, borrowed for writing.
#[derive(Debug)]
pub struct MirroredBlocksMut<'a>(&'a MirroredBlocks);

impl MirroredBlocks {
    /// Allocates at least `blocks` blocks of `bytes` zeros.
    pub fn zeros(blocks: usize, bytes: usize) -> io::Result<Self> {
        let (blocks, stride, all) = sizes(blocks, bytes).ok_or(io::ErrorKind::OutOfMemory)?;
        let file = File::from(nameless()?);
        file.set_len(all as u64)?;
        huge_pages::request(&file, all as u64, huge_pages::deadline(all as u64));
        let memory = Mapping::mirrored(file.as_fd(), &[(0, all)], Access::ReadWrite)?;
        Ok(Self { memory, blocks, bytes, stride, lent: AtomicBool::new(false) })
    }

    /// Returns the bytes from one block to the next.
    #[must_use]
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Returns the address of a block. All blocks follow in a row from there; the first comes after
    /// the last. Valid for reads while `self` lives. A read during a write may return old and new
    /// bytes.
    #[must_use]
    pub fn address(&self, block: usize) -> *const u8 {
        self.memory.base().wrapping_add(block % self.blocks * self.stride)
    }

    /// Borrows all blocks for writing. Returns `None` while they are borrowed.
    #[must_use]
    pub fn borrow_mut(&self) -> Option<MirroredBlocksMut<'_>> {
        (!self.lent.swap(true, Ordering::Acquire)).then_some(MirroredBlocksMut(self))
    }
}

impl MirroredBlocksMut<'_> {
    /// Returns the number of blocks, which is at least the number requested.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.0.blocks
    }

    /// Returns a block. The first comes after the last.
    pub fn block_mut(&mut self, at: usize) -> &mut [u8] {
        // SAFETY:
        // - In bounds: a block that begins before the last one's end lies in the first of the two
        //   mappings, in which no two addresses are the same memory. The kernel initialised its
        //   bytes, and they live as long as the borrow.
        // - Exclusive: only this function makes slices, from a mutably borrowed
        //   `MirroredBlocksMut`, of which one exists at a time.
        unsafe { std::slice::from_raw_parts_mut(self.0.address(at).cast_mut(), self.0.bytes) }
    }
}

impl Drop for MirroredBlocksMut<'_> {
    fn drop(&mut self) {
        self.0.lent.store(false, Ordering::Release);
    }
}

/// Returns the number of blocks, the stride, and the bytes of all blocks, which are whole pages.
fn sizes(blocks: usize, bytes: usize) -> Option<(usize, usize, usize)> {
    let part = page_size() / PARTS;
    let stride = (bytes.div_ceil(part) | 1).checked_mul(part)?;
    let blocks = blocks.max(1).checked_next_multiple_of(PARTS)?;
    // The blocks are mapped twice.
    let all = blocks.checked_mul(stride).filter(|all| *all <= isize::MAX.unsigned_abs() / 2)?;
    Some((blocks, stride, all))
}

/// Creates memory that has a descriptor and no name.
#[cfg(target_os = "linux")]
fn nameless() -> io::Result<OwnedFd> {
    Ok(crate::os::memfd::anonymous("backcast-loop")?)
}

#[cfg(not(target_os = "linux"))]
fn nameless() -> io::Result<OwnedFd> {
    named_and_forgotten()
}

/// Creates memory under a name and unlinks the name immediately.
#[cfg(any(test, not(target_os = "linux")))]
fn named_and_forgotten() -> io::Result<OwnedFd> {
    use rustix::shm::{Mode, OFlags, open, unlink};
    // Some systems limit names to 31 bytes.
    let name = format!("/backcast-{:016x}", rand::random::<u64>());
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR;
    let made = open(&name, flags, Mode::RUSR | Mode::WUSR)?;
    unlink(&name)?;
    Ok(made)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_window_of_all_blocks_lies_in_one_piece_wherever_it_begins() {
        for (asked, bytes) in [(1, 1), (8, 512), (9, 513), (21, 111_936)] {
            let mirrored = MirroredBlocks::zeros(asked, bytes).unwrap();
            let mut lent = mirrored.borrow_mut().unwrap();
            let blocks = lent.blocks();
            assert!((asked..asked + PARTS).contains(&blocks), "{blocks} for {asked}");
            assert!(
                mirrored.stride() >= bytes
                    && (blocks * mirrored.stride()).is_multiple_of(page_size())
            );
            for at in 0..blocks {
                let block = lent.block_mut(at);
                assert!(block.len() == bytes && block.iter().all(|byte| *byte == 0));
                block.fill(u8::try_from(at + 1).unwrap());
            }
            // One block is written to a second time, one lap later.
            lent.block_mut(blocks + 2 % blocks)[0] = 0xff;
            for first in 0..blocks {
                for place in 0..blocks {
                    let at = (first + place) % blocks;
                    let begins = mirrored.address(first).wrapping_add(place * mirrored.stride());
                    // SAFETY: `place` is one of `blocks` in a row, all mapped and initialised.
                    let found = unsafe { (begins.read(), begins.add(bytes - 1).read()) };
                    let last = u8::try_from(at + 1).unwrap();
                    let wanted = if at == 2 % blocks { 0xff } else { last };
                    assert!(
                        found.0 == wanted && (bytes == 1 || found.1 == last),
                        "{first} {place}"
                    );
                }
            }
        }
    }

    #[test]
    fn one_at_a_time_writes() {
        let mirrored = MirroredBlocks::zeros(3, 100).unwrap();
        let first = mirrored.borrow_mut();
        assert!(first.is_some() && mirrored.borrow_mut().is_none());
        drop(first);
        assert!(mirrored.borrow_mut().is_some());
    }

    #[test]
    fn impossible_sizes_are_refused() {
        for (blocks, bytes) in
            [(usize::MAX, 1), (1, usize::MAX), (1 << 40, 1 << 30), (1 << 30, 1 << 30)]
        {
            let error = MirroredBlocks::zeros(blocks, bytes).unwrap_err();
            assert_ne!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
        }
    }

    #[test]
    fn blocks_are_an_odd_number_of_parts_and_few_of_them_whole_pages() {
        for bytes in [1, 511, 512, 4_095, 4_096, 111_936] {
            let (blocks, stride, all) = sizes(21, bytes).unwrap();
            let part = page_size() / PARTS;
            assert_eq!((stride / part % 2, stride % part), (1, 0), "{bytes}");
            assert!(stride < bytes + 2 * part && blocks == 24 && all == 24 * stride);
        }
    }

    #[test]
    fn a_name_that_is_forgotten_leads_to_memory_too() {
        let file = File::from(named_and_forgotten().unwrap());
        file.set_len(page_size() as u64).unwrap();
        let map = Mapping::mirrored(file.as_fd(), &[(0, page_size())], Access::ReadWrite).unwrap();
        map.words64(0, 1).unwrap()[0].store(7, Ordering::Relaxed);
        assert_eq!(map.words64(page_size(), 1).unwrap()[0].load(Ordering::Relaxed), 7);
    }
}
