//! A list of descriptors that handlers of forks and exits walk. It only grows, and takes no lock,
//! so a handler never waits for a thread that is gone.

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Value of an unused entry. In a used one the high half is the process that added it, and the low
/// half is the descriptor.
const FREE: u64 = 0;

/// Entry of the list.
#[derive(Debug)]
struct Entry {
    value: AtomicU64,
    next: *const Entry,
}

/// Descriptors with the processes that added them.
#[derive(Debug)]
pub(crate) struct DescriptorList {
    /// Newest entry.
    first: AtomicPtr<Entry>,
}

/// Entry of one descriptor. Must be dropped before the descriptor is closed.
#[derive(Debug)]
pub(crate) struct ListedDescriptor(&'static AtomicU64);

impl DescriptorList {
    pub(crate) const fn new() -> Self {
        Self { first: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Adds a descriptor of this process.
    pub(crate) fn add(&'static self, descriptor: BorrowedFd<'_>) -> ListedDescriptor {
        let number = u64::try_from(descriptor.as_raw_fd()).unwrap_or_default();
        let value = u64::from(std::process::id()) << 32 | number;
        let free = self.entries().find(|entry| {
            // ORDERING: relaxed. The handlers run in a copy of the thread that forked, or at the
            // end of the process. They may miss an entry that another thread stores meanwhile.
            let taken = entry.compare_exchange(FREE, value, Ordering::Relaxed, Ordering::Relaxed);
            taken.is_ok()
        });
        free.map_or_else(|| self.grow(value), ListedDescriptor)
    }

    fn grow(&'static self, value: u64) -> ListedDescriptor {
        let mut first = self.first.load(Ordering::Acquire);
        let added: *mut Entry =
            Box::leak(Box::new(Entry { value: AtomicU64::new(value), next: first }));
        // ORDERING: release, so that a load that finds the entry finds its contents; pairs with the
        // acquire load in `entries`.
        while let Err(other) =
            self.first.compare_exchange(first, added, Ordering::AcqRel, Ordering::Acquire)
        {
            first = other;
            // SAFETY: only this thread refers to the entry until the exchange succeeds.
            unsafe { (*added).next = first };
        }
        // SAFETY: leaked, and from now on only read and changed through its atomic.
        ListedDescriptor(unsafe { &(*added).value })
    }

    fn entries(&'static self) -> impl Iterator<Item = &'static AtomicU64> {
        let mut at: *const Entry = self.first.load(Ordering::Acquire);
        std::iter::from_fn(move || {
            // SAFETY: entries are leaked, so they live as long as the process. `next` is not
            // changed once an entry is in the list.
            let entry = unsafe { at.as_ref() }?;
            at = entry.next;
            Some(&entry.value)
        })
    }

    /// Empties the list and visits its descriptors, of every process. Allocates nothing.
    pub(crate) fn take(&'static self, mut visit: impl FnMut(RawFd)) {
        for entry in self.entries() {
            let value = entry.swap(FREE, Ordering::Relaxed);
            if value != FREE {
                visit(number(value));
            }
        }
    }

    /// Returns the descriptors that this process added. Leaves out those that a child inherited:
    /// their locks are the parent's.
    pub(crate) fn own(&'static self) -> impl Iterator<Item = RawFd> {
        let own = u64::from(std::process::id());
        let values = self.entries().map(|entry| entry.load(Ordering::Relaxed));
        values.filter(move |value| value >> 32 == own).map(number)
    }
}

/// Returns the descriptor of an entry.
fn number(value: u64) -> RawFd {
    RawFd::try_from(value & u64::from(u32::MAX)).unwrap_or(-1)
}

impl Drop for ListedDescriptor {
    fn drop(&mut self) {
        self.0.store(FREE, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn entries_are_used_again() {
        static LIST: DescriptorList = DescriptorList::new();
        let files: Vec<File> = (0..3).map(|_| File::open("/dev/null").unwrap()).collect();
        let own = || LIST.own().collect::<Vec<_>>();
        let mut listed: Vec<ListedDescriptor> =
            files.iter().map(|file| LIST.add(file.as_fd())).collect();
        let [first, second, third] = [0, 1, 2].map(|at: usize| files[at].as_raw_fd());
        assert_eq!(own(), [third, second, first]);
        drop(listed.remove(1));
        assert_eq!(own(), [third, first]);
        listed.push(LIST.add(files[1].as_fd()));
        assert_eq!((own(), LIST.entries().count()), (vec![third, second, first], 3));
        let mut seen = Vec::new();
        LIST.take(|descriptor| seen.push(descriptor));
        assert_eq!((seen, own()), (vec![third, second, first], vec![]));
    }
}
