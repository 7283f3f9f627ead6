//! The memory that a decoded description takes, counted in the encoded one.
//!
//! An attribute of three bytes may take two hundred in memory, so an encoded description is read
//! once without keeping its entries before it is decoded, as [`rails_formats::manifest::weight`]
//! explains.

use super::{
    error::WireProblem,
    frame::DenialReason,
    limits::{MAX_DESCRIPTION_MEMORY, MAX_INLINE_BYTES, MAX_INLINE_SUM},
};
use crate::description::ArraySummary;
use rails_array::{MAX_RANK, Region};
use rails_formats::manifest::weight::{self, AttributesWeight, Entry, List, Text};
use serde::Deserialize;

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
    arrays: List<ArrayWeight, Sums>,
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
        let Sums { longest_inline, inline, largest_rank } = self.arrays.sums;
        if largest_rank > MAX_RANK as u64 {
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
        self.name.bytes + self.attributes.bytes + self.arrays.bytes
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
    description: weight::DescriptionWeight,
    block_shape: List<u64>,
    views: List<RegionWeight>,
    inline: Option<List<u8>>,
}

/// [`Region`].
#[derive(Deserialize)]
struct RegionWeight {
    start: List<u64>,
    shape: List<u64>,
}

impl Entry<()> for RegionWeight {
    const BYTES: usize = size_of::<Region>();

    fn behind(&self) -> u64 {
        self.start.bytes + self.shape.bytes
    }
}

/// Sums over the arrays.
#[derive(Default, Clone, Copy)]
struct Sums {
    /// The sizes of the arrays that are there as a whole, in bytes.
    inline: u64,
    /// The largest of them.
    longest_inline: u64,
    /// The largest number of axes of an array.
    largest_rank: u64,
}

impl Entry<Sums> for ArrayWeight {
    // Names are compared in a set of pointers, of which an eighth to five ninths are free.
    const BYTES: usize = size_of::<ArraySummary>() + 4 * size_of::<usize>();

    fn behind(&self) -> u64 {
        let inline = self.inline.as_ref().map_or(0, |elements| elements.bytes);
        self.description.behind() + self.block_shape.bytes + self.views.bytes + inline
    }

    fn add_to(&self, sums: &mut Sums) {
        let inline = self.inline.as_ref().map_or(0, |elements| elements.count);
        sums.inline += inline;
        sums.longest_inline = sums.longest_inline.max(inline);
        sums.largest_rank = sums.largest_rank.max(self.description.axes()).max(self.block_shape.count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::description::DatasetDescription;
    use allocation_counter::measure;
    use rails_array::Shape;
    use rails_formats::{
        data_type::DataType,
        manifest::{ArrayDescription, AttributeValue, Attributes},
    };

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
            views: vec![Region::whole(&shape); number % 3],
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
