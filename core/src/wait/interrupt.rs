//! Interrupts of the waits of a handle.

use std::fmt;
use std::sync::Arc;

use super::Ends;

/// Interrupt of the waits of a handle, and the listener to their reports. Set once, where the
/// handle is made; writers, samplers and tables have the interrupt of their ring.
///
/// It is called before a wait sleeps, and at least 10 times a second during it, by the thread that
/// waits. Returning `true` ends the wait with the error `Interrupted` of the operation. It is never
/// called by an operation that need not wait.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
///
/// use backcast_core::{DType, Interrupt, Ring, RingOptions, Schema};
///
/// let schema = Schema::builder().column("x", DType::F32, &[]).build()?;
/// let stop = Arc::new(AtomicBool::new(false)); // a signal handler sets it
/// let interrupt = Interrupt::when({
///     let stop = Arc::clone(&stop);
///     move || stop.load(Relaxed)
/// });
/// let ring = Ring::heap(&schema, RingOptions::with_capacity(100))?.interrupted_by(interrupt);
/// # drop(ring);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Interrupt(Option<Arc<Listener>>);

/// Function that is given the report of a wait, if there is one, and returns whether to end the
/// wait.
type Listener = dyn Fn(Option<WaitReport<'_>>) -> bool + Send + Sync;

/// Report of a wait to the listener of its handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitReport<'a> {
    /// The wait has lasted 10 s: what it waits for, and why that does not come.
    Long(&'a str),
    /// The ring was removed or replaced, and the wait goes on. Its rows may never come: processes
    /// that attach by name find another ring, or none.
    Unlinked(&'a str),
}

impl<'a> WaitReport<'a> {
    /// Returns the text of the report.
    #[must_use]
    pub fn text(self) -> &'a str {
        match self {
            Self::Long(text) | Self::Unlinked(text) => text,
        }
    }
}

impl Interrupt {
    /// Returns an interrupt that ends no wait.
    #[must_use]
    pub fn never() -> Self {
        Self(None)
    }

    /// Returns an interrupt that ends a wait when `check` returns `true`.
    pub fn when(check: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self::told(move |_| check())
    }

    /// Returns an interrupt that ends a wait when `listener` returns `true`. The listener gets
    /// [`WaitReport::Long`] once per wait, and [`WaitReport::Unlinked`] once per handle that is set
    /// to warn. That comes from the first wait that finds the name of its ring lost, unless
    /// [`Ring::take_unlinked`](crate::Ring::take_unlinked) has returned `true` before.
    pub fn told(listener: impl Fn(Option<WaitReport<'_>>) -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(listener)))
    }

    /// Returns an interrupt that ends a wait when this one or `other` does. Both get the reports.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        match (&self.0, &other.0) {
            (_, None) => self.clone(),
            (None, _) => other.clone(),
            (Some(_), Some(_)) => {
                let (one, other) = (self.clone(), other.clone());
                Self::told(move |report| one.is_ended_by(report) | other.is_ended_by(report))
            }
        }
    }

    /// Returns the function that ends waits, if there is one.
    pub(super) fn listener(&self) -> Option<&Ends<'static>> {
        self.0.as_ref().map(|listener| &**listener as _)
    }

    /// Gives the listener a report, if there is one, and returns whether to end the wait.
    #[must_use]
    pub fn is_ended_by(&self, report: Option<WaitReport<'_>>) -> bool {
        self.0.as_ref().is_some_and(|listener| listener(report))
    }
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Interrupt").field(&self.0.is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn either_of_two_interrupts_ends_a_wait() {
        let (yes, no, never) =
            (Interrupt::when(|| true), Interrupt::when(|| false), Interrupt::never());
        for (one, other, ended) in [
            (&yes, &no, true),
            (&no, &yes, true),
            (&yes, &yes, true),
            (&no, &no, false),
            (&yes, &never, true),
            (&no, &never, false),
            (&never, &yes, true),
            (&never, &never, false),
        ] {
            assert_eq!(one.or(other).is_ended_by(None), ended, "{one:?} or {other:?}");
        }
    }

    #[test]
    fn both_of_two_interrupts_get_every_report() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let listener = |name: &'static str, ends: bool| {
            let told = Arc::clone(&told);
            Interrupt::told(move |report| {
                told.lock().unwrap().push((name, report.map(|of| of.text().to_owned())));
                ends
            })
        };
        let both = listener("one", true).or(&listener("other", false));
        for report in [WaitReport::Long("slow"), WaitReport::Unlinked("gone")] {
            assert!(both.is_ended_by(Some(report)));
            let text = Some(report.text().to_owned());
            let found: Vec<_> = told.lock().unwrap().drain(..).collect();
            assert_eq!(found, [("one", text.clone()), ("other", text)]);
        }
    }
}
