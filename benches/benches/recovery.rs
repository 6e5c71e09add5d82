//! Recovery times: from SIGKILL of a writer until a successor has its lane, and from SIGKILL of a
//! leaseholder until the writer that its pin blocked publishes.

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use backcast_benches::base;
use backcast_benches::measured::{Measured, Role, end_with_parent, role};
use backcast_benches::record::MEDIUM;
use backcast_core::{
    Base, LanePolicy, Ring, RingOptions, Step, Writer, WriterError, WriterOptions,
};

const KILLS: usize = 500;
/// Pause between two attempts of a successor: spinning would take a core from the dying process.
const PAUSE: Duration = Duration::from_micros(50);

fn main() -> Result<(), Box<dyn Error>> {
    if let Some(words) = role() {
        return match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["writer", dir] => write_for_ever(Path::new(dir)),
            ["holder", dir] => hold_for_ever(Path::new(dir)),
            _ => Err("no such role".into()),
        };
    }
    let measured = Measured::from_args();
    let adoption = "SIGKILL of a writer until its lane is adopted";
    if measured.wants(adoption) {
        measured.keep(adoption, "ms", "backcast", &adoptions()?);
    }
    let reaping = "SIGKILL of a leaseholder until its pin is gone";
    if measured.wants(reaping) {
        measured.keep(reaping, "ms", "backcast", &reapings()?);
    }
    Ok(())
}

fn append(writer: &mut Writer) -> Result<u64, Box<dyn Error>> {
    let rows = MEDIUM.rows(1);
    let columns = rows.columns();
    let schema = writer.schema().clone();
    let step = Step {
        schema: &schema,
        columns: &columns,
        terminated: &[false],
        truncated: &[false],
        next_obs: None,
        final_obs: None,
    };
    Ok(writer.append(step)?.first().ok_or("a row")?.seq())
}

fn write_for_ever(dir: &Path) -> Result<(), Box<dyn Error>> {
    end_with_parent();
    let ring = Ring::attach_in(&Base::at(dir), "ring")?;
    let mut writer = ring.writer(WriterOptions::lanes(1))?;
    loop {
        append(&mut writer)?;
    }
}

fn millis(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

fn adoptions() -> Result<Vec<f64>, Box<dyn Error>> {
    let (dir, base) = base();
    let options = RingOptions::with_capacity(20_000).base(base);
    let ring = Ring::create("ring", &MEDIUM.schema(), options)?;
    let place = dir.path().to_str().ok_or("a path that is no text")?;
    let mut runs = Vec::with_capacity(KILLS);
    while runs.len() < KILLS {
        let before = ring.rows_published();
        let mut writer = Role::start(&["writer", place]);
        ring.wait_for_rows(before + 100, Some(Duration::from_secs(30)))?;
        let killed = Instant::now();
        writer.child().kill()?;
        let mut successor = loop {
            match ring.writer(WriterOptions::lanes(1)) {
                Ok(successor) => break successor,
                Err(WriterError::LanesTaken { .. }) => thread::sleep(PAUSE),
                Err(error) => return Err(error.into()),
            }
        };
        runs.push(millis(killed));
        let (published, row) = (ring.rows_published(), append(&mut successor)?);
        assert_eq!(row, published, "the successor goes on where the dead writer stopped");
    }
    Ok(runs)
}

/// Leases the oldest row and reports it.
fn hold_for_ever(dir: &Path) -> Result<(), Box<dyn Error>> {
    let ring = Ring::attach_in(&Base::at(dir), "ring")?;
    let start = ring.lane_span(0).ok_or("a lane")?.start;
    let lease = ring.lease(0, start..start + 1)?;
    println!("{start}");
    // Waits until the parent is gone.
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    drop(lease);
    Ok(())
}

fn reapings() -> Result<Vec<f64>, Box<dyn Error>> {
    let (dir, base) = base();
    // Longer than any run, so that waiting for a dead holder hangs the run.
    let policy = LanePolicy::Block(Duration::from_secs(600));
    let options = RingOptions::with_capacity(1_000).lane_policy(policy).base(base);
    let ring = Ring::create("ring", &MEDIUM.schema(), options)?;
    let mut writer = ring.writer(WriterOptions::lanes(1))?;
    while ring.rows_published() < 2 * ring.slots() {
        append(&mut writer)?;
    }
    let place = dir.path().to_str().ok_or("a path that is no text")?;
    let mut runs = Vec::with_capacity(KILLS);
    while runs.len() < KILLS {
        let mut holder = Role::start(&["holder", place]);
        let stdout = holder.child().stdout.take().ok_or("a pipe")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let start: u64 = line.trim().parse()?;
        // Fills the lane until the next row needs the leased slot.
        while ring.rows_published() < start + ring.slots() {
            append(&mut writer)?;
        }
        let (asked, killed) = thread::scope(|scope| {
            let blocked = scope.spawn(|| {
                let row = append(&mut writer).map_err(|error| error.to_string());
                (row, Instant::now())
            });
            // Gives the append time to reach the pinned slot, where it blocks.
            thread::sleep(Duration::from_millis(2));
            assert_eq!(ring.rows_published(), start + ring.slots(), "the lease was not honoured");
            let killed = Instant::now();
            holder.child().kill().expect("SIGKILL can be sent");
            (blocked.join().expect("no panic"), killed)
        });
        let (row, done) = asked;
        assert_eq!(row?, start + ring.slots(), "the first row that the pin was in the way of");
        runs.push((done - killed).as_secs_f64() * 1e3);
    }
    Ok(runs)
}
