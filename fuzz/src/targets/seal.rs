//! The opener of a lane's frames, against all bytes but the next frame of the lane.

use crate::script::Script;
use bytes::Bytes;
use rails_proto::{
    fuzzing,
    seal::{Role, SEALED_FRAME_LEN, SealError},
    secret::Secret,
    wire::FRAME_LEN,
};

/// The next sealed frame opens unchanged, under any key; no other frame does: not a changed or
/// repeated one, not one from another lane or the other direction, and no forged bytes. After the
/// first frame that does not open a lane is over, so the run ends there.
pub(crate) fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let secret = Secret::pre_shared(b"nobody can guess this").expect("the secret is long enough");
    let blocks_per_key = script.number().max(1);
    let seals = |lane: u8, role| fuzzing::seals(&secret, &[lane; 32], role, blocks_per_key);
    let (mut near, mut far) = (seals(1, Role::Initiator), seals(1, Role::Responder));
    let mut others = [seals(2, Role::Initiator).sealer, seals(1, Role::Responder).sealer];
    let mut before = vec![0; SEALED_FRAME_LEN];
    while let Some(step) = script.step() {
        let header: [u8; FRAME_LEN] = script.array();
        let payload = vec![step; usize::from(script.byte())];
        let pieces = cut(&payload, usize::from(script.byte()));
        let mut frame = near.sealer.seal(&header, &pieces).to_vec();
        match step % 8 {
            0..=3 => {
                assert_eq!(
                    fuzzing::open(&mut far.opener, &frame),
                    Ok((header.to_vec(), payload)),
                    "the next sealed frame opens"
                );
                before = frame;
                continue;
            }
            4 => {
                let at = usize::from(script.byte()) * 256 + usize::from(script.byte());
                let length = frame.len();
                frame[at % length] ^= script.byte().max(1);
            }
            5 => frame = before,
            6 => frame = others[usize::from(script.flag())].seal(&header, &pieces).to_vec(),
            _ => frame = script.rest().iter().copied().chain(std::iter::repeat(0)).take(frame.len()).collect(),
        }
        assert_eq!(fuzzing::open(&mut far.opener, &frame), Err(SealError), "nothing else opens");
        return;
    }
}

/// Cuts a payload into pieces, as in a chunk; some of them are empty.
fn cut(payload: &[u8], at: usize) -> [Bytes; 2] {
    let (first, second) = payload.split_at(at.min(payload.len()));
    [Bytes::copy_from_slice(first), Bytes::copy_from_slice(second)]
}

/// Three frames that open, then one of each kind that does not open.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let frame = |step: u8, length: u8, cut: u8| [&[step][..], &[7; FRAME_LEN], &[length, cut]].concat();
    let well = [frame(0, 0, 0), frame(1, 100, 30), frame(2, 255, 0)].concat();
    let ends = [vec![0, 40, 1], vec![], vec![1], vec![9; 300]];
    let kinds = (4..8).zip(ends).map(|(step, rest)| [&LONG_LIVED[..], &well, &frame(step, 50, 25), &rest].concat());
    let renewed = [&[20][..], &well, &well, &well].concat();
    kinds.chain([[&LONG_LIVED[..], &well].concat(), renewed]).collect()
}

/// A key that is not replaced.
const LONG_LIVED: [u8; 5] = [228, 1, 0, 0, 0];
