//! Mappings of whole files, plain or with mirrored parts, and private memory of the same shape.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

#[cfg(all(target_os = "linux", not(miri)))]
use rustix::mm::{Advice, madvise};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// Bytes of a huge page, on systems that have them.
pub(crate) const HUGE_PAGE: usize = 2 << 20;

/// Access that a mapping allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Loads only; a store faults instead of corrupting a peer.
    ReadOnly,
    /// Loads and stores.
    ReadWrite,
}

impl Access {
    fn prot(self) -> ProtFlags {
        match self {
            Access::ReadOnly => ProtFlags::READ,
            Access::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        }
    }
}

/// Memory that other processes may read and write at any time. Shared memory is never borrowed as a
/// `&[u8]`.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
    access: Access,
    owner: Owner,
}

#[derive(Debug)]
enum Owner {
    /// Pages of a file, or anonymous ones. Unmapped on drop.
    Pages,
    /// Private words; kept only so that they live as long as `base`.
    Heap(#[expect(dead_code, reason = "owns the memory that `base` points to")] Box<[AtomicU64]>),
}

// SAFETY: this type's methods access the memory through atomics only. Every other access is by raw
// address, and states why it is sound. Only `Drop` unmaps the memory, and it needs `&mut self`.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes of a file.
    pub(crate) fn file(fd: BorrowedFd<'_>, len: usize, access: Access) -> io::Result<Self> {
        // SAFETY: a null address with no MAP_FIXED lets the kernel choose a free range; the
        // result is owned by the `Mapping` and unmapped once.
        let base = unsafe { mmap(ptr::null_mut(), len, access.prot(), MapFlags::SHARED, fd, 0)? };
        Self::owning(base, len, access)
    }

    /// Maps the first `len` bytes of a file at a multiple of [`HUGE_PAGE`], so that huge pages of
    /// the file can be mapped as such.
    pub(crate) fn aligned(fd: BorrowedFd<'_>, len: usize, access: Access) -> io::Result<Self> {
        let mapping = Self::reserved_aligned(len, ProtFlags::empty(), access)?;
        // SAFETY: MAP_FIXED replaces exactly the pages of `mapping`, to which nothing else refers.
        unsafe {
            let flags = MapFlags::SHARED | MapFlags::FIXED;
            mmap(mapping.base.as_ptr().cast(), len, access.prot(), flags, fd, 0)?;
        }
        Ok(mapping)
    }

    /// Maps private pages of zeros, on huge pages where the system has them.
    #[cfg(not(miri))]
    pub(crate) fn private(len: usize) -> io::Result<Self> {
        let access = Access::ReadWrite;
        let mapping = Self::reserved_aligned(len, access.prot(), access)?;
        #[cfg(target_os = "linux")]
        // SAFETY: exactly the range of `mapping`. The advice says what pages its bytes are to be
        // on, and changes none of them; a system without huge pages refuses it.
        unsafe {
            let _ = madvise(mapping.base.as_ptr().cast(), len, Advice::LinuxHugepage);
        }
        Ok(mapping)
    }

    fn reserved(len: usize, prot: ProtFlags, access: Access) -> io::Result<Self> {
        // SAFETY: as in `file`.
        let base = unsafe { mmap_anonymous(ptr::null_mut(), len, prot, MapFlags::PRIVATE)? };
        Self::owning(base, len, access)
    }

    /// Reserves a range that begins on a multiple of [`HUGE_PAGE`].
    fn reserved_aligned(len: usize, prot: ProtFlags, access: Access) -> io::Result<Self> {
        let room = len.checked_add(HUGE_PAGE).ok_or(io::ErrorKind::OutOfMemory)?;
        let reservation = Self::reserved(room, prot, access)?;
        let before = reservation.base.as_ptr().addr().wrapping_neg() % HUGE_PAGE;
        let base = reservation.base.as_ptr().wrapping_add(before);
        let after = base.wrapping_add(len.next_multiple_of(page_size()));
        let rest = room.next_multiple_of(page_size()) - before - len.next_multiple_of(page_size());
        std::mem::forget(reservation);
        // SAFETY: `before` is less than `HUGE_PAGE`, and `room` is `len` and one `HUGE_PAGE` more:
        // both ranges lie in the reservation, and nothing refers to them. The `Mapping` made of the
        // rest owns the rest; the reservation was forgotten.
        unsafe {
            if before > 0 {
                let _ = munmap(base.wrapping_sub(before).cast(), before);
            }
            let _ = munmap(after.cast(), rest);
        }
        Self::owning(base.cast(), len, access)
    }

    /// Maps each `(file_offset, len)` part of a file twice, back to back. So a window may run over
    /// the end of a part into its beginning. The mapping begins on a multiple of [`HUGE_PAGE`], so
    /// that huge pages of the first part can be mapped as such.
    ///
    /// Offsets and lengths must be multiples of the page size (the kernel refuses others).
    pub(crate) fn mirrored(
        fd: BorrowedFd<'_>,
        parts: &[(usize, usize)],
        access: Access,
    ) -> io::Result<Self> {
        let total = parts
            .iter()
            .try_fold(0, |sum: usize, (_, len)| len.checked_mul(2).and_then(|l| sum.checked_add(l)))
            .ok_or(io::ErrorKind::OutOfMemory)?;
        let reservation = Self::reserved_aligned(total, ProtFlags::empty(), access)?;
        let mut at = 0;
        let mut place = |len: usize, offset: usize| -> io::Result<()> {
            let target = reservation.base.as_ptr().wrapping_add(at).cast();
            // SAFETY: MAP_FIXED replaces only pages inside `reservation`: `at + len <= total`,
            // because `total` is the sum of exactly these lengths.
            unsafe {
                let flags = MapFlags::SHARED | MapFlags::FIXED;
                mmap(target, len, access.prot(), flags, fd, offset as u64)?;
            }
            at += len;
            Ok(())
        };
        for &(offset, len) in parts {
            place(len, offset)?;
            place(len, offset)?;
        }
        Ok(reservation)
    }

    /// Allocates private zeroed memory with the same interface. Every page is allocated now, on
    /// huge pages where the memory is large and the system has them.
    pub(crate) fn heap(len: usize) -> io::Result<Self> {
        #[cfg(not(miri))]
        if len >= HUGE_PAGE {
            let room = len.checked_next_multiple_of(8).ok_or(io::ErrorKind::OutOfMemory)?;
            let pages = Self::private(room)?;
            pages.populate()?;
            return Ok(pages);
        }
        let (mut words, count) = (Vec::new(), len.div_ceil(8));
        words.try_reserve_exact(count).map_err(|_| io::ErrorKind::OutOfMemory)?;
        words.resize_with(count, || AtomicU64::new(0));
        let words: Box<[AtomicU64]> = words.into_boxed_slice();
        let base = NonNull::from(&*words).cast();
        let len = words.len() * 8;
        Ok(Self { base, len, access: Access::ReadWrite, owner: Owner::Heap(words) })
    }

    /// Makes the system allocate every page now, so that no later store waits for a page or finds
    /// none.
    #[cfg(not(miri))]
    #[cfg_attr(
        not(target_os = "linux"),
        expect(clippy::unnecessary_wraps, reason = "fails where the kernel is asked")
    )]
    fn populate(&self) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        // SAFETY: exactly the range of this mapping, which is writable. No byte is changed.
        match unsafe { madvise(self.base.as_ptr().cast(), self.len, Advice::LinuxPopulateWrite) } {
            // Linux < 5.14 lacks this advice.
            Err(rustix::io::Errno::INVAL) => {}
            done => return Ok(done?),
        }
        let words = self.words64(0, self.len / 8).unwrap_or_default();
        for word in words.iter().step_by(page_size() / 8) {
            word.store(0, Relaxed);
        }
        Ok(())
    }

    fn owning(base: *mut core::ffi::c_void, len: usize, access: Access) -> io::Result<Self> {
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, len, access, owner: Owner::Pages })
    }

    /// Returns the number of bytes mapped.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns whether stores are allowed.
    pub(crate) fn writable(&self) -> bool {
        self.access == Access::ReadWrite
    }

    /// Returns the start of the memory, valid for `len()` bytes while `self` lives.
    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Returns `count` 64-bit words at a byte offset. `None` outside the mapping, or if the offset
    /// is no multiple of 8.
    #[inline]
    pub(crate) fn words64(&self, offset: usize, count: usize) -> Option<&[AtomicU64]> {
        self.check(offset, count, 8)?;
        // SAFETY:
        // - In bounds and aligned: checked above; `base` is aligned to 8 at least.
        // - Alive for the borrow: only `Drop` unmaps, and it needs `&mut self`.
        // - Every process reaches these bytes through atomics of this size (rule 1 in
        //   docs/layout.md); on read-only pages callers load only, relaxed, which is defined.
        Some(unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(offset).cast(), count) })
    }

    /// Returns `count` 32-bit words at a byte offset. `None` outside the mapping, or if the offset
    /// is no multiple of 4.
    #[inline]
    pub(crate) fn words32(&self, offset: usize, count: usize) -> Option<&[AtomicU32]> {
        self.check(offset, count, 4)?;
        // SAFETY: as in `words64`.
        Some(unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(offset).cast(), count) })
    }

    /// Copies bytes that other processes may write. Empty if they are not all in bounds, or the
    /// offset is no multiple of 8.
    pub(crate) fn copy(&self, offset: usize, len: usize) -> Vec<u8> {
        let words = self.words64(offset, len.div_ceil(8)).unwrap_or_default();
        let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.load(Relaxed).to_ne_bytes()).collect();
        bytes.truncate(len);
        bytes
    }

    #[inline]
    fn check(&self, offset: usize, count: usize, size: usize) -> Option<()> {
        let end = count.checked_mul(size)?.checked_add(offset)?;
        (end <= self.len && offset.is_multiple_of(size)).then_some(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if matches!(self.owner, Owner::Pages) {
            // SAFETY: exactly the range this value mapped, unmapped once; borrows of it have
            // ended because `drop` has `&mut self`.
            let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
        }
    }
}

/// Returns the page size of this machine, in bytes.
pub(crate) fn page_size() -> usize {
    rustix::param::page_size()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_mirrored_part_continues_into_its_own_beginning() {
        let page = page_size();
        let file = tempfile::tempfile().unwrap();
        file.set_len((page * 3) as u64).unwrap();
        let parts = [(page, page), (2 * page, page)];
        let map = Mapping::mirrored(file.as_fd(), &parts, Access::ReadWrite).unwrap();
        assert_eq!(map.len(), 4 * page);
        map.words64(0, 1).unwrap()[0].store(7, Relaxed);
        map.words64(2 * page, 1).unwrap()[0].store(9, Relaxed);
        assert_eq!(map.words64(page, 1).unwrap()[0].load(Relaxed), 7);
        assert_eq!(map.words64(3 * page, 1).unwrap()[0].load(Relaxed), 9);
    }

    #[test]
    fn an_aligned_mapping_shows_the_file_and_gives_the_rest_back() {
        let page = page_size();
        let file = tempfile::tempfile().unwrap();
        file.set_len((page * 3) as u64).unwrap();
        let mapped = || {
            let maps = std::fs::read_to_string("/proc/self/maps");
            // macOS has no such file.
            cfg!(target_os = "linux").then(|| maps.unwrap().lines().count())
        };
        let before = mapped();
        for _ in 0..1_000 {
            let map = Mapping::aligned(file.as_fd(), 3 * page, Access::ReadWrite).unwrap();
            let plain = Mapping::file(file.as_fd(), 3 * page, Access::ReadOnly).unwrap();
            assert_eq!((map.base().addr() % HUGE_PAGE, map.len()), (0, 3 * page));
            map.words64(2 * page, 1).unwrap()[0].store(7, Relaxed);
            assert_eq!(plain.words64(2 * page, 1).unwrap()[0].load(Relaxed), 7);
        }
        // Other tests of this process map memory meanwhile.
        let left_over = mapped().zip(before).map(|(after, before)| after.saturating_sub(before));
        assert!(left_over.is_none_or(|left_over| left_over < 500), "{left_over:?} mappings");
    }

    #[test]
    fn more_private_memory_than_there_can_be_is_an_error() {
        for len in [1 << 60, usize::MAX - 7, usize::MAX] {
            let error = Mapping::heap(len).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::OutOfMemory, "{len}: {error}");
        }
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn private_memory_is_allocated_when_it_is_made() {
        use std::os::unix::fs::FileExt;
        let map = Mapping::heap(3 * HUGE_PAGE + 8).unwrap();
        // One entry per page: bit 63 says that the page is present.
        let pages = std::fs::File::open("/proc/self/pagemap").unwrap();
        for at in (0..map.len()).step_by(page_size()) {
            let mut entry = [0; 8];
            let page = (map.base().addr() + at) / page_size();
            pages.read_exact_at(&mut entry, 8 * page as u64).unwrap();
            assert_ne!(u64::from_ne_bytes(entry) >> 63, 0, "the page of byte {at}");
        }
    }

    #[test]
    fn words_outside_or_unaligned_are_refused() {
        let map = Mapping::heap(16).unwrap();
        assert!(map.words64(0, 2).is_some());
        assert!(map.words64(8, 2).is_none());
        assert!(map.words64(4, 1).is_none());
        assert!(map.words32(12, 1).is_some());
        assert!(map.words32(usize::MAX - 3, 1).is_none());
        assert!(map.words64(0, usize::MAX / 4).is_none());
    }
}
