//! Refusals of every operation: the variant, words of the message, and that nothing changed.
//!
//! One file per operation, each with a table of [`Row`]s. A new operation gets a file and a line in
//! [`every_refusal`].

mod append;
mod batches;
mod create;
mod env;
mod lease;
mod panel;
mod sample;
mod schema;
mod stage;

use std::fmt::{Debug, Display};

use self::stage::Stage;

/// Error of an operation.
struct Refusal {
    /// `Debug` text of the error, which begins with its variant.
    variant: String,
    message: String,
}

/// One refused call.
struct Row {
    id: &'static str,
    /// Prepares the refused call.
    given: fn(&Stage),
    try_it: fn(&mut Stage) -> Option<Refusal>,
    variant: &'static str,
    says: &'static [&'static str],
}

/// Returns a row of a table without a preparation: id, call, expected variant, and words that the
/// message must contain: the value, the limit, the remedy.
const fn row(
    id: &'static str,
    try_it: fn(&mut Stage) -> Option<Refusal>,
    variant: &'static str,
    says: &'static [&'static str],
) -> Row {
    Row { id, given: |_| {}, try_it, variant, says }
}

impl Row {
    const fn given(self, given: fn(&Stage)) -> Self {
        Self { given, ..self }
    }
}

/// Returns variant and message of the error, or `None` on success.
fn refusal<T, E: Debug + Display>(outcome: Result<T, E>) -> Option<Refusal> {
    let error = outcome.err()?;
    Some(Refusal { variant: format!("{error:?}"), message: error.to_string() })
}

fn every_refusal() -> impl Iterator<Item = &'static Row> {
    let sampling = [sample::ROWS, batches::ROWS, lease::ROWS];
    let others = [schema::ROWS, create::ROWS, append::ROWS, panel::ROWS, env::ROWS];
    others.into_iter().chain(sampling).flatten()
}

/// Returns what is wrong with a call's refusal, if anything.
fn complaint(row: &Row) -> Option<String> {
    let mut stage = Stage::set();
    (row.given)(&stage);
    let before = stage.picture();
    let Some(Refusal { variant, message }) = (row.try_it)(&mut stage) else {
        return Some("it was done".to_owned());
    };
    let after = stage.picture();
    if after != before {
        return Some(format!("something changed:\n{before}\n{after}"));
    }
    if !variant.starts_with(row.variant) {
        return Some(format!("{variant} is no {}", row.variant));
    }
    if let Some(part) = row.says.iter().find(|part| !message.contains(**part)) {
        return Some(format!("{message:?} lacks {part:?}"));
    }
    if !message.contains("; ") && !message.contains(", but must ") {
        return Some(format!("{message:?} has no remedy"));
    }
    let one_sentence =
        !message.ends_with('.') && !message.contains('\n') && !message.contains("  ");
    (!one_sentence).then(|| format!("{message:?} is not one sentence"))
}

#[test]
fn every_refusal_names_problem_limit_and_remedy_and_changes_nothing() {
    let complaints: Vec<String> = every_refusal()
        .filter_map(|row| complaint(row).map(|why| format!("{}: {why}", row.id)))
        .collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn the_tables_are_long_and_their_ids_differ() {
    let mut ids: Vec<&str> = every_refusal().map(|row| row.id).collect();
    assert!(ids.len() >= 60, "{} refusals", ids.len());
    ids.sort_unstable();
    let twice: Vec<_> = ids.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(twice.is_empty(), "{twice:?}");
}
