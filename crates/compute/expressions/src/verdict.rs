//! Results of conditions.

use crate::value::Error;

/// The result of a condition for a row: false, true, or an error.
pub type Verdict = u8;
pub const FALSE: Verdict = 0;
pub const TRUE: Verdict = 1;
pub const MISSING: Verdict = 2;
pub const MISTYPED: Verdict = 3;
pub const ARITHMETIC: Verdict = 4;
pub const STEP_LIMIT: Verdict = 5;

/// Returns the error that a verdict represents, if any.
pub fn error_of(verdict: Verdict) -> Option<Error> {
    match verdict {
        MISSING => Some(Error::Missing),
        MISTYPED => Some(Error::Mistyped),
        ARITHMETIC => Some(Error::Arithmetic),
        STEP_LIMIT => Some(Error::StepLimit),
        _ => None,
    }
}

/// Returns the verdict for the outcome of a condition.
pub fn verdict_of(outcome: Result<bool, Error>) -> Verdict {
    match outcome {
        Ok(holds) => Verdict::from(holds),
        Err(Error::Missing) => MISSING,
        Err(Error::Mistyped) => MISTYPED,
        Err(Error::Arithmetic) => ARITHMETIC,
        Err(Error::StepLimit) => STEP_LIMIT,
    }
}
