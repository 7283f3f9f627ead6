//! Bursts on the loopback interface: what arrives, and how many calls it took.

use crate::{Datagrams, address_of, pair, receive, segment, send, v4, v6};
use rails_net::{UdpOptions, UdpSocket, UdpStats};
use rails_topo::DataSize;
use std::{
    future::poll_fn,
    io::{self, IoSlice, IoSliceMut},
    net::SocketAddr,
};

/// Sends 40 datagrams of 1,216 bytes, the last of them shorter, and receives all of them. Returns
/// both ends' counters.
async fn exchange(near: &UdpOptions, far: &UdpOptions, address: SocketAddr) -> (UdpStats, UdpStats) {
    let (near, far) = pair(near, far, address);
    let (datagrams, mut room) = (Datagrams::new(40, 1200, 7), Datagrams::room(40, 1200));
    let size = datagrams.datagram_bytes();
    let sent = send(&near, &datagrams.slices(), segment(size)).await.expect("there is room");
    assert_eq!(sent, datagrams.bytes());
    let mut buffers = room.buffers();
    let mut arrived = 0;
    while arrived < sent {
        // Each train goes on where the one before has ended, which is between two datagrams.
        let received = receive(&far, &mut buffers[arrived / size * 2..]).await.expect("the socket is open");
        assert_eq!(received.from, address_of(&near));
        assert_eq!((received.is_truncated, received.dropped), (false, 0));
        match received.segment_bytes {
            Some(bytes) => assert_eq!(usize::from(bytes.get()), size),
            None => assert!(received.bytes <= size),
        }
        arrived += received.bytes;
    }
    assert!(arrived == sent && datagrams.lie_in(&room));
    (near.stats(), far.stats())
}

#[tokio::test]
async fn a_burst_is_one_call_at_each_end() {
    for address in [v4(), v6()] {
        let (near, far) = exchange(&UdpOptions::new(), &UdpOptions::new(), address).await;
        assert_eq!((near.datagrams_sent, near.send_calls, near.largest_burst_sent_datagrams), (40, 1, 40));
        assert_eq!((far.datagrams_received, far.largest_burst_received_datagrams), (40, 40));
        assert_eq!((near.bytes_sent, far.bytes_received), (40 * 1216 - 7, 40 * 1216 - 7));
    }
}

#[tokio::test]
async fn datagrams_one_by_one_without_coalescing() {
    let singly = UdpOptions::new().coalescing(false);
    let (near, far) = exchange(&UdpOptions::new(), &singly, v4()).await;
    assert_eq!((near.datagrams_sent, near.send_calls), (40, 1));
    assert_eq!((far.datagrams_received, far.largest_burst_received_datagrams), (40, 1));
    assert!(far.receive_calls >= 40);
}

#[tokio::test]
async fn one_call_per_datagram_without_segmentation() {
    for address in [v4(), v6()] {
        let singly = UdpOptions::new().segmentation(false);
        let (near, far) = exchange(&singly, &UdpOptions::new(), address).await;
        assert_eq!((near.datagrams_sent, near.send_calls, near.segmentation_refused), (40, 40, 0));
        assert_eq!(far.datagrams_received, 40);
    }
}

#[tokio::test]
async fn bursts_up_to_the_limits_are_carried() {
    let options = UdpOptions::new().coalescing(false);
    for address in [v4(), v6()] {
        let (near, far) = pair(&options, &options, address);
        let most = vec![1; UdpSocket::MAX_BURST_BYTES + 1];
        let whole = &most[1..];
        assert_eq!(send(&near, &[IoSlice::new(whole)], segment(1400)).await.expect("it fits"), whole.len());
        let refused = send(&near, &[IoSlice::new(&most)], segment(1400)).await.expect_err("it is too long");
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);

        let max_segments = usize::from(near.max_segments());
        assert_eq!(
            send(&near, &[IoSlice::new(&most[..max_segments])], segment(1)).await.expect("it fits"),
            max_segments
        );
        let refused = send(&near, &[IoSlice::new(&most[..129])], segment(1)).await.expect_err("it has too many");
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);

        let slices = vec![IoSlice::new(&most[..1]); UdpSocket::MAX_SLICES + 1];
        assert_eq!(send(&near, &slices[1..], None).await.expect("it fits"), 1024);
        let refused = send(&near, &slices, None).await.expect_err("they are too many");
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
        let mut bytes = vec![0; UdpSocket::MAX_SLICES + 1];
        let mut buffers: Vec<IoSliceMut<'_>> = bytes.chunks_mut(1).map(IoSliceMut::new).collect();
        assert_eq!(receive(&far, &mut buffers[1..]).await.expect("they are not too many").bytes, 1024);
        let refused = receive(&far, &mut buffers).await.expect_err("they are too many");
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    }
}

#[tokio::test]
async fn a_datagram_that_no_packet_carries_is_too_large() {
    let (near, _far) = pair(&UdpOptions::new(), &UdpOptions::new(), v4());
    let most = near.route().expect("readable").expect("it is connected").max_payload.as_bytes() as usize;
    assert_eq!(send(&near, &[IoSlice::new(&vec![0; most])], None).await.expect("it fits"), most);
    let error = send(&near, &[IoSlice::new(&vec![0; 65_536])], None).await.expect_err("it does not fit");
    assert!(UdpSocket::is_too_large(&error), "{error}");
    assert_eq!((near.stats().too_large, near.stats().datagrams_sent), (1, 1));
    assert_eq!(send(&near, &[], None).await.expect("an empty datagram is one"), 0);
    assert_eq!(near.stats().datagrams_sent, 2);
}

#[tokio::test]
async fn bytes_beyond_the_buffers_are_told_as_cut_off() {
    let (near, far) = pair(&UdpOptions::new(), &UdpOptions::new(), v4());
    send(&near, &[IoSlice::new(b"a datagram")], None).await.expect("there is room");
    let mut buffer = [0; 9];
    let received = receive(&far, &mut [IoSliceMut::new(&mut buffer)]).await.expect("it has arrived");
    assert!(received.is_truncated && received.bytes == 9);
    assert_eq!((&buffer, far.stats().truncated), (b"a datagra", 1));
}

#[tokio::test]
async fn every_datagram_is_received_or_counted_as_dropped() {
    const SENT: usize = 200;
    // The kernel raises the size to its least, which holds a datagram or two.
    let small = UdpOptions::new().receive_buffer(DataSize::bytes(1)).coalescing(false);
    let (near, far) = pair(&UdpOptions::new(), &small, v4());
    assert_eq!(far.deviations().len(), 1);
    for _ in 0..SENT {
        send(&near, &[IoSlice::new(&[1; 1000])], None).await.expect("there is room");
    }
    let mut buffer = [0; 1000];
    let mut received = 0;
    while far.try_receive(&mut [IoSliceMut::new(&mut buffer)]).is_ok() || received == 0 {
        received += 1;
        tokio::task::yield_now().await;
    }
    send(&near, &[IoSlice::new(b"last")], None).await.expect("there is room");
    let last = receive(&far, &mut [IoSliceMut::new(&mut buffer)]).await.expect("it has arrived");
    let dropped = last.dropped as usize;
    let UdpStats { datagrams_received, overflow_drops, .. } = far.stats();
    assert_eq!((datagrams_received as usize - 1 + dropped, overflow_drops as usize), (SENT, dropped));
    assert!(dropped > SENT / 2, "{dropped}");
}

#[tokio::test]
async fn a_socket_without_a_peer_answers_whoever_sends() {
    let far = UdpOptions::new().bind(v4()).expect("loopback is there");
    let mut buffer = [0; 100];
    for _ in 0..2 {
        let near = UdpOptions::new().connect(address_of(&far)).expect("a route leads there");
        send(&near, &[IoSlice::new(b"question")], None).await.expect("there is room");
        let question = receive(&far, &mut [IoSliceMut::new(&mut buffer)]).await.expect("it has arrived");
        let answer = [IoSlice::new(b"one"), IoSlice::new(b"two")];
        assert_eq!(far.try_send(&answer, segment(3), Some(question.from), None).expect("there is room"), 6);
        let answer = receive(&near, &mut [IoSliceMut::new(&mut buffer)]).await.expect("it has arrived");
        assert_eq!((answer.from, &buffer[..6]), (address_of(&far), &b"onetwo"[..]));
    }
}

#[tokio::test]
async fn connecting_again_changes_the_peer_alone() {
    let options = UdpOptions::new();
    let (near, first) = pair(&options, &options, v4());
    let second = options.bind(v4()).expect("loopback is there");
    let local = address_of(&near);
    near.connect(address_of(&second)).expect("a route leads there");
    assert_eq!(address_of(&near), local);
    assert_eq!(near.peer_addr().expect("readable"), Some(address_of(&second)));
    send(&near, &[IoSlice::new(b"hello")], None).await.expect("there is room");
    let mut buffer = [0; 5];
    let received = receive(&second, &mut [IoSliceMut::new(&mut buffer)]).await.expect("it has arrived");
    assert_eq!((received.from, &buffer), (local, b"hello"));
    // What the former peer sends arrives no more.
    tokio::task::yield_now().await;
    first.try_send(&[IoSlice::new(b"stale")], None, Some(local), None).expect("there is room");
    second.try_send(&[IoSlice::new(b"fresh")], None, Some(local), None).expect("there is room");
    let received = receive(&near, &mut [IoSliceMut::new(&mut buffer)]).await.expect("it has arrived");
    assert_eq!((received.from, &buffer), (address_of(&second), b"fresh"));
}

#[tokio::test]
async fn a_peer_that_is_gone_is_an_error_once() {
    let (near, far) = pair(&UdpOptions::new(), &UdpOptions::new(), v4());
    let address = address_of(&far);
    drop(far);
    send(&near, &[IoSlice::new(b"to no one")], None).await.expect("there is room");
    // The kernel of this machine answers before the call that sends returns.
    let error = send(&near, &[IoSlice::new(b"once more")], None).await.expect_err("no one is there");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    let far = UdpOptions::new().bind(address).expect("the port is free again");
    send(&near, &[IoSlice::new(b"someone")], None).await.expect("there is room");
    let mut buffer = [0; 100];
    assert_eq!(receive(&far, &mut [IoSliceMut::new(&mut buffer)]).await.expect("it has arrived").bytes, 7);
}

/// Single datagrams and a train, from senders of their own, and one that no buffer is left for.
#[tokio::test]
async fn one_call_receives_several_trains() {
    for address in [v4(), v6()] {
        let (near, far) = pair(&UdpOptions::new(), &UdpOptions::new(), address);
        let other = UdpOptions::new().connect(address_of(&far)).expect("a route leads there");
        send(&near, &[IoSlice::new(b"first")], None).await.expect("there is room");
        send(&other, &[IoSlice::new(b"onetwo")], segment(3)).await.expect("there is room");
        send(&near, &[IoSlice::new(b"a third")], None).await.expect("there is room");
        send(&near, &[IoSlice::new(b"last")], None).await.expect("there is room");
        let (mut bytes, mut received) = ([[0; 6]; 3], Vec::new());
        poll_fn(|context| far.poll_receive_ready(context)).await.expect("the runtime lives");
        let mut lists = bytes.each_mut().map(|bytes| [IoSliceMut::new(bytes)]);
        let mut lists = lists.each_mut().map(|list| &mut list[..]);
        far.try_receive_trains(&mut lists, &mut received).expect("they have come");
        let told = received.iter().map(|train| (train.bytes, train.segment_bytes, train.from, train.is_truncated));
        let expected = [
            (5, None, address_of(&near), false),
            (6, segment(3), address_of(&other), false),
            (6, None, address_of(&near), true),
        ];
        assert_eq!(told.collect::<Vec<_>>(), expected);
        assert_eq!(bytes, [*b"first\0", *b"onetwo", *b"a thir"]);
        let stats = far.stats();
        assert_eq!((stats.receive_calls, stats.datagrams_received, stats.truncated), (1, 4, 1));
        let mut lists = bytes.each_mut().map(|bytes| [IoSliceMut::new(bytes)]);
        let mut lists = lists.each_mut().map(|list| &mut list[..]);
        far.try_receive_trains(&mut lists, &mut received).expect("the last has come");
        assert_eq!((received.len(), received[3].bytes), (4, 4));
        let error = far.try_receive_trains(&mut lists, &mut received).expect_err("none is left");
        assert_eq!((error.kind(), received.len()), (io::ErrorKind::WouldBlock, 4));
    }
}

#[tokio::test]
async fn sending_and_receiving_allocate_nothing() {
    let (near, far) = pair(&UdpOptions::new(), &UdpOptions::new(), v4());
    let (datagrams, mut room) = (Datagrams::new(40, 1200, 0), Datagrams::room(40, 1200));
    let (slices, mut buffers) = (datagrams.slices(), room.buffers());
    // The runtime learns first that both are ready.
    send(&near, &slices, segment(1216)).await.expect("there is room");
    receive(&far, &mut buffers).await.expect("it has arrived");
    send(&near, &slices, segment(1216)).await.expect("there is room");
    let to = Some(address_of(&far));
    let counted = allocation_counter::measure(|| {
        near.try_send(&slices, segment(1216), to, None).expect("there is room");
        far.try_receive(&mut buffers).expect("it has arrived");
    });
    assert_eq!(counted.count_total, 0);
}
