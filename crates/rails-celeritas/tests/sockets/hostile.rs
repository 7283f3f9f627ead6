//! Datagrams of peers and strangers that keep to no protocol, without a seal.

use super::{PATIENCE, anywhere, options, pattern};
use rails_celeritas::{
    CeleritasListener, Connection,
    proto::wire::{SegmentHeader, Token, head},
};
use std::{net::UdpSocket, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// A peer that speaks the protocol by hand: the control channel, a socket for segments, and the
/// token of the other end.
pub(super) struct RawPeer {
    pub(super) control: TcpStream,
    pub(super) segments: UdpSocket,
    pub(super) token: Token,
}

impl RawPeer {
    /// Connects to the listener.
    pub(super) async fn connect(listener: &CeleritasListener) -> (Self, Connection) {
        let mut control = TcpStream::connect(listener.local_addr()).await.unwrap();
        let segments = UdpSocket::bind(anywhere()).unwrap();
        let port = segments.local_addr().unwrap().port().to_be_bytes();
        let greeting = [b"celerity\0\x02", &port[..], &[7; 8], &1472_u16.to_be_bytes(), &[0, 0]].concat();
        let greet = async {
            control.write_all(&greeting).await.unwrap();
            let mut theirs = [0; 24];
            control.read_exact(&mut theirs).await.unwrap();
            control.write_all(&[0]).await.unwrap();
            Token(u64::from_be_bytes(theirs[12..20].try_into().unwrap()))
        };
        let (far, token) = tokio::join!(listener.accept(), greet);
        (Self { control, segments, token }, far.unwrap())
    }

    /// The datagram of a segment.
    pub(super) fn segment(&self, packet: u64, offset: u64, place: Place, payload: &[u8]) -> Vec<u8> {
        let Place { message, message_len, in_message } = place;
        let header = SegmentHeader { token: self.token, packet, offset, message, message_len, in_message };
        [&head(&header.encode(), [payload]).0[..], payload].concat()
    }
}

/// The place in a message that a header names.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) message: u32,
    pub(super) message_len: u64,
    pub(super) in_message: u64,
}

/// Sends the datagram, and waits until it was received.
async fn deliver(socket: &UdpSocket, datagram: &[u8], far: &Connection) {
    let before = far.stats().scatter.calls;
    socket.send_to(datagram, far.segments_addr()).unwrap();
    let received = async {
        while far.stats().scatter.calls == before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, received).await.expect("the driver lives");
}

/// A repeated segment may name any place. Nothing lands in a message that has arrived.
#[tokio::test]
async fn false_places_overwrite_no_message() {
    // The kernel would put the next datagram into the message's last 400 bytes, or behind its end.
    for false_start in [600, 1] {
        let listener = options().listen(anywhere()).unwrap();
        let (peer, far) = RawPeer::connect(&listener).await;
        let (sent, stranger) = (pattern(1_000, 1), UdpSocket::bind(anywhere()).unwrap());
        let whole = Place { message: 0, message_len: 1_000, in_message: 0 };
        deliver(&peer.segments, &peer.segment(0, 0, whole, &sent), &far).await;
        let wrong = Place { message: 0, message_len: 1 << 30, in_message: 900 - false_start };
        deliver(&peer.segments, &peer.segment(1, 900, wrong, &sent[900..]), &far).await;
        deliver(&stranger, &[0x55; 440], &far).await;
        deliver(&peer.segments, &peer.segment(2, 900, wrong, &sent[900..]), &far).await;
        let message = timeout(PATIENCE, far.receive()).await.unwrap().unwrap().unwrap();
        assert!(message.blocks.concat() == sent, "after {false_start}");
    }
}

/// Each byte of a datagram is covered: none that was damaged lands, and the sender sends it again.
#[tokio::test]
async fn damaged_datagrams_count_as_lost() {
    let listener = options().listen(anywhere()).unwrap();
    let (peer, far) = RawPeer::connect(&listener).await;
    let sent = pattern(3_000, 1);
    let segment = |packet: u64| {
        let at = packet * 1_000;
        let place = Place { message: 0, message_len: 3_000, in_message: at };
        peer.segment(packet, at, place, &sent[at as usize..at as usize + 1_000])
    };
    for packet in 0..3 {
        // Once the first has arrived, the others land in their places before the receiver can look at them.
        for bit in [3, 30, 70, 200, 300, 8 * 40, 8 * 43 + 7, 8 * 44, 8 * 1_043 + 7] {
            let mut damaged = segment(packet);
            damaged[bit / 8] ^= 1 << (bit % 8);
            deliver(&peer.segments, &damaged, &far).await;
        }
        assert_eq!(far.stats().receiver.segments, packet, "{:?}", far.stats());
        deliver(&peer.segments, &segment(packet), &far).await;
    }
    let message = timeout(PATIENCE, far.receive()).await.unwrap().unwrap().unwrap();
    assert!(message.blocks.concat() == sent);
}
