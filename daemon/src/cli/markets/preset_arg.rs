//! `--preset` of commands that simulate a market.

use backcast_sim::{ConfigError, Preset};

use crate::cli::exit_status::{Exit, Fails};
use crate::text::parse::one_of;

/// Words of `--preset`.
const PRESETS: [&str; 5] = ["calm", "normal", "stressed", "flash", "teaching"];

/// Parses the name of a preset.
pub(super) fn preset(name: &str) -> Result<Preset, String> {
    one_of::<Preset>(&PRESETS)(name)
}

impl Fails for ConfigError {
    fn exit(&self) -> Exit {
        Exit::WrongUsage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_offered_are_the_presets() {
        assert_eq!(PRESETS, Preset::ALL.map(Preset::name));
        let refused = preset("norma").unwrap_err();
        assert_eq!(refused, "give calm, normal, stressed, flash or teaching; did you mean normal?");
    }
}
