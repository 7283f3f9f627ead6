//! The memory that decoded values take, counted in encoded ones.
//!
//! An entry of one byte may take hundreds of times as much in memory, so bytes that come from
//! elsewhere are read once without keeping their entries before they are decoded. Types here have
//! the encoding of those for which they stand, and the memory of their entries in place of the
//! entries.

use super::attribute::AttributeValue;
use crate::data_type::DataType;
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use std::{fmt, marker::PhantomData};

/// A value that is an entry of a list, and its part of further sums over the list.
pub trait Entry<S = ()> {
    /// The memory of the entry itself in bytes, without the memory to which it points.
    const BYTES: usize;

    /// The memory to which the entry points, in bytes.
    fn behind(&self) -> u64 {
        0
    }

    /// Adds the entry's part of the further sums. Default: there is none.
    fn add_to(&self, _sums: &mut S) {}
}

/// A list, as the memory of its entries.
#[derive(Debug)]
pub struct List<T, S = ()> {
    /// The number of entries.
    pub count: u64,
    /// The memory in bytes.
    pub bytes: u64,
    /// Further sums over the entries.
    pub sums: S,
    entries: PhantomData<T>,
}

/// Text, as its memory.
#[derive(Debug)]
pub struct Text {
    /// The memory in bytes.
    pub bytes: u64,
}

/// [`Attributes`](super::Attributes).
#[derive(Debug)]
pub struct AttributesWeight {
    /// The memory in bytes.
    pub bytes: u64,
}

/// [`ArrayDescription`](super::ArrayDescription).
#[derive(Debug, Deserialize)]
pub struct DescriptionWeight {
    name: Text,
    _dtype: DataType,
    shape: List<u64>,
    dimension_names: List<Option<Text>>,
    fill_value: Option<List<u8>>,
    attributes: AttributesWeight,
}

impl DescriptionWeight {
    /// The memory to which the description points, in bytes.
    pub fn behind(&self) -> u64 {
        let fill_value = self.fill_value.as_ref().map_or(0, |bytes| bytes.bytes);
        self.name.bytes + self.shape.bytes + self.dimension_names.bytes + fill_value + self.attributes.bytes
    }

    /// The number of axes: the larger one, if the shape and the names differ.
    pub fn axes(&self) -> u64 {
        self.shape.count.max(self.dimension_names.count)
    }
}

impl<'de, T: Entry<S> + Deserialize<'de>, S: Default> Deserialize<'de> for List<T, S> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T, S>(PhantomData<(T, S)>);

        impl<'de, T: Entry<S> + Deserialize<'de>, S: Default> Visitor<'de> for Entries<T, S> {
            type Value = List<T, S>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<List<T, S>, A::Error> {
                let mut list = List { count: 0, bytes: 0, sums: S::default(), entries: PhantomData };
                while let Some(entry) = entries.next_element::<T>()? {
                    if list.count == 0 {
                        list.bytes = ALLOCATION;
                    }
                    list.count += 1;
                    list.bytes += T::BYTES as u64 + entry.behind();
                    entry.add_to(&mut list.sums);
                }
                Ok(list)
            }
        }

        deserializer.deserialize_seq(Entries(PhantomData))
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&str>::deserialize(deserializer)?;
        Ok(Self { bytes: if text.is_empty() { 0 } else { ALLOCATION + text.len() as u64 } })
    }
}

/// [`AttributeValue`].
#[derive(Deserialize)]
enum ValueWeight {
    Text(Text),
    Bytes(List<u8>),
    Numbers { _dtype: DataType, bytes: List<u8> },
}

impl<'de> Deserialize<'de> for AttributesWeight {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Values;

        impl<'de> Visitor<'de> for Values {
            type Value = u64;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("attributes")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut values: A) -> Result<u64, A::Error> {
                let mut bytes = 0;
                while let Some((name, value)) = values.next_entry::<Text, ValueWeight>()? {
                    let behind = match value {
                        ValueWeight::Text(text) => text.bytes,
                        ValueWeight::Bytes(list) | ValueWeight::Numbers { bytes: list, .. } => list.bytes,
                    };
                    // A node of the map has 11 places, of which at least 5 are taken, or it is the only one.
                    let place = size_of::<(String, AttributeValue)>() as u64;
                    bytes += if bytes == 0 { 11 * place + ALLOCATION } else { 3 * place };
                    bytes += name.bytes + behind;
                }
                Ok(bytes)
            }
        }

        Ok(Self { bytes: deserializer.deserialize_map(Values)? })
    }
}

impl Entry for Text {
    const BYTES: usize = size_of::<String>();

    fn behind(&self) -> u64 {
        self.bytes
    }
}

impl Entry for Option<Text> {
    const BYTES: usize = size_of::<Option<String>>();

    fn behind(&self) -> u64 {
        self.as_ref().map_or(0, |text| text.bytes)
    }
}

impl Entry for usize {
    const BYTES: usize = size_of::<Self>();
}

impl Entry for u64 {
    const BYTES: usize = size_of::<Self>();
}

impl Entry for u8 {
    const BYTES: usize = size_of::<Self>();
}

/// The memory that an allocation takes beside its bytes: glibc's has a word before it, and a
/// multiple of 16 bytes.
const ALLOCATION: u64 = 16;
