//! Sending segments in bursts: from the blocks of their messages, or sealed into a buffer.

use super::driver::State;
use crate::proto::{
    sender::Segment,
    wire::{HEADER_LEN, seal_len},
};
use rails_net::UdpSocket;
use rails_proto::seal::PacketSealer;
use std::{
    io::{self, IoSlice},
    net::SocketAddr,
    num::NonZeroU16,
    time::Instant,
};

/// The segments that leave by one socket.
#[derive(Debug, Default)]
pub(super) struct Bursts {
    /// Those that are to leave, the first of which may have left.
    burst: Vec<Segment>,
    left: usize,
    sealer: Option<PacketSealer>,
    /// The sealed bytes of the next ones, until the socket takes them: a packet is sealed once.
    sealed: Vec<u8>,
    /// A probe of the path's MTU that the socket has not taken: its packet number and its bytes.
    probe: Option<(u64, Vec<u8>)>,
}

impl Bursts {
    pub(super) fn new(sealer: Option<PacketSealer>) -> Self {
        Self { sealer, ..Self::default() }
    }

    /// Whether the socket has not taken all.
    pub(super) fn is_blocked(&self) -> bool {
        self.left < self.burst.len() || self.probe.is_some()
    }

    /// Sends the probes of the path's MTU and the segments that may leave now. Returns whether more may follow at once.
    pub(super) fn transmit(&mut self, socket: &UdpSocket, to: SocketAddr, state: &mut State, now: Instant) -> bool {
        if self.left == self.burst.len() && !self.probe(socket, to, state, now) {
            return false;
        }
        for _ in 0..BURSTS {
            if self.left == self.burst.len() {
                self.burst.clear();
                self.left = 0;
                let most = usize::from(socket.most_segments());
                state.protocol.poll_transmit(now, most, &mut self.burst);
                if self.burst.is_empty() {
                    return false;
                }
            }
            let sent = match self.sealer {
                Some(_) => self.send_sealed(socket, to, state),
                None => self.send(socket, to, state),
            };
            if sent.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
                return false;
            }
            // Segments of another error count as lost. A path that takes none at all is noticed by its silence.
        }
        true
    }

    /// Sends the probes that are due. Returns whether the socket took them.
    fn probe(&mut self, socket: &UdpSocket, to: SocketAddr, state: &mut State, now: Instant) -> bool {
        while let Some((packet, datagram)) = self.probe.take().or_else(|| self.make_probe(state, now)) {
            match socket.try_send(&[IoSlice::new(&datagram)], None, Some(to), None) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.probe = Some((packet, datagram));
                    return false;
                }
                Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => {
                    state.protocol.handle_refused_probe(now, packet);
                }
                // A probe that does not leave counts as lost.
                Ok(_) | Err(_) => {}
            }
        }
        true
    }

    fn make_probe(&mut self, state: &mut State, now: Instant) -> Option<(u64, Vec<u8>)> {
        let (header, padding) = state.protocol.poll_probe(now)?;
        let mut datagram = header.encode().to_vec();
        datagram.resize(HEADER_LEN + padding as usize, 0);
        if let Some(sealer) = &mut self.sealer {
            let (bytes, payload) = datagram.split_at_mut(HEADER_LEN);
            let tag = sealer.seal(header.packet, bytes, payload);
            datagram.extend_from_slice(&tag);
        }
        Some((header.packet, datagram))
    }

    /// The segments of the next call, and the bytes of each of them but the last, which may be shorter.
    fn next(&self) -> (&[Segment], usize) {
        let segments = &self.burst[self.left..];
        let whole = segments[0].header_len() + segments[0].payload_len as usize + seal_len(self.sealer.is_some());
        (&segments[..segments.len().min(UdpSocket::MOST_BURST_BYTES / whole)], whole)
    }

    /// Sends the rest of the burst by one call.
    fn send(&mut self, socket: &UdpSocket, to: SocketAddr, state: &State) -> io::Result<()> {
        let (segments, whole) = self.next();
        let headers: Vec<[u8; HEADER_LEN]> = segments.iter().map(Segment::encode_header).collect();
        let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(3 * segments.len());
        let mut count = 0;
        for (segment, header) in segments.iter().zip(&headers) {
            let before = slices.len();
            slices.push(IoSlice::new(&header[..segment.header_len()]));
            if !state.outgoing.slices(segment, &mut slices) || slices.len() > UdpSocket::MOST_SLICES {
                slices.truncate(before);
                break;
            }
            count += 1;
        }
        if count == 0 {
            // Its message was given up since, or its bytes are in more blocks than the kernel takes.
            return self.send_copied(socket, to, state);
        }
        let size = NonZeroU16::new(whole as u16).filter(|_| count > 1);
        let sent = socket.try_send(&slices, size, Some(to), None);
        self.took(count, whole, &sent);
        sent.map(drop)
    }

    /// Sends one segment from a copy of its payload.
    fn send_copied(&mut self, socket: &UdpSocket, to: SocketAddr, state: &State) -> io::Result<()> {
        let segment = self.burst[self.left];
        let mut slices = Vec::new();
        if !state.outgoing.slices(&segment, &mut slices) {
            self.left += 1;
            return Ok(());
        }
        let mut datagram = segment.encode_header()[..segment.header_len()].to_vec();
        slices.iter().for_each(|slice| datagram.extend_from_slice(slice));
        let sent = socket.try_send(&[IoSlice::new(&datagram)], None, Some(to), None);
        self.took(1, datagram.len(), &sent);
        sent.map(drop)
    }

    /// Sends the rest of the burst by one call, from a buffer into which it is sealed.
    fn send_sealed(&mut self, socket: &UdpSocket, to: SocketAddr, state: &State) -> io::Result<()> {
        let (segments, whole) = self.next();
        if self.sealed.is_empty() {
            let segments = segments.to_vec();
            let _ = segments.iter().all(|segment| self.seal(segment, state));
        }
        let count = self.sealed.len().div_ceil(whole);
        if count == 0 {
            // Its message was given up since.
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
    fn seal(&mut self, segment: &Segment, state: &State) -> bool {
        let mut slices = Vec::new();
        let is_there = state.outgoing.slices(segment, &mut slices);
        let Some(sealer) = self.sealer.as_mut().filter(|_| is_there) else { return false };
        let header = segment.encode_header();
        let header = &header[..segment.header_len()];
        self.sealed.extend_from_slice(header);
        let at = self.sealed.len();
        slices.iter().for_each(|slice| self.sealed.extend_from_slice(slice));
        let tag = sealer.seal(segment.header.packet, header, &mut self.sealed[at..]);
        self.sealed.extend_from_slice(&tag);
        true
    }

    /// The socket took bytes of `count` segments, or had an error.
    fn took(&mut self, count: usize, whole: usize, sent: &io::Result<usize>) {
        self.left += match sent {
            Ok(bytes) => bytes.div_ceil(whole).max(1),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(_) => count,
        };
    }
}

/// The most bursts that are sent before something else is done.
const BURSTS: usize = 16;
