//! The memory that a decoded description takes, counted in the encoded one.
//!
//! An attribute of three bytes may take two hundred in memory, so an encoded description is read
//! once without keeping its entries before it is decoded. Types here have the encoding of those for
//! which they stand, and the memory of their entries in place of the entries.

use super::{
    error::WireProblem,
    frame::DenialReason,
    limits::{MAX_DESCRIPTION_MEMORY, MAX_INLINE_BYTES, MAX_INLINE_SUM},
};
use crate::description::ArraySummary;
use rails_array::MAX_RANK;
use rails_formats::{data_type::DataType, manifest::AttributeValue};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use std::{fmt, marker::PhantomData};

/// The content of [`ServerFrame::Described`](super::frame::ServerFrame::Described).
#[derive(Deserialize)]
pub(super) struct DescribedWeight {
    _question: u32,
    description: Result<DescriptionWeight, DenialWeight>,
}

/// [`DatasetDescription`](crate::description::DatasetDescription).
#[derive(Deserialize)]
pub(super) struct DescriptionWeight {
    name: Text,
    _generation: u64,
    _digest: [u8; 32],
    attributes: AttributesWeight,
    arrays: List<ArrayWeight>,
}

impl DescribedWeight {
    /// Compares the memory with the limits.
    pub(super) fn check(&self) -> Result<(), WireProblem> {
        match &self.description {
            Ok(description) => description.check(),
            // A denial is as long as its encoding, which the caller has checked.
            Err(DenialWeight { .. }) => Ok(()),
        }
    }
}

impl DescriptionWeight {
    /// Compares the memory with the limits.
    pub(super) fn check(&self) -> Result<(), WireProblem> {
        let Sums { longest_inline, inline, largest_rank, .. } = self.arrays.sums;
        if largest_rank > MAX_RANK {
            return Err(WireProblem::List { entries: "axes", max: MAX_RANK });
        }
        if longest_inline > MAX_INLINE_BYTES as u64 {
            return Err(WireProblem::List { entries: "bytes of elements", max: MAX_INLINE_BYTES });
        }
        if inline > MAX_INLINE_SUM {
            return Err(WireProblem::InlineSum { bytes: inline });
        }
        let bytes = self.bytes();
        if bytes > MAX_DESCRIPTION_MEMORY { Err(WireProblem::Memory { bytes }) } else { Ok(()) }
    }

    /// The memory of the description in bytes.
    fn bytes(&self) -> u64 {
        self.name.0 + self.attributes.bytes + self.arrays.sums.bytes
    }
}

/// [`Denial`](super::frame::Denial).
#[derive(Deserialize)]
struct DenialWeight {
    _reason: DenialReason,
    _text: Text,
}

/// [`ArraySummary`].
#[derive(Deserialize)]
struct ArrayWeight {
    description: ArrayDescriptionWeight,
    block_shape: List<u64>,
    inline: Option<List<u8>>,
}

/// [`ArrayDescription`](rails_formats::manifest::ArrayDescription).
#[derive(Deserialize)]
struct ArrayDescriptionWeight {
    name: Text,
    _dtype: DataType,
    shape: List<u64>,
    dimension_names: List<Option<Text>>,
    fill_value: Option<List<u8>>,
    attributes: AttributesWeight,
}

/// [`AttributeValue`].
#[derive(Deserialize)]
enum ValueWeight {
    Text(Text),
    Bytes(List<u8>),
    Numbers { _dtype: DataType, bytes: List<u8> },
}

/// Sums over the entries of a list.
#[derive(Default, Clone, Copy)]
struct Sums {
    /// The number of entries.
    count: u64,
    /// The memory of the list in bytes.
    bytes: u64,
    /// The sizes of the arrays that are there as a whole, in bytes.
    inline: u64,
    /// The largest of them.
    longest_inline: u64,
    /// The largest number of axes of an array.
    largest_rank: usize,
}

/// A value that is an entry of a list.
trait Entry {
    /// The memory of the entry itself in bytes, without the memory to which it points.
    const BYTES: usize;

    /// Adds the memory to which the entry points, and its part of the other sums.
    fn add_to(&self, _sums: &mut Sums) {}
}

impl Entry for ArrayWeight {
    // Names are compared in a set of pointers, of which an eighth to five ninths are free.
    const BYTES: usize = size_of::<ArraySummary>() + 4 * size_of::<usize>();

    fn add_to(&self, sums: &mut Sums) {
        let ArrayDescriptionWeight { name, shape, dimension_names, fill_value, attributes, .. } = &self.description;
        let lists = [&shape.sums, &dimension_names.sums, &self.block_shape.sums];
        let inline = self.inline.as_ref().map_or(Sums::default(), |elements| elements.sums);
        let fill_value = fill_value.as_ref().map_or(0, |element| element.sums.bytes);
        sums.bytes += name.0 + attributes.bytes + fill_value + inline.bytes;
        for list in lists {
            sums.bytes += list.bytes;
            sums.largest_rank = sums.largest_rank.max(usize::try_from(list.count).unwrap_or(usize::MAX));
        }
        sums.inline += inline.count;
        sums.longest_inline = sums.longest_inline.max(inline.count);
    }
}

impl Entry for Option<Text> {
    const BYTES: usize = size_of::<Option<String>>();

    fn add_to(&self, sums: &mut Sums) {
        sums.bytes += self.as_ref().map_or(0, |text| text.0);
    }
}

impl Entry for u64 {
    const BYTES: usize = size_of::<Self>();
}

impl Entry for u8 {
    const BYTES: usize = size_of::<Self>();
}

/// A list, as sums over its entries.
struct List<T> {
    sums: Sums,
    entries: PhantomData<T>,
}

impl<'de, T: Entry + Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T>(PhantomData<T>);

        impl<'de, T: Entry + Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = Sums;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Sums, A::Error> {
                let mut sums = Sums::default();
                while let Some(entry) = entries.next_element::<T>()? {
                    if sums.count == 0 {
                        sums.bytes = ALLOCATION;
                    }
                    sums.count += 1;
                    sums.bytes += T::BYTES as u64;
                    entry.add_to(&mut sums);
                }
                Ok(sums)
            }
        }

        Ok(Self { sums: deserializer.deserialize_seq(Entries(PhantomData::<T>))?, entries: PhantomData })
    }
}

/// Text, as its memory.
struct Text(u64);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&str>::deserialize(deserializer)?;
        Ok(Self(if text.is_empty() { 0 } else { ALLOCATION + text.len() as u64 }))
    }
}

/// [`Attributes`](rails_formats::manifest::Attributes).
struct AttributesWeight {
    bytes: u64,
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
                        ValueWeight::Text(text) => text.0,
                        ValueWeight::Bytes(list) | ValueWeight::Numbers { bytes: list, .. } => list.sums.bytes,
                    };
                    // A node of the map has 11 places, of which at least 5 are taken, or it is the only one.
                    let place = size_of::<(String, AttributeValue)>() as u64;
                    bytes += if bytes == 0 { 11 * place + ALLOCATION } else { 3 * place };
                    bytes += name.0 + behind;
                }
                Ok(bytes)
            }
        }

        Ok(Self { bytes: deserializer.deserialize_map(Values)? })
    }
}

/// The memory that an allocation takes beside its bytes: glibc's has a word before it, and a
/// multiple of 16 bytes.
const ALLOCATION: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::description::DatasetDescription;
    use allocation_counter::measure;
    use rails_array::Shape;
    use rails_formats::manifest::{ArrayDescription, Attributes};

    fn attributes(count: usize) -> Attributes {
        let value = |number: usize| match number % 4 {
            0 => AttributeValue::Text("K".repeat(number % 7)),
            1 => AttributeValue::Bytes(vec![0xe9; number % 5]),
            _ => AttributeValue::Numbers { dtype: DataType::Int16, bytes: vec![7; number % 9] },
        };
        (0..count).map(|number| (format!("a{number}"), value(number))).collect()
    }

    fn array(number: usize, rank: usize, attribute_count: usize) -> ArraySummary {
        let shape = Shape::new(vec![1; rank]).unwrap();
        ArraySummary {
            description: ArrayDescription {
                name: format!("v{number}"),
                dtype: DataType::Int16,
                shape: shape.clone(),
                dimension_names: (0..rank).map(|axis| axis.is_multiple_of(2_usize).then(|| "time".into())).collect(),
                fill_value: Some(vec![1, 2]),
                attributes: attributes(attribute_count),
            },
            block_shape: shape,
            inline: number.is_multiple_of(2).then(|| vec![7; 2]),
        }
    }

    #[test]
    fn weights_are_at_least_the_memory() {
        let many = |count, rank, attribute_count| (0..count).map(|n| array(n, rank, attribute_count)).collect();
        for (arrays, attribute_count) in
            [(vec![], 500), (many(1, 32, 0), 1), (many(300, 2, 3), 0), (many(100, 5, 12), 11), (many(1000, 0, 0), 5)]
        {
            let attributes = attributes(attribute_count);
            let description =
                DatasetDescription { name: "wind".into(), generation: 7, digest: [7; 32], attributes, arrays };
            let bytes = postcard::to_stdvec(&description).unwrap();
            let weight = postcard::from_bytes::<DescriptionWeight>(&bytes).unwrap().bytes();
            let mut decoded = None;
            let used = measure(|| decoded = Some(postcard::from_bytes::<DatasetDescription>(&bytes).unwrap()));
            assert_eq!(decoded, Some(description));
            assert!(used.bytes_current as u64 <= weight, "{used:?} of {weight}");
            assert!(used.bytes_max <= 3 * weight, "{used:?} of {weight}");
        }
    }
}
