//! Counts the instructions of a process by single-stepping it: exact without performance counters,
//! and independent of the machine's load.
#![cfg(target_os = "linux")]
#![expect(unsafe_code, reason = "ptrace has no safe wrapper here")]

use std::io;
use std::ptr::null_mut;

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// A traced child process; detached when dropped.
#[derive(Debug)]
pub struct Traced(Pid);

/// Stops this process until its tracer continues it: marks the beginning or the end of a count.
pub fn mark() -> io::Result<()> {
    Ok(kill_process(getpid(), Signal::STOP)?)
}

impl Traced {
    /// Traces a running child that has not passed its first [`mark`].
    pub fn seize(pid: Pid) -> io::Result<Self> {
        // Each instruction takes two context switches, which are cheapest on one processor.
        let ours = sched_getaffinity(None)?;
        let mut one = CpuSet::new();
        (0..CpuSet::MAX_CPU).find(|cpu| ours.is_set(*cpu)).into_iter().for_each(|cpu| one.set(cpu));
        sched_setaffinity(None, &one)?;
        sched_setaffinity(Some(pid), &one)?;
        let traced = Self(pid);
        traced.request(libc::PTRACE_SEIZE)?;
        Ok(traced)
    }

    /// Waits for the first mark, then counts the instructions up to the second.
    pub fn count(&self) -> io::Result<u64> {
        if self.stopped_by()? != Signal::STOP {
            return Err(io::Error::other("the process stopped before its first mark"));
        }
        for steps in 0.. {
            self.request(libc::PTRACE_SINGLESTEP)?;
            match self.stopped_by()? {
                Signal::TRAP => {}
                Signal::STOP => return Ok(steps),
                other => return Err(io::Error::other(format!("{other:?} between the marks"))),
            }
        }
        unreachable!("no process runs so long")
    }

    fn stopped_by(&self) -> io::Result<Signal> {
        let waited = waitpid(Some(self.0), WaitOptions::empty())?;
        let signal = waited.and_then(|(_, status)| status.stopping_signal());
        let signal = signal.and_then(Signal::from_named_raw);
        signal.ok_or_else(|| io::Error::other("the process ended between the marks"))
    }

    fn request(&self, request: libc::c_uint) -> io::Result<()> {
        let pid = self.0.as_raw_nonzero().get();
        let nothing = null_mut::<libc::c_void>();
        // SAFETY: these requests change how the kernel runs the other process, and no memory;
        // signal 0 is delivered to it, that is none.
        let done = unsafe { libc::ptrace(request, pid, nothing, nothing) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        // The process may be dead already.
        let _ = self.request(libc::PTRACE_DETACH);
    }
}
