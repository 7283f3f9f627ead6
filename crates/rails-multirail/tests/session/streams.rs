//! Streams are opened, accepted and used.

use crate::{
    loopback::{patient, secret},
    util::{Ends, asked, echo, ends, ends_by, in_time, options, pattern},
};
use bytes::Bytes;
use rails_multirail::{Direction, Security, Side, StreamNumber};
use std::collections::BTreeSet;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    task::JoinSet,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_ends_open_streams_in_both_directions() {
    let Ends { near, far, _listener, _rails } = ends().await;
    assert_eq!(near.id(), far.id());
    assert_eq!((near.local_addr(), near.peer_addr()), (far.peer_addr(), far.local_addr()));
    for (ours, theirs, side) in [(&near, &far, Side::Initiator), (&far, &near, Side::Responder)] {
        for index in 0..3 {
            let (mut send, mut receive) = in_time(ours.open_bi()).await.unwrap();
            assert_eq!((send.id(), receive.id()), (StreamNumber::new(side, Direction::Bi, index), send.id()));
            in_time(send.write_all(b"question")).await.unwrap();
            send.finish().unwrap();
            let (mut reply, mut question) = in_time(theirs.accept_bi()).await.unwrap();
            assert_eq!((reply.id(), question.id()), (send.id(), send.id()));
            assert_eq!(in_time(question.read_to_end(100)).await.unwrap(), b"question");
            in_time(reply.write_chunk(Bytes::from_static(b"answer"))).await.unwrap();
            drop(reply);
            assert_eq!(in_time(receive.read_to_end(6)).await.unwrap(), b"answer");
            assert_eq!(in_time(receive.read_chunk(1)).await.unwrap(), None, "the end is read again");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_in_one_direction() {
    let Ends { near, far, _listener, _rails } = ends().await;
    let bytes = pattern(3 << 20, 1);
    for (ours, theirs, side) in [(&near, &far, Side::Initiator), (&far, &near, Side::Responder)] {
        let mut send = in_time(ours.open_uni()).await.unwrap();
        assert_eq!(send.id(), StreamNumber::new(side, Direction::Uni, 0));
        let (sent, received) = in_time(async {
            tokio::join!(
                async {
                    send.write_all(&bytes).await.unwrap();
                    send.finish().unwrap();
                    send.stopped().await
                },
                async { theirs.accept_uni().await.unwrap().read_to_end(bytes.len()).await }
            )
        })
        .await;
        assert!(received.unwrap() == bytes, "other bytes arrived");
        assert!(matches!(sent, Ok(None)), "{sent:?}");
    }
}

/// The traits of tokio, for libraries that know no session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_are_those_of_tokio() {
    let Ends { near, far, _listener, _rails } = ends().await;
    echo(&far);
    let (mut send, mut receive) = in_time(near.open_bi()).await.unwrap();
    let bytes = pattern(300_000, 2);
    let (written, read) = in_time(async {
        tokio::join!(
            async {
                AsyncWriteExt::write_all(&mut send, &bytes).await?;
                send.flush().await?;
                send.shutdown().await
            },
            async {
                let mut read = Vec::new();
                AsyncReadExt::read_to_end(&mut receive, &mut read).await.map(|_| read)
            }
        )
    })
    .await;
    written.unwrap();
    assert!(read.unwrap() == bytes, "other bytes came back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_streams() {
    let many = || options().max_concurrent_bi_streams(2_000);
    let Ends { near, far, _listener, _rails } = ends_by(&many(), &many()).await;
    echo(&far);
    let mut open = Vec::new();
    for _ in 0..1_000 {
        open.push(in_time(near.open_bi()).await.unwrap());
    }
    let numbers: BTreeSet<u64> = open.iter().map(|(send, _)| send.id().0).collect();
    assert_eq!(numbers.len(), 1_000);
    let mut asking = JoinSet::new();
    for (index, (mut send, mut receive)) in open.into_iter().enumerate() {
        asking.spawn(async move {
            let bytes = pattern(1_000 + 10 * index, index as u64);
            send.write_all(&bytes).await.unwrap();
            send.finish().unwrap();
            assert!(receive.read_to_end(usize::MAX).await.unwrap() == bytes, "other bytes came back");
        });
    }
    in_time(asking.join_all()).await;
}

/// One stream in flight after the other, so that each is opened, closed and forgotten.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_streams_in_turn() {
    let Ends { near, far, _listener, _rails } = ends().await;
    echo(&far);
    for index in 0..1_000u32 {
        let question = index.to_be_bytes();
        assert_eq!(in_time(asked(&near, &question)).await, question);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_is_not_read_holds_up_no_other() {
    let Ends { near, far, _listener, _rails } = ends().await;
    let mut unread = in_time(near.open_bi()).await.unwrap().0;
    let stuck = tokio::spawn(async move {
        // More than the windows and the send buffer take.
        let written = unread.write_all(&pattern(20 << 20, 3)).await;
        (unread, written)
    });
    // The peer accepts the first stream, and does not read it.
    let kept = in_time(far.accept_bi()).await.unwrap();
    echo(&far);
    let mut asking = JoinSet::new();
    for seed in 0..99 {
        let near = near.clone();
        asking.spawn(async move {
            let bytes = pattern(400_000, seed);
            assert!(asked(&near, &bytes).await == bytes, "other bytes came back");
        });
    }
    in_time(asking.join_all()).await;
    assert!(!stuck.is_finished());
    drop(kept);
    let (_, written) = in_time(stuck).await.unwrap();
    assert!(matches!(written, Err(rails_multirail::WriteError::Stopped(0))), "{written:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_streams_side_by_side() {
    let Ends { near, far, _listener, _rails } = ends().await;
    echo(&far);
    let mut asking = JoinSet::new();
    for seed in 0..4 {
        let near = near.clone();
        asking.spawn(async move {
            let bytes = pattern(8 << 20, seed);
            assert!(asked(&near, &bytes).await == bytes, "other bytes came back");
        });
    }
    in_time(asking.join_all()).await;
    let stats = near.stats();
    assert_eq!((stats.bytes_written, stats.bytes_read), (32 << 20, 32 << 20));
}

#[tokio::test]
async fn priorities() {
    let Ends { near, far, _listener, _rails } = ends().await;
    let mut streams = Vec::new();
    for priority in [0, i32::MIN, 7, i32::MAX] {
        let mut send = in_time(near.open_uni()).await.unwrap();
        assert_eq!(send.priority(), 0);
        send.set_priority(priority);
        assert_eq!(send.priority(), priority);
        in_time(send.write_all(&priority.to_be_bytes())).await.unwrap();
        streams.push(send);
    }
    streams[1].set_priority(3);
    drop(streams);
    let mut read = BTreeSet::new();
    for _ in 0..4 {
        let bytes = in_time(in_time(far.accept_uni()).await.unwrap().read_to_end(4)).await.unwrap();
        read.insert(i32::from_be_bytes(bytes.try_into().unwrap()));
    }
    assert_eq!(read, BTreeSet::from([0, i32::MIN, 7, i32::MAX]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_security() {
    for security in [Security::insecure(), Security::psk(secret()), Security::encrypted(secret())] {
        let options = patient(security);
        let Ends { near, far, _listener, _rails } = ends_by(&options, &options).await;
        echo(&far);
        let bytes = pattern(1 << 20, 4);
        assert!(in_time(asked(&near, &bytes)).await == bytes, "other bytes came back");
        near.send_datagram(Bytes::from_static(b"short")).unwrap();
        assert_eq!(in_time(far.read_datagram()).await.unwrap(), &b"short"[..]);
        near.close(3, b"over");
        let reason = in_time(far.closed()).await.to_string();
        assert_eq!(reason, "the peer closed the session with code 3: over");
    }
}
