//! A writer of the torn hunt: attaches by name, claims lanes and appends as fast as it can until it
//! is killed. `hunt_writer DIR NAME LANES`

use std::env;
use std::error::Error;

use backcast_core::{AutoresetMode, Base, Ring, WriterOptions};
use backcast_tests::certified::write;

/// Appends between two checks that the test is alive.
const STEPS_BETWEEN_LOOKS: u32 = 1024;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().collect();
    let [_, dir, name, lanes] = args.as_slice() else {
        return Err("usage: hunt_writer DIR NAME LANES".into());
    };
    let ring = Ring::attach_in(&Base::at(dir), name)?;
    let mut writer =
        ring.writer(WriterOptions::lanes(lanes.parse()?).autoreset(AutoresetMode::NextStep))?;
    // The parent changes when the test dies.
    let test = rustix::process::getppid();
    let mut step = 0;
    write(&ring, &mut writer, || {
        step += 1;
        step % STEPS_BETWEEN_LOOKS != 0 || rustix::process::getppid() == test
    })?;
    Err("the test that started this process is gone".into())
}
