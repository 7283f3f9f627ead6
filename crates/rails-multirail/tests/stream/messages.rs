//! Messages over real sockets.

use crate::{
    loopback::{PATIENCE, listener, rails, secret},
    util::{failure, options, pair, pattern, relayed_pair},
};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt, stream};
use rails_multirail::{
    Failure, MessageReceiver, MessageTooLong, MultiRailMessages, MultiRailStream, NotForMessages, Policy, Priority,
    Security, StreamError, StreamOptions, TrySendError,
};
use rails_proto::{
    violation::{Form, Violation},
    wire::ResetReason,
};
use std::{
    io,
    sync::Arc,
    task::{Context, Wake},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::Notify,
    time::timeout,
};

const PRIORITIES: [Priority; 3] = [Priority::LOWEST, Priority::NORMAL, Priority::HIGHEST];

async fn message_pair(options: &StreamOptions) -> (MultiRailMessages, MultiRailMessages) {
    let (near, far) = pair(&rails(2), options).await;
    (near.into_messages().unwrap(), far.into_messages().unwrap())
}

/// The message of that number. No two messages of a test are alike, and the first bytes identify
/// each.
fn message(source: &Bytes, number: usize, length: usize) -> Bytes {
    let at = number * 7919 % (source.len() - length + 1);
    source.slice(at..at + length)
}

/// Receives to the end, and compares the messages of each priority with the sent ones.
async fn receive_all(receiver: &mut MessageReceiver, source: &Bytes, lengths: &[usize]) {
    let mut expected: Vec<Vec<usize>> = vec![Vec::new(); 3];
    (0..lengths.len()).for_each(|number| expected[number % 3].push(number));
    let mut next = [0; 3];
    while let Some(received) = receiver.recv().await.unwrap() {
        let priority = PRIORITIES.iter().position(|priority| *priority == received.priority).expect("one of those");
        let number = expected[priority][next[priority]];
        assert!(received.payload == message(source, number, lengths[number]), "message {number} has other bytes");
        next[priority] += 1;
    }
    assert_eq!(next.iter().sum::<usize>(), lengths.len());
}

async fn send_all(near: MultiRailMessages, source: Bytes, lengths: Vec<usize>) -> io::Result<()> {
    let (mut sender, _receiver) = near.split();
    for (number, length) in lengths.into_iter().enumerate() {
        sender.send(message(&source, number, length), PRIORITIES[number % 3]).await?;
    }
    sender.finish().await
}

#[tokio::test]
async fn messages_of_all_lengths_and_priorities() {
    let options = options().window(128 << 20).policy(Policy::Static);
    let (near, far) = message_pair(&options).await;
    let source = Bytes::from(pattern(65 << 20));
    let mut lengths: Vec<usize> = (0..2_000).map(|index| index * index % 300_000).collect();
    lengths.extend([64 << 20, 0, 64, 16_380, 16_381, 4 << 20, 64 << 20, 1]);
    lengths.extend((0..2_000).map(|index| index % 100));
    let writer = tokio::spawn(send_all(near, source.clone(), lengths.clone()));
    let (mut sender, mut receiver) = far.split();
    receive_all(&mut receiver, &source, &lengths).await;
    sender.finish().await.unwrap();
    writer.await.unwrap().unwrap();
    let stats = sender.stats();
    assert!(stats.lanes.iter().all(|lane| lane.bytes_received > 0), "both lanes were used: {stats:?}");
}

#[tokio::test]
async fn a_hundred_thousand_tiny_messages_travel_together() {
    // The peer's window is full before the send buffer is.
    let (near, far) = message_pair(&options().window(1 << 20)).await;
    let source = Bytes::from(pattern(1 << 20));
    let (mut sender, _) = near.split();
    let (mut peer, mut receiver) = far.split();
    let (mut sent, mut received) = (0, 0);
    while received < 100_000 {
        let mut is_full = false;
        while sent < 100_000 && !is_full {
            match sender.try_send(message(&source, sent, 64), Priority::NORMAL) {
                Ok(()) => sent += 1,
                Err(TrySendError::Full(_)) => is_full = true,
                Err(error) => panic!("{error}"),
            }
        }
        while received < sent {
            let next = timeout(PATIENCE, receiver.recv()).await.expect("it arrives").unwrap().unwrap();
            assert!(next.payload == message(&source, received, 64), "message {received} has other bytes");
            received += 1;
        }
    }
    let finished = tokio::join!(sender.finish(), peer.finish());
    finished.0.and(finished.1).unwrap();
    let chunks: u64 = peer.stats().lanes.iter().map(|lane| lane.chunks_received).sum();
    assert!(chunks < 100_000 / 4, "{chunks} chunks");
}

#[tokio::test]
async fn lane_cut_in_the_middle_of_messages() {
    let options = options().window(64 << 20).policy(Policy::Static);
    let (near, far, relays) = relayed_pair(&rails(2), &options).await;
    let (near, far) = (near.into_messages().unwrap(), far.into_messages().unwrap());
    let source = Bytes::from(pattern(9 << 20));
    let lengths: Vec<usize> = (0..60).map(|index| if index % 2 == 0 { 3_000_000 } else { 100 }).collect();
    let writer = tokio::spawn(send_all(near, source.clone(), lengths.clone()));
    let (mut sender, mut receiver) = far.split();
    let cut = async {
        tokio::time::sleep(Duration::from_millis(40)).await;
        relays[0].cut();
    };
    tokio::join!(receive_all(&mut receiver, &source, &lengths), cut);
    timeout(Duration::from_secs(20), writer).await.expect("it ends").unwrap().unwrap();
    sender.finish().await.unwrap();
    assert!(sender.stats().lanes.iter().any(|lane| lane.lost.is_some()), "a lane was cut: {:?}", sender.stats());
}

#[tokio::test]
async fn a_damaged_part_costs_its_lane_and_no_message() {
    let (near, far, relays) = relayed_pair(&rails(2), &options().policy(Policy::Static)).await;
    let (near, far) = (near.into_messages().unwrap(), far.into_messages().unwrap());
    relays[1].flip_a_bit();
    let source = Bytes::from(pattern(9 << 20));
    let lengths = vec![3_000_000; 9];
    let writer = tokio::spawn(send_all(near, source.clone(), lengths.clone()));
    let (mut sender, mut receiver) = far.split();
    receive_all(&mut receiver, &source, &lengths).await;
    writer.await.unwrap().unwrap();
    sender.finish().await.unwrap();
    let stats = sender.stats();
    assert!(
        stats.lanes.iter().any(|lane| lane.lost.as_ref().is_some_and(|lost| lost.contains("checksum"))),
        "{stats:?}"
    );
}

#[tokio::test]
async fn requests_are_answered_while_more_are_on_their_way() {
    let (near, far) = message_pair(&options()).await;
    let answering = tokio::spawn(async move {
        let (mut sender, mut receiver) = far.split();
        while let Some(request) = receiver.recv().await.unwrap() {
            sender.send(request.payload, request.priority).await.unwrap();
        }
        sender.finish().await.unwrap();
    });
    let (mut sender, mut receiver) = near.split();
    for round in 0..200u32 {
        let request = Bytes::copy_from_slice(&round.to_be_bytes());
        sender.send(request.clone(), Priority::NORMAL).await.unwrap();
        let answer = timeout(PATIENCE, receiver.recv()).await.expect("nothing holds the answer back").unwrap();
        assert_eq!(answer.unwrap().payload, request);
    }
    sender.finish().await.unwrap();
    assert_eq!(receiver.recv().await.unwrap(), None);
    answering.await.unwrap();
}

#[tokio::test]
async fn an_urgent_message_overtakes_what_waits() {
    let options = options().window(64 << 20).send_buffer(64 << 20);
    let (mut near, far) = message_pair(&options).await;
    let bulk = Bytes::from(pattern(8 << 20));
    for _ in 0..4 {
        near.send(bulk.clone(), Priority::LOWEST).await.unwrap();
    }
    near.send(Bytes::from_static(b"now"), Priority::HIGHEST).await.unwrap();
    let (_sender, mut receiver) = far.split();
    let mut order = Vec::new();
    for _ in 0..5 {
        order.push(receiver.recv().await.unwrap().unwrap().priority);
    }
    let urgent = order.iter().position(|priority| *priority == Priority::HIGHEST).unwrap();
    assert!(urgent < 4, "the urgent message came last");
}

#[tokio::test]
async fn error_for_a_message_beyond_the_peers_window() {
    let (mut near, _far) = message_pair(&options().window(1 << 20)).await;
    let error = near.send(Bytes::from(vec![0; 1 << 20]), Priority::NORMAL).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    let said = error.get_ref().and_then(|error| error.downcast_ref::<MessageTooLong>()).unwrap();
    assert_eq!(*said, MessageTooLong { length: 1 << 20, longest: 785_408, window: 1 << 20 });
    assert!(!error.to_string().contains("peer's window"), "this end's bound may be the smaller one: {error}");
    near.send(Bytes::from(vec![0; 785_408]), Priority::NORMAL).await.unwrap();
}

/// Each message waits until the one before it is received.
#[tokio::test]
async fn messages_as_long_as_the_window_allows() {
    let options = options().window(1 << 20);
    let (near, far) = message_pair(&options).await;
    let source = Bytes::from(pattern(1 << 20));
    let lengths: Vec<usize> = (0..30).map(|index| if index % 3 == 1 { 10 } else { 785_408 }).collect();
    let writer = tokio::spawn(send_all(near, source.clone(), lengths.clone()));
    let (mut sender, mut receiver) = far.split();
    let received = receive_all(&mut receiver, &source, &lengths);
    timeout(Duration::from_secs(30), received).await.expect("the sender learns of the room");
    sender.finish().await.unwrap();
    writer.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_sender_waits_while_no_task_receives() {
    let options = options().longest_chunk(16 << 10).window(64 << 10).send_buffer(32 << 10);
    let (mut near, mut far) = message_pair(&options).await;
    let message = Bytes::from(pattern(1_000));
    let (mut sent, mut refused) = (0, 0);
    // A lane may soon take waiting bytes. Only a message that is refused for long shows that the window
    // and the buffer are full.
    while refused < 100 {
        match near.try_send(message.clone(), Priority::NORMAL) {
            Ok(()) => (sent, refused) = (sent + 1, 0),
            Err(TrySendError::Full(back)) if back == message => refused += 1,
            other => panic!("{other:?}"),
        }
        assert!(sent <= 100, "{sent} messages were taken, more than the window and the buffer hold");
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    let receiving = tokio::spawn(async move {
        let mut received = 0;
        while let Some(got) = far.recv().await.unwrap() {
            assert_eq!(got.payload.len(), 1_000);
            received += 1;
        }
        far.close().await.unwrap();
        received
    });
    near.send(message, Priority::NORMAL).await.unwrap();
    near.close().await.unwrap();
    assert_eq!(receiving.await.unwrap(), sent + 1);
}

#[tokio::test]
async fn bytes_at_one_end_and_messages_at_the_other() {
    let (near, mut far) = pair(&rails(2), &options()).await;
    let mut near = near.into_messages().unwrap();
    near.send(Bytes::from_static(b"a message"), Priority::NORMAL).await.unwrap();
    let error = timeout(PATIENCE, far.read_u8()).await.expect("it does not hang").unwrap_err();
    let form = Violation::Form { arrived: Form::Messages, expected: Form::Bytes };
    assert_eq!(failure(&error), &Failure::Violation(form));
    let error = timeout(PATIENCE, near.recv()).await.expect("it does not hang").unwrap_err();
    assert_eq!(failure(&error), &Failure::Reset(ResetReason::Mismatch));
    assert!(error.to_string().contains("bytes or messages"), "{error}");
}

#[tokio::test]
async fn bytes_before_a_stream_of_messages() {
    let (mut near, far) = pair(&rails(2), &options()).await;
    near.write_all(b"bytes").await.unwrap();
    let arrived = async {
        while far.stats().receive_window.used_bytes == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, arrived).await.expect("the bytes arrive");
    let error = far.into_messages().unwrap_err();
    let form = Violation::Form { arrived: Form::Bytes, expected: Form::Messages };
    assert_eq!(failure(&error), &Failure::Violation(form));
    let refused = near.into_messages().unwrap_err();
    let is_reset = refused.get_ref().is_some_and(|error| error.is::<StreamError>() || error.is::<NotForMessages>());
    assert!(is_reset, "{refused}");
}

#[tokio::test]
async fn messages_to_an_end_that_chooses_late() {
    let rails = rails(2);
    let (listener, addresses) = listener(&rails, &options()).await;
    let near = MultiRailStream::connect(&rails, &addresses, &options()).await.unwrap();
    let mut near = near.into_messages().unwrap();
    near.send(Bytes::from(vec![5; 1 << 20]), Priority::NORMAL).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let mut far = listener.accept().await.unwrap().into_messages().unwrap();
    assert_eq!(far.recv().await.unwrap().unwrap().payload.len(), 1 << 20);
    let (closed, last) = tokio::join!(near.close(), async {
        let last = far.recv().await;
        far.close().await.unwrap();
        last
    });
    closed.unwrap();
    assert_eq!(last.unwrap(), None);
}

#[tokio::test]
async fn one_end_alone_settles_no_use() {
    let (mut near, far) = pair(&rails(2), &options()).await;
    let finishing = tokio::spawn(async move {
        near.shutdown().await.unwrap();
        let _ = near.read_u8().await;
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let mut far = far.into_messages().unwrap();
    assert_eq!(far.recv().await.unwrap(), None);
    finishing.abort();
}

#[tokio::test]
async fn small_messages_pass_a_window_of_one_chunk() {
    let narrow = options().longest_chunk(4_096).window(4_096);
    let (mut near, mut far) = message_pair(&narrow).await;
    for length in [2_000, 2_000, 0, 1_020, 1_020, 1_020, 2_000] {
        near.send(Bytes::from(vec![7; length]), Priority::NORMAL).await.unwrap();
    }
    for length in [2_000, 2_000, 0, 1_020, 1_020, 1_020, 2_000] {
        let received = timeout(PATIENCE, far.recv()).await.expect("it does not hang");
        assert_eq!(received.unwrap().map(|message| message.payload.len()), Some(length));
    }
}

#[tokio::test]
async fn aborted_messages_are_an_error_to_the_peer() {
    let (mut near, mut far) = message_pair(&options()).await;
    near.send(Bytes::from_static(b"half of it"), Priority::NORMAL).await.unwrap();
    assert!(far.recv().await.unwrap().is_some());
    near.abort();
    let error = timeout(PATIENCE, far.recv()).await.expect("it does not hang").unwrap_err();
    assert_eq!(failure(&error), &Failure::Reset(ResetReason::Dropped));
}

#[tokio::test]
async fn sealed_messages_are_opened_in_their_own_buffers() {
    let sealed = StreamOptions::new(Security::encrypted(secret())).policy(Policy::Static);
    let (near, far, relays) = relayed_pair(&rails(2), &sealed).await;
    let (near, far) = (near.into_messages().unwrap(), far.into_messages().unwrap());
    let source = Bytes::from(pattern(9 << 20));
    let lengths: Vec<usize> = (0..60).map(|index| if index % 3 == 0 { 2_000_000 } else { index * 900 }).collect();
    let writer = tokio::spawn(send_all(near, source.clone(), lengths.clone()));
    let (mut sender, mut receiver) = far.split();
    let cut = async {
        tokio::time::sleep(Duration::from_millis(60)).await;
        relays[1].cut();
    };
    tokio::join!(receive_all(&mut receiver, &source, &lengths), cut);
    writer.await.unwrap().unwrap();
    sender.finish().await.unwrap();
}

/// The peer lives, receives nothing or sends no end, and keeps its end open.
#[tokio::test]
async fn close_without_progress_ends_at_its_limit() {
    let small = options().longest_chunk(16 << 10).window(64 << 10).send_buffer(1 << 20);
    for (count, expected) in [(20, "the peer has taken none of the last"), (0, "it has not ended its direction")] {
        let (mut near, _far) = message_pair(&small.clone().close_timeout(Duration::from_millis(50))).await;
        for _ in 0..count {
            near.send(Bytes::from(pattern(40 << 10)), Priority::NORMAL).await.unwrap();
        }
        let error = timeout(PATIENCE, near.close()).await.expect("it does not wait for ever").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(error.to_string().contains(expected), "{error}");
    }
}

struct Woken(Notify);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

#[tokio::test]
async fn a_send_that_waits_is_woken_beside_try_send() {
    let small = options().longest_chunk(16 << 10).window(64 << 10).send_buffer(64 << 10);
    let (near, far) = message_pair(&small).await;
    let ((mut sender, _receiver), (_sender, mut receiver)) = (near.split(), far.split());
    let message = Bytes::from(pattern(40 << 10));
    let mut sent = 0;
    let woken = Arc::new(Woken(Notify::new()));
    let waker = woken.clone().into();
    let mut waiting = Some(message.clone());
    loop {
        let mut context = Context::from_waker(&waker);
        while sender.poll_send(&mut context, &mut waiting, Priority::NORMAL).is_ready() {
            (sent, waiting) = (sent + 1, Some(message.clone()));
        }
        match sender.try_send(message.clone(), Priority::NORMAL) {
            Ok(()) => sent += 1,
            Err(TrySendError::Full(_)) => break,
            Err(error) => panic!("{error}"),
        }
    }
    for _ in 0..sent {
        timeout(PATIENCE, receiver.recv()).await.expect("it arrives").unwrap().unwrap();
    }
    timeout(PATIENCE, woken.0.notified()).await.expect("the task that waits is woken");
}

/// Each sender waits many times, for the window and the buffer hold a few messages.
#[tokio::test]
async fn clones_of_a_sender_wait_side_by_side() {
    let small = options().longest_chunk(16 << 10).window(64 << 10).send_buffer(32 << 10);
    let (near, far) = message_pair(&small).await;
    let ((sender, _near), (_far, mut receiver)) = (near.split(), far.split());
    let sending: Vec<_> = (0..8_u8)
        .map(|name| {
            let mut sender = sender.clone();
            tokio::spawn(async move {
                for number in 0..50_u8 {
                    let mut message = vec![name; 4_000];
                    message[0] = number;
                    sender.send(message.into(), Priority::NORMAL).await.unwrap();
                }
            })
        })
        .collect();
    drop(sender);
    let mut next = [0; 8];
    while let Some(received) = timeout(PATIENCE, receiver.recv()).await.expect("one after the other").unwrap() {
        let next = &mut next[usize::from(received.payload[1])];
        assert_eq!(received.payload[0], *next, "messages of one sender stay in order");
        *next += 1;
    }
    assert_eq!(next, [50; 8], "the stream ends with the last sender");
    for sending in sending {
        sending.await.unwrap();
    }
}

/// A task that waits to send, and gives up, does not keep the stream from its end.
#[tokio::test]
async fn dropped_waiting_senders_end_the_stream() {
    let small = options().longest_chunk(16 << 10).window(64 << 10).send_buffer(32 << 10);
    let (near, far) = message_pair(&small).await;
    let ((mut sender, _near), (_far, mut receiver)) = (near.split(), far.split());
    let mut clone = sender.clone();
    let message = Bytes::from(pattern(40 << 10));
    for sender in [&mut sender, &mut clone] {
        while timeout(Duration::from_millis(50), sender.send(message.clone(), Priority::NORMAL)).await.is_ok() {}
    }
    drop((sender, clone));
    while let Some(received) = timeout(PATIENCE, receiver.recv()).await.expect("the end comes").unwrap() {
        assert_eq!(received.payload, message);
    }
}

#[tokio::test]
async fn sink_and_stream_carry_messages() {
    let (near, far) = message_pair(&options()).await;
    let ((mut sink, _near), (_far, stream)) = (near.split(), far.split());
    let sent: Vec<Bytes> = [0, 1, 500, 300_000].map(|length| Bytes::from(pattern(length))).to_vec();
    let urgent = sent.iter().map(|message| Ok((message.clone(), Priority::HIGHEST)));
    let sending = async {
        sink.send_all(&mut stream::iter(urgent)).await.unwrap();
        sink.close().await.unwrap();
        let refused = sink.feed((Bytes::new(), Priority::NORMAL)).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::BrokenPipe);
    };
    let receiving = stream.map(|message| message.unwrap().payload).collect::<Vec<Bytes>>();
    let (_, received) = timeout(PATIENCE, async { tokio::join!(sending, receiving) }).await.unwrap();
    assert!(received == sent);
}

#[tokio::test]
async fn error_is_the_last_item_of_a_stream() {
    let (near, far) = message_pair(&options()).await;
    near.abort();
    let (_sender, stream) = far.split();
    let items: Vec<_> = timeout(PATIENCE, stream.collect()).await.unwrap();
    assert!(matches!(&items[..], [Err(error)] if *failure(error) == Failure::Reset(ResetReason::Dropped)), "{items:?}");
}
