//! Messages and their bytes.

use crate::strategies::{reader_frames, server_frames};
use bytes::Bytes;
use proptest::{collection::vec, prelude::*, sample::Index};
use rails_lambdaram::wire::{
    Encodings, Hello, NodeId, ReaderFrame, ServerFrame, ServerMessage, VERSION, WireError, WireProblem,
};
use std::fmt::Debug;

/// The name of a frame: the first word that `Debug` writes.
fn name(frame: &impl Debug) -> String {
    let text = format!("{frame:?}");
    text.split(|character: char| !character.is_alphanumeric()).next().unwrap().to_owned()
}

fn decode_server(bytes: &[u8]) -> Result<ServerMessage, WireError> {
    ServerMessage::decode(Bytes::copy_from_slice(bytes))
}

fn hello(version: u16) -> Hello {
    Hello {
        version,
        path: vec![NodeId([7; 16])],
        application: "model".into(),
        max_block_bytes: 1 << 20,
        encodings: Encodings::NONE,
    }
}

#[test]
fn the_bytes_of_a_frame_are_these() {
    let bytes = ReaderFrame::Hello(hello(VERSION)).encode();
    let path = [&[1_u8][..], &[7; 16]].concat();
    assert_eq!(bytes, [&[1, 0, 1][..], &path, &[5], b"model", &[0x80, 0x80, 0x40, 0]].concat());
    let refused = ServerFrame::Refused { reason: rails_lambdaram::wire::RefusedReason::Circle, text: "no".into() };
    assert_eq!(refused.encode(), [2, 1, 1, 2, b'n', b'o'].to_vec());
}

#[test]
fn another_version_is_told_before_all_else() {
    // What follows the version may be anything.
    assert_eq!(ReaderFrame::decode(&[1, 0, 2]), Err(WireError::Version { found: 2 }));
    assert_eq!(ReaderFrame::decode(&[1, 0, 0xac, 2, 9, 9]), Err(WireError::Version { found: 300 }));
    assert_eq!(decode_server(&[2, 0, 0]), Err(WireError::Version { found: 0 }));
    assert_eq!(ReaderFrame::decode(&[1, 0]), Err(WireError::Malformed { message: "Hello" }));
    assert_eq!(ReaderFrame::decode(&[1, 0, VERSION as u8]), Err(WireError::Malformed { message: "Hello" }));
}

#[test]
fn kinds_and_numbers_are_checked() {
    assert_eq!(ReaderFrame::decode(&[]), Err(WireError::Empty));
    assert_eq!(ReaderFrame::decode(&[1]), Err(WireError::Empty));
    assert_eq!(decode_server(&[2]), Err(WireError::Empty));
    for kind in [0, 2, 3, 255] {
        assert_eq!(ReaderFrame::decode(&[kind, 1, 0]), Err(WireError::Kind { found: kind }));
    }
    for kind in [0, 1, 4, 255] {
        assert_eq!(decode_server(&[kind, 1, 0]), Err(WireError::Kind { found: kind }));
    }
    assert_eq!(ReaderFrame::decode(&[1, 16]), Err(WireError::Unknown { sender: "the reader", found: 16 }));
    assert_eq!(decode_server(&[2, 9]), Err(WireError::Unknown { sender: "the node that serves", found: 9 }));
}

#[test]
fn errors_name_message_and_cause() {
    let hello = Hello { application: "a\nb".into(), ..hello(VERSION) };
    let error = ReaderFrame::decode(&ReaderFrame::Hello(hello).encode()).unwrap_err();
    assert_eq!(error, WireError::Content { message: "Hello", problem: WireProblem::Application });
    assert_eq!(error.to_string(), "`Hello` is wrong");
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(cause, "the name of the application is empty, or cannot be printed");
}

proptest! {
    #[test]
    fn readers_frames_come_back(frame in reader_frames()) {
        let bytes = frame.encode();
        prop_assert_eq!(ReaderFrame::decode(&bytes), Ok(frame.clone()));
        let message = name(&frame);
        match ReaderFrame::decode(&bytes[..bytes.len() - 1]) {
            Err(WireError::Malformed { message: named }) => prop_assert_eq!(named, message),
            other => prop_assert!(false, "{:?}", other),
        }
        match ReaderFrame::decode(&[&bytes[..], &[0, 0]].concat()) {
            Err(WireError::Trailing { message: named, bytes: 2 }) => prop_assert_eq!(named, name(&frame)),
            other => prop_assert!(false, "{:?}", other),
        }
    }

    #[test]
    fn servers_frames_come_back(frame in server_frames()) {
        prop_assert_eq!(frame.clone().cut_to_limits(), frame.clone());
        let bytes = frame.encode();
        prop_assert_eq!(ServerMessage::decode(bytes.clone()), Ok(ServerMessage::Frame(frame.clone())));
        match decode_server(&bytes[..bytes.len() - 1]) {
            Err(WireError::Malformed { message: named }) => prop_assert_eq!(named, name(&frame)),
            other => prop_assert!(false, "{:?}", other),
        }
        match decode_server(&[&bytes[..], &[0, 0]].concat()) {
            Err(WireError::Trailing { message: named, bytes: 2 }) => prop_assert_eq!(named, name(&frame)),
            other => prop_assert!(false, "{:?}", other),
        }
    }

    #[test]
    fn arbitrary_bytes_are_no_panic(kind in 0_u8..5, number in 0_u8..17, bytes in vec(any::<u8>(), 0..200)) {
        let message = [&[kind, number][..], &bytes].concat();
        if let Ok(frame) = ReaderFrame::decode(&message) {
            prop_assert_eq!(ReaderFrame::decode(&frame.encode()), Ok(frame));
        }
        if let Ok(ServerMessage::Frame(frame)) = decode_server(&message) {
            prop_assert_eq!(ServerMessage::decode(frame.encode()), Ok(ServerMessage::Frame(frame)));
        }
    }

    #[test]
    fn changed_readers_frames_are_no_panic(frame in reader_frames(), changes in vec((any::<Index>(), any::<u8>()), 1..4)) {
        let mut bytes = frame.encode().to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(frame) = ReaderFrame::decode(&bytes) {
            prop_assert_eq!(ReaderFrame::decode(&frame.encode()), Ok(frame));
        }
    }

    #[test]
    fn changed_servers_frames_are_no_panic(frame in server_frames(), changes in vec((any::<Index>(), any::<u8>()), 1..4)) {
        let mut bytes = frame.encode().to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(ServerMessage::Frame(frame)) = decode_server(&bytes) {
            prop_assert_eq!(ServerMessage::decode(frame.encode()), Ok(ServerMessage::Frame(frame)));
        }
    }
}
