//! Identity of the panel that a shared ring's days and tokens refer to: a file in the ring's
//! directory.

use std::{fs, path::Path};

use backcast_files::write_atomically;
use serde::{Deserialize, Serialize};

use super::error::TransitionError;
use crate::panel::Panel;

const FILE: &str = "transitions.json";
const FORMAT: &str = "backcast-transitions";
const VERSION: u32 = 1;
/// Default lag of indicators, in days.
pub(crate) const INDICATOR_LAG: usize = 1;
/// Maximum bytes of the file that are read.
const MAX_BYTES: u64 = 1 << 20;

/// Facts that a process needs to join the ring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Identity {
    format: String,
    version: u32,
    /// Fingerprint of the panel, equal for equal panels.
    pub(crate) fingerprint: String,
    /// Macro tickers of the panel; `None` in rings of earlier versions.
    #[serde(default)]
    pub(crate) macro_tickers: Option<Vec<String>>,
    /// Name under which the panel is shared; `None` for a panel in private memory.
    pub(crate) panel: Option<String>,
    /// Transitions over all lanes.
    pub(crate) capacity: u64,
    /// First day that future windows do not show; `None` for the end of the panel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) end: Option<usize>,
    /// Days by which the indicators of observations are older than the open. `None` in rings of
    /// earlier versions, and for [`INDICATOR_LAG`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) indicator_lag: Option<usize>,
}

/// Refuses a panel that is not the one whose days and tokens are stored in `what`.
pub(crate) fn same_panel(
    what: impl FnOnce() -> String,
    fingerprint: &str,
    macro_tickers: Option<&[String]>,
    panel: &Panel,
) -> Result<(), TransitionError> {
    if fingerprint == panel.fingerprint() {
        return Ok(());
    }
    // The fingerprint also covers the macro tickers. The program names them; price files do not.
    let others = macro_tickers.filter(|names| panel.fingerprint_with(names) == fingerprint);
    Err(match others {
        Some(names) => TransitionError::OtherMacroTickers {
            what: what(),
            expected: names.to_vec(),
            found: panel.macro_tickers(),
        },
        None => TransitionError::OtherPanel {
            what: what(),
            expected: fingerprint.to_owned(),
            found: panel.fingerprint().to_owned(),
        },
    })
}

impl Identity {
    pub(crate) fn check(&self, ring: &str, panel: &Panel) -> Result<(), TransitionError> {
        let macro_tickers = self.macro_tickers.as_deref();
        same_panel(|| format!("ring {ring:?}"), &self.fingerprint, macro_tickers, panel)
    }

    pub(crate) fn of(
        panel: &Panel,
        capacity: u64,
        end: Option<usize>,
        indicator_lag: usize,
    ) -> Self {
        // Earlier versions refuse unknown fields, so the default is left out.
        let indicator_lag = (indicator_lag != INDICATOR_LAG).then_some(indicator_lag);
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            fingerprint: panel.fingerprint().to_owned(),
            macro_tickers: Some(panel.macro_tickers()),
            panel: panel.name().map(str::to_owned),
            capacity,
            end,
            indicator_lag,
        }
    }

    /// Writes the identity into the ring's directory, which is removed with the ring.
    pub(crate) fn write(&self, ring: &Path) -> Result<(), TransitionError> {
        let path = ring.join(FILE);
        // Strings and numbers always have a JSON form.
        let json = serde_json::to_vec(self).unwrap_or_default();
        write_atomically(&path, |file| std::io::Write::write_all(file, &json))
            .map_err(|source| TransitionError::File { operation: "write", path, source })
    }

    pub(crate) fn read(ring: &Path, name: &str) -> Result<Self, TransitionError> {
        let path = ring.join(FILE);
        let not = |what: String| TransitionError::NotTransitions { name: name.to_owned(), what };
        let bytes = fs::metadata(&path).map_err(|_| not(format!("it has no {FILE}")))?.len();
        if bytes > MAX_BYTES {
            return Err(not(format!("its {FILE} has {bytes} bytes")));
        }
        let json = fs::read(&path).map_err(|error| not(format!("{FILE}: {error}")))?;
        let found: Self =
            serde_json::from_slice(&json).map_err(|error| not(format!("{FILE}: {error}")))?;
        if found.format != FORMAT || found.version != VERSION {
            return Err(not(format!("{FILE}: {:?} version {}", found.format, found.version)));
        }
        Ok(found)
    }
}
