//! From a header to a manifest.

use super::{
    Header,
    header::{Dimension, Variable},
};
use crate::{
    data_type::{DataType, Endianness},
    header::{IndexError, do_names_fit},
    manifest::{
        ArrayDescription, ArrayManifest, AttributeValue, Attributes, Codec, Manifest, ManifestProblem, ObjectPath,
        Placement, Section,
    },
};
use rails_array::Shape;

impl Header {
    /// The manifest of the file, in which it has the path `object`.
    ///
    /// # Errors
    /// [`IndexError`], if a variable does not lie between the header and the end of the file, or
    /// its records overlap.
    pub fn index(&self, object: ObjectPath, file_bytes: u64) -> Result<Manifest, IndexError> {
        let axes = self.variables.iter().flat_map(|variable| &variable.axes);
        if !do_names_fit(axes.map(|axis| &self.dimensions[*axis].name)) {
            return Err(IndexError::AxisNames);
        }
        let coordinates = self.dimensions.iter().map(|dimension| {
            let problem = |problem| IndexError::Variable { name: dimension.name.clone(), problem };
            coordinates(dimension).map_err(problem)
        });
        let variables = self.variables.iter().map(|variable| self.variable(variable, file_bytes));
        let arrays = coordinates.chain(variables).collect::<Result<_, _>>()?;
        let texts = self.attributes.iter().map(|(name, value)| (name.clone(), AttributeValue::Text(value.clone())));
        Ok(Manifest::new(vec![object], arrays, texts.collect())?)
    }

    fn variable(&self, variable: &Variable, file_bytes: u64) -> Result<ArrayManifest, IndexError> {
        let name = || variable.name.clone();
        let problem = |problem| IndexError::Variable { name: name(), problem };
        let dimensions = || variable.axes.iter().map(|axis| &self.dimensions[*axis]);
        let shape = Shape::new(dimensions().map(Dimension::length)).map_err(|error| problem(error.into()))?;
        // A record without elements is a chunk of the smallest extents.
        let record =
            dimensions().enumerate().map(|(axis, dimension)| if axis == 0 { 1 } else { dimension.length().max(1) });
        let record = Shape::new(record).map_err(|error| problem(error.into()))?;
        let bytes = record.elements().checked_mul(variable.dtype.bytes());
        let bytes = bytes.ok_or_else(|| problem(ManifestProblem::TooLarge))?;
        if !shape.is_empty() && variable.first_record < self.bytes {
            let (offset, header_bytes) = (variable.first_record, self.bytes);
            return Err(IndexError::InsideHeader { name: name(), offset, header_bytes });
        }
        if !shape.is_empty() && shape.extents()[0] > 1 && variable.record_stride < bytes {
            return Err(IndexError::Overlap { name: name(), bytes, stride: variable.record_stride });
        }
        let mut strides = vec![0; shape.rank()];
        strides[0] = variable.record_stride;
        let section = Section {
            extent: shape.extents()[0],
            chunk_shape: record,
            codecs: vec![Codec::Bytes { endianness: Endianness::Big }],
            placement: Placement::Regular { object: 0, offset: variable.first_record, strides, length: bytes },
        };
        let little_endian = |missing: &Vec<u8>| missing.iter().rev().copied().collect();
        let description = ArrayDescription {
            name: name(),
            dtype: variable.dtype,
            shape,
            dimension_names: dimensions().map(|dimension| Some(dimension.name.clone())).collect(),
            fill_value: variable.missing.as_ref().map(little_endian),
            attributes: units(&variable.unit),
        };
        let array = ArrayManifest::new(description, 0, vec![section]).map_err(problem)?;
        match array.sections()[0].regular_end(array.description(), 0) {
            Some(end) if end > file_bytes => Err(IndexError::Truncated { name: name(), end, file_bytes }),
            _ => Ok(array),
        }
    }
}

impl Dimension {
    fn length(&self) -> u64 {
        self.coordinates.len() as u64
    }
}

/// The coordinates of a dimension, which lie in the header.
fn coordinates(dimension: &Dimension) -> Result<ArrayManifest, ManifestProblem> {
    let (dtype, shape) = (DataType::Float64, Shape::new([dimension.length()])?);
    let section = Section::contiguous(&shape, 0, 0, dimension.offset, dtype, Endianness::Big);
    let description = ArrayDescription {
        name: dimension.name.clone(),
        dtype,
        shape,
        dimension_names: vec![Some(dimension.name.clone())],
        fill_value: None,
        attributes: units(&dimension.unit),
    };
    ArrayManifest::new(description, 0, vec![section])
}

/// The attribute `units`, as NetCDF's conventions have it.
fn units(unit: &str) -> Attributes {
    let value = (!unit.is_empty()).then(|| ("units".to_owned(), AttributeValue::Text(unit.to_owned())));
    value.into_iter().collect()
}
