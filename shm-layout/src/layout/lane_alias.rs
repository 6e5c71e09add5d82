//! A second mapping of a lane, through which foreign code writes rows in place.
//!
//! Such code may keep addresses for ever. An alias can be detached: a private copy then replaces
//! the memory of the ring at the same addresses. The mapping that readers and writers use is not
//! affected.
#![expect(unsafe_code, reason = "maps memory a second time, and other memory over it")]

use std::io;
use std::ptr::NonNull;

use crate::kernels::racy_copy;
use crate::layout::lane::PlacedColumn;

/// A second mapping of the memory of a lane.
#[derive(Debug)]
pub struct LaneAlias {
    base: NonNull<u8>,
    len: usize,
    columns: Box<[PlacedColumn]>,
    slots: u64,
    /// Address of the lane's own mapping, and the resize that made the memory. The memory after a
    /// relocation may be mapped at the same address.
    of: (usize, u32),
    /// Process that mapped it: a forked child has none of the memory, and may have other memory
    /// there.
    pid: u32,
}

// SAFETY: the memory is accessed by raw address only; its users keep this value alive. `detach`
// replaces pages through `&self`, at the same addresses. Only `Drop` gives the addresses back.
unsafe impl Send for LaneAlias {}
// SAFETY: as for `Send`. No field changes after construction.
unsafe impl Sync for LaneAlias {}

impl LaneAlias {
    /// Maps `len` bytes of `memory` a second time. Forked children do not get the mapping.
    ///
    /// # Safety
    /// `memory` is the page-aligned beginning of a live shared mapping of at least `len` bytes,
    /// which may be stored to, and the columns lie within it.
    #[cfg(target_os = "linux")]
    pub(crate) unsafe fn of(
        memory: *mut u8,
        len: usize,
        columns: &[PlacedColumn],
        (slots, resizes): (u64, u32),
    ) -> io::Result<Option<Self>> {
        // SAFETY: the caller vouches for the mapping. An old size of 0 leaves it as it is and maps
        // the same shared pages again, in a free range that the kernel chooses.
        let base = unsafe { libc::mremap(memory.cast(), 0, len, libc::MREMAP_MAYMOVE) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let (columns, pid) = (columns.into(), std::process::id());
        let of = (memory.addr(), resizes);
        let window = Self { base, len, columns, slots, of, pid };
        // SAFETY: exactly the range mapped above. Without the advice a forked child would keep
        // shared pages that its parent detaches.
        if unsafe { libc::madvise(base.as_ptr().cast(), len, libc::MADV_DONTFORK) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Some(window))
    }

    /// Returns whether the alias shows the lane that is mapped at `memory`.
    pub(crate) fn is_of(&self, memory: *mut u8, resizes: u32) -> bool {
        self.of == (memory.addr(), resizes)
    }

    /// Returns the address of a row of a column, or `None` for a row that does not exist. The
    /// address is valid while the alias lives. Stores there change the ring until
    /// [`detach`](Self::detach).
    #[must_use]
    pub fn address(&self, column: usize, slot: u64) -> Option<*mut u8> {
        let (at, _) = self.row(column, slot)?;
        Some(self.base.as_ptr().wrapping_add(at))
    }

    fn row(&self, column: usize, slot: u64) -> Option<(usize, usize)> {
        let PlacedColumn { offset, width, .. } = self.columns.get(column).copied()?;
        let slot = usize::try_from(slot).ok().filter(|_| slot < self.slots)?;
        let at = slot.checked_mul(width)?.checked_add(offset)?;
        (at.checked_add(width)? <= self.len).then_some((at, width))
    }

    /// Detaches the rows of a slot from the ring: their addresses show private copies from now on.
    /// Other rows on the same pages are detached too. A writer cannot use the alias after that.
    ///
    /// After an error some of the rows may still be shared. The call may be repeated. Does nothing
    /// in a forked child, which has no mapping there.
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
            // - `first..first + len` are whole pages within this alias, which its users reach only
            //   by raw address: no reference to them exists. The copy out goes through `racy_copy`,
            //   like every other copy of these bytes. The copy in writes to the private pages just
            //   mapped.
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

impl Drop for LaneAlias {
    fn drop(&mut self) {
        if self.pid != std::process::id() {
            return;
        }
        // SAFETY: exactly the range that `of` mapped; `detach` maps only over parts of it. Each
        // user of an address keeps this value alive.
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
        let columns = [PlacedColumn::of(page, 12)];
        // SAFETY: the mapping is shared, writable, page-aligned and as long.
        let window =
            unsafe { LaneAlias::of(map.base(), 4 * page, &columns, (600, 0)) }.unwrap().unwrap();
        assert!(window.is_of(map.base(), 0) && !window.is_of(window.base.as_ptr(), 0));
        assert!(!window.is_of(map.base(), 1), "a lane that was relocated");
        assert!(window.address(0, 600).is_none() && window.address(1, 0).is_none());
        let slot = (page / 12) as u64;
        let at = page + page / 12 * 12;
        let place = window.address(0, slot).unwrap();
        // SAFETY: within the alias, and no other thread accesses it now.
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
