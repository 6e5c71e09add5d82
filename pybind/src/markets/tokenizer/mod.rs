//! `backcast.finrl.TickerTokenizer`: tickers as integers, for embeddings.

mod nested;

use std::path::PathBuf;

use backcast_core::DType;
use backcast_market::{
    TickerTokenizer as CoreTokenizer, TokenError, TokenFileError, UnknownTicker, Vocabulary,
};
use backcast_pybind_macros::exact_arguments;
use numpy::prelude::*;
use numpy::{PyArray1, PyArrayDyn};
use pyo3::prelude::*;
use pyo3::types::PyString;

use self::nested::{Nested, nest};
use crate::argument::{Argument, file_of, read, required};
use crate::array::convert::{Target, array_of};
use crate::error::{ErrorClass, Failure, bad_argument, class_of_io};

/// Maps tickers to small stable integers, and back.
///
/// Token 0 is ``<CASH>``; tickers have the tokens from 1 up, in the order in which they were first
/// encoded. Threads may share a tokenizer; pickles and copies have all its state.
///
/// Parameters
/// ----------
/// tickers : sequence of str
///     Tickers known from the start; the first has token 1.
/// frozen : bool
///     Add no further tickers.
/// unknown : {"error", "unk"}
///     Policy of a frozen tokenizer for an unknown name: an error, or the token of ``<UNK>``, which
///     freezing adds after all others.
///
/// Raises
/// ------
/// ArgumentError
///     If a ticker is named twice, is empty, or is ``<CASH>`` or ``<UNK>``. (``<UNK>`` may stand
///     among the ``tickers`` of another one, with ``unknown="unk"``: it keeps its token.)
///
/// Examples
/// --------
/// >>> from backcast.finrl import TickerTokenizer
/// >>> tokenizer = TickerTokenizer()
/// >>> tokenizer.encode_batch([["AAPL", "MSFT"], ["MSFT", "<CASH>"]])
/// array([[1, 2],
///        [2, 0]], dtype=int32)
/// >>> tokenizer.decode(2), tokenizer.vocab_size
/// ('MSFT', 3)
#[pyclass(module = "backcast.finrl", name = "TickerTokenizer", frozen)]
pub(crate) struct TickerTokenizer(CoreTokenizer);

const NAME: &str = "the name of a ticker, such as \"AAPL\"";
const NAMES: &str = "names of tickers in a list, a list of lists or an array";

#[exact_arguments]
#[pymethods]
impl TickerTokenizer {
    #[new]
    #[pyo3(signature = (tickers=None, *, frozen=false.into(), unknown="error".into()))]
    #[pyo3(text_signature = "(tickers=(), *, frozen=False, unknown='error')")]
    fn new(
        tickers: Option<&Bound<'_, PyAny>>,
        frozen: Argument<bool>,
        unknown: Argument<String>,
    ) -> Result<Self, Failure> {
        let names = match tickers {
            None => Vec::new(),
            Some(tickers) => {
                let wanted = "a sequence of names, such as [\"AAPL\", \"MSFT\"]";
                read::<Vec<String>>(tickers, "tickers", wanted)?
            }
        };
        let frozen = frozen.get("frozen", "True or False")?;
        let unknown = unknown_of(unknown)?;
        Ok(Self(CoreTokenizer::from(Vocabulary::of(names, frozen, unknown)?)))
    }

    /// Return the token of a ticker, and add a new ticker unless the tokenizer is frozen.
    ///
    /// Parameters
    /// ----------
    /// tic : str
    ///     Its name, or ``"<CASH>"``.
    ///
    /// Returns
    /// -------
    /// int
    ///     0 for ``<CASH>``, else 1 or more.
    ///
    /// Raises
    /// ------
    /// ArgumentError
    ///     If the name is empty, new to a frozen tokenizer, or is ``<UNK>`` where freezing gave it
    ///     no token.
    #[pyo3(signature = (tic=Argument::Missing))]
    #[pyo3(text_signature = "($self, tic)")]
    fn encode(&self, tic: Argument<String>) -> Result<i32, Failure> {
        let name = tic.get("tic", NAME)?;
        if name.is_empty() {
            return Err(bad_argument("tic is ''; give the name of a ticker"));
        }
        Ok(self.0.encode(&[name])?.first().copied().unwrap_or_default())
    }

    /// Return the tokens of many tickers, as :meth:`encode`.
    ///
    /// An error adds no ticker, except that tickers which fit are added if there are too many.
    ///
    /// Parameters
    /// ----------
    /// tics : sequence of str, sequence of sequences, or array of str
    ///     Names, in any number of axes.
    ///
    /// Returns
    /// -------
    /// ndarray of int32
    ///     In the shape of the names.
    ///
    /// Raises
    /// ------
    /// ArgumentError
    ///     If a name is refused by :meth:`encode`, or the lists are of unequal length.
    #[pyo3(signature = (tics=None))]
    #[pyo3(text_signature = "($self, tics)")]
    fn encode_batch<'py>(
        &self,
        py: Python<'py>,
        tics: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyArrayDyn<i32>>, Failure> {
        let mut nested = Nested::default();
        nested.read(required(tics, "tics", NAMES)?, 0)?;
        let tokens = self.0.encode(&nested.names)?;
        Ok(PyArray1::from_vec(py, tokens).reshape(nested.shape)?)
    }

    /// Return the ticker of a token.
    ///
    /// Parameters
    /// ----------
    /// token_id : int
    ///     Token as from :meth:`encode`.
    ///
    /// Returns
    /// -------
    /// str
    ///     ``"<CASH>"`` for 0.
    ///
    /// Raises
    /// ------
    /// ArgumentError
    ///     If no ticker has the token.
    #[pyo3(signature = (token_id=Argument::Missing))]
    #[pyo3(text_signature = "($self, token_id)")]
    fn decode(&self, token_id: Argument<i128>) -> Result<String, Failure> {
        let token = token_id.get("token_id", "a whole number, as encode returned it")?;
        Ok(self.0.decode(&[token])?.concat())
    }

    /// Return the tickers of many tokens.
    ///
    /// Parameters
    /// ----------
    /// token_ids : array_like of int
    ///     Tokens as from :meth:`encode_batch`, with any number of axes.
    ///
    /// Returns
    /// -------
    /// list
    ///     Names, nested like the tokens' axes.
    ///
    /// Raises
    /// ------
    /// ArgumentError
    ///     If no ticker has one of the tokens.
    #[pyo3(signature = (token_ids=None))]
    #[pyo3(text_signature = "($self, token_ids)")]
    fn decode_batch<'py>(
        &self,
        py: Python<'py>,
        token_ids: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        let given = required(token_ids, "token_ids", "an array of tokens")?;
        let target = Target { what: "token_ids", class: ErrorClass::Argument, dtype: DType::I64 };
        let array = array_of(given, target)?;
        let array = array.cast::<PyArrayDyn<i64>>().map_err(PyErr::from)?.readonly();
        let tokens = array.as_slice().map_err(|error| Failure::new(ErrorClass::Argument, error))?;
        let names = self.0.decode(tokens)?;
        let names: Vec<_> = names.iter().map(|name| PyString::new(py, name).into_any()).collect();
        Ok(nest(py, &names, array.shape())?)
    }

    /// Save as a JSON file, atomically.
    ///
    /// Parameters
    /// ----------
    /// path : path
    ///     The file.
    ///
    /// Raises
    /// ------
    /// SpaceError
    ///     If the disk is full.
    /// StorageError
    ///     If the file cannot be written for another reason.
    #[pyo3(signature = (path=Argument::Missing))]
    #[pyo3(text_signature = "($self, path)")]
    fn save(&self, py: Python<'_>, path: Argument<PathBuf>) -> Result<(), Failure> {
        let path = file_of(path, "path", "the path of a file")?;
        Ok(py.detach(|| self.0.save(path))?)
    }

    /// Load a saved tokenizer, with its settings. A damaged file is refused.
    ///
    /// Parameters
    /// ----------
    /// path : path
    ///     File that :meth:`save` wrote.
    ///
    /// Raises
    /// ------
    /// StorageError
    ///     If the file cannot be read; the tokenizer is unchanged.
    /// CorruptError
    ///     If the file is no saved tokenizer, or is damaged; the tokenizer is unchanged.
    #[pyo3(signature = (path=Argument::Missing))]
    #[pyo3(text_signature = "($self, path)")]
    fn load(&self, py: Python<'_>, path: Argument<PathBuf>) -> Result<(), Failure> {
        let path = file_of(path, "path", "the path of a file")?;
        Ok(py.detach(|| self.0.load(path))?)
    }

    /// Add no further tickers: new names are an error or ``<UNK>``, as `unknown` says.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn freeze(&self) -> Result<(), Failure> {
        self.0.freeze();
        Ok(())
    }

    /// Add new tickers again.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn unfreeze(&self) -> Result<(), Failure> {
        self.0.unfreeze();
        Ok(())
    }

    /// Whether new tickers are no longer added.
    #[getter]
    fn frozen(&self) -> bool {
        self.0.vocabulary().is_frozen()
    }

    /// Rule of a frozen tokenizer for new names: ``"error"`` or ``"unk"``.
    #[getter]
    fn unknown(&self) -> &'static str {
        match self.0.vocabulary().unknown() {
            UnknownTicker::Error => "error",
            UnknownTicker::Unk => "unk",
        }
    }

    /// Number of tokens, ``<CASH>`` included: the rows of an embedding.
    #[getter]
    fn vocab_size(&self) -> usize {
        self.0.vocab_size()
    }

    /// The tickers in the order of their tokens, from token 1 on.
    #[getter]
    fn tickers(&self) -> Vec<String> {
        self.0.vocabulary().names().iter().map(ToString::to_string).collect()
    }

    fn __len__(&self) -> usize {
        self.0.vocab_size()
    }

    fn __contains__(&self, tic: &Bound<'_, PyAny>) -> bool {
        tic.extract::<String>().is_ok_and(|name| self.0.find(&name).is_some())
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        let other = other.cast::<Self>();
        other.is_ok_and(|other| other.get().0.vocabulary() == self.0.vocabulary())
    }

    fn __repr__(&self) -> String {
        let vocabulary = self.0.vocabulary();
        let state = if vocabulary.is_frozen() { "frozen" } else { "growing" };
        format!(
            "<backcast.finrl.TickerTokenizer: {} tickers, {state}, unknown '{}'>",
            vocabulary.names().len(),
            self.unknown()
        )
    }

    fn __copy__(&self) -> Self {
        Self(CoreTokenizer::from(self.0.vocabulary()))
    }

    fn __deepcopy__(&self, _memo: &Bound<'_, PyAny>) -> Self {
        self.__copy__()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        let restore = py.import("backcast._native")?.getattr("_restore_tokenizer")?;
        Ok((restore, (self.0.to_json(),)))
    }
}

/// Restore a pickled tokenizer.
#[pyfunction]
pub(crate) fn _restore_tokenizer(json: &str) -> Result<TickerTokenizer, Failure> {
    let made = CoreTokenizer::from_json(json);
    made.map(TickerTokenizer).map_err(|problem| Failure::new(ErrorClass::Corrupt, problem))
}

fn unknown_of(given: Argument<String>) -> Result<UnknownTicker, Failure> {
    const CHOICE: &str = "\"error\" or \"unk\"";
    match given.get("unknown", CHOICE)?.as_str() {
        "error" => Ok(UnknownTicker::Error),
        "unk" => Ok(UnknownTicker::Unk),
        other => Err(bad_argument(format!("unknown is '{other}'; give {CHOICE}"))),
    }
}

impl From<TokenError> for Failure {
    fn from(error: TokenError) -> Self {
        Self::new(ErrorClass::Argument, error)
    }
}

impl From<TokenFileError> for Failure {
    fn from(error: TokenFileError) -> Self {
        let kind = match &error {
            TokenFileError::Damaged { .. } => ErrorClass::Corrupt,
            TokenFileError::Io { source, .. } => class_of_io(source),
            _ => ErrorClass::Storage,
        };
        Self::new(kind, error)
    }
}
