//! Both paths of a gather, and rows that a writer overwrites between its steps.

use super::points::GatherPoints;
use super::*;
use crate::index::RowIndex;
use crate::sampler::Sampler;
use crate::sampler::batch::BatchBuffers;
use crate::sampler::plan::BatchPlan;
use crate::sampler::tests::ring_of;
use crate::{
    Boundary, DType, LanePolicy, Ring, RingOptions, SamplerOptions, Schema, StepColumns,
    WriterOptions,
};

/// Fills a batch as a sampler does, and calls `points` between the steps.
fn fill(
    sampler: &mut Sampler,
    request: BatchRequest<'_>,
    plan: &BatchPlan,
    arenas: &mut [&mut [u8]],
    points: &mut impl GatherPoints,
) -> Result<Gathered, SampleError> {
    let Sampler { stream, selection, gather, counts, .. } = sampler;
    let source = RowSource { rng: stream.rng_mut(), selection, counts };
    gather.fill(source, request, plan, arenas, points)
}

/// Fills the arenas of a batch.
type Filling<'a> = dyn FnMut(&mut [&mut [u8]]) -> Result<(), SampleError> + 'a;

/// Copies all items one by one, and counts those that would be copied together.
#[derive(Default)]
struct OneByOne {
    regular: u32,
}

impl GatherPoints for OneByOne {
    fn selected(&mut self, regular: u32) -> u32 {
        self.regular += regular.count_ones();
        0
    }
}

#[test]
fn the_scalar_path_fills_what_the_fast_path_fills() {
    let single = SamplerOptions::seeded(11);
    let windows = single.clone().history(4).future(2);
    let returns = |options: SamplerOptions| options.n_step(3).gamma(0.9);
    let options = [
        single.clone(),
        windows.clone(),
        windows.clone().boundary(Boundary::Reject),
        windows.clone().boundary(Boundary::Clamp),
        windows.clone().copy(true),
        returns(single),
        returns(windows),
    ];
    // Quick rows, slow rows, rows so long that others are prefetched between their lines, and rows
    // that are copied one by one.
    let rings =
        [(1, 1), (3, 1), (20, 1), (100, 1), (400, 1), (20, 36), (400, 36), (20, 260), (100, 2_100)];
    let mut points = OneByOne::default();
    for ((longest, numbers), options) in
        rings.into_iter().flat_map(|of| options.clone().map(|options| (of, options)))
    {
        let ring = ring_of(longest, numbers);
        let [mut fast, mut scalar] = [(); 2].map(|()| ring.sampler(options.clone()).unwrap());
        let plan = fast.plan(300).unwrap();
        let filled = |fill: &mut Filling<'_>| {
            let mut memory: Vec<_> = plan.arenas().iter().map(|a| vec![7; a.bytes()]).collect();
            let mut arenas: Vec<_> = memory.iter_mut().map(Vec::as_mut_slice).collect();
            let done = fill(&mut arenas);
            done.map(|()| memory).map_err(|error| error.to_string())
        };
        for _ in 0..5 {
            let batch = BatchRequest::Draws(fast.stream.number());
            let expected = filled(&mut |arenas| {
                scalar.selection.eligibility.refresh();
                let gathered = fill(&mut scalar, batch, &plan, arenas, &mut points)?;
                scalar.selection.finish(0, 300, gathered.attempts);
                Ok(())
            });
            let found = filled(&mut |arenas| fast.sample_into(&plan, arenas));
            assert_eq!(found, expected, "{longest}, {options:?}");
            let Ok(index) = fast.sample(300).map(|batch| batch.index()) else { continue };
            for index in
                [index.clone(), vec![RowIndex::NONE; 300], index.into_iter().rev().collect()]
            {
                let rows = BatchRequest::Rows(RowIndex::numbers(&index), MissingRows::Refuse);
                let expected = filled(&mut |arenas| {
                    scalar.selection.eligibility.refresh_ranges();
                    fill(&mut scalar, rows, &plan, arenas, &mut points).map(drop)
                });
                let found = filled(&mut |arenas| fast.gather_into(&index, &plan, arenas));
                assert_eq!(found, expected, "{longest}, {options:?}");
            }
        }
    }
    assert!(points.regular > 0, "the test proves nothing");
}

/// Overwrites rows once, at one point of a gather.
struct Overwrites<F> {
    /// Whether rows are overwritten after they were copied, and not before.
    after_the_copy: bool,
    /// Whether items are copied together.
    together: bool,
    overwrite: Option<F>,
}

impl<F: FnOnce()> GatherPoints for Overwrites<F> {
    fn selected(&mut self, regular: u32) -> u32 {
        assert!(regular > 0 || self.overwrite.is_none(), "no item is regular");
        if !self.after_the_copy {
            self.overwrite.take().into_iter().for_each(|overwrite| overwrite());
        }
        if self.together { regular } else { 0 }
    }

    fn copied(&mut self) {
        if self.after_the_copy {
            self.overwrite.take().into_iter().for_each(|overwrite| overwrite());
        }
    }
}

#[test]
fn items_whose_rows_are_overwritten_meanwhile_are_drawn_again() {
    let schema = Schema::builder().column("obs", DType::U64, &[]).build().unwrap();
    for (after_the_copy, together) in [(false, true), (true, true), (false, false), (true, false)] {
        let options = RingOptions::with_capacity(200).lane_policy(LanePolicy::Overwrite);
        let ring = Ring::heap(&schema, options).unwrap();
        let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
        let mut append = |rows: std::ops::Range<u64>| {
            for row in rows {
                let obs = [row];
                let columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
                writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
            }
        };
        let slots = ring.slots();
        append(0..slots);
        let options = SamplerOptions::seeded(5).boundary(Boundary::Mask);
        let mut sampler = ring.sampler(options).unwrap();
        let mut batch = sampler.blank(64).unwrap();
        sampler.selection.eligibility.refresh();
        let request = BatchRequest::Draws(sampler.stream.number());
        // One and a half laps: every slot holds a later row than the one that was drawn.
        let overwrite = || append(slots..2 * slots + slots / 2);
        let mut points = Overwrites { after_the_copy, together, overwrite: Some(overwrite) };
        let plan = std::sync::Arc::clone(batch.plan());
        fill(&mut sampler, request, &plan, &mut batch.buffers(), &mut points).unwrap();
        assert!(points.overwrite.is_none() && sampler.lapped() > 0);
        let rows = batch.column::<u64>("obs").unwrap().iter().copied().collect::<Vec<_>>();
        let drawn = batch.index().into_iter().map(RowIndex::seq).collect::<Vec<_>>();
        assert_eq!(rows, drawn, "{after_the_copy}, {together}");
        let readable = ring.lane_span(0).unwrap();
        assert!(drawn.iter().all(|seq| readable.contains(seq)), "{after_the_copy}, {together}");
    }
}
