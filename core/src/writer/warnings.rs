//! Warnings of a writer: appends that suggest a wrong autoreset mode, and observations that do not
//! continue each other.

use std::fmt;
use std::sync::Arc;

use backcast_layout::DType;

use crate::autoreset::AutoresetMode;
use crate::ring::Ring;
use crate::ring::notices::{NoticeKind, Notices};

/// Fewest steps with `next_obs` before a share of cuts is reported.
const FEWEST: u64 = 20;
/// Cuts are reported if they are more than one in this many appends: 5 %.
const ONE_IN: u64 = 20;

/// A suspected misuse of a writer, after which rows may not mean what the caller intends. Each kind
/// is reported once per writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriterWarning {
    /// Episodes were cut because an append's `obs` differed from the `next_obs` of the one before.
    Cuts {
        /// Episodes cut so far.
        cuts: u64,
        /// Rows so far whose `next_obs` the next append must show.
        appends: u64,
    },
    /// The beginning of an episode suggests another mode.
    Reset {
        /// Position in the writer's lanes.
        lane: usize,
        /// The writer's mode.
        mode: AutoresetMode,
        /// Hint at the wrong mode.
        hint: ResetHint,
    },
}

/// Hint at a wrong autoreset mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetHint {
    /// The first observation of an episode is the last one of the episode before.
    Repeated,
    /// The append after an end, which brings the final observation in next-step mode, shows another
    /// observation than the `next_obs` of the end.
    Differs,
    /// The append after an end has a reward or ends an episode, which a step that only resets does
    /// not.
    Acted,
}

impl fmt::Display for WriterWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            WriterWarning::Cuts { cuts, appends } => write!(
                f,
                "{cuts} of {appends} appends began with another `obs` than the `next_obs` of the \
                 append before; each cut an episode there, so that no transition leads across. \
                 Pass the observation that the step returned, unchanged, as the next `obs`, and \
                 call `restart` after a reset in mid-episode"
            ),
            WriterWarning::Reset { lane, mode, hint } => {
                let (seen, likely) = match hint {
                    ResetHint::Repeated => (
                        "the first observation of an episode is the last one of the episode before",
                        if mode == AutoresetMode::SameStep {
                            "If the step after an end resets, the mode is \"next_step\""
                        } else {
                            "If the step after an end resets, the mode is \"next_step\"; if the \
                             step that ends resets, so that `next_obs` was the reset's \
                             observation, it is \"same_step\""
                        },
                    ),
                    ResetHint::Differs => (
                        "the append after an end shows another observation than the `next_obs` of \
                         the end; its action and reward were dropped",
                        "If you reset the environment yourself, or leave out the step that resets, \
                         the mode is \"disabled\"",
                    ),
                    ResetHint::Acted => (
                        "the append after an end has a reward or an end, which a step that only \
                         resets has not; its action and reward were dropped, and its observation \
                         is the final one unless the end had a `next_obs`",
                        "If the step that ends resets, the mode is \"same_step\"; if you reset the \
                         environment yourself, it is \"disabled\"",
                    ),
                };
                write!(
                    f,
                    "lane {lane} of a writer in autoreset_mode \"{mode}\": {seen}. {likely}. The \
                     statistics of the ring count such resets"
                )
            }
        }
    }
}

/// Counters and pending warnings of a writer.
#[derive(Debug)]
pub(super) struct WriterWarnings {
    /// Warnings of the handle.
    notices: Arc<Notices>,
    /// Rows whose `next_obs` the next append must show.
    pub(super) appends: u64,
    cuts: u64,
    cuts_reported: bool,
    reset_reported: bool,
    pending: Vec<WriterWarning>,
}

impl WriterWarnings {
    pub(super) fn of(ring: &Ring) -> Self {
        let (notices, pending) = (Arc::clone(ring.notice_log()), Vec::new());
        let (appends, cuts, cuts_reported, reset_reported) = (0, 0, false, false);
        Self { notices, appends, cuts, cuts_reported, reset_reported, pending }
    }

    /// Counts an episode cut. The number of steps before a report grows with `lanes`, which may all
    /// be reset in one step.
    pub(super) fn cut(&mut self, lanes: usize) {
        self.cuts += 1;
        let (cuts, appends) = (self.cuts, self.appends);
        let fewest = FEWEST * lanes as u64;
        if !self.cuts_reported && appends >= fewest && cuts * ONE_IN > appends {
            self.cuts_reported = true;
            self.report(WriterWarning::Cuts { cuts, appends });
        }
    }

    /// Records a suspect beginning of an episode.
    pub(super) fn reset(&mut self, lane: usize, mode: AutoresetMode, hint: ResetHint) {
        if !self.reset_reported {
            self.reset_reported = true;
            self.report(WriterWarning::Reset { lane, mode, hint });
        }
    }

    fn report(&mut self, warning: WriterWarning) {
        self.notices.warn(NoticeKind::SuspectRows, warning.to_string());
        self.pending.push(warning);
    }

    #[inline]
    pub(super) fn has_warnings(&self) -> bool {
        !self.pending.is_empty()
    }

    pub(super) fn take(&mut self) -> Option<WriterWarning> {
        self.pending.pop()
    }
}

/// Returns whether a row has an element other than zero.
pub(super) fn is_nonzero(dtype: DType, row: &[u8]) -> bool {
    let sign = match dtype {
        DType::F16 | DType::BF16 | DType::F32 | DType::F64 => 0x80,
        _ => 0,
    };
    let size = dtype.size();
    let sign_at = if cfg!(target_endian = "little") { size - 1 } else { 0 };
    let mask = |at: usize| if at % size == sign_at { !sign } else { 0xFF };
    row.iter().enumerate().any(|(at, byte)| byte & mask(at) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reward_is_nonzero_if_any_bit_but_the_sign_of_an_element_is_set() {
        for dtype in DType::ALL {
            let size = dtype.size();
            let zeros = vec![0_u8; 3 * size];
            assert!(!is_nonzero(dtype, &zeros), "{dtype}");
            let has_sign = matches!(dtype, DType::F16 | DType::BF16 | DType::F32 | DType::F64);
            let sign_at = if cfg!(target_endian = "little") { size - 1 } else { 0 };
            for (at, bit) in (0..3 * size).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
                let mut row = zeros.clone();
                row[at] = 1 << bit;
                let is_sign = has_sign && bit == 7 && at % size == sign_at;
                assert_eq!(is_nonzero(dtype, &row), !is_sign, "{dtype}: {row:?}");
            }
        }
        assert!(!is_nonzero(DType::F32, &(-0.0_f32).to_ne_bytes()));
        assert!(!is_nonzero(DType::F64, &(-0.0_f64).to_ne_bytes()));
        assert!(is_nonzero(DType::F64, &f64::MIN_POSITIVE.to_ne_bytes()));
        assert!(is_nonzero(DType::I32, &i32::MIN.to_ne_bytes()));
    }
}
