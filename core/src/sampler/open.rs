//! Opens samplers of a ring.

use std::sync::Arc;

use backcast_layout::{ClaimedReader, DType, Role, SegmentError};

use super::columns::{SamplerSpec, SelectedColumns};
use super::eligibility::{Eligibility, StartIndex};
use super::episodes::EpisodeDraws;
use super::gather::Scratch;
use super::hindsight::GoalDraws;
use super::hooks::Hooks;
use super::options::{Boundary, SamplerOptions};
use super::plan::{NStep, Summed};
use super::rng::CounterRng;
use super::selection::RowSelection;
use super::window::{StrideRule, WindowExtent};
use super::{NAME_CHECKS, Sampler};
use crate::error::SampleError;
use crate::limiter::gate::DrawGate;
use crate::ring::Ring;
use crate::schema::Schema;

impl Ring {
    /// Returns a sampler of the ring's transitions. `options` are [`SamplerOptions`], those with
    /// [windows by column], or the [state] of another sampler, whose draws the new one continues.
    ///
    /// [`SamplerOptions`]: crate::SamplerOptions
    /// [windows by column]: crate::SamplerOptions::columns
    /// [state]: crate::SamplerState
    pub fn sampler(&self, options: impl Into<SamplerSpec>) -> Result<Sampler, SampleError> {
        Sampler::new(self, options.into())
    }
}

impl Sampler {
    pub(crate) fn new(ring: &Ring, spec: SamplerSpec) -> Result<Self, SampleError> {
        let selection = SelectedColumns::of(&spec, ring.schema())?;
        let episodes = EpisodeDraws::open(&spec, &selection, ring.lane_capacity())?;
        let SamplerSpec { options, columns, selector, hindsight, learned } = spec;
        let empty = selection.has_empty_window();
        let longest = selection.longest().unwrap_or(1);
        let (history, future) = (if empty { 0 } else { longest }, options.future);
        let n_step = options.n_step.unwrap_or(1);
        let after = u64::from(future).max(u64::from(n_step).saturating_sub(1));
        let rows = u64::from(history) + after + 1;
        if history == 0 || n_step == 0 || rows > ring.lane_capacity() {
            let limit = ring.lane_capacity();
            return Err(SampleError::BadWindow { history, future, n_step, rows, limit });
        }
        let SamplerOptions { gamma, discounts, n_step, boundary, stride, .. } = options;
        let usable = gamma.is_none_or(|gamma| (0.0..=1.0).contains(&gamma));
        let given = u32::from(gamma.is_some()) + u32::from(discounts);
        if given != u32::from(n_step.is_some()) || !usable {
            return Err(SampleError::BadGamma { gamma, discounts, n_step });
        }
        let steps = n_step.unwrap_or(0).into();
        let extent = WindowExtent { back: u64::from(history) - 1, ahead: future.into(), steps };
        let n_step = n_step.map(|_| summed(ring.schema(), discounts, extent)).transpose()?;
        if stride == 0 {
            return Err(SampleError::BadStride);
        }
        let (rank, world_size) = options.rank;
        if rank >= world_size {
            return Err(SampleError::BadRank { rank, world_size });
        }
        let rule = StrideRule::new(stride, extent.back);
        let starts = match boundary {
            Boundary::Reject => StartIndex::new(extent.back, extent.ahead),
            Boundary::Clamp => StartIndex::of_known_history(extent.back),
            Boundary::Mask => StartIndex::new(0, 0),
        };
        let starts = starts.only(rule);
        let goals = hindsight.map(|of| {
            let columns = of.check(ring.schema(), &selection, options.n_step)?;
            Ok::<_, SampleError>(Box::new(GoalDraws::new(of, columns)))
        });
        let goals = goals.transpose()?;
        let windows = boundary != Boundary::Mask || !rule.is_all();
        let chosen = RowSelection::open(ring, selector, &selection, windows)?.map(Box::new);
        let learned = learned.map(|of| {
            let values = ring.learned(&of)?;
            Ok::<_, SampleError>((of, values))
        });
        let learned = learned.transpose()?;
        let slot = match ring.store().claim_reader() {
            // A sampler without a slot draws as well, and is not listed among the readers.
            Err(SegmentError::Unlinked { .. }) => None,
            slot => slot?,
        };
        let number = slot.as_ref().map(ClaimedReader::slot);
        Ok(Self {
            timeout: None,
            chosen,
            episodes,
            hindsight: goals,
            hooks: Hooks::default(),
            learned,
            gate: DrawGate::of(ring.store(), number)?,
            slot,
            rng: CounterRng::seeded(options.seed),
            eligibility: Eligibility::new(ring, starts),
            ring: ring.clone(),
            options,
            columns,
            selection,
            extent,
            rule,
            n_step,
            batches: options.batches,
            last: None,
            scratch: Vec::new(),
            sums: Scratch::default(),
            plan: None,
            counters: Arc::default(),
            notices: 0,
            name_check: NAME_CHECKS,
        })
    }
}

/// Returns the columns that n-step returns sum. Fails if there is no such column.
fn summed(schema: &Schema, discounts: bool, extent: WindowExtent) -> Result<NStep, SampleError> {
    let reward =
        float_column(schema, "reward").map_err(|found| SampleError::BadReward { found })?;
    let discount = discounts
        .then(|| float_column(schema, "discount"))
        .transpose()
        .map_err(|found| SampleError::BadDiscount { found })?;
    Ok(NStep { reward, discount, run: extent.run() })
}

/// Returns the step column of this name if it is one float a row, or a description of the column
/// found instead.
fn float_column(schema: &Schema, name: &str) -> Result<Summed, String> {
    let place = schema.stored().iter().position(|column| column.name() == name);
    let Some((at, column)) = place.and_then(|at| Some((at, schema.stored().get(at)?))) else {
        return Err(format!("there is none among {schema}"));
    };
    let (dtype, shape) = (column.dtype(), column.shape());
    let real = matches!(dtype, DType::F32 | DType::F64);
    if real && shape.is_empty() && column.role() == Role::Step {
        return Ok(Summed { column: at, dtype });
    }
    let of = if column.role() == Role::Obs { " of the observation" } else { "" };
    Err(format!("here it is {dtype}{shape:?}{of}"))
}
