//! How streams end: dropped, half-closed, aborted, and by both ends at once.

use crate::{
    loopback::{PATIENCE, listener, rails},
    util::{failure, options, pair, pattern},
};
use bytes::Bytes;
use rails_multirail::{EventKind, Failure, MultiRailStream, Priority, StreamEvent};
use rails_proto::wire::ResetReason;
use std::{
    io::{self, ErrorKind, IoSlice},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::broadcast,
    time::{sleep, timeout},
};

async fn in_time<T>(what: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(20), what).await.expect("no step hangs")
}

/// Writes until the peer says that it reads no more.
async fn refused(stream: &mut MultiRailStream) -> io::Error {
    in_time(async {
        loop {
            if let Err(error) = stream.write_all(b"is anyone there?").await {
                return error;
            }
            sleep(Duration::from_millis(1)).await;
        }
    })
    .await
}

/// Waits until all lanes have ended, and checks that none ended with an error.
async fn lanes_end_in_peace(mut events: broadcast::Receiver<StreamEvent>, lanes: usize) {
    let mut ended = 0;
    while ended < lanes {
        let event = in_time(events.recv()).await.expect("the stream is there");
        assert_eq!(event.error, None, "{event:?}");
        ended += usize::from(matches!(event.kind, EventKind::Ended { .. }));
    }
}

#[tokio::test]
async fn written_bytes_are_delivered_after_a_drop() {
    let (near_rails, far_rails) = (rails(2), rails(2));
    let (listener, addresses) = listener(&far_rails, &options()).await;
    for length in [0, 3, 3 << 20] {
        let mut near = MultiRailStream::connect(&near_rails, &addresses, &options()).await.unwrap();
        let mut far = listener.accept().await.unwrap();
        let events = near.subscribe();
        let sent = pattern(length);
        near.write_all(&sent).await.unwrap();
        drop(near);
        let mut got = Vec::new();
        in_time(far.read_to_end(&mut got)).await.unwrap();
        assert!(got == sent);
        drop(far);
        lanes_end_in_peace(events, 2).await;
    }
}

/// The lanes of a stream keep the rails that drive them.
#[tokio::test]
async fn rails_that_were_dropped_deliver_what_was_written() {
    let (near_rails, far_rails) = (rails(2), rails(2));
    let (listener, addresses) = listener(&far_rails, &options()).await;
    let mut near = MultiRailStream::connect(&near_rails, &addresses, &options()).await.unwrap();
    let mut far = listener.accept().await.unwrap();
    let sent = pattern(3 << 20);
    near.write_all(&sent).await.unwrap();
    drop(near_rails);
    drop(near);
    let mut got = Vec::new();
    in_time(far.read_to_end(&mut got)).await.unwrap();
    assert!(got == sent);
}

#[tokio::test]
async fn an_aborted_stream_is_an_error_to_the_peer() {
    let rails = rails(2);
    let (mut near, mut far) = pair(&rails, &options()).await;
    near.write_all(b"half of it").await.unwrap();
    let mut got = [0; 10];
    far.read_exact(&mut got).await.unwrap();
    near.abort();
    let error = in_time(far.read_u8()).await.unwrap_err();
    assert_eq!((error.kind(), failure(&error)), (ErrorKind::ConnectionReset, &Failure::Reset(ResetReason::Dropped)));
    assert_eq!(far.write_all(b"x").await.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

/// The reply arrives although the peer is in the middle of a write that this end never reads to its
/// end.
#[tokio::test]
async fn a_reply_written_before_a_drop_arrives() {
    let rails = rails(2);
    for read in [0, 1, 100_000] {
        let small = options().longest_chunk(16 << 10).window(256 << 10);
        let (mut near, mut far) = pair(&rails, &small).await;
        let events = near.subscribe();
        let asks = tokio::spawn(async move {
            let error = far.write_all(&pattern(20 << 20)).await.unwrap_err();
            let mut reply = String::new();
            far.read_to_string(&mut reply).await.unwrap();
            (error, reply, far)
        });
        near.read_exact(&mut vec![0; read + 1]).await.unwrap();
        near.write_all(b"enough, thank you").await.unwrap();
        drop(near);
        let (error, reply, mut far) = in_time(asks).await.unwrap();
        assert_eq!((error.kind(), reply.as_str()), (ErrorKind::BrokenPipe, "enough, thank you"));
        assert!(matches!(failure(&error), Failure::Stopped { unread } if *unread > 0), "{error}");
        // Every further read gives the end again. Shutting down works as on a TCP socket, and closing
        // reports that the peer did not read every byte.
        assert_eq!(far.read(&mut [0]).await.unwrap(), 0);
        far.shutdown().await.unwrap();
        assert_eq!(far.close().await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        lanes_end_in_peace(events, 2).await;
    }
}

#[tokio::test]
async fn both_ends_dropped_over_unread_bytes() {
    let rails = rails(2);
    let patient = options().linger(Duration::from_secs(3_600));
    let (mut near, mut far) = pair(&rails, &patient).await;
    let events = [near.subscribe(), far.subscribe()];
    near.write_all(&pattern(1 << 20)).await.unwrap();
    far.write_all(&pattern(1 << 20)).await.unwrap();
    drop((near, far));
    for events in events {
        lanes_end_in_peace(events, 2).await;
    }
}

#[tokio::test]
async fn a_drop_behind_a_closed_window_delivers_later() {
    let rails = rails(2);
    let small = options().longest_chunk(16 << 10).window(64 << 10).send_buffer(1 << 20);
    let (mut near, mut far) = pair(&rails, &small).await;
    let sent = pattern(1 << 20);
    near.write_all(&sent).await.unwrap();
    drop(near);
    sleep(Duration::from_millis(100)).await;
    let mut got = Vec::new();
    in_time(far.read_to_end(&mut got)).await.unwrap();
    assert!(got == sent);
}

#[tokio::test]
async fn dropped_stream_whose_peer_does_not_read() {
    let rails = rails(2);
    let small = options().longest_chunk(16 << 10).window(64 << 10).send_buffer(1 << 20);
    let (mut near, mut far) = pair(&rails, &small.linger(Duration::from_millis(300))).await;
    let sent = pattern(1 << 20);
    near.write_all(&sent).await.unwrap();
    drop(near);
    let mut lanes_up = 2;
    in_time(async {
        while lanes_up > 0 {
            sleep(Duration::from_millis(10)).await;
            lanes_up = far.lanes_up();
        }
    })
    .await;
    let mut got = Vec::new();
    let error = far.read_to_end(&mut got).await.unwrap_err();
    assert_eq!(failure(&error), &Failure::Reset(ResetReason::Dropped));
    assert!(got == sent[..64 << 10], "a window full, and then an error: no end of file");
}

/// The peer lives, reads nothing or says nothing, and keeps its end open.
#[tokio::test]
async fn close_without_progress_ends_at_its_limit() {
    let rails = rails(2);
    let small = options().longest_chunk(16 << 10).window(64 << 10).send_buffer(1 << 20);
    for (written, expected) in [(1 << 20, "the peer has taken none of the last"), (3, "it has not ended its direction")]
    {
        let (mut near, _far) = pair(&rails, &small.clone().close_timeout(Duration::from_millis(50))).await;
        near.write_all(&pattern(written)).await.unwrap();
        let error = in_time(near.close()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[tokio::test]
async fn draining_waits_for_streams_that_end() {
    let (near_rails, far_rails) = (rails(2), rails(2));
    let small = options().longest_chunk(16 << 10).window(64 << 10).send_buffer(1 << 20).linger(PATIENCE);
    let (listener, addresses) = listener(&far_rails, &small).await;
    let mut ends = Vec::new();
    for _ in 0..3 {
        let near = MultiRailStream::connect(&near_rails, &addresses, &small).await.unwrap();
        ends.push((near, listener.accept().await.unwrap()));
    }
    let sent = pattern(1 << 20);
    for (near, _) in &mut ends {
        near.write_all(&sent).await.unwrap();
    }
    near_rails.drain(PATIENCE).await.expect("streams that are open are not waited for");
    let (open, mut shut, dropped) = (ends.remove(0), ends.remove(0), ends.remove(0));
    assert!(timeout(Duration::ZERO, shut.0.shutdown()).await.is_err(), "the peer reads nothing");
    let name = dropped.0.id();
    drop(dropped.0);
    let left = near_rails.drain(Duration::from_millis(1)).await.unwrap_err();
    assert_eq!(left.streams.len(), 2, "{left}");
    let of_the_dropped = left.streams.iter().find(|stream| stream.stream == name).expect("it has bytes left");
    assert!((1..=1 << 20).contains(&of_the_dropped.bytes) && of_the_dropped.failure.is_none(), "{left}");
    let reads = |mut far: MultiRailStream| async move {
        let mut got = Vec::new();
        far.read_to_end(&mut got).await.map(|_| got)
    };
    let (drained, one, other) =
        in_time(async { tokio::join!(near_rails.drain(PATIENCE), reads(shut.1), reads(dropped.1)) }).await;
    drained.expect("the peer reads");
    assert!(one.unwrap() == sent && other.unwrap() == sent);
    drop(open);
}

/// The bytes of a stream that fails meanwhile are lost, and so named.
#[tokio::test]
async fn draining_names_streams_that_fail() {
    let (near_rails, far_rails) = (rails(2), rails(2));
    let small = options().longest_chunk(16 << 10).window(64 << 10).send_buffer(1 << 20).linger(PATIENCE);
    let (listener, addresses) = listener(&far_rails, &small).await;
    let mut near = MultiRailStream::connect(&near_rails, &addresses, &small).await.unwrap();
    let far = listener.accept().await.unwrap();
    near.write_all(&pattern(1 << 20)).await.unwrap();
    drop(near);
    let (drained, ()) = in_time(async { tokio::join!(near_rails.drain(PATIENCE), async { far.abort() }) }).await;
    let left = drained.unwrap_err();
    assert_eq!(left.streams[0].failure, Some(Failure::Reset(ResetReason::Dropped)), "{left}");
    assert!(left.streams[0].bytes > 0, "{left}");
}

/// Neither end has an error.
#[tokio::test]
async fn a_half_open_stream_ends_with_the_linger() {
    let rails = rails(2);
    let (mut near, mut far) = pair(&rails, &options().linger(Duration::from_millis(300))).await;
    let events = [near.subscribe(), far.subscribe()];
    far.write_all(b"and?").await.unwrap();
    near.read_exact(&mut [0; 4]).await.unwrap();
    drop(near);
    assert_eq!(in_time(far.read(&mut [0])).await.unwrap(), 0);
    for events in events {
        lanes_end_in_peace(events, 2).await;
    }
    assert_eq!(refused(&mut far).await.kind(), ErrorKind::BrokenPipe);
    // The peer has read all bytes written before.
    far.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_empty_write_says_how_the_stream_stands() {
    let rails = rails(1);
    let empty = [IoSlice::new(&[]), IoSlice::new(&[])];
    let (mut near, mut far) = pair(&rails, &options()).await;
    assert_eq!((near.write(&[]).await.unwrap(), near.write_vectored(&empty).await.unwrap()), (0, 0));
    near.write_bytes(Bytes::new()).await.unwrap();
    far.shutdown().await.unwrap();
    for end in [&mut near, &mut far] {
        end.shutdown().await.unwrap();
        end.flush().await.unwrap();
        assert_eq!(end.write(&[]).await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert_eq!(end.write_vectored(&empty).await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert_eq!(end.write_bytes(Bytes::new()).await.unwrap_err().kind(), ErrorKind::BrokenPipe);
    }
    let (near, mut far) = pair(&rails, &options()).await;
    near.abort();
    in_time(far.read_u8()).await.unwrap_err();
    assert_eq!(far.write(&[]).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn streams_that_were_not_accepted_are_reset() {
    let rails = rails(1);
    let (listener, addresses) = listener(&rails, &options()).await;
    let mut near = MultiRailStream::connect(&rails, &addresses, &options()).await.unwrap();
    drop(listener);
    assert_eq!(in_time(near.read(&mut [0])).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn halves_of_messages_end_their_own_direction() {
    let rails = rails(2);
    let message = |number: u8| Bytes::from(vec![number; 40_000]);
    let (near, far) = pair(&rails, &options()).await;
    let ((mut near_sender, mut near_receiver), (mut far_sender, mut far_receiver)) =
        (near.into_messages().unwrap().split(), far.into_messages().unwrap().split());
    for number in 0..20 {
        near_sender.send(message(number), Priority::NORMAL).await.unwrap();
    }
    drop(near_sender);
    for number in 0..20 {
        assert_eq!(in_time(far_receiver.recv()).await.unwrap().unwrap().payload, message(number));
    }
    assert!(in_time(far_receiver.recv()).await.unwrap().is_none());
    // The other direction goes on until its receiver is dropped.
    far_sender.send(message(7), Priority::NORMAL).await.unwrap();
    assert_eq!(in_time(near_receiver.recv()).await.unwrap().unwrap().payload, message(7));
    drop(near_receiver);
    let error = in_time(async {
        loop {
            if let Err(error) = far_sender.send(message(8), Priority::NORMAL).await {
                return error;
            }
        }
    });
    assert!(matches!(failure(&error.await), Failure::Stopped { .. }));
}

/// Small messages arrived in one packet, and the application did not receive all of them.
#[tokio::test]
async fn a_packet_received_in_part_is_told_of() {
    let rails = rails(1);
    let (near, far) = pair(&rails, &options()).await;
    let (mut near, mut far) = (near.into_messages().unwrap(), far.into_messages().unwrap());
    for _ in 0..100 {
        near.send(Bytes::from_static(b"one of many"), Priority::NORMAL).await.unwrap();
    }
    in_time(far.recv()).await.unwrap().unwrap();
    drop(far);
    let error = in_time(near.finish()).await.unwrap_err();
    assert!(matches!(failure(&error), Failure::Stopped { unread } if *unread > 0), "{error}");
}

/// The peer's linger is over before this end says that the stream carries messages.
#[tokio::test]
async fn messages_of_a_peer_long_gone_are_received() {
    let rails = rails(2);
    let (near, far) = pair(&rails, &options().linger(Duration::from_millis(300))).await;
    let events = far.subscribe();
    let mut near = near.into_messages().unwrap();
    near.send(Bytes::from_static(b"farewell"), Priority::NORMAL).await.unwrap();
    drop(near);
    lanes_end_in_peace(events, 2).await;
    let mut far = far.into_messages().unwrap();
    assert_eq!(in_time(far.recv()).await.unwrap().unwrap().payload, "farewell");
    assert!(in_time(far.recv()).await.unwrap().is_none());
    let error = far.send(Bytes::new(), Priority::NORMAL).await.unwrap_err();
    assert_eq!(failure(&error), &Failure::Stopped { unread: 0 });
    far.finish().await.unwrap();
}

/// The peer knew that its messages had arrived, and then aborted.
#[tokio::test]
async fn messages_of_a_failed_stream_are_received() {
    let rails = rails(2);
    let (near, far) = pair(&rails, &options()).await;
    let mut near = near.into_messages().unwrap();
    near.send(Bytes::from_static(b"farewell"), Priority::NORMAL).await.unwrap();
    near.finish().await.unwrap();
    near.abort();
    in_time(async {
        while far.lanes_up() > 0 {
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    let mut far = far.into_messages().unwrap();
    assert_eq!(in_time(far.recv()).await.unwrap().unwrap().payload, "farewell");
    assert!(in_time(far.recv()).await.unwrap().is_none());
    let error = far.send(Bytes::new(), Priority::NORMAL).await.unwrap_err();
    assert_eq!(failure(&error), &Failure::Reset(ResetReason::Dropped));
}
