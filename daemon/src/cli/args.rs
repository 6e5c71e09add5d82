//! Options that several commands share.

use backcast_core::ObjectKind;
use clap::ValueEnum;

/// `--kind`: the namespace of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KindArg {
    /// A ring of transitions.
    Ring,
    /// A market panel.
    Panel,
    /// Parameters of a policy.
    Params,
}

impl From<KindArg> for ObjectKind {
    fn from(kind: KindArg) -> Self {
        match kind {
            KindArg::Ring => Self::Ring,
            KindArg::Panel => Self::Panel,
            KindArg::Params => Self::Params,
        }
    }
}
