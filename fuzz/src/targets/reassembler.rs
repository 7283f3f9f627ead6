//! Chunks in any order, checked against the simplest model: a flag for every byte.

use crate::script::Script;
use bytes::Bytes;
use rails_proto::{internals::Reassembler, session::Admission, stream_number::StreamNumber, wire::DataHeader};

pub(crate) fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let window = 1 + script.number() % MAX;
    let mut reassembler = Reassembler::new(window);
    // The bytes that have arrived, and the number of bytes read.
    let mut arrived = vec![false; MAX as usize * 4];
    let mut read = 0_usize;
    while let Some(step) = script.step() {
        if step & 3 == 0 {
            if let Some(bytes) = reassembler.read() {
                for byte in &bytes {
                    assert!(arrived[read] && *byte == byte_at(read as u64), "at offset {read}");
                    read += 1;
                }
            }
        } else {
            let (offset, length) = (script.number(), script.number() as u32 % 512);
            let header =
                DataHeader { stream: StreamNumber::FIRST, offset, length, fin: step >> 2 & 15 == 1, checksum: 0 };
            let admission = reassembler.admit(&header);
            let payload: Bytes = (0..u64::from(length)).map(|index| byte_at(offset.wrapping_add(index))).collect();
            match reassembler.insert(&header, payload) {
                Ok(()) => {
                    let range = offset as usize..offset as usize + length as usize;
                    if range.end > arrived.len() {
                        return;
                    }
                    if admission == Ok(Admission::Duplicate) {
                        assert!(arrived[range.clone()].iter().all(|known| *known), "{header:?} was new");
                    }
                    arrived[range].fill(true);
                }
                Err(violation) => {
                    // After a good header, only the number of pieces can be a violation.
                    assert!(admission.is_err() || violation.to_string().contains("pieces"), "{violation}");
                    return;
                }
            }
        }
        let different = arrived.iter().filter(|known| **known).count() as u64;
        assert!(reassembler.bytes_held() <= window, "the window is {window}");
        assert_eq!(reassembler.bytes_held(), different - read as u64);
        assert_eq!(reassembler.bytes_read(), read as u64);
        let in_order = read + arrived[read..].iter().take_while(|known| **known).count();
        assert_eq!(reassembler.bytes_in_order(), in_order as u64);
        assert_eq!(reassembler.is_readable(), in_order > read);
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    vec![
        vec![228, 0, 0, 4, 0, 1, 100, 100, 1, 0, 100, 0, 0, 1, 50, 200, 0, 5, 200, 0, 0],
        vec![150, 1, 0, 1, 1, 2, 1, 1, 4, 1, 1, 1, 1, 0, 0, 1, 3, 1, 0, 0, 0],
    ]
}

fn byte_at(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

const MAX: u64 = 4096;
