//! Private memory that is filled repeatedly, on huge pages where it is large.

use std::fmt;
use std::ops::{Deref, DerefMut};

use bytemuck::{Pod, Zeroable};

#[cfg(not(miri))]
use crate::os::mapping::{HUGE_PAGE, Mapping};

/// A cache line.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u64; 8]);

/// Bytes aligned to a cache line, and to a huge page if they fill more than half of one. Filling
/// megabytes on small pages costs a page fault for each page.
///
/// The last huge page is allocated whole if more than half of it is needed.
pub struct Bytes {
    memory: BytesBacking,
    len: usize,
}

enum BytesBacking {
    Lines(Vec<Line>),
    #[cfg(not(miri))]
    Pages(Mapping),
}

impl Bytes {
    /// Allocates `len` zero bytes. Returns `None` if there is no memory for them.
    #[must_use]
    pub fn zeroed(len: usize) -> Option<Self> {
        #[cfg(not(miri))]
        if len > HUGE_PAGE / 2 {
            let is_most = len % HUGE_PAGE > HUGE_PAGE / 2;
            let room = if is_most { len.checked_next_multiple_of(HUGE_PAGE)? } else { len };
            let memory = BytesBacking::Pages(Mapping::private(room).ok()?);
            return Some(Self { memory, len });
        }
        let (mut lines, count) = (Vec::new(), len.div_ceil(size_of::<Line>()));
        lines.try_reserve_exact(count).ok()?;
        lines.resize(count, Line::zeroed());
        Some(Self { memory: BytesBacking::Lines(lines), len })
    }
}

impl Deref for Bytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.memory {
            BytesBacking::Lines(lines) => &bytemuck::cast_slice(lines)[..self.len],
            // SAFETY: the mapping was made with at least `len` bytes, zeros at first, and only this
            // value refers to it.
            #[cfg(not(miri))]
            BytesBacking::Pages(pages) => unsafe {
                std::slice::from_raw_parts(pages.base(), self.len)
            },
        }
    }
}

impl DerefMut for Bytes {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            BytesBacking::Lines(lines) => &mut bytemuck::cast_slice_mut(lines)[..self.len],
            // SAFETY: the reasons above hold, and `self` is borrowed mutably. The mapping is
            // private and writable.
            #[cfg(not(miri))]
            BytesBacking::Pages(pages) => unsafe {
                std::slice::from_raw_parts_mut(pages.base(), self.len)
            },
        }
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bytes({})", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_are_zeros_and_can_be_written() {
        for len in [0, 1, 64, 100, (1 << 20) + 1, (2 << 20) + 1, (3 << 20) + 7] {
            let mut bytes = Bytes::zeroed(len).unwrap();
            assert_eq!((bytes.len(), bytes.as_ptr().addr() % 64), (len, 0));
            assert!(bytes.iter().all(|&byte| byte == 0));
            bytes.fill(7);
            assert!(bytes.iter().all(|&byte| byte == 7));
        }
    }

    #[test]
    #[cfg(not(miri))]
    fn many_begin_a_huge_page() {
        let bytes = Bytes::zeroed(HUGE_PAGE / 2 + 1).unwrap();
        assert_eq!(bytes.as_ptr().addr() % HUGE_PAGE, 0);
    }

    #[test]
    fn more_than_there_can_be_are_none() {
        for len in [usize::MAX, usize::MAX / 2] {
            assert!(Bytes::zeroed(len).is_none(), "{len}");
        }
    }
}
