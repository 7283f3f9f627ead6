//! Bursts between two network namespaces.

use crate::{Datagrams, address_of, receive, segment, send};
use rails_lab::{LinkLab, Shape, Side};
use rails_net::{PathMtuDiscovery, UdpOptions, UdpSocket};
use rails_topo::DataSize;
use std::{
    future::poll_fn,
    io::{self, IoSlice},
    task::{Context, Waker},
};

/// A lab of one link, and a socket at each end; the first is connected to the second.
fn sockets(shape: Shape, near: &UdpOptions) -> (LinkLab, [UdpSocket; 2]) {
    let lab = LinkLab::builder().link(shape).build().expect("labs can be built here");
    let far = {
        let _inside = lab.enter(Side::B).expect("it exists");
        UdpOptions::new().bind((lab.address(Side::B, 0), 0).into()).expect("the address is there")
    };
    let near = {
        let _inside = lab.enter(Side::A).expect("it exists");
        near.connect(address_of(&far)).expect("a route leads there")
    };
    (lab, [near, far])
}

#[tokio::test]
#[ignore = "needs root: makes network namespaces"]
async fn netns_a_burst_over_a_link_is_one_call_at_each_end() {
    let (lab, [near, far]) = sockets(Shape::Unshaped, &UdpOptions::new());
    let route = {
        let _inside = lab.enter(Side::A).expect("it exists");
        near.route().expect("readable").expect("it is connected")
    };
    assert_eq!((&*route.interface, route.mtu.as_bytes()), (lab.interface(Side::A, 0), 1500));
    let most = route.max_payload.as_bytes() as usize;
    assert_eq!(most, 1472);
    const COUNT: usize = 44;
    let (datagrams, mut room) =
        (Datagrams::new(COUNT, most - crate::HEADER, 100), Datagrams::room(COUNT, most - crate::HEADER));
    assert!(datagrams.bytes() <= UdpSocket::MAX_BURST_BYTES);
    for round in 1..=3 {
        room.payload.fill(0);
        let sent = send(&near, &datagrams.slices(), segment(most)).await.expect("there is room");
        let received = receive(&far, &mut room.buffers()).await.expect("it arrives");
        assert_eq!((sent, received.bytes), (datagrams.bytes(), datagrams.bytes()));
        assert_eq!((received.segment_bytes, received.is_truncated), (segment(most), false));
        assert!(datagrams.lie_in(&room));
        let (near, far) = (near.stats(), far.stats());
        assert_eq!((near.send_calls, near.datagrams_sent), (round, round * COUNT as u64));
        assert_eq!(
            (far.datagrams_received, far.largest_burst_received_datagrams),
            (round * COUNT as u64, COUNT as u64)
        );
    }
}

#[tokio::test]
#[ignore = "needs root: makes network namespaces"]
async fn netns_probe_above_the_mtu_is_too_large() {
    let (_lab, [near, _far]) = sockets(Shape::Unshaped, &UdpOptions::new());
    let bytes = vec![0; 4000];
    assert_eq!(send(&near, &[IoSlice::new(&bytes[..1472])], None).await.expect("it fits"), 1472);
    // Alone and in a burst.
    for (length, size) in [(1473, None), (1473, segment(1473)), (4000, segment(1473))] {
        let error = send(&near, &[IoSlice::new(&bytes[..length])], size).await.expect_err("it does not fit");
        assert!(UdpSocket::is_too_large(&error), "{error}");
    }
    assert_eq!((near.stats().too_large, near.stats().datagrams_sent), (3, 1));
    assert_eq!(send(&near, &[IoSlice::new(&bytes)], segment(1472)).await.expect("each fits"), 4000);
    assert_eq!((near.stats().send_calls, near.stats().segmentation_refused), (5, 0));
}

#[tokio::test]
#[ignore = "needs root: makes network namespaces"]
async fn netns_fragments_where_the_options_allow_them() {
    let (_lab, [near, far]) = sockets(Shape::Unshaped, &UdpOptions::new().path_mtu_discovery(PathMtuDiscovery::Dont));
    let (datagrams, mut room) = (Datagrams::new(1, 8000, 0), Datagrams::room(1, 8000));
    send(&near, &datagrams.slices(), None).await.expect("it is fragmented");
    let received = receive(&far, &mut room.buffers()).await.expect("it arrives");
    assert!(received.bytes == datagrams.bytes() && datagrams.lie_in(&room));
}

#[tokio::test]
#[ignore = "needs root: makes network namespaces"]
async fn netns_full_buffer_waits_after_a_report_of_icmp() {
    // The buffer holds less than the queue of the link, which drops nothing then.
    let options = UdpOptions::new().send_buffer(DataSize::bytes(16 << 10));
    let (_lab, [near, far]) = sockets(Shape::mbit(8), &options);
    drop(far);
    let datagram = [IoSlice::new(&[0; 1000])];
    let error = loop {
        match send(&near, &datagram, None).await {
            Ok(_) => tokio::task::yield_now().await,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    let mut context = Context::from_waker(Waker::noop());
    let mut waits = 0;
    while waits < 3 {
        match near.try_send(&datagram, None, None, None) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                assert!(near.poll_send_ready(&mut context).is_pending());
                poll_fn(|context| near.poll_send_ready(context)).await.expect("the runtime runs");
                waits += 1;
            }
            // No one is there, which each datagram may be answered with.
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused),
            Ok(_) => {}
        }
    }
}
