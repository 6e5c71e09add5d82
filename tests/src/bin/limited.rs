//! An actor or a learner of a ring with a rate limiter: `limited DIR NAME actor|learner STEPS
//! SIZE`.
//!
//! Runs until it is killed, or for STEPS steps; 0 stands for no end. SIZE is the number of lanes of
//! the actor, or of transitions in a batch. Prints `ready`, and at its end how often it gave up the
//! processor.

use std::env;
use std::error::Error;
use std::io::Write;

use backcast_core::{
    AutoresetMode, Base, Interrupt, Ring, SamplerOptions, StepColumns, WriterOptions,
};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().collect();
    let [_, dir, name, role, steps, size] = args.as_slice() else {
        return Err("usage: limited DIR NAME actor|learner STEPS SIZE".into());
    };
    let (steps, size): (u64, usize) = (steps.parse()?, size.parse()?);
    let steps = if steps == 0 { u64::MAX } else { steps };
    // An orphan is given another parent.
    let test = rustix::process::getppid();
    let orphaned = Interrupt::when(move || rustix::process::getppid() != test);
    let ring = Ring::attach_in(&Base::at(dir), name)?.interrupted_by(orphaned);
    let before;
    if role == "actor" {
        let mut options = WriterOptions::lanes(u32::try_from(size)?);
        options = options.autoreset(AutoresetMode::NextStep);
        let mut writer = ring.writer(options)?;
        let (obs, goes_on) = (vec![1_u64; size], vec![false; size]);
        say("ready")?;
        before = voluntary_switches();
        for _ in 0..steps {
            let columns = StepColumns::of(ring.schema()).with("obs", &obs)?;
            writer.append(&columns.step(&goes_on, &goes_on)?)?;
        }
    } else {
        let mut sampler = ring.sampler(SamplerOptions::seeded(1))?;
        say("ready")?;
        before = voluntary_switches();
        for _ in 0..steps {
            sampler.sample(size)?;
        }
    }
    say(&(voluntary_switches() - before).to_string())?;
    Ok(())
}

/// Returns how often this thread gave up the processor to wait.
fn voluntary_switches() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

fn say(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}
