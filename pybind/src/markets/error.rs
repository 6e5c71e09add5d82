//! Exception classes of the errors of panels, environments and markets.

use backcast_core::IoCause;
use backcast_gym::{PortfolioError, TradingError};
use backcast_market::{PanelError, WindowError};
use backcast_sim::ConfigError;

use crate::error::{ErrorClass, Failure, class_of_io};

impl From<PanelError> for Failure {
    fn from(error: PanelError) -> Self {
        match error {
            PanelError::Segment(error) => error.into(),
            PanelError::Read { ref source, .. } if !IoCause::of(source).is_of_path() => {
                Self::of(class_of_io(source), error)
            }
            error => Self::of(ErrorClass::Panel, error),
        }
    }
}

impl From<WindowError> for Failure {
    fn from(error: WindowError) -> Self {
        Self::of(ErrorClass::Panel, error)
    }
}

impl From<PortfolioError> for Failure {
    fn from(error: PortfolioError) -> Self {
        Self::of(ErrorClass::Env, error)
    }
}

impl From<TradingError> for Failure {
    fn from(error: TradingError) -> Self {
        if matches!(error, TradingError::Interrupted { .. }) {
            return Self::interrupted(error);
        }
        Self::of(ErrorClass::Env, error)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::of(ErrorClass::Sim, error)
    }
}
