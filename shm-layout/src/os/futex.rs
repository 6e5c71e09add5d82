//! Sleeping on a shared word, and the fences that let a publisher skip the system call.
//!
//! Linux: futexes, shared between processes, and `membarrier`: the sleeper, who has time, makes
//! every publisher's processor pass a barrier, so that the publisher, who has none, gets by with a
//! fence for the compiler alone. Elsewhere: short sleeps and fences on both sides.

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
        // No private flag: the sleeper and the publisher are different processes. Every error
        // means "look again", which the caller does anyway.
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

/// Wakes all who sleep on `word`, in any process.
pub(crate) fn wake_all(word: &AtomicU32) {
    #[cfg(target_os = "linux")]
    {
        use rustix::thread::futex::{Flags, wake};
        let _ = wake(word, Flags::empty(), i32::MAX.cast_unsigned());
    }
    #[cfg(not(target_os = "linux"))]
    let _ = word;
}

/// How this process orders "publish, then look for sleepers".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ringing {
    /// Sleepers order it for us: we asked the kernel to let them.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "needs membarrier"))]
    Light,
    /// By a fence of our own at every publish.
    Fenced,
}

impl Ringing {
    /// Asks the kernel, once per process.
    pub(crate) fn of_this_process() -> Self {
        #[cfg(target_os = "linux")]
        {
            use std::sync::atomic::AtomicU64;

            use rustix::thread::{MembarrierCommand, membarrier};

            /// Process id, shifted left by one, and whether the kernel agreed. By process,
            /// because a forked child has to ask again.
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
            if light { Ringing::Light } else { Ringing::Fenced }
        }
        #[cfg(not(target_os = "linux"))]
        Ringing::Fenced
    }

    /// The publisher's side.
    #[inline]
    pub(crate) fn fence(self) {
        match self {
            // ORDERING: pairs with `listening_fence`, which makes this processor pass a barrier.
            Ringing::Light => std::sync::atomic::compiler_fence(Ordering::SeqCst),
            // ORDERING: pairs with the fence in `listening_fence`.
            Ringing::Fenced => fence(Ordering::SeqCst),
        }
    }
}

/// The sleeper's side: orders its stores before its loads against every publisher. A few
/// microseconds. `false`: publishers of the light kind could not be reached, so that the sleep must
/// be short.
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
