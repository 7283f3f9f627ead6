//! Rails whose threads are blocked for a while.

use crate::{
    loopback::{listener, rails},
    util::options,
};
use rails_multirail::{MultiRailStream, RailId};
use std::{
    sync::mpsc,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::sleep,
};

#[tokio::test]
async fn a_blocked_rail_does_not_delay_an_answer() {
    // Each rail at each end, because the test does not know which lane carries the bytes.
    let took = tokio::join!(answer(0, 0), answer(0, 1), answer(1, 0), answer(1, 1));
    println!("{took:?}");
    for took in [took.0, took.1, took.2, took.3] {
        assert!(took < BLOCKED / 2, "{took:?}");
    }
}

/// The time of a question and its answer over two rails, one of which is blocked at one end.
async fn answer(end: usize, rail: usize) -> Duration {
    let rails = [rails(2), rails(2)];
    let options = options().outage_limit(10 * BLOCKED);
    let (listening, addresses) = listener(&rails[1], &options).await;
    let mut near = MultiRailStream::connect(&rails[0], &addresses, &options).await.expect("it listens");
    let mut far = listening.accept().await.expect("a stream was opened");
    while near.lanes_up() < 2 || far.lanes_up() < 2 {
        sleep(Duration::from_millis(1)).await;
    }
    let (free, blocked) = mpsc::channel::<()>();
    let (began, begun) = tokio::sync::oneshot::channel();
    drop(rails[end][RailId(rail)].runtime().spawn(async move {
        let _ = began.send(());
        // Blocks until the test ends it, or for `BLOCKED`.
        let _ = blocked.recv_timeout(BLOCKED);
    }));
    begun.await.expect("the rail runs");
    let since = Instant::now();
    near.write_all(b"?").await.expect("a lane is whole");
    assert_eq!(far.read_u8().await.expect("a lane is whole"), b'?');
    far.write_all(b"!").await.expect("a lane is whole");
    assert_eq!(near.read_u8().await.expect("a lane is whole"), b'!');
    let took = since.elapsed();
    drop(free);
    took
}

/// The longest time that a rail is blocked.
const BLOCKED: Duration = Duration::from_secs(4);
