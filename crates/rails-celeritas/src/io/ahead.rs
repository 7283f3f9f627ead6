//! Work on the cores of the thread's helpers, while the driver does other pieces of it.
//!
//! The driver takes each piece back in its order. If no helper has begun with it, the driver does
//! it; if a helper is still at it, as one that has lost its CPU, the driver does it again. So a
//! helper holds nothing up.

use rails_task::{Helpers, Job, Taken};
use std::{collections::VecDeque, ops::Add, sync::Arc, time::Instant};

/// Work of a connection that was offered to the [helpers](Helpers::current) of its driver's thread.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct HelperStats {
    /// Bursts to be sealed, and trains to be opened, that were offered: those that were due before
    /// the driver was done with others.
    pub offered: u64,
    /// Offered pieces that a helper has done.
    pub done: u64,
    /// Pieces that a helper had begun with, and the driver has done again.
    pub repeated: u64,
}

/// A piece of work. Its input is shared, so that the work can be done again.
pub(super) trait Work: Send + Sized + 'static {
    type Input: Send + Sync;

    fn run(&mut self);
}

/// Pieces of work in their order.
#[derive(Debug)]
pub(super) struct Ahead<W: Work> {
    helpers: Option<Helpers>,
    jobs: Vec<Job<W>>,
    /// Waiting pieces, each with the number of the job by which it was offered.
    waiting: VecDeque<(Arc<W::Input>, Option<usize>)>,
    pub(super) stats: HelperStats,
}

impl<W: Work> Ahead<W> {
    /// Without helpers no work is offered.
    pub(super) fn new(helpers: Option<&Helpers>) -> Self {
        let (waiting, stats) = Default::default();
        let jobs = helpers.into_iter().flat_map(|helpers| (0..MAX_AHEAD).map(|_| helpers.job(W::run))).collect();
        Self { helpers: helpers.cloned(), jobs, waiting, stats }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether another piece is to be offered while these wait: there are helpers, and their thread
    /// is behind.
    pub(super) fn has_room(&self, now: Instant) -> bool {
        self.waiting.len() < self.jobs.len() && self.helpers.as_ref().is_some_and(|helpers| helpers.are_wanted(now))
    }

    /// Adds work for the driver.
    pub(super) fn keep(&mut self, input: W::Input) {
        self.waiting.push_back((Arc::new(input), None));
    }

    /// Adds work, and offers it to the helpers.
    pub(super) fn offer(&mut self, input: W::Input, work: impl FnOnce(Arc<W::Input>) -> W) {
        let input = Arc::new(input);
        let is_free = |number: &usize| self.waiting.iter().all(|(_, other)| *other != Some(*number));
        let mut work = Some(work(Arc::clone(&input)));
        let number = (0..self.jobs.len()).filter(is_free).find(|number| {
            let job = &mut self.jobs[*number];
            // A helper may have come to the end of work that the driver has done again.
            if !matches!(job.take(), Taken::Running)
                && let Some(offered) = work.take()
            {
                work = job.offer(offered).err();
            }
            work.is_none()
        });
        self.stats.offered += u64::from(number.is_some());
        self.waiting.push_back((input, number));
    }

    /// The next piece, with its outcome if a helper has done it.
    pub(super) fn next(&mut self) -> Option<(Arc<W::Input>, Option<W>)> {
        let (input, number) = self.waiting.pop_front()?;
        let taken = number.map_or(Taken::Nothing, |number| self.jobs[number].take());
        self.stats.done += u64::from(matches!(taken, Taken::Done(_)));
        self.stats.repeated += u64::from(matches!(taken, Taken::Running));
        let done = if let Taken::Done(work) = taken { Some(work) } else { None };
        Some((input, done))
    }
}

impl Add for HelperStats {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            offered: self.offered + other.offered,
            done: self.done + other.done,
            repeated: self.repeated + other.repeated,
        }
    }
}

/// The most pieces of work that wait.
const MAX_AHEAD: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use rails_task::TaskQueues;
    use rails_topo::Topology;
    use std::{sync::mpsc, thread};

    /// Squares a number; one with channels says that it has begun, and waits for a word.
    struct Square {
        number: Arc<u64>,
        channels: Option<Channels>,
        result: u64,
    }

    type Channels = (mpsc::Sender<()>, mpsc::Receiver<()>);

    impl Work for Square {
        type Input = u64;

        fn run(&mut self) {
            if let Some((begun, word)) = self.channels.take() {
                begun.send(()).unwrap();
                word.recv().unwrap();
            }
            self.result = *self.number * *self.number;
        }
    }

    fn square(channels: Option<Channels>) -> impl FnOnce(Arc<u64>) -> Square {
        |number| Square { number, channels, result: 0 }
    }

    fn results(ahead: &mut Ahead<Square>) -> Vec<(u64, Option<u64>)> {
        std::iter::from_fn(|| ahead.next().map(|(number, done)| (*number, done.map(|done| done.result)))).collect()
    }

    #[test]
    fn nothing_is_offered_without_helpers() {
        let mut ahead: Ahead<Square> = Ahead::new(None);
        assert!(!ahead.has_room(Instant::now()));
        ahead.keep(2);
        ahead.offer(3, square(None));
        assert_eq!(results(&mut ahead), [(2, None), (3, None)]);
        assert_eq!(ahead.stats, HelperStats::default());
    }

    #[test]
    fn helper_that_is_held_up_holds_nothing_up() {
        let topology = Topology::detect().unwrap();
        let queues = TaskQueues::new(&topology, 16);
        let helpers = Helpers::new(&queues, topology.online_cpus()).unwrap();
        let mut ahead = Ahead::new(Some(&helpers));
        ahead.keep(1);
        ahead.offer(2, square(None));
        assert_eq!(results(&mut ahead), [(1, None), (2, None)], "nobody helps");

        // A helper takes the first piece, and loses its CPU.
        let ((begins, begun), (word, waits)) = (mpsc::channel(), mpsc::channel());
        ahead.offer(3, square(Some((begins, waits))));
        let helper = {
            let queues = queues.clone();
            thread::spawn(move || while queues.attach().unwrap().run().ran < 1 {})
        };
        begun.recv().unwrap();
        ahead.offer(4, square(None));
        queues.attach().unwrap().run();
        assert_eq!(results(&mut ahead), [(3, None), (4, Some(16))], "in order");
        assert_eq!(ahead.stats, HelperStats { offered: 3, done: 1, repeated: 1 });
        // No piece gets the helper's job as long as the helper is held up.
        ahead.offer(5, square(None));
        assert_eq!(ahead.waiting[0].1, Some(1));
        word.send(()).unwrap();
        helper.join().unwrap();
        assert_eq!(results(&mut ahead), [(5, None)]);
        ahead.offer(6, square(None));
        assert_eq!(ahead.waiting[0].1, Some(0), "and is used again after that");
    }
}
