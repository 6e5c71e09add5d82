//! The `select` argument: which transitions a sampler draws.

use backcast_core::{
    Beta, DType, InitialPriority, PriorityOptions, PriorityOrder, Selector, TableOptions,
    WeightNorm,
};
use numpy::PyArrayDyn;
use numpy::prelude::*;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyString};

use crate::argument::{Argument, whole, wrong_type};
use crate::array::convert::{Target, array_of};
use crate::error::{ErrorClass, Failure};
use crate::replay::sampler::options::Fields;
use crate::replay::sampler::priority::{PrioritySettings, alpha_as_object, alpha_of, beta_of};

/// Module of the classes of selectors.
const MODULE: &str = "backcast._select";
/// Classes of selectors.
const CLASSES: [&str; 7] =
    ["Priority", "Largest", "Smallest", "Recency", "LaneWeights", "Epoch", "Consume"];
/// Selectors without options.
const WORDS: [Selector; 4] =
    [Selector::Uniform, Selector::Fifo, Selector::Lifo, Selector::LaneStrata];
/// The accepted values.
const WANTED: &str = "\"uniform\", \"fifo\", \"lifo\", \"lane_strata\", or an object: \
                      bc.Priority(), bc.Largest(), bc.Smallest(), bc.Recency(half_life), \
                      bc.LaneWeights(weights), bc.Epoch() or bc.Consume()";
/// Words of selectors that have options, and the objects to give instead.
const OBJECTS: [(&str, &str); 9] = [
    ("priority", "bc.Priority()"),
    ("prioritized", "bc.Priority()"),
    ("prioritised", "bc.Priority()"),
    ("max_priority", "bc.Largest()"),
    ("min_priority", "bc.Smallest()"),
    ("recency", "bc.Recency(half_life)"),
    ("lane_weights", "bc.LaneWeights(weights)"),
    ("epoch", "bc.Epoch()"),
    ("consume", "bc.Consume()"),
];

/// Selector of a sampler, and the priorities that it needs.
pub(crate) struct SelectorSettings {
    pub(crate) selector: Selector,
    pub(crate) priorities: Option<PrioritySettings>,
}

fn refuse(message: String) -> Failure {
    Failure::new(ErrorClass::Sample, message)
}

impl SelectorSettings {
    /// Reads the `select` argument.
    pub(crate) fn new(select: Option<&Bound<'_, PyAny>>) -> Result<Self, Failure> {
        let Some(select) = select else { return Ok(Self::plain(Selector::Uniform)) };
        if let Ok(word) = select.cast::<PyString>() {
            return Self::named(&word.to_cow()?);
        }
        let Some((class, fields)) = Fields::of(select, MODULE, &CLASSES)? else {
            return Err(wrong_type(select, "select", WANTED));
        };
        match class {
            "Priority" => {
                let (options, schedule) = priority_of(&fields)?;
                let selector = Selector::Priority(options.clone());
                Ok(Self { selector, priorities: Some(PrioritySettings { options, schedule }) })
            }
            "Largest" => Ok(Self::ranked(Selector::MaxPriority, table_options_of(&fields, false)?)),
            "Smallest" => {
                Ok(Self::ranked(Selector::MinPriority, table_options_of(&fields, false)?))
            }
            "Recency" => {
                let wanted = "rows over which the weight of a transition halves, above 0";
                let half_life = fields.get::<f64>("half_life")?.get("half_life", wanted)?;
                Ok(Self::plain(Selector::Recency { half_life }))
            }
            "LaneWeights" => {
                let weights = lane_weights_of(&fields.any("weights")?)?;
                Ok(Self::plain(Selector::LaneWeights(weights)))
            }
            "Epoch" => {
                let options = TableOptions::epoch(&table_of(&fields)?);
                Ok(Self::plain(Selector::Table(claims_of(options, &fields)?)))
            }
            _ => {
                let wanted = "a whole number from 1 to 4294967295";
                let times = fields.get("max_times_sampled")?;
                let times = whole(times, "max_times_sampled", wanted, ErrorClass::Sample)?;
                let times = u32::try_from(times)
                    .map_err(|_| refuse(format!("max_times_sampled is {times}; give {wanted}")))?;
                let options = TableOptions::consume(&table_of(&fields)?).max_times_sampled(times);
                Ok(Self::plain(Selector::Table(claims_of(options, &fields)?)))
            }
        }
    }

    fn named(word: &str) -> Result<Self, Failure> {
        if let Some(selector) = WORDS.into_iter().find(|selector| selector.as_str() == word) {
            return Ok(Self::plain(selector));
        }
        let object = OBJECTS.iter().find(|(name, _)| *name == word);
        let remedy = object.map_or(WANTED, |(_, object)| object);
        Err(refuse(format!("select is '{word}'; give {remedy}")))
    }

    fn plain(selector: Selector) -> Self {
        Self { selector, priorities: None }
    }

    fn ranked(selector: fn(PriorityOptions) -> Selector, options: PriorityOptions) -> Self {
        let priorities = PrioritySettings { options: options.clone(), schedule: None };
        Self { selector: selector(options), priorities: Some(priorities) }
    }

    /// Returns the settings of a saved sampler. `select` is given again for its function `beta`,
    /// which no state has, and only for that.
    pub(crate) fn saved(
        selector: Selector,
        select: Option<&Bound<'_, PyAny>>,
    ) -> Result<Self, Failure> {
        let has_function = selector.priorities().is_some_and(|of| of.beta == Beta::Function);
        match select {
            None if has_function => Err(refuse(
                "the state is of a sampler whose beta is a function, which it does not have; give \
                 select=bc.Priority(...) with the function, beside state"
                    .to_owned(),
            )),
            Some(_) if !has_function => Err(refuse(
                "state is given, and select too; leave select out, the state has it".to_owned(),
            )),
            None => {
                let options = selector.priorities().cloned();
                let priorities =
                    options.map(|options| PrioritySettings { options, schedule: None });
                Ok(Self { selector, priorities })
            }
            Some(select) => {
                let mut given = Self::new(Some(select))?;
                if let (Selector::Priority(given), Some(saved)) =
                    (&mut given.selector, selector.priorities())
                {
                    // The form of the saved sampler determines the stride.
                    given.stride = saved.stride;
                }
                if given.selector == selector {
                    return Ok(given);
                }
                Err(refuse(
                    "select is not that of the state; give the same options, with the function \
                     beta, which the state does not have"
                        .to_owned(),
                ))
            }
        }
    }
}

/// Reads a `Priority`, and its `beta` if that is a function.
fn priority_of(fields: &Fields<'_, '_>) -> Result<(PriorityOptions, Option<Py<PyAny>>), Failure> {
    let given = fields.any("beta")?;
    let beta = beta_of(&given)?;
    let schedule = beta.is_none().then(|| given.unbind());
    let normalize =
        fields.get::<String>("normalize")?.get("normalize", "\"batch\" or \"table\"")?;
    let normalize: WeightNorm =
        normalize.parse().map_err(|error| Failure::of(ErrorClass::Sample, error))?;
    let stratified = fields.get::<bool>("stratified")?.get("stratified", "True or False")?;
    let by = fields.get::<String>("by")?.get("by", "\"priority\" or \"rank\"")?;
    let by: PriorityOrder = by.parse().map_err(|error| Failure::of(ErrorClass::Sample, error))?;
    let options = table_options_of(fields, true)?.beta(beta.unwrap_or(Beta::Function)).by(by);
    Ok((options.normalize(normalize).stratified(stratified), schedule))
}

/// Reads the settings of a table of priorities, whose exponent may change if `changes`.
fn table_options_of(fields: &Fields<'_, '_>, changes: bool) -> Result<PriorityOptions, Failure> {
    let alpha = alpha_of(&fields.any("alpha")?, changes)?;
    let eps = fields.get::<f64>("eps")?.get("eps", "a number from 0 up")?;
    let initial = fields.get::<String>("initial")?.get("initial", "\"ever\" or \"held\"")?;
    let initial: InitialPriority =
        initial.parse().map_err(|error| Failure::of(ErrorClass::Sample, error))?;
    Ok(PriorityOptions::alpha(alpha).eps(eps).initial(initial).table(&table_of(fields)?))
}

fn table_of(fields: &Fields<'_, '_>) -> Result<String, Failure> {
    fields.get::<String>("table")?.get("table", "the name of a table")
}

fn lane_weights_of(given: &Bound<'_, PyAny>) -> Result<Vec<f64>, Failure> {
    let target = Target { what: "weights", class: ErrorClass::Sample, dtype: DType::F64 };
    let weights = array_of(given, target)?;
    let weights = weights.cast::<PyArrayDyn<f64>>().map_err(PyErr::from)?;
    let weights = weights.readonly();
    Ok(weights.as_slice().map_err(|error| target.refuse(error))?.to_vec())
}

/// Reads whether a table of claims is shuffled, and its seed.
fn claims_of(options: TableOptions, fields: &Fields<'_, '_>) -> Result<TableOptions, Failure> {
    let shuffle = fields.get::<bool>("shuffle")?.get("shuffle", "True or False")?;
    let wanted = "a whole number from 0 up, of at most 64 bits";
    let seed: Argument<i128> = fields.get("seed")?;
    let seed = whole(seed, "seed", wanted, ErrorClass::Sample)?;
    Ok(options.shuffled(shuffle).seed(seed))
}

/// Returns a selector as the `select` argument takes it: a word, or an object. `beta` is used for a
/// `Priority`.
pub(super) fn in_python<'py>(
    py: Python<'py>,
    selector: &Selector,
    beta: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    let class = match selector {
        Selector::Recency { half_life } => {
            fields.set_item("half_life", half_life)?;
            "Recency"
        }
        Selector::LaneWeights(weights) => {
            fields.set_item("weights", weights)?;
            "LaneWeights"
        }
        Selector::Table(options) => {
            let settings = options.settings();
            fields.set_item("shuffle", settings.shuffled)?;
            fields.set_item("seed", settings.seed)?;
            fields.set_item("table", options.name())?;
            if settings.renewed {
                "Epoch"
            } else {
                fields.set_item("max_times_sampled", settings.times)?;
                "Consume"
            }
        }
        Selector::Priority(options)
        | Selector::MaxPriority(options)
        | Selector::MinPriority(options) => {
            fields.set_item("alpha", alpha_as_object(py, options.alpha)?)?;
            fields.set_item("eps", options.eps)?;
            fields.set_item("table", &options.table)?;
            fields.set_item("initial", options.initial.as_str())?;
            match selector {
                Selector::MaxPriority(_) => "Largest",
                Selector::MinPriority(_) => "Smallest",
                _ => {
                    fields.set_item("beta", beta)?;
                    fields.set_item("stratified", options.stratified)?;
                    fields.set_item("normalize", options.normalize.as_str())?;
                    fields.set_item("by", options.by.as_str())?;
                    "Priority"
                }
            }
        }
        word => return word.as_str().into_bound_py_any(py),
    };
    py.import(MODULE)?.getattr(class)?.call((), Some(&fields))
}

/// Returns whether the seed of the sampler decides which rows are drawn.
pub(crate) fn draws_by_seed(selector: &Selector) -> bool {
    matches!(
        selector,
        Selector::Uniform
            | Selector::Priority(_)
            | Selector::Recency { .. }
            | Selector::LaneWeights(_)
            | Selector::LaneStrata
    )
}
