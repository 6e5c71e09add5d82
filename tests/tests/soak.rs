//! A soak test: writers, learners, leaseholders and creators of rings are killed and restarted
//! beside survivors. Memory, open files and mappings of the survivors, and the files in `/dev/shm`,
//! must not grow.
//!
//! `make soak SOAK_SECONDS=600` runs it for longer. Usage is read from `/proc`.
#![cfg(target_os = "linux")]

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use backcast_budget::BoundedChild;
use backcast_core::{Base, LanePolicy, Ring, RingOptions, collect_garbage};
use backcast_layout::RingStore;
use backcast_layout::protocol::Words;
use backcast_tests::storm::schema;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;

const LANES: u32 = 2;
const NAME: &str = "soak";
/// Measurements in a soak of any length, so that their memory is constant.
const LOOKS: u32 = 200;
/// Largest accepted growth of resident memory, for what an allocator keeps. A leak of two pages per
/// kill exceeds it after [`FEWEST_KILLS`].
const SLACK_KIB: u64 = 1_024;
const FEWEST_KILLS: usize = 300;

const WRITER: &str = env!("CARGO_BIN_EXE_storm_writer");
const HOLDER: &str = env!("CARGO_BIN_EXE_storm_leaser");
const LEARNER: &str = env!("CARGO_BIN_EXE_soak_learner");
const CREATOR: &str = env!("CARGO_BIN_EXE_churn");

/// A child process that does not outlive the test.
struct Process(Child, &'static str);

impl Process {
    fn start(binary: &'static str, dir: &TempDir, name: &str, number: u64) -> Self {
        let mut command = Command::new(binary);
        command.arg(dir.path()).args([name, &number.to_string()]);
        if binary == WRITER {
            // Number of lanes to claim.
            command.arg("1");
        }
        Self(command.spawn().expect("the binary starts"), binary)
    }

    fn assert_alive(&mut self) {
        if let Some(status) = self.0.try_wait().expect("a child can be looked at") {
            panic!("{} ended by itself, {status}", self.1);
        }
    }

    fn kill(&mut self) {
        self.0.kill().expect("SIGKILL can be sent");
        let status = self.0.wait_bounded().expect("a killed child can be waited for");
        assert!(status.code().is_none(), "{} was not killed: {status}", self.1);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait_bounded();
    }
}

/// Resources of a process.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    resident_kib: u64,
    files: u64,
    mappings: u64,
}

fn usage(pid: u32) -> std::io::Result<Usage> {
    let place = format!("/proc/{pid}");
    let status = fs::read_to_string(format!("{place}/status"))?;
    let kib =
        |line: &str| line.strip_prefix("VmRSS:")?.trim().strip_suffix("kB")?.trim().parse().ok();
    Ok(Usage {
        resident_kib: status.lines().find_map(kib).unwrap_or(0),
        files: fs::read_dir(format!("{place}/fd"))?.count() as u64,
        mappings: fs::read_to_string(format!("{place}/maps"))?.lines().count() as u64,
    })
}

/// Returns the number of files and folders below a folder.
fn entries(dir: &Path) -> u64 {
    let Ok(found) = fs::read_dir(dir) else { return 0 };
    found.filter_map(Result::ok).map(|entry| 1 + entries(&entry.path())).sum()
}

/// All measurements of one quantity.
#[derive(Debug, Default)]
struct Series(Vec<u64>);

impl Series {
    /// Returns early measurements, after a warm-up, and late ones.
    fn parts(&self) -> (&[u64], &[u64]) {
        let count = self.0.len();
        (&self.0[count / 4..count / 2], &self.0[count * 3 / 4..])
    }

    /// Returns the medians of early and late measurements, which ignore short peaks.
    fn medians(&self) -> (u64, u64) {
        let median = |part: &[u64]| {
            let mut part = part.to_vec();
            part.sort_unstable();
            part[part.len() / 2]
        };
        let (early, late) = self.parts();
        (median(early), median(late))
    }

    /// Returns the largest early measurement and the smallest late one. A leak moves all
    /// measurements; what a process opens and closes again, such as the file of a lease, moves
    /// single ones, and medians and minima by luck.
    fn early_peak_and_late_low(&self) -> (u64, u64) {
        let (early, late) = self.parts();
        let (peak, low) = (early.iter().max(), late.iter().min());
        (peak.copied().unwrap_or_default(), low.copied().unwrap_or_default())
    }
}

/// A survivor and its measurements.
struct Watched {
    what: &'static str,
    pid: u32,
    resident: Series,
    files: Series,
    mappings: Series,
}

impl Watched {
    fn new(what: &'static str, pid: u32) -> Self {
        let series = Series::default;
        Self { what, pid, resident: series(), files: series(), mappings: series() }
    }

    fn look(&mut self) -> std::io::Result<()> {
        let usage = usage(self.pid)?;
        self.resident.0.push(usage.resident_kib);
        self.files.0.push(usage.files);
        self.mappings.0.push(usage.mappings);
        Ok(())
    }

    fn assert_flat(&self) {
        let series = [
            ("KiB resident", self.resident.medians(), SLACK_KIB),
            ("open files", self.files.early_peak_and_late_low(), 0),
            ("mappings", self.mappings.early_peak_and_late_low(), 0),
        ];
        for (unit, (early, late), slack) in series {
            println!("{}: {early} {unit} early, {late} late", self.what);
            assert!(late <= early + slack, "{} grows: {early} to {late} {unit}", self.what);
        }
    }
}

fn assert_alive(survivors: &mut [(Process, Watched)]) {
    for (process, _) in survivors {
        process.assert_alive();
    }
}

fn heads(store: &RingStore) -> Vec<u64> {
    store.lanes().iter().map(|lane| lane.load_head(Relaxed)).collect()
}

#[test]
fn nothing_grows_beside_processes_that_are_killed_and_born_again() -> Result<(), Box<dyn Error>> {
    let seconds = std::env::var("BACKCAST_SOAK_SECONDS").map_or(Ok(12), |text| text.parse())?;
    let dir = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new())?;
    let base = Base::at(dir.path());
    let options = RingOptions::with_capacity(u64::from(LANES) * (1024 - 16))
        .lanes(LANES)
        // No row is dropped for a lease, and waiting for a dead holder fails the test.
        .lane_policy(LanePolicy::Block(Duration::from_secs(600)))
        .base(base.clone());
    let ring = Ring::create(NAME, &schema()?, options)?;
    let store = RingStore::attach(&base, NAME)?;
    let mut dice = StdRng::seed_from_u64(5);

    let survivors = [(WRITER, "writer"), (HOLDER, "leaseholder"), (LEARNER, "learner")];
    let mut survivors: Vec<(Process, Watched)> = survivors
        .map(|(binary, what)| {
            let process = Process::start(binary, &dir, NAME, 1);
            let pid = process.0.id();
            (process, Watched::new(what, pid))
        })
        .into();
    let mut watched = Watched::new("test", std::process::id());
    let mut in_memory = Series::default();
    // The survivor claims a lane before the victims do.
    while ring.rows_published() == 0 {
        assert_alive(&mut survivors);
        thread::yield_now();
    }

    let victims = [(WRITER, NAME), (HOLDER, NAME), (LEARNER, NAME), (CREATOR, "churned")];
    let mut lives = 1;
    let mut start = |dir: &TempDir, (binary, name): (&'static str, &str)| {
        lives += 1;
        Process::start(binary, dir, name, lives)
    };
    let mut processes: Vec<Process> = victims.iter().map(|which| start(&dir, *which)).collect();
    let mut kills = [0_usize; 4];
    let (begin, mut next_look) = (Instant::now(), Instant::now());
    let mut halfway = heads(&store);
    while begin.elapsed() < Duration::from_secs(seconds)
        || kills.iter().sum::<usize>() < FEWEST_KILLS
    {
        let end = Instant::now() + Duration::from_micros(dice.random_range(2_000..20_000));
        while Instant::now() < end {
            assert_alive(&mut survivors);
            thread::sleep(Duration::from_micros(500));
        }
        let victim = dice.random_range(0..victims.len());
        processes[victim].assert_alive();
        processes[victim].kill();
        kills[victim] += 1;
        if victims[victim].0 == CREATOR {
            collect_garbage(&base)?;
        }
        processes[victim] = start(&dir, victims[victim]);
        if next_look <= Instant::now() {
            next_look += Duration::from_secs(seconds) / LOOKS;
            for (_, watched) in &mut survivors {
                watched.look()?;
            }
            watched.look()?;
            in_memory.0.push(entries(&dir.path().join(format!("{NAME}.ring"))));
        }
        if begin.elapsed() < Duration::from_secs(seconds / 2) {
            halfway = heads(&store);
        }
    }
    println!("soak: {kills:?} writers, leaseholders, learners, creators killed");
    assert!(kills.iter().all(|kills| *kills > 0), "{kills:?}");
    for (_, watched) in &survivors {
        watched.assert_flat();
    }
    watched.assert_flat();
    let (early, late) = in_memory.early_peak_and_late_low();
    assert!(late <= early, "the ring's folder grows: {early} to {late} entries");
    let now = heads(&store);
    assert!(now.iter().zip(&halfway).all(|(now, then)| now > then), "{halfway:?}, then {now:?}");

    drop(processes);
    drop(survivors);
    collect_garbage(&base)?;
    let left: Vec<_> = fs::read_dir(dir.path())?.filter_map(Result::ok).collect();
    assert_eq!(left.len(), 1, "the dead left something beside the ring: {left:?}");
    let stats = ring.stats();
    // Lanes and slots of the dead can be claimed.
    let claims = ring.writer(
        backcast_core::WriterOptions::lanes(LANES)
            .autoreset(backcast_core::AutoresetMode::NextStep),
    )?;
    drop(claims);
    assert!(stats.lane_stats.iter().all(|lane| !lane.held), "{:?}", stats.lane_stats);
    drop((ring, store));
    let left: Vec<_> = fs::read_dir(dir.path())?.filter_map(Result::ok).collect();
    assert!(left.is_empty(), "{left:?}");
    Ok(())
}
