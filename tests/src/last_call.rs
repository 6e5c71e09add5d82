//! Kills a process at an exact point: just before a system call. The code under test contains no
//! hook for it.

use std::error::Error;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

/// Makes the kernel kill this process when it is about to rename a file. No handler runs and
/// nothing is dropped, as with SIGKILL. The process ends by SIGSYS, which identifies the point.
pub fn dies_before_rename() -> Result<(), Box<dyn Error>> {
    let calls = [
        #[cfg(target_arch = "x86_64")]
        libc::SYS_rename,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_renameat,
        libc::SYS_renameat2,
    ];
    let rules = calls.into_iter().map(|call| (call, Vec::new())).collect();
    let (others, these) = (SeccompAction::Allow, SeccompAction::KillProcess);
    let filter = SeccompFilter::new(rules, others, these, std::env::consts::ARCH.try_into()?)?;
    let program: BpfProgram = filter.try_into()?;
    Ok(seccompiler::apply_filter(&program)?)
}
