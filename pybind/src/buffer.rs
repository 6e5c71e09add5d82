//! `backcast.ReplayBuffer`: a ring by name, for writers and learners of any process.

mod look;
mod make;
mod read;
mod resize;
mod snapshot;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use backcast_core::{MAX_LANES, Ring, WriterOptions};
use backcast_exchange::ImportReport;
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyTuple};

pub(crate) use self::look::seconds_of;
pub(crate) use self::make::{_attach_buffer, policy};
pub(crate) use self::snapshot::_open_snapshot;
use self::snapshot::Saved;
use crate::coerce::{autoreset_mode_of, count_in};
use crate::error::{Failure, Kind};
use crate::given::{Given, Word, method, not_called, refuse_strangers};
use crate::handle::Handle;
use crate::place::by_name;
use crate::sampler::{Draws, Windows};
use crate::schema::Schema;
use crate::writer::Writer;

/// Sampler settings that a buffer keeps ready for its own `sample` and `gather`.
const KEPT_DRAWS: usize = 4;

/// A ring of transitions in shared memory.
///
/// Made by :meth:`create`, joined by :meth:`attach` from any process at any time; saved to disk by
/// :meth:`snapshot`, and made of what was saved by :meth:`load` and :meth:`open_snapshot`. A context
/// manager; pickles by name, so that it can be handed to spawned processes, and copies to another
/// handle on the same ring. The ring goes when its last holder does, unless it is persistent.
/// Threads may share one; a forked child may not, and is told so. ``len`` is the transitions that
/// can be drawn, O(lanes).
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
    draws: Mutex<Vec<(Windows, Arc<Draws>)>>,
    /// What it was loaded from.
    saved: Option<Arc<Saved>>,
    /// What the import that made it read.
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

    /// Of a ring that was made of a file.
    pub(crate) fn of_imported(ring: Ring, report: ImportReport) -> Self {
        Self { imported: Some(report), ..Self::of(ring) }
    }

    /// The ring, for as long as the caller's call takes.
    pub(crate) fn ring(&self) -> Result<Ring, Failure> {
        self.ring.with(|ring| Ok(ring.clone()))
    }

    /// Ask the ring for something while the interpreter is released.
    fn ask<R: Send>(
        &self,
        py: Python<'_>,
        question: impl FnOnce(&Ring) -> R + Send,
    ) -> Result<R, Failure> {
        let ring = self.ring()?;
        Ok(py.detach(move || question(&ring)))
    }
}

#[pymethods]
impl ReplayBuffer {
    #[new]
    #[pyo3(signature = (*_given, **_named))]
    fn new(
        _given: &Bound<'_, PyTuple>,
        _named: Option<&Bound<'_, PyDict>>,
    ) -> Result<Self, Failure> {
        let instead = "call ReplayBuffer.create(name, schema, capacity=...) or, for a ring that \
                       exists, ReplayBuffer.attach(name)";
        Err(not_called("ReplayBuffer", instead))
    }

    /// Claim free lanes for writing.
    ///
    /// A lane whose writer died is free, and continues where it stopped with a new episode.
    ///
    /// Parameters
    /// ----------
    /// lanes : int, optional
    ///     How many; rows of an append go one to each. 1 when left out.
    /// autoreset_mode : {"next_step", "same_step", "disabled"}, optional
    ///     Who resets the environments, in Gymnasium's words; or ``gymnasium.vector.AutoresetMode``.
    ///     One lane is ``"disabled"`` when left out: the caller resets. Several lanes need it said, since
    ///     vector environments differ and a wrong guess would store wrong transitions.
    /// env : gymnasium.Env or gymnasium.vector.VectorEnv, optional
    ///     Takes lanes and mode from the environment. A single environment is ``"disabled"``, under
    ///     ``gymnasium.wrappers.Autoreset`` it is ``"next_step"``.
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
    ///     free; the message names who holds them.
    /// ArgumentError
    ///     If `env` is no environment of Gymnasium, or does not say how it resets.
    ///
    /// Examples
    /// --------
    /// >>> buf = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=100, lanes=4)
    /// >>> buf.writer().autoreset_mode
    /// 'disabled'
    /// >>> buf.writer(lanes=2, autoreset_mode="same_step").lanes
    /// array([0, 1])
    #[pyo3(signature = (lanes=None, autoreset_mode=None, *extra, env=None, **unknown))]
    #[pyo3(text_signature = "($self, lanes=None, autoreset_mode=None, *, env=None)")]
    fn writer<'py>(
        &self,
        py: Python<'py>,
        lanes: Option<Given<i128>>,
        autoreset_mode: Option<Given<Word>>,
        extra: &Bound<'py, PyTuple>,
        env: Option<&Bound<'py, PyAny>>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> Result<Writer, Failure> {
        refuse_strangers(extra, unknown, method::<Self>("writer"))?;
        let count = |lanes| count_in(lanes, "lanes", 1..=MAX_LANES, Kind::Writer);
        let mut lanes = lanes.map(count).transpose()?;
        let mut mode =
            autoreset_mode.map(|mode| autoreset_mode_of(mode, Kind::Writer)).transpose()?;
        if let Some(env) = env {
            let (its_lanes, word) = lanes_and_mode(env)?;
            let its_mode = autoreset_mode_of(word.as_str().into(), Kind::Writer)?;
            let differs = |what: &str, given: String, its: String| {
                let text = format!("{what} is {given}, but env has {its}; leave {what} out");
                Failure::new(Kind::Writer, text)
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
        let writer = self.ask(py, |ring| ring.writer(options))??;
        Ok(Writer::new(py, self.ring.label(), writer)?)
    }

    /// Let go of the ring, which stays for its other holders. Closing again does nothing.
    ///
    /// Writers and samplers made from this buffer hold the ring on their own.
    #[pyo3(signature = (*extra, **unknown), text_signature = "($self)")]
    fn close<'py>(
        &self,
        py: Python<'py>,
        extra: &Bound<'py, PyTuple>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> Result<(), Failure> {
        refuse_strangers(extra, unknown, method::<Self>("close"))?;
        self.shut(py)
    }

    /// Remove the ring's name, also of a persistent ring; who has it open keeps it.
    ///
    /// Nothing happens where the name is gone or another ring's by now, and where there never was one.
    ///
    /// Raises
    /// ------
    /// ClosedError
    ///     If the buffer was closed.
    #[pyo3(signature = (*extra, **unknown), text_signature = "($self)")]
    fn unlink<'py>(
        &self,
        py: Python<'py>,
        extra: &Bound<'py, PyTuple>,
        unknown: Option<&Bound<'py, PyDict>>,
    ) -> Result<(), Failure> {
        refuse_strangers(extra, unknown, method::<Self>("unlink"))?;
        Ok(self.ask(py, Ring::unlink)??)
    }

    /// A ring is true however few transitions it holds, so that `if buf:` asks for its existence.
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

    /// Asked for what a buffer has not: the names that rows are appended by elsewhere.
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

    /// Another handle on the same ring.
    fn __copy__(&self, py: Python<'_>) -> Result<Self, Failure> {
        let ring = self.ask(py, Ring::clone)?;
        Ok(Self { saved: self.saved.clone(), imported: self.imported, ..Self::of(ring) })
    }

    /// Another handle on the same ring: what is shared is not copied.
    fn __deepcopy__(&self, py: Python<'_>, _memo: &Bound<'_, PyAny>) -> Result<Self, Failure> {
        self.__copy__(py)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>, Failure> {
        let (name, path) = (self.name.as_deref(), self.path.as_deref());
        if let Some(reopened) = self.reopened(py)? {
            return Ok(reopened);
        }
        let (attach, (name, dir)) = by_name(py, "a buffer", "_attach_buffer", name, path)?;
        let on_unlinked = self.ask(py, Ring::unlinked_choice)?;
        Ok((attach, (name, dir, on_unlinked.as_str())).into_pyobject(py)?.into_any())
    }
}

/// The sub-environments of a Gymnasium environment, and its autoreset mode.
fn lanes_and_mode(env: &Bound<'_, PyAny>) -> PyResult<(i128, String)> {
    let module = env.py().import("backcast._autoreset")?;
    module.call_method1("lanes_and_mode", (env,))?.extract()
}

fn label(name: Option<&str>) -> String {
    name.map_or_else(|| "a private ring".to_owned(), |name| format!("ring '{name}'"))
}
