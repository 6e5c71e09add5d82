//! Sleeps on a shared word, and the fences that let a publisher skip the system call.
//!
//! Linux: futexes shared between processes, and `membarrier`. The sleeper makes every publisher's
//! processor execute a barrier, so that a compiler fence is enough on the publisher's side.
//! Elsewhere: short sleeps, and fences on both sides.

use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

/// Sleeps while `word` is `expected`, for `limit` at most. May end early, also by a signal.
pub(crate) fn sleep(word: &AtomicU32, expected: u32, limit: Duration) {
    #[cfg(target_os = "linux")]
    {
        use rustix::thread::futex::{Flags, Timespec, wait};
        let limit = Timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: limit.subsec_nanos().into(),
        };
        // No private flag: the sleeper and the publisher are different processes. Errors are
        // ignored: the caller checks again anyway.
        let _ = wait(word, Flags::empty(), expected, Some(&limit));
    }
    #[cfg(not(target_os = "linux"))]
    {
        const NAP: Duration = Duration::from_micros(200);
        if word.load(Ordering::Acquire) == expected {
            std::thread::sleep(limit.min(NAP));
        }
    }
}

/// Wakes all sleepers on `word`, in any process.
pub(crate) fn wake_all(word: &AtomicU32) {
    #[cfg(target_os = "linux")]
    {
        use rustix::thread::futex::{Flags, wake};
        let _ = wake(word, Flags::empty(), i32::MAX.cast_unsigned());
    }
    #[cfg(not(target_os = "linux"))]
    let _ = word;
}

/// Barrier with which this process orders a publication before its check for sleepers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotifyBarrier {
    /// Sleepers order it with `membarrier`, for which this process has registered.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "needs membarrier"))]
    Membarrier,
    /// Publishers issue a fence at every publish.
    Fence,
}

impl NotifyBarrier {
    /// Returns the barrier of this process. Registers with the kernel, once per process.
    pub(crate) fn of_this_process() -> Self {
        #[cfg(target_os = "linux")]
        {
            use std::sync::atomic::AtomicU64;

            use rustix::thread::{MembarrierCommand, membarrier};

            /// Process id, shifted left by one; bit 0 is set if the kernel accepted. A forked child
            /// has another id and registers again.
            static ASKED: AtomicU64 = AtomicU64::new(0);
            let pid = u64::from(std::process::id()) << 1;
            let known = ASKED.load(Ordering::Relaxed);
            let light = if known & !1 == pid {
                known & 1 == 1
            } else {
                let light = membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok();
                ASKED.store(pid | u64::from(light), Ordering::Relaxed);
                light
            };
            if light { NotifyBarrier::Membarrier } else { NotifyBarrier::Fence }
        }
        #[cfg(not(target_os = "linux"))]
        NotifyBarrier::Fence
    }

    /// Orders the publisher's stores before its check for sleepers.
    #[inline]
    pub(crate) fn fence(self) {
        match self {
            // ORDERING: pairs with `listening_fence`, which makes this processor execute a barrier.
            NotifyBarrier::Membarrier => std::sync::atomic::compiler_fence(Ordering::SeqCst),
            // ORDERING: pairs with the fence in `listening_fence`.
            NotifyBarrier::Fence => fence(Ordering::SeqCst),
        }
    }
}

/// Orders the sleeper's stores before its loads, against every publisher. Takes a few microseconds.
/// Returns `false` if publishers that use `membarrier` could not be reached: then the sleep must be
/// short.
pub(crate) fn listening_fence() -> bool {
    fence(Ordering::SeqCst);
    #[cfg(target_os = "linux")]
    {
        use rustix::thread::{MembarrierCommand, membarrier};
        let reached = membarrier(MembarrierCommand::GlobalExpedited).is_ok();
        fence(Ordering::SeqCst);
        reached
    }
    #[cfg(not(target_os = "linux"))]
    true
}
