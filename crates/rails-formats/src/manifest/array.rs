//! One array of a manifest.

use super::{description::ArrayDescription, problem::ManifestProblem, section::Section};
use rails_array::Region;
use serde::{Deserialize, Serialize};

/// An array and the places of its chunks, checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "UncheckedArray", into = "UncheckedArray")]
pub struct ArrayManifest {
    description: ArrayDescription,
    along: usize,
    sections: Vec<Section>,
    /// The first coordinate of each section along the axis.
    starts: Vec<u64>,
}

impl ArrayManifest {
    /// An array of sections, one behind the other on the axis `along`.
    ///
    /// A scalar has one section of the extent 1, and `along` is 0.
    ///
    /// # Errors
    /// [`ManifestProblem`], if the sections are not all of the array, or a section is not what it
    /// says.
    pub fn new(description: ArrayDescription, along: usize, sections: Vec<Section>) -> Result<Self, ManifestProblem> {
        let shape = &description.shape;
        if description.dimension_names.len() != shape.rank() {
            let (names, rank) = (description.dimension_names.len(), shape.rank());
            return Err(ManifestProblem::DimensionNames { names, rank });
        }
        if let Some(fill) = &description.fill_value
            && fill.len() as u64 != description.dtype.bytes()
        {
            return Err(ManifestProblem::FillValue { bytes: fill.len(), dtype: description.dtype });
        }
        shape.elements().checked_mul(description.dtype.bytes()).ok_or(ManifestProblem::TooLarge)?;
        if along >= shape.rank().max(1) || (shape.rank() == 0 && sections.len() != 1) {
            return Err(ManifestProblem::Axis { along, rank: shape.rank() });
        }
        let mut starts = Vec::new();
        let mut end = 0_u64;
        for section in &sections {
            section.check(&description, along, end)?;
            starts.push(end);
            end = end.checked_add(section.extent).ok_or(ManifestProblem::TooLarge)?;
        }
        let extent = shape.extents().get(along).copied().unwrap_or(1);
        if end != extent {
            return Err(ManifestProblem::Extent { end, extent });
        }
        Ok(Self { description, along, sections, starts })
    }

    /// Type, shape, names and attributes.
    pub fn description(&self) -> &ArrayDescription {
        &self.description
    }

    /// The axis along which the sections follow each other.
    pub fn along(&self) -> usize {
        self.along
    }

    /// The sections, in the order of their elements.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// The part of the array that each section covers, with the section.
    pub fn placed_sections(&self) -> impl Iterator<Item = (Region, &Section)> {
        (0..self.sections.len()).map(|number| (self.place(number), &self.sections[number]))
    }

    /// The sections that may have elements of a region.
    pub(super) fn sections_of(&self, region: &Region) -> std::ops::Range<usize> {
        if region.is_empty() {
            return 0..0;
        }
        let Some(first) = region.start().get(self.along) else { return 0..1 };
        let end = region.end(self.along);
        let begin = self.starts.partition_point(|start| start <= first).saturating_sub(1);
        begin..self.starts.partition_point(|start| *start < end)
    }

    /// The part of the array that a section covers.
    pub(super) fn place(&self, section: usize) -> Region {
        let shape = &self.description.shape;
        let place = self.sections[section].shape(shape, self.along).expect("a checked section fits its array");
        let start = (0..shape.rank()).map(|axis| if axis == self.along { self.starts[section] } else { 0 });
        Region::new(start, place).expect("a checked section lies in its array")
    }
}

/// An array as it is written, before it is checked.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UncheckedArray {
    pub(super) description: ArrayDescription,
    along: usize,
    sections: Vec<Section>,
}

impl TryFrom<UncheckedArray> for ArrayManifest {
    type Error = ManifestProblem;

    fn try_from(unchecked: UncheckedArray) -> Result<Self, ManifestProblem> {
        Self::new(unchecked.description, unchecked.along, unchecked.sections)
    }
}

impl From<ArrayManifest> for UncheckedArray {
    fn from(array: ArrayManifest) -> Self {
        Self { description: array.description, along: array.along, sections: array.sections }
    }
}
