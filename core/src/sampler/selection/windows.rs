//! Windows of drawn transitions: which are refused, and why nothing could be drawn.

use crate::error::{FormError, SampleError};
use crate::sampler::boundary::Boundary;
use crate::sampler::columns::SelectedColumns;
use crate::sampler::eligibility::Eligibility;
use crate::sampler::episodes::WholeEpisodes;
use crate::sampler::form::{Form, Sequence};
use crate::sampler::options::DrawOptions;
use crate::sampler::rollouts::Rollout;
use crate::sampler::window::{RowHeaders, StartRule, Window, WindowExtent};

/// Windows that a sampler asks for, and which of them may be drawn.
#[derive(Clone, Copy, Debug)]
pub(in crate::sampler) struct DrawnWindows {
    /// Transitions of the longest history, at least that of the drawn one.
    history: u32,
    future: u32,
    form: Form,
    boundary: Boundary,
    rule: StartRule,
}

impl DrawnWindows {
    pub(in crate::sampler) fn of(
        options: &DrawOptions,
        columns: &SelectedColumns,
        rule: StartRule,
    ) -> Self {
        let DrawOptions { future, boundary, form, .. } = *options;
        let history = columns.longest().unwrap_or(1);
        Self { history, future, form, boundary, rule }
    }

    /// Returns the whole episodes, if they are drawn.
    pub(super) fn episodes(&self) -> Option<WholeEpisodes> {
        self.form.episodes()
    }

    /// Returns the rollouts, if they are drawn.
    pub(super) fn rollout(&self) -> Option<Rollout> {
        self.form.rollout()
    }

    /// Returns the rule for the transitions that may be drawn. The boundary may refuse more.
    #[inline]
    pub(in crate::sampler) fn rule(&self) -> StartRule {
        self.rule
    }

    pub(in crate::sampler) fn boundary(&self) -> Boundary {
        self.boundary
    }

    /// Returns whether some transitions are left out for their windows.
    pub(super) fn leave_out(&self) -> bool {
        self.boundary != Boundary::Mask || !self.rule.is_all() || self.episodes().is_some()
    }

    /// Returns whether the boundary accepts this window.
    pub(in crate::sampler) fn suits(
        &self,
        window: Window,
        headers: RowHeaders<'_>,
        extent: WindowExtent,
    ) -> bool {
        match self.boundary {
            Boundary::Mask => true,
            Boundary::Reject => window.is_whole(extent),
            // A row inside an episode does not become the first one when its predecessors are
            // overwritten.
            Boundary::Clamp => headers.has_history(window, extent.back),
        }
    }

    /// Returns the error that says why nothing can be drawn. O(rows).
    pub(super) fn nothing(&self, eligibility: &Eligibility) -> SampleError {
        let Self { history, future, form, boundary, rule } = *self;
        if let Some((rows, max)) = eligibility.too_old_rows() {
            let is_age = match form.episodes() {
                Some(WholeEpisodes { max_length, .. }) => {
                    eligibility.has_episodes_of_any_age(max_length.map_or(u64::MAX, u64::from))
                }
                None => eligibility.longest_run() == 0,
            };
            if is_age {
                let (max_age, max_policy_age) = (max.rows, max.versions);
                return SampleError::TooOld { rows, max_age, max_policy_age };
            }
        }
        if let Some(WholeEpisodes { max_length, .. }) = form.episodes() {
            let rows = eligibility.ranges().readable_rows();
            return FormError::NoneComplete { max_length, rows }.into();
        }
        let longest = eligibility.longest_run();
        if let Some(Sequence { length, .. }) = form.sequence().filter(|_| longest > 0) {
            let whole = boundary == Boundary::Reject;
            return FormError::NoSequence { length, whole, longest }.into();
        }
        // Under `Mask` a single transition is enough. If `longest` is above 0 there, a transition
        // was published after the draws failed, and `Empty` is returned.
        let needed = match boundary {
            Boundary::Reject => u64::from(history) + u64::from(future),
            Boundary::Mask | Boundary::Clamp => 1,
        };
        if longest >= needed && !rule.is_all() {
            let (first, stride) = rule.parts();
            return SampleError::NoStride { history, stride, first, longest };
        }
        if longest > 0 && boundary == Boundary::Clamp {
            return SampleError::NoHistory { history, longest };
        }
        if longest == 0 || boundary != Boundary::Reject {
            return SampleError::Empty { rows: eligibility.ranges().readable_rows() };
        }
        SampleError::NoWindow { history, future, needed, longest }
    }

    /// Says for an error which claimed rows are left out for their windows, if some are.
    pub(super) fn left_out_in_words(&self) -> Option<String> {
        let Self { history, future, .. } = *self;
        match self.boundary {
            _ if self.episodes().is_some() => {
                let only = "only the first rows of complete episodes are drawn; end the episodes";
                Some(only.to_owned())
            }
            Boundary::Reject if history > 1 || future > 0 => Some(format!(
                "boundary \"reject\" leaves out claimed rows whose window of history {history} and \
                 future {future} does not lie whole in one episode: ask for shorter windows, or \
                 for boundary \"mask\""
            )),
            Boundary::Clamp if history > 1 => Some(format!(
                "boundary \"clamp\" leaves out claimed rows whose history of {history} has lost \
                 its beginning to newer rows: ask for a shorter history, or for boundary \"mask\""
            )),
            _ => None,
        }
    }
}
