//! The victim of the daemon's storm: looks after a directory until it is killed, or until nobody is left
//! who could. `storm_daemon DIR`

use std::env;
use std::error::Error;
use std::io::Read;
use std::time::Duration;

use backcast_core::Base;
use backcast_daemon::{Budget, Daemon, ServeOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().collect();
    let [_, dir] = args.as_slice() else {
        return Err("usage: storm_daemon DIR".into());
    };
    let options = ServeOptions {
        budget: Budget::Bytes(256 << 20),
        // All the time: a sweep is what it is most likely killed in.
        interval: Duration::from_millis(1),
        ..ServeOptions::default()
    };
    let _daemon = Daemon::start(&Base::at(dir), &options)?;
    println!("ready");
    // The test holds the other end.
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
