//! Names and handles: creating, joining, replacing and removing rings, and what is left afterwards.

mod away;
mod create;
#[cfg(target_os = "linux")]
mod memfd;

use std::process::{Child, Command, Stdio};

use backcast_budget::{BoundedChild, Lines};
use backcast_core::{
    AutoresetMode, Base, DType, Exist, Ring, RingError, RingOptions, SamplerOptions, Schema,
    SegmentError, StepColumns, Writer, WriterError, WriterOptions,
};
use tempfile::TempDir;

fn place() -> (TempDir, Base) {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let base = Base::at(dir.path());
    (dir, base)
}

fn schema() -> Schema {
    Schema::builder()
        .column("obs", DType::F32, &[2])
        .column("action", DType::I32, &[])
        .build()
        .unwrap()
}

fn options(base: &Base) -> RingOptions {
    RingOptions::with_capacity(100).lanes(2).base(base.clone())
}

fn make(base: &Base, name: &str) -> Ring {
    Ring::create(name, &schema(), options(base)).unwrap()
}

fn segment(error: RingError) -> SegmentError {
    match error {
        RingError::Segment(error) => error,
        other => panic!("{other}"),
    }
}

/// Appends `n` steps to every lane of a writer.
fn append(writer: &mut Writer, n: u8) {
    let schema = schema();
    let lanes = writer.lanes().len();
    for i in 0..n {
        let (obs, action) = (vec![f32::from(i); 2 * lanes], vec![i32::from(i); lanes]);
        let columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
        let columns = columns.with("action", &action).unwrap();
        let goes = vec![false; lanes];
        writer.append(&columns.step(&goes, &goes).unwrap()).unwrap();
    }
}

fn fill(ring: &Ring, n: u8) {
    append(&mut ring.writer(WriterOptions::lanes(1)).unwrap(), n);
}

/// Another process that holds a ring; killed when dropped.
struct Holder(Child);

const ROLE: &str = "BACKCAST_TEST_HOLD_RING_IN";

impl Holder {
    /// Creates or joins ring `held` in another process, and waits until the process holds it.
    fn spawn(dir: &TempDir, persistent: bool) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "handles::another_process_that_holds_a_ring",
                "--ignored",
                "--nocapture",
            ])
            .env(ROLE, dir.path())
            .env("PERSISTENT", persistent.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Lines::of(child.stdout.take().unwrap()).wait_for("held");
        Self(child)
    }

    fn kill(mut self) -> u32 {
        self.0.kill().unwrap();
        self.0.wait_bounded().unwrap();
        self.0.id()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait_bounded();
    }
}

/// Body of a [`Holder`]'s process.
#[test]
#[ignore = "a role: other tests start it as a process of its own"]
fn another_process_that_holds_a_ring() {
    let dir = std::env::var_os(ROLE).expect("a role, started by `Holder::spawn`");
    let persistent = std::env::var("PERSISTENT").is_ok_and(|value| value == "true");
    let options = options(&Base::at(dir)).persistent(persistent).exist(Exist::Attach);
    let ring = Ring::create("held", &schema(), options).unwrap();
    let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
    append(&mut writer, 5);
    println!("held");
    // Waits until the parent kills this process, or dies and thereby closes the pipe.
    let _ = std::io::stdin().read_line(&mut String::new());
}

#[test]
fn a_killed_writers_lane_is_adopted_while_the_ring_is_held() {
    let (dir, base) = place();
    let holder = Holder::spawn(&dir, false);
    let ring = Ring::attach_in(&base, "held").unwrap();
    assert_eq!(ring.stats().lane_stats.iter().map(|l| l.held).collect::<Vec<_>>(), [true, false]);
    let pid = holder.kill();
    assert_eq!(ring.stats().lane_stats[0].pid, Some(pid.into()));
    assert!(!ring.stats().lane_stats[0].held, "the kernel has let go of it");
    assert_eq!(ring.len(), 4);
    let mut writer =
        ring.writer(WriterOptions::lanes(2).autoreset(AutoresetMode::NextStep)).unwrap();
    append(&mut writer, 2);
    let rows = ring.rows(0, 4..7).unwrap();
    assert_eq!(rows.column::<u32>("flags").unwrap(), [0, 8, 0], "a gap");
    assert_eq!(rows.column::<u64>("episode").unwrap(), [0, 1, 1], "a new episode");
    assert_eq!(rows.column::<u32>("t").unwrap(), [4, 0, 1]);
    assert_eq!(ring.len(), 6, "the dead writer's last row has no successor");
}

#[test]
fn taken_lanes_are_refused_with_their_holders_and_the_remedy() {
    let (dir, base) = place();
    let holder = Holder::spawn(&dir, false);
    let ring = Ring::attach_in(&base, "held").unwrap();
    let asked = |lanes| ring.writer(WriterOptions::lanes(lanes).autoreset(AutoresetMode::NextStep));
    let refused = asked(2).unwrap_err();
    assert!(matches!(&refused, WriterError::LanesTaken { asked: 2, free: 1, lanes: 2, held }
            if held.len() == 1 && held[0].pid == u64::from(holder.0.id())));
    assert!(refused.to_string().contains(&holder.0.id().to_string()), "{refused}");
    let mine = asked(1).expect("a refusal keeps no lane");
    assert_eq!(mine.lanes(), [1]);
    let refused = Ring::attach_in(&base, "held").unwrap().writer(WriterOptions::lanes(1));
    let text = refused.unwrap_err().to_string();
    for pid in [holder.0.id(), std::process::id()] {
        assert!(text.contains(&pid.to_string()), "{text}");
    }
    assert!(matches!(asked(0).unwrap_err(), WriterError::NoLanes));
    let refused = asked(3).unwrap_err();
    assert!(matches!(refused, WriterError::TooManyLanes { asked: 3, lanes: 2 }), "{refused}");
    drop(mine);
    holder.kill();
    assert_eq!(asked(2).expect("the kernel freed the lane").lanes(), [0, 1]);
}

#[test]
fn readers_beyond_the_slots_can_read() {
    let (_dir, base) = place();
    let ring = Ring::create("pong", &schema(), options(&base).reader_slots(2)).unwrap();
    fill(&ring, 5);
    let mut samplers: Vec<_> =
        (0..4).map(|seed| ring.sampler(SamplerOptions::seeded(seed)).unwrap()).collect();
    for sampler in &mut samplers {
        sampler.sample(10).unwrap();
        sampler.sample(10).unwrap();
    }
    let me = u64::from(std::process::id());
    let shown: Vec<_> =
        ring.stats().readers.iter().map(|r| (r.slot, r.pid, r.sampled_batches)).collect();
    assert_eq!(shown, [(0, me, 2), (1, me, 2)]);
    assert_eq!(ring.stats().readers[0].sampled_rows, 20);
    samplers.remove(0);
    let fresh = ring.sampler(SamplerOptions::seeded(9)).unwrap();
    let shown: Vec<_> = ring.stats().readers.iter().map(|r| r.sampled_batches).collect();
    assert_eq!(shown, [0, 2], "a slot that was freed starts from zero");
    drop(fresh);
}

#[test]
fn the_autoreset_mode_belongs_to_the_writer() {
    let (_dir, base) = place();
    let ring = make(&base, "pong");
    let writers: Vec<_> = [AutoresetMode::SameStep, AutoresetMode::Disabled]
        .map(|mode| ring.writer(WriterOptions::lanes(1).autoreset(mode)).unwrap())
        .into();
    assert_eq!(writers[0].autoreset_mode(), AutoresetMode::SameStep);
    assert_eq!(writers[1].autoreset_mode(), AutoresetMode::Disabled);
}
