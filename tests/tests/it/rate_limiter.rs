//! Rate limiters between processes: writers and samplers that wait for each other sleep in the
//! kernel and wake up for each other, and a killed one stops no other.

use std::error::Error;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use backcast_budget::{BoundedChild, Lines};
use backcast_core::{
    AppendError, Base, DType, LimiterStats, RateLimiter, Ring, RingOptions, SampleError,
    SamplerOptions, Schema, StepColumns, WriterOptions,
};
use backcast_tests::victim::WATCHDOG;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;

/// A process of one side, killed and reaped when this is dropped.
struct Side {
    child: Child,
    says: Lines,
}

impl Side {
    /// Starts a side and waits until it is ready.
    fn start(dir: &Path, role: &str, steps: u64, batch: u64) -> Result<Self, Box<dyn Error>> {
        let mut child = Command::new(env!("CARGO_BIN_EXE_limited"))
            .arg(dir)
            .args(["held", role, &steps.to_string(), &batch.to_string()])
            .stdout(Stdio::piped())
            .spawn()?;
        let says = Lines::of(child.stdout.take().ok_or("a pipe")?);
        let mut side = Self { child, says };
        assert_eq!(side.line()?, "ready");
        Ok(side)
    }

    fn line(&mut self) -> Result<String, Box<dyn Error>> {
        Ok(self.says.next().transpose()?.unwrap_or_default())
    }

    fn kill(&mut self) {
        self.child.kill().expect("SIGKILL can be sent");
        let status = self.child.wait_bounded().expect("a killed child can be waited for");
        assert!(status.code().is_none(), "it was not killed: {status}");
    }

    fn assert_alive(&mut self) {
        if let Some(status) = self.child.try_wait().expect("a child can be looked at") {
            panic!("a side ended by itself, {status}");
        }
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait_bounded();
    }
}

fn ring(dir: &Path, lanes: u32, limiter: RateLimiter) -> Result<Ring, Box<dyn Error>> {
    let schema = Schema::builder().column("obs", DType::U64, &[]).build()?;
    let capacity = 1_000.max(32 * u64::from(lanes));
    let options = RingOptions::with_capacity(capacity).lanes(lanes).limiter(limiter);
    Ok(Ring::create("held", &schema, options.base(Base::at(dir)))?)
}

fn stats(ring: &Ring) -> LimiterStats {
    ring.stats().limiter.expect("created with a limiter")
}

/// Yields until `done`. Panics when a side ends by itself, or nothing happens.
fn spin_until(sides: &mut [&mut Side], mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        for side in &mut *sides {
            side.assert_alive();
        }
        assert!(start.elapsed() < WATCHDOG, "no side makes progress");
        thread::yield_now();
    }
}

#[test]
fn a_waiting_actor_and_a_waiting_learner_wake_each_other_and_do_not_poll()
-> Result<(), Box<dyn Error>> {
    let rounds = backcast_budget::budget_or("BACKCAST_LIMITER_ROUNDS", 100_000);
    let dir = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new())?;
    let ring = ring(dir.path(), 1, RateLimiter::queue(1))?;
    let begin = Instant::now();
    let mut learner = Side::start(dir.path(), "learner", rounds, 1)?;
    // The first row has no successor and completes no transition.
    let mut actor = Side::start(dir.path(), "actor", rounds + 1, 1)?;
    let switches: Vec<u64> = [&mut actor, &mut learner]
        .into_iter()
        .map(|side| Ok(side.line()?.parse()?))
        .collect::<Result<_, Box<dyn Error>>>()?;
    for side in [&mut actor, &mut learner] {
        assert!(side.child.wait_bounded()?.success(), "a wait ended without its turn");
    }
    let stats = stats(&ring);
    assert_eq!((stats.counts.inserts, stats.counts.samples), (rounds, rounds));
    let waits = [stats.writers.waits, stats.samplers.waits];
    println!("{rounds} rounds, {waits:?} waits, {switches:?} switches");
    // A side that waits looks for an interrupt every 50 ms.
    let looks = u64::try_from(begin.elapsed().as_millis() / 50)?;
    // Every round, one side at least waits for the other. A process that polls would give up the
    // processor many times in a wait.
    assert!(waits.iter().sum::<u64>() >= rounds / 2, "the test proves nothing: {waits:?}");
    for (switches, waits) in switches.iter().zip(waits) {
        let most = waits + waits / 10 + looks + 50;
        assert!(*switches <= most, "{switches} switches in {waits} waits and {looks} looks");
    }
    Ok(())
}

#[test]
fn words_of_a_hostile_process_give_errors_or_wrong_numbers_and_no_hang()
-> Result<(), Box<dyn Error>> {
    let cases = backcast_budget::budget(5_000);
    let dir = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new())?;
    let limits = RateLimiter::ratio(2.0, 10, 8.0);
    let ring = ring(dir.path(), 1, limits)?;
    let path = ring.path().ok_or("a named ring")?.join("ring.lim");
    let file = File::options().write(true).open(&path)?;
    let mut writer = ring.writer(WriterOptions::lanes(1).timeout(Duration::ZERO))?;
    let mut sampler = ring.sampler(SamplerOptions::seeded(1))?;
    sampler.set_timeout(Some(Duration::ZERO));
    let limiter = ring.limiter().ok_or("created with a limiter")?;
    let mut dice = StdRng::seed_from_u64(9);
    let mut tally = [0; 4];
    for _ in 0..cases {
        // Words from the counters on; the header is checked when the file is mapped.
        let at = 128 + 8 * dice.random_range(0..100);
        let word = match dice.random_range(0..4) {
            0 => dice.random(),
            1 => dice.random_range(0..1_000),
            2 => dice.random_range(-1e3..1e3_f64).to_bits(),
            _ => u64::MAX << dice.random_range(0..64),
        };
        file.write_all_at(&word.to_le_bytes(), at)?;
        let columns = StepColumns::of(ring.schema()).with("obs", &[1_u64])?;
        match writer.append(&columns.step(&[false], &[false])?) {
            Ok(_) => tally[0] += 1,
            Err(AppendError::Limited(_)) => tally[1] += 1,
            Err(error) => return Err(error.into()),
        }
        match sampler.sample(4) {
            Ok(_) => tally[2] += 1,
            Err(SampleError::Limited(_) | SampleError::Empty { .. }) => tally[3] += 1,
            Err(error) => return Err(error.into()),
        }
        let _ = (stats(&ring), limiter.counts(), limiter.limits());
        if dice.random_ratio(1, 50) {
            limiter.set(limits)?;
            assert_eq!(limiter.limits()?, limits);
        }
    }
    println!("{cases} words: {tally:?} appended, held back, drawn, held back");
    assert!(cases < 1_000 || tally.iter().all(|count| *count > 20), "{tally:?}");
    // A header that is not this ring's is refused.
    file.write_all_at(&[0x55], 0x20)?;
    let refused = Ring::attach_in(&Base::at(dir.path()), "held").unwrap_err();
    assert!(refused.to_string().contains("ring.lim"), "{refused}");
    Ok(())
}

#[test]
fn a_killed_actor_leaves_the_learner_waiting_for_the_next_one() -> Result<(), Box<dyn Error>> {
    let dir = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new())?;
    let ring = ring(dir.path(), 1, RateLimiter::ratio(2.0, 10, 8.0))?;
    let mut learner = Side::start(dir.path(), "learner", 0, 4)?;
    for _ in 0..5 {
        spin_until(&mut [&mut learner], || stats(&ring).samplers.waiting == 1);
        let before = stats(&ring).counts.samples;
        let mut actor = Side::start(dir.path(), "actor", 0, 1)?;
        spin_until(&mut [&mut learner, &mut actor], || stats(&ring).counts.samples > before + 40);
        actor.kill();
        let waiter = || stats(&ring).waiters.first().copied();
        spin_until(&mut [&mut learner], || waiter().is_some_and(|waiter| waiter.slot.is_some()));
        assert_eq!(waiter().map(|waiter| waiter.wanted), Some(4));
    }
    Ok(())
}

#[test]
fn a_killed_learner_leaves_the_actor_waiting_for_the_next_one() -> Result<(), Box<dyn Error>> {
    let dir = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new())?;
    let ring = ring(dir.path(), 1, RateLimiter::ratio(2.0, 10, 8.0))?;
    let mut actor = Side::start(dir.path(), "actor", 0, 1)?;
    for _ in 0..5 {
        spin_until(&mut [&mut actor], || stats(&ring).writers.waiting == 1);
        assert!(!stats(&ring).has_sampler);
        let before = stats(&ring).counts.inserts;
        let mut learner = Side::start(dir.path(), "learner", 0, 4)?;
        assert!(stats(&ring).has_sampler);
        spin_until(&mut [&mut actor, &mut learner], || stats(&ring).counts.inserts > before + 20);
        learner.kill();
    }
    Ok(())
}

/// A ring with two actors and two learners.
#[derive(Clone, Copy)]
struct Setting {
    limits: RateLimiter,
    /// Lanes of an actor.
    lanes: u32,
    batch: u64,
    /// Whether the ring is cleared, and its limits are set again, between kills.
    is_changed: bool,
}

#[test]
fn kills_at_any_moment_stop_nobody_else() -> Result<(), Box<dyn Error>> {
    let settings = [
        (RateLimiter::ratio(1.5, 5, 6.0), 1, 2, false),
        // Appends and batches of which each alone is larger than the band.
        (RateLimiter::ratio(1.5, 5, 6.0), 16, 64, false),
        (RateLimiter::ratio(8.0, 100, 9.0), 48, 300, true),
        (RateLimiter::queue(64), 1, 100, false),
    ];
    let kills = backcast_budget::budget_or("BACKCAST_STORM_KILLS", 200);
    for (limits, lanes, batch, is_changed) in settings {
        storm(Setting { limits, lanes, batch, is_changed }, kills / 4)?;
    }
    Ok(())
}

fn storm(setting: Setting, kills: u64) -> Result<(), Box<dyn Error>> {
    const ACTORS: usize = 2;
    let Setting { limits, lanes, batch, is_changed } = setting;
    let dir = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new())?;
    let ring = ring(dir.path(), 2 * lanes, limits)?;
    let start = |at: usize| {
        let (role, size) =
            if at < ACTORS { ("actor", u64::from(lanes)) } else { ("learner", batch) };
        Side::start(dir.path(), role, 0, size)
    };
    let mut sides = (0..ACTORS + 2).map(start).collect::<Result<Vec<_>, _>>()?;
    let mut dice = StdRng::seed_from_u64(5);
    let mut died_waiting = 0;
    for kill in 0..kills {
        let pause = Duration::from_micros(dice.random_range(0..2_000));
        let since = Instant::now();
        spin_until(&mut sides.iter_mut().collect::<Vec<_>>(), || since.elapsed() >= pause);
        let at = dice.random_range(0..sides.len());
        let waiting = stats(&ring).waiters.iter().any(|w| w.pid == u64::from(sides[at].child.id()));
        sides[at].kill();
        died_waiting += u64::from(waiting);
        sides[at] = start(at)?;
        if kill % 4 == 0 {
            if is_changed {
                ring.clear()?;
                ring.limiter().ok_or("created with a limiter")?.set(limits)?;
            }
            let before = stats(&ring).counts;
            let (inserts, samples) = (before.inserts + 20, before.samples + 3 * batch);
            spin_until(&mut sides.iter_mut().collect::<Vec<_>>(), || {
                let now = stats(&ring).counts;
                now.inserts > inserts && now.samples > samples
            });
        }
    }
    let stats = stats(&ring);
    println!("{kills} kills, {died_waiting} while they waited, {:?}", stats.counts);
    // Each actor may be one append ahead, and a killed learner leaves at most its batch counted.
    if !is_changed {
        let (least, most) = limits.error_band();
        let ratio = limits.samples_per_insert();
        #[expect(clippy::cast_precision_loss, reason = "small counts")]
        let (diff, ahead) = (
            stats.counts.inserts as f64 * ratio - stats.counts.samples as f64,
            ACTORS as f64 * f64::from(lanes) * ratio,
        );
        assert!((least - ratio..=most + ahead).contains(&diff), "{diff} of {limits}");
    }
    assert!(died_waiting > 0 || kills < 50, "the storm never hit a wait");
    Ok(())
}
