//! Arrays.

use crate::{
    dataset::{Attribute, attributes, type_code},
    error::{Class, exception},
    process::{Owned, wait},
    sys,
};
use numpy::PyArray1;
use pyo3::{
    prelude::*,
    types::{PyBytes, PyTuple},
};
use rails_array::{Region, Selection, Shape};
use rails_formats::manifest::ArrayDescription;

/// A reader of one array.
#[pyclass(frozen, module = "lambdaram._lambdaram")]
pub(crate) struct Array {
    array: Owned<rails_lambdaram::Array>,
}

impl Array {
    pub(crate) fn new(array: rails_lambdaram::Array) -> Self {
        Self { array: Owned::new(array) }
    }

    fn description(&self) -> &ArrayDescription {
        self.array.facts().description()
    }
}

#[pymethods]
impl Array {
    /// The name.
    #[getter]
    fn name(&self) -> &str {
        &self.description().name
    }

    /// The type of the elements, by numpy's code.
    #[getter]
    fn type_code(&self) -> String {
        type_code(self.description().dtype)
    }

    /// The extents.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.description().shape.extents())
    }

    /// The name of each axis.
    #[getter]
    fn dimension_names(&self) -> Vec<Option<String>> {
        self.description().dimension_names.clone()
    }

    /// The extents of the blocks in which the array is fetched.
    #[getter]
    fn block_shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.array.facts().block_shape().extents())
    }

    /// The element of places that are not stored, little-endian.
    #[getter]
    fn fill_value<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.description().fill_value.as_ref().map(|element| PyBytes::new(py, element))
    }

    /// The attributes.
    #[getter]
    fn attributes<'py>(&self, py: Python<'py>) -> Vec<Attribute<'py>> {
        attributes(py, &self.description().attributes)
    }

    /// The bytes of selected elements, in C order.
    fn read<'py>(
        &self,
        py: Python<'py>,
        starts: Vec<u64>,
        counts: Vec<u64>,
        steps: Vec<u64>,
    ) -> PyResult<Bound<'py, PyArray1<u8>>> {
        let array = self.array.get(py)?;
        let selection = selection(py, starts, &counts, steps)?;
        let bytes = selection.elements().saturating_mul(array.description().dtype.bytes());
        sys::filled(py, bytes, |goal| {
            wait(py, array.read_into(&selection, goal))?.map_err(|error| exception(py, &error))
        })
    }

    /// Announces the regions that will be read: pairs of their starts and extents.
    fn tell(&self, py: Python<'_>, regions: Vec<(Vec<u64>, Vec<u64>)>) -> PyResult<()> {
        let array = self.array.get(py)?;
        let regions = regions.into_iter().map(|(starts, extents)| region(py, starts, extents));
        let regions = regions.collect::<PyResult<_>>()?;
        wait(py, async { array.tell(regions) })?.map_err(|error| exception(py, &error))
    }

    /// Has the nodes that serve keep a region ready, and says in how many blocks.
    fn warm(&self, py: Python<'_>, starts: Vec<u64>, extents: Vec<u64>) -> PyResult<u64> {
        let array = self.array.get(py)?;
        let region = region(py, starts, extents)?;
        wait(py, async { array.warm(&region) })?.map_err(|error| exception(py, &error))
    }

    /// The blocks that a read would take.
    fn explain(&self, py: Python<'_>, starts: Vec<u64>, counts: Vec<u64>, steps: Vec<u64>) -> PyResult<Explained> {
        let array = self.array.get(py)?;
        let selection = selection(py, starts, &counts, steps)?;
        let explained = wait(py, async { array.explain(&selection) })?.map_err(|error| exception(py, &error))?;
        let blocks = explained.blocks.iter().map(|(region, is_cached)| (bounds(region), *is_cached));
        Ok((
            explained.block_shape.extents().to_vec(),
            explained.view.as_ref().map(bounds),
            blocks.collect(),
            explained.wanted_bytes,
            explained.missing_bytes,
            format!("{:?}", explained.pattern).to_lowercase(),
        ))
    }
}

/// The first coordinates of a region, and the extents.
type Bounds = (Vec<u64>, Vec<u64>);
/// Block shape, view, blocks with whether they are in memory, bytes wanted and missing, pattern.
type Explained = (Vec<u64>, Option<Bounds>, Vec<(Bounds, bool)>, u64, u64, String);

fn bounds(region: &Region) -> Bounds {
    (region.start().to_vec(), region.shape().extents().to_vec())
}

fn region(py: Python<'_>, starts: Vec<u64>, extents: Vec<u64>) -> PyResult<Region> {
    let shape = Shape::new(extents).map_err(|error| Class::OutOfBounds.exception(py, &error.to_string()))?;
    Region::new(starts, shape).map_err(|error| Class::OutOfBounds.exception(py, &error.to_string()))
}

fn selection(py: Python<'_>, starts: Vec<u64>, counts: &[u64], steps: Vec<u64>) -> PyResult<Selection> {
    let last =
        |(count, step): (&u64, &u64)| if *count == 0 { 0 } else { (count - 1).saturating_mul(*step).saturating_add(1) };
    let extents = counts.iter().zip(&steps).map(last).collect();
    let region = region(py, starts, extents)?;
    Selection::new(region, steps).map_err(|error| Class::OutOfBounds.exception(py, &error.to_string()))
}
