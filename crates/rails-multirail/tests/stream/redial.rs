//! Lanes that come back, are added and are taken out.

use crate::util::{Relay, listener, moved, moved_while, options, pattern, rails, relayed_pair_by};
use rails_multirail::{AddLaneError, MultiRailStream, RailId, StreamEvent, proto::connection::EventKind};
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::broadcast,
    time::timeout,
};

const PATIENCE: Duration = Duration::from_secs(10);

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
    let mut events = near.subscribe();
    near.write_all(b"before").await.unwrap();
    far.read_exact(&mut [0; 6]).await.unwrap();
    relays[0].cut();
    let ended = wait_for(&mut events, |event| matches!(event.kind, EventKind::Ended { .. })).await;
    assert!(ended.lane == Some(0) && ended.error.is_some(), "{ended:?}");
    let joined = wait_for(&mut events, |event| event.kind == EventKind::Joined).await;
    assert_eq!((joined.lane, joined.rail), (Some(0), Some(RailId(0))));
    for end in moved(near, far, pattern(30 << 20)).await {
        let lane = end.lanes.iter().find(|lane| lane.lane == 0).unwrap();
        assert_eq!((lane.joined, lane.losses, &lane.lost), (2, 1, &None), "{lane:?}");
        assert!(lane.bytes_sent + lane.bytes_received > 1 << 20, "{lane:?}");
        assert_eq!(end.lanes.len(), 2, "it is the same lane");
    }
}

#[tokio::test]
async fn a_stream_outlives_the_loss_of_every_lane() {
    let rails = rails(2);
    let options = options().outage_limit(PATIENCE);
    let (near, far, relays) = relayed_pair_by(&rails, &options, true).await;
    let mut events = far.subscribe();
    moved_while(near, far, pattern(40 << 20), || relays.iter().for_each(|relay| relay.cut())).await;
    wait_for(&mut events, |event| event.kind == EventKind::Outage).await;
    wait_for(&mut events, |event| matches!(event.kind, EventKind::Resumed { .. })).await;
}

#[tokio::test]
async fn a_stream_that_the_other_end_does_not_have_any_more_is_not_waited_for() {
    let (near_rails, far_rails) = (rails(1), rails(1));
    let options = options().outage_limit(Duration::from_secs(60));
    let (mut listening, addresses) = listener(&far_rails, &options).await;
    let relay = Relay::start_lasting(addresses[0]).await;
    let mut near = MultiRailStream::connect(&near_rails, &[relay.address], &options).await.unwrap();
    let far = listening.accept().await.unwrap();
    // What it says at its end is lost with the connection.
    relay.cut();
    drop(far);
    let error = timeout(PATIENCE, near.read_u8()).await.expect("it does not wait for a minute").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn lanes_are_added_and_taken_out_while_bytes_flow() {
    let rails = rails(2);
    let (mut listening, addresses) = listener(&rails, &options()).await;
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
        // By turns the oldest and the newest, at this end and at the other.
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
    // Its relays hand on one connection only.
    let (mut near, mut far, relays) = relayed_pair_by(&rails, &options, false).await;
    near.write_all(b"delivered").await.unwrap();
    far.read_exact(&mut [0; 9]).await.unwrap();
    relays[0].cut();
    let error = timeout(PATIENCE, far.read_u8()).await.expect("it does not hang").unwrap_err();
    assert!(error.to_string().contains("9 bytes received in order"), "{error}");
    assert!(timeout(PATIENCE, near.read_u8()).await.expect("it does not hang").is_err());
    let kinds: Vec<EventKind> = far.events().iter().map(|event| event.kind).collect();
    assert!(matches!(kinds[..], [EventKind::Joined, EventKind::Ended { .. }, EventKind::Outage]), "{kinds:?}");
}
