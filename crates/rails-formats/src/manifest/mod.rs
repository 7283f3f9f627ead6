//! Manifests: the arrays of files, and the place of each of their chunks.
//!
//! Every format becomes a [`Manifest`], and a reader knows no other. The model is that of Zarr's
//! third version with the references of kerchunk: an array is cut into chunks, a chunk is a range
//! of bytes of a file, and codecs lead from its bytes to its elements. A manifest may come from
//! elsewhere, so it is checked when it is made and when it is decoded.

mod array;
mod attribute;
mod codec;
mod description;
mod keyed;
mod object;
mod own_weight;
mod pieces;
mod problem;
mod section;
pub mod weight;

pub use array::ArrayManifest;
use array::UncheckedArray;
pub use attribute::{AttributeValue, Attributes};
pub use codec::Codec;
pub(crate) use codec::Steps;
pub use description::ArrayDescription;
pub use keyed::{ChunkKey, IndexPlace, KeyedChunks, Separator, Shard};
pub use object::{ObjectPath, ObjectPathError};
use own_weight::ManifestWeight;
pub use pieces::{Piece, Pieces, RegionOutside};
pub use problem::ManifestProblem;
pub use section::{ByteRange, ChunkSource, PieceSource, Placement, Section};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// The arrays of one or more files.
///
/// ```
/// use rails_array::{Region, Shape};
/// use rails_formats::{
///     data_type::{DataType, Endianness},
///     manifest::{ArrayDescription, ArrayManifest, Attributes, Manifest, ObjectPath, PieceSource, Section},
/// };
///
/// let shape = Shape::new([361, 540])?;
/// let description = ArrayDescription {
///     name: "orography".into(),
///     dtype: DataType::Float32,
///     shape: shape.clone(),
///     dimension_names: vec![Some("lat".into()), Some("lon".into())],
///     fill_value: None,
///     attributes: Attributes::new(),
/// };
/// let section = Section::contiguous(&shape, 0, 0, 1024, DataType::Float32, Endianness::Big);
/// let array = ArrayManifest::new(description, 0, vec![section])?;
/// let manifest = Manifest::new(vec![ObjectPath::new("orography.bin")?], vec![array], Attributes::new())?;
///
/// let row = Region::new([100, 0], Shape::new([1, 540])?)?;
/// let piece = manifest.array("orography").unwrap().chunks_of(&row)?.next().unwrap();
/// assert!(matches!(piece.source, PieceSource::Range(range) if range.offset == 1024));
/// assert_eq!(piece.wanted, row);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "UncheckedManifest", into = "UncheckedManifest")]
pub struct Manifest {
    objects: Vec<ObjectPath>,
    arrays: Vec<ArrayManifest>,
    attributes: Attributes,
}

/// An error in a manifest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// Two arrays have the same name.
    #[error("the array `{name}` is there twice")]
    DuplicateArray {
        /// The name.
        name: String,
    },
    /// An array is not what it says.
    #[error("the array `{name}` is wrong")]
    Array {
        /// The name.
        name: String,
        /// The cause.
        #[source]
        problem: ManifestProblem,
    },
    /// A path may lead out of the root.
    #[error(transparent)]
    Path(#[from] ObjectPathError),
    /// A chunk lies in a file that the manifest does not name.
    #[error("a chunk of the array `{name}` lies in file {object}, and there are {objects}")]
    Object {
        /// The name of the array.
        name: String,
        /// The number of the file.
        object: u32,
        /// The number of files.
        objects: usize,
    },
    /// There are more files than a manifest counts.
    #[error("{objects} files are more than a manifest counts")]
    Objects {
        /// The number of files.
        objects: usize,
    },
    /// The encoded manifest is too long.
    #[error("an encoded manifest of {bytes} bytes is longer than {}", Manifest::MAX_ENCODED_BYTES)]
    TooLong {
        /// The number of bytes.
        bytes: usize,
    },
    /// The decoded manifest would take too much memory.
    #[error("the manifest would take {bytes} bytes of memory, which is more than {}", Manifest::MAX_DECODED_BYTES)]
    TooLarge {
        /// The number of bytes.
        bytes: u64,
    },
    /// The encoding is of another version.
    #[error("version {found} of an encoded manifest is unknown")]
    Version {
        /// The version.
        found: u8,
    },
    /// The bytes are no manifest.
    #[error("the bytes are no manifest: {reason}")]
    Malformed {
        /// The decoder's words.
        reason: String,
    },
}

impl Manifest {
    /// The longest encoded manifest that is decoded.
    pub const MAX_ENCODED_BYTES: usize = 16 << 20;

    /// The largest memory of a manifest that is decoded, in bytes: four million chunks that are
    /// listed one by one, or three hundred thousand files of four axes.
    ///
    /// The memory is counted before the manifest is decoded, because a missing chunk takes one byte
    /// in an encoded manifest and 32 here. While lists grow, decoding takes up to three times as
    /// much.
    pub const MAX_DECODED_BYTES: u64 = 128 << 20;

    /// A manifest of arrays in these files.
    ///
    /// # Errors
    /// [`ManifestError`] if two arrays have the same name, or a chunk lies in a file that is not
    /// among `objects`.
    pub fn new(
        objects: Vec<ObjectPath>,
        arrays: Vec<ArrayManifest>,
        attributes: Attributes,
    ) -> Result<Self, ManifestError> {
        if u32::try_from(objects.len()).is_err() {
            return Err(ManifestError::Objects { objects: objects.len() });
        }
        let mut names = HashSet::new();
        for array in &arrays {
            let name = &array.description().name;
            if !names.insert(name) {
                return Err(ManifestError::DuplicateArray { name: name.clone() });
            }
            let mut used = array.sections().iter().flat_map(Section::objects);
            if let Some(object) = used.find(|object| *object as usize >= objects.len()) {
                return Err(ManifestError::Object { name: name.clone(), object, objects: objects.len() });
            }
        }
        Ok(Self { objects, arrays, attributes })
    }

    /// The files, by number.
    pub fn objects(&self) -> &[ObjectPath] {
        &self.objects
    }

    /// The arrays.
    pub fn arrays(&self) -> &[ArrayManifest] {
        &self.arrays
    }

    /// The array of that name.
    pub fn array(&self, name: &str) -> Option<&ArrayManifest> {
        self.arrays.iter().find(|array| array.description().name == name)
    }

    /// The attributes of the whole.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// The manifest as bytes: the version of the encoding, and postcard's encoding. Those of a
    /// manifest that is larger than [`decode`](Self::decode) reads are not refused here.
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_extend(self, vec![VERSION]).expect("a manifest has nothing that postcard cannot write")
    }

    /// Reads the bytes that [`encode`](Self::encode) made.
    ///
    /// # Errors
    /// [`ManifestError::Version`] for another encoding, [`ManifestError::TooLong`] for more than
    /// [`MAX_ENCODED_BYTES`](Self::MAX_ENCODED_BYTES), [`ManifestError::TooLarge`] for more than
    /// [`MAX_DECODED_BYTES`](Self::MAX_DECODED_BYTES), and [`ManifestError::Malformed`] for bytes
    /// that are no manifest: cut short or with others behind them, with a file outside
    /// the root, a length that does not fit, or an offset past 64 bits.
    pub fn decode(bytes: &[u8]) -> Result<Self, ManifestError> {
        Self::decode_within(bytes, Self::MAX_DECODED_BYTES)
    }

    fn decode_within(bytes: &[u8], max_decoded_bytes: u64) -> Result<Self, ManifestError> {
        if bytes.len() > Self::MAX_ENCODED_BYTES {
            return Err(ManifestError::TooLong { bytes: bytes.len() });
        }
        let malformed = |reason: String| ManifestError::Malformed { reason };
        let bytes = match bytes.split_first() {
            Some((&VERSION, rest)) => rest,
            Some((&found, _)) => return Err(ManifestError::Version { found }),
            None => return Err(malformed("there are none".into())),
        };
        let weight: ManifestWeight = postcard::from_bytes(bytes).map_err(|error| malformed(error.to_string()))?;
        if weight.bytes() > max_decoded_bytes {
            return Err(ManifestError::TooLarge { bytes: weight.bytes() });
        }
        // Postcard drops the words of an error, so parts are checked after all of them are read.
        let (unchecked, rest) =
            postcard::take_from_bytes::<UncheckedManifest>(bytes).map_err(|error| malformed(error.to_string()))?;
        if !rest.is_empty() {
            return Err(malformed(format!("{} bytes are left behind it", rest.len())));
        }
        unchecked.try_into()
    }
}

/// A manifest as it is written, before its parts are compared.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct UncheckedManifest {
    objects: Vec<String>,
    arrays: Vec<UncheckedArray>,
    attributes: Attributes,
}

impl TryFrom<UncheckedManifest> for Manifest {
    type Error = ManifestError;

    fn try_from(unchecked: UncheckedManifest) -> Result<Self, ManifestError> {
        let objects = unchecked.objects.into_iter().map(ObjectPath::new).collect::<Result<_, _>>()?;
        let arrays = unchecked.arrays.into_iter().map(|array| {
            let name = array.description.name.clone();
            array.try_into().map_err(|problem| ManifestError::Array { name, problem })
        });
        Self::new(objects, arrays.collect::<Result<_, _>>()?, unchecked.attributes)
    }
}

impl From<Manifest> for UncheckedManifest {
    fn from(manifest: Manifest) -> Self {
        Self {
            objects: manifest.objects.into_iter().map(String::from).collect(),
            arrays: manifest.arrays.into_iter().map(UncheckedArray::from).collect(),
            attributes: manifest.attributes,
        }
    }
}

/// The version of the encoding. A change of any encoded type is another version.
const VERSION: u8 = 2;
