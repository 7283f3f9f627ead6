//! UDP sockets over the loopback interface and over links between network namespaces. The latter
//! run as root: `cargo test -p rails-net --test udp -- --ignored`

mod bursts;
mod netns;
mod options;

use rails_net::{Received, UdpOptions, UdpSocket};
use std::{
    future::poll_fn,
    io::{self, IoSlice, IoSliceMut},
    net::SocketAddr,
    num::NonZeroU16,
};

fn v4() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

fn v6() -> SocketAddr {
    ([0, 0, 0, 0, 0, 0, 0, 1], 0).into()
}

/// A socket that is connected to another.
fn pair(near: &UdpOptions, far: &UdpOptions, address: SocketAddr) -> (UdpSocket, UdpSocket) {
    let far = far.bind(address).expect("every machine has a loopback interface");
    (near.connect(address_of(&far)).expect("a route leads there"), far)
}

fn address_of(socket: &UdpSocket) -> SocketAddr {
    socket.local_addr().expect("a bound socket has an address")
}

fn segment(bytes: usize) -> Option<NonZeroU16> {
    NonZeroU16::new(u16::try_from(bytes).expect("it fits"))
}

/// Sends once, when there is room.
async fn send(socket: &UdpSocket, slices: &[IoSlice<'_>], segment: Option<NonZeroU16>) -> io::Result<usize> {
    loop {
        poll_fn(|context| socket.poll_send_ready(context)).await?;
        match socket.try_send(slices, segment, None, None) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            outcome => return outcome,
        }
    }
}

/// Receives once, when something has come.
async fn receive(socket: &UdpSocket, buffers: &mut [IoSliceMut<'_>]) -> io::Result<Received> {
    loop {
        poll_fn(|context| socket.poll_receive_ready(context)).await?;
        match socket.try_receive(buffers) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            outcome => return outcome,
        }
    }
}

/// Datagrams in memory, each with a header and a payload.
struct Datagrams {
    headers: Vec<[u8; HEADER]>,
    payload: Vec<u8>,
    payload_bytes: usize,
}

const HEADER: usize = 16;

impl Datagrams {
    /// `count` datagrams, the last of which is `short` bytes shorter.
    fn new(count: usize, payload_bytes: usize, short: usize) -> Self {
        let byte = |i: usize| (i * i / 7) as u8;
        let headers = (0..count).map(|i| [byte(i + 3); HEADER]).collect();
        Self { headers, payload: (0..count * payload_bytes - short).map(byte).collect(), payload_bytes }
    }

    /// Room for as many.
    fn room(count: usize, payload_bytes: usize) -> Self {
        Self { headers: vec![[0; HEADER]; count], payload: vec![0; count * payload_bytes], payload_bytes }
    }

    fn slices(&self) -> Vec<IoSlice<'_>> {
        let payload = self.payload.chunks(self.payload_bytes);
        self.headers
            .iter()
            .zip(payload)
            .flat_map(|(header, payload)| [&header[..], payload])
            .map(IoSlice::new)
            .collect()
    }

    fn buffers(&mut self) -> Vec<IoSliceMut<'_>> {
        let payload = self.payload.chunks_mut(self.payload_bytes);
        let pairs = self.headers.iter_mut().zip(payload);
        pairs.flat_map(|(header, payload)| [&mut header[..], payload]).map(IoSliceMut::new).collect()
    }

    fn datagram_bytes(&self) -> usize {
        HEADER + self.payload_bytes
    }

    fn bytes(&self) -> usize {
        self.headers.len() * HEADER + self.payload.len()
    }

    /// Whether the datagrams lie in `room`, headers and payload in their own places.
    fn lie_in(&self, room: &Self) -> bool {
        self.headers == room.headers && self.payload == room.payload[..self.payload.len()]
    }
}

#[tokio::test]
async fn unwatched_arrivals_wake_no_task() {
    let (near, mut far) = pair(&UdpOptions::new(), &UdpOptions::new(), v4());
    let mut byte = [0];
    for round in 0..3 {
        far.watch_arrivals(false).expect("nothing is needed for that");
        assert!(!far.watches_arrivals());
        assert_eq!(send(&near, &[IoSlice::new(&[round])], None).await.expect("there is room"), 1);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(far.poll_receive_ready(&mut context).is_pending());
        assert_eq!(far.try_receive(&mut [IoSliceMut::new(&mut byte)]).expect("it has come").bytes, 1);
        assert_eq!(byte, [round]);
        // One that comes before the runtime watches again is an arrival to it.
        assert_eq!(send(&near, &[IoSlice::new(&[7])], None).await.expect("there is room"), 1);
        far.watch_arrivals(true).expect("the runtime takes it");
        receive(&far, &mut [IoSliceMut::new(&mut byte)]).await.expect("it has come");
        assert_eq!(byte, [7]);
    }
}
