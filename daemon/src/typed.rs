//! Numbers that are typed, and what is said of those that are none.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Reads a whole number within limits, with or without `_` between its digits.
pub(crate) fn whole<T>(
    limits: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |text| {
        let number = text.replace('_', "").parse().ok().filter(|number| limits.contains(number));
        let (least, most) = (limits.start(), limits.end());
        number.ok_or_else(|| format!("not within {least} to {most}; give a whole number that is"))
    }
}
