//! Core sampler that the threads of a process share: draws, loans to an iterator, `out=`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use backcast_core::{
    BatchPlan, Block, MAX_BATCH, PolicyVersion, Ring, SampleError, Sampler as CoreSampler,
    SamplerOptions, SamplerState, SamplerTotals,
};
use numpy::PyArray1;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyAny, PyDict, PyType};

use crate::argument::{Argument, count_in, required};
use crate::array::convert;
use crate::array::view::LentArrays;
use crate::error::{ErrorClass, Failure, bad_argument};
use crate::handle::{Closing, Handle};
use crate::replay::sampler::batch::to_python;
use crate::replay::sampler::batches::Prefetcher;
use crate::replay::sampler::hooks::BatchFunctions;
use crate::replay::sampler::out::{FOUND, Out, lend_all};
use crate::warning::warn_unlinked;

/// Advice in errors about a closed sampler.
const REOPEN: &str = "call `sampler` again for another";

/// Place of a core sampler.
pub(super) enum SamplerPlace {
    Here(Box<CoreSampler>),
    /// The sampler is lent to the iterator that draws ahead.
    Prefetcher(Weak<Handle<Prefetcher>>),
}

fn block_class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static BLOCK: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    BLOCK.import(py, "backcast._shards", "Block")
}

/// Core sampler behind a handle, for `Sampler` and for the buffer's own draws.
pub(crate) struct SharedSampler {
    pub(super) place: Handle<SamplerPlace>,
    /// Totals, to be read without waiting for a draw.
    totals: Handle<SamplerTotals>,
    /// Number of the batch being drawn. Read while another thread holds the sampler.
    under_way: AtomicU64,
    pub(super) seed: u64,
    /// Whether a draw has begun, which makes the process a learner to a rate limiter.
    has_drawn: AtomicBool,
    /// Functions that every batch passes through.
    pub(super) hooks: BatchFunctions,
    /// Version of the policy that the learner knows, if the ring has a column of versions.
    pub(super) policy_version: Option<PolicyVersion>,
}

impl SharedSampler {
    /// Makes a sampler of `ring`. Its waits end when it is closed.
    pub(crate) fn new(
        ring: &Ring,
        label: String,
        spec: SamplerOptions,
        hooks: BatchFunctions,
    ) -> Result<Self, Failure> {
        Self::open(ring, label, hooks, |ring| ring.sampler(spec))
    }

    /// Makes a sampler that is alive to a rate limiter only from its first draw on.
    pub(crate) fn idle(ring: &Ring, label: String, spec: SamplerOptions) -> Result<Self, Failure> {
        Self::open(ring, label, BatchFunctions::default(), |ring| ring.idle_sampler(spec))
    }

    fn open(
        ring: &Ring,
        label: String,
        hooks: BatchFunctions,
        open: impl FnOnce(&Ring) -> Result<CoreSampler, SampleError>,
    ) -> Result<Self, Failure> {
        let closing = Closing::of(label);
        let interrupt = closing.interrupt_on(ring);
        // Rewards of relabelled goals are computed by a function of Python.
        let sampler = open(&ring.clone().interrupted_by(interrupt))?.rewards_by_caller();
        let (seed, policy_version) = (sampler.seed(), sampler.policy_version().ok());
        let totals = sampler.totals();
        Ok(Self {
            hooks,
            has_drawn: AtomicBool::new(false),
            under_way: AtomicU64::new(sampler.next_batch()),
            totals: Handle::closed_by(closing.clone(), REOPEN, totals),
            place: Handle::closed_by(closing, REOPEN, SamplerPlace::Here(Box::new(sampler))),
            seed,
            policy_version,
        })
    }

    pub(crate) fn label(&self) -> &str {
        self.place.label()
    }

    /// Returns whether a draw has begun.
    pub(crate) fn has_drawn(&self) -> bool {
        self.has_drawn.load(Ordering::Relaxed)
    }

    /// Runs `work` on the sampler, exclusively. Call it detached.
    pub(super) fn with<R>(
        &self,
        work: impl FnOnce(&mut CoreSampler) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        self.place.with(|place| match place {
            SamplerPlace::Here(sampler) => {
                self.under_way.store(sampler.next_batch(), Ordering::Relaxed);
                let done = work(sampler);
                self.under_way.store(sampler.next_batch(), Ordering::Relaxed);
                done
            }
            SamplerPlace::Prefetcher(_) => Err(self.lent()),
        })
    }

    /// Returns the totals. Waits for no draw.
    pub(super) fn totals(&self) -> Result<SamplerTotals, Failure> {
        self.totals.with(|totals| Ok(totals.clone()))
    }

    /// Returns the number of the next batch, or that of the one that another thread draws now.
    /// Waits for no draw.
    pub(super) fn next_batch(&self) -> Result<u64, Failure> {
        let number_of = |place: &mut SamplerPlace| {
            Ok(match place {
                SamplerPlace::Here(sampler) => Ok(sampler.next_batch()),
                SamplerPlace::Prefetcher(iterator) => Err(iterator.upgrade()),
            })
        };
        let under_way = || Some(Ok(self.under_way.load(Ordering::Relaxed)));
        match self.place.with_or(number_of, under_way)? {
            Ok(number) => Ok(number),
            Err(Some(iterator)) => iterator.with_or(
                |iterator| Ok(iterator.next_unused()),
                || Some(self.under_way.load(Ordering::Relaxed)),
            ),
            Err(None) => Err(self.lent()),
        }
    }

    /// Sets the number of the batch that the iterator returns next.
    pub(crate) fn set_under_way(&self, batch: u64) {
        self.under_way.store(batch, Ordering::Relaxed);
    }

    fn lent(&self) -> Failure {
        Failure::new(
            ErrorClass::Sample,
            format!(
                "{} draws ahead for an iterator; close that first, or make another sampler",
                self.label()
            ),
        )
    }

    pub(crate) fn sample<'py>(
        &self,
        py: Python<'py>,
        batch_size: Argument<i128>,
        out: Option<&Bound<'py, PyAny>>,
        timeout: Option<Duration>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        self.sample_size(py, BatchSize::Items(batch_size_of(batch_size)?), out, timeout)
    }

    /// Draws a batch of a number of items, or of all that is new.
    pub(super) fn sample_size<'py>(
        &self,
        py: Python<'py>,
        size: BatchSize,
        out: Option<&Bound<'py, PyAny>>,
        timeout: Option<Duration>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        let begin = |sampler: &mut CoreSampler| {
            self.has_drawn.store(true, Ordering::Relaxed);
            sampler.set_timeout(timeout);
        };
        let mut number = None;
        let drawn = if let Some(out) = out {
            let BatchSize::Items(batch) = size else {
                let message = "out is filled with a number of items, and batch_size is None; give \
                               batch_size, or leave out out";
                return Err(Failure::new(ErrorClass::Sample, message));
            };
            let filled = self.fill(
                py,
                out,
                |sampler| Ok(sampler.plan(batch)?),
                |sampler, plan, arenas| {
                    begin(sampler);
                    let next = sampler.next_batch();
                    sampler.sample_into(plan, arenas)?;
                    number = Some(next);
                    Ok(())
                },
            );
            filled.map(|(batch, ())| batch)
        } else {
            let drawn = self.drawn(py, |sampler| {
                begin(sampler);
                let next = sampler.next_batch();
                let drawn = match size {
                    BatchSize::Items(batch) => sampler.sample(batch)?,
                    BatchSize::New(at_most) => sampler.sample_new(at_most)?,
                };
                number = Some(next);
                Ok(drawn)
            });
            drawn.and_then(|drawn| Ok(to_python(py, drawn)?))
        };
        let done = drawn.and_then(|drawn| self.hooks.apply(drawn, true));
        if let (Err(_), Some(number)) = (&done, number) {
            py.detach(|| self.take_back_batch(number));
        }
        done
    }

    /// Draws a block of a number of items.
    pub(super) fn block<'py>(
        &self,
        py: Python<'py>,
        batch: usize,
        timeout: Option<Duration>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        let (number, block) = self.drawn(py, |sampler| {
            sampler.set_timeout(timeout);
            let number = sampler.next_batch();
            Ok((number, sampler.block(batch)?))
        })?;
        let Block { batch, count, mass, q, q_min, q_new, inserts, .. } = block;
        let drawn = to_python(py, batch).map_err(Failure::from);
        let made = drawn.and_then(|drawn| self.hooks.apply(drawn, true)).and_then(|drawn| {
            let q = PyArray1::from_vec(py, q);
            Ok(block_class(py)?.call1((drawn, count, mass, q, q_min, q_new, inserts))?)
        });
        if made.is_err() {
            py.detach(|| self.take_back_batch(number));
        }
        made
    }

    /// Takes back a batch that the caller did not get. Does nothing if the sampler was closed, lent
    /// or used for another draw meanwhile.
    fn take_back_batch(&self, number: u64) {
        let _ = self.place.with_uninterrupted(|place| {
            if let SamplerPlace::Here(sampler) = place {
                sampler.take_back(number);
                self.set_under_way(sampler.next_batch());
            }
            Ok(())
        });
    }

    /// Draws with the interpreter released, and warns if the ring was found to have lost its name.
    fn drawn<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut CoreSampler) -> Result<R, Failure> + Send,
    ) -> Result<R, Failure> {
        let (drawn, unlinked) = py.detach(|| {
            self.with(|sampler| {
                let drawn = work(sampler)?;
                let ring = sampler.ring();
                Ok((drawn, ring.take_unlinked().then(|| ring.clone())))
            })
        })?;
        if let Some(ring) = unlinked {
            warn_unlinked(py, &ring)?;
        }
        Ok(drawn)
    }

    pub(crate) fn gather<'py>(
        &self,
        py: Python<'py>,
        index: Option<&Bound<'py, PyAny>>,
        out: Option<&Bound<'py, PyAny>>,
        missing: Argument<String>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        const CHOICE: &str = "\"error\" or \"mask\"";
        let missing = missing.get("missing", CHOICE)?;
        let index = required(index, "index", "what a batch has as its index, or append returned")?;
        let index = convert::row_indices(index)?;
        let gathered = match missing.as_str() {
            "error" => self.gather_all(py, &index, out)?,
            "mask" => self.gather_present(py, &index, out)?,
            _ => return Err(bad_argument(format!("missing is '{missing}'; give {CHOICE}"))),
        };
        self.hooks.apply(gathered, false)
    }

    fn gather_all<'py>(
        &self,
        py: Python<'py>,
        index: &[i64],
        out: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyDict>, Failure> {
        let Some(out) = out else {
            let drawn = self.drawn(py, |sampler| Ok(sampler.gather(index)?))?;
            return Ok(to_python(py, drawn)?);
        };
        let (batch, ()) = self.fill(
            py,
            out,
            |sampler| Ok(sampler.plan_of(index)?),
            |sampler, plan, arenas| Ok(sampler.gather_into(index, plan, arenas)?),
        )?;
        Ok(batch)
    }

    /// Gathers the transitions that the ring holds, and adds the entry `found` to the batch.
    fn gather_present<'py>(
        &self,
        py: Python<'py>,
        index: &[i64],
        out: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyDict>, Failure> {
        let (batch, found) = if let Some(out) = out {
            self.fill(
                py,
                out,
                |sampler| Ok(sampler.plan_of(index)?),
                |sampler, plan, arenas| Ok(sampler.gather_present_into(index, plan, arenas)?),
            )?
        } else {
            let (drawn, found) = self.drawn(py, |sampler| Ok(sampler.gather_present(index)?))?;
            (to_python(py, drawn)?, found)
        };
        batch.set_item(intern!(py, FOUND), PyArray1::from_vec(py, found))?;
        Ok(batch)
    }

    fn fill<'py, R: Send, F>(
        &self,
        py: Python<'py>,
        out: &Bound<'py, PyAny>,
        plan: impl Fn(&mut CoreSampler) -> Result<Arc<BatchPlan>, Failure> + Sync,
        read: F,
    ) -> Result<(Bound<'py, PyDict>, R), Failure>
    where
        F: FnOnce(&mut CoreSampler, &BatchPlan, &mut [&mut [u8]]) -> Result<R, Failure> + Send,
    {
        // A plan is found quickly, so the interpreter is kept unless the sampler is in use.
        let at_once = self.place.try_with(|place| match place {
            SamplerPlace::Here(sampler) => Some(plan(sampler)),
            SamplerPlace::Prefetcher(_) => None,
        });
        let plan = match at_once.flatten() {
            Some(plan) => plan?,
            None => py.detach(|| self.with(&plan))?,
        };
        let mut out = Out::of(out, &plan)?;
        let read = {
            let mut arenas = out.buffers();
            self.drawn(py, |sampler| read(sampler, &plan, &mut arenas))?
        };
        Ok((out.finish()?, read))
    }

    /// Allocates batches that are to be filled in turn.
    pub(crate) fn blanks<'py>(
        &self,
        py: Python<'py>,
        batch: usize,
        count: usize,
    ) -> Result<Vec<Bound<'py, PyDict>>, Failure> {
        let blanks = py.detach(|| {
            self.with(|sampler| {
                Ok((0..count).map(|_| sampler.blank(batch)).collect::<Result<Vec<_>, _>>()?)
            })
        })?;
        Ok(blanks.into_iter().map(|blank| to_python(py, blank)).collect::<PyResult<_>>()?)
    }

    /// Claims dicts of the caller's arrays for an iterator that fills them.
    pub(crate) fn lend_arrays(
        &self,
        py: Python<'_>,
        batch: usize,
        memory: &[Bound<'_, PyDict>],
    ) -> Result<Vec<LentArrays>, Failure> {
        let plan = py.detach(|| self.with(|sampler| Ok(sampler.plan(batch)?)))?;
        let numbered = memory.iter().enumerate().map(|(number, dict)| {
            let mut lent = lend_all(dict, &plan)?;
            lent.number = number;
            Ok(lent)
        });
        numbered.collect()
    }

    /// Lends the sampler to the iterator that `make` returns. Keeps the sampler if `make` returns
    /// it with an error.
    pub(crate) fn lend(
        &self,
        make: impl FnOnce(CoreSampler) -> Result<Prefetcher, (Box<CoreSampler>, SampleError)>,
    ) -> Result<Arc<Handle<Prefetcher>>, Failure> {
        self.place.with(|place| {
            if let SamplerPlace::Prefetcher(_) = place {
                return Err(self.lent());
            }
            let SamplerPlace::Here(sampler) =
                std::mem::replace(place, SamplerPlace::Prefetcher(Weak::new()))
            else {
                return Err(self.lent());
            };
            let prefetcher = match make(*sampler) {
                Ok(prefetcher) => prefetcher,
                Err((sampler, error)) => {
                    *place = SamplerPlace::Here(sampler);
                    return Err(error.into());
                }
            };
            let label = format!("the iterator of {}", self.label());
            let ahead =
                Arc::new(Handle::new(label, "call `batches` again for another", prefetcher));
            *place = SamplerPlace::Prefetcher(Arc::downgrade(&ahead));
            Ok(ahead)
        })
    }

    /// Takes the sampler back from its iterator. Drops it if [`close`](Self::close) was called.
    pub(crate) fn take_back(&self, sampler: CoreSampler) {
        let _ = self.place.with_uninterrupted(|place| {
            self.set_under_way(sampler.next_batch());
            *place = SamplerPlace::Here(Box::new(sampler));
            Ok(())
        });
    }

    /// Returns the state of the sampler, or of the iterator that has it. Waits for a draw.
    pub(super) fn state(&self) -> Result<SamplerState, Failure> {
        let place = self.place.with(|place| {
            Ok(match place {
                SamplerPlace::Here(sampler) => Ok(sampler.state()),
                SamplerPlace::Prefetcher(iterator) => Err(iterator.upgrade()),
            })
        })?;
        match place {
            Ok(state) => Ok(state),
            Err(Some(iterator)) => iterator.with(|iterator| Ok(iterator.state())),
            Err(None) => Err(self.lent()),
        }
    }

    /// Releases the ring, and ends the iterator that draws ahead, if there is one.
    pub(crate) fn close(&self, py: Python<'_>) -> Result<(), Failure> {
        let ahead = py.detach(|| {
            Ok::<_, Failure>(match self.place.take()? {
                // No signal ends this wait: a second close would find the sampler closed, not its
                // iterator.
                Some(SamplerPlace::Prefetcher(iterator)) => {
                    iterator.upgrade().and_then(|it| it.take_uninterrupted())
                }
                Some(SamplerPlace::Here(_)) | None => None,
            })
        })?;
        if let Some(ahead) = ahead {
            drop(ahead.stop(py));
        }
        py.detach(|| self.totals.close())
    }
}

/// Size of a batch.
#[derive(Clone, Copy)]
pub(super) enum BatchSize {
    Items(usize),
    /// All that is new, up to a number of items.
    New(Option<usize>),
}

impl BatchSize {
    /// Reads `batch_size` and `at_most`.
    pub(super) fn of(
        batch_size: Option<Argument<i128>>,
        at_most: Option<Argument<i128>>,
    ) -> Result<Self, Failure> {
        let most = u32::try_from(MAX_BATCH).unwrap_or(u32::MAX);
        let at_most = at_most
            .map(|at_most| count_in(at_most, "at_most", 1..=most, ErrorClass::Sample))
            .transpose()?;
        match (batch_size, at_most) {
            (None, at_most) => Ok(Self::New(at_most.map(|most| most as usize))),
            (Some(_), Some(_)) => {
                let message = "at_most limits a batch of all that is new: write sample(None, \
                               at_most=...), or leave at_most out";
                Err(Failure::new(ErrorClass::Sample, message))
            }
            (Some(batch_size), None) => Ok(Self::Items(batch_size_of(batch_size)?)),
        }
    }
}

pub(super) fn batch_size_of(batch_size: Argument<i128>) -> Result<usize, Failure> {
    let most = u32::try_from(MAX_BATCH).unwrap_or(u32::MAX);
    if let Argument::WrongType(given) = &batch_size
        && Python::attach(|py| given.is_none(py))
    {
        let message = format!(
            "batch_size is None; give a whole number from 1 to {most}. For all that is new, call \
             sample(None) of a sampler(select=bc.Consume())"
        );
        return Err(Failure::new(ErrorClass::ArgumentType, message));
    }
    Ok(count_in(batch_size, "batch_size", 1..=most, ErrorClass::Sample)? as usize)
}
