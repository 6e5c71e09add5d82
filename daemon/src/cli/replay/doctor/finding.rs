//! Result of a check: status, evidence, remedy.

use std::fmt::{self, Display};

use serde::Serialize;
use serde_json::{Map, Value};

/// Status of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    /// There is nothing to do.
    Ok,
    /// There is something to do, and a remedy says what.
    Finding,
    /// The check has no answer.
    Unknown,
}

impl Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Finding => "finding",
            Self::Unknown => "unknown",
        })
    }
}

/// JSON of one check.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Finding {
    pub(crate) check: &'static str,
    pub(crate) status: Status,
    pub(crate) summary: String,
    /// Values and limits that decided the status. A key ends in its unit, such as `_bytes`, if the
    /// value has one.
    pub(crate) evidence: Map<String, Value>,
    pub(crate) remedy: Option<String>,
}

impl Finding {
    /// Returns a result with nothing to do.
    pub(crate) fn ok(check: &'static str, summary: impl Into<String>) -> Self {
        let summary = summary.into();
        Self { check, status: Status::Ok, summary, evidence: Map::new(), remedy: None }
    }

    /// Returns a result with a remedy.
    pub(crate) fn found(
        check: &'static str,
        summary: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { status: Status::Finding, remedy: Some(remedy.into()), ..Self::ok(check, summary) }
    }

    /// Returns a result without an answer.
    pub(crate) fn unknown(check: &'static str, summary: impl Into<String>) -> Self {
        Self { status: Status::Unknown, ..Self::ok(check, summary) }
    }

    /// Adds a value or a limit to the evidence.
    #[must_use]
    pub(crate) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.evidence.insert(key.to_owned(), value.into());
        self
    }
}
