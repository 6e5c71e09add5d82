//! A victim of the resize storm: resizes a ring and ends. `storm_resizer DIR NAME ROWS`

use std::env;
use std::error::Error;
use std::ops::ControlFlow;

use backcast_core::{Base, Ring};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().collect();
    let [_, dir, name, rows] = args.as_slice() else {
        return Err("usage: storm_resizer DIR NAME ROWS".into());
    };
    let ring = Ring::attach_in(&Base::at(dir), name)?;
    let test = rustix::process::getppid();
    // The parent changes when the test dies.
    let mut watch = |_| {
        let orphaned = rustix::process::getppid() != test;
        if orphaned { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let resized = ring.resize(rows.parse::<u64>()?, None, &mut watch)?;
    if resized.lanes_waiting.is_empty() { Ok(()) } else { Err("lanes are left".into()) }
}
