//! The handoff of arrivals under every interleaving of the threads that take part, by loom.

/// loom's atomics, in place of the standard library's.
mod sync {
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering};
}

#[path = "handoff.rs"]
#[expect(clippy::duplicate_mod, reason = "the same source over other atomics")]
mod handoff;

use handoff::Handoff;
use loom::{
    sync::{Arc, Mutex},
    thread,
};

/// A lane with a socket, a reader and a task, each as simple as the handoff allows.
struct Lane {
    handoff: Handoff,
    socket: Mutex<Socket>,
    /// Held by the thread that drives the lane.
    driven: Mutex<()>,
    /// Which of reader and task are woken, and whether the reader waits.
    wakes: Mutex<Wakes>,
}

struct Socket {
    /// Bytes that have arrived and were not received.
    bytes: u32,
    /// Whether the next arrival wakes the reader or the task.
    is_armed: bool,
}

struct Wakes {
    is_reader_waiting: bool,
    reader: bool,
    task: bool,
}

impl Lane {
    /// A lane whose arrivals were small, with a reader that waits.
    fn new() -> Arc<Self> {
        let handoff = Handoff::new();
        handoff.set_inline(true);
        Arc::new(Self {
            handoff,
            socket: Mutex::new(Socket { bytes: 0, is_armed: true }),
            driven: Mutex::new(()),
            wakes: Mutex::new(Wakes { is_reader_waiting: true, reader: false, task: false }),
        })
    }

    fn arrive(&self) {
        let mut socket = self.socket.lock().unwrap();
        socket.bytes += 1;
        let is_heard = std::mem::take(&mut socket.is_armed);
        drop(socket);
        if !is_heard {
            return;
        }
        let mut wakes = self.wakes.lock().unwrap();
        let may_pass_on = self.handoff.is_inline() && self.driven.try_lock().is_ok();
        let is_passed_on = wakes.is_reader_waiting && may_pass_on;
        if is_passed_on {
            (wakes.is_reader_waiting, wakes.reader) = (false, true);
        }
        drop(wakes);
        if !is_passed_on {
            self.leave_to_task();
        } else if self.handoff.pass_on() {
            self.wake_task();
        }
    }

    /// The reader polls if it was woken, and waits again.
    fn poll_reader(&self) {
        if !std::mem::take(&mut self.wakes.lock().unwrap().reader) {
            return;
        }
        self.handoff.reader_comes();
        match self.driven.try_lock() {
            Ok(_driven) => self.drain(),
            Err(_) => self.leave_to_task(),
        }
        self.wakes.lock().unwrap().is_reader_waiting = true;
    }

    /// The task polls if it was woken. Returns whether it watches the reader.
    fn poll_task(&self, watches: bool) -> bool {
        if !std::mem::take(&mut self.wakes.lock().unwrap().task) {
            return watches;
        }
        let _driven = self.driven.lock().unwrap();
        if self.handoff.task_receives() {
            self.drain();
        }
        watches || self.handoff.is_watched()
    }

    fn drain(&self) {
        *self.socket.lock().unwrap() = Socket { bytes: 0, is_armed: true };
    }

    fn leave_to_task(&self) {
        self.handoff.leave_to_task();
        self.wake_task();
    }

    fn wake_task(&self) {
        self.wakes.lock().unwrap().task = true;
    }
}

/// No arrival is forgotten, even if the reader comes only once, and never again.
#[test]
fn task_receives_what_the_reader_does_not() {
    loom::model(|| {
        let lane = Lane::new();
        let arrivals = {
            let lane = lane.clone();
            thread::spawn(move || (0..2).for_each(|_| lane.arrive()))
        };
        let reader = {
            let lane = lane.clone();
            thread::spawn(move || lane.poll_reader())
        };
        let mut watches = lane.poll_task(false);
        arrivals.join().unwrap();
        reader.join().unwrap();
        // From here on the task is alone.
        watches = lane.poll_task(watches);
        while watches {
            watches = lane.handoff.end_period();
            lane.wake_task();
            watches = lane.poll_task(watches);
        }
        let socket = lane.socket.lock().unwrap();
        assert_eq!((socket.bytes, socket.is_armed), (0, true));
    });
}

/// An arrival that the reader gets as the task's watch ends is watched too: by the task, or by the
/// task that it wakes.
#[test]
fn watch_goes_on_or_begins_anew() {
    loom::model(|| {
        let handoff = Arc::new(Handoff::new());
        handoff.set_inline(true);
        assert!(handoff.pass_on() && handoff.is_watched(), "nobody has watched yet");
        let arrival = {
            let handoff = handoff.clone();
            thread::spawn(move || handoff.pass_on())
        };
        let goes_on = handoff.end_period();
        let is_woken = arrival.join().unwrap();
        assert_eq!(goes_on || is_woken, handoff.is_watched());
        // The task receives the arrival now, or at the end of a period to come.
        let is_received = handoff.task_receives();
        assert!(is_received || handoff.is_watched(), "an arrival was forgotten");
        if handoff.is_watched() {
            handoff.end_period();
            assert!(is_received || handoff.task_receives());
        }
    });
}

/// The task goes home when it is called, even if it has just found that arrivals are small.
#[test]
fn task_that_is_called_goes_home() {
    loom::model(|| {
        let handoff = Arc::new(Handoff::new());
        handoff.set_inline(true);
        handoff.leave_to_task();
        let call = {
            let handoff = handoff.clone();
            thread::spawn(move || handoff.call_home())
        };
        let receive = || {
            let goes_home = handoff.task_receives() && (handoff.takes_call_home() || !handoff.is_inline());
            handoff.set_inline(true);
            goes_home
        };
        let went_home = receive();
        call.join().unwrap();
        assert!(went_home || receive(), "the call wakes the task once more");
    });
}
