//! Simulated markets: ticks against the `bourse` package and against the bare book, and the cost of
//! observations, resets, memory, threads and many environments. Contenders take turns.
//!
//! `BACKCAST_BOURSE_PYTHON` names a Python interpreter that has `bourse`; without it that part is
//! skipped with a message.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use backcast_benches::measured::{Measured, Role, role};
use backcast_gym::{
    AutoresetMode, FeatureChoice, ResetSeed, TradingEnv, TradingEnvConfig, TradingResetOptions,
    TradingVectorEnv,
};
use backcast_sim::{Book, BookEvents, BookFill, Market, Order, Preset, Removal};

const ROUNDS: usize = 9;
/// Ticks of a round of one market.
const TICKS: u64 = 20_000;
/// Duration of a round of threads or processes.
const ROUND: Duration = Duration::from_millis(500);
/// Environments of the comparison of threads with processes, and the smaller number in `many`.
const ENVS: usize = 64;
/// Environments that do not fit the caches.
const MANY: usize = 1_024;
/// Ticks from a reset over which many environments are compared.
const AGE: u32 = 200;

fn main() -> Result<(), Box<dyn Error>> {
    if let Some(words) = role() {
        return match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["stepper", envs] => step_when_told(envs.parse()?),
            _ => Err("no such role".into()),
        };
    }
    let measured = Measured::from_args();
    let metric = "ticks of a market of 100 agents";
    if measured.wants(metric) {
        ticks(&measured, metric)?;
    }
    let metric = "reset of a warm environment";
    if measured.wants(metric) {
        resets(&measured, metric)?;
    }
    let metric = "memory of an environment";
    if measured.wants(metric) {
        memory(&measured, metric)?;
    }
    let metric = "steps of 64 environments";
    if measured.wants(metric) {
        threads_and_processes(&measured, metric)?;
    }
    let metric = "steps of many environments";
    if measured.wants(metric) {
        many(&measured, metric)?;
    }
    Ok(())
}

/// Returns settings of an environment whose episodes do not end while it is measured.
fn config(frame_skip: u32) -> TradingEnvConfig {
    TradingEnvConfig {
        max_ticks: 1 << 40,
        frame_skip,
        warm_snapshots: 1,
        warmup_ticks: 300,
        ..TradingEnvConfig::default()
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate")]
fn per_second(count: u64, begin: Instant) -> f64 {
    count as f64 / begin.elapsed().as_secs_f64()
}

/// Sums the shares that a book reports, so that nothing is optimised away.
#[derive(Default)]
struct Counted {
    shares: i64,
}

impl BookEvents for Counted {
    fn traded(&mut self, fill: BookFill) {
        self.shares += i64::from(fill.quantity);
    }

    fn removed(&mut self, order: &Order, _why: Removal) {
        self.shares -= i64::from(order.quantity);
    }
}

/// `bourse` in a Python process, which runs ticks when told.
struct Bourse {
    child: Child,
    tell: ChildStdin,
    hear: BufReader<ChildStdout>,
}

impl Bourse {
    fn start() -> Result<Option<Self>, Box<dyn Error>> {
        let Some(python) = std::env::var_os("BACKCAST_BOURSE_PYTHON") else {
            println!("bourse is left out: BACKCAST_BOURSE_PYTHON names no interpreter that has it");
            return Ok(None);
        };
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/bourse_ticks.py");
        let mut child = Command::new(python)
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let tell = child.stdin.take().ok_or("a pipe")?;
        let hear = BufReader::new(child.stdout.take().ok_or("a pipe")?);
        Ok(Some(Self { child, tell, hear }))
    }

    /// Returns the ticks per second of one round of `agents`.
    fn round(&mut self, agents: &str) -> Result<f64, Box<dyn Error>> {
        writeln!(self.tell, "{agents}")?;
        let mut line = String::new();
        self.hear.read_line(&mut line)?;
        Ok(line.trim().parse()?)
    }
}

impl Drop for Bourse {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Measures ticks without observations, ticks with an observation each, and the calls of the book.
fn ticks(measured: &Measured, metric: &str) -> Result<(), Box<dyn Error>> {
    let market_config = Preset::Normal.config();
    let mut market = Market::new(&market_config, 1)?;
    // Every round repeats the same ticks, since the log of the book belongs to them.
    market.log_book(0);
    market.reset(1);
    market.run(TICKS);
    let log = market.book_log(0).to_vec();
    let mut market = Market::new(&market_config, 1)?;
    let mut book = Book::new(
        market_config.book_levels,
        market_config.book_orders,
        market_config.initial_price,
    );
    let mut envs = [FeatureChoice::Full, FeatureChoice::Normalised].map(|features| {
        let config = TradingEnvConfig { features, ..config(1) };
        TradingEnv::new(config).expect("a valid configuration")
    });
    let mut bourse = Bourse::start()?;
    let mut runs: Vec<(String, Vec<f64>)> = Vec::new();
    let mut keep = |contender: &str, rate: f64| match runs.iter_mut().find(|run| run.0 == contender)
    {
        Some(run) => run.1.push(rate),
        None => runs.push((contender.to_owned(), vec![rate])),
    };
    for round in 0..=ROUNDS {
        let mut round_of = Vec::new();
        market.reset(1);
        let begin = Instant::now();
        market.run(TICKS);
        round_of.push(("backcast, ticks alone", per_second(TICKS, begin)));
        book.clear(market_config.initial_price);
        let mut counted = Counted::default();
        let begin = Instant::now();
        for op in &log {
            book.apply(*op, &mut counted);
        }
        round_of.push(("the book alone, same orders", per_second(TICKS, begin)));
        assert_eq!(book.next_id(), market.book(0).next_id(), "the same orders");
        assert!(counted.shares != 0);
        for (env, contender) in envs
            .iter_mut()
            .zip(["backcast, environment, 55 features", "backcast, environment, 40 features"])
        {
            let mut observation = vec![0.0; env.observation_size()];
            env.reset_into(Some(1), TradingResetOptions::default(), &mut observation)?;
            let begin = Instant::now();
            for tick in 0..TICKS {
                env.step_into(&[[0.0, 1.0, 2.0][(tick % 3) as usize]], &mut observation)?;
            }
            round_of.push((contender, per_second(TICKS, begin)));
            env.check()?;
        }
        if let Some(bourse) = &mut bourse {
            for (agents, contender) in [
                ("numpy", "bourse, 16 random orders a tick in NumPy"),
                ("python", "bourse, 100 random agents in Python, 16 a tick"),
            ] {
                round_of.push((contender, bourse.round(agents)?));
            }
        }
        // The first round warms up.
        for (contender, rate) in round_of.into_iter().filter(|_| round > 0) {
            keep(contender, rate);
        }
    }
    for (contender, rates) in &runs {
        measured.keep(metric, "ticks/s", contender, rates);
    }
    Ok(())
}

/// Resets from a warm snapshot, in microseconds and in ticks of the same market.
fn resets(measured: &Measured, metric: &str) -> Result<(), Box<dyn Error>> {
    const RESETS: u64 = 200;
    let mut env = TradingEnv::new(config(1))?;
    let mut observation = vec![0.0; env.observation_size()];
    env.reset_into(Some(1), TradingResetOptions::default(), &mut observation)?;
    let (mut in_ticks, mut micros) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let begin = Instant::now();
        for _ in 0..RESETS {
            env.reset_into(None, TradingResetOptions::default(), &mut observation)?;
        }
        let reset = 1.0 / per_second(RESETS, begin);
        let mut market = env.market().clone();
        let begin = Instant::now();
        market.run(TICKS);
        let tick = 1.0 / per_second(TICKS, begin);
        if round > 0 {
            in_ticks.push(reset / tick);
            micros.push(1e6 * reset);
        }
    }
    measured.keep(metric, "us", "backcast", &micros);
    measured.keep("reset of a warm environment, in ticks of it", "ticks", "backcast", &in_ticks);
    Ok(())
}

/// Resident memory of this process in bytes.
fn resident() -> Result<f64, Box<dyn Error>> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: f64 = statm.split(' ').nth(1).ok_or("two numbers")?.parse()?;
    #[expect(clippy::cast_precision_loss, reason = "4,096")]
    let page = rustix::param::page_size() as f64;
    Ok(pages * page)
}

fn memory(measured: &Measured, metric: &str) -> Result<(), Box<dyn Error>> {
    let before = resident()?;
    let mut envs = stepping(MANY, 1, 1)?;
    envs.steps(20)?;
    #[expect(clippy::cast_precision_loss, reason = "1,024")]
    let kib = (resident()? - before) / MANY as f64 / 1_024.0;
    measured.keep(metric, "KiB", "backcast, one of 1,024", &[kib]);
    Ok(())
}

/// Environments with their buffers.
struct Stepping {
    envs: TradingVectorEnv,
    actions: Vec<f64>,
    observations: Vec<f32>,
}

fn stepping(envs: usize, frame_skip: u32, threads: usize) -> Result<Stepping, Box<dyn Error>> {
    let mut vector =
        TradingVectorEnv::new(config(frame_skip), envs, AutoresetMode::SameStep, threads)?;
    let mut observations = vec![0.0; envs * vector.observation_size()];
    let options = TradingResetOptions::default();
    vector.reset_into(ResetSeed::One(1), None, options, &mut observations)?;
    #[expect(clippy::cast_precision_loss, reason = "0, 1 or 2")]
    let actions = (0..envs).map(|env| (env % 3) as f64).collect();
    Ok(Stepping { envs: vector, actions, observations })
}

impl Stepping {
    fn steps(&mut self, steps: usize) -> Result<(), Box<dyn Error>> {
        for _ in 0..steps {
            self.actions.rotate_left(1);
            self.envs.step_into(&self.actions, &mut self.observations)?;
        }
        Ok(())
    }

    /// Returns the environment steps per second over the first [`AGE`] ticks of [`MANY`] episodes.
    ///
    /// Markets calm down after a reset, and a calm tick takes half the time of a busy one. So only
    /// the same ticks compare.
    fn round_from_reset(&mut self, frame_skip: u32) -> Result<f64, Box<dyn Error>> {
        let (mut spent, mut steps) = (Duration::ZERO, 0);
        for _ in 0..MANY / self.envs.num_envs() {
            let (seed, options) = (ResetSeed::One(1), TradingResetOptions::default());
            self.envs.reset_into(seed, None, options, &mut self.observations)?;
            let begin = Instant::now();
            self.steps((AGE / frame_skip) as usize)?;
            spent += begin.elapsed();
            steps += u64::from(AGE / frame_skip) * self.envs.num_envs() as u64;
        }
        #[expect(clippy::cast_precision_loss, reason = "a rate")]
        Ok(steps as f64 / spent.as_secs_f64())
    }

    /// Returns the environment steps per second of a round.
    fn round(&mut self) -> Result<f64, Box<dyn Error>> {
        let begin = Instant::now();
        let mut steps = 0;
        while begin.elapsed() < ROUND {
            self.steps(4)?;
            steps += 4 * self.envs.num_envs() as u64;
        }
        Ok(per_second(steps, begin))
    }
}

/// Runs in the child: one round for each line of its standard input.
fn step_when_told(envs: usize) -> Result<(), Box<dyn Error>> {
    let mut stepping = stepping(envs, 10, 1)?;
    stepping.round()?;
    println!("ready");
    for line in std::io::stdin().lines() {
        line?;
        println!("{}", stepping.round()?);
    }
    Ok(())
}

/// A child and the lines that it prints.
struct Stepper {
    _role: Role,
    tell: ChildStdin,
    hear: BufReader<ChildStdout>,
}

impl Stepper {
    fn start(envs: usize) -> Result<Self, Box<dyn Error>> {
        let mut role = Role::start(&["stepper", &envs.to_string()]);
        let tell = role.stdin();
        let mut hear = BufReader::new(role.child().stdout.take().ok_or("a pipe")?);
        hear.read_line(&mut String::new())?;
        Ok(Self { _role: role, tell, hear })
    }

    fn rate(&mut self) -> Result<f64, Box<dyn Error>> {
        let mut line = String::new();
        self.hear.read_line(&mut line)?;
        Ok(line.trim().parse()?)
    }
}

/// 64 environments on one thread, on two threads, and in two processes of 32 side by side.
fn threads_and_processes(measured: &Measured, metric: &str) -> Result<(), Box<dyn Error>> {
    let mut together = stepping(ENVS, 10, 2)?;
    let mut alone = stepping(ENVS, 10, 1)?;
    let mut apart = [Stepper::start(ENVS / 2)?, Stepper::start(ENVS / 2)?];
    let [mut one, mut two, mut processes] = [const { Vec::new() }; 3];
    for round in 0..=ROUNDS {
        let rates = [alone.round()?, together.round()?];
        for stepper in &mut apart {
            writeln!(stepper.tell)?;
        }
        let of_both = apart[0].rate()? + apart[1].rate()?;
        if round > 0 {
            one.push(rates[0]);
            two.push(rates[1]);
            processes.push(of_both);
        }
    }
    measured.keep(metric, "steps/s", "backcast, one thread", &one);
    measured.keep(metric, "steps/s", "backcast, two threads", &two);
    measured.keep(metric, "steps/s", "backcast, two processes of 32", &processes);
    Ok(())
}

/// One thread, 64 and 1,024 environments, at one tick a step and at ten, over the same ticks.
fn many(measured: &Measured, metric: &str) -> Result<(), Box<dyn Error>> {
    for frame_skip in [1, 10] {
        let mut each = [stepping(ENVS, frame_skip, 1)?, stepping(MANY, frame_skip, 1)?];
        let mut runs = [const { Vec::new() }; 2];
        for round in 0..=ROUNDS {
            for (stepping, runs) in each.iter_mut().zip(&mut runs) {
                let rate = stepping.round_from_reset(frame_skip)?;
                if round > 0 {
                    runs.push(rate);
                }
            }
        }
        let metric = format!("{metric}, {frame_skip} ticks a step");
        for (envs, runs) in ["64", "1,024"].iter().zip(&runs) {
            measured.keep(&metric, "steps/s", &format!("backcast, {envs} environments"), runs);
        }
    }
    Ok(())
}
