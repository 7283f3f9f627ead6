//! The types of elements, and the order of their bytes.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The type of an array's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum DataType {
    /// Signed, 8 bits.
    Int8,
    /// Unsigned, 8 bits.
    Uint8,
    /// Signed, 16 bits.
    Int16,
    /// Unsigned, 16 bits.
    Uint16,
    /// Signed, 32 bits.
    Int32,
    /// Unsigned, 32 bits.
    Uint32,
    /// Signed, 64 bits.
    Int64,
    /// Unsigned, 64 bits.
    Uint64,
    /// IEEE 754, 32 bits.
    Float32,
    /// IEEE 754, 64 bits.
    Float64,
    /// One byte of text in an unknown encoding.
    Char,
}

/// The order of the bytes of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Endianness {
    /// The lowest byte is first.
    Little,
    /// The highest byte is first.
    Big,
}

impl DataType {
    /// Every type.
    pub const ALL: [Self; 11] = [
        Self::Int8,
        Self::Uint8,
        Self::Int16,
        Self::Uint16,
        Self::Int32,
        Self::Uint32,
        Self::Int64,
        Self::Uint64,
        Self::Float32,
        Self::Float64,
        Self::Char,
    ];

    /// The size of an element in bytes: 1, 2, 4 or 8.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Int8 | Self::Uint8 | Self::Char => 1,
            Self::Int16 | Self::Uint16 => 2,
            Self::Int32 | Self::Uint32 | Self::Float32 => 4,
            Self::Int64 | Self::Uint64 | Self::Float64 => 8,
        }
    }

    /// The name, which is Zarr's where Zarr has the type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Int8 => "int8",
            Self::Uint8 => "uint8",
            Self::Int16 => "int16",
            Self::Uint16 => "uint16",
            Self::Int32 => "int32",
            Self::Uint32 => "uint32",
            Self::Int64 => "int64",
            Self::Uint64 => "uint64",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
            Self::Char => "char",
        }
    }

    /// Reads elements as numbers. Integers beyond 2^53 are rounded; text has no numbers (`None`).
    /// Bytes behind the last whole element are left out.
    pub fn numbers(self, bytes: &[u8], endianness: Endianness) -> Option<Vec<f64>> {
        let mut native = bytes.to_vec();
        self.swap_to_native(&mut native, endianness);
        let elements = native.chunks_exact(self.bytes() as usize);
        macro_rules! read {
            ($type:ty) => {
                elements.map(|element| <$type>::from_ne_bytes(element.try_into().expect("its size")) as f64).collect()
            };
        }
        Some(match self {
            Self::Int8 => read!(i8),
            Self::Uint8 => read!(u8),
            Self::Int16 => read!(i16),
            Self::Uint16 => read!(u16),
            Self::Int32 => read!(i32),
            Self::Uint32 => read!(u32),
            Self::Int64 => read!(i64),
            Self::Uint64 => read!(u64),
            Self::Float32 => read!(f32),
            Self::Float64 => read!(f64),
            Self::Char => return None,
        })
    }

    /// Turns elements in that order of bytes into this machine's. Bytes behind the last whole
    /// element stay.
    pub fn swap_to_native(self, elements: &mut [u8], from: Endianness) {
        if from != Endianness::NATIVE && self.bytes() > 1 {
            elements.chunks_exact_mut(self.bytes() as usize).for_each(<[u8]>::reverse);
        }
    }
}

impl Endianness {
    /// The order of this machine.
    pub const NATIVE: Self = if cfg!(target_endian = "big") { Self::Big } else { Self::Little };
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Endianness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Little => "little",
            Self::Big => "big",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_serde() {
        for dtype in DataType::ALL {
            assert_eq!(serde_json::to_string(&dtype).unwrap(), format!("\"{dtype}\""));
        }
    }

    #[test]
    fn numbers_of_both_orders() {
        let big = Endianness::Big;
        assert_eq!(DataType::Int16.numbers(&[0xff, 0xfe, 0, 7, 9], big), Some(vec![-2.0, 7.0]));
        assert_eq!(DataType::Uint16.numbers(&[0xfe, 0xff], Endianness::Little), Some(vec![65534.0]));
        assert_eq!(DataType::Float64.numbers(&1.5_f64.to_be_bytes(), big), Some(vec![1.5]));
        assert_eq!(DataType::Char.numbers(b"text", big), None);
    }

    #[test]
    fn swapping_twice_changes_nothing() {
        let other = if Endianness::NATIVE == Endianness::Big { Endianness::Little } else { Endianness::Big };
        for dtype in DataType::ALL {
            let elements: Vec<u8> = (0..17).collect();
            let mut swapped = elements.clone();
            dtype.swap_to_native(&mut swapped, other);
            assert_eq!(swapped == elements, dtype.bytes() == 1);
            dtype.swap_to_native(&mut swapped, Endianness::NATIVE);
            dtype.swap_to_native(&mut swapped, other);
            assert_eq!(swapped, elements);
        }
    }
}
