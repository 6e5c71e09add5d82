//! Which exceptions the errors of transitions become.

use backcast_market::{PanelError, TransitionError};

use crate::error::{Failure, Kind, kind_of_io};

impl From<TransitionError> for Failure {
    fn from(error: TransitionError) -> Self {
        use TransitionError as E;
        let kind = match error {
            E::Ring(error) => return error.into(),
            E::Writer(error) => return error.into(),
            E::Append(error) => return error.into(),
            E::Read(error) => return error.into(),
            E::Panel(error) => return PanelError::into(error),
            E::BadShape { .. } | E::BadCapacity { .. } => Kind::Argument,
            E::WrongLength { .. }
            | E::BadDay { .. }
            | E::BadToken { .. }
            | E::TwiceTheTicker { .. }
            | E::NotFinite { .. } => Kind::Append,
            E::Lapped { .. } => Kind::Lapped,
            E::Damaged { .. } | E::NotTransitions { .. } | E::BadFile { .. } => Kind::Corrupt,
            E::Different { .. } => Kind::Exists,
            E::OtherPanel { .. } | E::OtherMacroTickers { .. } => Kind::Panel,
            E::OtherShape { .. } => Kind::Schema,
            E::HeldByOthers { .. } => Kind::InUse,
            E::NoPlace { .. } => Kind::Writer,
            E::File { ref source, .. } => kind_of_io(source),
            _ => Kind::Sample,
        };
        Self::new(kind, error)
    }
}
