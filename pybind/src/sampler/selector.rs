//! Keywords of Python that select which transitions a sampler draws.

use backcast_core::{DType, Selector, TableOptions};
use numpy::PyArrayDyn;
use numpy::prelude::*;
use pyo3::prelude::*;
use pyo3::types::PyAny;

use crate::argument::{Argument, whole};
use crate::array::convert::{Target, array_of};
use crate::error::{ErrorClass, Failure};
use crate::sampler::priority::{PriorityArguments, PrioritySettings};

/// Words for selectors.
const SELECTORS: &str = "\"uniform\", \"fifo\", \"lifo\", \"max_priority\", \"min_priority\", \
                         \"recency\", \"lane_weights\", \"lane_strata\", \"epoch\" or \"consume\"";

/// Keywords of selectors, before they are checked.
pub(crate) struct SelectorArguments<'a, 'py> {
    pub(crate) selector: Option<Argument<String>>,
    pub(crate) half_life: Option<Argument<f64>>,
    pub(crate) lane_weights: Option<&'a Bound<'py, PyAny>>,
    pub(crate) max_times_sampled: Option<Argument<i128>>,
    pub(crate) shuffle: Option<Argument<bool>>,
    pub(crate) table_seed: Option<Argument<i128>>,
}

/// Selector of a sampler, and the priorities that it needs.
pub(crate) struct SelectorSettings {
    pub(crate) selector: Selector,
    pub(crate) priorities: Option<PrioritySettings>,
}

impl SelectorArguments<'_, '_> {
    /// Returns the keywords that were given, in the order of the call.
    pub(crate) fn given(&self) -> [(&'static str, bool); 6] {
        [
            ("selector", self.selector.is_some()),
            ("half_life", self.half_life.is_some()),
            ("lane_weights", self.lane_weights.is_some()),
            ("max_times_sampled", self.max_times_sampled.is_some()),
            ("shuffle", self.shuffle.is_some()),
            ("table_seed", self.table_seed.is_some()),
        ]
    }
}

fn refuse(message: String) -> Failure {
    Failure::new(ErrorClass::Sample, message)
}

impl SelectorSettings {
    /// Reads the keywords.
    pub(crate) fn new(
        asked: SelectorArguments<'_, '_>,
        mut by: PriorityArguments<'_, '_>,
    ) -> Result<Self, Failure> {
        let given = asked.given();
        let SelectorArguments { selector, half_life, lane_weights, .. } = asked;
        let (times, shuffle, seed) = (asked.max_times_sampled, asked.shuffle, asked.table_seed);
        let word = selector.map(|word| word.get("selector", SELECTORS)).transpose()?;
        let word = word.as_deref().unwrap_or("uniform");
        let used: &[&str] = match word {
            "recency" => &["half_life"],
            "lane_weights" => &["lane_weights"],
            "epoch" => &["shuffle", "table_seed"],
            "consume" => &["max_times_sampled", "shuffle", "table_seed"],
            _ => &[],
        };
        let stray =
            |(name, given): &&(&str, bool)| *given && *name != "selector" && !used.contains(name);
        if let Some((name, _)) = given.iter().find(stray) {
            return Err(refuse(format!(
                "{name} is given, and the selector \"{word}\" does not use it; leave it out"
            )));
        }
        let claims = matches!(word, "epoch" | "consume");
        let table = if claims { by.table.take() } else { None };
        if !matches!(word, "uniform" | "max_priority" | "min_priority")
            && let Some((name, _)) = by.given().iter().find(|(_, given)| *given)
        {
            return Err(refuse(format!(
                "{name} is given, and the selector \"{word}\" does not use it; leave it out"
            )));
        }
        let alone = |selector| Ok(Self { selector, priorities: None });
        match word {
            "uniform" => {
                let priorities = PrioritySettings::new(by)?;
                let selector = priorities
                    .as_ref()
                    .map_or(Selector::Uniform, |of| Selector::Priority(of.options.clone()));
                Ok(Self { selector, priorities })
            }
            "max_priority" | "min_priority" => {
                let priorities = PrioritySettings::new(by)?.ok_or_else(|| {
                    refuse(format!(
                        "the selector \"{word}\" ranks by priority; give priority too, the \
                         exponent of the table, such as priority=0.6"
                    ))
                })?;
                let options = priorities.options.clone();
                let selector = match word {
                    "max_priority" => Selector::MaxPriority(options),
                    _ => Selector::MinPriority(options),
                };
                Ok(Self { selector, priorities: Some(priorities) })
            }
            "fifo" => alone(Selector::Fifo),
            "lifo" => alone(Selector::Lifo),
            "lane_strata" => alone(Selector::LaneStrata),
            "recency" => {
                const WANTED: &str = "rows over which the weight of a transition halves";
                let half_life = half_life.ok_or_else(|| {
                    refuse(format!("the selector \"recency\" needs half_life: {WANTED}"))
                })?;
                alone(Selector::Recency { half_life: half_life.get("half_life", WANTED)? })
            }
            "lane_weights" => {
                let weights = lane_weights.ok_or_else(|| {
                    let message = "the selector \"lane_weights\" needs lane_weights: one number \
                                   for each lane";
                    refuse(message.to_owned())
                })?;
                let target =
                    Target { what: "lane_weights", class: ErrorClass::Sample, dtype: DType::F64 };
                let weights = array_of(weights, target)?;
                let weights = weights.cast::<PyArrayDyn<f64>>().map_err(PyErr::from)?;
                let weights = weights.readonly();
                let weights = weights.as_slice().map_err(|error| target.refuse(error))?;
                alone(Selector::LaneWeights(weights.to_vec()))
            }
            "epoch" | "consume" => {
                let name = match table {
                    Some(table) => table.get("table", "the name of a table")?,
                    None => word.to_owned(),
                };
                let options = match word {
                    "epoch" => TableOptions::epoch(&name),
                    _ => TableOptions::consume(&name),
                };
                let options = claims_of(options, times, shuffle, seed)?;
                alone(Selector::Table(options))
            }
            other => Err(refuse(format!("selector is '{other}'; give {SELECTORS}"))),
        }
    }

    /// Returns the settings of a saved sampler, whose beta may be a function that is given again.
    pub(crate) fn saved(
        selector: Selector,
        beta: Option<&Bound<'_, PyAny>>,
    ) -> Result<Self, Failure> {
        let priorities = PrioritySettings::of_state(selector.priorities(), beta)?;
        Ok(Self { selector, priorities })
    }
}

/// Returns the word of a selector: draws in proportion to priority are `uniform` ones of a sampler
/// with `priority`.
pub(super) fn word_of(selector: &Selector) -> &'static str {
    match selector {
        Selector::Priority(_) => Selector::Uniform.as_str(),
        other => other.as_str(),
    }
}

/// Returns the name of the table that a selector draws by.
pub(super) fn table_of(selector: &Selector) -> Option<&str> {
    match selector {
        Selector::Table(options) => Some(options.name()),
        other => other.priorities().map(|options| options.table.as_str()),
    }
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

/// Reads the keywords of a table.
fn claims_of(
    mut options: TableOptions,
    times: Option<Argument<i128>>,
    shuffle: Option<Argument<bool>>,
    seed: Option<Argument<i128>>,
) -> Result<TableOptions, Failure> {
    if let Some(times) = times {
        let wanted = "a whole number from 1 to 4294967295";
        let times = whole(times, "max_times_sampled", wanted, ErrorClass::Sample)?;
        let times = u32::try_from(times)
            .map_err(|_| refuse(format!("max_times_sampled is {times}; give {wanted}")))?;
        options = options.max_times_sampled(times);
    }
    if let Some(shuffle) = shuffle {
        options = options.shuffled(shuffle.get("shuffle", "True or False")?);
    }
    if let Some(seed) = seed {
        let wanted = "a whole number from 0 up, of at most 64 bits";
        options = options.seed(whole(seed, "table_seed", wanted, ErrorClass::Sample)?);
    }
    Ok(options)
}
