//! Waiting for a reset.

use crate::util::{Ends, ends, in_time, pattern};
use rails_multirail::SessionError;
use std::time::Duration;
use tokio::time::timeout;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_is_waited_for() {
    let Ends { near, far, _listener, _rails } = ends().await;
    let mut send = in_time(near.open_uni()).await.unwrap();
    in_time(send.write_all(b"some")).await.unwrap();
    let mut receive = in_time(far.accept_uni()).await.unwrap();
    timeout(Duration::from_millis(50), receive.received_reset()).await.expect_err("it is open");
    // What has arrived is not touched, and more of it does not end the wait.
    assert_eq!(in_time(receive.read_chunk(2)).await.unwrap().unwrap(), &b"so"[..]);
    let resetting = tokio::spawn(async move {
        send.write_all(b"more").await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        send.reset(77).unwrap();
        send
    });
    assert_eq!(in_time(receive.received_reset()).await.unwrap(), Some(77));
    assert_eq!(in_time(receive.received_reset()).await.unwrap(), Some(77), "it is known from here on");
    in_time(resetting).await.unwrap();
}

#[tokio::test]
async fn streams_that_cannot_be_reset_any_more() {
    let Ends { near, far, _listener, _rails } = ends().await;
    let mut send = in_time(near.open_uni()).await.unwrap();
    in_time(send.write_all(b"all")).await.unwrap();
    send.finish().unwrap();
    let mut receive = in_time(far.accept_uni()).await.unwrap();
    assert_eq!(in_time(receive.received_reset()).await.unwrap(), None, "everything has arrived");
    assert_eq!(in_time(receive.read_to_end(3)).await.unwrap(), b"all");
    assert_eq!(in_time(receive.received_reset()).await.unwrap(), None);

    let mut send = in_time(near.open_uni()).await.unwrap();
    in_time(send.write_all(b"some")).await.unwrap();
    let mut receive = in_time(far.accept_uni()).await.unwrap();
    receive.stop(1).unwrap();
    assert_eq!(in_time(receive.received_reset()).await.unwrap(), None, "this end has stopped it");

    let mut send = in_time(near.open_uni()).await.unwrap();
    in_time(send.write_all(&pattern(10, 1))).await.unwrap();
    let mut receive = in_time(far.accept_uni()).await.unwrap();
    near.close(5, b"");
    let error = in_time(receive.received_reset()).await.unwrap_err();
    assert!(matches!(error, SessionError::ClosedByPeer { code: 5, .. }), "{error:?}");
}
