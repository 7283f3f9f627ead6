//! Zarr, versions 2 and 3: folders of chunks with metadata in JSON.
//!
//! `Hierarchy`, which the feature `zarr` brings, reads the text of metadata, also consolidated, and
//! gives an [`ArrayManifest`](crate::manifest::ArrayManifest) for each array. Nothing else is
//! looked at: chunks are in files whose names follow from their places
//! ([`KeyedChunks`](crate::manifest::KeyedChunks)), so an array of a million chunks takes the room
//! of one, and the indexes of shards are read with their chunks.
//!
//! Understood are the numbers of [`DataType`](crate::data_type::DataType), regular grids, the chunk
//! keys `default` and `v2`, and the codecs of [`Codec`](crate::manifest::Codec) with
//! `sharding_indexed` around them. An array with something else is refused by an error that names
//! it, and the other arrays are read. See <https://zarr-specs.readthedocs.io>.

#[cfg(feature = "zarr")]
mod array;
#[cfg(feature = "zarr")]
mod attributes;
#[cfg(feature = "zarr")]
mod codecs;
#[cfg(feature = "zarr")]
mod data_type;
mod error;
#[cfg(feature = "zarr")]
mod hierarchy;
#[cfg(feature = "zarr")]
mod v2;
#[cfg(feature = "zarr")]
mod v3;

pub use error::{ZarrError, ZarrProblem};
#[cfg(feature = "zarr")]
#[cfg_attr(docsrs, doc(cfg(feature = "zarr")))]
pub use hierarchy::Hierarchy;
