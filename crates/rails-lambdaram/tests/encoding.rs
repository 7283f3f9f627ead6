//! Encoded blocks: round trips, and payloads of a hostile peer.

use allocation_counter::measure;
use proptest::{
    collection::vec,
    prelude::*,
    sample::{Index, select},
};
use rails_formats::data_type::DataType::{self, Float32, Float64, Int16, Uint8, Uint32};
use rails_lambdaram::{
    encoding::{Coder, DecodeError, SUPPORTED, decode, encode},
    wire::Encoding,
};

const COMPRESSED: [Encoding; 2] = [Encoding::Lz4, Encoding::Zstd];

/// Numbers that grow slowly, as 4 bytes each.
fn smooth(count: u32) -> Vec<u8> {
    (0..count).flat_map(|number| (number * number / 7).to_le_bytes()).collect()
}

/// Tenths without much of an order, as 4 bytes each.
fn tenths(count: u32) -> Vec<u8> {
    (0..count)
        .flat_map(|number| ((number.wrapping_mul(2_654_435_761) >> 16) as f32 % 3000.0 / 10.0).to_le_bytes())
        .collect()
}

fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 7_u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

fn encoded(block: &[u8], dtype: DataType, encoding: Encoding) -> Vec<u8> {
    let mut payload = Vec::new();
    assert_eq!(encode(block, dtype, encoding, &mut payload), encoding);
    payload
}

#[test]
fn this_build_has_every_encoding() {
    assert!(Encoding::ALL.into_iter().all(|encoding| SUPPORTED.contains(encoding)));
}

#[test]
fn shuffled_blocks_get_shorter() {
    let block = smooth(20_000);
    for encoding in COMPRESSED {
        let (shuffled, mut plain) = (encoded(&block, Uint32, encoding), Vec::new());
        let used = encode(&block, Uint8, encoding, &mut plain);
        assert!(3 * shuffled.len() < 2 * plain.len(), "{encoding}: {} and {}", shuffled.len(), plain.len());
        assert_eq!(decode(&shuffled, Uint32, encoding, block.len()), Ok(block.clone()));
        assert_eq!(decode(&plain, Uint8, used, block.len()), Ok(block.clone()));
    }
}

#[test]
fn decimal_fractions_get_shortest() {
    let thousandths = |number: u32| (f64::from(number.wrapping_mul(2_654_435_761) >> 20) / 1000.0).to_le_bytes();
    let thousandths = (0..20_000).flat_map(thousandths).collect();
    for (block, dtype) in [(tenths(20_000), Float32), (thousandths, Float64)] {
        let [decimal, zstd] = [Encoding::Decimal, Encoding::Zstd].map(|encoding| encoded(&block, dtype, encoding));
        assert!(3 * decimal.len() < 2 * zstd.len(), "{dtype}: {} and {}", decimal.len(), zstd.len());
        assert_eq!(decode(&decimal, dtype, Encoding::Decimal, block.len()), Ok(block.clone()));
        for block_bytes in [0, 1, block.len() - 1, block.len() - 8, block.len() + 8] {
            assert!(decode(&decimal, dtype, Encoding::Decimal, block_bytes).is_err());
        }
        assert!(decode(&decimal, Uint32, Encoding::Decimal, block.len()).is_err());
    }
    let mut payload = Vec::new();
    assert_eq!(encode(&smooth(1000), Float32, Encoding::Decimal, &mut payload), Encoding::Zstd);
    assert_eq!(decode(&payload, Float32, Encoding::Zstd, 4000), Ok(smooth(1000)));
}

#[test]
fn a_block_that_gets_no_shorter_stays() {
    for block in [noise(10_000), vec![7], vec![]] {
        for encoding in Encoding::ALL {
            let mut message = b"header".to_vec();
            assert_eq!(encode(&block, Uint32, encoding, &mut message), Encoding::None);
            assert_eq!(message, [b"header", &block[..]].concat());
        }
    }
}

#[test]
fn a_coder_keeps_nothing_of_a_block() {
    let mut coder = Coder::default();
    for (block, dtype) in [
        (smooth(1000), Uint32),
        (tenths(700), Float32),
        (smooth(10), Float64),
        (vec![0; 5000], Int16),
        (smooth(3000), Uint32),
    ] {
        for encoding in Encoding::ALL {
            let mut payload = Vec::new();
            let used = coder.encode(&block, dtype, encoding, &mut payload);
            let mut again = Vec::new();
            assert_eq!(encode(&block, dtype, encoding, &mut again), used);
            assert_eq!(payload, again);
            assert_eq!(coder.decode(&payload, dtype, used, block.len()).as_ref(), Ok(&block));
        }
    }
}

#[test]
fn the_length_is_exact() {
    let block = smooth(1000);
    for encoding in COMPRESSED {
        let payload = encoded(&block, Uint32, encoding);
        let longer = decode(&payload, Uint32, encoding, block.len() + 1);
        let length = DecodeError::Length { encoding, payload_bytes: payload.len(), block_bytes: block.len() + 1 };
        assert_eq!(longer, Err(length));
        for block_bytes in [0, 1, block.len() - 1] {
            let error = decode(&payload, Uint32, encoding, block_bytes).unwrap_err();
            assert!(matches!(error, DecodeError::Corrupt { .. } | DecodeError::Length { .. }), "{error:?}");
        }
        assert!(decode(&payload[..payload.len() - 1], Uint32, encoding, block.len()).is_err());
        assert!(decode(&[], Uint32, encoding, block.len()).is_err());
    }
    for payload_bytes in [2, 4] {
        let length = DecodeError::Length { encoding: Encoding::None, payload_bytes, block_bytes: 3 };
        assert_eq!(decode(&vec![7; payload_bytes], Uint32, Encoding::None, 3), Err(length));
    }
}

#[test]
fn a_bomb_is_decoded_to_its_limit() {
    let zeros = vec![0; 4 << 20];
    // A frame of Zstandard that states 2^40 bytes.
    let stated = [&[0x28, 0xb5, 0x2f, 0xfd, 0xe0][..], &(1_u64 << 40).to_le_bytes(), &[1, 0, 0]].concat();
    for (encoding, payload) in [
        (Encoding::Lz4, encoded(&zeros, Uint8, Encoding::Lz4)),
        (Encoding::Zstd, encoded(&zeros, Uint8, Encoding::Zstd)),
        (Encoding::Zstd, stated.clone()),
        (Encoding::Decimal, encoded(&zeros, Float32, Encoding::Decimal)),
        // No exceptions, and then the frame.
        (Encoding::Decimal, [&[0; 16][..], &stated].concat()),
        // As many exceptions as a number of 32 bits says.
        (Encoding::Decimal, [&[0, 0, 0, 0, 255, 255, 255, 255][..], &[0; 64]].concat()),
    ] {
        let used = measure(|| assert!(decode(&payload, Float32, encoding, 4096).is_err()));
        assert!(used.bytes_max < 16 << 10, "{encoding}: {used:?}");
    }
}

proptest! {
    #[test]
    fn blocks_come_back(block in vec(0_u8..4, 0..2000), dtype in select(DataType::ALL.to_vec())) {
        for encoding in Encoding::ALL {
            let mut payload = Vec::new();
            let used = encode(&block, dtype, encoding, &mut payload);
            let instead = encoding == Encoding::Decimal && used == Encoding::Zstd;
            prop_assert!(used == Encoding::None || (used == encoding || instead) && payload.len() < block.len());
            prop_assert_eq!(decode(&payload, dtype, used, block.len()), Ok(block.clone()));
        }
    }

    #[test]
    fn arbitrary_payloads_are_no_panic(
        payload in vec(any::<u8>(), 0..300),
        block_bytes in 0_usize..3000,
        dtype in select(DataType::ALL.to_vec()),
    ) {
        for encoding in Encoding::ALL {
            if let Ok(block) = decode(&payload, dtype, encoding, block_bytes) {
                prop_assert_eq!(block.len(), block_bytes);
            }
        }
    }

    #[test]
    fn changed_payloads_are_no_panic(changes in vec((any::<Index>(), any::<u8>()), 1..4), block_bytes in 3000_usize..5000) {
        let (smooth, tenths) = ((smooth(1000), Uint32), (tenths(1000), Float32));
        let cases = [(&smooth, Encoding::Lz4), (&smooth, Encoding::Zstd), (&tenths, Encoding::Decimal)];
        for ((block, dtype), encoding) in cases {
            let mut payload = encoded(block, *dtype, encoding);
            for (at, byte) in &changes {
                let at = at.index(payload.len());
                payload[at] = *byte;
            }
            for block_bytes in [block_bytes, block.len()] {
                if let Ok(block) = decode(&payload, *dtype, encoding, block_bytes) {
                    prop_assert_eq!(block.len(), block_bytes);
                }
            }
        }
    }
}
