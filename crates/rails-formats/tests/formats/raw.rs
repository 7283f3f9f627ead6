//! Raw binary files.

use crate::arrays::{self, expected};
use proptest::{prelude::*, sample::select};
use rails_array::{Region, Shape};
use rails_formats::{
    data_type::{DataType, Endianness},
    manifest::ObjectPath,
    plan::MergeLimits,
    raw::{Raw, RawError},
};

proptest! {
    #[test]
    fn every_region_is_read(
        extents in arrays::extents(),
        (seed, offset, is_big) in (any::<u64>(), 0_u64..20, any::<bool>()),
        dtype in select(&DataType::ALL[..]),
        draws in arrays::draws(),
        limits in arrays::limits(),
    ) {
        let array = arrays::array(&extents, seed);
        let endianness = if is_big { Endianness::Big } else { Endianness::Little };
        let mut file = vec![0xee; offset as usize];
        for element in &array {
            let mut bytes = arrays::native(element, dtype);
            dtype.swap_to_native(&mut bytes, endianness);
            file.extend(bytes);
        }
        let shape = Shape::new(extents.iter().copied()).unwrap();
        let raw = Raw { offset, dtype, endianness, shape, dimensions: vec![] };
        let manifest = raw.index("v", ObjectPath::new("a.raw").unwrap(), file.len() as u64).unwrap();
        let region = arrays::region(&extents, &draws);
        prop_assert_eq!(arrays::read(&manifest, "v", &region, &limits, &[&file]), expected(&array, &region, dtype));
        let short = raw.index("v", ObjectPath::new("a.raw").unwrap(), file.len() as u64 - 1);
        let is_truncated = matches!(short, Err(RawError::Truncated { .. }));
        prop_assert!(is_truncated);
    }
}

#[test]
fn any_file_is_its_bytes() {
    let object = || ObjectPath::new("a").unwrap();
    let manifest = Raw::bytes(5).index("bytes", object(), 5).unwrap();
    let middle = Region::new([1], Shape::new([3]).unwrap()).unwrap();
    assert_eq!(arrays::read(&manifest, "bytes", &middle, &MergeLimits::default(), &[b"abcde"]), b"bcd");
    assert!(Raw::bytes(0).index("bytes", object(), 0).is_ok());
}

#[test]
fn wrong_descriptions_are_errors() {
    let raw = |shape: &[u64], dimensions: &[&str]| Raw {
        offset: u64::MAX - 8,
        dtype: DataType::Float64,
        endianness: Endianness::Big,
        shape: Shape::new(shape.iter().copied()).unwrap(),
        dimensions: dimensions.iter().map(|name| (*name).into()).collect(),
    };
    let index = |raw: Raw| raw.index("v", ObjectPath::new("a").unwrap(), u64::MAX);
    assert!(index(raw(&[1], &["x"])).is_ok());
    assert!(matches!(index(raw(&[1], &["x", "y"])), Err(RawError::Array { .. })));
    assert!(matches!(index(raw(&[2], &[])), Err(RawError::Array { .. })));
    assert!(matches!(index(raw(&[1 << 62], &[])), Err(RawError::Array { .. })));
}
