//! Datasets.

use crate::{array::Array, error::exception, process::Owned};
use pyo3::{
    prelude::*,
    types::{PyBytes, PyString},
};
use rails_formats::{
    data_type::DataType,
    manifest::{AttributeValue, Attributes},
};

/// A dataset of one generation.
#[pyclass(frozen, module = "lambdaram._lambdaram")]
pub(crate) struct Dataset {
    dataset: Owned<rails_lambdaram::Dataset>,
}

impl Dataset {
    pub(crate) fn new(dataset: rails_lambdaram::Dataset) -> Self {
        Self { dataset: Owned::new(dataset) }
    }
}

#[pymethods]
impl Dataset {
    /// The name.
    #[getter]
    fn name(&self) -> &str {
        self.dataset.facts().name()
    }

    /// The number of the source's state.
    #[getter]
    fn generation(&self) -> u64 {
        self.dataset.facts().description().generation
    }

    /// The attributes of the whole.
    #[getter]
    fn attributes<'py>(&self, py: Python<'py>) -> Vec<Attribute<'py>> {
        attributes(py, self.dataset.facts().attributes())
    }

    /// The names of the arrays.
    #[getter]
    fn array_names(&self) -> Vec<&str> {
        self.dataset.facts().array_names().collect()
    }

    /// A reader of the array of that name.
    fn array(&self, py: Python<'_>, name: &str) -> PyResult<Array> {
        let array = self.dataset.get(py)?.array(name).map_err(|error| exception(py, &error))?;
        Ok(Array::new(array))
    }
}

/// The name of an attribute, the type of its numbers, and its value: a text, or bytes.
pub(crate) type Attribute<'py> = (String, Option<String>, Bound<'py, PyAny>);

pub(crate) fn attributes<'py>(py: Python<'py>, attributes: &Attributes) -> Vec<Attribute<'py>> {
    let attribute = |(name, value): (&String, &AttributeValue)| {
        let (dtype, value) = match value {
            AttributeValue::Text(text) => (None, PyString::new(py, text).into_any()),
            AttributeValue::Bytes(bytes) => (None, PyBytes::new(py, bytes).into_any()),
            AttributeValue::Numbers { dtype, bytes } => (Some(type_code(*dtype)), PyBytes::new(py, bytes).into_any()),
            // A kind that this package does not know yet.
            _ => return None,
        };
        Some((name.clone(), dtype, value))
    };
    attributes.iter().filter_map(attribute).collect()
}

/// The code of a type in numpy, without the order of its bytes.
pub(crate) fn type_code(dtype: DataType) -> String {
    match dtype {
        DataType::Char => "S1".into(),
        dtype => {
            let kind = match dtype.name().as_bytes()[0] {
                b'f' => 'f',
                b'u' => 'u',
                _ => 'i',
            };
            format!("{kind}{}", dtype.bytes())
        }
    }
}
