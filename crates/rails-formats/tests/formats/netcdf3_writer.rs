//! A writer of CDF-1, CDF-2 and CDF-5, straight from the specification, for tests.

use crate::arrays::{Element, big_endian};
use ndarray::ArrayD;
use rails_formats::data_type::DataType;

/// The file to write. A dimension of length 0 is the record dimension.
#[derive(Debug, Clone, Default)]
pub(crate) struct File {
    pub(crate) version: u8,
    /// Whether the number of records is left open.
    pub(crate) is_streaming: bool,
    pub(crate) dimensions: Vec<(String, u64)>,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) variables: Vec<Variable>,
}

#[derive(Debug, Clone)]
pub(crate) struct Attribute {
    pub(crate) name: String,
    pub(crate) dtype: DataType,
    /// The values' bytes, big-endian.
    pub(crate) values: Vec<u8>,
}

#[derive(Debug, Clone)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) dimensions: Vec<u64>,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) dtype: DataType,
    /// All values, those of all records.
    pub(crate) values: ArrayD<Element>,
}

/// The bytes of the file.
pub(crate) fn write(file: &File) -> Vec<u8> {
    // The length of the header does not depend on the offsets in it.
    let header_bytes = header(file, &vec![0; file.variables.len()]).len() as u64;
    let mut offset = header_bytes;
    let mut begins = vec![0; file.variables.len()];
    for is_record in [false, true] {
        for (number, variable) in file.variables.iter().enumerate() {
            if file.has_records(variable) == is_record {
                begins[number] = offset;
                offset = offset.saturating_add(file.slab_bytes(variable)).next_multiple_of(4);
            }
        }
    }
    let mut bytes = header(file, &begins);
    for variable in file.variables.iter().filter(|variable| !file.has_records(variable)) {
        bytes.extend(variable.values.iter().flat_map(|element| big_endian(element, variable.dtype)));
        bytes.resize(padded(bytes.len() as u64) as usize, 0);
    }
    let recorded: Vec<&Variable> = file.variables.iter().filter(|variable| file.has_records(variable)).collect();
    for record in 0..file.records() {
        for variable in &recorded {
            let slab = variable.values.index_axis(ndarray::Axis(0), record as usize);
            bytes.extend(slab.iter().flat_map(|element| big_endian(element, variable.dtype)));
            // "A special case": one record variable is not padded.
            if recorded.len() > 1 {
                bytes.resize(padded(bytes.len() as u64) as usize, 0);
            }
        }
    }
    bytes
}

impl File {
    pub(crate) fn records(&self) -> u64 {
        let recorded = self.variables.iter().find(|variable| self.has_records(variable));
        recorded.map_or(0, |variable| variable.values.shape()[0] as u64)
    }

    fn has_records(&self, variable: &Variable) -> bool {
        variable.dimensions.first().is_some_and(|first| self.dimensions[*first as usize].1 == 0)
    }

    fn slab_bytes(&self, variable: &Variable) -> u64 {
        let lengths = variable.dimensions.iter().map(|dimension| self.dimensions[*dimension as usize].1);
        lengths.filter(|length| *length > 0).fold(variable.dtype.bytes(), u64::saturating_mul)
    }
}

pub(crate) fn header(file: &File, begins: &[u64]) -> Vec<u8> {
    let mut out = vec![b'C', b'D', b'F', file.version];
    if file.is_streaming {
        out.extend(vec![0xff; if file.version == 5 { 8 } else { 4 }]);
    } else {
        number(&mut out, file, file.records());
    }
    tagged(&mut out, file, 10, file.dimensions.len());
    for (dimension, length) in &file.dimensions {
        name(&mut out, file, dimension);
        number(&mut out, file, *length);
    }
    attributes(&mut out, file, &file.attributes);
    tagged(&mut out, file, 11, file.variables.len());
    for (variable, begin) in file.variables.iter().zip(begins) {
        name(&mut out, file, &variable.name);
        number(&mut out, file, variable.dimensions.len() as u64);
        for dimension in &variable.dimensions {
            number(&mut out, file, *dimension);
        }
        attributes(&mut out, file, &variable.attributes);
        out.extend(code(variable.dtype).to_be_bytes());
        // "If a variable is too large", this field has the largest number.
        let largest = if file.version == 5 { u64::MAX } else { u32::MAX.into() };
        number(&mut out, file, file.slab_bytes(variable).checked_next_multiple_of(4).unwrap_or(largest).min(largest));
        match file.version {
            1 => out.extend((*begin as u32).to_be_bytes()),
            _ => out.extend(begin.to_be_bytes()),
        }
    }
    out
}

fn attributes(out: &mut Vec<u8>, file: &File, attributes: &[Attribute]) {
    tagged(out, file, 12, attributes.len());
    for attribute in attributes {
        name(out, file, &attribute.name);
        out.extend(code(attribute.dtype).to_be_bytes());
        number(out, file, attribute.values.len() as u64 / attribute.dtype.bytes());
        out.extend(&attribute.values);
        out.resize(padded(out.len() as u64) as usize, 0);
    }
}

fn tagged(out: &mut Vec<u8>, file: &File, tag: u32, count: usize) {
    out.extend(if count == 0 { 0 } else { tag }.to_be_bytes());
    number(out, file, count as u64);
}

fn name(out: &mut Vec<u8>, file: &File, name: &str) {
    number(out, file, name.len() as u64);
    out.extend(name.as_bytes());
    out.resize(padded(out.len() as u64) as usize, 0);
}

fn number(out: &mut Vec<u8>, file: &File, value: u64) {
    match file.version {
        5 => out.extend(value.to_be_bytes()),
        _ => out.extend(u32::try_from(value).unwrap().to_be_bytes()),
    }
}

fn code(dtype: DataType) -> u32 {
    match dtype {
        DataType::Int8 => 1,
        DataType::Char => 2,
        DataType::Int16 => 3,
        DataType::Int32 => 4,
        DataType::Float32 => 5,
        DataType::Float64 => 6,
        DataType::Uint8 => 7,
        DataType::Uint16 => 8,
        DataType::Uint32 => 9,
        DataType::Int64 => 10,
        DataType::Uint64 => 11,
        other => panic!("NetCDF-3 has no {other}"),
    }
}

fn padded(bytes: u64) -> u64 {
    bytes.next_multiple_of(4)
}
