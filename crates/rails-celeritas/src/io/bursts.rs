//! Sending segments in bursts: from the blocks of their messages, or sealed into a buffer.

use super::{ahead::HelperStats, outgoing::Outgoing, sealing::Sealing};
use crate::proto::{
    connection::ConnectionProtocol,
    sender::Segment,
    wire::{HEAD_LEN, guard_len, head},
};
use rails_net::UdpSocket;
use rails_proto::seal::PacketSealer;
use rails_task::Helpers;
use std::{
    io::{self, IoSlice},
    net::SocketAddr,
    num::NonZeroU16,
    time::Instant,
};

/// The segments that leave by one socket.
#[derive(Debug, Default)]
pub(super) struct Bursts {
    /// The segments that are to leave, the first of which may have left.
    burst: Vec<Segment>,
    left: usize,
    /// The headers of segments that are not sealed, each with its check, and the number of bytes of
    /// both.
    heads: Vec<([u8; HEAD_LEN], usize)>,
    sealing: Option<Sealing>,
    /// The sealed bytes of the next segments, until the socket takes them: a packet is sealed once.
    sealed: Vec<u8>,
    /// A probe of the path's MTU that the socket has not taken: its packet number and its bytes.
    probe: Option<(u64, Vec<u8>)>,
}

impl Bursts {
    /// Sealed bursts, if there is a sealer, perhaps by helpers.
    pub(super) fn new(sealer: Option<PacketSealer>, helpers: Option<&Helpers>) -> Self {
        Self { sealing: sealer.map(|sealer| Sealing::new(sealer, helpers)), ..Self::default() }
    }

    pub(super) fn helper_stats(&self) -> HelperStats {
        self.sealing.as_ref().map(Sealing::stats).unwrap_or_default()
    }

    /// Whether segments wait because the socket has no room.
    pub(super) fn is_blocked(&self) -> bool {
        self.left < self.burst.len() || self.probe.is_some()
    }

    /// Sends the probes of the path's MTU and the segments that may leave now. Returns whether more
    /// may follow at once.
    pub(super) fn transmit(
        &mut self,
        socket: &UdpSocket,
        to: SocketAddr,
        protocol: &mut ConnectionProtocol,
        outgoing: &Outgoing,
        now: Instant,
    ) -> bool {
        if self.left == self.burst.len() && !self.probe(socket, to, protocol, now) {
            return false;
        }
        for _ in 0..BURSTS {
            if self.left == self.burst.len() {
                self.next_burst(socket, protocol, outgoing, now);
                if self.burst.is_empty() {
                    return false;
                }
            }
            let sent = match self.sealing {
                Some(_) => self.send_sealed(socket, to, outgoing),
                None => self.send(socket, to, outgoing),
            };
            if sent.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
                return false;
            }
            // After any other error the segments count as lost. A path that takes none at all shows
            // by its silence.
        }
        true
    }

    /// Takes the next burst that is due, and has helpers seal those behind it that are due too.
    fn next_burst(&mut self, socket: &UdpSocket, protocol: &mut ConnectionProtocol, outgoing: &Outgoing, now: Instant) {
        let max = usize::from(socket.max_segments());
        self.left = 0;
        match self.sealing.as_mut().and_then(|sealing| sealing.next(&mut self.sealed)) {
            Some(burst) => self.burst = burst,
            None => {
                self.burst.clear();
                protocol.poll_transmit(now, max, &mut self.burst);
            }
        }
        let Some(sealing) = &mut self.sealing else {
            self.heads.clear();
            self.heads.extend(self.burst.iter().map(|segment| {
                let header = segment.encode_header();
                head(&header[..segment.header_len()], outgoing.slices(segment).into_iter().flatten())
            }));
            return;
        };
        while !self.burst.is_empty() && sealing.has_room(now) {
            let mut due = Vec::new();
            protocol.poll_transmit(now, max, &mut due);
            if due.is_empty() {
                return;
            }
            for segments in due.chunks(segments_per_call(&due[0], true)) {
                let mut payloads = Vec::with_capacity(segments.len());
                let mut segments = segments.to_vec();
                // Segments of messages that were given up stay here.
                segments.retain(|segment| outgoing.pieces(segment, &mut payloads));
                sealing.offer(segments, payloads);
            }
        }
    }

    /// Sends the probes that are due. Returns whether the socket took them.
    fn probe(&mut self, socket: &UdpSocket, to: SocketAddr, protocol: &mut ConnectionProtocol, now: Instant) -> bool {
        while let Some((packet, datagram)) = self.probe.take().or_else(|| self.make_probe(protocol, now)) {
            match socket.try_send(&[IoSlice::new(&datagram)], None, Some(to), None) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.probe = Some((packet, datagram));
                    return false;
                }
                Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => {
                    protocol.handle_refused_probe(now, packet);
                }
                // A probe that does not leave counts as lost.
                Ok(_) | Err(_) => {}
            }
        }
        true
    }

    fn make_probe(&mut self, protocol: &mut ConnectionProtocol, now: Instant) -> Option<(u64, Vec<u8>)> {
        let (header, padding) = protocol.poll_probe(now)?;
        let (bytes, mut payload) = (header.encode(), vec![0; padding as usize]);
        let datagram = match &mut self.sealing {
            Some(sealing) => {
                let tag = sealing.sealer.seal(header.packet, &bytes, &mut payload);
                [&bytes[..], &payload, &tag].concat()
            }
            None => [&head(&bytes, [&payload[..]]).0[..], &payload].concat(),
        };
        Some((header.packet, datagram))
    }

    /// The segments of the next call, and the bytes of each of them but the last, which may be
    /// shorter.
    fn next(&self) -> (&[Segment], usize) {
        let (segments, is_sealed) = (&self.burst[self.left..], self.sealing.is_some());
        let max = segments_per_call(&segments[0], is_sealed);
        (&segments[..segments.len().min(max)], datagram_len(&segments[0], is_sealed))
    }

    /// Sends the rest of the burst by one call.
    fn send(&mut self, socket: &UdpSocket, to: SocketAddr, outgoing: &Outgoing) -> io::Result<()> {
        let (segments, whole) = self.next();
        let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(3 * segments.len());
        let mut count = 0;
        for (segment, (head, length)) in segments.iter().zip(&self.heads[self.left..]) {
            let Some(payload) = outgoing.slices(segment) else { break };
            let before = slices.len();
            slices.push(IoSlice::new(&head[..*length]));
            slices.extend(payload.map(IoSlice::new));
            if slices.len() > UdpSocket::MAX_SLICES {
                slices.truncate(before);
                break;
            }
            count += 1;
        }
        if count == 0 {
            // The segment's message was given up since, or its bytes are in more blocks than the kernel takes.
            return self.send_copied(socket, to, outgoing);
        }
        let size = NonZeroU16::new(whole as u16).filter(|_| count > 1);
        let sent = socket.try_send(&slices, size, Some(to), None);
        self.took(count, whole, &sent);
        sent.map(drop)
    }

    /// Sends one segment from a copy of its payload.
    fn send_copied(&mut self, socket: &UdpSocket, to: SocketAddr, outgoing: &Outgoing) -> io::Result<()> {
        let segment = self.burst[self.left];
        let Some(payload) = outgoing.slices(&segment) else {
            self.left += 1;
            return Ok(());
        };
        let (head, length) = &self.heads[self.left];
        let mut datagram = head[..*length].to_vec();
        payload.for_each(|slice| datagram.extend_from_slice(slice));
        let sent = socket.try_send(&[IoSlice::new(&datagram)], None, Some(to), None);
        self.took(1, datagram.len(), &sent);
        sent.map(drop)
    }

    /// Sends the rest of the burst by one call, from a buffer into which it is sealed.
    fn send_sealed(&mut self, socket: &UdpSocket, to: SocketAddr, outgoing: &Outgoing) -> io::Result<()> {
        let (segments, whole) = self.next();
        if self.sealed.is_empty() {
            let segments = segments.to_vec();
            let _ = segments.iter().all(|segment| self.seal(segment, outgoing));
        }
        let count = self.sealed.len().div_ceil(whole);
        if count == 0 {
            // The segment's message was given up since.
            self.left += 1;
            return Ok(());
        }
        let size = NonZeroU16::new(whole as u16).filter(|_| count > 1);
        let sent = socket.try_send(&[IoSlice::new(&self.sealed)], size, Some(to), None);
        match &sent {
            Ok(bytes) => drop(self.sealed.drain(..*bytes)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.sealed.clear(),
        }
        self.took(count, whole, &sent);
        sent.map(drop)
    }

    /// Seals a segment, unless its message was given up since.
    fn seal(&mut self, segment: &Segment, outgoing: &Outgoing) -> bool {
        let (Some(sealing), Some(payload)) = (&mut self.sealing, outgoing.slices(segment)) else { return false };
        sealing.seal(segment, payload, &mut self.sealed);
        true
    }

    /// Notes that the socket took bytes of `count` segments, or had an error.
    fn took(&mut self, count: usize, whole: usize, sent: &io::Result<usize>) {
        self.left += match sent {
            Ok(bytes) => bytes.div_ceil(whole).max(1),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(_) => count,
        };
    }
}

/// The bytes of a segment's datagram.
fn datagram_len(segment: &Segment, is_sealed: bool) -> usize {
    segment.header_len() + segment.payload_len as usize + guard_len(is_sealed)
}

/// The most segments of one call, of which this is the first.
fn segments_per_call(first: &Segment, is_sealed: bool) -> usize {
    UdpSocket::MAX_BURST_BYTES / datagram_len(first, is_sealed)
}

/// The most bursts that are sent before something else is done.
const BURSTS: usize = 16;
