//! The victim of the daemon's storm: looks after a directory until it is killed, or until nobody is left
//! who could. `storm_daemon DIR STORE`

use std::env;
use std::error::Error;
use std::io::Read;
use std::time::Duration;

use backcast_core::Base;
use backcast_daemon::{Budget, Daemon, PersistOptions, ServeOptions};
use backcast_persist::{FollowOptions, Mode};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().collect();
    let [_, dir, store] = args.as_slice() else {
        return Err("usage: storm_daemon DIR STORE".into());
    };
    // Small files and short times: steps follow each other, and it is killed in the middle of many.
    let all = FollowOptions {
        mode: Mode::Continuous,
        flush: Duration::from_millis(1),
        batch_bytes: 64 << 10,
        file_bytes: 1 << 20,
        ..FollowOptions::default()
    };
    let options = ServeOptions {
        budget: Budget::Bytes(256 << 20),
        // All the time: a sweep is what it is most likely killed in.
        interval: Duration::from_millis(1),
        persist: PersistOptions { store: Some(store.into()), all, ..PersistOptions::default() },
        ..ServeOptions::default()
    };
    let _daemon = Daemon::start(&Base::at(dir), &options)?;
    println!("ready");
    // The test holds the other end.
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
