//! Chunks in files that are named by the chunks' places in their grid.

use super::{object::ObjectPath, problem::ManifestProblem};
use serde::{Deserialize, Serialize};

/// Chunks, each in a file whose name says its place in the grid, as in Zarr.
///
/// A grid of any number of chunks takes the room of one, and no file is looked at before its chunk
/// is read. A file that is not there is a chunk of fill values.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyedChunks {
    /// The folder of the array.
    pub folder: ObjectPath,
    /// The names of the files.
    pub key: ChunkKey,
    /// The chunks that one file has; `None` for a file of one chunk, which is all of the file.
    pub shard: Option<Shard>,
}

/// The name of a chunk's file below the folder of its array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ChunkKey {
    /// `c`, and the indices with the separator before each: `c/1/0`.
    Default(Separator),
    /// The indices with the separator between them: `1.0`; `0` for a scalar.
    V2(Separator),
}

/// A character between indices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Separator {
    /// `.`
    Dot,
    /// `/`
    Slash,
}

/// The layout of a file of several chunks: the chunks in any order, and an index of their places.
///
/// The index has two numbers for each chunk in C order, offset and length, 8 bytes each and
/// little-endian; both are `u64::MAX` for a chunk that is not stored.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shard {
    /// The number of chunks along each axis; each is at least 1.
    pub chunks: Vec<u64>,
    /// The place of the index.
    pub index_place: IndexPlace,
    /// Whether a CRC-32C of the index follows it, 4 bytes and little-endian.
    pub has_checksum: bool,
}

/// The place of the index of a [`Shard`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum IndexPlace {
    /// The beginning of the file.
    Start,
    /// The end of the file.
    End,
}

impl KeyedChunks {
    /// The file of a chunk, and the number of the chunk in the file.
    ///
    /// # Panics
    /// If the index has not one number for each axis of a shard, or the name of the file is longer
    /// than a path.
    pub fn place(&self, index: &[u64]) -> (ObjectPath, u64) {
        let Some(shard) = &self.shard else { return (self.path(index), 0) };
        assert_eq!(index.len(), shard.chunks.len(), "an index has one number for each axis");
        let axes = || index.iter().zip(&shard.chunks);
        let file: Vec<u64> = axes().map(|(index, count)| index / count).collect();
        (self.path(&file), axes().fold(0, |number, (index, count)| number * count + index % count))
    }

    fn path(&self, index: &[u64]) -> ObjectPath {
        let name = format!("{}/{}", self.folder, self.key.name(index));
        ObjectPath::new(name).expect("the length of a checked array's names is that of paths")
    }

    pub(super) fn check(&self, rank: usize) -> Result<(), ManifestProblem> {
        let longest = self.key.name(&vec![u64::MAX; rank]).len() + 1 + self.folder.as_str().len();
        if longest > ObjectPath::MAX_BYTES {
            return Err(ManifestProblem::KeyLength { bytes: longest, max_bytes: ObjectPath::MAX_BYTES });
        }
        let Some(shard) = &self.shard else { return Ok(()) };
        let count = shard.chunks.iter().try_fold(1_u64, |product, count| product.checked_mul(*count));
        let is_allowed = |count: u64| (1..=Shard::MAX_CHUNKS).contains(&count);
        if shard.chunks.len() != rank || shard.chunks.contains(&0) || !count.is_some_and(is_allowed) {
            return Err(ManifestProblem::Shard { chunks: shard.chunks.clone(), max: Shard::MAX_CHUNKS });
        }
        Ok(())
    }
}

impl ChunkKey {
    /// The name of the file with that grid index.
    pub fn name(self, index: &[u64]) -> String {
        let (Self::Default(separator) | Self::V2(separator)) = self;
        let separator = match separator {
            Separator::Dot => ".",
            Separator::Slash => "/",
        };
        let numbers: Vec<String> = index.iter().map(u64::to_string).collect();
        match (self, &numbers[..]) {
            (Self::Default(_), []) => "c".into(),
            (Self::Default(_), _) => format!("c{separator}{}", numbers.join(separator)),
            (Self::V2(_), []) => "0".into(),
            (Self::V2(_), _) => numbers.join(separator),
        }
    }
}

impl Shard {
    /// The largest number of chunks of a shard. Its index takes 16 MiB.
    pub const MAX_CHUNKS: u64 = 1 << 20;

    /// The number of chunks.
    pub fn count(&self) -> u64 {
        self.chunks.iter().product()
    }

    /// The length of the index in bytes, with its checksum.
    pub fn index_bytes(&self) -> u64 {
        self.count() * 16 + if self.has_checksum { 4 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyed(key: ChunkKey, shard: Option<Vec<u64>>) -> KeyedChunks {
        let shard = shard.map(|chunks| Shard { chunks, index_place: IndexPlace::End, has_checksum: true });
        KeyedChunks { folder: ObjectPath::new("a.zarr/v").unwrap(), key, shard }
    }

    #[test]
    fn names_are_those_of_zarr() {
        let name = |key: ChunkKey| [key.name(&[1, 20]), key.name(&[])];
        assert_eq!(name(ChunkKey::Default(Separator::Slash)), ["c/1/20", "c"]);
        assert_eq!(name(ChunkKey::Default(Separator::Dot)), ["c.1.20", "c"]);
        assert_eq!(name(ChunkKey::V2(Separator::Slash)), ["1/20", "0"]);
        assert_eq!(name(ChunkKey::V2(Separator::Dot)), ["1.20", "0"]);
    }

    #[test]
    fn a_shard_has_its_chunks_in_c_order() {
        let chunks = keyed(ChunkKey::Default(Separator::Slash), Some(vec![2, 3]));
        let (path, number) = chunks.place(&[5, 7]);
        assert_eq!((path.as_str(), number), ("a.zarr/v/c/2/2", 4));
        assert_eq!(chunks.shard.unwrap().index_bytes(), 6 * 16 + 4);
    }

    #[test]
    fn shards_are_limited_on_both_sides() {
        let check = |chunks: Vec<u64>| keyed(ChunkKey::V2(Separator::Dot), Some(chunks)).check(2);
        assert_eq!(check(vec![1 << 10, 1 << 10]), Ok(()));
        for chunks in [vec![(1 << 10) + 1, 1 << 10], vec![0, 1], vec![1], vec![u64::MAX, u64::MAX]] {
            assert_eq!(check(chunks.clone()), Err(ManifestProblem::Shard { chunks, max: Shard::MAX_CHUNKS }));
        }
    }

    #[test]
    fn the_length_of_names_is_limited() {
        let longest = ObjectPath::MAX_BYTES - 1 - 20;
        let check = |bytes: usize| {
            let folder = ObjectPath::new("a".repeat(bytes)).unwrap();
            KeyedChunks { folder, ..keyed(ChunkKey::V2(Separator::Dot), None) }.check(1)
        };
        assert_eq!(check(longest), Ok(()));
        assert_eq!(
            check(longest + 1),
            Err(ManifestProblem::KeyLength { bytes: ObjectPath::MAX_BYTES + 1, max_bytes: ObjectPath::MAX_BYTES })
        );
    }
}
