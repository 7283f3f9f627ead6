//! Types of elements, and fill values.

use super::error::ZarrProblem;
use crate::data_type::{DataType, Endianness};
use zarrs::{
    array::DataType as ZarrsDataType,
    metadata::{FillValueMetadata, v3::MetadataV3},
};

/// The type of that name in Zarr's third version.
pub(super) fn v3(data_type: &MetadataV3) -> Result<DataType, ZarrProblem> {
    let is_named = |dtype: &DataType| dtype.name() == data_type.name() && *dtype != DataType::Char;
    let found = DataType::ALL.into_iter().find(is_named).filter(|_| data_type.configuration().is_none());
    found.ok_or_else(|| ZarrProblem::DataType { data_type: format!("`{data_type}`") })
}

/// The type and the order of bytes of that name in Zarr's second version, which is NumPy's.
pub(super) fn v2(name: &str) -> Result<(DataType, Endianness), ZarrProblem> {
    let unknown = || ZarrProblem::DataType { data_type: format!("`{name}`") };
    let (order, kind) = name.split_at_checked(1).ok_or_else(unknown)?;
    let dtype = match kind {
        "i1" => DataType::Int8,
        "u1" => DataType::Uint8,
        "i2" => DataType::Int16,
        "u2" => DataType::Uint16,
        "i4" => DataType::Int32,
        "u4" => DataType::Uint32,
        "i8" => DataType::Int64,
        "u8" => DataType::Uint64,
        "f4" => DataType::Float32,
        "f8" => DataType::Float64,
        "S1" => DataType::Char,
        _ => return Err(unknown()),
    };
    match order {
        "<" => Ok((dtype, Endianness::Little)),
        ">" => Ok((dtype, Endianness::Big)),
        "|" if dtype.bytes() == 1 => Ok((dtype, Endianness::NATIVE)),
        _ => Err(unknown()),
    }
}

/// A fill value as one element, little-endian.
pub(super) fn fill_value(value: &FillValueMetadata, dtype: DataType) -> Result<Vec<u8>, ZarrProblem> {
    let wrong = || {
        let value = serde_json::to_string(value).unwrap_or_default();
        ZarrProblem::FillValue { value, data_type: dtype.to_string() }
    };
    let data_type = ZarrsDataType::from_metadata(&MetadataV3::new(dtype.name())).map_err(|_| wrong())?;
    let mut element = data_type.fill_value_v3(value).map_err(|_| wrong())?.as_ne_bytes().to_vec();
    if Endianness::NATIVE == Endianness::Big {
        element.reverse();
    }
    Ok(element)
}
