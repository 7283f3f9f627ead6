//! Sizes and secrets, as programs give them.

use crate::error::Class;
use pyo3::prelude::*;
use rails_multirail::{Secret, Security};
use rails_topo::DataSize;
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

/// A time in seconds.
///
/// # Errors
/// `OptionError` for one that is negative, or no number.
pub(crate) fn seconds(py: Python<'_>, seconds: f64) -> PyResult<Duration> {
    let time = Duration::try_from_secs_f64(seconds);
    time.map_err(|error| Class::Option.exception(py, &format!("{seconds} is no time in seconds: {error}")))
}

/// The protection of links; `None` leaves it to the address.
///
/// # Errors
/// `OptionError` for a secret that is too short, and for two answers to one question.
pub(crate) fn security(py: Python<'_>, secret: Option<&[u8]>, insecure: bool) -> PyResult<Option<Security>> {
    match secret {
        Some(_) if insecure => Err(Class::Option.exception(py, "links are either insecure or have a secret")),
        Some(secret) => {
            let secret = Secret::pre_shared(secret).map_err(|error| Class::Option.exception(py, &error.to_string()))?;
            Ok(Some(protected(secret)))
        }
        None => Ok(insecure.then(Security::insecure)),
    }
}

#[cfg(feature = "encryption")]
fn protected(secret: Secret) -> Security {
    Security::encrypted(secret)
}

#[cfg(not(feature = "encryption"))]
fn protected(secret: Secret) -> Security {
    Security::psk(secret)
}
