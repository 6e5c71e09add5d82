//! One side of a ring with a rate limiter, until it is killed, or for so many steps.
//! `limited DIR NAME actor|learner STEPS SIZE`, with 0 steps for no end; SIZE is the number of lanes
//! of the actor, or of transitions in a batch. Says `ready`, and at its end how often it gave up the
//! processor.

use std::env;
use std::error::Error;
use std::io::Write;

use backcast_core::{Base, Interrupt, Ring, SamplerOptions, StepColumns, WriterOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().collect();
    let [_, dir, name, role, steps, batch] = args.as_slice() else {
        return Err("usage: limited DIR NAME actor|learner STEPS BATCH".into());
    };
    let (steps, batch): (u64, usize) = (steps.parse()?, batch.parse()?);
    let steps = if steps == 0 { u64::MAX } else { steps };
    // An orphan is given another parent.
    let test = rustix::process::getppid();
    let orphaned = Interrupt::when(move || rustix::process::getppid() != test);
    let ring = Ring::attach_in(&Base::at(dir), name)?.interrupted_by(orphaned);
    let before;
    if role == "actor" {
        let mut writer = ring.writer(WriterOptions::lanes(1))?;
        say("ready")?;
        before = voluntary_switches();
        for _ in 0..steps {
            let mut columns = StepColumns::of(ring.schema()).with("obs", &[1_u64])?;
            let (terminated, truncated) = ([false], [false]);
            let step = columns.step(&terminated, &truncated)?;
            writer.append(&step)?;
        }
    } else {
        let mut sampler = ring.sampler(SamplerOptions::seeded(1))?;
        say("ready")?;
        before = voluntary_switches();
        for _ in 0..steps {
            sampler.sample(batch)?;
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
