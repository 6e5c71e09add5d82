//! Processes that create, attach to, replace and drop rings of one name are killed at random
//! moments. The others never see a partial object, and garbage collection removes what the dead
//! ones left.

use std::error::Error;
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use std::{fs, thread};

use backcast_budget::BoundedChild;
use backcast_core::{Base, DType, Exist, Ring, RingOptions, Schema, collect_garbage, list_objects};
use backcast_tests::victim::WATCHDOG;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;

const NAME: &str = "churned";

/// A process that is killed and reaped when dropped, even by a panic.
struct Churn(Child);

impl Churn {
    fn start(dir: &TempDir, seed: u64) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_churn"));
        command.arg(dir.path()).args([NAME, &seed.to_string()]);
        Self(command.spawn().expect("the binary starts"))
    }

    fn is_running(&mut self) -> bool {
        self.0.try_wait().expect("a child can be looked at").is_none()
    }
}

impl Drop for Churn {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait_bounded();
    }
}

#[test]
fn killed_creators_leave_nothing_that_a_collection_does_not_take() -> Result<(), Box<dyn Error>> {
    let dir = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new())?;
    let base = Base::at(dir.path());
    let schema = Schema::builder().column("obs", DType::U64, &[]).build()?;
    let mut dice = StdRng::seed_from_u64(1);
    let (mut remnants, mut names_left) = (0, 0);
    for round in 0..500 {
        let mut pair = [Churn::start(&dir, 2 * round), Churn::start(&dir, 2 * round + 1)];
        // Waits for a random time after the pair's first file; `storm.rs` says why.
        let delay = Duration::from_micros(dice.random_range(0..8_500));
        let (begin, mut first) = (Instant::now(), None);
        while first.is_none_or(|first: Instant| first.elapsed() < delay) {
            assert!(pair.iter_mut().all(Churn::is_running), "round {round}: an end by itself");
            assert!(begin.elapsed() < WATCHDOG, "round {round}: nothing is made");
            if first.is_none() && fs::read_dir(dir.path())?.next().is_some() {
                first = Some(Instant::now());
            }
            thread::yield_now();
        }
        drop(pair);
        let left = list_objects(&base)?;
        assert!(left.iter().all(|object| !object.held), "round {round}: the dead hold {left:?}");
        remnants += left.iter().filter(|object| object.building).count();
        names_left += left.iter().filter(|object| !object.building).count();
        if round % 2 == 0 {
            // A name that only dead processes used is free.
            let options = RingOptions::with_capacity(100).base(base.clone()).exist(Exist::Error);
            drop(Ring::create(NAME, &schema, options)?);
        }
        collect_garbage(&base)?;
        let left: Vec<_> = fs::read_dir(dir.path())?.filter_map(Result::ok).collect();
        assert!(left.is_empty(), "round {round}: {left:?}, {:?}", list_objects(&base));
    }
    println!("churn: {remnants} remnants and {names_left} named rings of the dead collected");
    assert!(remnants > 0 && names_left > 0, "no kill hit the middle of anything");
    Ok(())
}
