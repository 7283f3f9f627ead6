//! Streams and sessions at one listener.

use crate::{
    loopback::{listener, rails},
    util::{Ends, asked, echo, ends, in_time, options},
};
use rails_multirail::{Limits, ListenerClosed, MultiRailSession, MultiRailStream, OpenError, SessionError};
use std::{sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

#[tokio::test]
async fn a_stream_and_a_session_at_one_listener() {
    let rails = rails(2);
    let (listener, addresses) = listener(&rails, &options()).await;
    let session = in_time(MultiRailSession::connect(&rails, &addresses, &options())).await.unwrap();
    // A session is no stream.
    timeout(Duration::from_millis(50), listener.accept()).await.expect_err("no stream was opened");
    let mut near = in_time(MultiRailStream::connect(&rails, &addresses, &options())).await.unwrap();
    let mut far = in_time(listener.accept()).await.unwrap();
    assert_eq!(near.id(), far.id());
    in_time(near.write_all(b"stream")).await.unwrap();
    in_time(far.read_exact(&mut [0; 6])).await.unwrap();
    // A stream is no session.
    let far_session = in_time(listener.accept_session()).await.unwrap();
    assert_eq!(session.id(), far_session.id());
    let _second = in_time(MultiRailStream::connect(&rails, &addresses, &options())).await.unwrap();
    timeout(Duration::from_millis(50), listener.accept_session()).await.expect_err("no session was opened");
    echo(&far_session);
    assert_eq!(in_time(asked(&session, b"session")).await, b"session");
    assert!(session.peer_certificates().is_empty() && session.peer_name().is_none());
}

/// A session whose peer accepts streams alone is served once the peer accepts it.
#[tokio::test]
async fn a_session_waits_until_it_is_accepted() {
    let rails = rails(1);
    let (listener, addresses) = listener(&rails, &options()).await;
    let near = in_time(MultiRailSession::connect(&rails, &addresses, &options())).await.unwrap();
    let (mut send, mut receive) = in_time(near.open_bi()).await.unwrap();
    in_time(send.write_all(b"early")).await.unwrap();
    send.finish().unwrap();
    // Another task of the application accepts streams all the while.
    let listener = Arc::new(listener);
    let only_streams = tokio::spawn({
        let listener = listener.clone();
        async move { listener.accept().await.map(drop) }
    });
    timeout(Duration::from_millis(50), receive.read_chunk(9)).await.expect_err("nobody answers");
    let far = in_time(listener.accept_session()).await.unwrap();
    echo(&far);
    assert_eq!(in_time(receive.read_to_end(9)).await.unwrap(), b"early");
    assert!(!only_streams.is_finished());
    in_time(listener.close()).await;
    assert!(matches!(in_time(only_streams).await.unwrap(), Err(ListenerClosed::Closed)));
    assert!(matches!(in_time(listener.accept_session()).await, Err(ListenerClosed::Closed)));
    assert_eq!(in_time(asked(&near, b"an accepted session goes on")).await, b"an accepted session goes on");
}

#[tokio::test]
async fn sessions_count_as_streams_do() {
    let rails = rails(1);
    let theirs = options().limits(Limits::default().streams(2));
    let (listener, addresses) = listener(&rails, &theirs).await;
    let session = in_time(MultiRailSession::connect(&rails, &addresses, &options())).await.unwrap();
    let _stream = in_time(MultiRailStream::connect(&rails, &addresses, &options())).await.unwrap();
    let far = in_time(listener.accept_session()).await.unwrap();
    in_time(listener.accept()).await.unwrap().abort();
    let refused = in_time(MultiRailSession::connect(&rails, &addresses, &options())).await;
    // The aborted stream may have ended meanwhile.
    assert!(matches!(refused, Ok(_) | Err(OpenError::AllFailed { .. })), "{refused:?}");
    assert!(session.close_reason().is_none());
    drop(far);
}

/// Sessions that nobody accepts are refused once many of them wait, and streams are not.
#[tokio::test]
async fn sessions_that_nobody_accepts() {
    let rails = rails(1);
    let (listener, addresses) = listener(&rails, &options()).await;
    let impatient = options().connect_timeout(Duration::from_millis(500));
    let mut waiting = Vec::new();
    let refused = loop {
        match in_time(MultiRailSession::connect(&rails, &addresses, &impatient)).await {
            Ok(session) => waiting.push(session),
            Err(error) => break error,
        }
    };
    assert!(waiting.len() >= 64, "{refused}");
    let _near = in_time(MultiRailStream::connect(&rails, &addresses, &options())).await.unwrap();
    in_time(listener.accept()).await.unwrap();
    // Those that wait are told when the listener closes.
    in_time(listener.close()).await;
    let error = in_time(waiting[0].closed()).await;
    assert!(matches!(error, SessionError::Failed(_)), "{error:?}");
}

#[tokio::test]
async fn a_session_outlives_its_listener() {
    let Ends { near, far, _listener, _rails } = ends().await;
    drop(_listener);
    echo(&far);
    assert_eq!(in_time(asked(&near, b"still here")).await, b"still here");
}
