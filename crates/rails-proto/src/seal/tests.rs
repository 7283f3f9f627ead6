use super::*;
use proptest::prelude::*;

fn secret() -> Secret {
    Secret::pre_shared(b"0123456789abcdef").unwrap()
}

fn both(transcript: u8) -> (Seals, Seals) {
    with_limit(transcript, BLOCKS_PER_KEY)
}

fn with_limit(transcript: u8, max_blocks: u64) -> (Seals, Seals) {
    let seals = |role| Seals::with_limit(&secret(), &[transcript; 32], role, max_blocks);
    (seals(Role::Initiator), seals(Role::Responder))
}

fn pieces(pieces: &[&'static [u8]]) -> Vec<Bytes> {
    pieces.iter().copied().map(Bytes::from_static).collect()
}

const HEADER: [u8; FRAME_LEN] = [7; FRAME_LEN];

#[test]
fn seals_open_in_both_directions() {
    let (mut near, mut far) = both(1);
    for payload in [pieces(&[]), pieces(&[b"one piece"]), pieces(&[b"two ", b"pieces"]), pieces(&[b"", b""])] {
        let joined = payload.concat();
        let sealed = near.sealer.seal(&HEADER, &payload).to_vec();
        assert_eq!(open(&mut far.opener, &sealed), Ok((HEADER.to_vec(), joined.clone())));
        let sealed = far.sealer.seal(&HEADER, &payload).to_vec();
        assert_eq!(open(&mut near.opener, &sealed), Ok((HEADER.to_vec(), joined)));
    }
}

#[test]
fn sealed_bytes_show_nothing_of_the_payload() {
    let (mut near, _) = both(1);
    let text = [9u8; 1000];
    let sealed = near.sealer.seal(&HEADER, &[Bytes::copy_from_slice(&text)]);
    assert_eq!(sealed.len(), SEALED_FRAME_LEN + text.len() + TAG_LEN);
    assert!(!sealed.windows(8).any(|window| window == &text[..8] || window == &HEADER[..8]));
}

#[test]
fn several_headers_go_before_one_payload() {
    let (mut near, mut far) = both(1);
    let sealed = near.sealer.seal(&[HEADER, [8; FRAME_LEN]].concat(), &pieces(&[b"bytes"])).to_vec();
    let (first, second) = sealed.split_at(SEALED_FRAME_LEN);
    assert_eq!(open(&mut far.opener, first), Ok((HEADER.to_vec(), Vec::new())));
    assert_eq!(open(&mut far.opener, second), Ok((vec![8; FRAME_LEN], b"bytes".to_vec())));
}

#[test]
fn record_replayed_missing_or_out_of_order() {
    let (mut near, _) = both(1);
    let frames: Vec<Vec<u8>> = (0..3u8).map(|number| near.sealer.seal(&[number; FRAME_LEN], &[]).to_vec()).collect();
    for order in [[0, 0], [0, 2]] {
        let (_, mut far) = both(1);
        open(&mut far.opener, &frames[order[0]]).unwrap();
        assert_eq!(open(&mut far.opener, &frames[order[1]]), Err(SealError));
    }
    let (_, mut far) = both(1);
    assert_eq!(open(&mut far.opener, &frames[1]), Err(SealError), "the first is missing");
}

#[test]
fn record_of_another_direction_lane_or_secret() {
    let (mut near, _) = both(1);
    let sealed = near.sealer.seal(&HEADER, &[]).to_vec();
    assert_eq!(open(&mut near.opener, &sealed), Err(SealError), "reflected");
    let (_, mut other) = both(2);
    assert_eq!(open(&mut other.opener, &sealed), Err(SealError), "spliced into another lane");
    let stranger = Secret::pre_shared(b"another 16 bytes").unwrap();
    let mut stranger = Seals::derive(&stranger, &[1; 32], Role::Responder);
    assert_eq!(open(&mut stranger.opener, &sealed), Err(SealError));
}

#[test]
fn payload_opened_as_a_header_and_vice_versa() {
    let (mut near, mut far) = both(1);
    let sealed = near.sealer.seal(&HEADER, &[Bytes::from_static(&[3; FRAME_LEN])]).to_vec();
    let (header, payload) = sealed.split_at(SEALED_FRAME_LEN);
    let swapped = [payload, header].concat();
    assert_eq!(open(&mut far.opener, &swapped), Err(SealError));
}

#[test]
fn keys_are_replaced_in_step() {
    let payload = [Bytes::from(vec![5; 160])];
    // A frame is 2 + 1 and 10 + 1 blocks: the payload of the third would pass 40, so it goes under a
    // new key.
    let (mut near, mut far) = with_limit(1, 40);
    let (_, mut stubborn) = with_limit(1, 1_000);
    let mut opened = 0;
    for frame in 0..1_000 {
        let sealed = near.sealer.seal(&HEADER, &payload).to_vec();
        assert_eq!(open(&mut far.opener, &sealed), Ok((HEADER.to_vec(), vec![5; 160])), "frame {frame}");
        opened += u32::from(open(&mut stubborn.opener, &sealed).is_ok());
        assert!(near.sealer.keys.blocks <= 40);
    }
    assert_eq!(opened, 2);
}

#[test]
fn record_longer_than_the_life_of_a_key() {
    let (mut near, mut far) = with_limit(1, 2);
    for _ in 0..5 {
        let sealed = near.sealer.seal(&HEADER, &pieces(&[&[1; 500]])).to_vec();
        assert_eq!(open(&mut far.opener, &sealed), Ok((HEADER.to_vec(), vec![1; 500])));
    }
}

#[test]
fn no_key_is_printed() {
    let printed = format!("{:?}", both(1).0);
    assert!(printed.contains("record") && !printed.contains("traffic") && !printed.contains("key:"), "{printed}");
}

proptest! {
    #[test]
    fn a_flipped_bit_is_found(length in 0usize..300, at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let (mut near, mut far) = both(1);
        let mut sealed = near.sealer.seal(&HEADER, &[Bytes::from(vec![1; length])]).to_vec();
        let at = at.index(sealed.len());
        sealed[at] ^= 1 << bit;
        prop_assert_eq!(open(&mut far.opener, &sealed), Err(SealError));
    }

    #[test]
    fn no_bytes_open_that_were_not_sealed(bytes in prop::collection::vec(any::<u8>(), SEALED_FRAME_LEN)) {
        let (mut near, _) = both(1);
        prop_assert_eq!(near.opener.header(bytes.first_chunk().unwrap()), Err(SealError));
    }
}
