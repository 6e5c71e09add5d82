//! Detects forks by any call: a child must not use the handles that it inherited.
//!
//! On Linux the kernel clears a page in every child ([`libc::MADV_WIPEONFORK`]), whichever system
//! call made it. Where no such page can be mapped, the C library runs a handler in the child of its
//! `fork`.

use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Marker until a wipe-on-fork page is mapped; the only marker where the system has none.
static NO_MARK: AtomicU64 = AtomicU64::new(0);
/// Address of the marker. The word is 0 in a child until its first call of [`forks`].
static MARK: AtomicPtr<AtomicU64> = AtomicPtr::new((&raw const NO_MARK).cast_mut());

/// Returns a number that a process shares with no ancestor, and with no other process that lives in
/// its pid namespace.
///
/// Its high half is the process id when the number was first asked for. Its low half counts the
/// ancestors that asked before, which keeps it apart from theirs in a namespace of its own.
///
/// All threads of a process have the same number. Costs two loads, and a few system calls the first
/// time.
#[inline]
#[must_use]
pub fn forks() -> u64 {
    // ORDERING: acquire, pairs with the exchange in `count`: the page behind the address is mapped.
    let mark = MARK.load(Ordering::Acquire);
    // SAFETY: `MARK` holds the address of a static or of a page that is never unmapped; both are
    // words that are accessed atomically, by this module alone.
    let number = unsafe { &*mark }.load(Ordering::Relaxed);
    if number == 0 { count() } else { number }
}

/// Assigns this process its number.
#[cold]
fn count() -> u64 {
    /// Generations that asked for a number. A fork copies it, so a child continues from the count
    /// of its parent.
    static LAST: AtomicU64 = AtomicU64::new(0);
    let mut mark = MARK.load(Ordering::Acquire);
    if ptr::eq(mark, &raw const NO_MARK)
        && let Some(page) = page()
    {
        // ORDERING: pairs with the loads of `MARK`. A thread that was slower leaves its page
        // unused.
        let exchanged = MARK.compare_exchange(mark, page, Ordering::AcqRel, Ordering::Acquire);
        mark = exchanged.map_or_else(|other| other, |_| page);
    } else if ptr::eq(mark, &raw const NO_MARK) {
        watch();
    }
    let generation = LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1) & u64::from(u32::MAX);
    let next = u64::from(std::process::id()) << 32 | generation;
    // SAFETY: as in `forks`.
    let mark = unsafe { &*mark };
    mark.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed)
        .map_or_else(|n| n, |_| next)
}

/// Maps a page that is cleared in children. Returns `None` if this system has no such pages.
#[cfg(all(target_os = "linux", not(miri)))]
fn page() -> Option<*mut AtomicU64> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
    let (len, prot) = (crate::os::mapping::page_size(), ProtFlags::READ | ProtFlags::WRITE);
    // SAFETY: a null address lets the kernel choose a free range, to which nothing else refers. The
    // advice concerns exactly that range; where it is refused the range is given back, unused.
    unsafe {
        let page = mmap_anonymous(ptr::null_mut(), len, prot, MapFlags::PRIVATE).ok()?;
        if madvise(page, len, Advice::LinuxWipeOnFork).is_err() {
            let _ = munmap(page, len);
            return None;
        }
        Some(page.cast())
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn page() -> Option<*mut AtomicU64> {
    None
}

/// Registers a handler with the C library that clears the marker in children.
fn watch() {
    extern "C" fn in_child() {
        NO_MARK.store(0, Ordering::Relaxed);
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler is a function that lives as long as the process. All that it does is
        // one atomic store, which a child of a process with threads may do.
        #[cfg(not(miri))]
        unsafe {
            let _ = libc::pthread_atfork(None, None, Some(in_child));
        }
        #[cfg(miri)]
        let _ = in_child as extern "C" fn();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_keeps_its_number_in_all_threads() {
        let number = forks();
        assert_ne!(number, 0);
        let numbers = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(forks)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(numbers, [number; 8]);
        assert_eq!(forks(), number);
    }

    /// Returns 1 if a child made by `fork` has another number than its parent and keeps it, else 0.
    #[cfg(all(target_os = "linux", not(miri)))]
    fn in_child(fork: impl Fn() -> libc::c_long) -> libc::c_int {
        let number = forks();
        let child = fork();
        if child == 0 {
            let other = forks();
            let kept = other != number && other == forks();
            // SAFETY: ends the child without running the exit handlers of its parent.
            unsafe { libc::_exit(i32::from(kept)) };
        }
        assert!(child > 0, "{}", std::io::Error::last_os_error());
        let mut status = 0;
        // SAFETY: waits for the child that was just made; `status` is a local variable.
        let waited = unsafe { libc::waitpid(i32::try_from(child).unwrap(), &raw mut status, 0) };
        assert_eq!((i64::from(waited), forks()), (child, number));
        assert!(libc::WIFEXITED(status), "{status}");
        libc::WEXITSTATUS(status)
    }

    /// Returns the number that a forked child finds.
    #[cfg(all(target_os = "linux", not(miri)))]
    fn of_a_child() -> u64 {
        use std::io::{Read, Write};
        let (mut from, mut to) = std::io::pipe().unwrap();
        // SAFETY: the child calls nothing that needs a lock of the parent's, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let sent = to.write_all(&forks().to_ne_bytes());
            // SAFETY: ends the child without running the exit handlers of its parent.
            unsafe { libc::_exit(i32::from(sent.is_err())) };
        }
        assert!(child > 0, "{}", std::io::Error::last_os_error());
        drop(to);
        let mut number = [0; 8];
        from.read_exact(&mut number).unwrap();
        // SAFETY: waits for the child that was just made, without a place for its status.
        assert_eq!(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }, child);
        u64::from_ne_bytes(number)
    }

    /// Where each test has a process of its own, no number was asked for before the first child.
    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn children_that_ask_before_their_parent_have_other_numbers() {
        let children = [of_a_child(), of_a_child()];
        let number = forks();
        assert!(!children.contains(&number) && children[0] != children[1]);
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn a_child_has_another_number_whichever_call_made_it() {
        // SAFETY: the child calls nothing that needs a lock of the parent's, and ends.
        assert_eq!(in_child(|| unsafe { libc::fork() }.into()), 1, "fork of the C library");
        let flags = libc::c_long::from(libc::SIGCHLD);
        // SAFETY: as above; a clone without a stack of its own is a fork.
        let raw = || unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
        assert_eq!(in_child(raw), 1, "a system call");
    }
}
