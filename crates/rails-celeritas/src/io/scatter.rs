//! Receiving segments in place: the payload of those that were expected needs no copy.
//!
//! A train of segments is received into a list of buffers, `[header, payload]` for each. The
//! payloads are the places of the bytes that come next. Where segments come singly, one call
//! receives several, each into a list of its own. If another segment comes, because one was lost or
//! is sent again, then its payload is copied to its place. The kernel writes before the driver has
//! read a header, so the buffers are always places of missing bytes by the receiver's own
//! knowledge. A datagram that is none of the connection's leaves them missing.

use super::{ahead::HelperStats, sealing::Opening};
use crate::proto::{
    connection::ConnectionProtocol,
    peer_address::PeerAddress,
    receiver::Payload,
    replay::ReplayWindow,
    wire::{CHECK_LEN, HEAD_LEN, HEADER_LEN, Header, ProbeHeader, SHORT_HEADER_LEN, SegmentHeader, Token, check, open},
};
use rails_net::{Received, UdpSocket};
use rails_proto::seal::PacketOpener;
use rails_task::Helpers;
use smallvec::SmallVec;
use std::{
    cell::Cell,
    io::{self, IoSliceMut},
    net::SocketAddr,
    ops::Range,
    time::Instant,
};

/// The receiving side of a socket for segments.
#[derive(Debug)]
pub(super) struct Scatter {
    token: Token,
    /// The peer's address for segments.
    pub(super) peer: PeerAddress,
    /// The packets that have come.
    seen: ReplayWindow,
    /// Opens segments, if they are sealed.
    opening: Option<Opening>,
    /// The headers of a call, each with its check.
    heads: Vec<[u8; HEAD_LEN]>,
    /// The offset of the highest segment so far: the next ones are expected behind it.
    highest: Option<u64>,
    /// The bytes of the heads and of the payloads of the expected segments.
    head_len: usize,
    payload_len: usize,
    /// The segments for which a train's places are offered: twice those of the longest of the last
    /// trains, or 1.
    train: usize,
    /// The single segments that one call receives, if it finds them: twice those of the best of the
    /// last calls.
    singles: usize,
    /// The trains of a call.
    received: Vec<Received>,
    /// The payloads that have landed elsewhere, to be copied to their places.
    moved: Vec<u8>,
    pub(super) stats: ScatterStats,
    /// The trains that have come, and their bytes.
    pub(super) trains: u64,
    pub(super) bytes: u64,
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
    /// Datagrams that had come before, which the path has doubled, or a stranger sends again.
    pub repeated: u64,
    /// System calls that received segments.
    pub calls: u64,
}

/// A datagram of the connection, by its header.
enum Datagram {
    Segment { header: SegmentHeader, header_len: usize },
    Probe(ProbeHeader),
}

/// The places that were offered to the kernel for a train.
struct Offered {
    message: u32,
    /// The bytes of the message that the payloads are places of.
    bytes: Range<u64>,
    /// The index of the first head.
    head: usize,
    /// The bytes of each head, and of each payload but the last.
    head_len: usize,
    payload_len: usize,
}

/// A segment whose payload has landed elsewhere.
struct Moved {
    header: SegmentHeader,
    header_len: usize,
    /// The payload's place in the bytes that wait to be moved.
    bytes: Range<usize>,
}

impl Offered {
    /// The bytes of a head and a payload.
    fn slot(&self) -> usize {
        self.head_len + self.payload_len
    }

    /// The bytes of the buffers before the rest.
    fn slots(&self) -> usize {
        let payload = (self.bytes.end - self.bytes.start) as usize;
        payload + payload.div_ceil(self.payload_len) * self.head_len
    }

    /// The first byte of the message in the payload with that index.
    fn start(&self, index: usize) -> u64 {
        self.bytes.start + (index * self.payload_len) as u64
    }
}

impl Scatter {
    /// Creates the receiving side. Segments are sealed if there is an opener; helpers may open
    /// them.
    pub(super) fn new(
        token: Token,
        peer: PeerAddress,
        opener: Option<PacketOpener>,
        helpers: Option<&Helpers>,
    ) -> Self {
        Self {
            token,
            peer,
            seen: ReplayWindow::new(),
            opening: opener.map(|opener| Opening::new(token, opener, helpers)),
            heads: vec![[0; HEAD_LEN]; MAX_EXPECTED],
            highest: None,
            head_len: HEAD_LEN,
            payload_len: 0,
            train: MAX_EXPECTED,
            singles: 1,
            received: Vec::new(),
            moved: Vec::new(),
            stats: ScatterStats::default(),
            trains: 0,
            bytes: 0,
        }
    }

    pub(super) fn helper_stats(&self) -> HelperStats {
        self.opening.as_ref().map(Opening::stats).unwrap_or_default()
    }

    /// Receives a train of segments, or several single ones, if they have come. Sealed ones may
    /// [wait](Self::handle_waiting).
    pub(super) fn receive(
        &mut self,
        socket: &UdpSocket,
        now: Instant,
        protocol: &mut ConnectionProtocol,
    ) -> io::Result<()> {
        if let Some(mut opening) = self.opening.take() {
            let received = self.receive_sealed(&mut opening, socket, now, protocol);
            self.opening = Some(opening);
            return received;
        }
        let expected = self.highest.and_then(|highest| protocol.receiver().expected(highest));
        let mut received = std::mem::take(&mut self.received);
        let mut rests = RESTS.take();
        if rests.is_empty() {
            // The kernel gives a page once one is written.
            rests = vec![0; UdpSocket::MAX_TRAINS * UdpSocket::MAX_BURST_BYTES];
        }
        let offered = self.fill(socket, expected, protocol, &mut received, &mut rests);
        let mut moved = Vec::new();
        self.moved.clear();
        let trains = received.iter().zip(rests.chunks(UdpSocket::MAX_BURST_BYTES));
        for ((train, rest), offered) in trains.zip(offered.iter().flatten()) {
            self.take_train(now, train, rest, offered.as_ref(), &mut moved, protocol);
        }
        RESTS.set(rests);
        if offered.is_ok() {
            self.stats.calls += 1;
            // Segments behind one that is another than expected are copied.
            self.singles = match moved.is_empty() {
                true => (2 * received.len()).max(self.singles - 1).clamp(1, UdpSocket::MAX_TRAINS),
                false => self.singles.div_ceil(2),
            };
        }
        // By now all places are read that the kernel has written.
        let payloads = std::mem::take(&mut self.moved);
        for Moved { header, header_len, bytes } in moved {
            self.place(now, &header, header_len, &payloads[bytes], protocol);
        }
        self.moved = payloads;
        self.moved.shrink_to(UdpSocket::MAX_BURST_BYTES);
        received.clear();
        self.received = received;
        offered.map(drop)
    }

    /// Takes the segments of a train: those that have landed in their places at once, and the
    /// others later. `rest` has its bytes behind the offered places.
    fn take_train(
        &mut self,
        now: Instant,
        train: &Received,
        rest: &[u8],
        offered: Option<&Offered>,
        later: &mut Vec<Moved>,
        protocol: &mut ConnectionProtocol,
    ) {
        protocol.set_overflowed(train.dropped.into());
        self.trains += 1;
        self.bytes += train.bytes as u64;
        let datagram = train.segment_bytes.map_or(train.bytes, |bytes| bytes.get().into());
        let segments = train.bytes.div_ceil(datagram.max(1));
        // A place takes the kernel time, whether a segment comes or not.
        let wanted = if segments > 1 { (2 * segments).min(MAX_EXPECTED) } else { 1 };
        self.train = wanted.max(self.train - 1);
        // In trains of another length the headers lie elsewhere.
        let is_aligned = |offered: &&Offered| match train.bytes <= datagram {
            true => train.bytes <= offered.slot(),
            false => datagram == offered.slot(),
        };
        let aligned = offered.filter(is_aligned);
        let mut start = 0;
        while start < train.bytes {
            let end = train.bytes.min(start + datagram);
            let in_place = aligned.and_then(|offered| {
                let header = self.in_place(start..end, offered, protocol)?;
                Some((header, offered.head_len - CHECK_LEN, (end - start - offered.head_len) as u32))
            });
            if let Some((header, header_len, payload_len)) = in_place {
                if self.is_new(header.packet, train.from) {
                    self.stats.in_place += 1;
                    self.handle(now, &header, header_len, payload_len, protocol);
                }
            } else if let Some((header, bytes)) = self.keep(start..end, rest, offered, protocol) {
                match self.expand(header, train.from, bytes.len(), protocol) {
                    Some(Datagram::Segment { header, header_len }) => later.push(Moved { header, header_len, bytes }),
                    Some(Datagram::Probe(probe)) => protocol.handle_probe(&probe),
                    None => {}
                }
            } else {
                self.stats.foreign += 1;
            }
            start = end;
        }
    }

    /// Receives a train of sealed segments. It is handled when no more come, or enough wait.
    fn receive_sealed(
        &mut self,
        opening: &mut Opening,
        socket: &UdpSocket,
        now: Instant,
        protocol: &mut ConnectionProtocol,
    ) -> io::Result<()> {
        match opening.receive(socket) {
            Ok((bytes, dropped)) => {
                self.stats.calls += 1;
                self.trains += 1;
                self.bytes += bytes as u64;
                protocol.set_overflowed(dropped.into());
            }
            Err(error) => {
                while self.handle_sealed(opening, now, protocol) {}
                return Err(error);
            }
        }
        if !opening.has_room(now) {
            self.handle_sealed(opening, now, protocol);
        }
        Ok(())
    }

    /// Handles the trains that wait to be opened.
    pub(super) fn handle_waiting(&mut self, now: Instant, protocol: &mut ConnectionProtocol) {
        if let Some(mut opening) = self.opening.take() {
            while self.handle_sealed(&mut opening, now, protocol) {}
            self.opening = Some(opening);
        }
    }

    /// Handles the next train: each segment was opened in a buffer, and is copied to its place.
    /// Returns whether there was one.
    fn handle_sealed(&mut self, opening: &mut Opening, now: Instant, protocol: &mut ConnectionProtocol) -> bool {
        let Some(mut opened) = opening.next() else { return false };
        for datagram in opened.datagrams.drain(..) {
            let Some((header, payload)) = datagram else {
                self.stats.foreign += 1;
                continue;
            };
            match self.expand(header, opened.from, payload.len(), protocol) {
                Some(Datagram::Segment { header, header_len }) => {
                    self.place(now, &header, header_len, &opened.bytes[payload], protocol);
                }
                Some(Datagram::Probe(probe)) => protocol.handle_probe(&probe),
                None => {}
            }
        }
        opening.recycle(opened);
        true
    }

    /// Notes a packet of the connection, and the peer's address if it is the newest. Returns
    /// whether the packet has not come before.
    fn is_new(&mut self, packet: u64, from: SocketAddr) -> bool {
        let is_new = self.seen.insert(packet);
        match is_new {
            true => self.peer.handle(packet, from),
            false => self.stats.repeated += 1,
        }
        is_new
    }

    /// A datagram of the connection with `payload_len` bytes behind its header; `None` for one that
    /// is to be dropped.
    fn expand(
        &mut self,
        header: Header,
        from: SocketAddr,
        payload_len: usize,
        protocol: &mut ConnectionProtocol,
    ) -> Option<Datagram> {
        if !self.is_new(header.packet(), from) {
            return None;
        }
        match header {
            Header::Segment(header) => Some(Datagram::Segment { header, header_len: HEADER_LEN }),
            Header::Short(short) => {
                let header = protocol.expand(&short, payload_len as u32).ok()?;
                Some(Datagram::Segment { header, header_len: SHORT_HEADER_LEN })
            }
            Header::Probe(probe) => Some(Datagram::Probe(probe)),
        }
    }

    /// Takes a segment whose payload lies elsewhere, and copies its new bytes to their places.
    fn place(
        &mut self,
        now: Instant,
        header: &SegmentHeader,
        header_len: usize,
        payload: &[u8],
        protocol: &mut ConnectionProtocol,
    ) {
        let taken = self.handle(now, header, header_len, payload.len() as u32, protocol);
        self.stats.copied += 1;
        let Some(memory) = protocol.memory(header.message) else { return };
        let at = header.in_message;
        match taken {
            Some(Payload::New) => memory.write(at, payload),
            Some(Payload::Partly(new)) => new.into_iter().for_each(|part| {
                memory.write(part.start, &payload[(part.start - at) as usize..(part.end - at) as usize]);
            }),
            Some(Payload::Duplicate) | None => {}
        }
    }

    /// Makes the call. Returns the places that were offered for each train.
    fn fill(
        &mut self,
        socket: &UdpSocket,
        expected: Option<(u32, Range<u64>)>,
        protocol: &mut ConnectionProtocol,
        received: &mut Vec<Received>,
        rests: &mut [u8],
    ) -> io::Result<SmallVec<[Option<Offered>; UdpSocket::MAX_TRAINS]>> {
        let trains = if self.train == 1 { self.singles } else { 1 };
        let mut offered: SmallVec<[Option<Offered>; UdpSocket::MAX_TRAINS]> = (0..trains).map(|_| None).collect();
        let mut buffers: Vec<IoSliceMut<'_>> = Vec::with_capacity((2 * self.train + 1) * trains + 2);
        let mut ends: SmallVec<[usize; UdpSocket::MAX_TRAINS]> = SmallVec::new();
        let (head_len, payload_len) = (self.head_len, self.payload_len);
        let (message, mut missing) = expected.filter(|_| payload_len > 0).unwrap_or((0, 0..0));
        let mut slices = SmallVec::new().into_iter();
        if !missing.is_empty()
            && let Some(memory) = protocol.memory(message)
        {
            let segments = trains * self.train.min(UdpSocket::MAX_BURST_BYTES / (head_len + payload_len));
            missing.end = missing.end.min(missing.start + (segments * payload_len) as u64);
            slices = memory.slices(missing.clone()).into_iter();
        } else {
            missing = 0..0;
        }
        let mut slice: &mut [u8] = &mut [];
        let mut heads = self.heads.iter_mut().enumerate();
        for (offered, rest) in offered.iter_mut().zip(rests.chunks_mut(UdpSocket::MAX_BURST_BYTES)) {
            let first = buffers.len();
            for (index, head) in heads.by_ref().take(self.train) {
                let mut wanted = payload_len.min((missing.end - missing.start) as usize);
                if wanted == 0 {
                    break;
                }
                let (before, start) = (buffers.len(), missing.start);
                missing.start += wanted as u64;
                buffers.push(IoSliceMut::new(&mut head[..head_len]));
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
                // One more takes the rest.
                if buffers.len() - first >= UdpSocket::MAX_SLICES {
                    buffers.truncate(before);
                    missing = start..start;
                    break;
                }
                let place = Offered { message, bytes: start..start, head: index, head_len, payload_len };
                offered.get_or_insert(place).bytes.end = missing.start;
            }
            buffers.push(IoSliceMut::new(rest));
            ends.push(buffers.len() - first);
        }
        let mut lists: SmallVec<[&mut [IoSliceMut<'_>]; UdpSocket::MAX_TRAINS]> = SmallVec::new();
        let mut others = &mut buffers[..];
        for count in ends {
            let (list, behind) = others.split_at_mut(count);
            lists.push(list);
            others = behind;
        }
        socket.try_receive_trains(&mut lists, received)?;
        Ok(offered)
    }

    /// The header of the segment in these bytes of a train, if its payload is in its place.
    fn in_place(
        &self,
        datagram: Range<usize>,
        offered: &Offered,
        protocol: &mut ConnectionProtocol,
    ) -> Option<SegmentHeader> {
        let payload_len = datagram.len().checked_sub(offered.head_len)?;
        if datagram.end > offered.slots() {
            return None;
        }
        let index = datagram.start / offered.slot();
        let (bytes, told) = self.heads[offered.head + index][..offered.head_len].split_at(offered.head_len - CHECK_LEN);
        let header = Header::decode(bytes, payload_len).ok().filter(|header| header.token() == self.token)?;
        let start = offered.start(index);
        let memory = protocol.memory(offered.message)?;
        let payload = memory.slices(start..start + payload_len as u64).into_iter().map(|slice| &*slice);
        if check(bytes, payload) != told {
            return None;
        }
        let header = match header {
            Header::Segment(header) => header,
            Header::Short(short) => protocol.receiver().lookup(&short, payload_len as u32)?,
            Header::Probe(_) => return None,
        };
        ((header.message, header.in_message) == (offered.message, start)).then_some(header)
    }

    /// Copies a datagram of the connection out of a train's buffers, wherever its bytes lie in
    /// them. Returns its header, and the place of its payload among the moved ones.
    fn keep(
        &mut self,
        datagram: Range<usize>,
        rest: &[u8],
        offered: Option<&Offered>,
        protocol: &mut ConnectionProtocol,
    ) -> Option<(Header, Range<usize>)> {
        let begin = self.moved.len();
        let mut at = datagram.start;
        if let Some(offered) = offered {
            let Offered { head_len, payload_len, .. } = *offered;
            let mut memory = protocol.memory(offered.message);
            let in_slots = datagram.end.min(offered.slots());
            while at < in_slots {
                let (index, within) = (at / offered.slot(), at % offered.slot());
                if within < head_len {
                    let count = (head_len - within).min(in_slots - at);
                    self.moved.extend_from_slice(&self.heads[offered.head + index][within..within + count]);
                    at += count;
                } else {
                    let from = within - head_len;
                    let count = (payload_len - from).min(in_slots - at);
                    let start = offered.start(index) + from as u64;
                    for slice in memory.as_mut()?.slices(start..start + count as u64) {
                        self.moved.extend_from_slice(slice);
                    }
                    at += count;
                }
            }
        }
        let slots = offered.map_or(0, Offered::slots);
        if at < datagram.end {
            self.moved.extend_from_slice(&rest[at - slots..datagram.end - slots]);
        }
        let found = open(&self.moved[begin..]).ok().filter(|(header, _)| header.token() == self.token);
        if found.is_none() {
            self.moved.truncate(begin);
        }
        found.map(|(header, payload_len)| (header, self.moved.len() - payload_len..self.moved.len()))
    }

    /// Passes a segment's header to the protocol.
    fn handle(
        &mut self,
        now: Instant,
        header: &SegmentHeader,
        header_len: usize,
        payload_len: u32,
        protocol: &mut ConnectionProtocol,
    ) -> Option<Payload> {
        let taken = protocol.handle_segment(now, header, payload_len).ok()?;
        // A duplicate may name any place.
        if taken != Payload::Duplicate && self.highest.is_none_or(|highest| header.offset >= highest) {
            self.highest = Some(header.offset);
            if header.in_message + u64::from(payload_len) < header.message_len {
                (self.head_len, self.payload_len) = (header_len + CHECK_LEN, payload_len as usize);
            }
        }
        Some(taken)
    }
}

thread_local! {
    /// The memory for the bytes of a call for which there is no other place, in equal parts for its trains. No bytes
    /// stay here between calls.
    static RESTS: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The most segments of a train: 64 KiB in all, of 1,280 bytes each at least.
const MAX_EXPECTED: usize = 52;
