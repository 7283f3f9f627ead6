//! The frames of a lane.

use rails_proto::{
    chunk::{Packet, Part, Priority},
    stream_number::StreamNumber,
    wire::{Ack, DataHeader, FRAME_LEN, Frame, ResetReason},
};

/// Each frame that decodes encodes to the same bytes. No search has to find a checksum: half of the
/// inputs get a right one.
pub(crate) fn frame(data: &[u8]) {
    for chunk in data.chunks_exact(FRAME_LEN + 1) {
        let mut bytes: [u8; FRAME_LEN] = chunk[..FRAME_LEN].try_into().expect("the chunk is that long");
        if chunk[FRAME_LEN] & 1 == 1 {
            seal(&mut bytes);
        }
        if let Ok(frame) = Frame::decode(&bytes) {
            assert_eq!(frame.encode(), bytes, "{frame:?}");
        }
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    frames().iter().map(|frame| [&frame.encode()[..], &[0]].concat()).collect()
}

fn frames() -> Vec<Frame> {
    let data = DataHeader {
        stream: StreamNumber::FIRST,
        offset: 1 << 33,
        length: 512 << 10,
        fin: false,
        checksum: 0x8a91_36aa,
    };
    vec![
        Frame::Data(data),
        Frame::Data(DataHeader { length: 0, fin: true, ..data }),
        Frame::Ack(Ack { chunks: 7, limit: 1 << 24, complete: false }),
        Frame::Ack(Ack { chunks: u64::MAX, limit: u64::MAX, complete: true }),
        Frame::Reset(ResetReason::Dropped),
        Frame::Reset(ResetReason::Violation),
        Frame::Leave { drained: true },
        Frame::Stop { read: 1 << 33 },
        Frame::Packet(Packet { priority: Priority::HIGHEST, first: 1 << 40, count: 7 }),
        Frame::Part(Part { priority: Priority::LOWEST, number: 3, total: 1 << 20, at: 1 << 18 }),
    ]
}

/// Gives the frame the right checksum, which an error of the decoder names.
fn seal(bytes: &mut [u8; FRAME_LEN]) {
    use rails_proto::wire::FrameError;
    if let Err(FrameError::Checksum { actual, .. }) = Frame::decode(bytes) {
        bytes[FRAME_LEN - 4..].copy_from_slice(&actual.to_be_bytes());
    }
}
