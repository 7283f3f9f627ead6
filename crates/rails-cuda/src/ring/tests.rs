use super::*;
use crate::CudaStatus;
use proptest::prelude::*;
use rails_multirail::pipeline::device::swap_red_and_blue;
use std::{
    future::poll_fn,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc::{Receiver, Sender},
    },
    task::{Wake, Waker},
    time::Duration,
};
use tokio::{runtime::Runtime, time::timeout};

/// A slot of a device that is a thread, which takes the memory away and brings it back.
struct Fake {
    number: usize,
    /// `None` while the device has it.
    memory: Option<Vec<u8>>,
    refuses: bool,
    jobs: SyncSender<Job>,
    back: Receiver<Vec<u8>>,
}

struct Job {
    slot: usize,
    memory: Vec<u8>,
    bytes: usize,
}

/// The end of the device's work on a frame.
enum Step {
    Done,
    Failed,
}

impl Slot for Fake {
    fn staging(&mut self) -> &mut [u8] {
        self.memory.as_mut().expect("the device has not the memory")
    }

    fn begin(&mut self, bytes: usize) -> Result<(), CudaError> {
        if self.refuses {
            return Err(refusal("cuMemcpyHtoDAsync"));
        }
        assert!(bytes.is_multiple_of(PIXEL_BYTES));
        let memory = self.memory.take().expect("the device has not the memory");
        self.jobs.try_send(Job { slot: self.number, memory, bytes }).expect("there is room for every slot");
        Ok(())
    }

    fn settle(&mut self) -> Result<(), CudaError> {
        self.memory = Some(self.back.try_recv().expect("the wait for the device is over"));
        Ok(())
    }
}

/// A ring over such a device.
struct Rig {
    ring: Ring<Vec<u8>, Fake>,
    /// The device waits for a step before it ends its work on a frame. Without a sender every frame
    /// is done at once.
    steps: Sender<Step>,
    /// The frames that the device has ended its work on.
    ended: Arc<AtomicUsize>,
}

fn rig(depth: usize) -> Rig {
    let (jobs, queue) = mpsc::sync_channel::<Job>(depth);
    let (steps, next_step) = mpsc::channel();
    let ended = Arc::new(AtomicUsize::new(0));
    let (mut slots, mut returns, mut ends, mut waits) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for number in 0..depth {
        let (gives, back) = mpsc::sync_channel(1);
        let (end, wait) = mpsc::sync_channel(1);
        let memory = Some(vec![0; LONGEST.next_multiple_of(PIXEL_BYTES)]);
        slots.push(Fake { number, memory, refuses: false, jobs: jobs.clone(), back });
        returns.push(gives);
        ends.push(end);
        waits.push(wait);
    }
    let counter = ended.clone();
    thread::spawn(move || {
        for Job { slot, mut memory, bytes } in queue {
            let result = match next_step.recv() {
                Ok(Step::Failed) => Err(refusal("cuEventSynchronize")),
                Ok(Step::Done) | Err(_) => Ok(()),
            };
            swap_red_and_blue(&mut memory[..bytes]);
            counter.fetch_add(1, Relaxed);
            // The slots and the thread that waits end before this one.
            returns[slot].send(memory).expect("a slot takes its memory back");
            ends[slot].send(result).expect("the thread waits for each frame");
        }
    });
    let ring = Ring::new(slots, LONGEST, move |slot| waits[slot].recv().expect("the device ends each frame")).unwrap();
    Rig { ring, steps, ended }
}

impl<S: Slot> Ring<Vec<u8>, S> {
    async fn done(&mut self) -> Result<Vec<u8>, CudaError> {
        let done = poll_fn(|context| self.poll_done(context));
        timeout(DEADLINE, done).await.expect("the device has done with the frame")
    }

    fn poll_once(&mut self) -> Poll<Result<Vec<u8>, CudaError>> {
        self.poll_done(&mut Context::from_waker(Waker::noop()))
    }
}

/// A task whose waker owns it, as executors without a list of their tasks have it, and whose
/// executor is gone.
struct Abandoned {
    ring: Mutex<Option<Ring<Vec<u8>, Fake>>>,
    dropped: Sender<Option<String>>,
}

impl Wake for Abandoned {
    fn wake(self: Arc<Self>) {
        drop(self.ring.lock().unwrap().take());
        self.dropped.send(thread::current().name().map(str::to_owned)).unwrap();
    }
}

#[test]
fn a_ring_may_be_dropped_by_the_thread_that_waits() {
    let Rig { mut ring, steps, .. } = rig(2);
    let (dropped, when_dropped) = mpsc::channel();
    let task = Arc::new(Abandoned { ring: Mutex::new(None), dropped });
    ring.submit(vec![1; LONGEST]).unwrap();
    assert!(ring.poll_done(&mut Context::from_waker(&task.clone().into())).is_pending());
    *task.ring.lock().unwrap() = Some(ring);
    steps.send(Step::Done).unwrap();
    assert_eq!(when_dropped.recv_timeout(DEADLINE).unwrap().as_deref(), Some(THREAD));
}

/// The driver's refusal of a call.
fn refusal(call: &'static str) -> CudaError {
    CudaError::Call { call, subject: "a frame".to_owned(), source: CudaStatus { code: 700, name: None, text: None } }
}

fn swapped(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    swap_red_and_blue(&mut frame);
    frame
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

proptest! {
    #[test]
    fn frames_come_back_swapped_and_in_order(
        depth in 1_usize..5,
        frames in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..=LONGEST), any::<bool>()), 1..30),
    ) {
        let Rig { mut ring, steps, .. } = rig(depth);
        drop(steps);
        prop_assert_eq!(ring.depth().get(), depth);
        runtime().block_on(async {
            let mut under_way = VecDeque::new();
            for (frame, takes_one) in frames {
                if under_way.len() == depth || (takes_one && !under_way.is_empty()) {
                    prop_assert_eq!(ring.done().await.unwrap(), under_way.pop_front().unwrap());
                }
                under_way.push_back(swapped(&frame));
                ring.submit(frame).unwrap();
            }
            for expected in under_way {
                prop_assert_eq!(ring.done().await.unwrap(), expected);
            }
            prop_assert!(ring.poll_once().is_pending());
            Ok(())
        })?;
    }
}

#[test]
fn pending_until_the_device_has_done_then_woken() {
    let Rig { mut ring, steps, .. } = rig(2);
    runtime().block_on(async {
        ring.submit(vec![1, 2, 3, 4]).unwrap();
        assert!(ring.poll_once().is_pending());
        let go_on = async {
            // The other future sleeps by now: it was polled first.
            steps.send(Step::Done).unwrap();
        };
        let (done, ()) = tokio::join!(biased; ring.done(), go_on);
        assert_eq!(done.unwrap(), [3, 2, 1, 4]);
    });
}

#[test]
fn a_failed_frame_is_the_last_that_is_taken() {
    let Rig { mut ring, steps, .. } = rig(3);
    runtime().block_on(async {
        for number in 0..3 {
            ring.submit(vec![number; 8]).unwrap();
        }
        for step in [Step::Done, Step::Failed, Step::Done] {
            steps.send(step).unwrap();
        }
        assert_eq!(ring.done().await.unwrap(), [0; 8]);
        assert!(matches!(ring.done().await, Err(CudaError::Call { call: "cuEventSynchronize", .. })));
        assert!(matches!(ring.submit(vec![3; 8]), Err(CudaError::Broken)));
        assert_eq!(ring.done().await.unwrap(), [2; 8], "the frame was under way already");
        assert!(matches!(ring.submit(vec![3; 8]), Err(CudaError::Broken)));
    });
}

#[test]
fn a_refused_frame_leaves_those_before_it() {
    let Rig { mut ring, steps, .. } = rig(2);
    drop(steps);
    runtime().block_on(async {
        ring.submit(vec![7; 4]).unwrap();
        ring.slots[1].refuses = true;
        assert!(matches!(ring.submit(vec![8; 4]), Err(CudaError::Call { call: "cuMemcpyHtoDAsync", .. })));
        assert!(matches!(ring.submit(vec![9; 4]), Err(CudaError::Broken)));
        assert_eq!(ring.done().await.unwrap(), [7; 4]);
        assert!(ring.poll_once().is_pending());
    });
}

#[test]
fn no_more_frames_than_slots() {
    let Rig { mut ring, steps, .. } = rig(2);
    drop(steps);
    runtime().block_on(async {
        ring.submit(vec![1; 4]).unwrap();
        ring.submit(vec![2; 4]).unwrap();
        assert!(matches!(ring.submit(vec![3; 4]), Err(CudaError::Full { depth: 2 })));
        assert_eq!(ring.done().await.unwrap(), [1; 4]);
        ring.submit(vec![3; 4]).unwrap();
        assert_eq!([ring.done().await.unwrap(), ring.done().await.unwrap()], [[2; 4], [3; 4]]);
    });
}

#[test]
fn a_frame_too_long_is_refused_and_others_go_on() {
    let Rig { mut ring, steps, .. } = rig(1);
    drop(steps);
    let error = ring.submit(vec![0; LONGEST + 1]).unwrap_err();
    assert!(matches!(error, CudaError::FrameTooLong { frame_bytes, longest: LONGEST } if frame_bytes == LONGEST + 1));
    runtime().block_on(async {
        ring.submit(vec![5; LONGEST]).unwrap();
        assert_eq!(ring.done().await.unwrap(), [5; LONGEST]);
    });
}

#[test]
fn a_frame_of_another_length_than_before_is_refused() {
    /// Gives one byte fewer each time.
    struct Shrinking(Vec<u8>);
    impl AsMut<[u8]> for Shrinking {
        fn as_mut(&mut self) -> &mut [u8] {
            self.0.pop();
            &mut self.0
        }
    }
    assert!(matches!(filled(Shrinking(vec![0; 8]), 8, &[0; 8]), Err(CudaError::FrameChanged { submitted: 8, now: 7 })));
}

#[test]
fn dropping_waits_for_the_frames_under_way() {
    let Rig { mut ring, steps, ended } = rig(3);
    for number in 0..3 {
        ring.submit(vec![number; 8]).unwrap();
    }
    let device = thread::spawn(move || {
        for _ in 0..3 {
            steps.send(Step::Done).unwrap();
        }
        steps
    });
    drop(ring);
    assert_eq!(ended.load(Relaxed), 3);
    device.join().unwrap();
}

#[test]
fn no_allocation_in_steady_state() {
    let Rig { mut ring, steps, .. } = rig(3);
    drop(steps);
    let mut frames: VecDeque<Vec<u8>> = (0..3).map(|number| vec![number; LONGEST]).collect();
    let mut pass = |count: usize| {
        for _ in 0..count {
            frames.drain(..).for_each(|frame| ring.submit(frame).unwrap());
            loop {
                match ring.poll_once() {
                    Poll::Ready(frame) => break frames.push_back(frame.unwrap()),
                    Poll::Pending => thread::yield_now(),
                }
            }
        }
    };
    pass(200);
    let made = allocation_counter::measure(|| pass(200));
    assert_eq!(made.count_total, 0, "on the thread of the stage");
}

/// The longest frame, no multiple of a pixel.
const LONGEST: usize = 41;
const DEADLINE: Duration = Duration::from_secs(60);
