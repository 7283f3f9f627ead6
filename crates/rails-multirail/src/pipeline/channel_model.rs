//! Channels under the interleavings of their two ends, with at most three preemptions each, by
//! loom.

/// loom's atomics and waker in place of the standard library's, and a ring over them with the
/// orderings of rtrb's.
mod sync {
    use loom::sync::atomic::AtomicUsize;
    pub(super) use loom::sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU8, Ordering, fence},
    };
    use std::task::Waker;

    #[derive(Debug)]
    pub(super) struct AtomicWaker(loom::future::AtomicWaker);

    impl AtomicWaker {
        pub(super) fn new() -> Self {
            Self(loom::future::AtomicWaker::new())
        }

        pub(super) fn register(&self, waker: &Waker) {
            self.0.register_by_ref(waker);
        }

        pub(super) fn wake(&self) {
            self.0.wake();
        }
    }

    pub(super) struct RingBuffer<T> {
        /// loom does not know these locks, so they order nothing. Reading a slot before its item is
        /// there panics.
        slots: Vec<std::sync::Mutex<Option<T>>>,
        head: AtomicUsize,
        tail: AtomicUsize,
    }

    pub(super) struct Producer<T>(Arc<RingBuffer<T>>);
    pub(super) struct Consumer<T>(Arc<RingBuffer<T>>);
    pub(super) struct Empty;
    pub(super) enum PushError<T> {
        Full(T),
    }

    impl<T> RingBuffer<T> {
        #[expect(clippy::new_ret_no_self, reason = "rtrb has it so")]
        pub(super) fn new(length: usize) -> (Producer<T>, Consumer<T>) {
            let slots = (0..length).map(|_| std::sync::Mutex::new(None)).collect();
            let ring = Arc::new(Self { slots, head: AtomicUsize::new(0), tail: AtomicUsize::new(0) });
            (Producer(ring.clone()), Consumer(ring))
        }

        fn slot(&self, index: usize) -> &std::sync::Mutex<Option<T>> {
            &self.slots[index % self.slots.len()]
        }
    }

    impl<T> Producer<T> {
        pub(super) fn push(&mut self, item: T) -> Result<(), PushError<T>> {
            let tail = self.0.tail.load(Ordering::Relaxed);
            if tail - self.0.head.load(Ordering::Acquire) == self.0.slots.len() {
                return Err(PushError::Full(item));
            }
            let before = self.0.slot(tail).lock().unwrap().replace(item);
            assert!(before.is_none(), "the slot was free");
            self.0.tail.store(tail + 1, Ordering::Release);
            Ok(())
        }
    }

    impl<T> Consumer<T> {
        pub(super) fn pop(&mut self) -> Result<T, Empty> {
            let head = self.0.head.load(Ordering::Relaxed);
            if self.0.tail.load(Ordering::Acquire) == head {
                return Err(Empty);
            }
            let item = self.0.slot(head).lock().unwrap().take().expect("the slot was filled");
            self.0.head.store(head + 1, Ordering::Release);
            Ok(item)
        }

        pub(super) fn is_empty(&self) -> bool {
            self.0.tail.load(Ordering::Acquire) == self.0.head.load(Ordering::Relaxed)
        }
    }
}

#[path = "channel.rs"]
#[expect(clippy::duplicate_mod, reason = "the same source over other atomics")]
mod channel;
#[path = "signal.rs"]
#[expect(clippy::duplicate_mod, reason = "the same source over other atomics")]
mod signal;

use channel::{Ending, NotSent, Received, Receiver, Sender, channel};
use loom::{future::block_on, thread};
use std::{future::poll_fn, num::NonZeroUsize, sync::Arc};

/// Every interleaving with at most three preemptions: all of them take hours.
fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}

fn of_length(length: usize) -> (Sender<Arc<()>>, Receiver<Arc<()>>) {
    channel(NonZeroUsize::new(length).unwrap())
}

async fn send(sender: &mut Sender<Arc<()>>, item: Arc<()>) -> Result<(), Arc<()>> {
    let mut item = Some(item);
    poll_fn(|context| sender.poll_send(context, &mut item)).await
}

async fn receive(receiver: &mut Receiver<Arc<()>>) -> Received<Arc<()>> {
    poll_fn(|context| receiver.poll_receive(context)).await
}

/// Neither end sleeps while the other has something for it: loom fails where all threads sleep.
#[test]
fn items_and_end_wake_the_receiver() {
    model(|| {
        let (mut sender, mut receiver) = of_length(1);
        let sending = thread::spawn(move || {
            block_on(async {
                for _ in 0..2 {
                    send(&mut sender, Arc::new(())).await.expect("it is open");
                }
            });
            sender.end().close(Ending::Finished);
        });
        let received = block_on(async {
            let mut count = 0;
            loop {
                match receive(&mut receiver).await {
                    Received::Item(_) => count += 1,
                    Received::Ended(ending) => return (count, ending),
                }
            }
        });
        assert_eq!(received, (2, Ending::Finished));
        assert!(receiver.is_at_end());
        sending.join().unwrap();
    });
}

/// A receiver that takes items in batches gets all of them, and its sender hears of the room.
#[test]
fn batches_wake_the_sender() {
    model(|| {
        // Eight in the ring, and two at a time off it.
        let (mut sender, mut receiver) = of_length(8);
        for _ in 0..8 {
            assert!(sender.try_send(Arc::new(())).is_ok(), "there is room");
        }
        assert!(matches!(sender.try_send(Arc::new(())), Err(NotSent::Full(_))));
        let sending = thread::spawn(move || {
            block_on(send(&mut sender, Arc::new(()))).expect("it is open");
            sender.end().close(Ending::Finished);
        });
        let received = block_on(async {
            let mut count = 0;
            while let Received::Item(_) = receive(&mut receiver).await {
                count += 1;
            }
            count
        });
        assert_eq!(received, 9);
        sending.join().unwrap();
    });
}

/// A sender that waits for room hears that the receiver has closed, and no item is left behind.
#[test]
fn a_closed_receiver_wakes_the_sender() {
    model(|| {
        let item = Arc::new(());
        let (mut sender, mut receiver) = of_length(1);
        let sending = {
            let item = item.clone();
            thread::spawn(move || {
                let mut sent = 0;
                block_on(async {
                    while send(&mut sender, item.clone()).await.is_ok() {
                        sent += 1;
                    }
                });
                assert!(matches!(sender.try_send(item), Err(NotSent::Closed(_))));
                sent
            })
        };
        let first = block_on(receive(&mut receiver));
        assert!(matches!(first, Received::Item(_)));
        receiver.close();
        drop((first, receiver));
        let sent = sending.join().unwrap();
        assert!((1..=3).contains(&sent), "{sent} items were sent");
        assert_eq!(Arc::strong_count(&item), 1, "every item was dropped");
    });
}

/// A stage that leaks its receiver closes by its end: no item stays in the ring, and the sender
/// refuses more.
#[test]
fn an_end_empties_the_ring() {
    model(|| {
        let item = Arc::new(());
        let (mut sender, receiver) = of_length(2);
        let end = receiver.end();
        let sending = {
            let item = item.clone();
            thread::spawn(move || while sender.try_send(item.clone()).is_ok() {})
        };
        end.close();
        sending.join().unwrap();
        assert_eq!(Arc::strong_count(&item), 1, "every item was dropped");
        drop(receiver);
    });
}

/// A sender sends nothing after its own end.
#[test]
fn an_ended_sender_refuses_items() {
    model(|| {
        let (mut sender, _receiver) = of_length(1);
        sender.end().close(Ending::Finished);
        assert!(matches!(sender.try_send(Arc::new(())), Err(NotSent::Closed(_))));
    });
}

/// A sender that waits for room in one task hears of its end by another.
#[test]
fn an_ended_sender_does_not_wait() {
    model(|| {
        let (mut sender, _receiver) = of_length(1);
        assert!(sender.try_send(Arc::new(())).is_ok(), "there is room");
        let end = sender.end();
        let ending = thread::spawn(move || end.close(Ending::Finished));
        assert!(block_on(send(&mut sender, Arc::new(()))).is_err());
        ending.join().unwrap();
    });
}

/// A sender that waits for something else than room hears that the receiver has closed.
#[test]
fn an_end_wakes_a_sender_that_waits_for_it() {
    model(|| {
        let (sender, receiver) = of_length(1);
        let (closing, end) = (sender.closing(), receiver.end());
        let waiting = thread::spawn(move || {
            block_on(poll_fn(|context| {
                closing.wait(context.waker());
                if closing.is_closed() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
            }));
        });
        end.close();
        waiting.join().unwrap();
    });
}

/// A receiver tells a sender's failure from an orderly end, after all of its items.
#[test]
fn a_broken_end_comes_after_the_items() {
    model(|| {
        let (mut sender, mut receiver) = of_length(2);
        let sending = thread::spawn(move || {
            assert!(sender.try_send(Arc::new(())).is_ok(), "there is room");
            sender.end().close(Ending::Broken);
            sender.end().close(Ending::Finished);
        });
        block_on(async {
            assert!(matches!(receive(&mut receiver).await, Received::Item(_)));
            assert!(matches!(receive(&mut receiver).await, Received::Ended(Ending::Broken)));
        });
        sending.join().unwrap();
    });
}
