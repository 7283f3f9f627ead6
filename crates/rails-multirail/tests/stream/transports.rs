//! Streams over a transport other than TCP.

use crate::{
    loopback::{PATIENCE, listener, rails, secret},
    memory_lane::MemoryNetwork,
    util::{options, pattern},
};
use bytes::Bytes;
use rails_multirail::{
    AddLaneError, BindListenerError, EndpointError, EventKind, LaneAddress, LaneStats, ListenerClosed,
    MultiRailListener, MultiRailStream, NoTransport, OpenError, Rail, RailId, Rails, Scheme, Security, StreamOptions,
    StreamStats,
};
use rails_net::TransportStats;
use rails_proto::{
    stream_number::StreamNumber,
    wire::{DataHeader, Frame},
};
use std::{error::Error, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    runtime::Handle,
    time::timeout,
};

/// A listener over a network in memory, and its addresses.
async fn listening(rails: &Rails, options: &StreamOptions) -> (MultiRailListener, Vec<LaneAddress>) {
    let address =
        |rail: &Rail| format!("memory://{}:0", rail.planned().address.expect("loopback rails have addresses"));
    let addresses: Vec<String> = rails.iter().map(address).collect();
    let listener = MultiRailListener::bind(rails, addresses, options).await.expect("memory can be listened on");
    let addresses = listener.local_addrs().to_vec();
    (listener, addresses)
}

/// A stream's two ends over lanes through memory, and their listener, which accepts lanes that are
/// dialled again.
async fn memory_pair(
    rails: &Rails,
    options: &StreamOptions,
    delay: Duration,
) -> (MultiRailStream, MultiRailStream, MultiRailListener, MemoryNetwork) {
    let network = MemoryNetwork::new(delay);
    let options = options.clone().transport(network.clone());
    let (listener, remotes) = listening(rails, &options).await;
    let near = MultiRailStream::connect(rails, &remotes, &options).await.expect("memory is there");
    let far = listener.accept().await.expect("a stream was opened");
    (near, far, listener, network)
}

/// Moves bytes both ways, and shuts each direction down separately.
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
        // The other direction goes on after the end of this one.
        far.write_all(&answer).await.expect("it is open");
        far.close().await.expect("both are done")
    });
    near.write_all(&there[..2 << 20]).await.expect("it is open");
    midway(&near).await;
    near.write_all(&there[2 << 20..]).await.expect("it is open");
    near.shutdown().await.expect("the peer has everything");
    let mut got = Vec::new();
    near.read_to_end(&mut got).await.expect("the other direction");
    assert!(got == back, "other bytes came back");
    let ends = [near.close().await.expect("both are done"), other.await.expect("it ran")];
    for end in &ends {
        for lane in &end.lanes {
            // A figure that the transport does not know is `None`, not zero.
            assert_eq!(lane.transport, Some(TransportStats::default()), "{lane:?}");
            assert_eq!((lane.rtt, lane.bytes_retransmitted), (None, None), "{lane:?}");
        }
    }
    ends
}

#[tokio::test]
async fn stream_over_another_transport() {
    let rails = rails(2);
    let (near, far, _listener, network) = memory_pair(&rails, &options(), Duration::ZERO).await;
    assert_eq!(network.made(), 2);
    move_both_ways(near, far, async |_| {}).await;
}

#[tokio::test]
async fn encrypted_stream_over_another_transport() {
    let rails = rails(2);
    let security = Security::encrypted(secret());
    let (near, far, _listener, _network) = memory_pair(&rails, &StreamOptions::new(security), Duration::ZERO).await;
    move_both_ways(near, far, async |_| {}).await;
}

#[tokio::test]
async fn loss_of_a_lane_in_memory() {
    is_dialled_again(Duration::ZERO).await;
}

#[tokio::test]
async fn lane_loss_on_a_path_of_over_a_second() {
    is_dialled_again(Duration::from_millis(1200)).await;
}

/// Breaks one of two lanes, each of which takes that long to connect.
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
                // Reset, or closed by the peer, if the peer has noticed before.
                assert!(event.error.is_some());
                break;
            }
        }
        while near.lanes_up() < 2 {
            events.recv().await.expect("the stream lives");
        }
    })
    .await;
    assert_eq!(network.made(), 3, "the broken lane was dialled again");
    for end in [near, far] {
        assert_eq!(end.lanes.iter().map(|lane| lane.losses).sum::<u64>(), 1, "{end:?}");
        assert_eq!(end.lanes.iter().map(|lane| lane.joined).sum::<u64>(), 3, "{end:?}");
    }
}

/// Duplicates without end: the lane never waits for bytes, and still does its other work.
#[tokio::test]
async fn abort_on_a_flooded_lane() {
    let rails = rails(1);
    let options = options().linger(Duration::ZERO);
    let (mut near, mut far, _listener, network) = memory_pair(&rails, &options, Duration::ZERO).await;
    let payload = Bytes::from(pattern(64 << 10));
    let header = DataHeader::of(StreamNumber::FIRST, 0, std::slice::from_ref(&payload), false);
    network.flood_first([&Frame::Data(header).encode()[..], &payload].concat().into());
    near.read_exact(&mut vec![0; payload.len()]).await.unwrap();
    near.abort();
    // The error is that the stream was given up, or that more bytes arrived than were sent.
    timeout(PATIENCE, far.read_u8()).await.expect("the peer is told").unwrap_err();
    timeout(PATIENCE, far.close()).await.expect("its lane is let go").unwrap_err();
}

/// The lane takes the hello and the proof, and not the confirmation.
#[tokio::test]
async fn connect_over_a_lane_that_takes_no_confirmation() {
    let rails = rails(1);
    let brief = options().handshake_timeout(Duration::from_millis(200));
    let brief = brief.transport(MemoryNetwork::taking(Duration::ZERO, Some(88 + 40)));
    let (listener, remotes) = listening(&rails, &brief).await;
    let connect = MultiRailStream::connect(&rails, &remotes, &brief);
    let mut near = timeout(PATIENCE, connect).await.expect("it does not hang").expect("the listener has accepted it");
    timeout(PATIENCE, near.read_u8()).await.expect("it does not hang").expect_err("the lane is lost");
    let orphan = timeout(Duration::from_millis(500), listener.accept()).await;
    assert!(orphan.is_err(), "nobody has confirmed it: {orphan:?}");
}

/// Pairing, discovery and stream work as over TCP; only the address's scheme differs.
#[tokio::test]
async fn discovery_over_another_transport() {
    let rails = rails(2);
    let options = options().transport(MemoryNetwork::new(Duration::ZERO));
    let (listener, remotes) = listening(&rails, &options).await;
    let pairing = MultiRailStream::plan_lanes(&rails, remotes[1], &options).await.unwrap();
    assert_eq!(pairing.lanes().map(|(_, remote)| remote).collect::<Vec<_>>(), remotes);
    assert!(MultiRailStream::probe(&rails, &pairing, &options).await.unwrap().is_empty());
    let near = MultiRailStream::connect_paired(&rails, &pairing, &options).await.unwrap();
    let far = listener.accept().await.unwrap();
    assert_eq!(near.lanes_up(), 2);
    move_both_ways(near, far, async |_| {}).await;
}

/// One stream over TCP and memory at once: the layers above the transports see no difference.
#[tokio::test]
async fn stream_over_two_transports() {
    let rails = rails(2);
    let options = options().transport(MemoryNetwork::new(Duration::ZERO));
    let listener =
        MultiRailListener::bind(&rails, ["tcp://127.0.0.1:0", "memory://127.0.0.2:0"], &options).await.unwrap();
    let mut near = MultiRailStream::connect(&rails, listener.local_addrs(), &options).await.unwrap();
    let mut far = listener.accept().await.unwrap();
    assert_eq!(near.lanes_up(), 2);
    let bytes = pattern(8 << 20);
    let expected = bytes.clone();
    let reading = tokio::spawn(async move {
        let mut got = Vec::new();
        far.read_to_end(&mut got).await.unwrap();
        assert!(got.chunks(expected.len()).all(|chunk| chunk == expected), "other bytes arrived");
        far.close().await.unwrap()
    });
    // On a busy machine the thread of a lane may come too late for its share, and gets one of the next
    // bytes.
    timeout(PATIENCE, async {
        while near.stats().lanes.iter().any(|lane| lane.bytes_sent == 0) {
            near.write_all(&bytes).await.unwrap();
        }
    })
    .await
    .expect("either lane carries bytes");
    let sent = near.close().await.unwrap();
    reading.await.unwrap();
    let is_tcp = |lane: &LaneStats| lane.transport.as_ref().is_some_and(|stats| stats.details.is_some());
    assert_eq!(sent.lanes.iter().map(is_tcp).collect::<Vec<_>>(), [true, false]);
    assert!(sent.lanes.iter().all(|lane| lane.bytes_sent > 0), "{sent:?}");
}

#[tokio::test]
async fn refusal_of_an_address_without_transport() {
    let rails = rails(1);
    let unknown = NoTransport(Scheme::new("memory").unwrap());
    let address = "memory://127.0.0.1:0";
    let bound = MultiRailListener::bind(&rails, address, &options()).await.unwrap_err();
    assert!(
        matches!(bound, BindListenerError::Endpoint(EndpointError::NoTransport(scheme)) if scheme == unknown),
        "{bound}"
    );
    let opened = MultiRailStream::connect(&rails, address, &options()).await.unwrap_err();
    assert!(matches!(opened, OpenError::Endpoint(EndpointError::NoTransport(scheme)) if scheme == unknown), "{opened}");
    let asked = MultiRailStream::plan_lanes(&rails, address, &options()).await.unwrap_err();
    let said = "the peer did not name its lanes:\n  memory://127.0.0.1:0: no transport carries lanes to memory:// addresses here";
    assert_eq!(asked.to_string(), said);
    let (_listener, remotes) = listener(&rails, &options()).await;
    let mut near = MultiRailStream::connect(&rails, &remotes, &options()).await.unwrap();
    let added = near.add_lane(RailId(0), address.parse::<LaneAddress>().unwrap());
    assert_eq!(added, Err(AddLaneError::NoTransport(unknown)));
}

#[tokio::test]
async fn listener_without_acceptors_says_why_each_time() {
    let rails = rails(2);
    let (near, far, listener, network) = memory_pair(&rails, &options(), Duration::ZERO).await;
    let waiting = tokio::spawn(async move { (listener.accept().await, listener) });
    network.cut_off();
    let (ended, listener) = timeout(PATIENCE, waiting).await.expect("it is woken").unwrap();
    for ended in [ended, listener.accept().await] {
        let error = ended.expect_err("no lane can come");
        let cause = error.source().expect("the acceptor's error").to_string();
        assert!(matches!(error, ListenerClosed::Accept(_)) && cause.starts_with("no more lanes come to"), "{cause}");
    }
    listener.close().await;
    assert!(matches!(listener.accept().await, Err(ListenerClosed::Closed)));
    move_both_ways(near, far, async |_| ()).await;
}

/// A lane that has ended keeps no connection open, although its stream goes on.
#[tokio::test]
async fn connection_of_an_ended_lane() {
    let rails = rails(2);
    let (near, far, _listener, network) = memory_pair(&rails, &options(), Duration::ZERO).await;
    assert_eq!(network.open(), 4, "two lanes with two ends");
    // An end that knows one lane alone fails when that leaves.
    let joined = async {
        while (near.lanes_up(), far.lanes_up()) != (2, 2) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, joined).await.expect("both lanes join");
    assert!(near.remove_lane(1));
    let closed = async {
        while network.open() > 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, closed).await.expect("both ends of the lane are dropped");
    assert_eq!((near.lanes_up(), far.lanes_up()), (1, 1));
}

/// A transport that panics as its lane ends costs the lane's figures alone.
#[tokio::test]
async fn transport_that_panics_as_its_lane_ends() {
    let rails = rails(1);
    let (near, _far, _listener, network) = memory_pair(&rails, &options(), Duration::ZERO).await;
    let mut events = near.subscribe();
    network.panic_for_figures();
    network.break_first();
    let ended = async {
        while !matches!(events.recv().await.expect("the lane's end is told").kind, EventKind::Ended { .. }) {}
    };
    timeout(PATIENCE, ended).await.expect("the stream hears of it");
}

/// The lane of a dropped stream leaves the reader's runtime. Where it cannot, that runtime still
/// reports.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lane_that_cannot_go_home_delivers() {
    let rails = rails(1);
    let options = options().application_runtime(&Handle::current());
    let (mut near, mut far, _listener, network) = memory_pair(&rails, &options, Duration::ZERO).await;
    let ask = async {
        let mut message = [0; 8];
        for _ in 0..100 {
            near.write_all(&message).await.expect("the stream holds");
            near.read_exact(&mut message).await.expect("the stream holds");
        }
    };
    let answer = async {
        let mut message = [0; 8];
        for _ in 0..100 {
            far.read_exact(&mut message).await.expect("the stream holds");
            far.write_all(&message).await.expect("the stream holds");
        }
    };
    timeout(PATIENCE, async { tokio::join!(ask, answer) }).await.expect("each message arrives");
    assert!(network.registrations() >= 2, "the test's runtime reports small arrivals");
    let registrations = network.registrations();
    network.refuse_registrations();
    let mut events = near.subscribe();
    let last = pattern(1 << 20);
    near.write_all(&last).await.expect("the stream holds");
    drop(near);
    let mut got = Vec::new();
    let read = timeout(PATIENCE, far.read_to_end(&mut got)).await;
    read.expect("the peer hears of the end").expect("the stream holds");
    assert!(got == last, "the written bytes arrive");
    assert!(network.registrations() > registrations, "the lane was called home");
    drop(far);
    let ended = async {
        loop {
            let event = events.recv().await.expect("the lane's end is told");
            if matches!(event.kind, EventKind::Ended { .. }) {
                return event.error;
            }
        }
    };
    let error = timeout(PATIENCE, ended).await.expect("the lane ends with the stream");
    assert_eq!(error, None);
}
