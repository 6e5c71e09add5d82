//! Rust and Python on one ring, in real processes: each reads what the other writes, and the same
//! seed draws the same batches in both.
//!
//! `BACKCAST_PYTHON` names an interpreter that has the package; without it the tests are skipped.

use std::env;
use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use backcast_budget::{BoundedChild, Lines, skipped};
use backcast_core::{
    AutoresetMode, Base, Batch, Boundary, Element, Ring, RingOptions, Role, RowIndex,
    SamplerOptions, Step, WriterOptions,
};
use backcast_tests::peer::{check, schema, value};
use tempfile::TempDir;

const MODES: [AutoresetMode; 3] =
    [AutoresetMode::NextStep, AutoresetMode::SameStep, AutoresetMode::Disabled];

/// Ends the peer when dropped, even by a panic.
struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait_bounded();
    }
}

/// Returns the peer's command, or prints why there is none.
fn python(role: &str, dir: &Path, mode: AutoresetMode, lanes: usize) -> Option<Command> {
    let Some(python) = env::var_os("BACKCAST_PYTHON") else {
        skipped(role, "BACKCAST_PYTHON names no interpreter that has the backcast package");
        return None;
    };
    let mut command = Command::new(python);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/python/peer.py")).arg(role).arg(dir);
    command.args(["shared", mode.as_str(), &lanes.to_string(), "500"]);
    Some(command)
}

/// Writes the same rows as Python's `write`: episodes of different lengths on each lane.
fn write(ring: &Ring, mode: AutoresetMode, lanes: u32, steps: usize) -> Result<(), Box<dyn Error>> {
    let mut writer = ring.writer(WriterOptions::lanes(lanes).autoreset(mode))?;
    let numbers = writer.lanes().to_vec();
    for step in 0..steps {
        let heads: Vec<u64> =
            numbers.iter().filter_map(|l| ring.lane_span(*l)).map(|span| span.end).collect();
        let rows = |column: &str, ahead: u64| -> Vec<u8> {
            let place = numbers.iter().zip(&heads);
            place.flat_map(|(lane, head)| value(column, *lane, head + ahead)).collect()
        };
        let columns = ring.schema().columns();
        let now: Vec<Vec<u8>> = columns.iter().map(|c| rows(c.name(), 0)).collect();
        let obs = columns.iter().filter(|c| c.role() == Role::Obs);
        let last: Vec<Vec<u8>> = obs.map(|c| rows(c.name(), 1)).collect();
        let now: Vec<&[u8]> = now.iter().map(Vec::as_slice).collect();
        let last: Vec<&[u8]> = last.iter().map(Vec::as_slice).collect();
        let flags = |every: usize, on: usize| -> Vec<bool> {
            (0..numbers.len()).map(|place| step % (every + place) == on).collect()
        };
        writer.append(Step {
            schema: ring.schema(),
            columns: &now,
            terminated: &flags(5, 4),
            truncated: &flags(7, 3),
            next_obs: None,
            final_obs: (mode != AutoresetMode::NextStep).then_some(&last),
        })?;
    }
    Ok(())
}

/// Checks every readable row, and returns their number.
fn check_all(ring: &Ring) -> Result<u64, Box<dyn Error>> {
    let mut rows = 0;
    for lane in 0..ring.lanes() {
        let span = ring.lane_span(lane).ok_or("a lane is missing")?;
        rows += span.end - span.start;
        check(&ring.rows(lane, span)?)?;
    }
    Ok(rows)
}

/// Returns the draws of seeded samplers, in the lines that Python's `sample` prints.
fn draws(ring: &Ring) -> Result<Vec<String>, Box<dyn Error>> {
    let mut lines = Vec::new();
    let plain = SamplerOptions::seeded(7);
    for options in [
        plain.clone(),
        plain.clone().history(4),
        plain.clone().future(3),
        plain.clone().history(4).future(3),
        plain.clone().n_step(3).gamma(0.9),
        plain.clone().history(4).future(3).n_step(5).gamma(0.9).boundary(Boundary::Clamp),
        plain.clone().history(2).future(2).n_step(2).gamma(0.5).boundary(Boundary::Reject),
        plain.history(2).copy(true).boundary(Boundary::Clamp),
    ] {
        let mut sampler = ring.sampler(options)?;
        for _ in 0..3 {
            let batch = sampler.sample(64)?;
            let index: Vec<String> = batch.index().iter().map(RowIndex::to_string).collect();
            lines.push(format!("index {}", index.join(" ")));
            let mut keys: Vec<&str> = batch.keys().collect();
            keys.sort_unstable();
            for key in keys {
                let (shape, sum) = checksum(&batch, key).ok_or("a column of no type")?;
                let shape: Vec<String> = shape.iter().map(usize::to_string).collect();
                lines.push(format!("{key} {} {sum}", shape.join(" ")));
            }
        }
    }
    Ok(lines)
}

/// Returns shape and CRC-32 of a column of any element type.
fn checksum(batch: &Batch, key: &str) -> Option<(Vec<usize>, u32)> {
    fn of<T: Element>(batch: &Batch, key: &str) -> Option<(Vec<usize>, u32)> {
        let column = batch.column::<T>(key).ok()?;
        let mut hasher = crc32fast::Hasher::new();
        column.iter().for_each(|element| hasher.update(bytemuck::bytes_of(element)));
        Some((column.shape().to_vec(), hasher.finalize()))
    }
    let unsigned = || of::<u8>(batch, key).or_else(|| of::<u16>(batch, key));
    let wide = || of::<u32>(batch, key).or_else(|| of::<u64>(batch, key));
    let signed = || of::<i8>(batch, key).or_else(|| of::<i16>(batch, key));
    let wide_signed = || of::<i32>(batch, key).or_else(|| of::<i64>(batch, key));
    let real = || of::<f32>(batch, key).or_else(|| of::<f64>(batch, key));
    of::<bool>(batch, key)
        .or_else(unsigned)
        .or_else(wide)
        .or_else(signed)
        .or_else(wide_signed)
        .or_else(|| of::<half::f16>(batch, key))
        .or_else(|| of::<half::bf16>(batch, key))
        .or_else(real)
}

#[test]
fn rust_reads_what_python_writes_and_draws_the_same_batches() -> Result<(), Box<dyn Error>> {
    for mode in MODES {
        let dir = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new())?;
        let base = Base::at(dir.path());
        let options = RingOptions::with_capacity(3_000).lanes(3).base(base);
        let ring = Ring::create("shared", &schema()?, options)?;
        let Some(mut python) = python("write", dir.path(), mode, 3) else { return Ok(()) };
        let output = python.stdout(Stdio::piped()).spawn()?.output_bounded()?;
        assert!(output.status.success(), "the peer ended with {}", output.status);
        let rows = check_all(&ring)?;
        assert!(rows >= 3 * 500, "{rows} rows");
        let printed = String::from_utf8(output.stdout)?;
        let theirs: Vec<&str> = printed.lines().collect();
        assert_eq!(draws(&ring)?, theirs, "{mode}");
        println!("{mode}: {rows} rows of Python's read by Rust, {} arrays equal", theirs.len());
    }
    Ok(())
}

#[test]
fn python_reads_what_rust_writes_and_draws_the_same_batches() -> Result<(), Box<dyn Error>> {
    for mode in MODES {
        let dir = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new())?;
        // Python makes the ring and writes two lanes of it; Rust has the other three.
        let Some(mut python) = python("host", dir.path(), mode, 2) else { return Ok(()) };
        let mut peer = Peer(python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?);
        let mut stdin = peer.0.stdin.take().ok_or("no pipe")?;
        let mut lines = Lines::of(peer.0.stdout.take().ok_or("no pipe")?);
        assert_eq!(lines.next().transpose()?.as_deref(), Some("ready"));
        let ring = Ring::attach_in(&Base::at(dir.path()), "shared")?;
        assert_eq!(ring.schema(), &schema()?, "both languages mean the same columns");
        write(&ring, mode, 3, 700)?;
        stdin.write_all(b"go\n")?;
        let checked = lines.next().transpose()?;
        let rows = check_all(&ring)?;
        assert_eq!(checked, Some(format!("checked {rows}")));
        let theirs: Vec<String> =
            lines.map_while(Result::ok).take_while(|line| line != "end").collect();
        assert_eq!(draws(&ring)?, theirs, "{mode}");
        println!("{mode}: {rows} rows of both read by both, {} arrays equal", theirs.len());
        drop(stdin);
        let status = peer.0.wait_bounded()?;
        assert!(status.success(), "the peer ended with {status}");
    }
    Ok(())
}
