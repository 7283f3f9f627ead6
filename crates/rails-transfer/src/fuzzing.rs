//! The decoders, for the fuzz targets: each takes any input, and panics where a decoder does or
//! breaks its promise.

use crate::{
    Digest, RelPath, Totals, codec,
    frame::{KIND_BLOCK, KIND_MESSAGE, MAGIC, MAX_CONTROL, Role, Terms, VERSION, header},
    hash::block_digest,
    message::{Compare, FromReceiver, FromSender, Held, Offer, Settled},
    meta::Meta,
};
use serde::Serialize;

/// A message of the sender, then one of the receiver: a decoded message encodes to bytes that
/// decode to the same, and fits a frame.
pub fn message(bytes: &[u8]) {
    fn one<M: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
        if let Ok(message) = codec::decode::<M>(bytes) {
            let encoded = codec::encode(&message, Vec::new());
            assert!(bytes.len() > MAX_CONTROL || encoded.len() <= MAX_CONTROL, "{message:?}");
            assert_eq!(codec::decode::<M>(&encoded), Ok(message));
        }
    }
    one::<FromSender>(bytes);
    one::<FromReceiver>(bytes);
}

/// The bytes of a sender whose file goes over a further stream: the control stream up to the
/// receiver's answer, the further stream, and the rest of the control stream.
pub fn streams() -> [Vec<u8>; 3] {
    let path = RelPath::parse("f").expect("it is a path");
    let digest = Digest::from(blake3::hash(b"abc"));
    let file = [
        framed(&FromSender::Start { id: 0, offset: 0, meta: Meta::of_mode(0o644) }),
        block(),
        framed(&FromSender::Finish { id: 0, digest }),
    ];
    let totals = FromSender::Totals(Totals { files: 1, folders: 0, bytes: 3 });
    let offer = FromSender::Offer { id: 0, offer: offer(path, 3) };
    let begin = [greeting(Role::Sender, 1), framed(&totals), framed(&offer)];
    [begin.concat(), file.concat(), framed(&FromSender::Done)]
}

/// All frames of a sender for a batch with a folder and a file in it, and all frames of a receiver.
pub fn seeds() -> (Vec<u8>, Vec<u8>) {
    let path = |name: &str| RelPath::parse(name).expect("it is a path");
    let digest = Digest::from(blake3::hash(b"abc\0"));
    let from_sender = [
        FromSender::Totals(Totals { files: 1, folders: 1, bytes: 4 }),
        FromSender::Folder { id: 0, path: path("d") },
        FromSender::Offer { id: 1, offer: offer(path("d/f"), 4) },
        FromSender::Start { id: 1, offset: 0, meta: Meta::of_mode(0o644) },
    ];
    let meta = Meta::of_mode(0o755);
    let and_last = [
        FromSender::Hole { id: 1, len: 1 },
        FromSender::Finish { id: 1, digest },
        FromSender::Link {
            id: 2,
            path: path("d/l"),
            target: b"f".to_vec().try_into().expect("it is a target"),
            meta: meta.clone(),
        },
        FromSender::Seal { id: 3, path: path("d"), meta },
        FromSender::Done,
    ];
    let from_receiver = [
        FromReceiver::Held { id: 0, held: Held::default() },
        FromReceiver::Settled { id: 0, outcome: Settled::Stored { digest } },
        FromReceiver::Blocks { id: 0, digests: vec![block_digest(0, b"abc")] },
        FromReceiver::Here { mark: digest },
        FromReceiver::Bye,
    ];
    let sender = [greeting(Role::Sender, 0), frames(&from_sender), block(), frames(&and_last)].concat();
    (sender, [greeting(Role::Receiver, 0), frames(&from_receiver)].concat())
}

/// All frames of a sender that has the receiver copy all six bytes of a file, and takes them for
/// `012abc`.
pub fn change(path: &str) -> Vec<u8> {
    let path = RelPath::parse(path).expect("it is a path");
    let said = [
        FromSender::Totals(Totals { files: 1, folders: 0, bytes: 6 }),
        FromSender::Offer { id: 0, offer: offer(path, 6) },
        FromSender::Ask { id: 0, block: 1 },
        FromSender::Start { id: 0, offset: 0, meta: Meta::of_mode(0o644) },
        FromSender::Same { id: 0, len: 6 },
    ];
    let digest = blake3::hash(b"012abc").into();
    let last = [FromSender::Finish { id: 0, digest }, FromSender::Done];
    [greeting(Role::Sender, 0), frames(&said), frames(&last)].concat()
}

/// All frames of a sender that sends two folders, and deletes the inner one.
pub fn deletion() -> Vec<u8> {
    let path = |name: &str| RelPath::parse(name).expect("it is a path");
    let said = [
        FromSender::Totals(Totals { files: 0, folders: 2, bytes: 0 }),
        FromSender::Folder { id: 0, path: path("d") },
        FromSender::Folder { id: 1, path: path("d/e") },
        FromSender::Prune { id: 2, path: Some(path("d")) },
        FromSender::Choose { id: 2, goes: vec![true] },
        FromSender::Choose { id: 2, goes: vec![true] },
        FromSender::Prune { id: 3, path: None },
        FromSender::Choose { id: 3, goes: vec![false] },
        FromSender::Done,
    ];
    let terms = Terms { is_dry_run: false, deletes: true };
    [greeting_of(Role::Sender, 0, terms), frames(&said)].concat()
}

/// All frames of a sender that keeps owners, attributes, access lists and hard links.
pub fn properties() -> Vec<u8> {
    let path = |name: &str| RelPath::parse(name).expect("it is a path");
    let name = b"user.a";
    let attributes = [&[6][..], name, &[1, b'x']].concat();
    // Mode 04755, a user, a group, an attribute, an empty access list, and further names.
    let record = [&[0, 2, 0xed, 0x13, 2, 1, 1, 3, 1, 2, 4, 9][..], &attributes, &[5, 3, 1, 0, 0, 6, 0]].concat();
    let meta: Meta = record.try_into().expect("it is a record");
    let said = [
        FromSender::Totals(Totals { files: 1, folders: 1, bytes: 3 }),
        FromSender::Folder { id: 0, path: path("d") },
        FromSender::Offer { id: 1, offer: Offer { meta: meta.clone(), ..offer(path("f"), 3) } },
        FromSender::Start { id: 1, offset: 0, meta: meta.clone() },
    ];
    let and_last = [
        FromSender::Finish { id: 1, digest: Digest::from(blake3::hash(b"abc")) },
        FromSender::HardLink { id: 2, path: path("d/g"), target: path("f") },
        FromSender::Seal { id: 3, path: path("d"), meta },
        FromSender::Done,
    ];
    [greeting(Role::Sender, 0), frames(&said), block(), frames(&and_last)].concat()
}

/// The first bytes of a peer without terms.
fn greeting(role: Role, streams: u8) -> Vec<u8> {
    greeting_of(role, streams, Terms::default())
}

fn greeting_of(role: Role, streams: u8, terms: Terms) -> Vec<u8> {
    [&MAGIC[..], &VERSION.to_le_bytes(), &[role as u8, streams, terms.byte()]].concat()
}

fn offer(path: RelPath, size: u64) -> Offer {
    Offer { path, size, meta: Meta::of_mode(0o644), compare: Compare::Times }
}

/// A block of three bytes.
fn block() -> Vec<u8> {
    [&header(KIND_BLOCK, 3)[..], b"abc"].concat()
}

/// Messages in their frames.
fn frames<M: Serialize>(messages: &[M]) -> Vec<u8> {
    messages.iter().flat_map(framed).collect()
}

/// A message in its frame.
fn framed<M: Serialize>(message: &M) -> Vec<u8> {
    let message = codec::encode(message, Vec::new());
    [&header(KIND_MESSAGE, message.len())[..], &message].concat()
}
