//! `backcast.ReplayBuffer`: a named ring that writers and learners of any process share.

mod create;
mod daemon;
mod drop_rows;
mod exchange;
mod inspect;
mod read;
mod resize;
mod rows;
mod snapshot;
mod stats;
mod tables;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use backcast_core::{MAX_LANES, Ring, WriterOptions};
use backcast_exchange::ImportReport;
use backcast_pybind_macros::exact_arguments;
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyTuple};

pub(crate) use self::create::_attach_buffer;
use self::snapshot::Saved;
pub(crate) use self::snapshot::{_load_params, _open_snapshot, _saved_arrays};
use crate::argument::{
    Argument, ChoiceName, autoreset_mode_of, count_in, no_constructor, timeout_of,
};
use crate::error::{ErrorClass, Failure, signals};
use crate::handle::Handle;
use crate::location::reduce_by_name;
use crate::replay::learned::LearnedTable;
use crate::replay::limiter::Limiter;
use crate::replay::sampler::transition_order::TransitionOrder;
use crate::replay::sampler::{SharedSampler, WindowOptions};
use crate::replay::schema::Schema;
use crate::replay::writer::Writer;

/// Maximum number of samplers that a buffer keeps for its own `sample` and `gather`. Each has other
/// window options.
const KEPT_DRAWS: usize = 4;

/// A ring of transitions in shared memory.
///
/// Create a ring with :meth:`create`, or join one from any process with :meth:`attach`.
/// :meth:`snapshot` saves it to disk; :meth:`load` and :meth:`open_snapshot` restore it. A buffer
/// is a context manager. With a name, it can be pickled and sent to spawned processes. A copy
/// is another handle on the same ring. The ring is removed with its last holder, unless it is
/// persistent. Threads may share a buffer. In a forked child its methods raise an error, except
/// :meth:`close`. ``len`` is the number of transitions that can be drawn, O(lanes).
///
/// Examples
/// --------
/// >>> columns = {"obs": ("f4", (3,)), "action": "i4", "reward": "f4"}
/// >>> buf = bc.ReplayBuffer.create(None, columns, capacity=1_000)  # a name shares it
/// >>> buf
/// <backcast.ReplayBuffer: a private ring, 0/1000 transitions, 1 lane>
/// >>> step = {"obs": [0.0, 0.1, 0.2], "action": 1, "reward": 0.5}
/// >>> with buf.writer() as writer:
/// ...     for _ in range(20):
/// ...         index = writer.append(**step, terminated=False, truncated=False)
/// >>> len(buf), buf.sample(64)["obs"].shape
/// (19, (64, 3))
/// >>> buf.close()
#[pyclass(module = "backcast", name = "ReplayBuffer", frozen)]
pub(crate) struct ReplayBuffer {
    ring: Handle<Ring>,
    name: Option<String>,
    path: Option<PathBuf>,
    schema: Schema,
    draws: Mutex<Vec<(WindowOptions, Arc<SharedSampler>)>>,
    /// Snapshot that the ring was loaded from.
    saved: Option<Arc<Saved>>,
    /// Report of the import that made the ring.
    pub(crate) imported: Option<ImportReport>,
}

impl ReplayBuffer {
    fn shut(&self, py: Python<'_>) -> Result<(), Failure> {
        py.detach(|| {
            self.draws.lock().unwrap_or_else(PoisonError::into_inner).clear();
            self.ring.close()
        })
    }

    pub(crate) fn of(ring: Ring) -> Self {
        let ring = ring.interrupted_by(signals::interrupt());
        let name = ring.name().map(str::to_owned);
        let (label, again) = if ring.is_snapshot() {
            (name.as_ref().map(|name| format!("snapshot '{name}'")), "open it again")
        } else {
            (None, "attach or create it again")
        };
        let label = label.unwrap_or_else(|| self::label(name.as_deref()));
        Self {
            path: ring.path().map(ToOwned::to_owned),
            schema: Schema(ring.schema().clone()),
            draws: Mutex::default(),
            ring: Handle::new(label, again, ring),
            name,
            saved: None,
            imported: None,
        }
    }

    /// Wraps a ring that was imported from a file.
    pub(crate) fn of_imported(ring: Ring, report: ImportReport) -> Self {
        Self { imported: Some(report), ..Self::of(ring) }
    }

    /// Returns a clone of the ring. A call can use it although the buffer is closed meanwhile.
    pub(crate) fn ring(&self) -> Result<Ring, Failure> {
        self.ring.with(|ring| Ok(ring.clone()))
    }

    /// Calls `question` on the ring with the interpreter released.
    fn ask<R: Send>(
        &self,
        py: Python<'_>,
        question: impl FnOnce(&Ring) -> R + Send,
    ) -> Result<R, Failure> {
        let ring = self.ring()?;
        Ok(py.detach(move || question(&ring)))
    }
}

#[exact_arguments]
#[pymethods]
impl ReplayBuffer {
    #[new]
    #[pyo3(signature = (*_given, **_named))]
    fn new(
        _given: &Bound<'_, PyTuple>,
        _named: Option<&Bound<'_, PyDict>>,
    ) -> Result<Self, Failure> {
        let instead = "call ReplayBuffer.create(name, schema, capacity=...) or, for a ring that \
                       exists, ReplayBuffer.attach(name); libraries that make their buffer have \
                       backcast.sb3.ReplayBuffer and backcast.cleanrl.ReplayBuffer";
        Err(no_constructor("ReplayBuffer", instead))
    }

    /// Claim free lanes for writing.
    ///
    /// A lane whose writer died is free, and continues where it stopped with a new episode.
    ///
    /// Parameters
    /// ----------
    /// lanes : int, optional
    ///     Number of lanes; an append writes one row to each. 1 when left out.
    /// autoreset_mode : {"next_step", "same_step", "disabled"}, optional
    ///     Autoreset mode of the environments; or ``gymnasium.vector.AutoresetMode``. One lane is
    ///     ``"disabled"`` when left out: the caller resets. With several lanes the mode is
    ///     required: vector environments differ, and a wrong guess would store wrong transitions.
    /// env : gymnasium.Env or gymnasium.vector.VectorEnv, optional
    ///     Takes lanes and mode from the environment. A single environment is ``"disabled"``, under
    ///     ``gymnasium.wrappers.Autoreset`` it is ``"next_step"``.
    /// timeout : float, optional
    ///     Seconds that an append waits for the ring's :attr:`limiter`; without end when left out.
    ///
    /// Returns
    /// -------
    /// Writer
    ///     Owner of the lanes until it is closed or its process ends.
    ///
    /// Raises
    /// ------
    /// WriterError
    ///     If several lanes lack a mode, if what is given differs from `env`, or if fewer lanes are
    ///     free; the message names their holders.
    /// ArgumentError
    ///     If `env` is no environment of Gymnasium, or does not say how it resets.
    /// ClosedError
    ///     If the buffer was closed.
    ///
    /// Examples
    /// --------
    /// >>> buf = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=100, lanes=4)
    /// >>> buf.writer().autoreset_mode
    /// 'disabled'
    /// >>> buf.writer(lanes=2, autoreset_mode="same_step").lanes
    /// array([0, 1])
    #[pyo3(signature = (lanes=None, autoreset_mode=None, *, env=None, timeout=None))]
    #[pyo3(text_signature = "($self, lanes=None, autoreset_mode=None, *, env=None, timeout=None)")]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python call")]
    fn writer<'py>(
        &self,
        py: Python<'py>,
        lanes: Option<Argument<i128>>,
        autoreset_mode: Option<Argument<ChoiceName>>,
        env: Option<&Bound<'py, PyAny>>,
        timeout: Option<Argument<f64>>,
    ) -> Result<Writer, Failure> {
        let count = |lanes| count_in(lanes, "lanes", 1..=MAX_LANES, ErrorClass::Writer);
        let mut lanes = lanes.map(count).transpose()?;
        let mut mode =
            autoreset_mode.map(|mode| autoreset_mode_of(mode, ErrorClass::Writer)).transpose()?;
        if let Some(env) = env {
            let (its_lanes, word) = lanes_and_mode(env)?;
            let its_mode = autoreset_mode_of(word.as_str().into(), ErrorClass::Writer)?;
            let differs = |what: &str, given: String, its: String| {
                let text = format!("{what} is {given}, but env has {its}; leave {what} out");
                Failure::new(ErrorClass::Writer, text)
            };
            if let Some(lanes) = lanes.filter(|lanes| i128::from(*lanes) != its_lanes) {
                return Err(differs("lanes", lanes.to_string(), its_lanes.to_string()));
            }
            if let Some(mode) = mode.filter(|mode| *mode != its_mode) {
                return Err(differs(
                    "autoreset_mode",
                    format!("'{mode}'"),
                    format!("'{its_mode}'"),
                ));
            }
            lanes = Some(count(its_lanes.into())?);
            mode = Some(its_mode);
        }
        let mut options = WriterOptions::lanes(lanes.unwrap_or(1));
        if let Some(mode) = mode {
            options = options.autoreset(mode);
        }
        if let Some(limit) = timeout_of(timeout)? {
            options = options.timeout(limit);
        }
        Writer::open(py, self.ring.label(), &self.ring()?, options)
    }

    /// Open a table of learned columns, or create it.
    ///
    /// Parameters
    /// ----------
    /// name : str
    ///     Name of the table, among those of priorities and of claims too.
    /// learned : dict of str to dtype, optional
    ///     Columns, 1 to 16, each of one value a row: an identifier and a dtype of at most 4 bytes,
    ///     such as ``{"value": "f4"}``. When left out, the table must exist already.
    ///
    /// Returns
    /// -------
    /// LearnedTable
    ///     The table, for ``table.update_values(index, ...)`` and ``buf.sampler(learned=table)``. A
    ///     new one takes 8 bytes a row and column, and lasts as long as the ring.
    ///
    /// Raises
    /// ------
    /// ExistsError
    ///     If the table has other columns, or is of another kind; both are named.
    /// NotFoundError
    ///     If ``learned`` is left out and no such table exists.
    /// SchemaError
    ///     If a dtype is none that a column can have.
    /// SampleError
    ///     If batches have another entry under the name of a column, or its dtype is too wide.
    /// ClosedError
    ///     If the buffer was closed.
    ///
    /// Examples
    /// --------
    /// >>> buf = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=100)
    /// >>> buf.table("online", learned={"value": "f4"})
    /// <backcast.types.LearnedTable: the table 'online' of a private ring, value f4; 0 values set>
    /// >>> buf.table("online").columns
    /// {'value': 'f4'}
    #[pyo3(signature = (name=Argument::Missing, *, learned=None))]
    #[pyo3(text_signature = "($self, name, *, learned=None)")]
    fn table(
        &self,
        py: Python<'_>,
        name: Argument<String>,
        learned: Option<&Bound<'_, PyAny>>,
    ) -> Result<LearnedTable, Failure> {
        let name = name.get("name", "the name of a table")?;
        let options = learned.map(|columns| LearnedTable::options(&name, columns)).transpose()?;
        self.ask(py, |ring| LearnedTable::open(ring, self.ring.label(), &name, options))?
    }

    /// Number the transitions that the ring holds, without gaps.
    ///
    /// Returns
    /// -------
    /// TransitionOrder
    ///     Numbers by index and indices by number, lane by lane, oldest first. Reads the header of
    ///     every row once.
    ///
    /// Raises
    /// ------
    /// ClosedError
    ///     If the buffer was closed.
    ///
    /// Examples
    /// --------
    /// >>> buf = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=100)
    /// >>> with buf.writer() as writer:
    /// ...     for t in range(10):
    /// ...         at = writer.append(obs=t, terminated=False, truncated=False)
    /// >>> order = buf.transitions()
    /// >>> buf.gather(order.index_at(range(len(order))))["obs"][-3:]
    /// array([6., 7., 8.], dtype=float32)
    #[pyo3(signature = (), text_signature = "($self)")]
    fn transitions(&self, py: Python<'_>) -> Result<TransitionOrder, Failure> {
        self.ask(py, |ring| TransitionOrder::of(ring, self.ring.label()))
    }

    /// The rate limiter, or None for a ring that was created without one.
    ///
    /// Examples
    /// --------
    /// >>> limits = bc.RateLimiter(min_size=10)
    /// >>> buf = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=100, limiter=limits)
    /// >>> buf.limiter.limits
    /// RateLimiter(min_size=10)
    #[getter]
    fn limiter(&self, py: Python<'_>) -> Result<Option<Limiter>, Failure> {
        self.ask(py, |ring| Limiter::of(ring, self.ring.label()))
    }

    /// Release the ring, which stays for its other holders. Closing again does nothing.
    ///
    /// Writers and samplers made from this buffer hold the ring on their own.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn close(&self, py: Python<'_>) -> Result<(), Failure> {
        self.shut(py)
    }

    /// Remove the ring's name, even if it is persistent. Processes that have it open keep it.
    ///
    /// Does nothing if the ring has no name, or if the name is gone or belongs to another ring.
    ///
    /// Raises
    /// ------
    /// ClosedError
    ///     If the buffer was closed.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn unlink(&self, py: Python<'_>) -> Result<(), Failure> {
        Ok(self.ask(py, Ring::unlink)??)
    }

    /// Returns True even for an empty ring, so that `if buf:` tells a buffer from None.
    #[expect(clippy::unused_self, reason = "what Python calls")]
    fn __bool__(&self) -> bool {
        true
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) -> Result<(), Failure> {
        self.shut(py)
    }

    fn __repr__(&self) -> String {
        let state = self.ring.describe(|ring| {
            format!(
                "{}/{} transitions, {} lane{}",
                ring.len(),
                ring.capacity(),
                ring.lanes(),
                if ring.lanes() == 1 { "" } else { "s" }
            )
        });
        format!("<backcast.ReplayBuffer: {}, {state}>", self.ring.label())
    }

    /// Refuses unknown attributes, with a hint for the names of other libraries' append.
    #[expect(clippy::unused_self, reason = "what Python calls")]
    fn __getattr__(&self, name: &str) -> PyResult<()> {
        let hint = match name {
            "append" | "add" | "extend" | "push" | "put" | "insert" | "store" => {
                "; rows are appended by a writer: `with buf.writer() as w: w.append(...)`"
            }
            _ => "",
        };
        let message = format!("'ReplayBuffer' object has no attribute '{name}'{hint}");
        Err(PyAttributeError::new_err(message))
    }

    /// Return another handle on the same ring.
    fn __copy__(&self, py: Python<'_>) -> Result<Self, Failure> {
        let ring = self.ask(py, Ring::clone)?;
        Ok(Self { saved: self.saved.clone(), imported: self.imported, ..Self::of(ring) })
    }

    /// Return another handle on the same ring. Shared memory is not copied.
    fn __deepcopy__(&self, py: Python<'_>, _memo: &Bound<'_, PyAny>) -> Result<Self, Failure> {
        self.__copy__(py)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>, Failure> {
        let (name, path) = (self.name.as_deref(), self.path.as_deref());
        if let Some(reopened) = self.reopened(py)? {
            return Ok(reopened);
        }
        let (attach, (name, dir)) = reduce_by_name(py, "a buffer", "_attach_buffer", name, path)?;
        let on_unlinked = self.ask(py, Ring::unlinked_choice)?;
        Ok((attach, (name, dir, on_unlinked.as_str())).into_pyobject(py)?.into_any())
    }
}

/// Returns the number of sub-environments of a Gymnasium environment and its autoreset mode.
fn lanes_and_mode(env: &Bound<'_, PyAny>) -> PyResult<(i128, String)> {
    let module = env.py().import("backcast._autoreset")?;
    module.call_method1("lanes_and_mode", (env,))?.extract()
}

fn label(name: Option<&str>) -> String {
    name.map_or_else(|| "a private ring".to_owned(), |name| format!("ring '{name}'"))
}
