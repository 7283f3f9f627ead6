//! How figures are written: with serde, each under a name that carries its unit.

use serde::{Serialize, Serializer};
use std::time::Duration;

/// As text.
pub(crate) fn as_text<S: Serializer>(value: &impl ToString, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&value.to_string())
}

/// Milliseconds and fractions of them.
pub(crate) fn milliseconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64() * 1e3)
}

/// Whole microseconds.
pub(crate) fn microseconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    optional_microseconds(&Some(*time), serializer)
}

/// Whole microseconds of a time that may not be known.
pub(crate) fn optional_microseconds<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(|time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX)).serialize(serializer)
}
