//! Turns panics of decoders into errors, without printing them.
//!
//! The `parquet` and `zip` crates return errors for most damage, but panic for some. Sizes are
//! checked before decoding, since running out of memory cannot be caught.

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

/// Runs `work` and returns the message of a panic as an error.
///
/// Wraps the process's panic hook once, so that panics in `work` are not printed and others are.
/// With `panic = "abort"` a panic still aborts.
pub fn catch_panics<R>(work: impl FnOnce() -> R) -> Result<R, String> {
    static WRAPPED: Once = Once::new();
    // The hook cannot be set while unwinding. If no earlier call has set it, a panic of `work` is
    // printed.
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
    // State that the panic left incomplete is dropped with the reader that `work` owns or borrows.
    let result = catch_unwind(AssertUnwindSafe(work));
    QUIET.set(before);
    result.map_err(|payload| message(payload.as_ref()))
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    format!("the decoder failed: {}", text.unwrap_or("without a message"))
}

#[cfg(test)]
mod tests {
    use super::catch_panics;

    #[test]
    fn a_panic_becomes_its_message_and_later_ones_are_printed() {
        assert_eq!(catch_panics(|| 1), Ok(1));
        let number = 7;
        let error = catch_panics(|| assert!(number < 5, "{number} is too much")).unwrap_err();
        assert!(error.ends_with("7 is too much"), "{error}");
        let nested = catch_panics(|| catch_panics(|| panic!("inner")).is_err());
        assert_eq!(nested, Ok(true));
        assert!(!super::QUIET.get());
    }
}
