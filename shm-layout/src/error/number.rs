//! Numbers as error messages show them.

use std::fmt;

/// A number in a message. Very large and very small ones are written with an exponent: `1e300`,
/// not 301 digits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShownNumber(pub f64);

impl fmt::Display for ShownNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.0.abs();
        if size >= 1e16 || (size > 0.0 && size < 1e-5) {
            write!(f, "{:e}", self.0)
        } else {
            write!(f, "{}", self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ShownNumber;

    #[test]
    fn numbers_of_any_size_are_short() {
        for (number, text) in [
            (0.0, "0"),
            (-0.5, "-0.5"),
            (1.0, "1"),
            (1_234_567.25, "1234567.25"),
            (1e15, "1000000000000000"),
            (1e16, "1e16"),
            (-1e300, "-1e300"),
            (1e-5, "0.00001"),
            (1e-6, "1e-6"),
            (5e-324, "5e-324"),
            (f64::INFINITY, "inf"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(ShownNumber(number).to_string(), text);
        }
    }
}
