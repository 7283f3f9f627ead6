//! Values as bytes.

use serde::{Serialize, de::DeserializeOwned};

/// Appends the bytes of a value whose length is known beforehand.
pub(crate) fn encode<V: Serialize>(value: &V, onto: Vec<u8>) -> Vec<u8> {
    // Serializing into a growing vector fails only for types without a known length.
    postcard::to_extend(value, onto).expect("its length is known beforehand")
}

/// Reads exactly one value; bytes left over are an error too.
pub(crate) fn decode<V: DeserializeOwned>(bytes: &[u8]) -> Result<V, postcard::Error> {
    match postcard::take_from_bytes(bytes)? {
        (value, []) => Ok(value),
        _ => Err(postcard::Error::DeserializeBadEncoding),
    }
}
