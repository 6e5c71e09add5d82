//! Processes that clear a ring are killed once a random lane is cleared. Each mark is then the old
//! one or the new one, other processes go on, and the next `clear` drops the rest.

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Instant;

use backcast_budget::{BoundedChild, Lines};
use backcast_core::{
    AutoresetMode, Base, DType, Ring, RingOptions, SamplerOptions, Schema, StepColumns, Writer,
    WriterOptions,
};
use backcast_tests::victim::WATCHDOG;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;

/// Maximum lanes of a ring: a clear takes long enough that some kills come between two lanes.
const LANES: u32 = 4_096;
/// Rows appended to each lane before a kill.
const ROWS: u64 = 5;
/// Kills between two lanes after which the test ends.
const ENOUGH: u32 = 3;

/// A process that clears the ring when told to. It does not outlive the test.
struct Clearer {
    child: Child,
    input: ChildStdin,
    output: Lines,
}

impl Clearer {
    fn start(dir: &Path) -> Result<Self, Box<dyn Error>> {
        let mut child = Command::new(env!("CARGO_BIN_EXE_clearer"))
            .arg(dir)
            .arg("pong")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().ok_or("a pipe to the child")?;
        let output = Lines::of(child.stdout.take().ok_or("a pipe from the child")?);
        let mut clearer = Self { child, input, output };
        assert_eq!(clearer.line()?, "attached");
        Ok(clearer)
    }

    fn line(&mut self) -> Result<String, Box<dyn Error>> {
        Ok(self.output.next().transpose()?.unwrap_or_default())
    }

    fn begin(&mut self) -> Result<(), Box<dyn Error>> {
        self.input.write_all(b"c")?;
        Ok(())
    }
}

impl Drop for Clearer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait_bounded();
    }
}

fn append(writer: &mut Writer, rows: u64) -> Result<(), Box<dyn Error>> {
    let schema = writer.schema().clone();
    let flags = [false; LANES as usize];
    for row in 0..rows {
        let obs = vec![row; LANES as usize];
        let columns = StepColumns::of(&schema).with("obs", &obs)?;
        writer.append(&columns.step(&flags, &flags)?)?;
    }
    Ok(())
}

fn marks(ring: &Ring) -> Vec<u64> {
    (0..LANES).filter_map(|lane| ring.first_kept(lane)).collect()
}

#[test]
fn a_process_killed_in_the_middle_of_clear_has_cleared_some_lanes() -> Result<(), Box<dyn Error>> {
    let dir = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new())?;
    let schema = Schema::builder().column("obs", DType::U64, &[]).build()?;
    let options = RingOptions::with_capacity(100 * u64::from(LANES)).lanes(LANES);
    let ring = Ring::create("pong", &schema, options.base(Base::at(dir.path())))?;
    let lanes = WriterOptions::lanes(LANES).autoreset(AutoresetMode::NextStep);
    let mut writer = ring.writer(lanes)?;
    let mut sampler = ring.sampler(SamplerOptions::seeded(1).history(3))?;

    let mut head = 0;
    let mut dice = StdRng::seed_from_u64(1);
    let (mut between, mut kills) = (0, 0);
    while between < ENOUGH {
        assert!(kills < 1_000, "{between} of {kills} kills came between two lanes");
        kills += 1;
        append(&mut writer, ROWS)?;
        head += ROWS;
        let before = marks(&ring);
        let mut clearer = Clearer::start(dir.path())?;
        let (lane, begun) = (dice.random_range(0..LANES), Instant::now());
        clearer.begin()?;
        while ring.first_kept(lane) != Some(head) {
            assert!(begun.elapsed() < WATCHDOG, "a ring is cleared within {WATCHDOG:?}");
            std::hint::spin_loop();
        }
        drop(clearer);

        let after = marks(&ring);
        let new = after.iter().filter(|mark| **mark == head).count();
        let either = |(before, after): (&u64, &u64)| after == before || *after == head;
        assert!(before.iter().zip(&after).all(either), "{before:?} {after:?}");
        between += u32::from(new > 0 && new < after.len());

        // The writer and the sampler of this process go on.
        let left: u64 = after.iter().map(|mark| (head - mark).saturating_sub(1)).sum();
        assert_eq!(ring.len(), left);
        append(&mut writer, 2)?;
        head += 2;
        for index in sampler.sample(256)?.index() {
            assert!(index.seq() >= after[index.lane() as usize], "{index:?}");
        }
        // The next one clears the rest, and counts what the dead one left.
        let left: u64 = after.iter().map(|mark| head - mark - 1).sum();
        assert_eq!(ring.clear()?, left);
        assert_eq!((ring.len(), marks(&ring)), (0, vec![head; LANES as usize]));
    }
    println!("{between} of {kills} kills came between two lanes");
    Ok(())
}
