//! Exception classes of the errors of transitions.

use backcast_market::{PanelError, TransitionError};

use crate::error::{ErrorClass, Failure, class_of_io};

impl From<TransitionError> for Failure {
    fn from(error: TransitionError) -> Self {
        use TransitionError as E;
        let class = match error {
            E::Ring(error) => return error.into(),
            E::Writer(error) => return error.into(),
            E::Append(error) => return error.into(),
            E::Read(error) => return error.into(),
            E::Panel(error) => return PanelError::into(error),
            E::BadShape { .. } | E::BadCapacity { .. } => ErrorClass::Argument,
            E::WrongLength { .. }
            | E::BadDay { .. }
            | E::BadToken { .. }
            | E::TwiceTheTicker { .. }
            | E::NotFinite { .. } => ErrorClass::Append,
            E::Lapped { .. } => ErrorClass::Lapped,
            E::Damaged { .. } | E::NotTransitions { .. } | E::BadFile { .. } => ErrorClass::Corrupt,
            E::Different { .. } => ErrorClass::Exists,
            E::OtherPanel { .. } | E::OtherMacroTickers { .. } => ErrorClass::Panel,
            E::OtherShape { .. } => ErrorClass::Schema,
            E::HeldByOthers { .. } => ErrorClass::InUse,
            E::NoPlace { .. } => ErrorClass::Writer,
            E::File { ref source, .. } => class_of_io(source),
            _ => ErrorClass::Sample,
        };
        Self::of(class, error)
    }
}
