//! Connections that share a rate.

use crate::{PATIENCE, anywhere};
use bytes::Bytes;
use rails_celeritas::{CeleritasOptions, Connection, SharedRate};
use rails_topo::{Bandwidth, DataSize};
use std::num::NonZeroU32;
use tokio::time::timeout;

/// A connection with a part of the rate, and its peer, which takes as much without a caller.
async fn part(rate: &SharedRate, weight: u32, window: u64) -> (Connection, Connection) {
    let listener = CeleritasOptions::fixed(Bandwidth::mbps(100)).window(DataSize::bytes(window)).listen(anywhere());
    let listener = listener.unwrap();
    let options = CeleritasOptions::shared(rate, NonZeroU32::new(weight).unwrap());
    let (near, far) = tokio::join!(options.connect(listener.local_addr()), listener.accept());
    (near.unwrap(), far.unwrap())
}

/// A connection with a millionth of 80 Mbit/s, at which the first segment would leave after
/// minutes.
async fn sends_a_message(rate: &SharedRate, meanwhile: impl AsyncFnOnce()) {
    let (near, far) = part(rate, 1, 16 << 20).await;
    let sending = near.try_send(vec![Bytes::from(vec![7; 100_000])]).unwrap();
    // The driver waits by then.
    while near.stats().rate > Bandwidth::mbps(1) {
        tokio::task::yield_now().await;
    }
    meanwhile().await;
    let outcome = timeout(PATIENCE, sending).await.expect("its driver learns of the rate");
    assert_eq!(outcome, Ok(()));
    drop(far);
}

#[tokio::test]
async fn part_of_one_that_ends_goes_to_the_others() {
    let rate = SharedRate::new(Bandwidth::mbps(80)).unwrap();
    let (near, _far) = part(&rate, 1_000_000, 16 << 20).await;
    let heavy = near.try_send(vec![Bytes::from(vec![7; 1 << 30])]).unwrap();
    sends_a_message(&rate, async || heavy.give_up()).await;
}

#[tokio::test]
async fn part_of_one_that_is_dropped_goes_to_the_others() {
    let rate = SharedRate::new(Bandwidth::mbps(80)).unwrap();
    let (near, _far) = part(&rate, 1_000_000, 16 << 20).await;
    let _heavy = near.try_send(vec![Bytes::from(vec![7; 1 << 30])]).unwrap();
    sends_a_message(&rate, async || drop(near)).await;
}

#[tokio::test]
async fn blocked_connection_has_no_part() {
    let rate = SharedRate::new(Bandwidth::mbps(80)).unwrap();
    let (near, _far) = part(&rate, 1_000_000, 1 << 20).await;
    let _blocked = near.try_send(vec![Bytes::from(vec![7; 1 << 19])]).unwrap();
    let _waiting: Vec<_> = (0..8).map(|_| near.try_send(vec![Bytes::from(vec![7; 1 << 19])]).unwrap()).collect();
    sends_a_message(&rate, async || {}).await;
}

#[tokio::test]
async fn higher_rate_is_used_at_once() {
    let rate = SharedRate::new(Bandwidth::bits_per_second(80)).unwrap();
    sends_a_message(&rate, async || rate.set(Bandwidth::mbps(80)).unwrap()).await;
}
