//! How streams and sessions end.

use crate::{
    loopback::{listener, rails},
    util::{Ends, ends, in_time, options, pattern},
};
use rails_multirail::{MultiRailSession, ReadError, ReadToEndError, SessionError, WriteError};
use std::{io::ErrorKind, time::Duration};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn a_reset_tells_its_code() {
    let Ends { near, far, _listener, _rails } = ends().await;
    let (mut send, _receive) = in_time(near.open_bi()).await.unwrap();
    in_time(send.write_all(b"lost?")).await.unwrap();
    let (_reply, mut receive) = in_time(far.accept_bi()).await.unwrap();
    send.reset(1 << 60).unwrap();
    let error = loop {
        match in_time(receive.read_chunk(usize::MAX)).await {
            Ok(bytes) => assert_eq!(bytes.unwrap(), &b"lost?"[..]),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ReadError::Reset(code) if code == 1 << 60), "{error:?}");
    assert_eq!(std::io::Error::from(error).kind(), ErrorKind::ConnectionReset);
    assert!(matches!(in_time(send.write(b"more")).await, Err(WriteError::Closed)));
    assert!(send.finish().is_err() && send.reset(0).is_err());
    assert!(matches!(in_time(send.stopped()).await, Ok(None)), "the peer knows of the reset");
    // Also of a stream that has sent nothing, and at the end that accepted the session.
    let mut send = in_time(far.open_uni()).await.unwrap();
    send.reset(0).unwrap();
    let mut receive = in_time(near.accept_uni()).await.unwrap();
    assert!(matches!(in_time(receive.read(&mut [0; 5])).await, Err(ReadError::Reset(0))));
}

#[tokio::test]
async fn a_stop_tells_its_code() {
    let Ends { near, far, _listener, _rails } = ends().await;
    for (ours, theirs) in [(&near, &far), (&far, &near)] {
        let mut send = in_time(ours.open_uni()).await.unwrap();
        in_time(send.write_all(b"unread")).await.unwrap();
        let mut receive = in_time(theirs.accept_uni()).await.unwrap();
        receive.stop(77).unwrap();
        assert!(receive.stop(78).is_err());
        assert!(matches!(in_time(receive.read_chunk(1)).await, Err(ReadError::Closed)));
        assert!(matches!(in_time(send.stopped()).await, Ok(Some(77))));
        let error = in_time(send.write(b"more")).await.unwrap_err();
        assert!(matches!(error, WriteError::Stopped(77)), "{error:?}");
        assert_eq!(std::io::Error::from(error).kind(), ErrorKind::BrokenPipe);
        send.finish().unwrap();
        let error = in_time(send.shutdown()).await.unwrap_err();
        assert_eq!(error.to_string(), "the peer stopped the stream with code 77");
    }
    // A writer that waits for room is woken.
    let mut send = in_time(near.open_uni()).await.unwrap();
    let writing = tokio::spawn(async move { send.write_all(&pattern(20 << 20, 1)).await });
    drop(in_time(far.accept_uni()).await.unwrap());
    assert!(matches!(in_time(writing).await.unwrap(), Err(WriteError::Stopped(0))));
    // The code is known after the session has ended.
    let mut send = in_time(near.open_uni()).await.unwrap();
    in_time(send.write_all(b"unread")).await.unwrap();
    in_time(far.accept_uni()).await.unwrap().stop(5).unwrap();
    while in_time(send.write(b"more")).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    near.close(0, b"");
    assert!(matches!(in_time(send.stopped()).await, Ok(Some(5))));
}

#[tokio::test]
async fn stopped_tells_when_the_peer_has_everything() {
    let Ends { near, far, _listener, _rails } = ends().await;
    let mut send = in_time(near.open_uni()).await.unwrap();
    in_time(send.write_all(b"all")).await.unwrap();
    let mut receive = in_time(far.accept_uni()).await.unwrap();
    let waits = tokio::time::timeout(Duration::from_millis(50), send.stopped()).await;
    assert!(waits.is_err(), "the stream is not finished");
    send.finish().unwrap();
    assert!(send.finish().is_err());
    assert!(matches!(in_time(send.stopped()).await, Ok(None)));
    assert_eq!(in_time(receive.read_to_end(3)).await.unwrap(), b"all");
    // What has arrived whole is not stopped.
    receive.stop(4).unwrap();
    assert!(matches!(in_time(send.stopped()).await, Ok(None)));
}

#[tokio::test]
async fn read_to_end_has_a_limit() {
    let Ends { near, far, _listener, _rails } = ends().await;
    let mut send = in_time(near.open_uni()).await.unwrap();
    in_time(send.write_all(b"longer")).await.unwrap();
    drop(send);
    let mut receive = in_time(far.accept_uni()).await.unwrap();
    let error = in_time(receive.read_to_end(5)).await.unwrap_err();
    assert!(matches!(error, ReadToEndError::TooLong { limit: 5 }), "{error:?}");
}

/// Every call that waits at either end learns of the code.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_close_reaches_everybody() {
    fn is_of_peer(error: &SessionError) -> bool {
        matches!(error, SessionError::ClosedByPeer { code: 9, reason } if reason == "good reasons")
    }
    let Ends { near, far, _listener, _rails } = ends().await;
    let (mut send, mut receive) = in_time(far.open_bi()).await.unwrap();
    let full = async move {
        let written = send.write_all(&pattern(20 << 20, 1)).await;
        (send, written)
    };
    let writing = tokio::spawn(full);
    let kept = in_time(near.accept_bi()).await.unwrap();
    let reading = tokio::spawn(async move { receive.read_chunk(1).await });
    let [bi, uni, closed, datagram] = [0, 1, 2, 3].map(|call| {
        let far = far.clone();
        tokio::spawn(async move {
            match call {
                0 => far.accept_bi().await.map(drop),
                1 => far.accept_uni().await.map(drop),
                2 => Err(far.closed().await),
                _ => far.read_datagram().await.map(drop),
            }
        })
    });
    assert!(far.close_reason().is_none());
    near.close(9, b"good reasons");
    near.close(10, b"too late");
    for waiting in [bi, uni, closed, datagram] {
        let error = in_time(waiting).await.unwrap().unwrap_err();
        assert!(is_of_peer(&error), "{error:?}");
    }
    let (mut send, written) = in_time(writing).await.unwrap();
    assert!(matches!(written, Err(WriteError::SessionLost(error)) if is_of_peer(&error)));
    assert!(matches!(in_time(reading).await.unwrap(), Err(ReadError::SessionLost(error)) if is_of_peer(&error)));
    assert!(matches!(in_time(send.stopped()).await, Err(error) if is_of_peer(&error)));
    assert!(matches!(in_time(far.open_bi()).await, Err(error) if is_of_peer(&error)));
    assert!(far.close_reason().is_some_and(|error| is_of_peer(&error)));
    assert_eq!(std::io::Error::from(far.close_reason().unwrap()).kind(), ErrorKind::ConnectionAborted);
    let ours = in_time(near.closed()).await;
    assert!(matches!(&ours, SessionError::Closed { code: 9, reason } if reason == "good reasons"), "{ours:?}");
    let (mut reply, _) = kept;
    assert!(matches!(in_time(reply.write(b"1")).await, Err(WriteError::SessionLost(SessionError::Closed { .. }))));
}

/// Bytes that have arrived are read after the end of the session.
#[tokio::test]
async fn dropping_everything_delivers_what_was_written() {
    let rails = rails(2);
    let (listener, addresses) = listener(&rails, &options()).await;
    let bytes = pattern(6 << 20, 1);
    let near = in_time(MultiRailSession::connect(&rails, &addresses, &options())).await.unwrap();
    let mut send = in_time(near.open_uni()).await.unwrap();
    let (mut question, answer) = in_time(near.open_bi()).await.unwrap();
    in_time(question.write_all(b"no answer")).await.unwrap();
    drop((question, answer));
    // The stream alone keeps the session.
    drop(near);
    let far = in_time(listener.accept_session()).await.unwrap();
    let writing = tokio::spawn({
        let bytes = bytes.clone();
        async move { send.write_all(&bytes).await }
    });
    let mut receive = in_time(far.accept_uni()).await.unwrap();
    let (reply, mut question) = in_time(far.accept_bi()).await.unwrap();
    assert_eq!(in_time(question.read_to_end(9)).await.unwrap(), b"no answer");
    drop((reply, question));
    let mut got = vec![0; 1 << 20];
    in_time(receive.read_exact(&mut got)).await.unwrap();
    got.extend(in_time(receive.read_to_end(usize::MAX)).await.unwrap());
    assert!(got == bytes, "other bytes arrived");
    in_time(writing).await.unwrap().unwrap();
    let closed = in_time(far.closed()).await;
    assert!(matches!(&closed, SessionError::ClosedByPeer { code: 0, reason } if reason.is_empty()), "{closed:?}");
}

/// A session that was dropped with bytes on their way is one that its rails can wait for.
#[tokio::test]
async fn rails_drain_sessions() {
    let Ends { near, far, _listener, _rails } = ends().await;
    let mut send = in_time(near.open_uni()).await.unwrap();
    in_time(send.write_all(&pattern(1 << 20, 1))).await.unwrap();
    drop((send, near));
    let reading = tokio::spawn(async move {
        let mut receive = far.accept_uni().await.unwrap();
        receive.read_to_end(usize::MAX).await.map(|bytes| bytes.len())
    });
    _rails.drain(Duration::from_secs(60)).await.unwrap();
    assert_eq!(in_time(reading).await.unwrap().unwrap(), 1 << 20);
}

/// A session with open streams that are not dropped is in use, and nobody waits for it.
#[tokio::test]
async fn a_session_in_use_is_not_drained() {
    let ends = ends().await;
    let mut send = in_time(ends.near.open_uni()).await.unwrap();
    in_time(send.write_all(&pattern(1 << 20, 1))).await.unwrap();
    in_time(ends._rails.drain(Duration::from_secs(60))).await.unwrap();
    assert!(ends.near.close_reason().is_none());
}

/// The close on one lane may overtake the acknowledgement on another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_tells_of_a_peer_that_reads_all_and_drops_the_session() {
    let rails = rails(2);
    let (listener, addresses) = listener(&rails, &options()).await;
    for _ in 0..100 {
        let near = in_time(MultiRailSession::connect(&rails, &addresses, &options())).await.expect("it can be reached");
        let far = in_time(listener.accept_session()).await.expect("a session was opened");
        let reading = tokio::spawn(async move {
            let mut receive = far.accept_uni().await.expect("it is opened");
            receive.read_to_end(usize::MAX).await.expect("it ends").len()
        });
        let mut send = in_time(near.open_uni()).await.expect("it may be opened");
        in_time(send.write_all(&vec![1; 1_500_000])).await.expect("the peer reads");
        send.finish().expect("it was not finished before");
        let stopped = in_time(send.stopped()).await;
        assert!(matches!(stopped, Ok(None)), "{stopped:?}");
        assert_eq!(in_time(reading).await.expect("it reads"), 1_500_000);
    }
}
