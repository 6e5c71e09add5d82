//! What a check found: its evidence, and what to do about it.

use std::fmt::{self, Display};

use serde::Serialize;
use serde_json::{Map, Value};

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    /// Nothing to do.
    Ok,
    /// Something to do, and the finding says what.
    Finding,
    /// This system does not tell.
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
    /// Values and limits that the status follows from; keys carry their unit.
    pub(crate) evidence: Map<String, Value>,
    pub(crate) remedy: Option<String>,
}

impl Finding {
    /// All is well.
    pub(crate) fn ok(check: &'static str, summary: impl Into<String>) -> Self {
        let summary = summary.into();
        Self { check, status: Status::Ok, summary, evidence: Map::new(), remedy: None }
    }

    /// Something is to be done.
    pub(crate) fn found(
        check: &'static str,
        summary: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { status: Status::Finding, remedy: Some(remedy.into()), ..Self::ok(check, summary) }
    }

    /// The system does not tell.
    pub(crate) fn unknown(check: &'static str, summary: impl Into<String>) -> Self {
        Self { status: Status::Unknown, ..Self::ok(check, summary) }
    }

    /// A value or a limit.
    #[must_use]
    pub(crate) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.evidence.insert(key.to_owned(), value.into());
        self
    }
}
