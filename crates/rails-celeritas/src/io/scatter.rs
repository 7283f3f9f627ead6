//! Receiving segments in place: the payload of those that were expected needs no copy.
//!
//! A train of segments is received by one call into a list of buffers, `[header, payload]` for each. The payloads are
//! the places of the bytes that come next. If a segment is another one, because one was lost or is sent again, then its
//! payload is copied to its place. The buffers are always places whose bytes are missing, so nothing is overwritten.

use super::incoming::Incoming;
use crate::proto::{
    connection::{ConnectionProtocol, Event},
    peer_address::PeerAddress,
    receiver::{Arrival, Payload},
    wire::{HEADER_LEN, Header, SegmentHeader, Token},
};
use rails_net::{Received, UdpSocket};
use rails_proto::seal::{PacketOpener, TAG_LEN};
use std::{
    io::{self, IoSliceMut},
    ops::Range,
    time::Instant,
};

/// The receiving side of a socket for segments.
#[derive(Debug)]
pub(super) struct Scatter {
    token: Token,
    /// The peer's address for segments.
    pub(super) peer: PeerAddress,
    /// Opens segments, if they are sealed.
    opener: Option<PacketOpener>,
    headers: Vec<[u8; HEADER_LEN]>,
    /// Takes all bytes for which there is no other place.
    rest: Vec<u8>,
    /// The highest segment so far: the next ones are expected behind it.
    highest: Option<SegmentHeader>,
    /// The payload of the expected segments.
    payload_len: usize,
    /// The payloads that have landed elsewhere, to be copied to their places.
    moved: Vec<u8>,
    /// The news of the protocol, to be told after each call.
    pub(super) events: Vec<Event>,
    pub(super) stats: ScatterStats,
}

/// Counters of received segments by where they landed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScatterStats {
    /// Segments whose payload landed in its place.
    pub in_place: u64,
    /// Segments whose payload was copied to its place.
    pub copied: u64,
    /// Datagrams that are not of the connection.
    pub foreign: u64,
    /// System calls that received segments.
    pub calls: u64,
}

/// The places that were offered to the kernel.
struct Offered {
    message: u32,
    /// The bytes of the message that the payloads are places of.
    bytes: Range<u64>,
}

impl Scatter {
    pub(super) fn new(token: Token, peer: PeerAddress, opener: Option<PacketOpener>) -> Self {
        Self {
            token,
            peer,
            opener,
            headers: vec![[0; HEADER_LEN]; MOST_EXPECTED],
            rest: vec![0; UdpSocket::MOST_BURST_BYTES],
            highest: None,
            payload_len: 0,
            moved: Vec::new(),
            events: Vec::new(),
            stats: ScatterStats::default(),
        }
    }

    /// Receives one train of segments, if one has come.
    pub(super) fn receive(
        &mut self,
        socket: &UdpSocket,
        now: Instant,
        protocol: &mut ConnectionProtocol,
        incoming: &mut Incoming,
    ) -> io::Result<()> {
        if self.opener.is_some() {
            return self.receive_sealed(socket, now, protocol, incoming);
        }
        let expected = self.expected(protocol);
        let (received, offered) = self.fill(socket, expected, incoming)?;
        self.stats.calls += 1;
        protocol.set_overflowed(received.dropped.into());
        let datagram = received.segment_bytes.map_or(received.bytes, |bytes| bytes.get().into());
        // In trains of another length the headers lie elsewhere.
        let slot = HEADER_LEN + self.payload_len;
        let is_aligned = received.bytes <= slot || datagram == slot;
        let mut start = 0;
        let mut later: Vec<(SegmentHeader, Range<usize>)> = Vec::new();
        self.moved.clear();
        while start < received.bytes {
            let end = received.bytes.min(start + datagram);
            let (header, place) = match &offered {
                Some(offered) if is_aligned && end <= self.slots(offered) => {
                    let at = offered.bytes.start + (start / slot * self.payload_len) as u64;
                    let payload = end.saturating_sub(start + HEADER_LEN);
                    let header = SegmentHeader::decode(&self.headers[start / slot], payload);
                    (header.ok(), Some((offered.message, at)))
                }
                _ => (None, None),
            };
            let is_here = |header: &SegmentHeader| place == Some((header.message, header.in_message));
            match header.filter(|header| header.token == self.token) {
                Some(header) if is_here(&header) => {
                    self.stats.in_place += 1;
                    self.peer.handle(header.packet, received.from);
                    self.handle(now, &header, (end - start - HEADER_LEN) as u32, protocol, incoming);
                }
                _ => match self.keep(start..end, offered.as_ref(), incoming) {
                    Some((header, bytes)) => {
                        self.peer.handle(header.packet(), received.from);
                        match header {
                            Header::Segment(header) => later.push((header, bytes)),
                            Header::Probe(probe) => protocol.handle_probe(&probe),
                        }
                    }
                    None => self.stats.foreign += 1,
                },
            }
            start = end;
        }
        let moved = std::mem::take(&mut self.moved);
        for (header, bytes) in later {
            self.place(now, &header, &moved[bytes], protocol, incoming);
        }
        self.moved = moved;
        Ok(())
    }

    /// Receives one train of sealed segments: each is opened in a buffer, and copied to its place.
    fn receive_sealed(
        &mut self,
        socket: &UdpSocket,
        now: Instant,
        protocol: &mut ConnectionProtocol,
        incoming: &mut Incoming,
    ) -> io::Result<()> {
        let received = socket.try_receive(&mut [IoSliceMut::new(&mut self.rest)])?;
        self.stats.calls += 1;
        protocol.set_overflowed(received.dropped.into());
        let datagram = received.segment_bytes.map_or(received.bytes, |bytes| bytes.get().into()).max(1);
        let mut rest = std::mem::take(&mut self.rest);
        for datagram in rest[..received.bytes].chunks_mut(datagram) {
            let Some((header, payload)) = self.open(datagram) else {
                self.stats.foreign += 1;
                continue;
            };
            self.peer.handle(header.packet(), received.from);
            match header {
                Header::Segment(header) => self.place(now, &header, payload, protocol, incoming),
                Header::Probe(probe) => protocol.handle_probe(&probe),
            }
        }
        self.rest = rest;
        Ok(())
    }

    /// Opens a sealed datagram of the connection.
    fn open<'a>(&mut self, datagram: &'a mut [u8]) -> Option<(Header, &'a [u8])> {
        let (bytes, rest) = datagram.split_first_chunk_mut()?;
        let (payload, tag) = rest.split_at_mut_checked(rest.len().checked_sub(TAG_LEN)?)?;
        let header = Header::decode(bytes, payload.len()).ok().filter(|header| header.token() == self.token)?;
        self.opener.as_mut()?.open(header.packet(), bytes, payload, tag).ok()?;
        Some((header, payload))
    }

    /// Takes a segment whose payload lies elsewhere, and copies its new bytes to their places.
    fn place(
        &mut self,
        now: Instant,
        header: &SegmentHeader,
        payload: &[u8],
        protocol: &mut ConnectionProtocol,
        incoming: &mut Incoming,
    ) {
        let taken = self.handle(now, header, payload.len() as u32, protocol, incoming);
        self.stats.copied += 1;
        let Some(memory) = incoming.memory(header.message) else { return };
        let at = header.in_message;
        match taken {
            Some(Payload::New) => memory.write(at, payload),
            Some(Payload::Partly(new)) => new.into_iter().for_each(|part| {
                memory.write(part.start, &payload[(part.start - at) as usize..(part.end - at) as usize]);
            }),
            Some(Payload::Duplicate) | None => {}
        }
    }

    /// The missing bytes behind the highest segment, in its message.
    fn expected(&self, protocol: &ConnectionProtocol) -> Option<(u32, Range<u64>)> {
        let highest = self.highest?;
        let (start, end) = (highest.start(), highest.start() + highest.message_len);
        let missing = protocol.receiver().next_missing(highest.offset + 1);
        let missing = missing.start..missing.end.min(end);
        (!missing.is_empty()).then(|| (highest.message, missing.start - start..missing.end - start))
    }

    /// Makes the call.
    fn fill(
        &mut self,
        socket: &UdpSocket,
        expected: Option<(u32, Range<u64>)>,
        incoming: &mut Incoming,
    ) -> io::Result<(Received, Option<Offered>)> {
        let mut buffers: Vec<IoSliceMut<'_>> = Vec::with_capacity(3 * MOST_EXPECTED);
        let mut offered = None;
        let expected = expected.filter(|_| self.payload_len > 0);
        if let Some((message, missing)) = expected
            && let Some(memory) = incoming.memory(message)
        {
            let most =
                MOST_EXPECTED.min(UdpSocket::MOST_BURST_BYTES / (HEADER_LEN + self.payload_len)) * self.payload_len;
            let bytes = missing.start..missing.end.min(missing.start + most as u64);
            let mut slices = memory.slices(bytes.clone()).into_iter();
            let mut slice: &mut [u8] = &mut [];
            let mut left = (bytes.end - bytes.start) as usize;
            for header in &mut self.headers {
                if left == 0 || buffers.len() > MOST_BUFFERS {
                    break;
                }
                buffers.push(IoSliceMut::new(header));
                let mut wanted = self.payload_len.min(left);
                left -= wanted;
                while wanted > 0 {
                    if slice.is_empty() {
                        slice = slices.next().expect("the memory holds its message");
                    }
                    let count = wanted.min(slice.len());
                    let (now, later) = std::mem::take(&mut slice).split_at_mut(count);
                    wanted -= now.len();
                    slice = later;
                    buffers.push(IoSliceMut::new(now));
                }
            }
            offered = Some(Offered { message, bytes: bytes.start..bytes.end - left as u64 });
        }
        buffers.push(IoSliceMut::new(&mut self.rest));
        Ok((socket.try_receive(&mut buffers)?, offered))
    }

    /// The bytes of the buffers before the rest.
    fn slots(&self, offered: &Offered) -> usize {
        let payload = (offered.bytes.end - offered.bytes.start) as usize;
        payload + payload.div_ceil(self.payload_len) * HEADER_LEN
    }

    /// Copies a datagram of the connection out of the buffers, wherever its bytes lie in them. Returns its header, and the
    /// place of its payload among the moved ones.
    fn keep(
        &mut self,
        datagram: Range<usize>,
        offered: Option<&Offered>,
        incoming: &mut Incoming,
    ) -> Option<(Header, Range<usize>)> {
        let mut memory = offered.and_then(|offered| incoming.memory(offered.message));
        let slots = offered.map_or(0, |offered| self.slots(offered));
        let slot = HEADER_LEN + self.payload_len;
        let begin = self.moved.len();
        let mut at = datagram.start;
        while at < datagram.end {
            if at >= slots {
                self.moved.extend_from_slice(&self.rest[at - slots..datagram.end - slots]);
                break;
            }
            let (index, within) = (at / slot, at % slot);
            if within < HEADER_LEN {
                let end = datagram.end.min(index * slot + HEADER_LEN);
                self.moved.extend_from_slice(&self.headers[index][within..within + end - at]);
                at = end;
            } else {
                let end = datagram.end.min((index + 1) * slot).min(slots);
                let start = offered?.bytes.start + (index * self.payload_len + within - HEADER_LEN) as u64;
                for slice in memory.as_mut()?.slices(start..start + (end - at) as u64) {
                    self.moved.extend_from_slice(slice);
                }
                at = end;
            }
        }
        let header = self.moved[begin..].first_chunk();
        let payload = begin + HEADER_LEN..self.moved.len();
        let header = header.and_then(|header| Header::decode(header, payload.len()).ok());
        match header.filter(|header| header.token() == self.token) {
            Some(header) => Some((header, payload)),
            None => {
                self.moved.truncate(begin);
                None
            }
        }
    }

    /// Tells the protocol of a segment, and makes room for the message that it begins.
    fn handle(
        &mut self,
        now: Instant,
        header: &SegmentHeader,
        payload_len: u32,
        protocol: &mut ConnectionProtocol,
        incoming: &mut Incoming,
    ) -> Option<Payload> {
        let taken = protocol.handle_segment(now, header, payload_len).ok()?;
        if self.highest.is_none_or(|highest| header.offset > highest.offset) {
            self.highest = Some(*header);
            if header.in_message + u64::from(payload_len) < header.message_len {
                self.payload_len = payload_len as usize;
            }
        }
        while let Some(event) = protocol.poll_event() {
            match event {
                Event::Arrival(Arrival::Begun { message, length }) => {
                    if !incoming.begin(message, length) {
                        protocol.refuse(message);
                    }
                }
                // A message is whole once its last bytes are in their place.
                event => self.events.push(event),
            }
        }
        Some(taken)
    }
}

/// The most segments of a train: 64 KiB in all, of 1,280 bytes each at least.
const MOST_EXPECTED: usize = 52;
/// The most buffers of a call, less those of one segment.
const MOST_BUFFERS: usize = UdpSocket::MOST_SLICES - 64;
