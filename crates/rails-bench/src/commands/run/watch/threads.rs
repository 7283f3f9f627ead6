//! The threads of a program: whether they are on their CPUs, and which go back there.

use rails_bind::thread::Tid;
use rails_topo::CpuSet;
use std::{collections::BTreeMap, mem, time::Duration};

/// A thread as a look saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SeenThread {
    pub(crate) process: Tid,
    pub(crate) tid: Tid,
    /// The CPUs that the thread may run on.
    pub(crate) may_run_on: CpuSet,
    /// The thread's CPU time since it began.
    pub(crate) cpu_time: Duration,
}

/// A thing to be done with a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Order {
    /// The program's CPUs have changed, and the thread was on all of the former ones.
    Move(Tid),
    /// The thread has left the CPUs, and is put back.
    PutBack(Tid),
    /// The thread has left the CPUs again after it was put back several times: it is left alone
    /// from now on.
    LeaveAlone {
        /// The thread's process.
        process: Tid,
        /// The thread.
        tid: Tid,
    },
}

/// CPU time, by where it was used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CpuTime {
    /// By threads that might run on the program's CPUs only.
    pub(crate) in_place: Duration,
    /// By other threads.
    pub(crate) away: Duration,
}

/// The threads of a program, and the CPUs that they belong on.
#[derive(Debug)]
pub(crate) struct Threads {
    cpus: CpuSet,
    former: Option<CpuSet>,
    known: BTreeMap<Tid, Known>,
    used: CpuTime,
}

#[derive(Debug)]
struct Known {
    cpu_time: Duration,
    may_run_on: CpuSet,
    /// Since when every look saw the thread away.
    away_since: Option<Duration>,
    times_put_back: u32,
    is_left_alone: bool,
}

impl Threads {
    /// Threads that belong on these CPUs.
    pub(crate) fn new(cpus: CpuSet) -> Self {
        Self { cpus, former: None, known: BTreeMap::new(), used: CpuTime::default() }
    }

    /// The CPUs that the threads belong on.
    pub(crate) fn cpus(&self) -> &CpuSet {
        &self.cpus
    }

    /// The CPU time so far.
    pub(crate) fn used(&self) -> CpuTime {
        self.used
    }

    /// Changes the CPUs that the threads belong on. The next look moves the threads.
    pub(crate) fn move_to(&mut self, cpus: CpuSet) {
        if cpus != self.cpus {
            self.former = Some(mem::replace(&mut self.cpus, cpus));
        }
    }

    /// The system does not let this thread be moved.
    pub(crate) fn refused(&mut self, tid: Tid) {
        if let Some(known) = self.known.get_mut(&tid) {
            known.is_left_alone = true;
        }
    }

    /// Takes all living threads, and says what to do with them. `beside` are the CPUs beside the
    /// NICs that have carried the traffic since the former look, by which that time is judged.
    ///
    /// A thread whose CPU time has become less is another one, with a number that was free.
    pub(crate) fn look(&mut self, at: Duration, beside: &CpuSet, seen: &[SeenThread]) -> Vec<Order> {
        let former = self.former.take();
        let mut before = mem::take(&mut self.known);
        let mut orders = Vec::new();
        for thread in seen {
            let known = before.remove(&thread.tid).filter(|known| known.cpu_time <= thread.cpu_time);
            let mut known = known.unwrap_or_else(|| Known {
                cpu_time: Duration::ZERO,
                // A new thread has the CPUs of the one that made it, unless it has left them since.
                may_run_on: thread.may_run_on.clone(),
                away_since: None,
                times_put_back: 0,
                is_left_alone: false,
            });
            let used = thread.cpu_time - known.cpu_time;
            match thread.may_run_on.is_subset(beside) && known.may_run_on.is_subset(beside) {
                true => self.used.in_place += used,
                false => self.used.away += used,
            }
            known.cpu_time = thread.cpu_time;
            known.may_run_on = thread.may_run_on.clone();
            orders.extend(known.decide(at, &self.cpus, former.as_ref(), thread));
            self.known.insert(thread.tid, known);
        }
        orders
    }
}

impl Known {
    fn decide(
        &mut self,
        at: Duration,
        cpus: &CpuSet,
        former: Option<&CpuSet>,
        SeenThread { process, tid, may_run_on, .. }: &SeenThread,
    ) -> Option<Order> {
        if former == Some(may_run_on) && may_run_on != cpus {
            self.away_since = None;
            return (!self.is_left_alone).then_some(Order::Move(*tid));
        }
        // A thread that may run nowhere is one whose CPUs are all offline.
        if may_run_on.is_subset(cpus) && !may_run_on.is_empty() {
            self.away_since = None;
            return None;
        }
        if self.is_left_alone {
            return None;
        }
        let since = *self.away_since.get_or_insert(at);
        if self.times_put_back == MAX_TIMES_PUT_BACK {
            self.is_left_alone = true;
            return Some(Order::LeaveAlone { process: *process, tid: *tid });
        }
        if at.saturating_sub(since) < DWELL {
            return None;
        }
        self.away_since = None;
        self.times_put_back += 1;
        Some(Order::PutBack(*tid))
    }
}

/// How long a thread is away before it is put back: a program that binds a thread for a moment puts
/// it back itself.
const DWELL: Duration = Duration::from_secs(1);
/// A thread that leaves more often does so on purpose, and stays where it went.
const MAX_TIMES_PUT_BACK: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(text: &str) -> CpuSet {
        text.parse().expect("a list")
    }

    fn tid(number: i32) -> Tid {
        Tid::from_raw(number).expect("above zero")
    }

    fn thread(number: i32, may_run_on: &str, millis: u64) -> SeenThread {
        SeenThread {
            process: tid(1),
            tid: tid(number),
            may_run_on: set(may_run_on),
            cpu_time: Duration::from_millis(millis),
        }
    }

    /// Looks at that second, with all CPUs of the program beside its NICs.
    fn look(threads: &mut Threads, second: u64, seen: &[SeenThread]) -> Vec<Order> {
        let beside = threads.cpus().clone();
        threads.look(Duration::from_secs(second), &beside, seen)
    }

    #[test]
    fn a_thread_that_leaves_is_put_back_three_times() {
        let mut threads = Threads::new(set("0-3"));
        let away = [thread(7, "4", 0)];
        let mut orders = Vec::new();
        // The thread leaves again each time at once.
        for second in 0..20 {
            orders.extend(look(&mut threads, second, &away).into_iter().map(|order| (second, order)));
        }
        let put_back = |second| (second, Order::PutBack(tid(7)));
        let left_alone = (6, Order::LeaveAlone { process: tid(1), tid: tid(7) });
        assert_eq!(orders, [put_back(1), put_back(3), put_back(5), left_alone]);
    }

    #[test]
    fn a_thread_that_comes_back_by_itself_is_not_touched() {
        let mut threads = Threads::new(set("0-3"));
        for second in 0..20 {
            let where_to = if second % 2 == 0 { "0-7" } else { "2" };
            assert_eq!(look(&mut threads, second, &[thread(7, where_to, 0)]), []);
        }
    }

    #[test]
    fn threads_move_along_with_the_program() {
        let mut threads = Threads::new(set("0-3"));
        let seen = [thread(7, "0-3", 0), thread(8, "2", 0), thread(9, "9", 0)];
        assert_eq!(look(&mut threads, 0, &seen), []);
        threads.move_to(set("4-7"));
        // The second is on a CPU of its own choice, which has become a wrong one.
        assert_eq!(look(&mut threads, 1, &seen), [Order::Move(tid(7)), Order::PutBack(tid(9))]);
        let moved = [thread(7, "4-7", 0), thread(8, "2", 0), thread(9, "4-7", 0)];
        assert_eq!(look(&mut threads, 2, &moved), [Order::PutBack(tid(8))]);
    }

    #[test]
    fn a_refused_thread_is_left_alone() {
        let mut threads = Threads::new(set("0-3"));
        look(&mut threads, 0, &[thread(7, "4", 0)]);
        assert_eq!(look(&mut threads, 1, &[thread(7, "4", 0)]), [Order::PutBack(tid(7))]);
        threads.refused(tid(7));
        for second in 2..10 {
            assert_eq!(look(&mut threads, second, &[thread(7, "4", 0)]), []);
        }
    }

    #[test]
    fn time_counts_where_both_looks_saw_the_thread() {
        let mut threads = Threads::new(set("0-3"));
        look(&mut threads, 0, &[thread(7, "0-3", 100)]);
        look(&mut threads, 1, &[thread(7, "4", 150)]);
        look(&mut threads, 2, &[thread(7, "0-3", 170)]);
        look(&mut threads, 3, &[thread(7, "0-1", 1170)]);
        let expected = CpuTime { in_place: Duration::from_millis(100 + 1000), away: Duration::from_millis(50 + 20) };
        assert_eq!(threads.used(), expected);
    }

    #[test]
    fn time_far_from_the_nics_with_the_traffic_is_away() {
        let mut threads = Threads::new(set("0-3"));
        threads.look(Duration::ZERO, &set("4-7"), &[thread(7, "0-3", 100)]);
        threads.look(Duration::from_secs(1), &set("0-7"), &[thread(7, "0-3", 300)]);
        let expected = CpuTime { in_place: Duration::from_millis(200), away: Duration::from_millis(100) };
        assert_eq!(threads.used(), expected);
    }

    #[test]
    fn a_number_that_is_given_again_is_another_thread() {
        let mut threads = Threads::new(set("0-3"));
        for second in 0..10 {
            look(&mut threads, second, &[thread(7, "4", 1000)]);
        }
        look(&mut threads, 10, &[thread(7, "4", 10)]);
        assert_eq!(look(&mut threads, 11, &[thread(7, "4", 10)]), [Order::PutBack(tid(7))]);
        assert_eq!(threads.used().away, Duration::from_millis(1010));
    }

    proptest! {
        #[test]
        fn time_counts_once_and_threads_move_seldom(
            looks in prop::collection::vec(prop::collection::btree_map(2_i32..6, (0_u32..6, 0_u64..50), 0..4), 1..60),
            moves in prop::collection::btree_map(0_usize..60, 0_u32..6, 0..4),
        ) {
            let mut threads = Threads::new(set("0-1"));
            let mut clocks: BTreeMap<i32, u64> = BTreeMap::new();
            let mut put_back: BTreeMap<Tid, u32> = BTreeMap::new();
            let mut total = 0;
            for (second, look) in looks.iter().enumerate() {
                if let Some(cpu) = moves.get(&second) {
                    threads.move_to(set(&cpu.to_string()));
                }
                let mut seen = Vec::new();
                // A thread that is not seen has ended; another one with its number begins anew.
                clocks.retain(|number, _| look.contains_key(number));
                put_back.retain(|tid, _| look.contains_key(&tid.as_raw()));
                for (number, (cpu, millis)) in look {
                    let clock = clocks.entry(*number).or_default();
                    *clock += millis;
                    total += millis;
                    seen.push(thread(*number, &cpu.to_string(), *clock));
                }
                let beside = threads.cpus().clone();
                for order in threads.look(Duration::from_secs(second as u64), &beside, &seen) {
                    match order {
                        Order::PutBack(tid) => *put_back.entry(tid).or_default() += 1,
                        Order::LeaveAlone { tid, .. } => prop_assert_eq!(put_back.get(&tid), Some(&MAX_TIMES_PUT_BACK)),
                        Order::Move(_) => {}
                    }
                }
                prop_assert!(put_back.values().all(|times| *times <= MAX_TIMES_PUT_BACK));
            }
            let CpuTime { in_place, away } = threads.used();
            prop_assert_eq!(in_place + away, Duration::from_millis(total));
        }
    }
}
