//! Priorities of windows.

use crate::error::PriorityError;

/// Returns one priority for each window of `steps` absolute TD errors. It is
/// `eta * max + (1 - eta) * mean` over the places whose mask is `true`, or over all places without
/// a mask (Kapturowski et al., "Recurrent experience replay in distributed reinforcement learning",
/// ICLR 2019, section 2.3, where eta is 0.9). TD errors at places whose mask is `false` are not
/// read.
///
/// A window whose mask is `false` everywhere has priority 0, and is hardly drawn again. Examples
/// are rows that [`Sampler::gather_present`](crate::Sampler::gather_present) did not find, and
/// sequences that end within the burn-in, if the mask has only the places after the burn-in. Leave
/// such windows out of the update to keep their priority.
///
/// Fails for an `eta` outside 0 to 1, lengths that do not fit, or a TD error that is negative or
/// not finite.
///
/// ```
/// use backcast_core::sequence_priorities;
/// let mask = [true, true, true, false];
/// let mixed = sequence_priorities(&[1.0, 3.0, 0.0, 8.0], 2, Some(&mask), 0.9)?;
/// assert!((mixed[0] - (0.9 * 3.0 + 0.1 * 2.0)).abs() < 1e-12 && mixed[1] == 0.0);
/// # Ok::<(), backcast_core::PriorityError>(())
/// ```
pub fn sequence_priorities(
    td: &[f64],
    steps: usize,
    mask: Option<&[bool]>,
    eta: f64,
) -> Result<Vec<f64>, PriorityError> {
    if !(0.0..=1.0).contains(&eta) {
        let (what, wanted) = ("eta", "0 to 1: the share of the maximum, 0.9 in R2D2");
        return Err(PriorityError::BadOption { what, value: eta, wanted });
    }
    let places = td.len();
    if steps == 0 || !places.is_multiple_of(steps) || mask.is_some_and(|m| m.len() != places) {
        let mask = mask.map_or(places, <[bool]>::len);
        return Err(PriorityError::BadSequences { places, steps, mask });
    }
    let counts = |at: usize| mask.is_none_or(|mask| mask.get(at) == Some(&true));
    let bad = |value: f64| !(value.is_finite() && value >= 0.0);
    if let Some((at, value)) = td.iter().enumerate().find(|(at, value)| counts(*at) && bad(**value))
    {
        let (window, place) = (at / steps, at % steps);
        return Err(PriorityError::BadPlace { window, place, value: *value });
    }
    let windows = td.chunks_exact(steps).enumerate();
    Ok(windows
        .map(|(window, td)| {
            let (mut most, mut sum, mut count) = (0.0_f64, 0.0, 0.0);
            for (place, value) in td.iter().enumerate() {
                if counts(window * steps + place) {
                    most = most.max(*value);
                    sum += value;
                    count += 1.0;
                }
            }
            if count > 0.0 { eta * most + (1.0 - eta) * sum / count } else { 0.0 }
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_windows_are_refused() {
        let td = [1.0, 2.0, 3.0, 4.0];
        for (steps, mask) in [(0, None), (3, None), (2, Some(&[true; 3][..]))] {
            let error = sequence_priorities(&td, steps, mask, 0.9).unwrap_err();
            let PriorityError::BadSequences { places: 4, steps: found, mask: places } = error
            else {
                panic!("{error}")
            };
            assert_eq!((found, places), (steps, mask.map_or(4, <[bool]>::len)));
        }
        for eta in [1.1, f64::NAN] {
            let error = sequence_priorities(&td, 2, None, eta).unwrap_err();
            let PriorityError::BadOption { what: "eta", value, .. } = error else {
                panic!("{error}")
            };
            assert_eq!(value.to_bits(), eta.to_bits());
        }
        for (td, steps, mask, at, number) in [
            (&[0.0, -1.0][..], 2, None, (0, 1), -1.0),
            (&[f64::NAN, 0.0], 1, None, (0, 0), f64::NAN),
            (&[0.0, 0.0, f64::INFINITY, -2.0], 2, None, (1, 0), f64::INFINITY),
            (&[0.0, 0.0, f64::NAN, -2.0], 2, Some(&[true, true, false, true][..]), (1, 1), -2.0),
        ] {
            let error = sequence_priorities(td, steps, mask, 0.9).unwrap_err();
            let PriorityError::BadPlace { window, place, value } = error else { panic!("{error}") };
            assert_eq!(((window, place), value.to_bits()), (at, number.to_bits()));
        }
    }

    #[test]
    fn td_errors_at_masked_places_are_not_read() {
        let td = [f64::NAN, 2.0, -1.0, f64::INFINITY];
        let found = sequence_priorities(&td, 2, Some(&[false, true, false, false]), 0.9).unwrap();
        assert_eq!(
            found.iter().map(|value| value.to_bits()).collect::<Vec<_>>(),
            [2.0_f64.to_bits(), 0]
        );
    }

    #[test]
    fn a_window_has_the_mix_of_the_maximum_and_the_mean_of_its_own_places() {
        let td = [0.5, 4.0, 1.5, 3.0, 2.0, 0.25, 7.0, 6.0, 1.0];
        let mask: &[bool] = &[true, true, true, false, true, true, false, false, false];
        for (eta, steps, given) in [0.0, 0.3, 0.9, 1.0].into_iter().flat_map(|eta| {
            [1, 3, 9]
                .into_iter()
                .flat_map(move |steps| [None, Some(mask)].map(move |given| (eta, steps, given)))
        }) {
            let found = sequence_priorities(&td, steps, given, eta).unwrap();
            assert_eq!(found.len(), td.len() / steps);
            for (window, found) in found.into_iter().enumerate() {
                let places = window * steps..(window + 1) * steps;
                let counted: Vec<f64> = places
                    .filter(|at| given.is_none_or(|mask| mask[*at]))
                    .map(|at| td[at])
                    .collect();
                let most = counted.iter().copied().fold(0.0, f64::max);
                let count = u32::try_from(counted.len().max(1)).unwrap();
                let mean = counted.iter().sum::<f64>() / f64::from(count);
                let expected = eta * most + (1.0 - eta) * mean;
                assert!((found - expected).abs() < 1e-12, "{window} of {steps}, {eta}: {found}");
            }
        }
    }
}
