//! Lanes that are cut or damaged, and peers that vanish.

use crate::{
    loopback::{PATIENCE, rails},
    util::{failure, moved, moved_while, options, pair, pattern, relayed_pair},
};
use rails_multirail::Failure;
use std::{io, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::{sleep, timeout},
};

#[tokio::test]
async fn a_lane_cut_in_mid_chunk_loses_and_doubles_nothing() {
    let rails = rails(2);
    let (near, far, relays) = relayed_pair(&rails, &options()).await;
    let [sent, received] = moved_while(near, far, pattern(40 << 20), || relays[0].cut()).await;
    assert_eq!(sent.bytes_written, 40 << 20);
    let lost = received.lanes.iter().filter(|lane| lane.lost.is_some()).count();
    assert_eq!(lost, 1, "{received:?}");
}

#[tokio::test]
async fn a_damaged_chunk_costs_its_lane_and_no_byte() {
    let rails = rails(2);
    let (near, far, relays) = relayed_pair(&rails, &options()).await;
    relays[1].flip_a_bit();
    let [_, received] = moved(near, far, pattern(20 << 20)).await;
    let lost: Vec<&String> = received.lanes.iter().filter_map(|lane| lane.lost.as_ref()).collect();
    assert!(lost.len() == 1 && lost[0].contains("checksum"), "{lost:?}");
}

#[tokio::test]
async fn when_the_last_lane_is_cut_both_ends_say_so() {
    let rails = rails(2);
    let (mut near, mut far, relays) = relayed_pair(&rails, &options()).await;
    near.write_all(b"the last words").await.unwrap();
    let mut got = [0; 14];
    far.read_exact(&mut got).await.unwrap();
    relays.iter().for_each(|relay| relay.cut());
    let error = timeout(PATIENCE, far.read_u8()).await.expect("the read does not hang").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    assert!(matches!(failure(&error), Failure::LanesLost { delivered: 14, .. }), "{error}");
    assert!(error.to_string().contains("closed it before the stream was done"), "{error}");
    let error = timeout(PATIENCE, near.read_u8()).await.expect("the read does not hang").unwrap_err();
    assert!(matches!(failure(&error), Failure::LanesLost { .. }), "{error}");
    assert!(near.write_all(b"x").await.is_err());
}

#[tokio::test]
async fn delivery_after_shutdown_and_drop() {
    let rails = rails(2);
    let (mut near, mut far) = pair(&rails, &options()).await;
    let sent = pattern(3 << 20);
    near.write_all(&sent).await.unwrap();
    far.shutdown().await.unwrap();
    near.shutdown().await.unwrap();
    drop(near);
    sleep(Duration::from_millis(50)).await;
    let mut got = Vec::new();
    far.read_to_end(&mut got).await.unwrap();
    assert!(got == sent);
}
