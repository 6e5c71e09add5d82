//! Windows that no episode can fill, memory that does not fit, and batches that cannot be drawn
//! ahead.

use backcast_core::{
    Batch, BatchesOptions, Boundary, Ring, RingOptions, SampleError, Sampler, SamplerOptions,
};

use crate::refusals::stage::{Stage, schema};
use crate::refusals::{Refusal, Row, refusal, row};

pub(crate) const ROWS: &[Row] = &[
    row(
        "whole windows longer than every episode",
        |_| refusal(sampler(whole().history(4).future(2)).sample(8)),
        "NoWindow",
        &["history 4", "future 2", "6 transitions", "has 5", "boundary \"mask\""],
    ),
    row(
        "an index whose window is cut",
        |_| refusal(sampler(whole().history(3)).gather(&[1])),
        "BadIndex",
        &["index[0] = 1", "row 1", "boundary \"reject\""],
    ),
    row(
        "a boundary of no meaning",
        |_| refusal("drop".parse::<Boundary>()),
        "BadBoundary",
        &["`drop`", "\"mask\", \"reject\" or \"clamp\""],
    ),
    row(
        "memory of other windows",
        |s| {
            let mut other = sampler(SamplerOptions::seeded(1).history(3)).sample(8).unwrap();
            refusal(s.sampler.sample_over(&mut other))
        },
        "OtherPlan",
        &["`obs`", "f4 [8, 3, 2]", "draws f4 [8, 2]", "equal settings"],
    ),
    row(
        "memory for more indices",
        |s| {
            let mut other = s.sampler.blank(8).unwrap();
            refusal(s.sampler.gather_over(&[100], &mut other))
        },
        "WrongIndexCount",
        &["1 indices", "8 items", "give 8"],
    ),
    row(
        "slices of the wrong length",
        |s| {
            let plan = s.sampler.plan(8).unwrap();
            let mut bytes = vec![vec![0_u8; 3]; plan.arenas().len()];
            let mut arenas: Vec<&mut [u8]> = bytes.iter_mut().map(Vec::as_mut_slice).collect();
            refusal(s.sampler.sample_into(&plan, &mut arenas))
        },
        "BadArena",
        &["arena 0", "3 bytes", "64", "allocate"],
    ),
    row(
        "too many batches ahead",
        |_| ahead(|sampler| sampler.batches(8, BatchesOptions::prefetch(5_000)).map(drop)),
        "BadPrefetch",
        &["5000", "1024", "fewer"],
    ),
    row(
        "batches of nothing ahead",
        |_| ahead(|sampler| sampler.batches(0, BatchesOptions::prefetch(2)).map(drop)),
        "BadBatchSize",
        &["is 0", "from 1"],
    ),
    row(
        "no memory to be filled in turn",
        |_| {
            ahead(|sampler| {
                sampler.batches_over(8, Vec::<Batch>::new(), BatchesOptions::prefetch(2)).map(drop)
            })
        },
        "NothingToFill",
        &["all 0 batches", "`refill`"],
    ),
    row(
        "memory that was not given back",
        |_| {
            ahead(|mut sampler| {
                let memory = vec![sampler.blank(8)?];
                let mut batches = sampler.batches_over(8, memory, BatchesOptions::prefetch(0))?;
                let first = batches.next().transpose()?;
                let second = batches.next().transpose()?;
                panic!("{first:?} and {second:?} from the memory of one")
            })
        },
        "NothingToFill",
        &["all 1 batches", "`refill`"],
    ),
];

fn whole() -> SamplerOptions {
    SamplerOptions::seeded(1).boundary(Boundary::Reject)
}

/// Returns a sampler of a new ring with five complete transitions.
fn sampler(options: SamplerOptions) -> Sampler {
    let ring = Ring::heap(&schema(), RingOptions::with_capacity(20)).unwrap();
    Stage::fill(&ring, 6);
    ring.sampler(options).unwrap()
}

fn ahead(ask: fn(Sampler) -> Result<(), SampleError>) -> Option<Refusal> {
    refusal(ask(sampler(SamplerOptions::seeded(1))))
}
