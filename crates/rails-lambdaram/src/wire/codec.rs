//! From messages to bytes and back.

use super::{
    block::{self, BlockHeader},
    check,
    error::{WireError, WireProblem},
    frame::{ReaderFrame, ServerFrame},
    limits::{MAX_DESCRIPTION_BYTES, MAX_FRAME_BYTES, MAX_LISTING_BYTES, VERSION},
    weight::{DescribedWeight, DescriptionWeight},
};
use crate::description::DatasetDescription;
use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};

/// A message of the node that serves.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerMessage {
    /// A message without a block.
    Frame(ServerFrame),
    /// A block: its header, and the encoded block.
    Block(BlockHeader, Bytes),
}

impl ReaderFrame {
    /// The message as bytes. Values beyond the limits are not refused here, and make a message that
    /// the peer refuses.
    pub fn encode(&self) -> Bytes {
        encode(KIND_OF_READER, self)
    }

    /// Reads the bytes that [`encode`](Self::encode) made.
    ///
    /// # Errors
    /// [`WireError`], after which the peer is not trusted any more.
    pub fn decode(message: &[u8]) -> Result<Self, WireError> {
        let content = match message.split_first() {
            Some((&KIND_OF_READER, content)) => content,
            Some((&found, _)) => return Err(WireError::Kind { found }),
            None => return Err(WireError::Empty),
        };
        let name = name_of(content, "the reader", READER_NAMES)?;
        check_length(name, message.len(), MAX_FRAME_BYTES)?;
        if name == READER_NAMES[0] {
            check_version(name, content)?;
        }
        decode(name, content, check::reader)
    }
}

impl ServerFrame {
    /// The message as bytes. Values beyond the limits are not refused here, and make a message that
    /// the peer refuses; [`check_description`] knows whether it takes a description.
    pub fn encode(&self) -> Bytes {
        encode(KIND_OF_SERVER, self)
    }
}

impl ServerMessage {
    /// Reads a message of the node that serves. The payload of a block is a part of the message.
    ///
    /// # Errors
    /// [`WireError`], after which the peer is not trusted any more.
    pub fn decode(message: Bytes) -> Result<Self, WireError> {
        match message.split_first() {
            Some((&KIND_OF_SERVER, content)) => decode_server(content).map(Self::Frame),
            Some((&block::KIND, _)) => decode_block(message),
            Some((&found, _)) => Err(WireError::Kind { found }),
            None => Err(WireError::Empty),
        }
    }
}

/// Checks that a peer takes a description.
///
/// # Errors
/// [`WireError`] for a description that is longer, larger in memory, or has a longer name or more
/// elements than a peer takes, and for one whose facts do not fit each other.
pub fn check_description(description: &DatasetDescription) -> Result<(), WireError> {
    let name = SERVER_NAMES[DESCRIBED];
    let wrong = |problem| WireError::Content { message: name, problem };
    check::description(description).map_err(wrong)?;
    let bytes = postcard::to_stdvec(description).expect("a description has nothing that postcard cannot write");
    check_length(name, bytes.len(), MAX_DESCRIPTION_BYTES - DESCRIBED_BYTES)?;
    let weight: DescriptionWeight = postcard::from_bytes(&bytes).expect("a weight reads an encoded description");
    weight.check().map_err(wrong)
}

fn encode(kind: u8, frame: &impl Serialize) -> Bytes {
    postcard::to_extend(frame, vec![kind]).expect("a message has nothing that postcard cannot write").into()
}

fn decode_server(content: &[u8]) -> Result<ServerFrame, WireError> {
    let name = name_of(content, "the node that serves", SERVER_NAMES)?;
    let max = match usize::from(content[0]) {
        DESCRIBED if content.get(1 + varint_bytes(&content[1..])) == Some(&0) => MAX_DESCRIPTION_BYTES,
        LISTED | STATUS => MAX_LISTING_BYTES,
        _ => MAX_FRAME_BYTES,
    };
    check_length(name, 1 + content.len(), max)?;
    match usize::from(content[0]) {
        WELCOME => check_version(name, content)?,
        DESCRIBED => {
            let weight: DescribedWeight =
                postcard::from_bytes(&content[1..]).map_err(|_| WireError::Malformed { message: name })?;
            weight.check().map_err(|problem| WireError::Content { message: name, problem })?;
        }
        _ => {}
    }
    decode(name, content, check::server)
}

fn decode_block(message: Bytes) -> Result<ServerMessage, WireError> {
    let name = "Block";
    let Some((header, payload)) = message.split_first_chunk() else {
        return Err(WireError::Malformed { message: name });
    };
    let header = BlockHeader::read(header, payload.len());
    let header = header.map_err(|problem| WireError::Content { message: name, problem })?;
    Ok(ServerMessage::Block(header, message.slice(BlockHeader::BYTES..)))
}

/// The name of the message, by its number: the first byte of the content.
fn name_of(content: &[u8], sender: &'static str, names: &[&'static str]) -> Result<&'static str, WireError> {
    let Some(found) = content.first().copied() else { return Err(WireError::Empty) };
    names.get(usize::from(found)).copied().ok_or(WireError::Unknown { sender, found })
}

fn check_length(message: &'static str, bytes: usize, max: usize) -> Result<(), WireError> {
    if bytes > max { Err(WireError::TooLong { message, bytes, max }) } else { Ok(()) }
}

/// Reads the version, which is the first field of a greeting in every version.
fn check_version(message: &'static str, content: &[u8]) -> Result<(), WireError> {
    match postcard::take_from_bytes::<u16>(&content[1..]) {
        Ok((VERSION, _)) => Ok(()),
        Ok((found, _)) => Err(WireError::Version { found }),
        Err(_) => Err(WireError::Malformed { message }),
    }
}

fn decode<F: DeserializeOwned>(
    message: &'static str,
    content: &[u8],
    check: fn(&F) -> Result<(), WireProblem>,
) -> Result<F, WireError> {
    let (frame, rest) = postcard::take_from_bytes(content).map_err(|_| WireError::Malformed { message })?;
    if !rest.is_empty() {
        return Err(WireError::Trailing { message, bytes: rest.len() });
    }
    check(&frame).map_err(|problem| WireError::Content { message, problem })?;
    Ok(frame)
}

/// The length of the number that begins here: the last byte of one has no highest bit.
fn varint_bytes(bytes: &[u8]) -> usize {
    1 + bytes.iter().take_while(|byte| **byte >= 0x80).count()
}

/// The first byte of a reader's message.
const KIND_OF_READER: u8 = 1;
/// The first byte of a message of the node that serves, but for blocks.
const KIND_OF_SERVER: u8 = 2;

/// The messages of the reader, by number.
const READER_NAMES: &[&str] = &[
    "Hello", "List", "Describe", "Open", "Close", "Get", "Raise", "Cancel", "Warm", "Credit", "Recall", "Reading",
    "Intend", "Have", "Fate", "Status",
];

/// The messages of the node that serves, by number.
const SERVER_NAMES: &[&str] =
    &["Welcome", "Refused", "Listed", "Described", "Opened", "Fault", "Stale", "Returned", "Status"];
const WELCOME: usize = 0;
const LISTED: usize = 2;
const DESCRIBED: usize = 3;
const STATUS: usize = 8;

/// The bytes before a description in its message: the kind, the number, the question and the mark
/// of an `Ok`.
const DESCRIBED_BYTES: usize = 8;
