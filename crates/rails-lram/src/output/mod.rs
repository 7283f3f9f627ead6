//! Files of selected elements: their formats, and the way onto the disk.

mod file;
mod netcdf;
mod npy;

use anyhow::Result;
pub(crate) use file::Target;
use rails_array::Selection;
use rails_formats::data_type::{DataType, Endianness};
use rails_lambdaram::{Array, Dataset};

/// The formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// NetCDF-3, with the coordinates of the selected axes and all attributes
    Nc,
    /// numpy's format for one array
    Npy,
    /// The elements alone, little-endian, in C order
    Raw,
}

/// The bytes around the elements, and their order of bytes.
pub(crate) struct Frame {
    pub(crate) header: Vec<u8>,
    pub(crate) endianness: Endianness,
    pub(crate) trailer: Vec<u8>,
}

impl Format {
    /// The format that the name of a file ends with.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        let (_, extension) = name.rsplit_once('.')?;
        Some(match extension {
            "nc" | "nc3" | "cdf" => Self::Nc,
            "npy" => Self::Npy,
            "raw" | "bin" | "dat" => Self::Raw,
            _ => return None,
        })
    }

    /// The bytes around the selected elements of an array. Those of its coordinates are read for
    /// it.
    pub(crate) async fn frame(self, dataset: &Dataset, array: &Array, selection: &Selection) -> Result<Frame> {
        match self {
            Self::Nc => netcdf::frame(dataset, array, selection).await,
            Self::Npy => Ok(npy::frame(array.description().dtype, &selection.shape())),
            Self::Raw => Ok(Frame { header: Vec::new(), endianness: Endianness::Little, trailer: Vec::new() }),
        }
    }
}

/// Turns elements from this machine's order of bytes into that one.
pub(crate) fn swap(dtype: DataType, elements: &mut [u8], to: Endianness) {
    // The way there and the way back are the same.
    dtype.swap_to_native(elements, to);
}
