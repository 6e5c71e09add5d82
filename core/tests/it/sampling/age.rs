//! Limits to the age of rows, compared with a list of the ring's rows.

use std::collections::BTreeSet;
use std::time::Duration;

use backcast_core::{
    AutoresetMode, Batch, Boundary, DType, FINAL, Form, GAP, PriorityOptions, RateLimiter, Ring,
    RingOptions, Rollout, RowIndex, SampleError, Sampler, SamplerOptions, Schema, Selector,
    Sequence, StepColumns, TableOptions, WholeEpisodes, Writer, WriterOptions,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::scene::selectors;

const LANES: u32 = 3;
/// Transitions of a sequence, and from one start to the next.
const LENGTH: u32 = 3;

pub(super) fn schema() -> Schema {
    Schema::builder()
        .column("obs", DType::U64, &[])
        .column("policy_version", DType::U32, &[])
        .build()
        .unwrap()
}

/// A ring whose lanes are written by actors that pull versions of a policy at their own pace.
pub(super) struct Scene {
    pub(super) ring: Ring,
    writers: Vec<Option<Writer>>,
    versions: Vec<u32>,
    pub(super) published: u32,
    pub(super) dice: StdRng,
}

impl Scene {
    pub(super) fn new(capacity: u64, seed: u64) -> Self {
        let options = RingOptions::with_capacity(capacity).lanes(LANES);
        let ring = Ring::heap(&schema(), options).unwrap();
        let writers = (0..LANES).map(|_| None).collect();
        let versions = vec![0; LANES as usize];
        Self { ring, writers, versions, published: 0, dice: StdRng::seed_from_u64(seed) }
    }

    pub(super) fn act(&mut self, times: usize) {
        for _ in 0..times {
            let lane = self.dice.random_range(0..self.writers.len());
            match self.dice.random_range(0..60) {
                0 => self.writers[lane] = None,
                1..4 => self.published += 1,
                4..9 => self.versions[lane] = self.published,
                // An actor plays an older policy, as in a league.
                9 => self.versions[lane] = self.dice.random_range(0..=self.published),
                n => self.append(lane, n < 18),
            }
        }
    }

    fn append(&mut self, lane: usize, ends: bool) {
        let options = WriterOptions::lanes(1).autoreset(AutoresetMode::Disabled);
        let ring = &self.ring;
        let writer = self.writers[lane].get_or_insert_with(|| ring.writer(options).unwrap());
        let (schema, obs, version) = (schema(), [7_u64], [self.versions[lane]]);
        let columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
        let columns = columns.with("policy_version", &version).unwrap();
        let columns = if ends { columns.with_final("obs", &obs).unwrap() } else { columns };
        writer.append(&columns.step(&[ends], &[false]).unwrap()).unwrap();
    }

    fn lanes(&self) -> Vec<Lane> {
        (0..LANES).map(|lane| Lane::of(&self.ring, lane)).collect()
    }

    /// Returns the version that the learner has set, else the newest one of the newest rows.
    fn newest(&self, set: Option<u32>) -> i64 {
        let newest =
            |lane: &Lane| lane.rows.iter().rfind(|row| row.flags & FINAL == 0)?.version.into();
        let known = set.or_else(|| self.lanes().iter().filter_map(newest).max());
        known.map_or(i64::MIN, i64::from)
    }
}

#[derive(Clone, Copy)]
struct Row {
    seq: u64,
    t: u32,
    flags: u32,
    version: u32,
}

/// Rows of a lane.
struct Lane {
    number: u32,
    rows: Vec<Row>,
}

impl Lane {
    fn of(ring: &Ring, number: u32) -> Self {
        let rows = ring.rows(number, ring.lane_span(number).unwrap()).unwrap();
        let seq = rows.column::<u64>("seq").unwrap().to_vec();
        let short = |name: &str| rows.column::<u32>(name).unwrap().to_vec();
        let (t, flags, version) = (short("t"), short("flags"), short("policy_version"));
        let rows = seq.into_iter().zip(t).zip(flags.into_iter().zip(version));
        let rows = rows.map(|((seq, t), (flags, version))| Row { seq, t, flags, version });
        Self { number, rows: rows.collect() }
    }

    /// Returns the lane without the rows that are too old.
    fn young(&self, limit: Limit, newest: i64) -> Self {
        let is_old =
            |row: &Row| row.flags & FINAL == 0 && newest - i64::from(row.version) > limit.versions;
        let from = self.rows.iter().rposition(is_old).map_or(0, |at| at + 1);
        let from = from.max(self.rows.len().saturating_sub(1 + limit.rows));
        Self { number: self.number, rows: self.rows[from..].to_vec() }
    }

    fn has(&self, at: usize, flag: u32) -> bool {
        self.rows.get(at).is_some_and(|row| row.flags & flag != 0)
    }

    fn is_transition(&self, at: usize) -> bool {
        at + 1 < self.rows.len() && !self.has(at, FINAL) && !self.has(at + 1, GAP)
    }

    /// Returns the transitions from `at` on that lie in its episode, and whether it has ended.
    fn run(&self, at: usize) -> (usize, bool) {
        let goes_on = |at: &usize| self.is_transition(*at);
        let first = usize::from(self.is_transition(at));
        let rest =
            (at + 1..self.rows.len()).take_while(|at| goes_on(at) && self.rows[*at].t > 0).count();
        let length = if first == 0 { 0 } else { 1 + rest };
        let end = at + length;
        (length, self.has(end, FINAL) || self.has(end + 1, GAP))
    }

    fn is_start(&self, at: usize, form: Form) -> bool {
        let (length, ended) = self.run(at);
        let t = self.rows[at].t;
        match form {
            Form::Sequence(of) => {
                length > 0 && t.is_multiple_of(of.stride) && (ended || length >= of.length as usize)
            }
            Form::Episodes(_) => {
                let after_end = at >= 2 && self.has(at - 1, FINAL);
                let begins = t == 0 && (!self.has(at, GAP) || after_end);
                begins && length > 0 && self.has(at + length, FINAL)
            }
            _ => length > 0,
        }
    }

    fn starts(&self, form: Form) -> impl Iterator<Item = i64> {
        let starts = (0..self.rows.len()).filter(move |at| self.is_start(*at, form));
        starts.map(|at| RowIndex::new(self.number, self.rows[at].seq).0)
    }
}

#[derive(Clone, Copy, Debug)]
struct Limit {
    rows: usize,
    versions: i64,
}

impl Limit {
    const NONE: Self = Self { rows: usize::MAX - 1, versions: i64::MAX };

    fn of(self, options: SamplerOptions) -> SamplerOptions {
        let Self { rows, versions } = self;
        let options = if rows < 1_000 { options.max_age(rows as u64) } else { options };
        let versions = u64::try_from(versions).unwrap();
        if versions < 1_000 { options.max_policy_age(versions) } else { options }
    }
}

pub(super) fn forms() -> [Form; 3] {
    let sequence = Sequence::new(LENGTH).stride(LENGTH);
    [Form::Transitions, Form::Sequence(sequence), Form::Episodes(WholeEpisodes::padded())]
}

/// Gives a selector with priorities a table for the items of this form alone.
fn with_table(selector: Selector, form: Form) -> Selector {
    let named = |of: PriorityOptions| of.table(&format!("by-{}", form.priority_stride()));
    match selector {
        Selector::Priority(of) => Selector::Priority(named(of)),
        Selector::MaxPriority(of) => Selector::MaxPriority(named(of)),
        Selector::MinPriority(of) => Selector::MinPriority(named(of)),
        other => other,
    }
}

pub(super) fn of_form(options: SamplerOptions, form: Form) -> SamplerOptions {
    match form {
        Form::Sequence(of) => options.sequence(of),
        Form::Episodes(of) => options.episodes(of),
        Form::Rollout(of) => options.rollout(of),
        _ => options,
    }
}

/// Checks the ages of a batch, and returns its items.
fn checked(batch: &Batch, newest: i64, limit: Limit) -> Vec<i64> {
    for (before, mask) in [("", "mask"), ("future/", "future_mask")] {
        let ages = batch.column::<i64>(&format!("{before}policy_age"));
        let Ok(ages) = ages else {
            assert_eq!(before, "future/");
            continue;
        };
        let ages: Vec<i64> = ages.iter().copied().collect();
        let versions = batch.column::<u32>(&format!("{before}policy_version")).unwrap();
        let mask = batch.column::<bool>(mask);
        let mask: Vec<bool> = match mask {
            Ok(mask) => mask.iter().copied().collect(),
            Err(_) => vec![true; ages.len()],
        };
        assert_eq!((versions.len(), mask.len()), (ages.len(), ages.len()));
        for ((version, age), there) in versions.iter().zip(ages).zip(mask) {
            let expected = if there { (newest - i64::from(*version)).max(0) } else { 0 };
            assert_eq!(age, expected, "{before} {there} {version} {newest}");
            assert!(age <= limit.versions, "{before} {age} {limit:?}");
        }
    }
    let index: Vec<i64> = batch.index().into_iter().map(i64::from).collect();
    let ages = batch.column::<i64>("age").unwrap();
    for (age, index) in ages.iter().zip(&index) {
        assert!(*index == RowIndex::NONE.0 || usize::try_from(*age).unwrap() <= limit.rows);
    }
    index.into_iter().filter(|index| *index != RowIndex::NONE.0).collect()
}

/// Every selector draws exactly the items that a ring without the older rows would have.
#[test]
fn every_form_and_selector_draws_as_if_older_rows_were_not_there() {
    let limits = [(LENGTH as usize, i64::MAX), (20, i64::MAX), (usize::MAX - 1, 0)];
    let limits = limits.into_iter().chain([(usize::MAX - 1, 2), (25, 3)]);
    let limits: Vec<Limit> = limits.map(|(rows, versions)| Limit { rows, versions }).collect();
    let (mut drawn, mut none) = (0, 0);
    for seed in 0..12 {
        let mut scene = Scene::new(150, seed);
        scene.act(60 + 60 * usize::try_from(seed).unwrap());
        // The learner has published a version, or returned to an older one.
        let set = [Some(scene.published + 1), None, Some(scene.published / 2)];
        let set = set[usize::try_from(seed % 3).unwrap()];
        let newest = scene.newest(set);
        for (limit, form) in limits.iter().flat_map(|limit| forms().map(|form| (*limit, form))) {
            let lanes = scene.lanes();
            let expected: BTreeSet<i64> = lanes
                .iter()
                .flat_map(|lane| lane.young(limit, newest).starts(form).collect::<Vec<_>>())
                .collect();
            for selector in selectors().into_iter().map(|of| with_table(of, form)) {
                let plain = of_form(SamplerOptions::seeded(seed), form).selector(selector.clone());
                let opened = scene.ring.sampler(limit.of(plain.clone()));
                let mut sampler = match (opened, scene.ring.sampler(plain)) {
                    (Ok(sampler), Ok(_)) => sampler,
                    (Err(SampleError::Form(refused)), Err(SampleError::Form(plain))) => {
                        assert_eq!(refused, plain, "{selector} {form:?}");
                        continue;
                    }
                    (limited, plain) => panic!("{limited:?} {plain:?}"),
                };
                if let Some(set) = set {
                    sampler.policy_version().unwrap().set(set.into());
                }
                let in_order =
                    matches!(selector.as_str(), "fifo" | "lifo" | "max_priority" | "min_priority");
                let size = if in_order { expected.len() } else { 60 * expected.len() };
                if expected.is_empty() {
                    let empty = sampler.sample(1).unwrap_err();
                    assert!(
                        matches!(
                            empty,
                            SampleError::TooOld { .. }
                                | SampleError::Form(_)
                                | SampleError::NoStride { .. }
                        ),
                        "{selector} {form:?}: {empty}"
                    );
                    none += 1;
                    continue;
                }
                let batch = sampler.sample(size).unwrap();
                let found: BTreeSet<i64> = checked(&batch, newest, limit).into_iter().collect();
                assert_eq!(found, expected, "{selector} {form:?} {limit:?} seed {seed}");
                assert_eq!(sampler.stats().unwrap().too_old, 0);
                drawn += 1;
            }
        }
    }
    assert!(drawn > 500 && none > 20, "{drawn} {none}");
}

fn queue(ring: &Ring, form: Form, limit: Limit) -> Sampler {
    let queue = Selector::Table(TableOptions::consume("queue"));
    let options = limit.of(of_form(SamplerOptions::seeded(1).selector(queue), form));
    let mut sampler = ring.sampler(options).unwrap();
    sampler.set_timeout(Some(Duration::ZERO));
    sampler
}

/// A learner at a tenth of the actors' speed gets nothing that is too old, and skipped and drawn
/// transitions are all that were written.
#[test]
fn a_slow_learner_skips_what_is_too_old_and_counts_it() {
    let rollout = Form::Rollout(Rollout::new(4));
    for (at, form) in forms().into_iter().chain([rollout]).enumerate() {
        for limit in [
            Limit { rows: 12, ..Limit::NONE },
            Limit { versions: 1, ..Limit::NONE },
            Limit { rows: 40, versions: 3 },
        ] {
            let mut scene = Scene::new(30_000, at as u64);
            let mut sampler = queue(&scene.ring, form, limit);
            let mut drawn = Vec::new();
            for round in 0..200 {
                scene.act(40);
                let newest = scene.newest(None);
                let new =
                    if round % 2 == 0 { sampler.sample_new(Some(3)) } else { sampler.sample(2) };
                match new {
                    Ok(batch) => drawn.extend(checked(&batch, newest, limit)),
                    Err(SampleError::TimedOut { .. } | SampleError::Form(_)) => {}
                    Err(other) => panic!("{other}"),
                }
            }
            // A rollout waits for no lane without a writer.
            scene.writers.fill_with(|| None);
            while let Ok(batch) = sampler.sample_new(None) {
                drawn.extend(checked(&batch, scene.newest(None), limit));
            }
            let too_old = sampler.stats().unwrap().too_old;
            let lanes = scene.lanes();
            let all: BTreeSet<i64> = lanes
                .iter()
                .flat_map(|lane| lane.starts(Form::Transitions).collect::<Vec<_>>())
                .collect();
            let found: BTreeSet<i64> = drawn.iter().copied().collect();
            assert!(found.is_subset(&all) && found.len() == drawn.len(), "{form:?} {limit:?}");
            assert!(!found.is_empty() && too_old > 1_000, "{form:?} {limit:?} {too_old}");
            let exact = all.len() as u64 == found.len() as u64 + too_old;
            match form {
                Form::Transitions => assert!(exact, "{limit:?}: {} {too_old}", found.len()),
                // Lanes in which everything is too old by now keep the rest.
                Form::Rollout(_) => {
                    let rest = all.len() as u64 - found.len() as u64 - too_old;
                    assert!(rest < 200, "{limit:?}: {rest}");
                }
                _ => {}
            }
        }
    }
}

/// The rate is that of a learner that draws every item once, be it young or not.
#[test]
fn a_rate_limiter_counts_the_items_that_are_skipped() {
    for form in forms() {
        let limiter = RateLimiter::min_size(1);
        let options = RingOptions::with_capacity(1_000).lanes(LANES).limiter(limiter);
        let ring = Ring::heap(&schema(), options).unwrap();
        let mut scene = Scene { ring, ..Scene::new(1_000, 0) };
        (0..70).for_each(|step| scene.append(0, step % 7 == 6));
        let mut sampler = queue(&scene.ring, form, Limit { rows: 20, ..Limit::NONE });
        let first = i64::from(sampler.sample(1).unwrap().index()[0]);
        let skipped = scene.lanes()[0].starts(form).filter(|start| *start < first).count() as u64;
        assert!(skipped > 5, "{form:?}");
        let counted = scene.ring.limiter().unwrap().counts().samples;
        assert_eq!(counted, skipped + 1, "{form:?}");
    }
}

#[test]
fn limits_that_no_item_meets_and_rings_without_versions_are_refused() {
    let scene = Scene::new(300, 1);
    let of = |options: SamplerOptions| scene.ring.sampler(options).map(drop);
    let seeded = || SamplerOptions::seeded(1);
    let reject = || seeded().history(4).future(3).boundary(Boundary::Reject);
    let consume = Selector::Table(TableOptions::consume("queue"));
    let rollouts = seeded().rollout(Rollout::new(8)).selector(consume);
    for (options, most) in [
        (seeded(), 1),
        (seeded().history(9), 1),
        (seeded().sequence(Sequence::new(5)), 5),
        (rollouts, 8),
        (reject(), 7),
    ] {
        assert!(of(options.clone().max_age(most)).is_ok());
        let refused = of(options.max_age(most - 1)).unwrap_err();
        assert!(
            matches!(refused, SampleError::BadMaxAge { asked, needed }
                if (asked, needed) == (most - 1, most)),
            "{refused}"
        );
    }
    let plain = Schema::builder().column("obs", DType::U64, &[]).build().unwrap();
    let plain = Ring::heap(&plain, RingOptions::with_capacity(50)).unwrap();
    let refused = plain.sampler(seeded().max_policy_age(3)).unwrap_err();
    assert!(matches!(refused, SampleError::NoPolicyVersion), "{refused}");
    let sampler = plain.sampler(seeded().max_age(3)).unwrap();
    assert!(matches!(sampler.policy_version(), Err(SampleError::NoPolicyVersion)));
}

/// Named rows are gathered at any age, and their ages are those of the moment.
#[test]
fn a_gather_names_rows_of_any_age() {
    let mut scene = Scene::new(300, 4);
    scene.act(300);
    let limit = Limit { rows: 9, versions: 0 };
    let mut sampler = scene.ring.sampler(limit.of(SamplerOptions::seeded(1).history(2))).unwrap();
    let lanes = scene.lanes();
    let all: Vec<i64> =
        lanes.iter().flat_map(|lane| lane.starts(Form::Transitions).collect::<Vec<_>>()).collect();
    let batch = sampler.gather(&all).unwrap();
    let found = checked(&batch, scene.newest(None), Limit::NONE);
    assert_eq!(found, all);
    let missing = [all.as_slice(), &[RowIndex::new(0, 1 << 30).0]].concat();
    let (batch, found) = sampler.gather_present(&missing).unwrap();
    let ages = batch.column::<i64>("policy_age").unwrap();
    assert_eq!((found.last(), ages.iter().last()), (Some(&false), Some(&0)));
}

/// Histories show no row that is too old: its place is masked, or the window is not drawn.
#[test]
fn histories_end_where_rows_are_too_old() {
    let mut scene = Scene::new(400, 2);
    scene.act(400);
    let newest = scene.newest(None);
    for limit in [Limit { rows: 10, ..Limit::NONE }, Limit { versions: 1, ..Limit::NONE }] {
        let options = SamplerOptions::seeded(1).history(6).future(2);
        let masked = scene.ring.sampler(limit.of(options.clone())).unwrap().sample(400).unwrap();
        checked(&masked, newest, limit);
        let ages = masked.column::<i64>("age").unwrap();
        let mask = masked.column::<bool>("mask").unwrap();
        let (mut whole, mut cut) = (0, 0);
        for (mask, age) in mask.outer_iter().zip(ages) {
            let back = mask.iter().filter(|there| **there).count() - 1;
            assert!(usize::try_from(*age).unwrap() + back <= limit.rows);
            (whole, cut) = if back == 5 { (whole + 1, cut) } else { (whole, cut + 1) };
        }
        assert!(whole > 0 && cut > 0);
        assert_eq!(masked.column::<i64>("future/policy_age").unwrap().shape(), [400, 2]);
    }
}

/// Draws by priority are in proportion to the priorities of the young rows, also where these are a
/// tiny part of all.
#[test]
fn priorities_keep_their_ratios_among_the_young_rows() {
    let ring = Ring::heap(&schema(), RingOptions::with_capacity(20_000)).unwrap();
    let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
    let (schema, obs) = (schema(), [7_u64]);
    for row in 0..15_001_u32 {
        let version = [row / 5_000];
        let columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
        let columns = columns.with("policy_version", &version).unwrap();
        writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
    }
    let by = PriorityOptions::alpha(1.0).eps(0.0).beta(1.0);
    let options = SamplerOptions::seeded(5).priority(by).max_age(4);
    let mut sampler = ring.sampler(options).unwrap();
    let young: Vec<i64> = (14_996..15_000).collect();
    sampler.sample(1).unwrap();
    sampler.update_priorities(&young, &[1.0, 2.0, 3.0, 4.0]).unwrap();
    let batch = sampler.sample(40_000).unwrap();
    let mut counts = [0.0_f64; 4];
    for index in batch.index() {
        counts[usize::try_from(index.seq() - 14_996).unwrap()] += 1.0;
    }
    for (count, share) in counts.into_iter().zip([0.1, 0.2, 0.3, 0.4]) {
        let expected = 40_000.0 * share;
        assert!((count - expected).abs() < 6.0 * expected.sqrt(), "{count} {expected}");
    }
    let weights = batch.column::<f32>("weight").unwrap();
    for (weight, index) in weights.iter().zip(batch.index()) {
        let expected = 1.0 / f32::from(u16::try_from(index.seq() - 14_995).unwrap());
        assert!((weight - expected).abs() < 1e-5, "{weight} {expected}");
    }
}
