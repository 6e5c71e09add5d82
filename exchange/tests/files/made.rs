//! Rings to be exported, with every type of column and episodes that end in every way.

use backcast_core::{
    AutoresetMode, Base, DType, Ring, RingOptions, Role, Schema, Step, WriterOptions,
};

/// Returns a schema with scalars and arrays of every dtype.
pub(crate) fn every_type() -> Schema {
    let mut builder = Schema::builder().column("obs/pixels", DType::U8, &[2, 3]);
    for (at, dtype) in DType::ALL.into_iter().enumerate() {
        let shape = [2 + u32::try_from(at % 2).unwrap()];
        let role = if at % 3 == 0 { Role::Obs } else { Role::Step };
        builder = builder.column_as(&format!("one_{}", dtype.code()), dtype, &[], role).column_as(
            &format!("some_{}", dtype.code()),
            dtype,
            &shape,
            role,
        );
    }
    builder.build().unwrap()
}

/// Returns a ring with `steps` steps in each of its lanes. Episodes have `length` steps, and are
/// terminated and truncated by turns.
pub(crate) fn ring(
    base: &Base,
    name: &str,
    schema: &Schema,
    rows: u64,
    lanes: u32,
    steps: u32,
    length: u32,
) -> Ring {
    let options = RingOptions::with_capacity(rows).lanes(lanes).base(base.clone());
    let ring = Ring::create(name, schema, options).unwrap();
    write(&ring, steps, length);
    ring
}

/// Appends steps to every lane of a ring.
pub(crate) fn write(ring: &Ring, steps: u32, length: u32) {
    let lanes = ring.lanes() as usize;
    let options = WriterOptions::lanes(ring.lanes()).autoreset(AutoresetMode::SameStep);
    let mut writer = ring.writer(options).unwrap();
    let mut dice = 7_u64;
    let mut byte = move || {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (dice >> 40).to_le_bytes()[0]
    };
    for step in 0..steps {
        let schema = ring.schema().clone();
        let mut columns = Vec::new();
        for column in schema.columns() {
            let limit = if column.dtype() == DType::Bool { 1 } else { 0x3f };
            let bytes: Vec<u8> = (0..column.width() * lanes).map(|_| byte() & limit).collect();
            columns.push(bytes);
        }
        let ends = (step + 1).is_multiple_of(length);
        let turn = (step / length).is_multiple_of(2);
        let (terminated, truncated) = (vec![ends && turn; lanes], vec![ends && !turn; lanes]);
        let slices: Vec<&[u8]> = columns.iter().map(Vec::as_slice).collect();
        let obs = schema.columns().iter().zip(&slices).filter(|(c, _)| c.role() == Role::Obs);
        let finals: Vec<&[u8]> = obs.map(|(_, bytes)| *bytes).collect();
        let step = Step {
            schema: &schema,
            columns: &slices,
            terminated: &terminated,
            truncated: &truncated,
            next_obs: None,
            final_obs: Some(&finals),
        };
        writer.append(step).unwrap();
    }
}

/// Checks that two rings have the same readable rows, built-in columns included.
pub(crate) fn assert_same(a: &Ring, b: &Ring) {
    assert_eq!((a.schema(), a.lanes()), (b.schema(), b.lanes()));
    for lane in 0..a.lanes() {
        let span = a.lane_span(lane).unwrap();
        assert_eq!(b.lane_span(lane).unwrap(), span, "lane {lane}");
        let (a, b) = (a.rows(lane, span.clone()).unwrap(), b.rows(lane, span).unwrap());
        for column in a.columns() {
            let name = column.name();
            assert!(a.bytes(name) == b.bytes(name), "column {name} of lane {lane} differs");
        }
    }
}
