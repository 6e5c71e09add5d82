//! The victim of the kill storm: attaches by name, claims lanes and appends as fast as it can until
//! it is killed: by the test, or before it renames a file. `storm_writer DIR NAME LIFE LANES
//! [dies-before-rename]`

use std::env;
use std::error::Error;

use backcast_core::{AutoresetMode, Base, Ring, StepColumns, WriterOptions};
use backcast_tests::storm::{PIXELS, action, check, draw_pixels, mix, reward};

/// Appends between two checks that the test is alive.
const STEPS_BETWEEN_LOOKS: u64 = 1024;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().collect();
    let usage = "usage: storm_writer DIR NAME LIFE LANES [dies-before-rename]";
    let [_, dir, name, life, lanes, point @ ..] = args.as_slice() else {
        return Err(usage.into());
    };
    match point {
        [] => {}
        #[cfg(target_os = "linux")]
        [point] if point == "dies-before-rename" => {
            backcast_tests::last_call::dies_before_rename()?;
        }
        _ => return Err(usage.into()),
    }
    write(dir, name, life.parse()?, lanes.parse()?)
}

/// Columns of one append, with a row for every lane.
struct Frame {
    lives: Vec<u64>,
    pixels: Vec<u64>,
    checks: Vec<u64>,
}

impl Frame {
    fn new(lanes: usize) -> Self {
        Self { lives: vec![0; lanes], pixels: vec![0; lanes * PIXELS], checks: vec![0; lanes] }
    }

    fn set(&mut self, i: usize, lane: u32, seq: u64, life: u64) {
        self.lives[i] = life;
        self.checks[i] = check(lane, seq, life);
        draw_pixels(&mut self.pixels[i * PIXELS..(i + 1) * PIXELS], lane, seq, life);
    }
}

fn write(dir: &str, name: &str, life: u64, lanes: u32) -> Result<(), Box<dyn Error>> {
    let ring = Ring::attach_in(&Base::at(dir), name)?;
    let mode = match life % 4 {
        0 => AutoresetMode::NextStep,
        1 => AutoresetMode::SameStep,
        2 => AutoresetMode::Disabled,
        _ => return write_in_place(&ring, life, lanes),
    };
    let mut writer = ring.writer(WriterOptions::lanes(lanes).autoreset(mode))?;
    let numbers = writer.lanes().to_vec();
    let n = numbers.len();
    let (mut now, mut last) = (Frame::new(n), Frame::new(n));
    let (mut actions, mut rewards) = (vec![0; n], vec![0.0; n]);
    let (mut terminated, mut truncated) = (vec![false; n], vec![false; n]);
    // The parent changes when the test dies.
    let test = rustix::process::getppid();
    for step in 0_u64.. {
        if step % STEPS_BETWEEN_LOOKS == 0 && rustix::process::getppid() != test {
            return Err("the test that started this process is gone".into());
        }
        let awaits_final: Vec<bool> = writer.awaits_final().collect();
        for (i, lane) in numbers.iter().copied().enumerate() {
            let seq = ring.lane_span(lane).ok_or("a lane is missing")?.end;
            now.set(i, lane, seq, life);
            (actions[i], rewards[i]) = (action(lane, seq), reward(lane, seq));
            // Each lane ends an episode independently, in about three of sixteen steps.
            let end = if awaits_final[i] { 0 } else { mix(seq ^ life << 32 ^ step << 8) % 16 };
            (terminated[i], truncated[i]) = (end == 1 || end == 3, end == 2 || end == 3);
            let ends = terminated[i] || truncated[i];
            // The next observation of a step is that of the next row, even if that is the FINAL
            // one.
            if mode == AutoresetMode::Disabled || (mode == AutoresetMode::SameStep && ends) {
                last.set(i, lane, seq + 1, life);
            }
        }
        let mut columns = StepColumns::of(ring.schema())
            .with("obs/life", &now.lives)?
            .with("obs/pixels", &now.pixels)?
            .with("obs/check", &now.checks)?
            .with("action", &actions)?
            .with("reward", &rewards)?;
        match mode {
            AutoresetMode::NextStep => {}
            AutoresetMode::SameStep => {
                columns = columns
                    .with_final("obs/life", &last.lives)?
                    .with_final("obs/pixels", &last.pixels)?
                    .with_final("obs/check", &last.checks)?;
            }
            AutoresetMode::Disabled => {
                columns = columns
                    .with_next("obs/life", &last.lives)?
                    .with_next("obs/pixels", &last.pixels)?
                    .with_next("obs/check", &last.checks)?;
            }
        }
        writer.append(&columns.step(&terminated, &truncated)?)?;
    }
    Ok(())
}

/// Appends by reserved rows, lane after lane. Abandons about one in eight half written.
fn write_in_place(ring: &Ring, life: u64, lanes: u32) -> Result<(), Box<dyn Error>> {
    let test = rustix::process::getppid();
    let claim = |_| ring.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep));
    let mut writers = (0..lanes).map(claim).collect::<Result<Vec<_>, _>>()?;
    let mut frame = Frame::new(1);
    for step in 0_u64.. {
        if step % STEPS_BETWEEN_LOOKS == 0 && rustix::process::getppid() != test {
            return Err("the test that started this process is gone".into());
        }
        for writer in &mut writers {
            let lane = writer.lanes().first().copied().ok_or("a lane is missing")?;
            let seq = ring.lane_span(lane).ok_or("a lane is missing")?.end;
            let draw = mix(seq ^ life << 32 ^ step << 8);
            frame.set(0, lane, seq, life);
            let mut row = writer.reserve()?;
            row.column("obs/life")?.write(&frame.lives)?;
            let mut pixels = row.column("obs/pixels")?;
            let (left, right) = frame.pixels.split_at(PIXELS / 2);
            pixels.write_at(0, left)?;
            if draw % 8 == 7 {
                continue;
            }
            pixels.write_at(left.len(), right)?;
            row.column("obs/check")?.write(&frame.checks)?;
            row.column("action")?.write(&[action(lane, seq)])?;
            row.column("reward")?.write(&[reward(lane, seq)])?;
            let end = draw % 16;
            row.commit(end == 1 || end == 3, end == 2 || end == 3)?;
        }
    }
    Ok(())
}
