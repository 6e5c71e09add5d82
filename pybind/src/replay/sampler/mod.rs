//! `backcast.Sampler`: draws and gathers transitions into NumPy arrays.

pub(crate) mod batch;
pub(crate) mod batches;
mod draws;
mod form;
mod hooks;
mod max_age;
mod options;
mod out;
mod priority;
mod priority_calls;
pub(crate) mod returns;
mod selector;
mod settings;
pub(crate) mod stats;
pub(crate) mod transition_order;
mod windows;

use std::sync::Arc;

use backcast_core::{BatchesOptions, Ring, Sampler as CoreSampler, SamplerOptions, Selector};
use backcast_persist::sampler_state_json;
use backcast_pybind_macros::exact_arguments;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyTuple};

use crate::argument::{Argument, count, count_in, no_constructor, timeout_of};
use crate::error::{ErrorClass, Failure};
use crate::json;
use crate::replay::sampler::batches::Batches;

pub(crate) use self::draws::SharedSampler;
use self::draws::{BatchSize, SamplerPlace, batch_size_of};
pub(crate) use self::hooks::{BatchFunctions, hindsight_of};
use self::priority::{PrioritySettings, SamplerPriorities, scheduled};
pub(crate) use self::selector::{SelectorSettings, draws_by_seed};
pub(crate) use self::windows::{Gamma, WindowArguments, WindowOptions};

/// Largest number of batches ahead that the core accepts.
const MAX_PREFETCH: u32 = 1024;

/// Draws transitions of a ring, each with the windows around it.
///
/// Made by :meth:`ReplayBuffer.sampler`; a context manager. A seeded sampler draws the same
/// transitions from the same data in any process, in Rust and in Python. A sampler serves one call
/// at a time; give every thread its own.
#[pyclass(module = "backcast", name = "Sampler", frozen)]
pub(crate) struct Sampler {
    draws: Arc<SharedSampler>,
    windows: WindowOptions,
    selector: Selector,
    priorities: Option<SamplerPriorities>,
}

impl Sampler {
    pub(crate) fn open(
        ring: &Ring,
        label: String,
        spec: SamplerOptions,
        windows: WindowOptions,
        selected: SelectorSettings,
        hooks: BatchFunctions,
    ) -> Result<Self, Failure> {
        let SelectorSettings { selector, priorities } = selected;
        let spec = spec.selector(selector.clone());
        let hooks = hooks.with_returns(windows.n_step, windows.constant_gamma());
        let draws = SharedSampler::new(ring, label.clone(), spec, hooks)?;
        let open = |mut settings: PrioritySettings| {
            settings.options = settings.options.stride(windows.form().priority_stride());
            SamplerPriorities::open(ring, label, settings)
        };
        let priorities = priorities.map(open).transpose()?;
        Ok(Self { draws: Arc::new(draws), windows, selector, priorities })
    }

    /// Releases the ring.
    fn release(&self, py: Python<'_>) -> Result<(), Failure> {
        if let Some(priorities) = &self.priorities {
            priorities.close(py)?;
        }
        self.draws.close(py)
    }

    /// Refuses to draw ahead with a function of beta.
    fn refuse_schedule(&self) -> Result<(), Failure> {
        if self.priorities.as_ref().is_some_and(|of| of.schedule.is_some()) {
            let message = "beta is a function, which the thread that draws ahead cannot call; give \
                           beta=(first, batches) to the sampler, or call `sample`";
            return Err(Failure::new(ErrorClass::Sample, message));
        }
        Ok(())
    }

    /// Sets beta to the result of its function for the next batch, if it is a function.
    fn follow_schedule(&self, py: Python<'_>) -> Result<(), Failure> {
        let schedule = self.priorities.as_ref().and_then(|of| of.schedule.as_ref());
        let Some(schedule) = schedule else { return Ok(()) };
        let next = |sampler: &mut CoreSampler| Ok(sampler.next_batch());
        let batch = py.detach(|| self.draws.with(next))?;
        let beta = scheduled(schedule.bind(py), batch)?;
        py.detach(|| self.draws.with(|sampler| Ok(sampler.set_beta(beta)?)))
    }
}

#[exact_arguments]
#[pymethods]
impl Sampler {
    #[new]
    #[pyo3(signature = (*_given, **_named))]
    fn of_nothing(
        _given: &Bound<'_, PyTuple>,
        _named: Option<&Bound<'_, PyDict>>,
    ) -> Result<Self, Failure> {
        Err(no_constructor("Sampler", "call buf.sampler(seed=..., history=..., future=...)"))
    }

    /// Draw a batch of transitions, as the sampler's selector chooses them.
    ///
    /// One gather, with the interpreter released, never blocking a writer; rows that are
    /// overwritten meanwhile are drawn again and counted in :attr:`lapped`. If ``transform`` or a
    /// function of ``hindsight`` raises, or Ctrl-C interrupts it, the next call draws the same
    /// batch again: the same transitions from the same data, and with :class:`Epoch` and
    /// :class:`Consume` those that were claimed.
    ///
    /// Parameters
    /// ----------
    /// batch_size : int or None
    ///     Transitions to draw, ``B``, or sequences, episodes or columns of rollouts; 1 to
    ///     ``2**24``. With :class:`Consume` None draws all that is new: 1 item at least, for which
    ///     the draw waits, and columns of every lane of a :class:`Rollout`.
    /// out : Batch or dict of ndarray, optional
    ///     Memory to fill in place of new memory. A Batch of a sampler with equal windows, columns
    ///     and batch size: its arrays, and all views of them that were kept, show the new draw; an
    ///     array that was put in the place of one is filled if it is like it. Or a dict of
    ///     C-contiguous, writable arrays with exactly the dtypes and shapes of a batch, such as
    ///     ``tensor.numpy()`` of a torch tensor; keys that it lacks are added. A dict needs a
    ///     sampler whose arrays are separate: one without windows, or with ``copy=True``. Another
    ///     thread that reads the arrays meanwhile sees a mixture of old and new values, and so does
    ///     the caller after an error.
    /// at_most : int, optional
    ///     Items of ``sample(None)`` at most; the rest stays for the next draw.
    /// timeout : float, optional
    ///     Seconds to wait for the ring's limiter, and with the selector :class:`Consume` for new
    ///     transitions; without end when left out. A draw that needs the lock of a table also waits
    ///     this long for it, but at least 0.1 s; a minute when left out.
    ///
    /// Returns
    /// -------
    /// Batch
    ///     Every column, ``next_*`` of the observation columns, ``terminated``, ``truncated``,
    ///     ``index``, ``age``; ``policy_age``, int64, of the shape of ``policy_version``, if the
    ///     ring has that column; ``mask`` with a history window; with a future one ``future_mask``
    ///     and the dict ``future``, which has every column, ``next_*`` of the observation columns,
    ///     ``terminated`` and ``truncated``, each ``[B, F, ...]``, from the transition after the
    ///     drawn one on; ``n_reward``, ``n_discount`` and ``n_next_*`` with n-step returns;
    ///     ``weight``, float32, the importance weights of draws by priority; ``length`` or
    ///     ``offsets`` with whole episodes. Arrays are ``[B, ...]``, windows ``[B, H, ...]`` and
    ///     ``[B, F, ...]``, sequences ``[B, L, ...]``, rollouts ``[T, N, ...]``. If ``out`` is
    ///     given, this is that object, unless ``transform`` returns another. The next batch reuses
    ///     the memory of one that nothing refers to.
    ///
    /// Raises
    /// ------
    /// RateLimitTimeoutError
    ///     If the limiter held the draw back for ``timeout`` seconds; it says what each side waits
    ///     for.
    /// RateLimitError
    ///     If no writer lives, and the limiter has ``no_writer="error"``. With :class:`Consume` and
    ///     too few new transitions, also with ``no_writer="pass"``.
    /// InUseError
    ///     If another process keeps the lock of a table for longer than the draw waits.
    /// WaitTimeoutError
    ///     If :class:`Consume` found fewer than ``batch_size`` new transitions in ``timeout``
    ///     seconds, or nothing new for ``sample(None)``.
    /// SampleError
    ///     If the ring holds no transition yet, none that is young enough for ``max_age``, or with
    ///     ``boundary="reject"`` no whole window; if ``out`` does not fit, with the first key that
    ///     differs; if ``batch_size`` is out of range, or None without :class:`Consume`; or if an
    ///     iterator of this sampler is open.
    /// NotFoundError
    ///     If the table of the selector was removed and the draw has to change it, or if the ring
    ///     was removed or replaced and the buffer has ``on_unlinked="error"``.
    /// ClosedError
    ///     If the sampler was closed.
    ///
    /// Examples
    /// --------
    /// >>> buf = bc.ReplayBuffer.create(None, {"obs": "f4", "reward": "f4"}, capacity=100)
    /// >>> with buf.writer() as writer:
    /// ...     for t in range(10):
    /// ...         at = writer.append(obs=t, reward=1, terminated=False, truncated=False)
    /// >>> batch = buf.sampler(seed=7, history=4, future=2).sample(32)
    /// >>> batch["obs"].shape, batch.mask.shape, batch.future_mask.shape
    /// ((32, 4), (32, 4), (32, 2))
    #[pyo3(signature = (
        batch_size=Some(Argument::Missing), out=None, *, at_most=None, timeout=None
    ))]
    #[pyo3(text_signature = "($self, batch_size, out=None, *, at_most=None, timeout=None)")]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python call")]
    fn sample<'py>(
        &self,
        py: Python<'py>,
        batch_size: Option<Argument<i128>>,
        out: Option<&Bound<'py, PyAny>>,
        at_most: Option<Argument<i128>>,
        timeout: Option<Argument<f64>>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        let (size, timeout) = (BatchSize::of(batch_size, at_most)?, timeout_of(timeout)?);
        self.follow_schedule(py)?;
        self.draws.sample_size(py, size, out, timeout)
    }

    /// Draw batches ahead, in a separate thread, while the learner computes.
    ///
    /// The batches are the same, in the same order, as those of repeated calls of :meth:`sample` on
    /// the same data, at any depth. On a ring that is being written, each was drawn up to
    /// ``prefetch`` batches before it is returned: :attr:`Batch.age` is the age at the draw.
    ///
    /// The thread starts at the first ``next``, which raises the same errors as :meth:`sample`;
    /// after an error, also one of ``transform`` or of a function of ``hindsight``, ``next`` draws
    /// that batch again. Until the iterator is closed or has ended, the sampler belongs to it; then
    /// the sampler continues with the batch after the last one returned. :class:`Epoch` and
    /// :class:`Consume` claim the transitions that are drawn ahead. The sampler draws those that
    /// were not returned after the iterator, and :meth:`close` gives back what it can.
    ///
    /// Parameters
    /// ----------
    /// batch_size : int
    ///     Transitions per batch, ``B``, or sequences or episodes; 1 to ``2**24``.
    /// prefetch : int
    ///     Batches drawn ahead, 0 to 1024; 0 draws in ``next``, without a thread.
    /// limit : int, optional
    ///     Batches after which the iterator ends; endless when left out.
    /// reuse : bool
    ///     Reuse the memory of ``prefetch + 1`` batches. A batch is then valid only until the next
    ///     one is requested: arrays and views that are kept show later draws. By default every
    ///     batch has its own memory.
    /// timeout : float, optional
    ///     Seconds that each batch waits for the ring's limiter, and with the selector
    ///     :class:`Consume` for new transitions; without end when left out. After that time
    ///     ``next`` raises the errors of :meth:`sample`.
    ///
    /// Returns
    /// -------
    /// Batches
    ///     An iterator and context manager with ``close()``, which stops the thread.
    ///
    /// Raises
    /// ------
    /// SampleError
    ///     If a number is out of range, another iterator of this sampler is open, or the selector's
    ///     ``beta`` is a function.
    /// ClosedError
    ///     If the sampler was closed.
    ///
    /// Examples
    /// --------
    /// >>> buf = bc.ReplayBuffer.create(None, {"obs": "f4", "reward": "f4"}, capacity=100)
    /// >>> with buf.writer() as writer:
    /// ...     for t in range(10):
    /// ...         at = writer.append(obs=t, reward=1, terminated=False, truncated=False)
    /// >>> sampler = buf.sampler(seed=7, n_step=3, gamma=0.99)
    /// >>> [batch.age.shape for batch in sampler.batches(32, prefetch=2, limit=3)]
    /// [(32,), (32,), (32,)]
    #[pyo3(signature = (
        batch_size=Argument::Missing, prefetch=2_i64.into(), *, limit=None, reuse=false.into(),
        timeout=None
    ))]
    #[pyo3(text_signature = "($self, batch_size, prefetch=2, *, limit=None, reuse=False, \
                             timeout=None)")]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python call")]
    fn batches(
        &self,
        py: Python<'_>,
        batch_size: Argument<i128>,
        prefetch: Argument<i128>,
        limit: Option<Argument<i128>>,
        reuse: Argument<bool>,
        timeout: Option<Argument<f64>>,
    ) -> Result<Batches, Failure> {
        let timeout = timeout_of(timeout)?;
        let batch = batch_size_of(batch_size)?;
        let prefetch =
            count_in(prefetch, "prefetch", 0..=MAX_PREFETCH, ErrorClass::Sample)? as usize;
        let options = limited(BatchesOptions::prefetch(prefetch), limit)?;
        let reuse = reuse.get("reuse", "True or False")?;
        self.refuse_schedule()?;
        let memory = reuse.then_some(prefetch + 1);
        Batches::new(py, &self.draws, batch, options, memory, timeout)
    }

    /// Return memory of a batch, with nothing drawn into it.
    #[pyo3(signature = (batch_size), text_signature = "($self, batch_size)")]
    fn _blank<'py>(
        &self,
        py: Python<'py>,
        batch_size: Argument<i128>,
    ) -> Result<Bound<'py, PyDict>, Failure> {
        let mut blanks = self.draws.blanks(py, batch_size_of(batch_size)?, 1)?;
        Ok(blanks.remove(0))
    }

    /// Draw batches ahead into dicts of arrays, each of which is given back with ``_refill``.
    ///
    /// The batches have not passed ``transform``.
    #[pyo3(signature = (batch_size, memory, *, limit=None, timeout=None))]
    #[pyo3(text_signature = "($self, batch_size, memory, *, limit=None, timeout=None)")]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python call")]
    fn _batches_into<'py>(
        &self,
        py: Python<'py>,
        batch_size: Argument<i128>,
        memory: Vec<Bound<'py, PyDict>>,
        limit: Option<Argument<i128>>,
        timeout: Option<Argument<f64>>,
    ) -> Result<Batches, Failure> {
        let timeout = timeout_of(timeout)?;
        let batch = batch_size_of(batch_size)?;
        let options = limited(BatchesOptions::prefetch(0), limit)?;
        self.refuse_schedule()?;
        Batches::into_memory(py, &self.draws, batch, memory, options, timeout)
    }

    /// Fetch transitions by index, such as those of an earlier batch.
    ///
    /// Parameters
    /// ----------
    /// index : array_like of int64, any shape
    ///     Indices as in :attr:`Batch.index`, or as :meth:`Writer.append` and :meth:`Writer.extend`
    ///     returned them; ``B`` is their number, in C order.
    /// out : Batch or dict of ndarray, optional
    ///     Memory to fill in place of new memory, as in :meth:`sample`.
    /// missing : {"error", "mask"}, default "error"
    ///     Policy for missing transitions. One is missing if its row was overwritten or dropped,
    ///     has no successor yet, as the newest row of a lane, or starts no transition, as a FINAL
    ///     row; or if the boundary refuses its window. ``"mask"`` adds ``found``, bool ``[B]``; a
    ///     missing transition keeps its ``index``, and its other values are zero.
    ///
    /// Returns
    /// -------
    /// Batch
    ///     Batch as from :meth:`sample`, in the order of ``index``.
    ///
    /// Raises
    /// ------
    /// LappedError
    ///     If a row was overwritten or dropped since, unless ``missing="mask"``.
    /// SampleError
    ///     If an index names no transition, or one whose window the boundary refuses, unless
    ///     ``missing="mask"``; if there are no indices or more than ``2**24``; if ``out`` does not
    ///     fit; if the sampler draws whole episodes; or if an iterator of this sampler is open.
    /// ArgumentError
    ///     If ``missing`` is neither of its choices.
    /// ClosedError
    ///     If the sampler was closed.
    #[pyo3(signature = (index=None, out=None, *, missing="error".into()))]
    #[pyo3(text_signature = "($self, index, out=None, *, missing='error')")]
    fn gather<'py>(
        &self,
        py: Python<'py>,
        index: Option<&Bound<'py, PyAny>>,
        out: Option<&Bound<'py, PyAny>>,
        missing: Argument<String>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        self.follow_schedule(py)?;
        self.draws.gather(py, index, out, missing)
    }

    /// Draw independent items, with the mass that each was drawn from.
    ///
    /// For those who draw from several rings as if they were one: choose a ring for each item in
    /// proportion to the ``mass`` of its current block, and take the next item of that block. Every
    /// draw is then exact over all rings, without a second question to any of them.
    ///
    /// All items are drawn from the rows of one moment, however long writers go on meanwhile. Each
    /// is drawn once. If its row may not be drawn, or was overwritten before it was copied, the
    /// item is rejected: it has ``q`` 0 and ``index`` -1, and the caller chooses a ring again. Do
    /// not leave it out: a draw that is repeated in its ring gives that ring too much.
    ///
    /// Parameters
    /// ----------
    /// batch_size : int
    ///     Items to draw, ``B``; 1 to ``2**24``.
    /// timeout : float, optional
    ///     Seconds to wait for the ring's limiter, as in :meth:`sample`: it holds blocks of an
    ///     empty ring back too. The limiter counts the items that are not rejected.
    ///
    /// Returns
    /// -------
    /// Block
    ///     A frozen dataclass: ``batch``, as from :meth:`sample`; ``count``, the transitions that
    ///     could be drawn; ``mass``, the sum of their masses, or for draws by priority of all rows
    ///     of the table, and 0 if there is nothing to draw; ``q``, the mass of each item, float64
    ///     ``[B]``: 1 for uniform draws, ``(priority + eps) ** alpha`` by priority; ``q_min``, the
    ///     smallest mass of a row, and 0 if there is none; ``q_new``, the mass with which new rows
    ///     enter: with ``initial="held"`` by the rows of this ring alone, else the largest that was
    ///     ever given, also by :meth:`raise_largest`; ``inserts``, what the limiter had counted, or
    ///     None without a limiter.
    ///
    /// Raises
    /// ------
    /// RateLimitTimeoutError
    ///     If the limiter held the draw back for ``timeout`` seconds.
    /// SampleError
    ///     If the sampler draws whole episodes or rollouts, without replacement, in an order, by
    ///     lane, recency or rank, in strata, with ``hindsight`` or ``max_age``, or by an ``alpha``
    ///     that changes; or as from :meth:`sample`.
    /// InUseError
    ///     If another process keeps the lock of the table for longer than the draw waits.
    /// NotFoundError
    ///     If the table of the selector was removed.
    /// ClosedError
    ///     If the sampler was closed.
    ///
    /// Examples
    /// --------
    /// >>> buf = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=100)
    /// >>> with buf.writer() as writer:
    /// ...     for t in range(11):
    /// ...         at = writer.append(obs=t, terminated=False, truncated=False)
    /// >>> block = buf.sampler(seed=7).block(32)
    /// >>> block.count, block.mass, block.batch["obs"].shape, block.rejected
    /// (10, 10.0, (32,), 0)
    #[pyo3(signature = (batch_size=Argument::Missing, *, timeout=None))]
    #[pyo3(text_signature = "($self, batch_size, *, timeout=None)")]
    fn block<'py>(
        &self,
        py: Python<'py>,
        batch_size: Argument<i128>,
        timeout: Option<Argument<f64>>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        let (size, timeout) = (batch_size_of(batch_size)?, timeout_of(timeout)?);
        self.follow_schedule(py)?;
        self.draws.block(py, size, timeout)
    }

    /// Return the state of the sampler, to be saved and continued.
    ///
    /// ``buf.sampler(state=...)`` draws what this sampler would draw next, in any process and from
    /// Rust too, from the same data. Batches that an iterator drew ahead and did not return yet are
    /// among those that it draws. What :class:`Epoch` and :class:`Consume` have claimed stays with
    /// this sampler and is not part of the state: close this sampler first, and the next one starts
    /// there. Functions are not part of the state either: give ``transform``, ``hindsight`` and a
    /// function ``beta`` again. Save the state with the data: ``buf.snapshot("epoch-10",
    /// state={"sampler": sampler.state()})``.
    ///
    /// While another thread draws, the state is the one after its draw, for which the call waits.
    ///
    /// Returns
    /// -------
    /// dict
    ///     Numbers, words and None, as JSON has them.
    ///
    /// Raises
    /// ------
    /// ClosedError
    ///     If the sampler was closed.
    ///
    /// Examples
    /// --------
    /// >>> buf = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=100)
    /// >>> with buf.writer() as writer:
    /// ...     for t in range(10):
    /// ...         at = writer.append(obs=t, terminated=False, truncated=False)
    /// >>> sampler = buf.sampler(seed=7)
    /// >>> batch = sampler.sample(32)
    /// >>> again = buf.sampler(state=sampler.state())
    /// >>> bool((again.sample(32).index == sampler.sample(32).index).all())
    /// True
    #[pyo3(signature = (), text_signature = "($self)")]
    fn state<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>, Failure> {
        let state = py.detach(|| self.draws.state())?;
        Ok(json::to_python(py, &sampler_state_json(&state))?)
    }

    /// Return totals, the ages of drawn transitions, and the distribution of priorities.
    ///
    /// Reads all rows of the selector's table, if it has one; is cheap otherwise.
    ///
    /// Returns
    /// -------
    /// dict
    ///     ``sampled`` and ``lapped`` as the properties. ``too_old``: transitions that
    ///     :class:`Consume` skipped since they were too old for ``max_age``; 0 for other selectors,
    ///     which choose among the rows that are young enough. ``ages``: of every 64th batch, drawn
    ///     transitions by their age at the draw, in newer rows of the same lane; a list of
    ///     ``{"from": age, "rows": count}`` for the ages 0, 1, 2-3, 4-7 and so on. ``priorities``:
    ///     None, or for selectors with priorities a dict of ``rows`` that have one,
    ///     ``effective_rows``, the number of rows of equal priority that would give draws of the
    ///     same diversity (Kish 1965: the squared sum of ``(priority + eps) ** alpha`` over the
    ///     sum of squares), and ``histogram``, rows by that power, ``from`` up to twice ``from``.
    ///     By rank, the squares are those of ``rank ** -alpha``, with the ``alpha`` of the table's
    ///     first sampler, and the histogram is that of ``priority + eps``.
    ///     ``times_sampled``: for :class:`Consume` and :class:`Epoch`, how often the transitions of
    ///     the ring were handed out by the table, to all its samplers in all processes; claims
    ///     whose batch no caller got count too. A list of ``{"times": times, "rows": count}`` with
    ///     exact counts, for ``Epoch`` those of the current pass. None for other selectors, which
    ///     keep no count of a row.
    ///     :func:`backcast.plot.stats` draws all of them.
    ///
    /// Raises
    /// ------
    /// NotFoundError
    ///     If the table of the sampler was removed.
    /// ClosedError
    ///     If the sampler was closed.
    ///
    /// Examples
    /// --------
    /// >>> import backcast as bc
    /// >>> buf = bc.ReplayBuffer.create("stats-demo", {"obs": "f4"}, capacity=100)
    /// >>> with buf.writer() as writer:
    /// ...     for t in range(10):
    /// ...         at = writer.append(obs=t, terminated=False, truncated=False)
    /// >>> sampler = buf.sampler(select=bc.Priority(alpha=1.0, eps=0.0))
    /// >>> batch = sampler.sample(32)
    /// >>> dropped = sampler.update_priorities([0, 1, 2], [4.0, 4.0, 4.0])
    /// >>> stats = sampler.stats()["priorities"]
    /// >>> stats["rows"], round(stats["effective_rows"], 6)
    /// (9, 6.0)
    /// >>> stats["histogram"]
    /// [{'from': 1.0, 'rows': 6}, {'from': 2.0, 'rows': 0}, {'from': 4.0, 'rows': 3}]
    #[pyo3(signature = (), text_signature = "($self)")]
    fn stats<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>, Failure> {
        let found = py.detach(|| Ok::<_, Failure>(self.draws.totals()?.stats()?))?;
        Ok(stats::as_dict(py, &found)?)
    }

    /// Draws that were repeated because a writer overwrote the row during the copy.
    #[getter]
    fn lapped(&self, py: Python<'_>) -> Result<u64, Failure> {
        py.detach(|| Ok(self.draws.totals()?.lapped()))
    }

    /// Items drawn or gathered so far.
    ///
    /// Includes those drawn ahead, and those of a draw that is repeated.
    #[getter]
    fn sampled(&self, py: Python<'_>) -> Result<u64, Failure> {
        py.detach(|| Ok(self.draws.totals()?.sampled()))
    }

    /// Release the ring, and end an iterator that draws ahead. Closing again does nothing.
    ///
    /// With :class:`Epoch` and :class:`Consume`, transitions that were claimed and not returned go
    /// back to the table, for the next sampler, unless another sampler has claimed later ones or a
    /// pass has begun since. Then no sampler draws them in this pass. To lose none, draw them from
    /// this sampler first, or use ``prefetch=0``.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn close(&self, py: Python<'_>) -> Result<(), Failure> {
        self.release(py)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) -> Result<(), Failure> {
        self.release(py)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let seed = self.draws.seed;
        let state = self.draws.place.describe(|place| match place {
            SamplerPlace::Here(sampler) => {
                format!("seed {seed}, {} transitions drawn", sampler.sampled())
            }
            SamplerPlace::Prefetcher(_) => format!("seed {seed}, drawing ahead"),
        });
        let (label, windows) = (self.draws.label(), self.windows.in_words());
        let select = self.select(py)?.repr()?;
        let form = self.form(py)?.map(|form| form.repr()).transpose()?;
        let form = form.map_or_else(String::new, |form| format!(", form {form}"));
        Ok(format!("<backcast.Sampler: {label}, {windows}{form}, select {select}, {state}>"))
    }

    fn __reduce__(&self) -> Result<(), Failure> {
        Err(Failure::new(
            ErrorClass::ArgumentType,
            format!(
                "{} cannot be pickled or copied; pickle the ReplayBuffer and make a sampler of \
                 the same seed from it",
                self.draws.label()
            ),
        ))
    }
}

/// Reads the argument `limit`.
fn limited(
    options: BatchesOptions,
    limit: Option<Argument<i128>>,
) -> Result<BatchesOptions, Failure> {
    let limit = limit.map(|limit| count(limit, "limit", 0, ErrorClass::Sample)).transpose()?;
    Ok(limit.map_or(options, |limit| options.limit(limit.into())))
}
