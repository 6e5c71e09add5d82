//! Learners that share the draws of one seed.

use backcast_core::{
    AutoresetMode, DType, PriorityOptions, Ring, RingOptions, RowIndex, SampleError,
    SamplerOptions, Schema, Sequence, StepColumns, WriterOptions,
};

fn filled() -> Ring {
    let schema = Schema::builder().column("obs", DType::U64, &[]).build().unwrap();
    let ring = Ring::heap(&schema, RingOptions::with_capacity(300).lanes(3)).unwrap();
    let options = WriterOptions::lanes(3).autoreset(AutoresetMode::NextStep);
    let mut writer = ring.writer(options).unwrap();
    for t in 0..100_u64 {
        let obs = [t, t + 1_000, t + 2_000];
        let columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
        writer.append(&columns.step(&[false; 3], &[t % 17 == 0; 3]).unwrap()).unwrap();
    }
    ring
}

fn batches(ring: &Ring, spec: impl Into<SamplerOptions>, count: usize) -> Vec<Vec<RowIndex>> {
    let mut sampler = ring.sampler(spec).unwrap();
    (0..count).map(|_| sampler.sample(8).unwrap().index()).collect()
}

#[test]
fn four_learners_draw_together_what_one_draws_alone() {
    let ring = filled();
    let mut priorities = ring.priorities(&PriorityOptions::alpha(0.6)).unwrap();
    let drawn: Vec<RowIndex> = batches(&ring, SamplerOptions::seeded(1), 9).concat();
    let values: Vec<f64> =
        drawn.iter().map(|index| f64::from(u8::try_from(index.0 % 13).unwrap())).collect();
    priorities.update(&drawn, &values).unwrap();
    let plain = |options: SamplerOptions| options;
    let prioritised = |options: SamplerOptions| options.priority(PriorityOptions::alpha(0.6));
    let windows = |options: SamplerOptions| {
        SamplerOptions::from(crate::strided(&ring, options.history(5), 2).unwrap())
    };
    let sequences = |options: SamplerOptions| options.sequence(Sequence::new(5).stride(2));
    let kinds: [&dyn Fn(SamplerOptions) -> SamplerOptions; 4] =
        [&plain, &prioritised, &windows, &sequences];
    for spec in kinds {
        let alone = batches(&ring, spec(SamplerOptions::seeded(7)), 20);
        for rank in 0..4_u32 {
            let options = SamplerOptions::seeded(7).rank(rank, 4);
            let expected: Vec<_> = alone.iter().skip(rank as usize).step_by(4).collect();
            let theirs = batches(&ring, spec(options), 5);
            assert_eq!(theirs.iter().collect::<Vec<_>>(), expected, "rank {rank}");
        }
    }
}

#[test]
fn a_state_goes_on_with_the_batches_of_its_learner() {
    let ring = filled();
    let mut sampler = ring.sampler(SamplerOptions::seeded(7).rank(2, 3)).unwrap();
    sampler.sample(8).unwrap();
    let state = sampler.state();
    assert_eq!((state.batches, state.rank), (1, (2, 3)));
    let mut again = ring.sampler(state).unwrap();
    assert_eq!(again.sample(8).unwrap().index(), sampler.sample(8).unwrap().index());
}

#[test]
fn a_rank_that_no_learner_has_is_refused() {
    let ring = filled();
    for (rank, world_size) in [(4, 4), (0, 0), (9, 2)] {
        let refused = ring.sampler(SamplerOptions::seeded(7).rank(rank, world_size));
        let expected = SampleError::BadRank { rank, world_size };
        assert_eq!(refused.map(|_| ()).unwrap_err().to_string(), expected.to_string());
    }
}
