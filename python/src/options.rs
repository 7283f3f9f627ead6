//! Sizes, rates and times, as programs give them.

use crate::error::Class;
use pyo3::prelude::*;
use rails_topo::{Bandwidth, DataSize};
use std::time::Duration;

/// A size: a number of bytes, or a text such as `256MiB`.
#[derive(Debug, FromPyObject)]
pub(crate) enum Size {
    Bytes(u64),
    Text(String),
}

impl Size {
    /// # Errors
    /// `OptionError` for a text that is no size.
    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<DataSize> {
        match self {
            Self::Bytes(bytes) => Ok(DataSize::bytes(*bytes)),
            Self::Text(text) => text.parse().map_err(|error| Class::Option.exception(py, &format!("{error}"))),
        }
    }
}

/// A rate: a number of bits a second, or a text such as `500mbit`.
#[derive(Debug, FromPyObject)]
pub(crate) enum Rate {
    BitsPerSecond(u64),
    Text(String),
}

impl Rate {
    /// # Errors
    /// `OptionError` for a text that is no rate, and for rates that no line has.
    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<Bandwidth> {
        let rate: Bandwidth = match self {
            Self::BitsPerSecond(bits) => Bandwidth::bits_per_second(*bits),
            Self::Text(text) => text.parse().map_err(|error| Class::Option.exception(py, &format!("rate: {error}")))?,
        };
        match rate.as_bits_per_second() {
            1..=MAX_BITS_PER_SECOND => Ok(rate),
            bits => Err(Class::Option.exception(py, &format!("rate: no line carries {bits} bits a second"))),
        }
    }
}

/// A time in seconds.
///
/// # Errors
/// `OptionError` for one that is negative, or no number.
pub(crate) fn seconds(py: Python<'_>, seconds: f64) -> PyResult<Duration> {
    let time = Duration::try_from_secs_f64(seconds);
    time.map_err(|error| Class::Option.exception(py, &format!("{seconds} is no time in seconds: {error}")))
}

/// That of `lram`'s flag `--rate`.
const MAX_BITS_PER_SECOND: u64 = 1_000_000_000_000_000;
