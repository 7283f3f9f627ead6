//! Errors of the library as exceptions, whose classes the package defines.

use pyo3::{prelude::*, types::PyType};
use rails_cache::{Fault, pattern::TellError};
use rails_lambdaram::{
    ArrayError, DescribeError, LinkError, ReadError, ServeError, SiteError, catalogue::CatalogueError,
    wire::DenialReason,
};
use std::{error::Error, io::ErrorKind};

/// A class of `lambdaram._errors`, by its name there.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Class {
    Address,
    Changed,
    Error,
    Forked,
    NotFound,
    Option,
    OutOfBounds,
    Source,
    Unreachable,
}

/// An error that has a class of exceptions.
pub(crate) trait Classified: Error {
    fn class(&self) -> Class;
}

impl Class {
    /// An exception with this text.
    pub(crate) fn exception(self, py: Python<'_>, text: &str) -> PyErr {
        let name = match self {
            Self::Address => "AddressError",
            Self::Changed => "Changed",
            Self::Error => "Error",
            Self::Forked => "Forked",
            Self::NotFound => "NotFound",
            Self::Option => "OptionError",
            Self::OutOfBounds => "OutOfBounds",
            Self::Source => "SourceError",
            Self::Unreachable => "Unreachable",
        };
        let class = py
            .import("lambdaram._errors")
            .and_then(|module| module.getattr(name)?.cast_into::<PyType>().map_err(PyErr::from));
        match class {
            Ok(class) => PyErr::from_type(class, text.to_owned()),
            Err(error) => error,
        }
    }
}

/// An exception with the text of the error and of its causes.
pub(crate) fn exception(py: Python<'_>, error: &(impl Classified + 'static)) -> PyErr {
    error.class().exception(py, &words(error))
}

/// The text of an error and of its causes.
pub(crate) fn words(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

impl Classified for SiteError {
    fn class(&self) -> Class {
        match self {
            Self::Address(_) => Class::Address,
            Self::Option(_) | Self::Security { .. } => Class::Option,
            Self::Resolve { .. } | Self::Route { .. } => Class::Unreachable,
            Self::Catalogue(error) => error.class(),
            _ => Class::Error,
        }
    }
}

impl Classified for CatalogueError {
    fn class(&self) -> Class {
        match self {
            Self::Path { error, .. } if error.kind() == ErrorKind::NotFound => Class::NotFound,
            Self::Nothing { .. } => Class::NotFound,
            _ => Class::Source,
        }
    }
}

impl Classified for ServeError {
    fn class(&self) -> Class {
        match self {
            Self::Resolve(_) | Self::NoAddress | Self::Scheme { .. } => Class::Address,
            Self::Security { .. } => Class::Option,
            _ => Class::Error,
        }
    }
}

impl Classified for LinkError {
    fn class(&self) -> Class {
        Class::Unreachable
    }
}

impl Classified for DescribeError {
    fn class(&self) -> Class {
        match self {
            Self::Denied { denial, .. } => match denial.reason {
                DenialReason::Unknown => Class::NotFound,
                DenialReason::Changed => Class::Changed,
                DenialReason::Source => Class::Source,
                DenialReason::Grid | DenialReason::Full => Class::Error,
            },
            Self::Link(error) => error.class(),
            _ => Class::Error,
        }
    }
}

impl Classified for ArrayError {
    fn class(&self) -> Class {
        match self {
            Self::Unknown { .. } => Class::NotFound,
            _ => Class::Error,
        }
    }
}

impl Classified for ReadError {
    fn class(&self) -> Class {
        match self {
            Self::Outside { .. } => Class::OutOfBounds,
            Self::Changed { .. } => Class::Changed,
            Self::Failed { fault, .. } => match fault {
                Fault::Missing | Fault::Corrupt => Class::Source,
                Fault::Unreachable => Class::Unreachable,
                Fault::Denied => Class::NotFound,
                Fault::Changed => Class::Changed,
                _ => Class::Error,
            },
            Self::Array(error) => error.class(),
            _ => Class::Error,
        }
    }
}

impl Classified for TellError {
    fn class(&self) -> Class {
        match self {
            Self::Outside { .. } => Class::OutOfBounds,
            _ => Class::Option,
        }
    }
}
