//! Rows that are young enough as the newest version rises and falls, and what a limit to the age
//! means for the size of batches and for goals in hindsight.

use std::collections::BTreeSet;
use std::mem::discriminant;
use std::time::Duration;

use backcast_core::{
    AutoresetMode, Batch, BatchesOptions, Boundary, ClaimUnit, DType, FormError, GoalStrategy,
    Hindsight, Ring, RingOptions, Rollout, RowIndex, SampleError, Sampler, SamplerOptions, Schema,
    Selector, Sequence, StepColumns, TableOptions, WholeEpisodes, Writer, WriterOptions,
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
    let SampleError::TimedOut { reason, .. } = &late else { panic!("{late}") };
    assert!(reason.contains("max_age"), "{reason}");
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

/// A batch that can never be young enough is refused before a row is claimed for it.
#[test]
fn batches_that_cannot_be_young_at_a_time_are_refused() {
    let ring = ring(2);
    let mut actors = [writer(&ring), writer(&ring)];
    let mut act = |rows| actors.iter_mut().for_each(|of| append(of, 1, rows, false));
    act(20);
    let seeded = || SamplerOptions::seeded(1);
    let refused = |sampler: &mut Sampler, asked: usize| match sampler.sample(asked).unwrap_err() {
        SampleError::BeyondMaxAge { unit, wanted, most, max_age } if wanted == asked as u64 => {
            (unit, most, max_age)
        }
        other => panic!("{other}"),
    };
    let mut rows = at_once(&ring, queue(seeded().max_age(5)));
    assert_eq!(refused(&mut rows, 11), (ClaimUnit::Transitions, 10, 5));
    assert_eq!((rows.stats().unwrap().too_old, rows.sample(10).unwrap().len()), (0, 10));

    let twice = Selector::Table(TableOptions::consume("twice").max_times_sampled(2));
    let mut twice = at_once(&ring, seeded().max_age(5).selector(twice));
    assert_eq!(refused(&mut twice, 21), (ClaimUnit::Transitions, 20, 5));
    assert_eq!(twice.sample(20).unwrap().len(), 20);

    let blocks = Selector::Table(TableOptions::consume("blocks"));
    let blocks = seeded().rollout(Rollout::new(4)).max_age(9).selector(blocks);
    let mut blocks = at_once(&ring, blocks);
    assert_eq!(refused(&mut blocks, 5), (ClaimUnit::Columns, 4, 9));
    assert_eq!(blocks.sample(4).unwrap().index().len(), 16);

    // The ring cannot hold as many as may be young.
    let large = Selector::Table(TableOptions::consume("large"));
    let large = at_once(&ring, seeded().max_age(1_000).selector(large)).sample(199).unwrap_err();
    assert!(matches!(large, SampleError::BeyondTable { wanted: 199, most: 198, .. }), "{large}");
}

/// Where windows decide how many items are young, the time-out tells of the limit.
#[test]
fn a_time_out_says_how_many_rows_were_too_old() {
    let ring = ring(2);
    let mut actors = [writer(&ring), writer(&ring)];
    for actor in &mut actors {
        append(actor, 1, 20, false);
        append(actor, 2, 4, false);
    }
    let whole = SamplerOptions::seeded(1).history(3).boundary(Boundary::Reject).max_age(5);
    let windows = queue(whole);
    let blocks = Selector::Table(TableOptions::consume("blocks"));
    let blocks = SamplerOptions::seeded(1).rollout(Rollout::new(4)).selector(blocks);
    for (options, size) in [(windows, 10), (blocks.max_policy_age(0), 1)] {
        let late = at_once(&ring, options).sample(size).unwrap_err();
        let SampleError::TimedOut { reason, .. } = &late else { panic!("{late}") };
        assert!(reason.contains("max_age"), "{late}");
    }
    let plain = Selector::Table(TableOptions::consume("plain"));
    let late = at_once(&ring, SamplerOptions::seeded(1).selector(plain)).sample(60).unwrap_err();
    assert!(!late.to_string().contains("max_age"), "{late}");
}

/// New goals come from rows that may be drawn.
#[test]
fn goals_come_from_rows_that_are_young_enough() {
    let schema = Schema::builder()
        .column("obs/achieved", DType::F64, &[])
        .column("obs/desired", DType::F64, &[])
        .column("reward", DType::F64, &[])
        .build()
        .unwrap();
    let ring = Ring::heap(&schema, RingOptions::with_capacity(100)).unwrap();
    let mut actor = writer(&ring);
    for row in 0..60_u32 {
        let (achieved, none) = ([f64::from(row)], [-1.0_f64]);
        let columns = StepColumns::of(&schema).with("obs/achieved", &achieved).unwrap();
        let columns = columns.with("obs/desired", &none).unwrap().with("reward", &none).unwrap();
        actor.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
    }
    let goals = Hindsight::new(GoalStrategy::Episode).ratio(1.0);
    let goals = goals.columns("obs/achieved", "obs/desired");
    for (limit, first) in [(None, 1), (Some(10), 50)] {
        let options = SamplerOptions::seeded(2).hindsight(goals.clone());
        let options = limit.map_or(options.clone(), |rows| options.max_age(rows));
        let mut sampler = ring.sampler(options).unwrap().rewards(|_, rewards| rewards.fill(0.0));
        let batch = sampler.sample(2_000).unwrap();
        let found: BTreeSet<u32> = batch
            .column::<f64>("obs/desired")
            .unwrap()
            .iter()
            .map(|goal| (0..60).find(|row| f64::from(*row).to_bits() == goal.to_bits()).unwrap())
            .collect();
        // A transition achieves the goal of the row after its own.
        assert!(found.iter().copied().eq(first..60), "{limit:?} {found:?}");
    }
}

/// A state has the version that the learner has set, also in the middle of batches drawn ahead.
#[test]
fn a_state_keeps_the_version_that_the_learner_has_set() {
    let ring = ring(1);
    let mut actor = writer(&ring);
    (0..6).for_each(|version| append(&mut actor, version, 10, false));
    let options = SamplerOptions::seeded(2).max_policy_age(3);
    let mut sampler = ring.sampler(options.clone()).unwrap();
    sampler.policy_version().unwrap().set(8);
    let mut restored = ring.sampler(sampler.state()).unwrap();
    let batch = restored.sample(64).unwrap();
    assert_eq!(batch.index(), sampler.sample(64).unwrap().index());
    assert!(batch.column::<i64>("policy_age").unwrap().iter().all(|age| *age <= 3));
    let ahead = ring.sampler(options).unwrap();
    let version = ahead.policy_version().unwrap();
    let ahead = ahead.batches(4, BatchesOptions::prefetch(2)).unwrap();
    assert_eq!(ahead.state().policy_version, None);
    version.set(7);
    assert_eq!(ahead.state().policy_version, Some(7));
}

/// The age is not to blame where no episode has ended.
#[test]
fn episodes_without_an_end_are_not_said_to_be_too_old() {
    let ring = ring(1);
    let mut actor = writer(&ring);
    append(&mut actor, 1, 60, false);
    let options = SamplerOptions::seeded(2).episodes(WholeEpisodes::padded()).max_age(50);
    let mut sampler = at_once(&ring, options.clone());
    let refused = sampler.sample(1).unwrap_err();
    assert!(matches!(refused, SampleError::Form(FormError::NoneComplete { .. })), "{refused}");
    // Here one has ended, and is too old.
    append(&mut actor, 1, 1, true);
    assert!(sampler.sample(1).is_err());
    append(&mut actor, 1, 20, false);
    let refused = at_once(&ring, options.max_age(30)).sample(1).unwrap_err();
    assert!(matches!(refused, SampleError::TooOld { .. }), "{refused}");
}
