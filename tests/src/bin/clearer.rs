//! A process that clears a ring, until it is killed. `clearer DIR NAME` prints a line once it is
//! attached, clears the ring for every byte of its input, and prints a line after that.

use std::env;
use std::error::Error;
use std::io::{self, Read, Write};

use backcast_core::{Base, Ring};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().collect();
    let [_, dir, name] = args.as_slice() else { return Err("usage: clearer DIR NAME".into()) };
    let ring = Ring::attach_in(&Base::at(dir), name)?;
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    writeln!(output, "attached")?;
    output.flush()?;
    let mut byte = [0];
    while input.read(&mut byte)? == 1 {
        let dropped = ring.clear()?;
        writeln!(output, "{dropped}")?;
        output.flush()?;
    }
    Ok(())
}
