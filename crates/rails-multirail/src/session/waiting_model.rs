//! The waiting for a session's events, under the interleavings of the threads that take part, with
//! at most three preemptions each, by loom.

/// A session's state under loom's lock, and an event that keeps tokio's promises.
mod sync {
    use loom::sync::Mutex;
    use std::{
        pin::Pin,
        sync::Arc,
        task::{Context, Poll, Waker},
    };

    pub(super) struct StreamShared {
        pub(super) state: Mutex<StreamState>,
    }

    /// Values that wait for tasks.
    #[derive(Default)]
    pub(super) struct StreamState {
        pub(super) values: u32,
        pub(super) is_over: bool,
    }

    /// A lane, of which the model has none.
    pub(super) struct Lane;

    impl StreamState {
        pub(super) fn take_arrived(&mut self) -> Option<Lane> {
            None
        }
    }

    impl StreamShared {
        pub(super) fn take_in(&self, _: &Lane) {
            unreachable!("the model has no lane");
        }

        pub(super) fn with<T>(&self, act: impl FnOnce(&mut StreamState) -> T) -> T {
            act(&mut self.state.lock().unwrap())
        }
    }

    /// As [`tokio::sync::Notify`] wakes all: each future is ready that was made before a call of
    /// `notify_waiters`.
    #[derive(Default)]
    pub(super) struct Notify(Arc<Mutex<Notified>>);

    #[derive(Default)]
    struct Notified {
        calls: u64,
        waiting: Vec<Waker>,
    }

    pub(super) struct Waiting {
        event: Arc<Mutex<Notified>>,
        seen: u64,
    }

    impl Notify {
        pub(super) fn notified(&self) -> Waiting {
            Waiting { event: self.0.clone(), seen: self.0.lock().unwrap().calls }
        }

        pub(super) fn notify_waiters(&self) {
            let waiting = {
                let mut event = self.0.lock().unwrap();
                event.calls += 1;
                std::mem::take(&mut event.waiting)
            };
            waiting.into_iter().for_each(Waker::wake);
        }
    }

    impl Waiting {
        /// Only single wakes ask for it.
        pub(super) fn enable(self: Pin<&mut Self>) -> bool {
            false
        }
    }

    impl Future for Waiting {
        type Output = ();

        fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
            let mut event = self.event.lock().unwrap();
            if event.calls > self.seen {
                return Poll::Ready(());
            }
            event.waiting.push(context.waker().clone());
            Poll::Pending
        }
    }

    pub(super) async fn among_others<T>(event: impl Future<Output = T>) -> T {
        event.await
    }
}

#[path = "waiting.rs"]
#[expect(clippy::duplicate_mod, reason = "the same source over another lock and event")]
mod waiting;

use loom::{future::block_on, model::Builder, thread};
use std::{
    future::poll_fn,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};
use sync::{Notify, StreamShared};
use waiting::wait_for;

struct Session {
    shared: StreamShared,
    event: Notify,
}

impl Session {
    fn new() -> Arc<Self> {
        Arc::new(Self { shared: StreamShared { state: loom::sync::Mutex::default() }, event: Notify::default() })
    }

    /// Waits for a value: whether one came before the end.
    async fn take(&self) -> bool {
        wait_for(&self.shared, &self.event, |state| match state.values.checked_sub(1) {
            Some(left) => {
                state.values = left;
                Some(true)
            }
            None => state.is_over.then_some(false),
        })
        .await
    }

    fn give(&self, values: u32) {
        self.shared.with(|state| state.values += values);
        self.event.notify_waiters();
    }

    fn end(&self) {
        self.shared.with(|state| state.is_over = true);
        self.event.notify_waiters();
    }
}

/// Runs the model. A task that is not woken stands still, which loom finds.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

#[test]
fn each_of_two_tasks_gets_a_value() {
    check(|| {
        let session = Session::new();
        let [other, giver] = [session.clone(), session.clone()];
        let other = thread::spawn(move || block_on(other.take()));
        let giver = thread::spawn(move || (0..2).for_each(|_| giver.give(1)));
        assert!(block_on(session.take()));
        assert!(other.join().unwrap());
        giver.join().unwrap();
    });
}

/// Of two tasks one gets the value, and the other hears of the end.
#[test]
fn every_task_hears_of_the_end() {
    check(|| {
        let session = Session::new();
        let [other, giver] = [session.clone(), session.clone()];
        let other = thread::spawn(move || block_on(other.take()));
        let giver = thread::spawn(move || {
            giver.give(1);
            giver.end();
        });
        let got = [block_on(session.take()), other.join().unwrap()];
        assert_eq!(got.into_iter().filter(|got| *got).count(), 1);
        giver.join().unwrap();
    });
}

/// A task that gives up, before or after it was woken, leaves the value to the other.
#[test]
fn a_task_that_gives_up_leaves_its_value_to_another() {
    check(|| {
        let session = Session::new();
        let [other, giver] = [session.clone(), session.clone()];
        let giver = thread::spawn(move || giver.give(1));
        let other = thread::spawn(move || {
            let mut taking = pin!(other.take());
            let polled = taking.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            // A task that has got a value gives it back, for the other waits without end.
            if polled == Poll::Ready(true) {
                other.give(1);
            }
        });
        let mut taking = pin!(session.take());
        assert!(block_on(poll_fn(|context| taking.as_mut().poll(context))));
        other.join().unwrap();
        giver.join().unwrap();
    });
}
