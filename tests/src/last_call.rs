//! A named point at which a process is killed, as exactly as the kernel can: before a system call that
//! it is about to make. Nothing in the code under test knows of it.

use std::error::Error;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

/// From now on this process is killed when it gives a file another name, before the file has it. No
/// handler runs and nothing is dropped, as with SIGKILL; it ends by SIGSYS, which tells the point.
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
