//! Streams over lanes that are not TCP: the seam that other transports come in by.

use crate::{
    memory_lane::MemoryNetwork,
    util::{PATIENCE, listener, options, pattern, rails, secret},
};
use bytes::Bytes;
use rails_multirail::{
    AdmitError, EventKind, MultiRailListener, MultiRailStream, RailId, Rails, Security, StreamOptions, StreamStats,
};
use rails_net::TransportStats;
use rails_proto::wire::{DataHeader, Frame};
use std::{sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

/// A stream's two ends over lanes through memory, and their listener, which takes in lanes that are dialled again.
async fn memory_pair(
    rails: &Rails,
    options: &StreamOptions,
    delay: Duration,
) -> (MultiRailStream, MultiRailStream, MultiRailListener, MemoryNetwork) {
    let (mut listener, remotes) = listener(rails, options).await;
    let network = MemoryNetwork::new(&remotes, listener.entrance(), delay);
    let dialing = options.clone().connector(network.clone());
    let near = MultiRailStream::connect(rails, &remotes, &dialing).await.expect("memory is there");
    let far = listener.accept().await.expect("a stream was opened");
    (near, far, listener, network)
}

/// Moves bytes both ways, each direction shut down by itself.
async fn move_both_ways(
    mut near: MultiRailStream,
    mut far: MultiRailStream,
    midway: impl AsyncFnOnce(&MultiRailStream),
) -> [StreamStats; 2] {
    let there = pattern(3 << 20);
    let back = pattern(1 << 20);
    let (expected, answer) = (there.clone(), back.clone());
    let other = tokio::spawn(async move {
        let mut got = vec![0; 1 << 20];
        far.read_exact(&mut got).await.expect("half of a stream");
        far.read_to_end(&mut got).await.expect("the rest of it");
        assert!(got == expected, "other bytes arrived");
        // The other direction lives on after the end of this one.
        far.write_all(&answer).await.expect("it is open");
        far.close().await.expect("both are done")
    });
    near.write_all(&there[..2 << 20]).await.expect("it is open");
    midway(&near).await;
    near.write_all(&there[2 << 20..]).await.expect("it is open");
    near.shutdown().await.expect("the other end has everything");
    let mut got = Vec::new();
    near.read_to_end(&mut got).await.expect("the other direction");
    assert!(got == back, "other bytes came back");
    let ends = [near.close().await.expect("both are done"), other.await.expect("it ran")];
    for end in &ends {
        for lane in &end.lanes {
            // What a transport does not know is unknown, not zero.
            assert_eq!(lane.transport, Some(TransportStats::default()), "{lane:?}");
            assert_eq!((lane.tcp.as_ref(), lane.rtt, lane.bytes_retransmitted), (None, None, None), "{lane:?}");
        }
    }
    ends
}

#[tokio::test]
async fn a_stream_runs_over_lanes_of_another_transport() {
    let rails = rails(2);
    let (near, far, _listener, network) = memory_pair(&rails, &options(), Duration::ZERO).await;
    assert_eq!(network.made().len(), 2);
    move_both_ways(near, far, async |_| {}).await;
}

#[tokio::test]
async fn it_is_encrypted_like_any_other() {
    let rails = rails(2);
    let security = Security::encrypted(secret());
    let (near, far, _listener, _network) = memory_pair(&rails, &StreamOptions::new(security), Duration::ZERO).await;
    move_both_ways(near, far, async |_| {}).await;
}

#[tokio::test]
async fn losing_such_a_lane_loses_nothing_and_it_is_dialled_again() {
    is_dialled_again(Duration::ZERO).await;
}

#[tokio::test]
async fn so_is_a_lane_on_a_path_of_many_hundred_milliseconds() {
    is_dialled_again(Duration::from_millis(1200)).await;
}

/// Breaks one of two lanes, of which each takes so long to be made.
async fn is_dialled_again(delay: Duration) {
    let rails = rails(2);
    let options = options().outage_limit(Duration::from_secs(10));
    let (near, far, _listener, network) = memory_pair(&rails, &options, delay).await;
    let breaking = network.clone();
    let [near, far] = move_both_ways(near, far, async move |near| {
        let mut events = near.subscribe();
        breaking.break_first();
        loop {
            let event = events.recv().await.expect("the stream lives");
            if matches!(event.kind, EventKind::Ended { .. }) {
                // Reset, or closed by the other end, where that has seen it before.
                assert!(event.error.is_some());
                break;
            }
        }
        while near.lanes_up() < 2 {
            events.recv().await.expect("the stream lives");
        }
    })
    .await;
    assert_eq!(network.made().len(), 3, "the broken lane was dialled again");
    for end in [near, far] {
        assert_eq!(end.lanes.iter().map(|lane| lane.losses).sum::<u64>(), 1, "{end:?}");
        assert_eq!(end.lanes.iter().map(|lane| lane.joined).sum::<u64>(), 3, "{end:?}");
    }
}

/// Duplicates without end: the lane never waits for more, and does what else there is to do.
#[tokio::test]
async fn abort_on_a_flooded_lane() {
    let rails = rails(1);
    let options = options().linger(Duration::ZERO);
    let (mut near, mut far, _listener, network) = memory_pair(&rails, &options, Duration::ZERO).await;
    let payload = Bytes::from(pattern(64 << 10));
    let header = DataHeader::of(0, std::slice::from_ref(&payload), false);
    network.flood_first([&Frame::Data(header).encode()[..], &payload].concat().into());
    near.read_exact(&mut vec![0; payload.len()]).await.unwrap();
    near.abort();
    // That the stream was given up, or that more has arrived than was sent.
    timeout(PATIENCE, far.read_u8()).await.expect("the peer is told").unwrap_err();
    timeout(PATIENCE, far.close()).await.expect("its lane is let go").unwrap_err();
}

/// The lane takes the hello and the proof, and not the confirmation.
#[tokio::test]
async fn a_lane_that_takes_no_confirmation_holds_no_connect_up() {
    let rails = rails(1);
    let brief = options().handshake_timeout(Duration::from_millis(200));
    let (mut listener, remotes) = listener(&rails, &brief).await;
    let network = MemoryNetwork::taking(&remotes, listener.entrance(), Duration::ZERO, Some(72 + 40));
    let brief = brief.connector(network);
    let connect = MultiRailStream::connect(&rails, &remotes, &brief);
    let mut near = timeout(PATIENCE, connect).await.expect("it does not hang").expect("the listener has accepted it");
    timeout(PATIENCE, near.read_u8()).await.expect("it does not hang").expect_err("the lane is lost");
    let orphan = timeout(Duration::from_millis(500), listener.accept()).await;
    assert!(orphan.is_err(), "nobody has confirmed it: {orphan:?}");
}

#[tokio::test]
async fn a_listener_that_is_gone_or_has_no_such_rail_takes_no_lane_in() {
    let rails = rails(1);
    let (listener, remotes) = listener(&rails, &options()).await;
    let entrance = listener.entrance();
    let network = MemoryNetwork::new(&remotes, entrance.clone(), Duration::ZERO);
    assert_eq!(entrance.admit(RailId(7), Arc::new(network.end())).unwrap_err(), AdmitError::NoSuchRail(RailId(7)));
    drop(listener);
    // The listening tasks end when they are polled next.
    while entrance.admit(RailId(0), Arc::new(network.end())).is_ok() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(entrance.admit(RailId(0), Arc::new(network.end())).unwrap_err(), AdmitError::Closed);
}
