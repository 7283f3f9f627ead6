//! Files that are read up to a limit.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

/// Reads the file of a model, up to its limit.
pub(crate) fn read_model(path: &Path) -> io::Result<Vec<u8>> {
    read_within(path, LONGEST)
}

/// Reads a file of at most `limit` bytes, so that a device ends. A longer one is
/// [`FileTooLarge`](io::ErrorKind::FileTooLarge).
pub(crate) fn read_within(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        true => Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is longer than {limit} bytes"))),
        false => Ok(bytes),
    }
}

/// The bytes that the file of a model may have. A capture unpacks to as many at most.
const LONGEST: u64 = 256 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Topology;
    use std::error::Error;

    #[test]
    fn model_is_read_up_to_its_limit_and_no_further() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, "{ }").unwrap();
        assert_eq!(read_within(file.path(), 3).unwrap(), b"{ }");
        assert_eq!(read_within(file.path(), 2).unwrap_err().to_string(), "it is longer than 2 bytes");
        file.as_file().set_len(LONGEST + 1).unwrap();
        let refused = Topology::from_saved(file.path()).unwrap_err();
        assert_eq!(refused.to_string(), format!("cannot read `{}`", file.path().display()));
        assert_eq!(refused.source().unwrap().to_string(), "it is longer than 268435456 bytes");
    }
}
