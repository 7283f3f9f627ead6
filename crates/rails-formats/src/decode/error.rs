//! Errors of decoding.

/// An error in the stored bytes of a chunk, or in the index of a shard.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// A codec refuses its bytes.
    #[error("{codec} cannot be decoded: {reason}")]
    Codec {
        /// The codec.
        codec: &'static str,
        /// The codec's complaint.
        reason: String,
    },
    /// A codec gives more bytes than the chunk may have.
    #[error("{codec} decodes to more than {max_bytes} bytes")]
    TooLong {
        /// The codec.
        codec: &'static str,
        /// The largest number of bytes.
        max_bytes: u64,
    },
    /// The stored bytes are more than the longest encoding of the elements.
    #[error("{bytes} bytes are stored, and the elements take at most {max_bytes} in any encoding")]
    StoredTooLong {
        /// The number of stored bytes.
        bytes: u64,
        /// The largest number.
        max_bytes: u64,
    },
    /// The decoded bytes are not as many as the elements.
    #[error("the decoded chunk has {found} bytes, and its elements take {expected}")]
    Length {
        /// The number of decoded bytes.
        found: u64,
        /// The size of the elements.
        expected: u64,
    },
    /// The program was built without codecs.
    #[error("{codec} is decoded by programs that were built with the feature `zarr` of rails-formats alone")]
    Feature {
        /// The codec.
        codec: &'static str,
    },
    /// A shard is shorter than its index.
    #[error("the shard has {file_bytes} bytes, and its index takes {index_bytes}")]
    ShardTooShort {
        /// The size of the file.
        file_bytes: u64,
        /// The size of the index.
        index_bytes: u64,
    },
    /// The checksum of an index is another one.
    #[error("crc32c of the index of the shard is wrong")]
    ShardChecksum,
    /// The index of a shard places a chunk behind the end of the file.
    #[error("the index of the shard places {length} bytes at byte {offset}, and the shard has {file_bytes}")]
    OutsideShard {
        /// The offset of the chunk.
        offset: u64,
        /// The length of the chunk.
        length: u64,
        /// The size of the file.
        file_bytes: u64,
    },
}
