//! A second mapping of a lane, through which code that is not ours writes rows in place.
//!
//! What such code keeps, it keeps for ever: so that it can be taken the ring's memory away, and left
//! with a private copy at the same addresses, without harm to the mapping that everybody else uses.
#![expect(unsafe_code, reason = "maps memory a second time, and other memory over it")]

use std::io;
use std::ptr::NonNull;

use crate::kernels::racy_copy;
use crate::layout::lane::Placed;

/// A lane's columns at addresses of their own.
#[derive(Debug)]
pub struct Window {
    base: NonNull<u8>,
    len: usize,
    columns: Box<[Placed]>,
    slots: u64,
    /// Where the lane itself is mapped, and which of the files that it moved through it is: memory of
    /// the next one may come to be at the same address.
    of: (usize, u32),
    /// A forked child has none of the memory, and may have other memory there.
    pid: u32,
}

// SAFETY: the memory is reached through addresses alone, whose use is its user's to answer for, and
// unmapped only by `Drop`, which needs `&mut self`.
unsafe impl Send for Window {}
// SAFETY: as for `Send`; nothing is changed through `&self`.
unsafe impl Sync for Window {}

impl Window {
    /// Maps `len` bytes from `memory` on once more. `None` where the system cannot.
    ///
    /// # Safety
    /// `memory` is the page-aligned beginning of a live shared mapping of at least `len` bytes, which may
    /// be stored to, and the columns lie within it.
    #[cfg(target_os = "linux")]
    pub(crate) unsafe fn of(
        memory: *mut u8,
        len: usize,
        columns: &[Placed],
        (slots, resizes): (u64, u32),
    ) -> io::Result<Option<Self>> {
        // SAFETY: of the mapping that the caller vouches for; an old size of 0 leaves it as it is and
        // maps the same shared pages again, at a free place that the kernel chooses.
        let base = unsafe { libc::mremap(memory.cast(), 0, len, libc::MREMAP_MAYMOVE) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let (columns, pid) = (columns.into(), std::process::id());
        let of = (memory.addr(), resizes);
        let window = Self { base, len, columns, slots, of, pid };
        // A forked child would keep what its parent is taken away.
        // SAFETY: exactly the range mapped above.
        if unsafe { libc::madvise(base.as_ptr().cast(), len, libc::MADV_DONTFORK) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Some(window))
    }

    /// Whether it shows the lane that is mapped there.
    pub(crate) fn is_of(&self, memory: *mut u8, resizes: u32) -> bool {
        self.of == (memory.addr(), resizes)
    }

    /// Where a row of a column stands. Valid while this lives; stores there are the ring's until
    /// [`detach`](Self::detach).
    #[must_use]
    pub fn address(&self, column: usize, slot: u64) -> Option<*mut u8> {
        let (at, _) = self.row(column, slot)?;
        Some(self.base.as_ptr().wrapping_add(at))
    }

    fn row(&self, column: usize, slot: u64) -> Option<(usize, usize)> {
        let Placed { offset, width, .. } = self.columns.get(column).copied()?;
        let slot = usize::try_from(slot).ok().filter(|_| slot < self.slots)?;
        let at = slot.checked_mul(width)?.checked_add(offset)?;
        (at.checked_add(width)? <= self.len).then_some((at, width))
    }

    /// Takes a slot's rows out of the ring's memory: from now on their addresses show private copies,
    /// and what is stored there is nobody else's. The window is of no more use to a writer then.
    ///
    /// After an error some of them may still be the ring's; it may be tried again.
    pub fn detach(&self, slot: u64) -> io::Result<()> {
        if self.pid != std::process::id() {
            return Ok(());
        }
        let page = crate::os::mapping::page_size();
        for column in 0..self.columns.len() {
            let Some((at, width)) = self.row(column, slot) else { continue };
            let first = at - at % page;
            let len = (at + width).next_multiple_of(page).min(self.len) - first;
            let start = self.base.as_ptr().wrapping_add(first);
            let mut kept = vec![0; len];
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
            let prot = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY:
            // - `first..first + len` are whole pages within this window, which nobody but its users,
            //   by address, knows: no reference to them exists. The copy out is one like every other
            //   of these bytes; that of the private pages is into memory that is there and ours.
            // - MAP_FIXED replaces exactly those pages.
            unsafe {
                racy_copy::copy_out(start, &mut kept, racy_copy::Word::W1);
                let mapped = libc::mmap(start.cast(), len, prot, flags, -1, 0);
                if mapped == libc::MAP_FAILED {
                    return Err(io::Error::last_os_error());
                }
                racy_copy::copy_in(start, &kept, racy_copy::Word::W1);
            }
        }
        Ok(())
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        if self.pid != std::process::id() {
            return;
        }
        // SAFETY: exactly the range that `of` mapped, whatever was mapped over parts of it; whoever
        // has an address keeps this alive.
        unsafe {
            libc::munmap(self.base.as_ptr().cast(), self.len);
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::fd::AsFd;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::os::mapping::{Access, Mapping, page_size};

    #[test]
    fn a_detached_slot_keeps_what_it_shows_and_changes_nothing_any_more() {
        let page = page_size();
        let file = tempfile::tempfile().unwrap();
        file.set_len((page * 4) as u64).unwrap();
        let map = Mapping::file(file.as_fd(), 4 * page, Access::ReadWrite).unwrap();
        let word = |at: usize| &map.words64(at, 1).unwrap()[0];
        // Rows of 12 bytes from the second page on: some lie on two pages.
        let columns = [Placed::of(page, 12)];
        // SAFETY: the mapping is shared, writable, page-aligned and as long.
        let window =
            unsafe { Window::of(map.base(), 4 * page, &columns, (600, 0)) }.unwrap().unwrap();
        assert!(window.is_of(map.base(), 0) && !window.is_of(window.base.as_ptr(), 0));
        assert!(!window.is_of(map.base(), 1), "a lane that moved");
        assert!(window.address(0, 600).is_none() && window.address(1, 0).is_none());
        let slot = (page / 12) as u64;
        let at = page + page / 12 * 12;
        let place = window.address(0, slot).unwrap();
        // SAFETY: within the window, and nobody else's at the moment.
        unsafe { place.write_unaligned(7) };
        assert_eq!(word(at - at % 8).load(Relaxed).to_ne_bytes()[at % 8], 7);
        for _ in 0..2 {
            window.detach(slot).unwrap();
            // SAFETY: as above.
            unsafe {
                assert_eq!(place.read(), 7, "it shows what it showed");
                place.write(9);
                place.add(11).write(9);
                assert_eq!(word(at - at % 8).load(Relaxed).to_ne_bytes()[at % 8], 7);
                place.write(7);
            }
        }
        word(at - at % 8).store(u64::MAX, Relaxed);
        // SAFETY: as above.
        assert_eq!(unsafe { place.read() }, 7, "nor is it changed by others");
    }
}
