//! The header of numpy's format, version 1.0 (`numpy/lib/format.py`).

use super::Frame;
use rails_array::Shape;
use rails_formats::data_type::{DataType, Endianness};

pub(super) fn frame(dtype: DataType, shape: &Shape) -> Frame {
    let extents: String = shape.extents().iter().map(|extent| format!("{extent}, ")).collect();
    // A tuple of one keeps its comma.
    let extents = if shape.rank() > 1 { extents.trim_end_matches(", ") } else { extents.trim_end() };
    let dictionary = format!("{{'descr': '{}', 'fortran_order': False, 'shape': ({extents}), }}", descr(dtype));
    let mut header = b"\x93NUMPY\x01\x00".to_vec();
    // Magic, version, length, dictionary and a newline fill a multiple of 64 bytes.
    let length = (header.len() + 2 + dictionary.len() + 1).next_multiple_of(64) - header.len() - 2;
    let bytes = u16::try_from(length).expect("32 extents take less than 64 KiB");
    header.extend(bytes.to_le_bytes());
    header.extend(format!("{dictionary:<width$}\n", width = length - 1).into_bytes());
    Frame { header, endianness: Endianness::Little, trailer: Vec::new() }
}

fn descr(dtype: DataType) -> &'static str {
    match dtype {
        DataType::Int8 => "|i1",
        DataType::Uint8 => "|u1",
        DataType::Int16 => "<i2",
        DataType::Uint16 => "<u2",
        DataType::Int32 => "<i4",
        DataType::Uint32 => "<u4",
        DataType::Int64 => "<i8",
        DataType::Uint64 => "<u8",
        DataType::Float32 => "<f4",
        DataType::Float64 => "<f8",
        DataType::Char => "|S1",
        // The bytes of an element of an unknown type.
        other => ["|V1", "|V2", "|V4", "|V8"][other.bytes().ilog2() as usize],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_numpys() {
        for (extents, text) in [(&[][..], "()"), (&[7][..], "(7,)"), (&[2, 3][..], "(2, 3)")] {
            let header = frame(DataType::Float32, &Shape::new(extents.to_vec()).unwrap()).header;
            assert!(header.len().is_multiple_of(64) && header.ends_with(b"\n"));
            let dictionary = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {text}, }}");
            assert_eq!(&header[10..10 + dictionary.len()], dictionary.as_bytes());
            assert_eq!(usize::from(u16::from_le_bytes([header[8], header[9]])) + 10, header.len());
        }
    }
}
