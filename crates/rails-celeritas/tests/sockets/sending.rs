//! Room for messages, and the outcome of those that were sent.

use super::{PATIENCE, cut, options, pair, pair_of, pattern};
use bytes::Bytes;
use rails_celeritas::{Connection, SendError, proto::sender::MESSAGE_COST};
use rails_topo::DataSize;
use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Waker},
    time::Duration,
};
use tokio::time::timeout;

const MESSAGE: usize = 100_000;

/// The peer takes a window of bytes, and no caller receives them: the rest waits here.
#[tokio::test]
async fn sends_wait_for_room() {
    let (near, far) = pair_of(
        options().max_unsent(DataSize::bytes(10 * (MESSAGE as u64 + MESSAGE_COST))),
        options().window(DataSize::bytes(5 * MESSAGE as u64)),
    )
    .await;
    // Five are with the peer and ten wait; one may be on its way in parts.
    let filled = async {
        let mut number = 0;
        while number < 14 || far.stats().receiver.bytes < 5 * MESSAGE as u64 {
            match near.try_send(cut(&pattern(MESSAGE, number), MESSAGE)) {
                Ok(sending) => number = sending.number(),
                Err(error) => assert_eq!(error, SendError::Full),
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, filled).await.expect("there is room for 15 in all");
    let full = near.try_send(cut(&pattern(MESSAGE, 1), MESSAGE));
    assert!(matches!(full, Err(SendError::Full)), "{full:?}");

    let mut context = Context::from_waker(Waker::noop());
    let first = near.send(cut(&pattern(MESSAGE, 1), MESSAGE));
    let (second, third) =
        (near.send(vec![Bytes::from_static(b"second")]), near.send(vec![Bytes::from_static(b"third")]));
    let (mut second, mut third) = (pin!(second), pin!(third));
    {
        let mut first = pin!(first);
        assert!(first.as_mut().poll(&mut context).is_pending());
        assert!(second.as_mut().poll(&mut context).is_pending() && third.as_mut().poll(&mut context).is_pending());
    }
    assert!(second.as_mut().poll(&mut context).is_pending(), "a call that has gone makes no room");
    let receive = async {
        let (mut last, mut count) = (Vec::new(), 0);
        while last != b"third" {
            last.clone_from(&far.receive().await.unwrap().unwrap().blocks.concat());
            count += 1;
        }
        assert_eq!(count, 17, "the one that was cancelled is not among them");
    };
    let all = async { tokio::join!(second, third, receive) };
    let (second, third, ()) = timeout(PATIENCE, all).await.expect("room comes as messages are received");
    assert_eq!(third.unwrap().number(), second.unwrap().number() + 1);
}

/// The record of a message of one byte is longer than the message.
#[tokio::test]
async fn messages_of_a_byte_fill_the_room() {
    let (near, _far) = pair_of(options().max_unsent(DataSize::bytes(100 * (1 + MESSAGE_COST))), options()).await;
    let blocks = || vec![Bytes::new(), Bytes::from_static(b"1"), Bytes::new()];
    // Nothing leaves before the driver has its turn.
    for _ in 0..100 {
        drop(near.try_send(blocks()).unwrap());
    }
    assert!(matches!(near.try_send(blocks()), Err(SendError::Full)));
    // A caller that waits for room gets it.
    drop(timeout(PATIENCE, near.send(blocks())).await.expect("they leave").unwrap());
}

#[tokio::test]
async fn send_learns_of_the_end_while_it_waits() {
    let (near, far) = pair_of(options().max_unsent(DataSize::bytes(1)), options().window(DataSize::bytes(1_000))).await;
    drop(near.send(cut(&pattern(MESSAGE, 1), MESSAGE)).await.unwrap());
    let end = async {
        tokio::task::yield_now().await;
        drop(far);
    };
    let (refused, ()) = tokio::join!(timeout(PATIENCE, near.send(cut(&[1], 1))), end);
    assert!(matches!(refused.expect("it is told"), Err(SendError::Connection(_))));
}

/// The peer takes no more, so that room never comes.
#[tokio::test]
async fn send_that_waits_learns_of_the_finish() {
    let near = options().max_unsent(DataSize::bytes(1));
    let (near, _far) = pair_of(near, options().window(DataSize::bytes(1_000))).await;
    let near = Arc::new(near);
    drop(near.send(cut(&pattern(MESSAGE, 1), MESSAGE)).await.unwrap());
    let sends = [1, 2].map(|byte| {
        let near = Arc::clone(&near);
        tokio::spawn(async move { near.send(cut(&[byte], 1)).await })
    });
    tokio::task::yield_now().await;
    near.finish();
    for send in sends {
        let refused = timeout(PATIENCE, send).await.expect("it is told").unwrap();
        assert!(matches!(refused, Err(SendError::Closed)), "{refused:?}");
    }
}

/// Several threads send until they hear that the connection is closed.
#[tokio::test]
async fn sends_beside_a_finish_arrive_or_are_refused() {
    let (near, far) = pair_of(options().max_unsent(DataSize::bytes(10_000)), options()).await;
    let near = Arc::new(near);
    let senders: Vec<_> = (0..4u8)
        .map(|sender| {
            let near = Arc::clone(&near);
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                let mut sent = Vec::new();
                loop {
                    match runtime.block_on(near.send(vec![Bytes::from(vec![sender; 100])])) {
                        Ok(sending) => sent.push(sending),
                        Err(error) => return (sent, error),
                    }
                }
            })
        })
        .collect();
    let receive = async {
        let mut count = 0;
        while let Some(message) = far.receive().await.unwrap() {
            count += 1;
            assert_eq!(message.number + 1, count);
            if count == 200 {
                near.finish();
            }
        }
        count
    };
    let received = timeout(PATIENCE, receive).await.expect("the end comes");
    let mut accepted = 0;
    for sender in senders {
        let (sent, error) = sender.join().unwrap();
        assert_eq!(error, SendError::Closed);
        accepted += sent.len() as u32;
        for sending in sent {
            assert_eq!(timeout(PATIENCE, sending).await.expect("it arrives"), Ok(()));
        }
    }
    assert_eq!(received, accepted);
}

/// Bytes whose destructor takes the connection's lock.
struct Owner {
    connection: Arc<Connection>,
    dropped: Arc<AtomicUsize>,
}

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        b"owned"
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _ = self.connection.stats();
        self.dropped.fetch_add(1, Relaxed);
    }
}

/// This end frees blocks when it holds no lock: after arrival, after giving up, after a refused
/// call and at the end.
#[tokio::test]
async fn owner_of_blocks_may_use_the_connection() {
    let (near, far) = pair().await;
    let (near, dropped) = (Arc::new(near), Arc::new(AtomicUsize::new(0)));
    let blocks = || vec![Bytes::from_owner(Owner { connection: Arc::clone(&near), dropped: Arc::clone(&dropped) })];
    let (sent, received) = tokio::join!(near.try_send(blocks()).unwrap(), far.receive());
    assert_eq!((sent, received.unwrap().unwrap().blocks.concat()), (Ok(()), b"owned".to_vec()));
    assert_eq!(dropped.load(Relaxed), 1, "the memory is free when its caller learns of the arrival");
    near.try_send(blocks()).unwrap().give_up();
    assert_eq!(dropped.load(Relaxed), 2);
    let last = near.try_send(blocks()).unwrap();
    near.finish();
    assert!(matches!(near.try_send(blocks()), Err(SendError::Closed)));
    assert_eq!(dropped.load(Relaxed), 3);
    drop(far);
    let _ = timeout(PATIENCE, last).await.expect("it comes to an end");
    assert_eq!(dropped.load(Relaxed), 4);
}

/// Bytes whose destructor panics.
struct Broken;

impl AsRef<[u8]> for Broken {
    fn as_ref(&self) -> &[u8] {
        b"broken"
    }
}

impl Drop for Broken {
    fn drop(&mut self) {
        panic!("its owner is broken");
    }
}

#[tokio::test]
async fn owner_that_panics_ends_no_connection() {
    let (near, far) = pair().await;
    let first = near.try_send(vec![Bytes::from_owner(Broken)]).unwrap();
    let second = near.try_send(vec![Bytes::from_static(b"second")]).unwrap();
    let outcomes = timeout(PATIENCE, async { tokio::join!(first, second) }).await.expect("they come to an end");
    assert_eq!(outcomes, (Ok(()), Ok(())));
    assert_eq!(far.receive().await.unwrap().unwrap().blocks.concat(), b"broken");
}
