//! Messages behind their lengths, in bytes that arrive in any parts.

use crate::script::Script;
use bytes::Bytes;
use rails_proto::messages::{Delimited, DelimitedError};

/// The messages are those that one look at all of the bytes finds, up to the first that is too
/// long.
pub(crate) fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let limit = script.number() as usize;
    let part = 1 + usize::from(script.byte());
    let mut rest = script.rest();
    let mut messages = Delimited::new(limit, 0);
    for bytes in rest.chunks(part) {
        let mut at_hand = Bytes::copy_from_slice(bytes);
        messages.begin(at_hand.len());
        while !at_hand.is_empty() {
            match messages.take(&mut at_hand) {
                Ok(None) => assert!(at_hand.is_empty(), "bytes of the next message are left"),
                Ok(Some(message)) => {
                    let (length, behind) = rest.split_first_chunk().expect("a message has a length");
                    assert!(message.len() == u32::from_be_bytes(*length) as usize && message.len() <= limit);
                    assert!(behind.starts_with(&message), "other bytes came");
                    rest = &behind[message.len()..];
                }
                Err(error) => {
                    let length = u32::from_be_bytes(*rest.first_chunk().expect("it has a length")) as usize;
                    assert_eq!(error, DelimitedError::TooLong { length, limit });
                    assert!(length > limit && messages.end() == Err(error));
                    return;
                }
            }
        }
    }
    let left = rest.split_first_chunk::<4>().map(|(length, behind)| (u32::from_be_bytes(*length), behind.len()));
    let expected = match left {
        Some((length, arrived)) => Err(DelimitedError::Truncated { arrived, length: Some(length as usize) }),
        None if rest.is_empty() => Ok(()),
        None => Err(DelimitedError::Truncated { arrived: 0, length: None }),
    };
    assert_eq!(messages.end(), expected);
}

/// Messages in parts of a byte and of many, one that is too long, and one that does not end.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let messages = |lengths: &[u8]| -> Vec<u8> {
        lengths.iter().flat_map(|length| [vec![0, 0, 0, *length], vec![7; usize::from(*length)]].concat()).collect()
    };
    vec![
        [vec![100, 0], messages(&[3, 0, 90])].concat(),
        [vec![100, 255], messages(&[3, 0, 90, 2])].concat(),
        [vec![5, 3], messages(&[5, 6])].concat(),
        [vec![100, 9], messages(&[20])[..15].to_vec()].concat(),
    ]
}
