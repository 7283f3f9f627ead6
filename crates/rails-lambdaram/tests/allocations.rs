//! Memory of messages, also of those that lie about their lengths.

use allocation_counter::measure;
use bytes::Bytes;
use rails_array::{BlockIndex, Region, Shape};
use rails_lambdaram::{
    description::DatasetEntry,
    wire::{Handle, MAX_FRAME_BYTES, ReaderFrame, Run, ServerFrame, ServerMessage},
};

/// The largest number in postcard's encoding that is still a length.
const HUGE: [u8; 5] = [0xff, 0xff, 0xff, 0xff, 0x0f];

#[test]
fn a_stated_length_takes_no_memory() {
    // Each message ends behind the length of its first list or text.
    for number in 0..16 {
        for fields in [&[1_u8][..], &[1, 0], &[1, 1, b'd', 0, 0], &[1, 0, 0]] {
            let message = [&[1, number][..], fields, &HUGE].concat();
            let used = measure(|| drop(ReaderFrame::decode(&message)));
            assert!(used.bytes_max < 256, "{message:?}: {used:?}");
            let message = Bytes::from([&[2, number][..], fields, &HUGE].concat());
            let used = measure(|| drop(ServerMessage::decode(message.clone())));
            assert!(used.bytes_max < 256, "{message:?}: {used:?}");
        }
    }
}

#[test]
fn a_frame_takes_a_multiple_of_its_bytes() {
    let runs = vec![Run { first: BlockIndex(0), count: 1 }; 8000];
    let raise = ReaderFrame::Raise { handle: Handle(0), blocks: runs }.encode();
    let regions = vec![Region::new([], Shape::new([]).unwrap()).unwrap(); 8000];
    let intend = ReaderFrame::Intend { handle: Handle(0), regions }.encode();
    let axes = [&[1, 11, 0, 0x80, 0x7d][..], &[0; 16_000]].concat();
    for message in [&raise[..], &intend, &axes] {
        assert!(message.len() < MAX_FRAME_BYTES);
        let used = measure(|| assert!(ReaderFrame::decode(message).is_err()));
        assert!(used.bytes_max < 12 * MAX_FRAME_BYTES as u64, "{used:?}");
    }
    // Datasets whose entry takes three bytes.
    let entry = DatasetEntry { name: String::new(), arrays: 0, bytes: 0 };
    let listed = ServerFrame::Listed { question: 0, datasets: vec![entry; 300_000] }.encode();
    let used = measure(|| assert!(ServerMessage::decode(listed.clone()).is_err()));
    assert!(used.bytes_max < listed.len() as u64, "{used:?}");
}

#[test]
fn a_long_message_is_not_read() {
    for number in 0..9 {
        let mut message = vec![0; 9 << 20];
        message[..2].copy_from_slice(&[2, number]);
        // Shared already, so that another handle of it takes no memory.
        let message = Bytes::from(message);
        let _other = message.clone();
        let used = measure(|| assert!(ServerMessage::decode(message.clone()).is_err()));
        assert_eq!(used.bytes_max, 0, "{number}: {used:?}");
    }
}
