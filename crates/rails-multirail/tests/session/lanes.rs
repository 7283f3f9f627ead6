//! Lanes come and go while streams are open.

use crate::{
    loopback::{listener, rails},
    util::{Ends, asked, echo, ends, in_time, options, pattern, until},
};
use rails_multirail::{AddLaneError, EventKind, MultiRailSession, RailId};
use std::{net::SocketAddr, sync::Arc};
use tokio::{
    io::{AsyncReadExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::{Barrier, Notify},
    task::JoinSet,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lane_is_removed_with_streams_open() {
    let Ends { near, far, _listener, _rails } = ends().await;
    echo(&far);
    assert_eq!(near.lanes_up(), 2);
    let mut asking = JoinSet::new();
    for seed in 0..8 {
        let near = near.clone();
        asking.spawn(async move {
            let bytes = pattern(4 << 20, seed);
            assert!(asked(&near, &bytes).await == bytes, "other bytes came back");
        });
    }
    until(|| near.stats().bytes_read > 4 << 20).await;
    assert!(near.remove_lane(0), "it is up");
    in_time(asking.join_all()).await;
    until(|| near.lanes_up() == 1 && far.lanes_up() == 1).await;
    assert!(near.events().iter().any(|event| matches!(event.kind, EventKind::Ended { .. })), "{:?}", near.events());
    // The session goes on, and the removed lane's place is taken by another.
    assert_eq!(in_time(asked(&near, b"on")).await, b"on");
    let remote = near.stats().lanes[0].remote;
    assert_eq!(near.add_lane(RailId(0), remote).unwrap(), 2);
    until(|| near.lanes_up() == 2 && far.lanes_up() == 2).await;
    assert_eq!(far.add_lane(RailId(0), remote), Err(AddLaneError::Accepted));
    assert!(near.add_lane(RailId(7), remote).is_err());
    assert!(near.failed_lanes().is_empty());
    assert!(near.rtt().is_some(), "TCP measures it");
    assert_eq!(in_time(asked(&near, b"and on")).await, b"and on");
}

/// Connections are cut again and again, also both at a time, and come back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lanes_that_are_cut_lose_nothing() {
    let rails = rails(2);
    let (listener, addresses) = listener(&rails, &options()).await;
    let cut = Arc::new([Notify::new(), Notify::new()]);
    let mut relays = Vec::new();
    for (index, address) in addresses.into_iter().enumerate() {
        relays.push(relay(address, cut.clone(), index).await);
    }
    let near = in_time(MultiRailSession::connect(&rails, &relays, &options())).await.unwrap();
    let far = in_time(listener.accept_session()).await.unwrap();
    echo(&far);
    let mut asking = JoinSet::new();
    for seed in 0..20 {
        let near = near.clone();
        asking.spawn(async move {
            for round in 0..4 {
                let bytes = pattern(300_000, 4 * seed + round);
                assert!(asked(&near, &bytes).await == bytes, "other bytes came back");
            }
        });
    }
    for lanes in [&[0][..], &[1], &[0], &[0, 1]] {
        let read = near.stats().bytes_read;
        until(|| near.stats().bytes_read > read + (1 << 20)).await;
        lanes.iter().for_each(|lane: &usize| cut[*lane].notify_waiters());
    }
    in_time(asking.join_all()).await;
    assert!(near.stats().lanes.iter().map(|lane| lane.losses).sum::<u64>() > 0);
    assert_eq!(near.stats().bytes_read, 24_000_000);
}

/// A thousand streams are open, half of which the peer opened, when one of the lanes is cut: each
/// goes on where it was. At the end, the ends count the same bytes, and the windows are empty.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lane_is_lost_under_a_thousand_streams() {
    let options = options().max_concurrent_bi_streams(1_000);
    let rails = rails(2);
    let (listener, addresses) = listener(&rails, &options).await;
    let cut = Arc::new([Notify::new(), Notify::new()]);
    let mut relays = Vec::new();
    for (index, address) in addresses.into_iter().enumerate() {
        relays.push(relay(address, cut.clone(), index).await);
    }
    let near = in_time(MultiRailSession::connect(&rails, &relays, &options)).await.unwrap();
    let far = in_time(listener.accept_session()).await.unwrap();
    until(|| near.lanes_up() == 2 && far.lanes_up() == 2).await;
    let mut open = Vec::new();
    for (ours, theirs) in [(&near, &far), (&far, &near)] {
        echo(theirs);
        for _ in 0..500 {
            open.push(in_time(ours.open_bi()).await.unwrap());
        }
    }
    let (halfway, lost) = (Arc::new(Barrier::new(1_001)), Arc::new(Barrier::new(1_001)));
    let mut talking = JoinSet::new();
    for (index, (mut send, mut receive)) in open.into_iter().enumerate() {
        let (halfway, lost) = (halfway.clone(), lost.clone());
        talking.spawn(async move {
            let bytes = pattern(4_000 + 7 * index, index as u64);
            let (before, after) = bytes.split_at(bytes.len() / 2);
            let mut answer = vec![0; before.len()];
            // The answer is on its way when the lane is cut.
            send.write_all(before).await.unwrap();
            halfway.wait().await;
            receive.read_exact(&mut answer).await.unwrap();
            assert!(answer == before, "other bytes came back before");
            lost.wait().await;
            send.write_all(after).await.unwrap();
            send.finish().unwrap();
            assert!(receive.read_to_end(usize::MAX).await.unwrap() == after, "other bytes came back after");
            bytes.len() as u64
        });
    }
    in_time(halfway.wait()).await;
    cut[0].notify_waiters();
    let losses = || near.stats().lanes.iter().map(|lane| lane.losses).sum::<u64>();
    until(|| losses() > 0).await;
    in_time(lost.wait()).await;
    let bytes = in_time(talking.join_all()).await.into_iter().sum::<u64>();
    // An end hears of all that its peer has read but for less than a quarter of the window.
    let is_told = |end: &MultiRailSession| {
        let window = end.stats().send_window;
        window.used_bytes <= window.size_bytes / 4
    };
    until(|| is_told(&near) && is_told(&far)).await;
    for end in [&near, &far] {
        let stats = end.stats();
        assert_eq!((stats.bytes_written, stats.bytes_read), (bytes, bytes));
        assert_eq!(stats.receive_window.used_bytes, 0);
        assert!(end.close_reason().is_none());
    }
    // The lane comes back, and the places of the streams are free again.
    until(|| near.lanes_up() == 2 && far.lanes_up() == 2).await;
    for _ in 0..500 {
        assert_eq!(in_time(asked(&near, b"on")).await, b"on");
    }
    near.close(0, b"");
    in_time(far.closed()).await;
}

/// Forwards connections to that address, until they are cut.
async fn relay(to: SocketAddr, cut: Arc<[Notify; 2]>, index: usize) -> SocketAddr {
    let listener = TcpListener::bind((to.ip(), 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let cut = cut.clone();
            tokio::spawn(async move {
                let Ok(mut far) = TcpStream::connect(to).await else { return };
                tokio::select! {
                    _ = copy_bidirectional(&mut near, &mut far) => {}
                    () = cut[index].notified() => {}
                }
            });
        }
    });
    address
}
