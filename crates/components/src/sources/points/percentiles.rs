//! Validation of configured percentiles, from 0 to 1.

use millstream_model::OptionError;
use millstream_series::{FRACTION_DIGITS_MAX, has_suffix};

/// Maximum number of percentiles in a list. Each percentile produces one event per series and
/// period.
const PERCENTILES_MAX: usize = 32;

/// Returns the errors for a percentile option. `is_unused` says whether distributions are emitted
/// as sketches, in which case the option has no effect.
pub fn check(key: &str, fractions: Option<&[f64]>, is_unused: bool) -> Vec<OptionError> {
    let Some(fractions) = fractions else { return Vec::new() };
    let mut errors: Vec<_> = unused(key, is_unused).into_iter().collect();
    if fractions.len() > PERCENTILES_MAX {
        let text = format!("has {} percentiles; use {PERCENTILES_MAX} at most", fractions.len());
        errors.push(OptionError::new(key, text));
    }
    for (index, fraction) in fractions.iter().enumerate() {
        let text = match () {
            // A smaller value is more likely out of range than meant as a percentage.
            () if *fraction >= 1.5 && *fraction <= 100.0 => {
                format!("is out of range; use {} for {fraction}%", fraction / 100.0)
            }
            () if !(0.0..=1.0).contains(fraction) => {
                "is out of range; use 0 to 1, such as 0.95".into()
            }
            () if fractions[..index].contains(fraction) => "is a duplicate; remove it".into(),
            () if !has_suffix(*fraction) => {
                format!(
                    "has too many decimals for a metric name; use at most {FRACTION_DIGITS_MAX} \
                     decimals"
                )
            }
            () => continue,
        };
        errors.push(OptionError::new(format!("{key}/{index}"), text));
    }
    errors
}

/// Returns the error for an option that selects aggregates while distributions are sketches.
pub fn unused(key: &str, is_unused: bool) -> Option<OptionError> {
    let text = "has no effect with `distributions: sketch`, which keeps all values; remove one of \
                the two options";
    is_unused.then(|| OptionError::new(key, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_valid_list_has_no_error() {
        for fractions in [&[][..], &[0.0, 0.5, 0.95, 0.999999, 1.0]] {
            assert_eq!(check("/percentiles", Some(fractions), false), []);
        }
        assert_eq!(check("/percentiles", None, true), []);
    }

    #[test]
    fn an_error_names_the_element_and_says_what_to_write() {
        for (fractions, pointer, advice) in [
            (&[0.5, 99.0][..], "/percentiles/1", "use 0.99 for 99%"),
            (&[-0.5], "/percentiles/0", "use 0 to 1"),
            (&[f64::NAN], "/percentiles/0", "use 0 to 1"),
            (&[0.5, 0.9, 0.5], "/percentiles/2", "is a duplicate"),
            (&[0.12345678], "/percentiles/0", "6 decimals"),
            (&[0.5; 33], "/percentiles", "use 32 at most"),
        ] {
            let errors = check("/percentiles", Some(fractions), false);
            assert!(
                errors[0].pointer == pointer && errors[0].to_string().contains(advice),
                "{errors:?}"
            );
        }
        let errors = check("/percentiles", Some(&[0.5]), true);
        assert!(
            errors[0].pointer == "/percentiles"
                && errors[0].to_string().contains("remove one of the two options"),
            "{errors:?}"
        );
    }
}
