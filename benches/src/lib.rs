//! What the benchmarks share: the schema of the peers' workload and rings filled with it.

use backcast_core::{Base, DType, Ring, RingOptions, Schema, StepColumns, WriterOptions};

/// Observation width of the workload, in floats.
pub const OBS: usize = 84;

/// A transition of a continuous-control task: 84 floats of observation, 8 of action, reward.
///
/// # Panics
/// Never: the schema is valid.
#[must_use]
pub fn schema() -> Schema {
    Schema::builder()
        .column("obs", DType::F32, &[84])
        .column("action", DType::F32, &[8])
        .column("reward", DType::F32, &[])
        .build()
        .expect("a valid schema")
}

/// A named ring in memory, filled to the brim and once around, with episodes of 200 steps.
///
/// # Panics
/// If `/dev/shm` has no room.
#[must_use]
pub fn filled(base: &Base, name: &str, capacity: u64, lanes: u32) -> Ring {
    let options = RingOptions::with_capacity(capacity).lanes(lanes).base(base.clone());
    let ring = Ring::create(name, &schema(), options).expect("room for the ring");
    let mut writer = ring.writer(WriterOptions::lanes(lanes)).expect("free lanes");
    let n = lanes as usize;
    let (obs, action, reward) = (vec![0.5_f32; n * OBS], vec![0.25_f32; n * 8], vec![1_f32; n]);
    let (quiet, ends) = (vec![false; n], vec![true; n]);
    let per_lane = capacity.div_ceil(u64::from(lanes)) + capacity / u64::from(lanes) / 8;
    for t in 0..per_lane {
        let mut columns = StepColumns::of(ring.schema())
            .with("obs", &obs)
            .and_then(|c| c.with("action", &action))
            .and_then(|c| c.with("reward", &reward))
            .expect("columns of the schema");
        let truncated = if t % 200 == 199 { &ends } else { &quiet };
        let step = columns.step(&quiet, truncated).expect("every column");
        writer.append(&step).expect("a step of the schema");
    }
    ring
}
