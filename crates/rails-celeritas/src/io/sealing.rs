//! Sealing bursts and opening trains, by the driver or by the helpers of its thread.

use super::ahead::{Ahead, HelperStats, Work};
use crate::proto::{
    sender::Segment,
    wire::{Header, Token},
};
use bytes::Bytes;
use rails_net::UdpSocket;
use rails_proto::seal::{PacketOpener, PacketSealer, TAG_LEN};
use rails_task::Helpers;
use std::{
    io::{self, IoSliceMut},
    mem,
    net::SocketAddr,
    ops::Range,
    sync::Arc,
    time::Instant,
};

/// Seals bursts.
#[derive(Debug)]
pub(super) struct Sealing {
    /// Seals the packets that leave next.
    pub(super) sealer: PacketSealer,
    /// Has the key of the last packet that was offered.
    newest: PacketSealer,
    ahead: Ahead<Seal>,
    /// Buffers for sealed bytes.
    spare: Vec<Vec<u8>>,
}

/// A burst of segments, with the pieces of their payloads and the key of the first.
#[derive(Debug)]
struct Burst {
    segments: Vec<Segment>,
    payloads: Vec<Bytes>,
    sealer: PacketSealer,
}

#[derive(Debug)]
struct Seal {
    burst: Arc<Burst>,
    sealed: Vec<u8>,
}

/// Opens trains.
#[derive(Debug)]
pub(super) struct Opening {
    token: Token,
    opener: PacketOpener,
    ahead: Ahead<Open>,
    /// Buffers for trains.
    buffers: Vec<Vec<u8>>,
    /// Buffers for the trains that helpers have opened.
    spare: Vec<Vec<u8>>,
}

/// A train of sealed segments.
#[derive(Debug)]
struct Train {
    /// A buffer, which is longer than the train.
    bytes: Vec<u8>,
    len: usize,
    /// The bytes of each segment but the last.
    datagram: usize,
    from: SocketAddr,
    token: Token,
    opener: PacketOpener,
}

#[derive(Debug)]
struct Open {
    train: Arc<Train>,
    bytes: Vec<u8>,
    datagrams: Datagrams,
}

/// The header of each datagram of a train and the place of its payload; `None` for one that is not
/// of the connection.
type Datagrams = Vec<Option<(Header, Range<usize>)>>;

/// A train that was opened.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) from: SocketAddr,
    pub(super) bytes: Vec<u8>,
    pub(super) datagrams: Datagrams,
    is_by_helper: bool,
}

impl Sealing {
    pub(super) fn new(sealer: PacketSealer, helpers: Option<&Helpers>) -> Self {
        Self { newest: sealer.clone(), sealer, ahead: Ahead::new(helpers), spare: Vec::new() }
    }

    pub(super) fn stats(&self) -> HelperStats {
        self.ahead.stats
    }

    /// Whether a burst that is due is to be offered to helpers.
    pub(super) fn has_room(&self, now: Instant) -> bool {
        self.ahead.has_room(now)
    }

    /// Offers a burst to helpers, with the pieces of its payloads. It leaves behind those that
    /// wait.
    pub(super) fn offer(&mut self, segments: Vec<Segment>, payloads: Vec<Bytes>) {
        let Some(first) = segments.first() else { return };
        self.newest.advance(first.header.packet);
        let burst = Burst { segments, payloads, sealer: self.newest.clone() };
        let sealed = self.spare.pop().unwrap_or_default();
        self.ahead.offer(burst, |burst| Seal { burst, sealed });
    }

    /// The next of the bursts that wait: its segments, and in `sealed` its bytes.
    pub(super) fn next(&mut self, sealed: &mut Vec<u8>) -> Option<Vec<Segment>> {
        let (burst, done) = self.ahead.next()?;
        sealed.clear();
        match done {
            Some(done) => self.spare.push(mem::replace(sealed, done.sealed)),
            None => burst.seal(sealed),
        }
        Some(Arc::try_unwrap(burst).map_or_else(|burst| burst.segments.clone(), |burst| burst.segments))
    }

    /// Seals a segment with these pieces of its payload, behind the bytes that are there.
    pub(super) fn seal<'a>(
        &mut self,
        segment: &Segment,
        payload: impl Iterator<Item = &'a [u8]>,
        sealed: &mut Vec<u8>,
    ) {
        seal(&mut self.sealer, segment, payload, sealed);
    }
}

fn seal<'a>(
    sealer: &mut PacketSealer,
    segment: &Segment,
    payload: impl Iterator<Item = &'a [u8]>,
    sealed: &mut Vec<u8>,
) {
    let header = segment.encode_header();
    let header = &header[..segment.header_len()];
    sealed.extend_from_slice(header);
    let at = sealed.len();
    payload.for_each(|piece| sealed.extend_from_slice(piece));
    let tag = sealer.seal(segment.header.packet, header, &mut sealed[at..]);
    sealed.extend_from_slice(&tag);
}

impl Burst {
    fn seal(&self, sealed: &mut Vec<u8>) {
        let mut sealer = self.sealer.clone();
        let mut pieces = &self.payloads[..];
        for segment in &self.segments {
            let mut length = 0;
            let count = pieces.iter().take_while(|piece| {
                let is_more = length < segment.payload_len as usize;
                length += piece.len();
                is_more
            });
            let (own, behind) = pieces.split_at(count.count());
            seal(&mut sealer, segment, own.iter().map(|piece| &piece[..]), sealed);
            pieces = behind;
        }
    }
}

impl Work for Seal {
    type Input = Burst;

    fn run(&mut self) {
        self.burst.seal(&mut self.sealed);
    }
}

impl Opening {
    pub(super) fn new(token: Token, opener: PacketOpener, helpers: Option<&Helpers>) -> Self {
        Self { token, opener, ahead: Ahead::new(helpers), buffers: Vec::new(), spare: Vec::new() }
    }

    pub(super) fn stats(&self) -> HelperStats {
        self.ahead.stats
    }

    /// Whether another train is to be received before those that wait are opened.
    pub(super) fn has_room(&self, now: Instant) -> bool {
        self.ahead.has_room(now)
    }

    /// Receives a train, and offers it to helpers if others wait. Returns its bytes, and the
    /// datagrams that the socket had no room for.
    pub(super) fn receive(&mut self, socket: &UdpSocket) -> io::Result<(usize, u32)> {
        let mut bytes = self.buffers.pop().unwrap_or_else(|| vec![0; UdpSocket::MAX_BURST_BYTES]);
        let received = match socket.try_receive(&mut [IoSliceMut::new(&mut bytes)]) {
            Ok(received) => received,
            Err(error) => {
                self.buffers.push(bytes);
                return Err(error);
            }
        };
        let datagram = received.segment_bytes.map_or(received.bytes, |bytes| bytes.get().into()).max(1);
        let (len, from, token, opener) = (received.bytes, received.from, self.token, self.opener.clone());
        let train = Train { bytes, len, datagram, from, token, opener };
        if self.ahead.is_empty() {
            self.ahead.keep(train);
        } else {
            let spare = self.spare.pop().unwrap_or_default();
            self.ahead.offer(train, |train| Open { train, bytes: spare, datagrams: Vec::new() });
        }
        Ok((received.bytes, received.dropped))
    }

    /// The next of the trains that wait, opened.
    pub(super) fn next(&mut self) -> Option<Opened> {
        let (train, done) = self.ahead.next()?;
        let (from, len, datagram) = (train.from, train.len, train.datagram);
        let is_by_helper = done.is_some();
        let (bytes, datagrams) = match done {
            Some(Open { train: shared, bytes, datagrams }) => {
                drop(shared);
                self.buffers.extend(Arc::try_unwrap(train).ok().map(|train| train.bytes));
                // The key of a packet that has opened is the current one.
                let highest = datagrams.iter().flatten().map(|(header, _)| header.packet()).max();
                highest.into_iter().for_each(|packet| self.opener.opened(packet));
                (bytes, datagrams)
            }
            None => {
                // A helper may be at it.
                let mut bytes = Arc::try_unwrap(train).map_or_else(|train| train.bytes.clone(), |train| train.bytes);
                let datagrams = open(&mut bytes[..len], datagram, self.token, &mut self.opener);
                (bytes, datagrams)
            }
        };
        Some(Opened { from, bytes, datagrams, is_by_helper })
    }

    /// Takes the memory of a train that was handled.
    pub(super) fn recycle(&mut self, opened: Opened) {
        let room = if opened.is_by_helper { &mut self.spare } else { &mut self.buffers };
        if room.len() < MAX_SPARE {
            room.push(opened.bytes);
        }
    }
}

/// Opens the datagrams of a train in place.
fn open(train: &mut [u8], datagram: usize, token: Token, opener: &mut PacketOpener) -> Datagrams {
    let mut start = 0;
    let open = |datagram: &mut [u8]| {
        let at = start;
        start += datagram.len();
        let header_len = Header::len_of(datagram).ok()?;
        let (bytes, rest) = datagram.split_at_mut(header_len);
        let (payload, tag) = rest.split_at_mut_checked(rest.len().checked_sub(TAG_LEN)?)?;
        let header = Header::decode(bytes, payload.len()).ok().filter(|header| header.token() == token)?;
        opener.open(header.packet(), bytes, payload, tag).ok()?;
        Some((header, at + header_len..at + header_len + payload.len()))
    };
    train.chunks_mut(datagram).map(open).collect()
}

impl Work for Open {
    type Input = Train;

    fn run(&mut self) {
        let train = &self.train;
        self.bytes.clear();
        self.bytes.extend_from_slice(&train.bytes[..train.len]);
        self.datagrams = open(&mut self.bytes, train.datagram, train.token, &mut train.opener.clone());
    }
}

/// The most buffers that are kept.
const MAX_SPARE: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::wire::SegmentHeader;
    use rails_proto::{
        handshake::{
            Credentials, HandshakeMessage, Hello, Initiator, InitiatorStep, Purpose, Responder, ResponderStep, StreamId,
        },
        parameters::TransportParameters,
        seal::{PACKETS_PER_KEY, PacketRole, PacketSeals},
        secret::Secret,
        security::Security,
    };
    use std::collections::VecDeque;

    /// The seals of the end that connects and of the one that accepts.
    fn seals() -> [PacketSeals; 2] {
        let security = Security::encrypted(Secret::pre_shared(b"0123456789abcdef").unwrap());
        let parameters = TransportParameters::one_stream(1, 1);
        let (near, far): (Credentials, Credentials) = (security.initiator().unwrap(), security.responder().unwrap());
        let hello = Hello {
            mode: near.mode(),
            purpose: Purpose::Open,
            stream: StreamId([1; 16]),
            lane: 0,
            lanes: 1,
            parameters,
            nonce: [2; 32],
        };
        let (mut initiator, first) = Initiator::start(near, hello);
        let HandshakeMessage::Hello(hello) = first else { panic!("it begins with {first:?}") };
        let (mut responder, challenge) = Responder::start(far, hello, parameters, [3; 32]).unwrap();
        let (mut to_near, mut to_far) = (VecDeque::from([challenge]), VecDeque::new());
        let (mut ours, mut theirs) = (None, None);
        while let Some(message) = to_near.pop_front() {
            match initiator.handle(message).unwrap() {
                InitiatorStep::Send(messages) => to_far.extend(messages),
                InitiatorStep::Joined(joined) => ours = joined.packet_seals(PacketRole::Segments).unwrap(),
            }
            while let Some(message) = to_far.pop_front() {
                match responder.handle(message).unwrap() {
                    ResponderStep::Send(messages) => to_near.extend(messages),
                    ResponderStep::Proved(proved) => {
                        to_near.push_back(proved.accept.clone());
                        theirs = proved.packet_seals(PacketRole::Segments).unwrap();
                    }
                }
            }
        }
        [ours.unwrap(), theirs.unwrap()]
    }

    fn burst(numbers: Range<u64>) -> (Vec<Segment>, Vec<Bytes>) {
        let segment = |packet: u64| {
            let (offset, message_len) = (packet * 3, 3 * packet + 3);
            let header = SegmentHeader { token: Token(7), packet, offset, message: 0, message_len, in_message: offset };
            Segment { header, is_short: false, payload_len: 3, is_again: false }
        };
        // In two pieces each.
        let pieces = |packet: u64| [vec![packet as u8], vec![0, (packet >> 8) as u8]].map(Bytes::from);
        (numbers.clone().map(segment).collect(), numbers.flat_map(pieces).collect())
    }

    /// A burst that leaves is sealed after those behind it were offered, and each has its own keys.
    #[test]
    fn bursts_of_several_keys_are_sealed() {
        let [near, far] = seals();
        let topology = rails_topo::Topology::detect().unwrap();
        let queues = rails_task::TaskQueues::new(&topology, 16);
        let helpers = Helpers::new(&queues, topology.online_cpus()).unwrap();
        let mut sealing = Sealing::new(near.sealer, Some(&helpers));
        let mut opener = far.opener;
        for (key, is_helped) in (1..6).zip([true, false].into_iter().cycle()) {
            let at = key * PACKETS_PER_KEY;
            let (leaves, payloads) = burst(at - 4..at - 2);
            for ahead in [at - 2..at + 1, at + 1..at + 3] {
                let (segments, payloads) = burst(ahead);
                sealing.offer(segments, payloads);
            }
            if is_helped {
                queues.attach().unwrap().run();
            }
            let mut sealed = Vec::new();
            for (segment, payload) in leaves.iter().zip(payloads.chunks(2)) {
                sealing.seal(segment, payload.iter().map(|piece| &piece[..]), &mut sealed);
            }
            let mut buffer = Vec::new();
            while let Some(segments) = sealing.next(&mut buffer) {
                assert!(!segments.is_empty());
                sealed.extend_from_slice(&buffer);
            }
            let datagram = sealed.len() / 7;
            let opened = open(&mut sealed, datagram, Token(7), &mut opener);
            for (number, datagram) in (at - 4..at + 3).zip(opened) {
                let (header, payload) = datagram.expect("it opens");
                assert_eq!(header.packet(), number);
                assert_eq!(sealed[payload], [number as u8, 0, (number >> 8) as u8]);
            }
        }
        assert_eq!(sealing.stats(), HelperStats { offered: 10, done: 6, repeated: 0 });
    }
}
