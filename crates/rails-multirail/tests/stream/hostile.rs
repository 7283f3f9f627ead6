//! A peer that joins in order and then violates the protocol, on a real socket.

use crate::{
    loopback::{PATIENCE, listener, rails, secret},
    peer,
    util::{failure, options, pattern},
};
use bytes::Bytes;
use rails_multirail::{Failure, Mode, MultiRailListener, MultiRailStream, Rails};
use rails_proto::{
    handshake::Credentials,
    parameters::TransportParameters,
    stream_number::StreamNumber,
    violation::Violation,
    wire::{DataHeader, FRAME_LEN, Frame, ResetReason},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// A stream whose other end the test controls, with its rails and listener.
struct Victim {
    stream: MultiRailStream,
    peer: TcpStream,
    parameters: TransportParameters,
    _listening: (Rails, MultiRailListener),
}

impl Victim {
    async fn new() -> Self {
        let rails = rails(1);
        let (listener, addresses) = listener(&rails, &options()).await;
        let credentials = Credentials::Secret { mode: Mode::PreSharedKey, secret: secret() };
        let (peer, joined) =
            peer::join(addresses[0], credentials, TransportParameters::one_stream(1 << 16, 1 << 20)).await;
        let stream = listener.accept().await.expect("a stream was opened");
        Self { stream, peer, parameters: joined.parameters, _listening: (rails, listener) }
    }

    /// Sends a chunk with a valid frame.
    async fn send(&mut self, offset: u64, bytes: &[u8], fin: bool) {
        let payload = Bytes::copy_from_slice(bytes);
        let header = DataHeader::of(StreamNumber::FIRST, offset, std::slice::from_ref(&payload), fin);
        self.send_frame(header, bytes).await;
    }

    async fn send_frame(&mut self, header: DataHeader, bytes: &[u8]) {
        self.peer.write_all(&Frame::Data(header).encode()).await.expect("it reads");
        // The stream's end may have closed the connection after the header.
        let _ = self.peer.write_all(bytes).await;
    }

    /// The failure of the stream.
    async fn failure(&mut self) -> Failure {
        let read = timeout(PATIENCE, self.stream.read_u8()).await.expect("it does not hang");
        failure(&read.expect_err("the stream has failed")).clone()
    }

    /// The bytes that the peer receives until the connection closes.
    async fn told(&mut self) -> Vec<Frame> {
        let mut bytes = Vec::new();
        let _ = timeout(PATIENCE, self.peer.read_to_end(&mut bytes)).await.expect("the connection closes");
        bytes
            .chunks_exact(FRAME_LEN)
            .map(|frame| Frame::decode(frame.try_into().expect("its length")).unwrap())
            .collect()
    }
}

#[tokio::test]
async fn duplicates_and_overlaps_are_read_once() {
    let mut victim = Victim::new().await;
    let bytes = pattern(3_000);
    for (from, to) in [(0, 1_000), (0, 1_000), (500, 2_500), (900, 1_100), (2_000, 3_000)] {
        victim.send(from as u64, &bytes[from..to], to == 3_000).await;
    }
    let mut got = Vec::new();
    victim.stream.read_to_end(&mut got).await.unwrap();
    assert!(got == bytes);
    assert_eq!(victim.stream.stats().bytes_duplicated, 1_000 + 500 + 200 + 500);
}

#[tokio::test]
async fn chunk_longer_than_agreed() {
    let mut victim = Victim::new().await;
    let longest = victim.parameters.longest_chunk;
    let header = DataHeader { stream: StreamNumber::FIRST, offset: 0, length: u32::MAX, fin: false, checksum: 0 };
    victim.send_frame(header, &pattern(1_000)).await;
    assert_eq!(victim.failure().await, Failure::Violation(Violation::TooLong { length: u32::MAX, longest }));
}

#[tokio::test]
async fn chunk_beyond_the_window() {
    let mut victim = Victim::new().await;
    let limit = victim.parameters.window;
    victim.send(limit - 1, b"ab", false).await;
    let end = limit + 1;
    assert_eq!(victim.failure().await, Failure::Violation(Violation::BeyondWindow { end, limit }));
    assert_eq!(victim.told().await, [Frame::Reset(ResetReason::Violation)]);
}

#[tokio::test]
async fn wrong_checksum_on_the_only_lane() {
    let mut victim = Victim::new().await;
    victim.send(0, b"good", false).await;
    let header = DataHeader { stream: StreamNumber::FIRST, offset: 4, length: 3, fin: false, checksum: 1 };
    victim.send_frame(header, b"bad").await;
    let mut good = [0; 4];
    victim.stream.read_exact(&mut good).await.unwrap();
    assert_eq!(&good, b"good");
    assert!(matches!(victim.failure().await, Failure::LanesLost { delivered: 4, .. }));
}

#[tokio::test]
async fn a_frame_of_no_known_kind_costs_the_lane() {
    let mut victim = Victim::new().await;
    victim.peer.write_all(&[0xEE; FRAME_LEN]).await.unwrap();
    assert!(matches!(victim.failure().await, Failure::LanesLost { .. }));
}
