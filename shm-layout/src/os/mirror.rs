//! Private memory without an end: behind its last block stands its first.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::os::huge_pages;
use crate::os::mapping::{Access, Mapping, page_size};

/// A block is an odd number of these parts of a page: so few blocks are whole pages, and the same place in blocks that
/// follow one another is not always the same set of the nearest cache.
const PARTS: usize = 8;

/// Blocks of memory that go round: mapped twice in a row, so that as many of them as there are lie in one piece
/// wherever the first of them stands, and a window moves through them for ever without a copy.
///
/// On huge pages where the system grants them. A forked child has the memory along with its parent.
#[derive(Debug)]
pub struct Looped {
    memory: Mapping,
    blocks: usize,
    bytes: usize,
    stride: usize,
    lent: AtomicBool,
}

/// All blocks, lent to who writes to them.
#[derive(Debug)]
pub struct LentLoop<'a>(&'a Looped);

impl Looped {
    /// At least so many blocks of so many zeros.
    pub fn zeros(blocks: usize, bytes: usize) -> io::Result<Self> {
        let (blocks, stride, all) = sizes(blocks, bytes).ok_or(io::ErrorKind::OutOfMemory)?;
        let file = File::from(nameless()?);
        file.set_len(all as u64)?;
        huge_pages::ask(&file, all as u64, huge_pages::deadline(all as u64));
        let memory = Mapping::mirrored(file.as_fd(), &[(0, all)], Access::ReadWrite)?;
        Ok(Self { memory, blocks, bytes, stride, lent: AtomicBool::new(false) })
    }

    /// Bytes from one block to the next.
    #[must_use]
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Where a block stands, with as many in a row as there are; after the last comes the first. To be read while `self`
    /// lives; who reads while somebody writes reads a mixture.
    #[must_use]
    pub fn address(&self, block: usize) -> *const u8 {
        self.memory.base().wrapping_add(block % self.blocks * self.stride)
    }

    /// All blocks, to write to; `None` while somebody else has them.
    #[must_use]
    pub fn lend(&self) -> Option<LentLoop<'_>> {
        (!self.lent.swap(true, Ordering::Acquire)).then_some(LentLoop(self))
    }
}

impl LentLoop<'_> {
    /// How many there are, no fewer than were asked for.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.0.blocks
    }

    /// A block; after the last comes the first.
    pub fn block_mut(&mut self, at: usize) -> &mut [u8] {
        // SAFETY:
        // - In bounds: a block that begins before the last one's end lies in the first of the two mappings, of which no two
        //   addresses are the same memory. Its bytes were initialised by the kernel, and live as long as the borrow.
        // - Alone: slices are made here alone, of a `LentLoop` that is borrowed for them, and there is one at a time.
        unsafe { std::slice::from_raw_parts_mut(self.0.address(at).cast_mut(), self.0.bytes) }
    }
}

impl Drop for LentLoop<'_> {
    fn drop(&mut self) {
        self.0.lent.store(false, Ordering::Release);
    }
}

/// How many blocks to make, from one to the next, and bytes of all, which are whole pages.
fn sizes(blocks: usize, bytes: usize) -> Option<(usize, usize, usize)> {
    let part = page_size() / PARTS;
    let stride = (bytes.div_ceil(part) | 1).checked_mul(part)?;
    let blocks = blocks.max(1).checked_next_multiple_of(PARTS)?;
    // Mapped twice.
    let all = blocks.checked_mul(stride).filter(|all| *all <= isize::MAX.unsigned_abs() / 2)?;
    Some((blocks, stride, all))
}

/// Memory that only its descriptor leads to.
#[cfg(target_os = "linux")]
fn nameless() -> io::Result<OwnedFd> {
    Ok(crate::os::memfd::anonymous("backcast-loop")?)
}

#[cfg(not(target_os = "linux"))]
fn nameless() -> io::Result<OwnedFd> {
    named_and_forgotten()
}

/// The same by way of a name, which is gone before anybody could look for it.
#[cfg(any(test, not(target_os = "linux")))]
fn named_and_forgotten() -> io::Result<OwnedFd> {
    use rustix::shm::{Mode, OFlags, open, unlink};
    // Short: some systems allow names of 31 bytes.
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
            let looped = Looped::zeros(asked, bytes).unwrap();
            let mut lent = looped.lend().unwrap();
            let blocks = lent.blocks();
            assert!((asked..asked + PARTS).contains(&blocks), "{blocks} for {asked}");
            assert!(
                looped.stride() >= bytes && (blocks * looped.stride()).is_multiple_of(page_size())
            );
            for at in 0..blocks {
                let block = lent.block_mut(at);
                assert!(block.len() == bytes && block.iter().all(|byte| *byte == 0));
                block.fill(u8::try_from(at + 1).unwrap());
            }
            // Written to once around later as well.
            lent.block_mut(blocks + 2 % blocks)[0] = 0xff;
            for first in 0..blocks {
                for place in 0..blocks {
                    let at = (first + place) % blocks;
                    let begins = looped.address(first).wrapping_add(place * looped.stride());
                    // SAFETY: `place` is one of `blocks` in a row, all of which are mapped and initialised.
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
        let looped = Looped::zeros(3, 100).unwrap();
        let first = looped.lend();
        assert!(first.is_some() && looped.lend().is_none());
        drop(first);
        assert!(looped.lend().is_some());
    }

    #[test]
    fn what_no_process_can_have_is_refused() {
        for (blocks, bytes) in
            [(usize::MAX, 1), (1, usize::MAX), (1 << 40, 1 << 30), (1 << 30, 1 << 30)]
        {
            let error = Looped::zeros(blocks, bytes).unwrap_err();
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
