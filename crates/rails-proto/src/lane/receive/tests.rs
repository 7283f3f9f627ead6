use super::*;
use crate::{
    scheduler::LaneTraits,
    seal::{Role, Seals},
    secret::Secret,
    session::fixture,
    stream_number::StreamNumber,
    wire::{Ack, DataHeader},
};
use proptest::prelude::*;
use std::time::Duration;

/// The receiving end of a stream of bytes.
struct End {
    session: Session,
    lane: LaneId,
}

impl End {
    fn new() -> Self {
        let mut session = fixture::end(1 << 19, 1 << 20, Duration::from_secs(10));
        let lane = session.lane_up(Instant::now(), LaneTraits::default()).unwrap();
        Self { session, lane }
    }

    /// Has a lane receive `arrived` in `portions`, and then the end of its connection. Returns the
    /// stream's bytes, the number of chunks, and how the lane ended.
    fn receive(
        mut self,
        opener: Option<Opener>,
        mut arrived: &[u8],
        portions: &[usize],
    ) -> (Vec<u8>, u64, Result<(), LaneError>) {
        let mut receiver = Receiver::new(self.lane, opener);
        let (mut stream, mut all) = (Vec::new(), 0);
        let mut portions = portions.iter().cycle();
        let ended = loop {
            let portion = *portions.next().unwrap();
            let received = receiver.receive(Instant::now(), &mut self.session, |buffers| {
                let (mut count, most) = (0, portion.min(arrived.len()));
                if portion == 0 {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                for buffer in buffers {
                    let length = buffer.len().min(most - count);
                    buffer[..length].copy_from_slice(&arrived[..length]);
                    arrived = &arrived[length..];
                    count += length;
                }
                Ok(count)
            });
            stream.extend(std::iter::from_fn(|| self.session.read(Instant::now(), StreamNumber::FIRST)).flatten());
            match received {
                Ok(Received::Some { chunks, .. }) => {
                    all += chunks;
                    if let Some(error) = receiver.take_failure() {
                        break Err(error);
                    }
                }
                Ok(Received::Nothing) => assert_eq!(portion, 0),
                Ok(Received::End) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        (stream, all, ended)
    }
}

/// The bytes of a lane with chunks of these lengths, each behind an acknowledgement of nothing; the
/// stream's bytes; and where the frames begin.
fn frames(lengths: &[usize], mut seals: Option<Seals>) -> (Vec<u8>, Vec<u8>, Vec<usize>) {
    let (mut sent, mut stream, mut begins) = (Vec::new(), Vec::new(), vec![0]);
    for (index, length) in lengths.iter().enumerate() {
        let payload = Bytes::from((0..*length).map(|at| (at * 7 + index) as u8).collect::<Vec<u8>>());
        let header = DataHeader::of(
            StreamNumber::FIRST,
            stream.len() as u64,
            std::slice::from_ref(&payload),
            index + 1 == lengths.len(),
        );
        stream.extend_from_slice(&payload);
        for (frame, payload) in [
            (Frame::Ack(Ack { chunks: 0, limit: 1 << 20, complete: false }), Bytes::new()),
            (Frame::Data(header), payload),
        ] {
            match &mut seals {
                Some(seals) => sent.extend_from_slice(seals.sealer.seal(&frame.encode(), &[payload])),
                None => sent.extend(frame.encode().into_iter().chain(payload)),
            }
            begins.push(sent.len());
        }
    }
    (sent, stream, begins)
}

fn seals(role: Role) -> Seals {
    Seals::derive(&Secret::pre_shared(&[1; 16]).unwrap(), &[2; 32], role)
}

proptest! {
    /// The lane receives the same in portions of any length, even empty ones.
    #[test]
    fn frames_in_any_portions(
        lengths in prop::collection::vec(prop_oneof![Just(0), 1..100usize, 1_000..40_000usize], 1..8),
        portions in prop::collection::vec(prop_oneof![Just(0), 1..50usize, 1_000..100_000usize], 1..20),
        is_sealed: bool,
    ) {
        prop_assume!(portions.iter().any(|portion| *portion > 0));
        let (sent, stream, _) = frames(&lengths, is_sealed.then(|| seals(Role::Initiator)));
        let opener = is_sealed.then(|| seals(Role::Responder).opener);
        let (received, chunks, ended) = End::new().receive(opener, &sent, &portions);
        prop_assert!(ended.is_ok(), "{ended:?}");
        prop_assert_eq!(chunks, lengths.len() as u64);
        prop_assert!(received == stream);
    }

    /// A lane that reads only when as many bytes as it asked for have arrived, or the last, receives everything.
    #[test]
    fn low_water_marks(
        lengths in prop::collection::vec(prop_oneof![Just(0), 1..100usize, 10_000..200_000usize], 1..8),
        portions in prop::collection::vec(prop_oneof![1..50usize, 1_000..100_000usize], 1..20),
        is_sealed: bool,
    ) {
        let (sent, stream, begins) = frames(&lengths, is_sealed.then(|| seals(Role::Initiator)));
        let mut end = End::new();
        let mut receiver = Receiver::new(end.lane, is_sealed.then(|| seals(Role::Responder).opener));
        let (mut received, mut low_water, mut read, mut arrived) = (Vec::new(), 1, 0, 0);
        for portion in portions.iter().cycle() {
            arrived = (arrived + portion).min(sent.len());
            while arrived - read >= low_water {
                receiver
                    .receive(Instant::now(), &mut end.session, |buffers| {
                        let before = read;
                        for buffer in buffers {
                            let length = buffer.len().min(arrived - read);
                            buffer[..length].copy_from_slice(&sent[read..read + length]);
                            read += length;
                        }
                        Ok(read - before)
                    })
                    .unwrap();
                low_water = receiver.take_low_water().unwrap_or(low_water);
                // The mark lies within the chunk under way.
                let next = begins.iter().find(|begins| **begins > read);
                prop_assert!(low_water == 1 || next.is_some_and(|next| read + low_water <= *next));
            }
            received.extend(std::iter::from_fn(|| end.session.read(Instant::now(), StreamNumber::FIRST)).flatten());
            if arrived == sent.len() {
                break;
            }
        }
        prop_assert!(received == stream);
    }

    /// A connection that ends inside a frame was cut; the chunks before the cut are there.
    #[test]
    fn lane_cut_anywhere(
        lengths in prop::collection::vec(prop_oneof![Just(0), 1..100usize, 1_000..20_000usize], 1..4),
        cut: prop::sample::Index,
        is_sealed: bool,
    ) {
        let (sent, stream, begins) = frames(&lengths, is_sealed.then(|| seals(Role::Initiator)));
        let cut = cut.index(sent.len());
        let opener = is_sealed.then(|| seals(Role::Responder).opener);
        let (received, _, ended) = End::new().receive(opener, &sent[..cut], &[4_096]);
        prop_assert!(stream.starts_with(&received));
        match ended {
            Ok(()) => prop_assert!(begins.contains(&cut)),
            Err(LaneError::Cut { missing }) => {
                let next = begins.iter().find(|begins| **begins > cut).unwrap();
                prop_assert!(!begins.contains(&cut) && missing > 0 && cut + missing <= *next);
            }
            Err(error) => prop_assert!(false, "{error}"),
        }
    }

    /// A changed byte ends the lane, and no wrong byte gets through; the chunks before it count.
    #[test]
    fn lane_damaged_anywhere(
        lengths in prop::collection::vec(1_000..20_000usize, 1..4),
        at: prop::sample::Index,
        is_sealed: bool,
    ) {
        let (mut sent, stream, _) = frames(&lengths, is_sealed.then(|| seals(Role::Initiator)));
        let at = at.index(sent.len());
        sent[at] ^= 0x10;
        let opener = is_sealed.then(|| seals(Role::Responder).opener);
        let (received, chunks, ended) = End::new().receive(opener, &sent, &[4_096]);
        prop_assert!(ended.is_err());
        prop_assert_eq!(received.len(), lengths[..chunks as usize].iter().sum::<usize>());
        prop_assert!(stream.starts_with(&received) && received.len() < stream.len());
    }
}

#[test]
fn low_water_mark_of_a_chunk_under_way() {
    for is_sealed in [false, true] {
        let (sent, _, begins) = frames(&[400 << 10], is_sealed.then(|| seals(Role::Initiator)));
        let mut end = End::new();
        let mut receiver = Receiver::new(end.lane, is_sealed.then(|| seals(Role::Responder).opener));
        let mut read = 0;
        let mut read_until = |to: usize| {
            while read < to {
                let received = receiver.receive(Instant::now(), &mut end.session, |buffers| {
                    let count = buffers[0].len().min(to - read);
                    buffers[0][..count].copy_from_slice(&sent[read..read + count]);
                    read += count;
                    Ok(count)
                });
                received.unwrap();
            }
            receiver.take_low_water()
        };
        let tag = if is_sealed { TAG_LEN } else { 0 };
        let chunk_ends = sent.len() - tag;
        assert_eq!(read_until(begins[1]), None, "any byte is worth a wake, as at first");
        assert_eq!(read_until(chunk_ends - (390 << 10)), Some(MAX_AWAITED));
        assert_eq!(read_until(chunk_ends - (300 << 10)), None);
        assert_eq!(read_until(chunk_ends - (200 << 10)), Some((200 << 10) + tag));
        assert_eq!(read_until(chunk_ends - MIN_AWAITED + 1), Some(1));
        assert_eq!(read_until(sent.len()), None);
    }
}
