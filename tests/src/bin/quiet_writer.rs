//! A writer without system calls: it gives up all but `read`, `write` and `exit`, publishes, and
//! reports that. The kernel kills it at any other call. `quiet_writer DIR NAME ROWS` Linux only.
#![cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "seccomp and a bare exit have no safe wrapper here")
)]

use std::env;
use std::error::Error;
use std::io::Write;

use backcast_core::{Base, Ring, Step, WriterOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().collect();
    let [_, dir, name, rows] = args.as_slice() else {
        return Err("usage: quiet_writer DIR NAME ROWS".into());
    };
    let rows: u64 = rows.parse()?;
    let ring = Ring::attach_in(&Base::at(dir), name)?;
    let mut writer = ring.writer(WriterOptions::lanes(1))?;
    let widths: Vec<usize> =
        ring.schema().columns().iter().map(backcast_core::Column::width).collect();
    let row = vec![7_u8; widths.iter().sum()];
    let mut at = 0;
    let columns: Vec<&[u8]> = widths
        .iter()
        .map(|width| {
            at += width;
            &row[at - width..at]
        })
        .collect();
    let step = Step {
        schema: ring.schema(),
        columns: &columns,
        terminated: &[false],
        truncated: &[false],
        next_obs: None,
        final_obs: None,
    };
    let mut out = std::io::stdout();
    out.write_all(b"quiet\n")?;
    give_up_calls()?;
    let mut appended = true;
    for _ in 0..rows {
        appended &= writer.append(step).is_ok();
    }
    end(appended);
    Ok(())
}

#[cfg(target_os = "linux")]
fn give_up_calls() -> std::io::Result<()> {
    // SAFETY: the call changes what the kernel allows this thread, and no memory.
    let strict = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_STRICT) };
    if strict == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

#[cfg(target_os = "linux")]
fn end(well: bool) {
    // SAFETY: ends this thread, the only one. A normal return would call `exit_group`.
    unsafe { libc::syscall(libc::SYS_exit, i32::from(!well)) };
}

#[cfg(not(target_os = "linux"))]
fn give_up_calls() -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

#[cfg(not(target_os = "linux"))]
fn end(well: bool) {
    std::process::exit(i32::from(!well));
}
