//! Lanes that come back, are added and are removed.

use crate::{
    loopback::{listener, rails},
    util::{Relay, all_joined, moved, moved_while, options, pattern, relayed_pair_by},
};
use rails_multirail::{AddLaneError, EventKind, MultiRailStream, RailId, StreamEvent};
use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::{broadcast, watch},
    time::{sleep, timeout},
};

const PATIENCE: Duration = Duration::from_secs(30);

/// Waits for an event.
async fn wait_for(events: &mut broadcast::Receiver<StreamEvent>, is: impl Fn(&StreamEvent) -> bool) -> StreamEvent {
    let found = async {
        loop {
            let event = events.recv().await.expect("the stream is there");
            if is(&event) {
                return event;
            }
        }
    };
    timeout(PATIENCE, found).await.expect("it happens")
}

#[tokio::test]
async fn a_lane_that_was_cut_is_dialled_again_and_used() {
    let rails = rails(2);
    let (mut near, mut far, relays) = relayed_pair_by(&rails, &options(), true).await;
    while near.lanes_up() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut events = near.subscribe();
    near.write_all(b"before").await.unwrap();
    far.read_exact(&mut [0; 6]).await.unwrap();
    relays[0].cut();
    // On a busy machine the lane may have been silent before; then its successor comes first.
    let (mut has_ended, mut has_joined) = (false, false);
    while !(has_ended && has_joined) {
        let event = wait_for(&mut events, |event| event.lane == Some(0)).await;
        has_ended |= matches!(event.kind, EventKind::Ended { .. }) && event.error.is_some();
        has_joined |= event.kind == EventKind::Joined && event.rail == Some(RailId(0));
    }
    for end in moved(near, far, pattern(30 << 20)).await {
        let lane = end.lanes.iter().find(|lane| lane.lane == 0).unwrap();
        assert!(lane.joined >= 2 && lane.lost.is_none(), "{lane:?}");
        assert!(lane.bytes_sent + lane.bytes_received > 1 << 20, "{lane:?}");
        assert_eq!(end.lanes.len(), 2, "the lane keeps its number");
    }
}

#[tokio::test]
async fn a_stream_outlives_the_loss_of_every_lane() {
    let rails = rails(2);
    let options = options().outage_limit(PATIENCE);
    let (near, far, relays) = relayed_pair_by(&rails, &options, true).await;
    let mut events = far.subscribe();
    while far.lanes_up() < 2 {
        wait_for(&mut events, |event| event.kind == EventKind::Joined).await;
    }
    moved_while(near, far, pattern(40 << 20), || relays.iter().for_each(|relay| relay.cut())).await;
    // The relays cut both lanes. The stream has a moment without lanes unless the first comes back in
    // time.
    let mut cut = BTreeSet::new();
    while cut.len() < relays.len() {
        let is_lost = |event: &StreamEvent| matches!(event.kind, EventKind::Ended { .. }) && event.error.is_some();
        cut.insert(wait_for(&mut events, is_lost).await.lane);
    }
}

#[tokio::test]
async fn stream_that_the_peer_does_not_have_any_more() {
    let (near_rails, far_rails) = (rails(1), rails(1));
    let options = options().outage_limit(Duration::from_secs(60));
    let (listening, addresses) = listener(&far_rails, &options).await;
    let relay = Relay::start_lasting(addresses[0]).await;
    let mut near = MultiRailStream::connect(&near_rails, &[relay.address], &options).await.unwrap();
    let far = listening.accept().await.unwrap();
    // The frames of its end are lost with the connection.
    relay.cut();
    far.abort();
    let error = timeout(PATIENCE, near.read_u8()).await.expect("the stream fails before a minute").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn lanes_are_added_and_taken_out_while_bytes_flow() {
    let rails = rails(2);
    let (listening, addresses) = listener(&rails, &options()).await;
    let mut near = MultiRailStream::connect(&rails, &addresses, &options()).await.unwrap();
    let mut far = listening.accept().await.unwrap();
    let mut events = near.subscribe();
    assert_eq!(near.add_lane(RailId(7), addresses[0]), Err(AddLaneError::NoSuchRail(RailId(7))));
    assert_eq!(far.add_lane(RailId(0), addresses[0]), Err(AddLaneError::Accepted));
    let sent = pattern(8 << 20);
    for round in 0..4 {
        let added = near.add_lane(RailId(round % 2), addresses[round % 2]).unwrap();
        wait_for(&mut events, |event| event.lane == Some(added) && event.kind == EventKind::Joined).await;
        let (write, read) = (sent.clone(), sent.len());
        let mut got = vec![0; read];
        let (written, arrived) = tokio::join!(near.write_all(&write), far.read_exact(&mut got));
        written.unwrap();
        arrived.unwrap();
        assert!(got == sent);
        // In turn the oldest and the newest lane, at this end and at the other.
        let goes = if round % 2 == 0 { round as u16 / 2 } else { added };
        assert!(if round < 2 { near.remove_lane(goes) } else { far.remove_lane(goes) });
        let ended =
            wait_for(&mut events, |event| event.lane == Some(goes) && matches!(event.kind, EventKind::Ended { .. }));
        assert_eq!(ended.await.error, None);
        assert!(!near.remove_lane(goes));
    }
    assert_eq!(near.lanes_up(), 2);
    near.shutdown().await.unwrap();
    assert_eq!(far.read(&mut [0]).await.unwrap(), 0);
    let stats = near.close();
    far.close().await.unwrap();
    assert!(stats.await.unwrap().lanes.iter().all(|lane| lane.losses == 0));
}

#[tokio::test]
async fn an_outage_that_lasts_too_long_fails_the_stream() {
    let rails = rails(1);
    let options = options().outage_limit(Duration::from_millis(300));
    // The relays forward one connection only.
    let (mut near, mut far, relays) = relayed_pair_by(&rails, &options, false).await;
    near.write_all(b"delivered").await.unwrap();
    far.read_exact(&mut [0; 9]).await.unwrap();
    relays[0].cut();
    let error = timeout(PATIENCE, far.read_u8()).await.expect("the read does not hang").unwrap_err();
    assert!(error.to_string().contains("9 bytes received in order"), "{error}");
    assert!(timeout(PATIENCE, near.read_u8()).await.expect("the read does not hang").is_err());
    let kinds: Vec<EventKind> = far.events().iter().map(|event| event.kind).collect();
    assert!(matches!(kinds[..], [EventKind::Joined, EventKind::Ended { .. }, EventKind::Outage]), "{kinds:?}");
}

/// Forwards connections to a listener. Only the dialling end notices a cut: towards the listener,
/// connections stay open and carry no more bytes.
struct Door {
    address: SocketAddr,
    cut: watch::Sender<()>,
    /// The number of the next connections that get an answer of another protocol.
    garbage: Arc<AtomicUsize>,
    open: watch::Sender<bool>,
}

impl Door {
    async fn before(to: SocketAddr) -> Self {
        let listener = TcpListener::bind((to.ip(), 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let door =
            Self { address, cut: watch::Sender::new(()), garbage: Arc::default(), open: watch::Sender::new(true) };
        let (cut, garbage, mut open) = (door.cut.clone(), door.garbage.clone(), door.open.subscribe());
        tokio::spawn(async move {
            loop {
                open.wait_for(|open| *open).await.unwrap();
                let (mut near, _) = listener.accept().await.unwrap();
                if garbage.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok() {
                    let _ = near.write_all(b"HTTP/1.1 502 Bad Gateway\r\n\r\n").await;
                    continue;
                }
                let mut cut = cut.subscribe();
                tokio::spawn(async move {
                    let mut far = TcpStream::connect(to).await.unwrap();
                    tokio::select! {
                        _ = copy_bidirectional(&mut near, &mut far) => return,
                        _ = cut.changed() => drop(near),
                    }
                    sleep(Duration::from_secs(60)).await;
                });
            }
        });
        door
    }

    /// Starts one relay before each address, and gives the relays' addresses.
    async fn before_each(addresses: &[SocketAddr]) -> (Vec<Self>, Vec<SocketAddr>) {
        let mut doors = Vec::new();
        for address in addresses {
            doors.push(Self::before(*address).await);
        }
        let remotes = doors.iter().map(|door| door.address).collect();
        (doors, remotes)
    }
}

#[tokio::test]
async fn garbage_in_a_redial_ends_neither_lane_nor_stream() {
    let rails = rails(1);
    let options = options().outage_limit(Duration::from_secs(60));
    let (listening, addresses) = listener(&rails, &options).await;
    let (doors, remotes) = Door::before_each(&addresses).await;
    let mut near = MultiRailStream::connect(&rails, &remotes, &options).await.unwrap();
    let mut far = listening.accept().await.unwrap();
    for _ in 0..2 {
        doors[0].garbage.store(3, SeqCst);
        doors[0].cut.send_replace(());
        near.write_all(b"after the garbage").await.unwrap();
        timeout(PATIENCE, far.read_exact(&mut [0; 17])).await.expect("the lane is back").unwrap();
        assert_eq!(doors[0].garbage.load(SeqCst), 0);
    }
}

#[tokio::test]
async fn replaced_connection_ends_with_an_error() {
    let rails = rails(1);
    let options = options().outage_limit(Duration::from_secs(60));
    let (listening, addresses) = listener(&rails, &options).await;
    let (doors, remotes) = Door::before_each(&addresses).await;
    let _near = MultiRailStream::connect(&rails, &remotes, &options).await.unwrap();
    let far = listening.accept().await.unwrap();
    let mut events = far.subscribe();
    doors[0].cut.send_replace(());
    let ended = wait_for(&mut events, |event| matches!(event.kind, EventKind::Ended { .. })).await;
    assert_eq!(ended.error.as_deref(), Some("another connection has taken its place"));
    assert_eq!((far.lanes_up(), far.stats().lanes[0].losses), (1, 1));
}

#[tokio::test]
async fn sixty_four_lanes_come_back_after_a_one_sided_cut() {
    let rails = rails(2);
    let options = options().outage_limit(Duration::from_secs(60)).parallel(32).join_grace(PATIENCE);
    let (listening, addresses) = listener(&rails, &options).await;
    let (doors, remotes) = Door::before_each(&addresses).await;
    let mut near = MultiRailStream::connect(&rails, &remotes, &options).await.unwrap();
    let mut far = listening.accept().await.unwrap();
    assert_eq!((near.lanes_up(), far.lanes_up()), (64, 64));
    doors.iter().for_each(|door| door.cut.send_replace(()));
    near.write_all(b"after the cut").await.unwrap();
    timeout(PATIENCE, far.read_exact(&mut [0; 13])).await.expect("lanes are back").unwrap();
    let all = async {
        while near.stats().lanes.iter().any(|lane| lane.joined < 2) || near.lanes_up() < 64 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, all).await.expect("every lane is back under its number");
    assert_eq!(far.stats().lanes.len(), 64, "no lane has two records");
}

#[tokio::test]
async fn removed_lane_that_is_dialled_again() {
    let rails = rails(2);
    let (listening, addresses) = listener(&rails, &options()).await;
    let (doors, remotes) = Door::before_each(&addresses).await;
    let mut near = MultiRailStream::connect(&rails, &remotes, &options()).await.unwrap();
    let mut far = listening.accept().await.unwrap();
    all_joined(&near, &far).await;
    let mut events = near.subscribe();
    // The dialling end does not learn that the lane is removed, because the connection is cut.
    doors[0].open.send_replace(false);
    near.add_lane(RailId(0), remotes[1]).unwrap();
    wait_for(&mut events, |event| event.lane == Some(2) && event.kind == EventKind::Joined).await;
    doors[0].cut.send_replace(());
    wait_for(&mut events, |event| event.lane == Some(0) && matches!(event.kind, EventKind::Ended { .. })).await;
    assert!(far.remove_lane(0), "the lane is up at this end");
    doors[0].open.send_replace(true);
    wait_for(&mut events, |event| event.lane == Some(0) && event.kind == EventKind::Leaving).await;
    let ended =
        wait_for(&mut events, |event| event.lane == Some(0) && matches!(event.kind, EventKind::Ended { .. })).await;
    assert_eq!(ended.error, None);
    near.write_all(b"by the others").await.unwrap();
    far.read_exact(&mut [0; 13]).await.unwrap();
    assert_eq!(near.lanes_up(), 2);
}

/// The kernel of a process that was killed closes its connections, and refuses new ones. The end
/// that accepts sees only the former, which a middlebox does too.
#[tokio::test]
async fn a_peer_that_was_killed_is_not_waited_for() {
    let rails = rails(2);
    let options = options().outage_limit(Duration::from_secs(60));
    // The relays forward one connection only, and refuse the next.
    let (mut near, mut far, relays) = relayed_pair_by(&rails, &options, false).await;
    near.write_all(b"delivered").await.unwrap();
    far.read_exact(&mut [0; 9]).await.unwrap();
    relays.iter().for_each(|relay| relay.cut());
    let dialled = timeout(PATIENCE, near.read_u8()).await.expect("not for a minute").unwrap_err();
    assert_eq!(dialled.kind(), std::io::ErrorKind::ConnectionReset);
    assert!(timeout(Duration::from_millis(100), far.read_u8()).await.is_err(), "the lanes may come back");
}
