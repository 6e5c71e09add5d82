//! A writer of the torn hunt: attaches by name, claims lanes and appends as fast as it can until it
//! is killed. `hunt_writer DIR NAME LANES`

use std::env;
use std::error::Error;

use backcast_core::{AutoresetMode, Base, Ring, WriterOptions};
use backcast_tests::certified::write;

/// Appends between two looks at whether the test is still there.
const STEPS_BETWEEN_LOOKS: u32 = 1024;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().collect();
    let [_, dir, name, lanes] = args.as_slice() else {
        return Err("usage: hunt_writer DIR NAME LANES".into());
    };
    let ring = Ring::attach_in(&Base::at(dir), name)?;
    let mut writer =
        ring.writer(WriterOptions::lanes(lanes.parse()?).autoreset(AutoresetMode::NextStep))?;
    // An orphan is given another parent.
    let test = rustix::process::getppid();
    let mut step = 0;
    write(&ring, &mut writer, || {
        step += 1;
        step % STEPS_BETWEEN_LOOKS != 0 || rustix::process::getppid() == test
    })?;
    Err("the test that started this process is gone".into())
}
