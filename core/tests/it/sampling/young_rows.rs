//! Rows that are young enough as the newest version rises and falls, and what a limit to the age
//! means for the size of batches and for goals in hindsight.

use std::collections::BTreeSet;
use std::mem::discriminant;
use std::time::Duration;

use backcast_core::{
    AutoresetMode, Batch, Boundary, Ring, RingOptions, Rollout, RowIndex, SampleError, Sampler,
    SamplerOptions, Selector, Sequence, StepColumns, TableOptions, WholeEpisodes, Writer,
    WriterOptions,
};
use rand::RngExt;

use super::age::{Scene, forms, of_form, schema};

fn ring(lanes: u32) -> Ring {
    Ring::heap(&schema(), RingOptions::with_capacity(100 * u64::from(lanes)).lanes(lanes)).unwrap()
}

fn writer(ring: &Ring) -> Writer {
    ring.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::Disabled)).unwrap()
}

/// Appends an episode of one version, which ends if it should.
fn append(writer: &mut Writer, version: u32, rows: u32, ends: bool) {
    let (schema, obs) = (schema(), [7_u64]);
    for row in 1..=rows {
        let ends = ends && row == rows;
        let columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
        let version = [version];
        let columns = columns.with("policy_version", &version).unwrap();
        let columns = if ends { columns.with_final("obs", &obs).unwrap() } else { columns };
        writer.append(&columns.step(&[ends], &[false]).unwrap()).unwrap();
    }
}

fn queue(options: SamplerOptions) -> SamplerOptions {
    options.selector(Selector::Table(TableOptions::consume("queue")))
}

fn at_once(ring: &Ring, options: SamplerOptions) -> Sampler {
    let mut sampler = ring.sampler(options).unwrap();
    sampler.set_timeout(Some(Duration::ZERO));
    sampler
}

fn rows(batch: &Batch) -> BTreeSet<RowIndex> {
    batch.index().into_iter().filter(|row| *row != RowIndex::NONE).collect()
}

/// A version that was set by mistake, and taken back, changes no later draw.
#[test]
fn rows_are_young_again_when_the_newest_version_falls() {
    let ring = ring(1);
    let mut actor = writer(&ring);
    (0..5).for_each(|version| append(&mut actor, version, 4, true));
    append(&mut actor, 4, 1, false);
    let seeded = || SamplerOptions::seeded(3).max_policy_age(2);
    let forms = [
        seeded(),
        seeded().history(2).boundary(Boundary::Reject),
        seeded().sequence(Sequence::new(2)),
        seeded().episodes(WholeEpisodes::padded()),
    ];
    for options in forms {
        let draw = |sampler: &mut Sampler| {
            sampler.policy_version().unwrap().set(4);
            let batch = sampler.sample(200).unwrap();
            let versions: BTreeSet<u32> =
                batch.column("policy_version").unwrap().iter().copied().collect();
            (rows(&batch), versions)
        };
        let mut sampler = ring.sampler(options.clone()).unwrap();
        let before = draw(&mut sampler);
        sampler.policy_version().unwrap().set(1_000);
        let refused = sampler.sample(1).unwrap_err();
        assert!(matches!(refused, SampleError::TooOld { .. }), "{refused}");
        assert_eq!(draw(&mut sampler), before);
        let fresh = draw(&mut ring.sampler(options).unwrap());
        assert_eq!(fresh, before);
        assert_eq!(fresh.1, BTreeSet::from([2, 3, 4]));
    }
    let mut rollouts = at_once(&ring, queue(seeded().rollout(Rollout::new(4))));
    rollouts.policy_version().unwrap().set(1_000);
    let late = rollouts.sample_new(None).unwrap_err();
    assert!(matches!(late, SampleError::TimedOut { .. }), "{late}");
    rollouts.policy_version().unwrap().set(4);
    assert_eq!(rows(&rollouts.sample_new(None).unwrap()).len(), 12);
}

/// The rows and the versions of the moment decide alone: a sampler that has seen others draws what
/// a new one with its state does.
#[test]
fn a_sampler_draws_what_another_one_of_its_state_does() {
    let (mut drawn, mut falls) = (0, 0);
    for seed in 0..8 {
        let mut scene = Scene::new(200, seed);
        let mut samplers: Vec<Sampler> = forms()
            .into_iter()
            .flat_map(|form| [0, 2].map(|most| (form, most)))
            .map(|(form, most)| of_form(SamplerOptions::seeded(seed).max_policy_age(most), form))
            .map(|options| scene.ring.sampler(options).unwrap())
            .collect();
        let mut set = None;
        for _ in 0..25 {
            scene.act(40);
            if seed % 2 == 0 && scene.dice.random_bool(0.5) {
                let version = scene.dice.random_range(0..=scene.published + 2);
                falls += u32::from(set.is_some_and(|before| version < before));
                set = Some(version);
            }
            for sampler in &mut samplers {
                let state = SamplerOptions::from(sampler.state());
                let mut other = scene.ring.sampler(state).unwrap();
                if let Some(version) = set {
                    for sampler in [&*sampler, &other] {
                        sampler.policy_version().unwrap().set(version.into());
                    }
                }
                match (sampler.sample(20), other.sample(20)) {
                    (Ok(batch), Ok(other)) => {
                        assert_eq!(batch.index(), other.index(), "seed {seed}");
                        drawn += 1;
                    }
                    (Err(refused), Err(other)) => {
                        assert_eq!(discriminant(&refused), discriminant(&other), "{refused}");
                    }
                    (one, other) => panic!("seed {seed}: {one:?} {other:?}"),
                }
            }
        }
    }
    assert!(drawn > 400 && falls > 10, "{drawn} {falls}");
}

/// A run that goes on from an older checkpoint draws what its actors write, though a lane without a
/// writer still ends with a larger version.
#[test]
fn the_version_that_the_learner_has_set_counts_alone() {
    let ring = ring(2);
    let (mut before, mut live) = (writer(&ring), writer(&ring));
    append(&mut before, 1_000, 20, false);
    drop(before);
    append(&mut live, 500, 20, false);
    let lanes = |batch: &Batch| rows(batch).into_iter().map(RowIndex::lane).collect::<Vec<_>>();
    let mut sampler = ring.sampler(SamplerOptions::seeded(1).max_policy_age(5)).unwrap();
    assert!(lanes(&sampler.sample(100).unwrap()).iter().all(|lane| *lane == 0));
    let mut consumer = at_once(&ring, queue(SamplerOptions::seeded(1).max_policy_age(5)));
    for sampler in [&sampler, &consumer] {
        sampler.policy_version().unwrap().set(500);
    }
    let batch = sampler.sample(400).unwrap();
    let found = lanes(&batch);
    assert_eq!([0, 1].map(|lane| found.iter().filter(|of| **of == lane).count()), [19, 19]);
    assert!(batch.column::<i64>("policy_age").unwrap().iter().all(|age| *age == 0));
    assert_eq!(consumer.sample_new(None).unwrap().len(), 38);
    assert_eq!(consumer.stats().unwrap().too_old, 0);
}
