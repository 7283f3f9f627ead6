//! Messages that carry a block.

use bytes::Bytes;
use proptest::{collection::vec, prelude::*};
use rails_array::BlockIndex;
use rails_lambdaram::wire::{BlockHeader, Encoding, Encodings, Handle, ServerMessage, WireError, WireProblem};

fn header(encoding: Encoding, block_bytes: u32) -> BlockHeader {
    BlockHeader {
        handle: Handle(0x0403_0201),
        block: BlockIndex(0x0f0e_0d0c_0b0a_0908),
        is_push: true,
        encoding,
        block_bytes,
        crc: 0x7766_5544,
    }
}

fn message(header: BlockHeader, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    header.encode_into(&mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

fn problem(bytes: Vec<u8>) -> WireProblem {
    match ServerMessage::decode(bytes.into()) {
        Err(WireError::Content { message: "Block", problem }) => problem,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_bytes_of_a_header_are_these() {
    let bytes = message(header(Encoding::Zstd, 0x0102), b"");
    let first = [3, 1, 2, 0, 1, 2, 3, 4, 8, 9, 10, 11, 12, 13, 14, 15, 2, 1, 0, 0, 0x44, 0x55, 0x66, 0x77];
    assert_eq!(bytes, [&first[..], &[0; 40]].concat());
}

#[test]
fn a_payload_is_not_copied() {
    let bytes = Bytes::from(message(header(Encoding::None, 9), b"the block"));
    let Ok(ServerMessage::Block(_, payload)) = ServerMessage::decode(bytes.clone()) else { panic!("a block") };
    assert_eq!(payload.as_ptr(), bytes[BlockHeader::BYTES..].as_ptr());
}

#[test]
fn reserved_bytes_are_zero() {
    let bytes = message(header(Encoding::None, 2), b"ab");
    for at in [3].into_iter().chain(24..BlockHeader::BYTES) {
        let mut changed = bytes.clone();
        changed[at] = 1;
        assert_eq!(problem(changed), WireProblem::Reserved { at, found: 1 });
    }
    let mut changed = bytes.clone();
    changed[1] = 2;
    assert_eq!(problem(changed), WireProblem::Reserved { at: 1, found: 2 });
    let mut changed = bytes;
    changed[2] = 4;
    assert_eq!(problem(changed), WireProblem::Encoding { found: 4 });
}

#[test]
fn payloads_fit_their_block() {
    for (encoding, sizes) in [(Encoding::None, 9..10), (Encoding::Lz4, 1..9), (Encoding::Zstd, 1..9)] {
        for payload_bytes in 0..12 {
            let bytes = message(header(encoding, 9), &vec![7; payload_bytes]);
            if sizes.contains(&payload_bytes) {
                assert!(ServerMessage::decode(bytes.into()).is_ok(), "{encoding} {payload_bytes}");
            } else {
                assert_eq!(problem(bytes), WireProblem::Payload { encoding, payload_bytes, block_bytes: 9 });
            }
        }
    }
    let empty = message(header(Encoding::None, 0), b"");
    assert_eq!(problem(empty), WireProblem::Zero { field: "size of the block" });
    let short = message(header(Encoding::None, 1), b"")[..BlockHeader::BYTES - 1].to_vec();
    assert_eq!(ServerMessage::decode(short.into()), Err(WireError::Malformed { message: "Block" }));
}

#[test]
fn sets_hold_their_encodings() {
    assert!(Encodings::NONE.contains(Encoding::None) && !Encodings::NONE.contains(Encoding::Lz4));
    let lz4 = Encodings::NONE.with(Encoding::Lz4);
    let all = Encoding::ALL.into_iter().fold(lz4, Encodings::with);
    assert!(Encoding::ALL.into_iter().all(|encoding| all.contains(encoding)));
    assert_eq!((all.and(lz4), lz4.and(Encodings::NONE.with(Encoding::Zstd))), (lz4, Encodings::NONE));
    assert_eq!(format!("{all:?}"), "{None, Lz4, Zstd, Decimal}");
}

proptest! {
    #[test]
    fn headers_come_back(
        (handle, block, is_push, crc) in any::<(u32, u64, bool, u32)>(),
        encoding in prop::sample::select(Encoding::ALL.to_vec()),
        payload in vec(any::<u8>(), 1..100),
    ) {
        let longer = u32::from(encoding != Encoding::None);
        let block_bytes = payload.len() as u32 + longer;
        let (handle, block) = (Handle(handle), BlockIndex(block));
        let header = BlockHeader { handle, block, is_push, encoding, block_bytes, crc };
        let decoded = ServerMessage::decode(message(header, &payload).into());
        prop_assert_eq!(decoded, Ok(ServerMessage::Block(header, payload.into())));
    }

    #[test]
    fn arbitrary_headers_are_no_panic(bytes in vec(any::<u8>(), 0..100)) {
        drop(ServerMessage::decode([&[3][..], &bytes].concat().into()));
    }
}
