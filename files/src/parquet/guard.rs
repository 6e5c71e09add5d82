//! The decoder behind a wall: what it panics over becomes an error, and nothing is printed.
//!
//! The `parquet` crate answers most damage with errors, but not all of it. [`caught`] is the last
//! line; sizes are checked before (in `pages`), since running out of memory cannot be caught.

use std::{
    any::Any,
    cell::Cell,
    panic::{self, AssertUnwindSafe, catch_unwind},
    sync::Once,
    thread,
};

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Run `work`; a panic in it is returned as its message.
///
/// The process's panic hook is wrapped once, so that a panic in here is not printed and every other
/// one still is. Where panics abort, they abort here too.
pub fn caught<R>(work: impl FnOnce() -> R) -> Result<R, String> {
    static WRAPPED: Once = Once::new();
    // A hook cannot be set while unwinding; then the message is printed, and that is all.
    if !thread::panicking() {
        WRAPPED.call_once(|| {
            let before = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                if !QUIET.try_with(Cell::get).unwrap_or(false) {
                    before(info);
                }
            }));
        });
    }
    let before = QUIET.replace(true);
    // Whatever the panic left half done is dropped with the reader that `work` owns or borrows.
    let result = catch_unwind(AssertUnwindSafe(work));
    QUIET.set(before);
    result.map_err(|payload| message(payload.as_ref()))
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    format!("the decoder gave up: {}", text.unwrap_or("for no reason that it told"))
}

#[cfg(test)]
mod tests {
    use super::caught;

    #[test]
    fn a_panic_becomes_its_message_and_the_next_one_is_loud_again() {
        assert_eq!(caught(|| 1), Ok(1));
        let number = 7;
        let error = caught(|| assert!(number < 5, "{number} is too much")).unwrap_err();
        assert_eq!(error, "the decoder gave up: 7 is too much");
        let nested = caught(|| caught(|| panic!("inner")).is_err());
        assert_eq!(nested, Ok(true));
        assert!(!super::QUIET.get());
    }
}
