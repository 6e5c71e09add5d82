//! The victim of the daemon storm: serves a directory until it or the test is killed.
//! `storm_daemon DIR STORE`

use std::env;
use std::error::Error;
use std::io::Read;
use std::time::Duration;

use backcast_core::Base;
use backcast_daemon::{Budget, Daemon, PersistOptions, ServeOptions};
use backcast_persist::{FollowOptions, PersistMode};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().collect();
    let [_, dir, store] = args.as_slice() else {
        return Err("usage: storm_daemon DIR STORE".into());
    };
    // Small files and short intervals, so that kills hit the middle of many steps.
    let all = FollowOptions {
        mode: PersistMode::Continuous,
        flush: Duration::from_millis(1),
        batch_bytes: 64 << 10,
        file_bytes: 1 << 20,
        ..FollowOptions::default()
    };
    let options = ServeOptions {
        budget: Budget::Bytes(256 << 20),
        // Sweeps all the time, so that most kills hit a sweep.
        interval: Duration::from_millis(1),
        persist: PersistOptions { store: Some(store.into()), all, ..PersistOptions::default() },
        ..ServeOptions::default()
    };
    let _daemon = Daemon::start(&Base::at(dir), &options)?;
    println!("ready");
    // Runs until the test closes its end of the pipe.
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
