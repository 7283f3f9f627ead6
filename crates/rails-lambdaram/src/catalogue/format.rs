//! The format of a file or folder, by its name and its first bytes.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

/// The format of a dataset's source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SourceFormat {
    /// A dataset file, which names other files.
    DatasetFile,
    /// A file of NetCDF-3.
    NetCdf3,
    /// A file of MAP-Binary.
    MapBinary,
    /// A Zarr folder.
    Zarr,
}

/// The answer to the first bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sniffed {
    /// A format that is read.
    Read(SourceFormat),
    /// A format that is known, and not read.
    NotRead(&'static str),
    /// Neither.
    Unknown,
}

/// The format of a regular file. It blocks.
pub(super) fn of_file(path: &Path) -> io::Result<Sniffed> {
    if path.extension().is_some_and(|extension| extension == "toml") {
        return Ok(Sniffed::Read(SourceFormat::DatasetFile));
    }
    let mut first = Vec::new();
    File::open(path)?.take(8).read_to_end(&mut first)?;
    Ok(of_bytes(&first))
}

/// Whether a folder is one of Zarr.
pub(super) fn is_zarr(folder: &Path) -> bool {
    METADATA.iter().any(|name| folder.join(name).is_file())
}

/// The format of a file with these first eight bytes, or fewer of a shorter file.
fn of_bytes(first: &[u8]) -> Sniffed {
    match first {
        [b'C', b'D', b'F', 1 | 2 | 5, ..] => Sniffed::Read(SourceFormat::NetCdf3),
        b"MAPBIN\r\n" => Sniffed::Read(SourceFormat::MapBinary),
        b"\x89HDF\r\n\x1a\n" => Sniffed::NotRead("HDF5 or NetCDF-4 (`nccopy -k cdf5` makes one of NetCDF-3)"),
        [0x0e, 0x03, 0x13, 0x01, ..] => Sniffed::NotRead("HDF4"),
        _ => Sniffed::Unknown,
    }
}

/// The files of metadata of which a Zarr folder has one.
const METADATA: [&str; 4] = ["zarr.json", ".zmetadata", ".zgroup", ".zarray"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_tell_the_format() {
        for version in [1, 2, 5] {
            assert_eq!(of_bytes(&[b'C', b'D', b'F', version]), Sniffed::Read(SourceFormat::NetCdf3));
        }
        assert_eq!(of_bytes(b"CDF\x03"), Sniffed::Unknown);
        assert_eq!(of_bytes(b"MAPBIN\r\n"), Sniffed::Read(SourceFormat::MapBinary));
        assert_eq!(
            of_bytes(b"\x89HDF\r\n\x1a\n"),
            Sniffed::NotRead("HDF5 or NetCDF-4 (`nccopy -k cdf5` makes one of NetCDF-3)")
        );
        assert_eq!(of_bytes(b"\x0e\x03\x13\x01more"), Sniffed::NotRead("HDF4"));
        assert_eq!(of_bytes(b""), Sniffed::Unknown);
    }
}
