//! Connections over real sockets.

// The protocol alone takes the time as an argument.
#![allow(clippy::disallowed_methods)]

mod hostile;
mod secure;
mod sending;
mod shares;
mod strangers;
mod streams;
mod wakers;

use bytes::{Bytes, BytesMut};
use hostile::{Place, RawPeer};
use rails_celeritas::{
    CeleritasOptions, CloseError, Connection, ConnectionError, OpenConnectionError, ReceiveError, SendError,
    proto::{
        connection::Failure,
        wire::{Control, ErrorList, FrameWriter},
    },
};
use rails_topo::{Bandwidth, DataSize};
use std::{net::SocketAddr, time::Duration};
use tokio::{io::AsyncWriteExt, net::TcpListener, time::timeout};

const PATIENCE: Duration = Duration::from_secs(60);

fn options() -> CeleritasOptions {
    CeleritasOptions::fixed(Bandwidth::mbps(800)).max_datagram(1472)
}

fn anywhere() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

async fn pair_of(near: CeleritasOptions, far: CeleritasOptions) -> (Connection, Connection) {
    let listener = far.listen(anywhere()).unwrap();
    let address = listener.local_addr();
    let (near, far) = tokio::join!(near.connect(address), listener.accept());
    (near.unwrap(), far.unwrap())
}

async fn pair() -> (Connection, Connection) {
    pair_of(options(), options()).await
}

/// Bytes of which no part is like another.
fn pattern(length: usize, seed: u32) -> Vec<u8> {
    let words = (seed..).flat_map(|word| word.wrapping_mul(2_654_435_761).to_le_bytes());
    words.take(length).collect()
}

fn cut(bytes: &[u8], block: usize) -> Vec<Bytes> {
    bytes.chunks(block).map(Bytes::copy_from_slice).collect()
}

#[tokio::test]
async fn messages_of_many_sizes_arrive_in_order() {
    let (near, far) = pair().await;
    let sizes = [1, 100, 1432, 1433, 70_000, 3_000_000, 1, 20_000_000, 4096];
    let send = async {
        let mut sent = Vec::new();
        for (size, seed) in sizes.iter().zip(0..) {
            sent.push(near.send(cut(&pattern(*size, seed), 100_000)).await.expect("it is open"));
        }
        near.finish();
        for sending in sent {
            assert_eq!(timeout(PATIENCE, sending).await.unwrap(), Ok(()));
        }
    };
    let receive = async {
        for (size, seed) in sizes.iter().zip(0..) {
            let message = timeout(PATIENCE, far.receive()).await.unwrap().unwrap().expect("it was sent");
            assert_eq!(message.number, seed);
            assert!(message.blocks.concat() == pattern(*size, seed), "message {seed} differs");
        }
        assert!(far.receive().await.unwrap().is_none());
    };
    tokio::join!(send, receive);
    let (near, far) = tokio::join!(near.close(), far.close());
    assert_eq!((near, far), (Ok(()), Ok(())));
}

/// The peer takes part of the messages, or all of them, and never closes.
#[tokio::test]
async fn close_waits_for_a_peer_no_longer_than_it_may() {
    let limit = Duration::from_millis(50);
    for window in [1_000, 1 << 20] {
        let near = options().close_timeout(limit);
        let (near, far) = pair_of(near, options().window(DataSize::bytes(window))).await;
        let remote = near.peer_addr();
        let _sending = near.try_send(vec![Bytes::from(pattern(100_000, 1))]).unwrap();
        let error = timeout(PATIENCE, near.close()).await.expect("it does not wait for ever").unwrap_err();
        match window {
            1_000 => assert_eq!(error, CloseError::NotDelivered { remote, bytes: 99_000, limit }),
            _ => assert_eq!(error, CloseError::NotEnded { remote, limit }),
        }
        // The message is not cut off: the peer may still take all of it.
        let message = timeout(PATIENCE, far.receive()).await.unwrap().unwrap().expect("it was sent");
        assert!(message.blocks.concat() == pattern(100_000, 1));
        assert!(timeout(PATIENCE, far.receive()).await.unwrap().unwrap().is_none());
    }
}

#[tokio::test]
async fn blocks_land_in_the_callers_memory() {
    let (near, far) = pair().await;
    let bytes = pattern(10_000_000, 9);
    let receiving = far.receive_into((0..2560).map(|_| BytesMut::zeroed(4096)).collect());
    let sending = near.try_send(cut(&bytes, 4096)).unwrap();
    let message = timeout(PATIENCE, receiving).await.unwrap().unwrap().unwrap();
    assert_eq!(message.blocks.len(), 2560);
    assert!(message.blocks.concat() == bytes);
    assert_eq!(sending.await, Ok(()));
    let scatter = far.stats().scatter;
    println!("{scatter:?}");
    assert!(scatter.in_place > 9 * scatter.copied, "{scatter:?}");
}

#[tokio::test]
async fn both_directions_at_a_time() {
    let (near, far) = pair().await;
    let exchange = async |own: &Connection, seed| {
        let sending = own.try_send(cut(&pattern(5_000_000, seed), 1 << 20)).unwrap();
        let message = own.receive().await.unwrap().unwrap();
        assert!(message.blocks.concat() == pattern(5_000_000, 3 - seed));
        assert_eq!(sending.await, Ok(()));
    };
    let both = async { tokio::join!(exchange(&near, 1), exchange(&far, 2)) };
    timeout(PATIENCE, both).await.unwrap();
    let closed = timeout(PATIENCE, async { tokio::join!(near.close(), far.close()) }).await.unwrap();
    assert_eq!(closed, (Ok(()), Ok(())));
}

#[tokio::test]
async fn sender_halts_at_the_window_of_a_mute_reader() {
    let window = 1_000_000;
    let (near, far) = pair_of(options(), options().window(DataSize::bytes(window))).await;
    for seed in 0..40 {
        drop(near.try_send(cut(&pattern(100_000, seed), 8192)).unwrap());
    }
    // Nothing more comes once the window is full.
    let mut before = u64::MAX;
    while far.stats().receiver.bytes != before || before == 0 {
        before = far.stats().receiver.bytes;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(before <= window, "{before}");
    for seed in 0..40 {
        let message = timeout(PATIENCE, far.receive()).await.unwrap().unwrap().unwrap();
        assert!(message.blocks.concat() == pattern(100_000, seed));
    }
}

#[tokio::test]
async fn message_without_memory_is_refused_alone() {
    let small = options().window(DataSize::bytes(100_000)).max_message(DataSize::bytes(300_000));
    let (near, far) = pair_of(options(), small).await;
    let too_long = near.try_send(cut(&pattern(400_000, 1), 8192)).unwrap();
    let longer_than_the_window = near.try_send(cut(&pattern(300_000, 2), 8192)).unwrap();
    let refused = timeout(PATIENCE, far.receive()).await.unwrap();
    assert_eq!(refused.unwrap_err(), ReceiveError::TooLong { number: 0, length: 400_000 });
    let message = timeout(PATIENCE, far.receive()).await.unwrap().unwrap().unwrap();
    assert!(message.blocks.concat() == pattern(300_000, 2));
    assert_eq!(timeout(PATIENCE, too_long).await.unwrap(), Err(SendError::Refused(0)));
    assert_eq!(timeout(PATIENCE, longer_than_the_window).await.unwrap(), Ok(()));
}

#[tokio::test]
async fn message_that_is_given_up_is_told() {
    let (near, far) = pair_of(CeleritasOptions::fixed(Bandwidth::mbps(5)), options()).await;
    let first = near.try_send(cut(&pattern(10_000_000, 1), 8192)).unwrap();
    let second = near.try_send(cut(&pattern(1_000, 2), 8192)).unwrap();
    while far.stats().receiver.bytes == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    first.give_up();
    assert_eq!(timeout(PATIENCE, far.receive()).await.unwrap().unwrap_err(), ReceiveError::GivenUp(0));
    assert!(timeout(PATIENCE, far.receive()).await.unwrap().unwrap().unwrap().blocks.concat() == pattern(1_000, 2));
    assert_eq!(second.await, Ok(()));
}

#[tokio::test]
async fn message_expires_at_its_deadline() {
    let (near, far) = pair_of(CeleritasOptions::fixed(Bandwidth::mbps(5)), options()).await;
    let late = near.send_within(cut(&pattern(10_000_000, 1), 8192), Duration::from_millis(50)).await.unwrap();
    let in_time = near.send_within(cut(&pattern(1_000, 2), 8192), Duration::MAX).await.unwrap();
    assert_eq!(timeout(PATIENCE, late).await.unwrap(), Err(SendError::Expired(0)));
    assert_eq!(timeout(PATIENCE, in_time).await.unwrap(), Ok(()));
    assert_eq!(timeout(PATIENCE, far.receive()).await.unwrap().unwrap_err(), ReceiveError::GivenUp(0));
    assert!(timeout(PATIENCE, far.receive()).await.unwrap().unwrap().unwrap().blocks.concat() == pattern(1_000, 2));
}

#[tokio::test]
async fn caller_that_is_dropped_leaves_its_message() {
    let (near, far) = pair().await;
    timeout(Duration::from_millis(20), far.receive()).await.expect_err("nothing was sent");
    timeout(Duration::from_millis(20), far.receive_into(vec![BytesMut::zeroed(10)]))
        .await
        .expect_err("nothing was sent");
    let sending = near.try_send(cut(&pattern(1_000_000, 1), 8192)).unwrap();
    let message = timeout(PATIENCE, far.receive()).await.unwrap().unwrap().unwrap();
    assert!(message.number == 0 && message.blocks.concat() == pattern(1_000_000, 1));
    assert_eq!(sending.await, Ok(()));
}

#[tokio::test]
async fn end_of_the_peer_is_told_to_all_who_wait() {
    let (near, far) = pair().await;
    let sending = near.try_send(cut(&pattern(50_000_000, 1), 1 << 20)).unwrap();
    let receive = near.receive();
    drop(far);
    let cut_off = timeout(PATIENCE, sending).await.unwrap().unwrap_err();
    let SendError::Connection(cut_off) = cut_off else { panic!("{cut_off}") };
    assert!(matches!(cut_off, ConnectionError::Protocol(Failure::Cut) | ConnectionError::Control(_)), "{cut_off}");
    assert!(matches!(timeout(PATIENCE, receive).await.unwrap(), Err(ReceiveError::Connection(_))));
    assert!(matches!(near.try_send(cut(&[1], 1)), Err(SendError::Connection(_))));
}

#[tokio::test]
async fn wrong_input_is_refused() {
    let (near, _far) = pair().await;
    assert!(matches!(near.send(Vec::new()).await, Err(SendError::Submit(_))));
    assert!(matches!(near.send(vec![Bytes::new()]).await, Err(SendError::Submit(_))));
    near.finish();
    assert!(matches!(near.try_send(cut(&[1], 1)), Err(SendError::Closed)));
}

#[tokio::test]
async fn other_protocols_and_versions_are_refused() {
    let other = TcpListener::bind(anywhere()).await.unwrap();
    let remote = other.local_addr().unwrap();
    let answer = async {
        let (mut stream, _) = other.accept().await.unwrap();
        stream.write_all(b"SSH-2.0-OpenSSH_9.7 and so on\r\n").await.unwrap();
        stream
    };
    let options = options();
    let (refused, _stream) = tokio::join!(options.connect(remote), answer);
    assert!(matches!(refused, Err(OpenConnectionError::Foreign { .. })), "{refused:?}");
}

/// Neither more bytes than the window nor more messages than the receiver keeps records of hold the
/// end up.
#[tokio::test]
async fn end_that_closes_early_refuses_the_rest() {
    for (count, bytes) in [(20, 50_000), (1, 40_000_000), (20_000, 10)] {
        let (near, far) = pair().await;
        let sent: Vec<_> = (0..count).map(|seed| near.try_send(cut(&pattern(bytes, seed), 8192)).unwrap()).collect();
        let closed = timeout(PATIENCE, async { tokio::join!(near.close(), far.close()) }).await.unwrap();
        assert_eq!(closed, (Ok(()), Ok(())), "{count} of {bytes}");
        for sending in sent {
            assert!(matches!(sending.await, Ok(()) | Err(SendError::Refused(_))));
        }
    }
}

/// The message's bytes are all there when it turns out to be too long.
#[tokio::test]
async fn message_of_one_segment_is_refused() {
    let (near, far) = pair().await;
    for number in 0..20 {
        let receive = far.receive_into(vec![BytesMut::zeroed(10)]);
        let send = async {
            tokio::task::yield_now().await;
            near.try_send(cut(&pattern(1_000, 1), 1_000)).unwrap().await
        };
        let (received, sent) = timeout(PATIENCE, async { tokio::join!(receive, send) }).await.unwrap();
        assert_eq!(received.unwrap_err(), ReceiveError::TooLong { number, length: 1_000 });
        assert_eq!(sent, Err(SendError::Refused(number)));
    }
}

/// The sender knows that the message has arrived, and it does not fit the caller's blocks.
#[tokio::test]
async fn message_that_has_arrived_is_not_refused() {
    let (near, far) = pair().await;
    let sending = near.try_send(cut(&pattern(1_000, 1), 1_000)).unwrap();
    assert_eq!(timeout(PATIENCE, sending).await.unwrap(), Ok(()));
    let message = timeout(PATIENCE, far.receive_into(vec![BytesMut::zeroed(10)])).await.unwrap().unwrap().unwrap();
    assert_eq!(message.blocks.concat(), pattern(1_000, 1));
    let (near, far) = timeout(PATIENCE, async { tokio::join!(near.close(), far.close()) }).await.unwrap();
    assert_eq!((near, far), (Ok(()), Ok(())));
}

/// A later caller waits when the first one goes.
#[tokio::test]
async fn cancelled_receive_loses_no_message() {
    let (near, far) = pair().await;
    let (first, mut second) = (timeout(Duration::from_millis(20), far.receive()), std::pin::pin!(far.receive()));
    let (first, ()) = tokio::join!(first, async {
        let soon = timeout(Duration::from_millis(5), second.as_mut()).await;
        soon.expect_err("nothing was sent");
    });
    first.expect_err("nothing was sent");
    let sent: Vec<_> = (0..3).map(|seed| near.try_send(cut(&pattern(1_000, seed), 1_000)).unwrap()).collect();
    for sending in sent {
        assert_eq!(timeout(PATIENCE, sending).await.unwrap(), Ok(()));
    }
    let second = timeout(PATIENCE, second).await.unwrap().unwrap().unwrap();
    let [third, fourth] = [far.receive().await.unwrap().unwrap(), far.receive().await.unwrap().unwrap()];
    assert_eq!([second.number, third.number, fourth.number], [1, 0, 2]);
}

/// A socket for both families has IPv4 peers too.
#[tokio::test]
async fn ipv4_peer_of_a_listener_on_all_addresses() {
    let listener = options().listen("[::]:0".parse().unwrap()).unwrap();
    let address = SocketAddr::new("127.0.0.1".parse().unwrap(), listener.local_addr().port());
    let opening = options();
    let (near, far) = tokio::join!(opening.connect(address), listener.accept());
    let (near, far) = (near.unwrap(), far.unwrap());
    assert!(far.peer_addr().is_ipv4() && far.local_addr() == address && far.segments_addr().is_ipv4());
    for (from, to) in [(&near, &far), (&far, &near)] {
        let sending = from.try_send(cut(&pattern(100_000, 3), 4096)).unwrap();
        assert_eq!(to.receive().await.unwrap().unwrap().blocks.concat(), pattern(100_000, 3));
        assert_eq!(sending.await, Ok(()));
    }
}

#[tokio::test]
async fn caller_that_has_gone_leaves_what_has_arrived() {
    let (near, far) = pair_of(CeleritasOptions::fixed(Bandwidth::mbps(20)), options()).await;
    let sending = near.try_send(cut(&pattern(400_000, 1), 8192)).unwrap();
    for blocks in [1, 3] {
        let room = (0..blocks).map(|_| BytesMut::zeroed(600_000 / blocks)).collect();
        timeout(Duration::from_millis(40), far.receive_into(room)).await.expect_err("it takes 160 ms");
    }
    let message = timeout(PATIENCE, far.receive()).await.unwrap().unwrap().unwrap();
    assert!(message.blocks.concat() == pattern(400_000, 1));
    assert_eq!(sending.await, Ok(()));
}

/// The places of a segment may be more than the kernel takes in one call.
#[tokio::test]
async fn message_into_tiny_blocks() {
    let (near, far) = pair().await;
    for (size, seed) in [(1, 1), (8, 2), (10, 3), (48, 4)] {
        let blocks = vec![BytesMut::zeroed(size); 100_000 / size];
        let sent = pattern(100_000 / size * size, seed);
        let send = async { near.try_send(cut(&sent, 8192)).unwrap().await };
        let exchanged = timeout(PATIENCE, async { tokio::join!(far.receive_into(blocks), send) }).await;
        let (message, delivery) = exchanged.expect("it comes to an end");
        assert_eq!(delivery, Ok(()));
        assert!(message.unwrap().unwrap().blocks.concat() == sent, "blocks of {size}");
    }
}

/// As a NAT does it that forgets a connection which it has seen.
#[tokio::test]
async fn segments_follow_the_peers_port() {
    let listener = options().keep_alive(Duration::from_millis(20)).listen(anywhere()).unwrap();
    let (mut peer, far) = RawPeer::connect(&listener).await;
    let (first, second) = (&peer.segments, std::net::UdpSocket::bind(anywhere()).unwrap());
    let sent = pattern(4_000, 1);
    let segment = |packet: u64| {
        let at = packet * 1_000;
        let place = Place { message: 0, message_len: 4_000, in_message: at };
        peer.segment(packet, at, place, &sent[at as usize..at as usize + 1_000])
    };
    first.send_to(&segment(0), far.segments_addr()).unwrap();
    second.send_to(&segment(1), far.segments_addr()).unwrap();
    // A late one of before, and one of another host.
    first.send_to(&segment(0), far.segments_addr()).unwrap();
    let other = std::net::UdpSocket::bind("127.0.0.2:0").unwrap();
    other.send_to(&segment(2), far.segments_addr()).unwrap();
    first.send_to(&segment(0), far.segments_addr()).unwrap();
    second.send_to(&segment(3), far.segments_addr()).unwrap();
    let message = timeout(PATIENCE, far.receive()).await.unwrap().unwrap().unwrap();
    assert!(message.blocks.concat() == sent);
    // Repeated datagrams are no news of the path.
    let stats = far.stats();
    assert_eq!((stats.receiver.segments, stats.scatter.repeated), (4, 2));

    let limits = ErrorList { limit: 500, message_limit: 1, ..ErrorList::default() };
    peer.control.write_all(&FrameWriter::default().frame(&Control::ErrorList(limits))).await.unwrap();
    drop(far.try_send(cut(&pattern(500, 2), 500)).unwrap());
    second.set_nonblocking(true).unwrap();
    let second = tokio::net::UdpSocket::from_std(second).unwrap();
    let mut datagram = [0; 2_000];
    // Probes of the path's MTU come too.
    let segment = async {
        loop {
            let (length, from) = second.recv_from(&mut datagram).await.unwrap();
            if datagram[..length].ends_with(&pattern(500, 2)) {
                return from;
            }
        }
    };
    assert_eq!(timeout(PATIENCE, segment).await.unwrap(), far.segments_addr());
    // An end that has nothing to send keeps the NAT's binding.
    let kept = async { while second.recv_from(&mut datagram).await.unwrap().0 > 60 {} };
    timeout(PATIENCE, kept).await.unwrap();
}

/// A connection and its peer, which receives as `receive` says on a thread of its own, as another
/// process would.
async fn pair_with_thread<R: Future<Output = ()>>(
    options: CeleritasOptions,
    receive: impl FnOnce(Connection) -> R + Send + 'static,
) -> (Connection, std::thread::JoinHandle<()>) {
    let (tell, address) = tokio::sync::oneshot::channel();
    let far = options.clone();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = far.listen(anywhere()).unwrap();
            tell.send(listener.local_addr()).unwrap();
            receive(listener.accept().await.unwrap()).await;
        });
    });
    (options.connect(address.await.unwrap()).await.unwrap(), thread)
}

/// The runtime of an end computes for longer than the peer may be silent.
#[tokio::test]
async fn runtime_that_computes_ends_no_connection() {
    let limit = Duration::from_millis(200);
    let (near, thread) = pair_with_thread(options().max_silence(limit), async |far: Connection| {
        while let Some(message) = timeout(PATIENCE, far.receive()).await.unwrap().unwrap() {
            assert!(message.blocks.concat() == pattern(300_000, message.number));
        }
        far.close().await.unwrap();
    })
    .await;
    // So the round trip is known, by which the limit is longer.
    assert_eq!(near.try_send(cut(&pattern(300_000, 0), 8192)).unwrap().await, Ok(()));
    let mut sent = vec![near.try_send(cut(&pattern(300_000, 1), 8192)).unwrap()];
    for seed in 2..4 {
        while near.stats().unacknowledged == 0 {
            tokio::task::yield_now().await;
        }
        std::thread::sleep(2 * limit);
        // The driver is woken before the runtime has asked the kernel for events.
        sent.push(near.try_send(cut(&pattern(300_000, seed), 8192)).unwrap());
    }
    for sending in sent {
        assert_eq!(timeout(PATIENCE, sending).await.unwrap(), Ok(()));
    }
    timeout(PATIENCE, near.close()).await.unwrap().unwrap();
    thread.join().unwrap();
}

/// The peer's process is stopped for longer than it may be silent. Its kernel lives.
#[tokio::test]
async fn peer_that_is_stopped_is_waited_for() {
    let limit = Duration::from_millis(200);
    let (near, thread) = pair_with_thread(options().max_silence(limit), async move |far: Connection| {
        while far.stats().receiver.bytes == 0 {
            tokio::task::yield_now().await;
        }
        std::thread::sleep(3 * limit);
        let message = timeout(PATIENCE, far.receive()).await.unwrap().unwrap().unwrap();
        assert!(message.blocks.concat() == pattern(3_000_000, 1));
        far.close().await.unwrap();
    })
    .await;
    let sending = near.try_send(cut(&pattern(3_000_000, 1), 8192)).unwrap();
    assert_eq!(timeout(PATIENCE, sending).await.unwrap(), Ok(()));
    timeout(PATIENCE, near.close()).await.unwrap().unwrap();
    thread.join().unwrap();
}

#[tokio::test]
async fn datagrams_of_others_change_nothing() {
    let (near, far) = pair().await;
    let stranger = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let sending = near.try_send(cut(&pattern(5_000_000, 1), 8192)).unwrap();
    for _ in 0..100 {
        stranger.send_to(&[0x11; 1472], near.segments_addr()).unwrap();
        stranger.send_to(&[0x11; 1472], far.segments_addr()).unwrap();
        tokio::task::yield_now().await;
    }
    let message = timeout(PATIENCE, far.receive()).await.unwrap().unwrap().unwrap();
    assert!(message.blocks.concat() == pattern(5_000_000, 1));
    assert_eq!(sending.await, Ok(()));
}
