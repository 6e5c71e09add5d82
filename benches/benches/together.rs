//! Concurrency: two sampling threads compared with one, two writing processes compared with one, a
//! learner beside a writer, and the time to wake a sleeper in another process. Contenders take
//! turns.

use std::error::Error;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use backcast_benches::measured::{Measured, Role, end_with_parent, role};
use backcast_benches::record::MEDIUM;
use backcast_benches::{base, filled};
use backcast_core::{
    Base, Ring, RingOptions, SampleError, Sampler, SamplerOptions, Step, Writer, WriterOptions,
};

const ROUNDS: usize = 9;
const ROUND: Duration = Duration::from_millis(300);
const BATCH: usize = 256;
const WAKES: usize = 2_000;

fn main() -> Result<(), Box<dyn Error>> {
    if let Some(words) = role() {
        return match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["writer", dir] => write_for_ever(Path::new(dir)),
            ["echo", dir] => echo(Path::new(dir)),
            ["pipe"] => echo_bytes(),
            _ => Err("no such role".into()),
        };
    }
    let measured = Measured::from_args();
    let metric = "sample 256 transitions, all threads together";
    if measured.wants(metric) {
        sampling_threads(&measured, metric)?;
    }
    let metric = "publish rows of 396 B, all processes together";
    if measured.wants(metric) {
        writing_processes(&measured, metric)?;
    }
    let metric = "sample 256 transitions beside a writer process";
    if measured.wants(metric) {
        writer_and_learner(&measured, metric)?;
    }
    let metric = "wake a sleeper in another process and be woken by it";
    if measured.wants(metric) {
        wakes(&measured, metric)?;
    }
    Ok(())
}

/// Returns the rows per second that `work` reports in a round.
fn rate(mut work: impl FnMut() -> u64) -> f64 {
    let begin = Instant::now();
    let mut rows = 0;
    while begin.elapsed() < ROUND {
        rows += work();
    }
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let rows = rows as f64;
    rows / begin.elapsed().as_secs_f64()
}

/// A sampler and its memory.
struct Drawing {
    sampler: Sampler,
    memory: Vec<Vec<u8>>,
}

impl Drawing {
    fn new(ring: &Ring, seed: u64) -> Result<Self, SampleError> {
        let mut sampler = ring.sampler(SamplerOptions::seeded(seed))?;
        let plan = sampler.plan(BATCH)?;
        let memory = plan.arenas().iter().map(|arena| vec![0; arena.bytes()]).collect();
        Ok(Self { sampler, memory })
    }

    fn draw(&mut self) -> u64 {
        let plan = self.sampler.plan(BATCH).expect("a valid batch");
        let mut arenas: Vec<&mut [u8]> = self.memory.iter_mut().map(Vec::as_mut_slice).collect();
        self.sampler.sample_into(&plan, &mut arenas).expect("a full ring");
        BATCH as u64
    }
}

fn sampling_threads(measured: &Measured, metric: &str) -> Result<(), Box<dyn Error>> {
    let (_dir, base) = base();
    let ring = filled(&base, "ring", MEDIUM, 1_000_000, 4);
    let mut drawings = [Drawing::new(&ring, 1)?, Drawing::new(&ring, 2)?];
    let (mut one, mut two) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        // Runs in a thread other than the main one, as the two samplers below do.
        let alone = &mut drawings[0];
        one.push(thread::scope(|s| s.spawn(|| rate(|| alone.draw())).join().expect("no panic")));
        let together = Barrier::new(2);
        two.push(thread::scope(|s| {
            let threads = drawings.each_mut().map(|drawing| {
                let together = &together;
                s.spawn(move || {
                    together.wait();
                    rate(|| drawing.draw())
                })
            });
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        }));
    }
    measured.keep(metric, "rows/s", "backcast, one thread", &one);
    measured.keep(metric, "rows/s", "backcast, two threads", &two);
    Ok(())
}

fn append(writer: &mut Writer) -> Result<(), Box<dyn Error>> {
    let rows = MEDIUM.rows(1);
    append_rows(writer, &rows.columns(), 1)
}

fn append_rows(writer: &mut Writer, columns: &[&[u8]], n: usize) -> Result<(), Box<dyn Error>> {
    let schema = writer.schema().clone();
    let step = Step {
        schema: &schema,
        columns,
        terminated: &[false],
        truncated: &[false],
        next_obs: None,
        final_obs: None,
    };
    for _ in 0..n {
        writer.append(step)?;
    }
    Ok(())
}

fn write_for_ever(dir: &Path) -> Result<(), Box<dyn Error>> {
    end_with_parent();
    let ring = Ring::attach_in(&Base::at(dir), "ring")?;
    let mut writer = ring.writer(WriterOptions::lanes(1))?;
    let rows = MEDIUM.rows(1);
    loop {
        append_rows(&mut writer, &rows.columns(), 1_000)?;
    }
}

/// Returns the rows per second that others publish.
fn published(ring: &Ring) -> f64 {
    let before = ring.rows_published();
    let begin = Instant::now();
    thread::sleep(ROUND);
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let rows = (ring.rows_published() - before) as f64;
    rows / begin.elapsed().as_secs_f64()
}

/// Starts a writer, and waits until it has filled its lane, so that all its pages are mapped.
fn started(ring: &Ring, place: &str) -> Result<Role, Box<dyn Error>> {
    let before = ring.rows_published();
    let writer = Role::start(&["writer", place]);
    let limit = Some(Duration::from_secs(60));
    ring.wait_for_rows(before + 2 * ring.slots(), limit)?;
    Ok(writer)
}

fn writing_processes(measured: &Measured, metric: &str) -> Result<(), Box<dyn Error>> {
    let (dir, base) = base();
    // Lanes that fit into a core's cache, so that memory bandwidth is not measured.
    let options = RingOptions::with_capacity(2_000).lanes(2).base(base);
    let ring = Ring::create("ring", &MEDIUM.schema(), options)?;
    let place = dir.path().to_str().ok_or("a path that is no text")?;
    let (mut one, mut two) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let _first = started(&ring, place)?;
        one.push(published(&ring));
        let _second = started(&ring, place)?;
        two.push(published(&ring));
    }
    measured.keep(metric, "rows/s", "backcast, one writer", &one);
    measured.keep(metric, "rows/s", "backcast, two writers", &two);
    Ok(())
}

fn writer_and_learner(measured: &Measured, metric: &str) -> Result<(), Box<dyn Error>> {
    let (dir, base) = base();
    let ring = filled(&base, "ring", MEDIUM, 1_000_000, 1);
    let mut drawing = Drawing::new(&ring, 1)?;
    let place = dir.path().to_str().ok_or("a path that is no text")?;
    let (mut alone, mut beside, mut written) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        alone.push(rate(|| drawing.draw()));
        let _writer = started(&ring, place)?;
        let (before, begin) = (ring.rows_published(), Instant::now());
        beside.push(rate(|| drawing.draw()));
        #[expect(clippy::cast_precision_loss, reason = "a rate")]
        let rows = (ring.rows_published() - before) as f64;
        written.push(rows / begin.elapsed().as_secs_f64());
    }
    measured.keep(metric, "rows/s", "backcast, nobody writes", &alone);
    measured.keep(metric, "rows/s", "backcast, beside a writer", &beside);
    let metric = "publish rows of 396 B beside a learner process";
    measured.keep(metric, "rows/s", "backcast", &written);
    Ok(())
}

/// Answers every row with a row.
fn echo(dir: &Path) -> Result<(), Box<dyn Error>> {
    end_with_parent();
    let (asks, answers) =
        (Ring::attach_in(&Base::at(dir), "asks")?, Ring::attach_in(&Base::at(dir), "answers")?);
    let mut writer = answers.writer(WriterOptions::lanes(1))?;
    let mut rows = asks.rows_published();
    append(&mut writer)?;
    loop {
        rows = asks.wait_for_rows(rows + 1, None)?;
        append(&mut writer)?;
    }
}

/// Answers every byte with a byte.
fn echo_bytes() -> Result<(), Box<dyn Error>> {
    let (mut stdin, mut stdout) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut byte = [0];
    while stdin.read(&mut byte)? == 1 {
        stdout.write_all(&byte)?;
        stdout.flush()?;
    }
    Ok(())
}

fn micros(begin: Instant) -> f64 {
    begin.elapsed().as_secs_f64() * 1e6
}

fn wakes(measured: &Measured, metric: &str) -> Result<(), Box<dyn Error>> {
    let (dir, base) = base();
    let make = |name| {
        let options = RingOptions::with_capacity(1_000).base(base.clone());
        Ring::create(name, &MEDIUM.schema(), options)
    };
    let (asks, answers) = (make("asks")?, make("answers")?);
    let mut writer = asks.writer(WriterOptions::lanes(1))?;
    let place = dir.path().to_str().ok_or("a path that is no text")?;
    let limit = Some(Duration::from_secs(60));
    let _echo = Role::start(&["echo", place]);
    let mut rows = answers.wait_for_rows(1, limit)?;
    let mut pipe = Role::start(&["pipe"]);
    let mut to = pipe.stdin();
    let mut from = pipe.child().stdout.take().ok_or("a pipe")?;
    let (mut bells, mut pipes) = (Vec::new(), Vec::new());
    for _ in 0..WAKES {
        let begin = Instant::now();
        append(&mut writer)?;
        rows = answers.wait_for_rows(rows + 1, limit)?;
        bells.push(micros(begin));
        let begin = Instant::now();
        to.write_all(&[1])?;
        from.read_exact(&mut [0])?;
        pipes.push(micros(begin));
    }
    measured.keep(metric, "us", "backcast", &bells);
    measured.keep(metric, "us", "a byte through a pipe and back", &pipes);
    Ok(())
}
