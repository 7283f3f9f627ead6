use super::*;
use proptest::prelude::*;

fn frames() -> impl Strategy<Value = Frame> {
    let channel = any::<u64>().prop_map(ChannelNumber);
    let refusal = prop_oneof![
        Just(Refusal::NotAllowed),
        Just(Refusal::TooMany),
        Just(Refusal::NoMemory),
        Just(Refusal::TooOften),
        Just(Refusal::Loop),
        ERRNOS.prop_map(Refusal::Service),
    ];
    let open = (channel.clone(), any::<SocketAddr>(), any::<Option<SocketAddr>>(), any::<u64>());
    prop_oneof![
        (channel.clone(), 1..100_u32).prop_map(|(channel, length)| Frame::Data { channel, length }),
        (channel.clone(), any::<u64>()).prop_map(|(channel, limit)| Frame::Credit { channel, limit }),
        channel.clone().prop_map(|channel| Frame::Blocked { channel }),
        (any::<u16>(), any::<[u8; 16]>())
            .prop_map(|(version, instance)| Frame::Hello { version, instance: Instance(instance) }),
        open.prop_map(|(channel, destination, source, limit)| Frame::Open { channel, destination, source, limit }),
        (channel.clone(), any::<u64>()).prop_map(|(channel, limit)| Frame::Opened { channel, limit }),
        (channel.clone(), refusal).prop_map(|(channel, refusal)| Frame::Refused { channel, refusal }),
        channel.clone().prop_map(|channel| Frame::Finish { channel }),
        channel.prop_map(|channel| Frame::Reset { channel }),
    ]
}

/// Without the scopes of link-local addresses, which mean nothing to another host, and do not
/// travel.
fn without_scopes(frame: Frame) -> Frame {
    let global = |address: SocketAddr| SocketAddr::new(address.ip(), address.port());
    match frame {
        Frame::Open { channel, destination, source, limit } => {
            Frame::Open { channel, destination: global(destination), source: source.map(global), limit }
        }
        frame => frame,
    }
}

proptest! {
    #[test]
    fn the_frames_of_a_message_are_read_back(frames in prop::collection::vec(frames(), 1..20), fill in any::<u8>()) {
        let frames: Vec<_> = frames.into_iter().map(without_scopes).collect();
        let mut message = Vec::new();
        for frame in &frames {
            let encoded = frame.encode();
            prop_assert!(encoded.len() <= MAX_FRAME);
            message.extend_from_slice(&encoded);
            if let Frame::Data { length, .. } = frame {
                message.resize(message.len() + *length as usize, fill);
            }
        }
        let mut message = Bytes::from(message);
        for frame in frames {
            let length = if let Frame::Data { length, .. } = frame { length as usize } else { 0 };
            prop_assert_eq!(Frame::take(&mut message), Ok((frame, vec![fill; length].into())));
        }
        prop_assert!(message.is_empty());
    }

    #[test]
    fn data_that_is_not_there_is_an_error(length in any::<u32>(), there in 0..100_usize) {
        let mut message = Frame::Data { channel: ChannelNumber(1), length }.encode().to_vec();
        message.resize(message.len() + there, 0);
        let taken = Frame::take(&mut message.into());
        prop_assert_eq!(taken.is_ok(), (1..=there).contains(&(length as usize)));
    }

    #[test]
    fn a_refusal_by_a_number_that_is_no_errno_is_an_error(number in prop_oneof![Just(0), 4096..=u16::MAX]) {
        let refused = Frame::Refused { channel: ChannelNumber(0), refusal: Refusal::Service(number) };
        prop_assert_eq!(Frame::take(&mut refused.encode()), Err(WireError::NoErrno { number }));
    }

    #[test]
    fn any_bytes_are_frames_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut message = Bytes::from(bytes);
        while !message.is_empty() && Frame::take(&mut message).is_ok() {}
    }
}
