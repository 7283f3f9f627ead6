//! The shape of a dataset file.

use super::coordinate::CoordinateSource;
use crate::raw::Raw;
use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor, value::SeqAccessDeserializer},
};
use std::fmt;
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    pub(super) dataset: DatasetTable,
    #[serde(default)]
    pub(super) array: Vec<ArrayTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DatasetTable {
    pub(super) name: Spanned<String>,
    #[serde(default)]
    pub(super) readers: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ArrayTable {
    pub(super) name: Spanned<String>,
    pub(super) variable: Option<Spanned<String>>,
    pub(super) format: Format,
    pub(super) files: Spanned<Patterns>,
    pub(super) along: Option<Spanned<String>>,
    pub(super) order: Option<Spanned<Order>>,
    pub(super) coordinate: Option<Spanned<CoordinateSource>>,
    pub(super) block_shape: Option<Spanned<Vec<u64>>>,
    pub(super) partition_shape: Option<Spanned<Vec<u64>>>,
    #[serde(default)]
    pub(super) replicas: Vec<Spanned<String>>,
    pub(super) raw: Option<Spanned<Raw>>,
    #[serde(default)]
    pub(super) view: Vec<ViewTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ViewTable {
    pub(super) name: Spanned<String>,
    pub(super) start: Vec<u64>,
    pub(super) shape: Spanned<Vec<u64>>,
}

/// The format of an array's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Format {
    /// NetCDF-3: CDF-1, CDF-2 and CDF-5.
    #[serde(rename = "netcdf3")]
    NetCdf3,
    /// MAP-Binary.
    MapBinary,
    /// Raw binary, as the dataset file describes it.
    Raw,
    /// Zarr of version 2 or 3. The patterns mean folders.
    Zarr,
}

/// The order of the files of an array along its axis.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Order {
    /// By the bytes of their names.
    #[default]
    Name,
    /// As the dataset file lists them.
    Listed,
    /// By an attribute of each file: numbers by their value, texts by their bytes.
    Attribute(String),
}

/// One pattern, or a list of them.
pub(super) struct Patterns(pub(super) Vec<String>);

impl<'de> Deserialize<'de> for Patterns {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMore;

        impl<'de> Visitor<'de> for OneOrMore {
            type Value = Patterns;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a pattern or a list of patterns")
            }

            fn visit_str<E: Error>(self, pattern: &str) -> Result<Patterns, E> {
                Ok(Patterns(vec![pattern.into()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, patterns: A) -> Result<Patterns, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(patterns)).map(Patterns)
            }
        }

        deserializer.deserialize_any(OneOrMore)
    }
}
