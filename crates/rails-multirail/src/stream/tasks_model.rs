//! The tasks that wait for streams, under the interleavings of the threads that take part, with at
//! most three preemptions each, by loom.

/// loom's atomics and waker, in place of the standard library's.
mod sync {
    pub(super) use loom::sync::atomic::{AtomicBool, Ordering};
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

        pub(super) fn take(&self) -> Option<Waker> {
            self.0.take_waker()
        }
    }
}

mod wakers {
    pub(super) fn wake(waiting: &super::sync::AtomicWaker) {
        if let Some(waker) = waiting.take() {
            waker.wake();
        }
    }
}

#[path = "tasks.rs"]
#[expect(clippy::duplicate_mod, reason = "the same source over other atomics")]
mod tasks;

use loom::{future::block_on, model::Builder, sync::Mutex, thread};
use rails_proto::stream_number::StreamNumber;
use std::{collections::BTreeMap, future::poll_fn, sync::Arc, task::Poll};
use tasks::{StreamTasks, Taker, TaskTable, Woken};

/// A session as its tasks see it.
struct Shared(Mutex<State>);

#[derive(Default)]
struct State {
    tasks: TaskTable,
    /// What each stream has to read, and room to write.
    bytes: BTreeMap<StreamNumber, u32>,
    room: BTreeMap<StreamNumber, u32>,
    is_over: bool,
    /// Bytes of that stream have arrived, and a reader is to receive them.
    arrived: Option<StreamNumber>,
}

/// What a thread of a lane does to a stream.
#[derive(Clone, Copy)]
enum Event {
    Bytes,
    Room,
    /// The session ends.
    End,
}

impl Shared {
    /// A session with streams of these numbers of handles.
    fn new<const N: usize>(handles: [usize; N]) -> (Arc<Self>, [Arc<StreamTasks>; N]) {
        let mut state = State::default();
        let mut numbers = (0..).step_by(4).map(StreamNumber);
        let tasks = handles.map(|handles| state.tasks.add(numbers.next().expect("there are enough"), handles));
        (Arc::new(Self(Mutex::new(state))), tasks)
    }

    /// Changes a stream, and wakes the tasks that wait for that once the lock is free.
    fn change(&self, events: &[(&StreamTasks, Event)]) {
        let mut state = self.0.lock().unwrap();
        let mut woken: Vec<Woken> = Vec::new();
        for (tasks, event) in events {
            let number = tasks.number();
            let (reader, writer) = match event {
                Event::Bytes => {
                    *state.bytes.entry(number).or_default() += 1;
                    (true, false)
                }
                Event::Room => {
                    *state.room.entry(number).or_default() += 1;
                    (false, true)
                }
                Event::End => {
                    state.is_over = true;
                    (true, true)
                }
            };
            woken.extend(state.tasks.take(number, reader, writer));
        }
        drop(state);
        woken.into_iter().for_each(Woken::wake);
    }

    /// Bytes of a stream arrive on a lane: the reader that began to wait last receives them, or the
    /// lane.
    fn arrive(&self, of: &StreamTasks) {
        let mut state = self.0.lock().unwrap();
        let taker = state.tasks.take_latest(false);
        if taker.is_some() {
            state.arrived = Some(of.number());
        }
        drop(state);
        match taker {
            Some(Taker::Reader(reader)) => reader.wake_reader(),
            Some(Taker::Acceptor) => unreachable!("no task waits for a stream of the peer"),
            None => self.change(&[(of, Event::Bytes)]),
        }
    }

    /// Reads once: whether there were bytes before the end. A reader that finds bytes on a lane
    /// receives them, of whichever of `all` streams they are.
    fn read(&self, tasks: &Arc<StreamTasks>, all: &[Arc<StreamTasks>]) -> bool {
        block_on(poll_fn(|context| {
            loop {
                match self.look(tasks, all) {
                    Poll::Pending if tasks.register_reader(context.waker()) => return Poll::Pending,
                    Poll::Pending => {}
                    ready => return ready,
                }
            }
        }))
    }

    fn look(&self, tasks: &Arc<StreamTasks>, all: &[Arc<StreamTasks>]) -> Poll<bool> {
        loop {
            let mut state = self.0.lock().unwrap();
            if let Some(bytes) = state.bytes.get_mut(&tasks.number()).filter(|bytes| **bytes > 0) {
                *bytes -= 1;
                return Poll::Ready(true);
            }
            if let Some(number) = state.arrived.take() {
                drop(state);
                let of = all.iter().find(|tasks| tasks.number() == number).expect("it is one of them");
                self.change(&[(of, Event::Bytes)]);
                continue;
            }
            if state.is_over {
                return Poll::Ready(false);
            }
            state.tasks.add_reader(tasks);
            return Poll::Pending;
        }
    }

    /// Writes once: whether there was room before the end.
    fn write(&self, tasks: &StreamTasks) -> bool {
        let look = || {
            let mut state = self.0.lock().unwrap();
            if let Some(room) = state.room.get_mut(&tasks.number()).filter(|room| **room > 0) {
                *room -= 1;
                return Poll::Ready(true);
            }
            if state.is_over {
                return Poll::Ready(false);
            }
            tasks.note_writer();
            Poll::Pending
        };
        block_on(poll_fn(|context| tasks.poll_as_writer(context, look)))
    }

    /// Whether a reader counts as waiting.
    fn has_reader(&self) -> bool {
        self.0.lock().unwrap().tasks.take_latest(false).is_some()
    }
}

/// Runs the model. A task that is not woken stands still, which loom finds.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

#[test]
fn arrivals_go_to_the_task_that_began_to_wait_last() {
    check(|| {
        let mut table = TaskTable::default();
        let [first, second, third] = [0, 1, 6].map(|number| table.add(StreamNumber(number), 1));
        let take = |table: &mut TaskTable, accepting| match table.take_latest(accepting) {
            Some(Taker::Reader(tasks)) => Some(Some(tasks.number().0)),
            Some(Taker::Acceptor) => Some(None),
            None => None,
        };
        assert_eq!(take(&mut table, false), None, "none waits");
        table.add_reader(&second);
        table.add_reader(&second);
        table.add_reader(&third);
        assert_eq!(take(&mut table, false), Some(Some(6)));
        assert_eq!(take(&mut table, true), Some(Some(1)), "it is the only reader");
        assert_eq!(take(&mut table, true), Some(None));
        table.add_reader(&first);
        table.add_reader(&third);
        table.note_acceptor();
        assert_eq!(take(&mut table, true), Some(None));
        assert_eq!(take(&mut table, false), None, "two wait, and neither is known to be the last");
        assert!(table.take(StreamNumber(6), true, true).is_some());
        assert!(table.take(StreamNumber(6), true, true).is_none(), "it is woken once");
        table.release(&third, true);
        assert_eq!(take(&mut table, false), Some(Some(0)));
        assert!(table.take(StreamNumber(6), true, true).is_none(), "the stream has no handle");
    });
}

#[test]
fn a_reader_and_a_writer_of_one_stream_are_woken() {
    check(|| {
        let (shared, [tasks]) = Shared::new([2]);
        let writer = {
            let (shared, tasks) = (shared.clone(), tasks.clone());
            thread::spawn(move || shared.write(&tasks))
        };
        let lane = {
            let (shared, tasks) = (shared.clone(), tasks.clone());
            thread::spawn(move || shared.change(&[(&tasks, Event::Bytes), (&tasks, Event::Room)]))
        };
        assert!(shared.read(&tasks, &[]));
        assert!(writer.join().unwrap());
        lane.join().unwrap();
        assert!(!shared.has_reader());
    });
}

#[test]
fn a_reader_hears_of_each_of_two_lanes() {
    check(|| {
        let (shared, [tasks]) = Shared::new([1]);
        let lanes = [(); 2].map(|()| {
            let (shared, tasks) = (shared.clone(), tasks.clone());
            thread::spawn(move || shared.change(&[(&tasks, Event::Bytes)]))
        });
        assert!(shared.read(&tasks, &[]) && shared.read(&tasks, &[]));
        lanes.into_iter().for_each(|lane| lane.join().unwrap());
        assert!(!shared.has_reader());
    });
}

#[test]
fn everybody_hears_of_the_end() {
    check(|| {
        let (shared, [tasks, other]) = Shared::new([2, 1]);
        let writer = {
            let (shared, tasks) = (shared.clone(), tasks.clone());
            thread::spawn(move || shared.write(&tasks))
        };
        let lane = {
            let (shared, tasks) = (shared.clone(), tasks.clone());
            thread::spawn(move || shared.change(&[(&tasks, Event::End), (&other, Event::End)]))
        };
        assert!(!shared.read(&tasks, &[]));
        assert!(!writer.join().unwrap());
        lane.join().unwrap();
    });
}

/// The only reader that waits receives what is for the other, which comes at that moment.
#[test]
fn an_arrival_reaches_the_stream_that_it_is_of() {
    check(|| {
        let (shared, all) = Shared::new([1, 1]);
        let all = Arc::new(all);
        let other = {
            let (shared, all) = (shared.clone(), all.clone());
            thread::spawn(move || {
                let is_read = shared.read(&all[1], &*all);
                // The other reader waits for the end.
                shared.change(&[(&all[0], Event::End)]);
                is_read
            })
        };
        let lane = {
            let (shared, all) = (shared.clone(), all.clone());
            thread::spawn(move || shared.arrive(&all[1]))
        };
        assert!(!shared.read(&all[0], &*all));
        assert!(other.join().unwrap());
        lane.join().unwrap();
        assert!(!shared.has_reader());
    });
}

/// A handle that is dropped while a lane wakes its reader leaves no count behind.
#[test]
fn a_handle_is_dropped_while_it_is_woken() {
    check(|| {
        let (shared, [dropped, kept]) = Shared::new([1, 1]);
        let lane = {
            let (shared, dropped, kept) = (shared.clone(), dropped.clone(), kept.clone());
            thread::spawn(move || shared.change(&[(&dropped, Event::Bytes), (&kept, Event::Bytes)]))
        };
        let dropping = {
            let (shared, dropped) = (shared.clone(), dropped.clone());
            thread::spawn(move || {
                shared.0.lock().unwrap().tasks.add_reader(&dropped);
                shared.0.lock().unwrap().tasks.release(&dropped, true);
            })
        };
        assert!(shared.read(&kept, &[]));
        lane.join().unwrap();
        dropping.join().unwrap();
        let mut state = shared.0.lock().unwrap();
        assert!(state.tasks.take_latest(false).is_none());
        state.tasks.add_reader(&kept);
        let taken = state.tasks.take_latest(false);
        assert!(matches!(taken, Some(Taker::Reader(reader)) if reader.number() == kept.number()));
    });
}
