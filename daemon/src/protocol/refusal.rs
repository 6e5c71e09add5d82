//! Refusals of the daemon, as a client reads them.

use serde::{Deserialize, Serialize};

/// Refusal of a request by the daemon.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Refusal {
    pub(crate) code: Code,
    pub(crate) message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) over_budget: Option<Box<OverBudget>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name_taken: Option<Box<NameTaken>>,
}

impl Refusal {
    pub(crate) fn new(code: Code, message: impl std::fmt::Display) -> Self {
        let message = message.to_string();
        Self { code, message, over_budget: None, name_taken: None }
    }
}

/// Kinds of refusal.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Code {
    /// The line is not a valid request.
    BadRequest,
    /// The line exceeds the maximum length.
    TooLong,
    /// The client has another protocol version.
    OtherProtocol,
    /// All allowed connections are busy.
    Busy,
    /// The daemon is shutting down.
    Stopping,
    /// The ring does not fit the budget.
    OverBudget,
    /// No such object or snapshot.
    NotFound,
    /// The name or label is taken, or the object differs from the request.
    Exists,
    /// A process holds or resizes the object, or has locked one of its tables or the store.
    InUse,
    /// Memory or disk space is not sufficient.
    NoSpace,
    /// A name, number or other argument is invalid.
    BadArgument,
    /// The columns are invalid.
    Schema,
    /// Files are damaged, or of another version.
    Corrupt,
    /// The operating system refused, or the daemon failed.
    Storage,
    /// A code of a newer daemon.
    #[serde(other)]
    Other,
}

impl Code {
    /// Returns the word for logs and metrics.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::BadRequest => "bad_request",
            Self::TooLong => "too_long",
            Self::OtherProtocol => "other_protocol",
            Self::Busy => "busy",
            Self::Stopping => "stopping",
            Self::OverBudget => "over_budget",
            Self::NotFound => "not_found",
            Self::Exists => "exists",
            Self::InUse => "in_use",
            Self::NoSpace => "no_space",
            Self::BadArgument => "bad_argument",
            Self::Schema => "schema",
            Self::Corrupt => "corrupt",
            Self::Storage => "storage",
            Self::Other => "other",
        }
    }
}

/// Numbers of a ring that does not fit the budget.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct OverBudget {
    /// Maximum bytes of all objects together.
    pub budget_bytes: u64,
    /// Bytes in use.
    pub used_bytes: u64,
    /// Bytes that the ring would add.
    pub asked_bytes: u64,
    /// Names and bytes of the largest objects, largest first.
    pub largest: Vec<(String, u64)>,
}

/// The object that has the requested name.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct NameTaken {
    /// `ring`, `panel` or `params`.
    pub kind: String,
    /// Name of the object.
    pub name: String,
    /// Reason why the name is taken. `None` if attaching was requested.
    pub state: Option<String>,
    /// Difference from the request to attach.
    pub difference: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::super::Answer;
    use super::Code;

    #[test]
    fn a_refusal_of_an_older_daemon_is_understood() {
        let line = r#"{"error":{"code":"exists","message":"no"}}"#;
        let Answer::Error(refusal) = serde_json::from_str(line).unwrap() else { panic!() };
        assert_eq!((refusal.code, refusal.name_taken), (Code::Exists, None));
    }

    #[test]
    fn a_refusal_of_a_newer_daemon_is_understood() {
        let line = r#"{"error":{"code":"from_the_future","message":"no","more":[1]}}"#;
        let Answer::Error(refusal) = serde_json::from_str(line).unwrap() else { panic!() };
        assert_eq!((refusal.code, refusal.message.as_str()), (Code::Other, "no"));
    }
}
