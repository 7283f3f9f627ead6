//! Messages in streams of a session.

use crate::{
    loopback::{patient, secret},
    util::{Ends, ends, ends_by, in_time, pattern},
};
use bytes::Bytes;
use futures_util::FutureExt;
use proptest::{
    prelude::*,
    test_runner::{Config, TestCaseError, TestRunner},
};
use rails_multirail::{
    MultiRailSession, ReadError, RecvMessageError, RecvMessages, SendMessageError, SendMessages, SessionError,
    WriteError,
};
use std::{io::ErrorKind, time::Duration};
use tokio::{runtime::Builder, task::yield_now, time::timeout};

/// Messages that `near` sends in a new stream, and `far` receives, of at most that length.
async fn messages(near: &MultiRailSession, far: &MultiRailSession, max_length: usize) -> (SendMessages, RecvMessages) {
    let mut sender = near.open_uni().await.unwrap().into_messages();
    sender.send(Bytes::from_static(b"first")).await.unwrap();
    let mut receiver = far.accept_uni().await.unwrap().into_messages(max_length.max(5));
    assert_eq!(receiver.recv().await.unwrap().as_deref(), Some(&b"first"[..]));
    (sender, receiver)
}

/// Messages of all lengths, also beyond the windows and the send buffer, both ways at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_all_lengths() {
    let narrow = || patient(secret()).window(1 << 20).stream_window(64 << 10).send_buffer(64 << 10);
    for options in [patient(secret()), narrow()] {
        let Ends { near, far, _listener, _rails } = ends_by(&options, &options).await;
        let (send, receive) = in_time(near.open_bi()).await.unwrap();
        let lengths = [0, 1, 3, 4, 5, 4_095, 4_096, 70_000, 0, 5 << 20, 7];
        let say = async |mut sender: SendMessages, seed: u64| {
            for (index, length) in lengths.into_iter().enumerate() {
                sender.send(pattern(length, seed + index as u64).into()).await.unwrap();
            }
            sender.finish().unwrap();
            assert_eq!(sender.stream().stopped().await.unwrap(), None);
        };
        let hear = async |mut receiver: RecvMessages, seed: u64| {
            for (index, length) in lengths.into_iter().enumerate() {
                let message = receiver.recv().await.unwrap().expect("there are more");
                assert!(message == pattern(length, seed + index as u64), "message {index} of {length} bytes");
            }
            assert_eq!(receiver.recv().await.unwrap(), None);
            assert_eq!(receiver.recv().await.unwrap(), None, "the end is received again");
        };
        let theirs = async {
            let (reply, question) = far.accept_bi().await.unwrap();
            tokio::join!(say(reply.into_messages(), 100), hear(question.into_messages(5 << 20), 0));
        };
        let ours = async { tokio::join!(say(send.into_messages(), 0), hear(receive.into_messages(usize::MAX), 100)) };
        in_time(async { tokio::join!(ours, theirs) }).await;
    }
}

/// What the property says of one stream.
#[derive(Debug, Clone)]
struct Case {
    lengths: Vec<usize>,
    limit: usize,
    /// How often each call is polled before it is given up, in turn.
    patience: Vec<usize>,
    /// The stream is dropped behind so many messages.
    dropped: bool,
}

fn cases() -> impl Strategy<Value = Case> {
    let length = prop_oneof![4 => 0..100_usize, 2 => 0..20_000_usize, 1 => 0..2_000_000_usize];
    let lengths = prop::collection::vec(length, 0..12);
    let limit = prop_oneof![3 => Just(usize::MAX), 1 => 0..1_000_000_usize];
    let patience = prop::collection::vec(0..3_usize, 1..6);
    (lengths, limit, patience, any::<bool>()).prop_map(|(lengths, limit, patience, dropped)| Case {
        lengths,
        limit,
        patience,
        dropped,
    })
}

/// Polls a call that often; `None` if it was given up.
async fn impatient<T>(call: impl Future<Output = T>, polls: usize) -> Option<T> {
    let mut call = std::pin::pin!(call);
    for _ in 0..polls {
        if let Some(outcome) = call.as_mut().now_or_never() {
            return Some(outcome);
        }
        yield_now().await;
    }
    None
}

/// Every message arrives once and whole, however often calls are given up, up to the first that is
/// too long.
#[test]
fn messages_survive_calls_that_are_given_up() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let narrow = patient(secret()).window(1 << 20).stream_window(16 << 10).send_buffer(16 << 10);
    let Ends { near, far, _listener, _rails } = runtime.block_on(ends_by(&narrow, &narrow));
    let mut runner = TestRunner::new(Config { cases: 48, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&cases(), |case| runtime.block_on(in_time(holds(&near, &far, case))));
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

async fn holds(near: &MultiRailSession, far: &MultiRailSession, case: Case) -> Result<(), TestCaseError> {
    let (mut sender, mut receiver) = messages(near, far, case.limit).await;
    let limit = case.limit.max(5);
    let (lengths, patience) = (case.lengths.clone(), case.patience.clone());
    let sending = tokio::spawn(async move {
        for (index, length) in lengths.into_iter().enumerate() {
            let message = Bytes::from(pattern(length, index as u64));
            let mut polls = patience.iter().cycle();
            let sent = loop {
                if let Some(sent) = impatient(sender.send(message.clone()), *polls.next().unwrap()).await {
                    break sent;
                }
                // With no patience at all nothing is ever sent.
                if patience.iter().all(|polls| *polls == 0) {
                    break sender.send(message).await;
                }
            };
            sent?;
        }
        if !case.dropped {
            sender.finish().unwrap();
        }
        Ok::<_, SendMessageError>(())
    });
    let mut polls = case.patience.iter().rev().cycle();
    let mut receive = async || loop {
        if let Some(received) = impatient(receiver.recv(), *polls.next().unwrap()).await {
            return received;
        }
        yield_now().await;
        if case.patience.iter().all(|polls| *polls == 0) {
            return receiver.recv().await;
        }
    };
    for (index, expected) in case.lengths.iter().enumerate() {
        if *expected > limit {
            for _ in 0..2 {
                let error = receive().await.unwrap_err();
                let RecvMessageError::TooLong { length, limit: told } = error else { panic!("{error:?}") };
                prop_assert_eq!((length, told), (*expected, limit));
            }
            receiver.stream().stop(3).unwrap();
            let sent = sending.await.unwrap();
            prop_assert!(matches!(sent, Ok(()) | Err(SendMessageError::Write(WriteError::Stopped(3)))), "{sent:?}");
            return Ok(());
        }
        let message = receive().await.unwrap();
        prop_assert!(message.is_some_and(|message| message == pattern(*expected, index as u64)), "message {index}");
    }
    prop_assert_eq!(receive().await.unwrap(), None);
    sending.await.unwrap().unwrap();
    Ok(())
}

#[tokio::test]
async fn a_message_beyond_the_limit() {
    let Ends { near, far, _listener, _rails } = ends().await;
    let (mut sender, mut receiver) = in_time(messages(&near, &far, 1_000)).await;
    in_time(sender.send(vec![7; 1_000].into())).await.unwrap();
    in_time(sender.send(vec![7; 1_001].into())).await.unwrap();
    assert_eq!(in_time(receiver.recv()).await.unwrap().unwrap().len(), 1_000);
    let error = in_time(receiver.recv()).await.unwrap_err();
    assert_eq!(error.to_string(), "the next message has 1001 bytes, and the caller allows 1000");
    assert_eq!(std::io::Error::from(error).kind(), ErrorKind::InvalidData);
    drop(receiver);
    // The peer learns that nobody reads on.
    assert_eq!(in_time(sender.stream().stopped()).await.unwrap(), Some(0));
    let error = in_time(sender.send(Bytes::new())).await.unwrap_err();
    assert!(matches!(error, SendMessageError::Write(WriteError::Stopped(0))), "{error:?}");
    assert_eq!(std::io::Error::from(error).kind(), ErrorKind::BrokenPipe);
}

/// Bytes that are no messages, and messages that do not come to their end.
#[tokio::test]
async fn streams_that_end_within_a_message() {
    let Ends { near, far, _listener, _rails } = ends().await;
    for (bytes, arrived, length) in [(&b"\0\0"[..], 0, None), (b"\0\0\0\x05four", 4, Some(5))] {
        let mut send = in_time(near.open_uni()).await.unwrap();
        in_time(send.write_all(bytes)).await.unwrap();
        drop(send);
        let mut receiver = in_time(far.accept_uni()).await.unwrap().into_messages(1 << 20);
        for _ in 0..2 {
            let error = in_time(receiver.recv()).await.unwrap_err();
            let RecvMessageError::Truncated { arrived: told, length: of } = error else { panic!("{error:?}") };
            assert_eq!((told, of), (arrived, length));
            assert_eq!(std::io::Error::from(error).kind(), ErrorKind::UnexpectedEof);
        }
    }
    let (mut sender, mut receiver) = in_time(messages(&near, &far, 100)).await;
    sender.stream().reset(9).unwrap();
    let error = in_time(receiver.recv()).await.unwrap_err();
    assert!(matches!(error, RecvMessageError::Read(ReadError::Reset(9))), "{error:?}");
    let (_sender, mut receiver) = in_time(messages(&near, &far, 100)).await;
    near.close(1, b"");
    let error = in_time(receiver.recv()).await.unwrap_err();
    let RecvMessageError::Read(ReadError::SessionLost(SessionError::ClosedByPeer { code: 1, .. })) = error else {
        panic!("{error:?}")
    };
}

/// Each stream has an order of its own: a message of one passes those of another that wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_do_not_hold_each_other_up() {
    let Ends { near, far, _listener, _rails } = ends().await;
    let (mut long, long_receiver) = in_time(messages(&near, &far, usize::MAX)).await;
    let (mut short, mut receiver) = in_time(messages(&near, &far, 10)).await;
    // The first fills the windows of its stream and the send buffer, the second waits for room.
    in_time(long.send(vec![1; 6 << 20].into())).await.unwrap();
    timeout(Duration::from_millis(50), long.send(Bytes::from_static(b"given up"))).await.expect_err("nobody reads");
    in_time(short.send(Bytes::from_static(b"short"))).await.unwrap();
    assert_eq!(in_time(receiver.recv()).await.unwrap().unwrap(), &b"short"[..]);
    let reading = tokio::spawn(async move {
        let mut receiver = long_receiver;
        let mut lengths = Vec::new();
        while let Some(message) = receiver.recv().await.unwrap() {
            lengths.push(message.len());
        }
        lengths
    });
    in_time(long.send(Bytes::from_static(b"last"))).await.unwrap();
    drop(long.into_stream());
    assert_eq!(in_time(reading).await.unwrap(), [6 << 20, 4]);
}
