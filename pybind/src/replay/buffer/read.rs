//! Reads of transitions and rows: samplers, draws, copies and leases.

use std::sync::{Arc, PoisonError};

use backcast_persist::sampler_state;
use backcast_pybind_macros::exact_arguments;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict};

use super::{KEPT_DRAWS, ReplayBuffer};
use crate::argument::{Argument, count, timeout_of, whole};
use crate::error::{ErrorClass, Failure};
use crate::json;
use crate::replay::learned::JoinedTable;
use crate::replay::lease::Lease;
use crate::replay::sampler::{
    BatchFunctions, Gamma, Sampler, SelectorSettings, SharedSampler, WindowArguments,
    WindowOptions, draws_by_seed, hindsight_of,
};

impl ReplayBuffer {
    /// Returns the buffer's own sampler for these windows. Makes it if the buffer keeps none.
    fn draws(&self, py: Python<'_>, windows: WindowOptions) -> Result<Arc<SharedSampler>, Failure> {
        let ring = self.ring()?;
        py.detach(|| {
            let mut kept = self.draws.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((_, draws)) = kept.iter().find(|(known, _)| *known == windows) {
                return Ok(Arc::clone(draws));
            }
            let label = format!("the sampler of {}", self.ring.label());
            // It also gathers, which makes no learner of the process.
            let draws = Arc::new(SharedSampler::idle(&ring, label, windows.spec(None))?);
            if kept.len() == KEPT_DRAWS {
                // One that has drawn stays, for it is what the limiter sees of a learner.
                let idle = kept.iter().position(|(_, draws)| !draws.has_drawn());
                kept.remove(idle.unwrap_or(0));
            }
            kept.push((windows, Arc::clone(&draws)));
            Ok(draws)
        })
    }
}

#[exact_arguments]
#[pymethods]
impl ReplayBuffer {
    /// Make a sampler, for a seed or for many draws with the same windows.
    ///
    /// Parameters
    /// ----------
    /// seed : int, optional
    ///     Equal seeds draw equal transitions from equal data; unset, the system chooses one.
    /// history : int or dict, optional
    ///     Transitions per history window, ``H``, the drawn one included. None: no window axis. A
    ///     dict gives a window for each column: a number of transitions, None, or ``"first"`` for
    ///     the first unmasked row of the longest window. Its key ``"*"`` stands for all other
    ///     columns, which are left out without it. ``mask`` has the longest history.
    /// columns : list of str, optional
    ///     The columns of a batch; no other is copied. ``"obs"`` stands for all below it too.
    /// future : int
    ///     Transitions after the drawn one, ``F``.
    /// n_step : int, optional
    ///     Add the discounted return of up to ``n_step`` transitions from the drawn one on:
    ///     ``n_reward``, ``n_discount`` and ``n_next_obs``. See Notes; needs ``gamma``.
    /// gamma : float or "discount", optional
    ///     Discount per transition of the n-step return, 0 to 1. It belongs to the learner, so
    ///     there is no default. With ``"discount"``, each transition discounts all that follows it
    ///     by its own value of the column ``discount``.
    /// boundary : {"mask", "reject", "clamp"}
    ///     Rule for windows that reach beyond their episode, or beyond the rows that the ring holds
    ///     of it: ``"mask"`` zeroes those places, except for two that ``copy`` describes;
    ///     ``"reject"`` draws only whole windows, uniformly over those; ``"clamp"`` repeats the
    ///     first and the last observation of the episode there, as frame stacks do, and zeroes all
    ///     other columns; transitions whose history was overwritten are not drawn. Masks mark the
    ///     rows that are there.
    /// copy : bool
    ///     Give ``obs`` and ``next_obs`` windows memory of their own, to be written to. By default
    ///     they overlap, so two masked places are not zero: ``next_obs`` right before the first
    ///     unmasked place shows the ``obs`` there, and ``obs`` right after the last one, also in
    ///     ``future``, shows the ``next_obs`` there. With True they are zero.
    /// select : str or object, default "uniform"
    ///     Rule by which the transitions of a batch are chosen. ``"uniform"``; ``"fifo"`` and
    ///     ``"lifo"``: the oldest or the newest ones, in order; ``"lane_strata"``: lanes in turn;
    ///     :class:`Priority`: in proportion to priorities; :class:`Largest` and :class:`Smallest`:
    ///     those of largest or smallest priority; :class:`Recency`: newer ones more often;
    ///     :class:`LaneWeights`: lanes by weight; :class:`Epoch`: without replacement, pass after
    ///     pass; :class:`Consume`: new ones only, for which draws wait.
    /// form : Sequence, WholeEpisodes or Rollout, optional
    ///     Draw sequences, whole episodes or rollouts in place of single transitions: see
    ///     :class:`Sequence`, :class:`WholeEpisodes` and :class:`Rollout`.
    /// hindsight : Hindsight, optional
    ///     Replace the goals of some transitions by goals that their episode achieved, and their
    ///     rewards accordingly; ``batch["relabelled"]``, bool ``[B]``, says which. With ``n_step``
    ///     the returns are those of the new rewards, and ``future`` must be ``n_step - 1`` or more.
    /// transform : callable, optional
    ///     Function that every batch passes through after it was gathered: it takes the batch and
    ///     returns it, changed in place, or another object. Called in the thread that receives the
    ///     batch, by ``sample``, ``gather`` and ``next``, never in the thread that draws ahead.
    /// learned : LearnedTable or str, optional
    ///     Table whose learned columns are added to every batch, each under its name: ``[B]``, or
    ///     with a history ``[B, H]`` for the longest one, and also in ``future``. An entry with
    ///     ``_set`` appended to the name says whether the value was set. Values that were not set
    ///     are 0. The table does not change which transitions are drawn.
    /// share : pair of int, optional
    ///     ``(rank, world_size)``: rank of this learner, and number of learners that share the
    ///     random draws of one ``seed``. All of them give the same seed. Each draws every
    ///     ``world_size``-th batch that one learner alone would draw, beginning with batch number
    ///     ``rank``. On the same data, all learners together draw the rows that one learner would.
    ///     Has no effect on selectors without random draws: ``"fifo"``, ``"lifo"``, ``Largest`` and
    ///     ``Smallest`` draw the same for every learner, and the tables of ``Epoch`` and
    ///     ``Consume`` give each row to one of them anyway.
    /// max_age : int or dict, optional
    ///     Draw as if the ring did not have rows that are older at the moment of the draw. A number
    ///     limits ``age``: the newer rows of the same lane. ``{"policy_age": n}`` limits
    ///     ``policy_age``: the newer versions of the policy, in a ring with a column
    ///     ``policy_version``; ``"age"`` can stand beside it. No window, sequence, episode or
    ///     rollout has an older row, and histories are masked where ``boundary`` allows it. With
    ///     :class:`Consume` transitions that are too old are skipped and counted in
    ///     ``stats()["too_old"]``, and a batch is refused that can never be young enough. Draws by
    ///     priority of a tenth of the rows cost some 15 times as much, for they refuse the others;
    ///     ``normalize="table"`` does not go with it.
    /// state : dict, optional
    ///     State that :meth:`Sampler.state` of another sampler returned. This sampler continues
    ///     with the same draws and windows. Replaces all other arguments but ``transform``,
    ///     ``hindsight``, and a ``select`` with a function ``beta``: no state has functions, so
    ///     give them again.
    ///
    /// Returns
    /// -------
    /// Sampler
    ///
    /// Raises
    /// ------
    /// ExistsError
    ///     If the table has other settings, or is of another kind.
    /// NotFoundError
    ///     If ``learned`` names no table of the ring.
    /// SampleError
    ///     If an argument is invalid. Examples: a window is longer than a lane or than ``max_age``,
    ///     ``gamma`` is missing or out of range, or the ring has no column ``reward`` of one ``f4``
    ///     or ``f8`` a row for ``n_step``.
    /// ClosedError
    ///     If the buffer was closed.
    ///
    /// Notes
    /// -----
    /// An n-step return uses ``k`` transitions from the drawn one ``t`` on; ``k = n_step`` unless
    /// the episode, or what is published of it, has fewer. ``n_reward`` is ``r[t] + gamma r[t+1] +
    /// ... + gamma**(k-1) r[t+k-1]``; ``n_discount`` is ``gamma**k``, and 0 if the last transition
    /// used terminated; ``n_next_obs`` is the observation after it. So the target is ``n_reward +
    /// n_discount * V(n_next_obs)`` (Sutton, Machine Learning 3, 1988; Hessel et al., "Rainbow",
    /// AAAI 2018, "Multi-step learning"). A truncated episode bootstraps from its final
    /// observation. The newest transitions of a lane are drawn as often as all others, with the
    /// shorter return that can be summed of them. Which transitions are drawn, and all other
    /// columns, do not depend on ``n_step``.
    #[pyo3(signature = (
        *, seed=None, history=None, columns=None, future=Argument::Missing, n_step=None,
        gamma=None, boundary=Argument::Missing, copy=Argument::Missing, select=None,
        form=None, hindsight=None, transform=None, learned=None, share=None, max_age=None,
        state=None
    ))]
    #[pyo3(text_signature = "($self, *, seed=None, history=None, columns=None, future=0, \
                             n_step=None, gamma=None, boundary='mask', copy=False, \
                             select='uniform', form=None, hindsight=None, \
                             transform=None, learned=None, share=None, max_age=None, \
                             state=None)")]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python call")]
    fn sampler<'py>(
        &self,
        py: Python<'py>,
        seed: Option<Argument<i128>>,
        history: Option<&Bound<'py, PyAny>>,
        columns: Option<&Bound<'py, PyAny>>,
        future: Argument<i128>,
        n_step: Option<Argument<i128>>,
        gamma: Option<Argument<Gamma>>,
        boundary: Argument<String>,
        copy: Argument<bool>,
        select: Option<&Bound<'py, PyAny>>,
        form: Option<&Bound<'py, PyAny>>,
        hindsight: Option<&Bound<'py, PyAny>>,
        transform: Option<&Bound<'py, PyAny>>,
        learned: Option<&Bound<'py, PyAny>>,
        share: Option<&Bound<'py, PyAny>>,
        max_age: Option<&Bound<'py, PyAny>>,
        state: Option<&Bound<'py, PyAny>>,
    ) -> Result<Sampler, Failure> {
        let label = format!("the sampler of {}", self.ring.label());
        let asked = WindowArguments {
            history,
            columns,
            future,
            n_step,
            gamma,
            boundary,
            copy,
            form,
            share,
            max_age,
        };
        let hooks = BatchFunctions::new(hindsight, transform)?;
        let hindsight = hindsight.map(hindsight_of).transpose()?;
        if let Some(state) = state {
            let others = [("seed", seed.is_some()), ("learned", learned.is_some())];
            let mut others = others.into_iter().chain(asked.given());
            if let Some((other, _)) = others.find(|(_, given)| *given) {
                return Err(Failure::new(
                    ErrorClass::Sample,
                    format!("state is given, and {other} too; leave {other} out, the state has it"),
                ));
            }
            let state = json::from_python(state, "state")?;
            let state = sampler_state(&state)?;
            if state.hindsight != hindsight {
                let message = match &state.hindsight {
                    None => {
                        "hindsight is given, and the state is of a sampler without it; leave \
                             hindsight out"
                    }
                    Some(_) => {
                        "the state is of a sampler with hindsight, whose functions it does \
                                not have; give hindsight with the same settings"
                    }
                };
                return Err(Failure::new(ErrorClass::Sample, message));
            }
            let windows = WindowOptions::of(&state);
            let selected = SelectorSettings::saved(state.selector.clone(), select)?;
            let open =
                |ring: &_| Sampler::open(ring, label, state.into(), windows, selected, hooks);
            return self.ask(py, open)?;
        }
        let seed = seed
            .map(|seed| {
                let range = format!("a whole number from 0 to {}, or None", u64::MAX);
                let seed = seed.get("seed", &range)?;
                u64::try_from(seed).map_err(|_| {
                    Failure::new(ErrorClass::Sample, format!("seed is {seed}; give {range}"))
                })
            })
            .transpose()?;
        let windows = WindowOptions::new(asked)?;
        let selected = SelectorSettings::new(select)?;
        let learners = windows.world_size();
        if seed.is_none() && learners > 1 && draws_by_seed(&selected.selector) {
            let message = format!(
                "share is of {learners} learners, and seed is left out: each rank would draw by a \
                 seed of its own, and they would share nothing; give all ranks the same seed, \
                 such as seed=7"
            );
            return Err(Failure::new(ErrorClass::Sample, message));
        }
        let spec = windows.spec(seed);
        let spec = match hindsight {
            Some(hindsight) => spec.hindsight(hindsight),
            None => spec,
        };
        let learned = learned.map(JoinedTable::given).transpose()?;
        self.ask(py, |ring| {
            let spec = match learned {
                Some(table) => spec.learned(table.options(ring)?),
                None => spec,
            };
            Sampler::open(ring, label, spec, windows, selected, hooks)
        })?
    }

    /// Draw transitions uniformly, unseeded; see :meth:`Sampler.sample`.
    ///
    /// Parameters
    /// ----------
    /// batch_size : int
    ///     Transitions to draw, ``B``.
    /// history : int or dict, optional
    ///     Transitions per history window, ``H``, the drawn one included. None: no window axis. A
    ///     dict gives a window for each column: a number of transitions, None, or ``"first"`` for
    ///     the first unmasked row of the longest window. Its key ``"*"`` stands for all other
    ///     columns, which are left out without it. ``mask`` has the longest history.
    /// future : int
    ///     Transitions after the drawn one, ``F``.
    /// copy : bool
    ///     Give ``obs`` and ``next_obs`` windows memory of their own, to be written to. By default
    ///     they overlap, so two masked places are not zero: ``next_obs`` right before the first
    ///     unmasked place shows the ``obs`` there, and ``obs`` right after the last one, also in
    ///     ``future``, shows the ``next_obs`` there. With True they are zero.
    /// columns : list of str, optional
    ///     The columns of a batch; no other is copied. ``"obs"`` stands for all below it too.
    /// n_step : int, optional
    ///     Add the discounted return of up to ``n_step`` transitions from the drawn one on:
    ///     ``n_reward``, ``n_discount`` and ``n_next_obs``. See :meth:`sampler`; needs
    ///     ``gamma``.
    /// gamma : float or "discount", optional
    ///     Discount per transition of the n-step return, 0 to 1. It belongs to the learner, so
    ///     there is no default. With ``"discount"``, each transition discounts all that follows it
    ///     by its own value of the column ``discount``.
    /// boundary : {"mask", "reject", "clamp"}
    ///     Rule for windows that reach beyond their episode, or beyond the rows that the ring holds
    ///     of it: ``"mask"`` zeroes those places, except for two that ``copy`` describes;
    ///     ``"reject"`` draws only whole windows, uniformly over those; ``"clamp"`` repeats the
    ///     first and the last observation of the episode there, as frame stacks do, and zeroes all
    ///     other columns; transitions whose history was overwritten are not drawn. Masks mark the
    ///     rows that are there.
    /// out : Batch or dict of ndarray, optional
    ///     Memory to fill in place of new memory, as in :meth:`Sampler.sample`.
    /// timeout : float, optional
    ///     Seconds to wait for the ring's :attr:`limiter`; without end when left out.
    ///
    /// Returns
    /// -------
    /// Batch
    ///
    /// Raises
    /// ------
    /// RateLimitTimeoutError
    ///     If the limiter held the draw back for ``timeout`` seconds; it says what each side waits
    ///     for.
    /// RateLimitError
    ///     If no writer lives, and the limiter has ``no_writer="error"``.
    /// SampleError
    ///     If the ring holds no transition yet, or with ``boundary="reject"`` no whole window, or
    ///     ``out`` does not fit. Also if an argument is invalid: a window is longer than a lane,
    ///     ``gamma`` is missing or out of range, or ``batch_size`` exceeds ``2**24``.
    /// ClosedError
    ///     If the buffer was closed.
    #[pyo3(signature = (
        batch_size=Argument::Missing, history=None, future=Argument::Missing,
        copy=Argument::Missing, *, columns=None, n_step=None, gamma=None,
        boundary=Argument::Missing, out=None, timeout=None
    ))]
    #[pyo3(text_signature = "($self, batch_size, history=None, future=0, copy=False, *, \
                             columns=None, n_step=None, gamma=None, boundary='mask', out=None, \
                             timeout=None)")]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python call")]
    fn sample<'py>(
        &self,
        py: Python<'py>,
        batch_size: Argument<i128>,
        history: Option<&Bound<'py, PyAny>>,
        future: Argument<i128>,
        copy: Argument<bool>,
        columns: Option<&Bound<'py, PyAny>>,
        n_step: Option<Argument<i128>>,
        gamma: Option<Argument<Gamma>>,
        boundary: Argument<String>,
        out: Option<&Bound<'py, PyAny>>,
        timeout: Option<Argument<f64>>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        let timeout = timeout_of(timeout)?;
        let asked = WindowArguments {
            history,
            columns,
            future,
            n_step,
            gamma,
            boundary,
            copy,
            ..WindowArguments::default()
        };
        self.draws(py, WindowOptions::new(asked)?)?.sample(py, batch_size, out, timeout)
    }

    /// Fetch transitions by index; see :meth:`Sampler.gather`.
    ///
    /// Parameters
    /// ----------
    /// index : array_like of int64, any shape
    ///     Indices as in :attr:`Batch.index`, or as :meth:`Writer.append` and :meth:`Writer.extend`
    ///     returned them; ``B`` is their number, in C order.
    /// out : Batch or dict of ndarray, optional
    ///     Memory to fill in place of new memory, as in :meth:`Sampler.sample`.
    /// history : int or dict, optional
    ///     Windows, as in :meth:`sampler`.
    /// columns : list of str, optional
    ///     Columns, as in :meth:`sampler`.
    /// missing : {"error", "mask"}, default "error"
    ///     Policy for missing transitions. One is missing if its row was overwritten or dropped,
    ///     has no successor yet, as the newest row of a lane, or starts no transition, as a FINAL
    ///     row. ``"mask"`` adds ``found``, bool ``[B]``; a missing transition keeps its ``index``,
    ///     and its other values are zero.
    ///
    /// Returns
    /// -------
    /// Batch
    ///
    /// Raises
    /// ------
    /// LappedError
    ///     If a row was overwritten or dropped since, unless ``missing="mask"``.
    /// SampleError
    ///     If an index names no transition, unless ``missing="mask"``; there are no indices or more
    ///     than ``2**24``; or ``out`` does not fit.
    /// ArgumentError
    ///     If ``missing`` is neither of its choices.
    /// ClosedError
    ///     If the buffer was closed.
    ///
    /// Examples
    /// --------
    /// >>> buf = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=100)
    /// >>> with buf.writer() as writer:
    /// ...     end = {"terminated": False, "truncated": False}
    /// ...     at = [int(writer.append(obs=t, **end)[0]) for t in range(5)]
    /// >>> buf.gather(at[1:3])["next_obs"]
    /// array([2., 3.], dtype=float32)
    /// >>> buf.gather(at, missing="mask").found  # the newest row has no successor yet
    /// array([ True,  True,  True,  True, False])
    #[pyo3(signature = (
        index=None, out=None, *, history=None, columns=None, missing="error".into()
    ))]
    #[pyo3(text_signature = "($self, index, out=None, *, history=None, columns=None, \
                             missing='error')")]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python call")]
    fn gather<'py>(
        &self,
        py: Python<'py>,
        index: Option<&Bound<'py, PyAny>>,
        out: Option<&Bound<'py, PyAny>>,
        history: Option<&Bound<'py, PyAny>>,
        columns: Option<&Bound<'py, PyAny>>,
        missing: Argument<String>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        self.draws(py, WindowOptions::of_gather(history, columns)?)?.gather(py, index, out, missing)
    }

    /// Copy consecutive rows of one lane, as they were written.
    ///
    /// Parameters
    /// ----------
    /// lane : int
    ///     From 0 to ``lanes - 1``.
    /// start : int
    ///     Sequence number of the first row, within :meth:`lane_span`.
    /// length : int
    ///     Rows to copy.
    ///
    /// Returns
    /// -------
    /// dict
    ///     Every column as ``[length, ...]``, and the built-in ``seq`` and ``episode`` (uint64),
    ///     ``t`` and ``flags`` (uint32: 1 terminated, 2 truncated, 4 final observation, 8 does not
    ///     continue the row before).
    ///
    /// Raises
    /// ------
    /// LappedError
    ///     If a writer overwrote a row meanwhile.
    /// SampleError
    ///     If the rows are not, or no longer, in the ring.
    /// ClosedError
    ///     If the buffer was closed.
    ///
    /// Examples
    /// --------
    /// >>> buf = bc.ReplayBuffer.create(None, {"reward": "f4"}, capacity=100)
    /// >>> with buf.writer() as writer:
    /// ...     for t in range(3):
    /// ...         index = writer.append(reward=t, terminated=t == 1, truncated=False)
    /// >>> rows = buf.rows(0, 0, 3)
    /// >>> rows["reward"], rows["flags"]
    /// (array([0., 1., 0.], dtype=float32), array([0, 1, 4], dtype=uint32))
    #[pyo3(signature = (lane=Argument::Missing, start=Argument::Missing, length=Argument::Missing))]
    #[pyo3(text_signature = "($self, lane, start, length)")]
    fn rows<'py>(
        &self,
        py: Python<'py>,
        lane: Argument<i128>,
        start: Argument<i128>,
        length: Argument<i128>,
    ) -> Result<Bound<'py, PyDict>, Failure> {
        let lane = count(lane, "lane", 0, ErrorClass::Sample)?;
        let start = start.get("start", "a sequence number, from 0 up")?;
        let start = u64::try_from(start).map_err(|_| {
            Failure::new(
                ErrorClass::Sample,
                format!("start is {start}; sequence numbers begin at 0"),
            )
        })?;
        let length = count(length, "length", 0, ErrorClass::Sample)?;
        let range = start..start.saturating_add(u64::from(length));
        let rows = self.ask(py, |ring| ring.rows(lane, range))??;
        Ok(crate::replay::buffer::rows::as_dict(py, &rows)?)
    }

    /// Lease rows of a lane: read them in place, without a copy.
    ///
    /// While the lease or any array from it lives, no writer overwrites the rows. A writer that
    /// would overwrite them follows the ring's ``lane_policy``, so close leases soon.
    ///
    /// Parameters
    /// ----------
    /// lane : int
    ///     The lane.
    /// start : int
    ///     Sequence number of the first row; see :meth:`lane_span`.
    /// length : int
    ///     Rows; at most a quarter of the lane's capacity (at least 1), or all rows of a snapshot's
    ///     lane.
    ///
    /// Returns
    /// -------
    /// Lease
    ///     A context manager whose items are read-only arrays.
    ///
    /// Raises
    /// ------
    /// LeaseError
    ///     If the ring grants no leases or has no such lane, the rows are not readable or too many,
    ///     or all reader slots are taken. In a private ring also if the rows cross the end of its
    ///     memory.
    /// LappedError
    ///     If the writer overwrote the rows meanwhile.
    /// ClosedError
    ///     If the buffer was closed.
    #[pyo3(signature = (lane=Argument::Missing, start=Argument::Missing, length=Argument::Missing))]
    #[pyo3(text_signature = "($self, lane, start, length)")]
    fn lease(
        &self,
        py: Python<'_>,
        lane: Argument<i128>,
        start: Argument<i128>,
        length: Argument<i128>,
    ) -> Result<Lease, Failure> {
        let lane = count(lane, "lane", 0, ErrorClass::Lease)?;
        let start = whole(start, "start", "a sequence number, from 0 up", ErrorClass::Lease)?;
        let length = whole(length, "length", "rows from 1 up", ErrorClass::Lease)?;
        let lease =
            self.ask(py, |ring| ring.lease(lane, start..start.saturating_add(length)))??;
        Ok(Lease::new(self.ring.label(), lease))
    }
}
