//! How long nothing was heard of a path on which segments were under way.
//!
//! Time counts while both ends run. This end does not run while its process computes or is stopped,
//! or while its clock jumps: its driver comes late then. Over the control channel it asks whether
//! the peer runs. If its host acknowledges the question and its process does not answer, then the
//! process is stopped, and TCP would wait too: as long as the host lives.

use super::grace::Grace;
use std::time::{Duration, Instant};

/// The time without news, which passes while segments are under way, also those that are given up
/// in the end.
#[derive(Debug)]
pub struct Silence {
    path: Wait,
    /// Whether anything was ever heard of the path.
    has_heard: bool,
    /// When the driver last ran: a caller may come while the driver is held up.
    looked_at: Instant,
    /// When this end last stopped waiting.
    ended_at: Instant,
    /// How often the rate was halved since the last news.
    halvings: u32,
    /// When the peer was asked for a sign of life that has not come, and later by all time that
    /// does not count.
    asked_at: Option<Instant>,
    /// The host of a peer that is stopped: it has the question, and the peer's process has not
    /// answered.
    stopped: Option<Host>,
}

/// The host of a peer whose process is stopped.
#[derive(Debug, Clone, Copy)]
struct Host {
    /// The wait begins anew when the host is known to live.
    wait: Wait,
    /// When the driver looked last whether the host lives.
    looked_at: Instant,
}

/// A wait for a sign of life. Several waits in vain add up.
#[derive(Debug, Clone, Copy)]
struct Wait {
    /// When the last sign of life came, or this end began to wait for some, and later by all time
    /// that does not count. Earlier by the time that this end has waited in vain before.
    since: Instant,
    /// When this end began to wait, and later by all time that does not count.
    began_at: Instant,
    /// The time that this end has waited in vain before.
    before: Duration,
    grace: Grace,
}

/// The times of a silence, which depend on the path's round trip.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// The time without news after which the rate is halved, and the peer is asked.
    pub pause: Duration,
    /// The time without news after which a connection fails.
    pub limit: Duration,
}

impl Silence {
    /// No segment is under way yet.
    pub fn new(now: Instant) -> Self {
        let path = Wait::new(now);
        Self { path, has_heard: false, looked_at: now, ended_at: now, halvings: 0, asked_at: None, stopped: None }
    }

    /// The sender has segments under way again. The peer gets a pause to tell of them, however long
    /// it was silent before: 16 pauses in one silence at most.
    pub fn begin(&mut self, now: Instant, patience: Patience) {
        // The path may have come back long ago.
        let is_old = now.saturating_duration_since(self.ended_at) > patience.limit;
        self.waits().for_each(|wait| wait.begin(now, is_old));
        self.excuse(now, Duration::ZERO, patience);
    }

    /// Notes that the driver runs, and has read all that had come.
    pub fn look(&mut self, now: Instant) {
        self.looked_at = now;
    }

    /// No segment is under way any more: they were given up.
    pub fn end(&mut self, now: Instant) {
        let counted_until = self.asked_at.filter(|_| self.peer_is_stopped()).unwrap_or(self.looked_at);
        self.path.end(counted_until);
        self.stopped.iter_mut().for_each(|host| host.wait.end(self.looked_at));
        self.ended_at = now;
    }

    /// Takes `time` out of the silence, and gives the peer a pause from now on: 16 pauses in one
    /// silence at most.
    pub fn excuse(&mut self, now: Instant, time: Duration, patience: Patience) {
        self.waits().for_each(|wait| wait.excuse(now, time, patience));
        self.asked_at = self.asked_at.map(|asked| (asked + time).min(now));
    }

    /// Notes that segments have arrived.
    pub fn hear(&mut self, now: Instant) {
        self.hear_of_path(now);
        self.halvings = 0;
    }

    /// Notes that segments would arrive: the path is silent no more, and the rate stays as it is.
    pub fn hear_of_path(&mut self, now: Instant) {
        self.path = Wait::new(now);
        self.has_heard = true;
    }

    /// Whether anything was ever heard of the path.
    pub fn has_heard(&self) -> bool {
        self.has_heard
    }

    /// Notes a frame of the peer's process. Returns whether the process was stopped before.
    pub fn hear_of_peer(&mut self, now: Instant, patience: Patience) -> bool {
        let waited = self.asked_at.take().map_or(Duration::ZERO, |asked| now.saturating_duration_since(asked));
        let was_stopped = self.stopped.take().is_some() || waited > patience.pause;
        if was_stopped {
            self.excuse(now, waited, patience);
        }
        was_stopped
    }

    /// Whether the peer is to be asked for a sign of life, once in each silence of its process.
    pub fn ask(&mut self, now: Instant) -> bool {
        let is_first = self.asked_at.is_none();
        self.asked_at.get_or_insert(now);
        is_first
    }

    /// Whether the peer has left a question unanswered for a pause. Then it matters whether its
    /// host lives, in each pause.
    pub fn doubts_peer(&self, now: Instant, patience: Patience) -> bool {
        self.looks_at(patience).is_some_and(|at| now >= at)
    }

    /// The driver has looked whether the peer's host lives. If so, nothing is judged until the
    /// peer's process says something, or its host is gone.
    pub fn look_at_host(&mut self, now: Instant, lives: bool) {
        self.stopped = match self.stopped {
            _ if lives => Some(Host { wait: Wait::new(now), looked_at: now }),
            host => host.map(|host| Host { looked_at: now, ..host }),
        };
    }

    /// Whether the peer's process is stopped.
    pub fn peer_is_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// The time without news, if it has been too long, and the peer has had a pause to answer a
    /// question. Of a peer that is stopped, it is the time without a sign of life of its host,
    /// in which this end waited.
    pub fn is_too_long(&self, now: Instant, is_waiting: bool, patience: Patience) -> Option<Duration> {
        let (wait, may_answer) = match &self.stopped {
            Some(host) => (&host.wait, false),
            None => (&self.path, self.answers_by(patience).is_some_and(|by| now < by)),
        };
        let time = wait.time(now, is_waiting);
        (time >= patience.limit && !may_answer).then_some(time)
    }

    /// When something is to be done, while this end waits: the rate is to be halved once more, the
    /// driver looks at the peer's host, or the silence is too long.
    pub fn next_at(&self, patience: Patience) -> Option<Instant> {
        match self.stopped {
            Some(_) => self.looks_at(patience),
            None => Some(self.halves_at(patience)),
        }
    }

    /// Whether the rate is to be halved once more, while this end waits.
    pub fn should_halve(&self, now: Instant, patience: Patience) -> bool {
        !self.peer_is_stopped() && self.halves_at(patience) <= now
    }

    /// When the rate is to be halved once more, or the silence is too long.
    fn halves_at(&self, patience: Patience) -> Instant {
        let Patience { pause, limit } = patience;
        let next = self.path.since + pause.saturating_mul(self.halvings + 1).min(limit);
        self.answers_by(patience).map_or(next, |by| by.max(next))
    }

    /// When the driver is to look at the peer's host.
    fn looks_at(&self, patience: Patience) -> Option<Instant> {
        self.stopped.map(|host| host.looked_at + patience.pause).or_else(|| self.answers_by(patience))
    }

    /// When the peer has had a pause to answer a question.
    fn answers_by(&self, patience: Patience) -> Option<Instant> {
        self.asked_at.map(|asked| asked + patience.pause)
    }

    /// Counts one more halving of the rate.
    pub fn halve(&mut self) {
        self.halvings += 1;
    }

    /// How often the rate was halved since the last news.
    pub fn halvings(&self) -> u32 {
        self.halvings
    }

    /// When the last news came, or this end began to wait for some.
    pub fn since(&self) -> Instant {
        self.path.since
    }

    fn waits(&mut self) -> impl Iterator<Item = &mut Wait> {
        std::iter::once(&mut self.path).chain(self.stopped.iter_mut().map(|host| &mut host.wait))
    }
}

impl Wait {
    fn new(now: Instant) -> Self {
        Self { since: now, began_at: now, before: Duration::ZERO, grace: Grace::default() }
    }

    /// Begins to wait again. If `is_old`, the waits before tell nothing any more.
    fn begin(&mut self, now: Instant, is_old: bool) {
        if is_old {
            *self = Self::new(now);
        }
        (self.began_at, self.since) = (now, now.checked_sub(self.before).unwrap_or(now));
    }

    /// Ends the wait, which this end has watched until `counted_until`.
    fn end(&mut self, counted_until: Instant) {
        self.before += counted_until.saturating_duration_since(self.began_at);
    }

    /// Takes `time` out of the wait, and leaves a pause from now on, as long as the wait has grace.
    fn excuse(&mut self, now: Instant, time: Duration, Patience { pause, limit }: Patience) {
        self.since = (self.since + time).min(now);
        self.began_at = (self.began_at + time).min(now);
        let left = limit.saturating_sub(now.saturating_duration_since(self.since));
        let more = self.grace.give(left, pause);
        if !more.is_zero() {
            self.since = now.checked_sub(limit.saturating_sub(left + more)).unwrap_or(now);
        }
    }

    fn time(&self, now: Instant, is_waiting: bool) -> Duration {
        if is_waiting { now.saturating_duration_since(self.since) } else { self.before }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const LIMIT: Duration = Duration::from_secs(5);
    const PATIENCE: Patience = Patience { pause: Duration::from_millis(300), limit: LIMIT };

    fn is_too_long(silence: &Silence, now: Instant) -> bool {
        silence.is_too_long(now, true, PATIENCE).is_some()
    }

    #[test]
    fn waits_in_vain_add_up() {
        let mut now = Instant::now();
        let mut silence = Silence::new(now);
        for _ in 0..50 {
            assert_eq!(silence.is_too_long(now, false, PATIENCE), None);
            silence.begin(now, PATIENCE);
            now += 100 * MS;
            silence.look(now);
            silence.end(now);
            now += 1_000 * MS;
        }
        assert_eq!(silence.is_too_long(now, false, PATIENCE), Some(LIMIT));
        silence.hear(now);
        assert_eq!(silence.is_too_long(now, false, PATIENCE), None);
    }

    #[test]
    fn old_waits_are_forgotten() {
        let begin = Instant::now();
        for (idle, left) in [(4_000 * MS, PATIENCE.pause), (3_600_000 * MS, LIMIT)] {
            let mut silence = Silence::new(begin);
            silence.begin(begin, PATIENCE);
            silence.look(begin + 4_990 * MS);
            silence.end(begin + 4_990 * MS);
            let now = begin + 4_990 * MS + idle;
            silence.begin(now, PATIENCE);
            assert!(!is_too_long(&silence, now + left - MS));
            assert!(is_too_long(&silence, now + left));
        }
    }

    #[test]
    fn time_that_this_end_does_not_look_is_none() {
        let begin = Instant::now();
        let mut silence = Silence::new(begin);
        silence.begin(begin, PATIENCE);
        silence.excuse(begin + 21_000 * MS, 20_000 * MS, PATIENCE);
        assert!(!is_too_long(&silence, begin + 24_999 * MS));
        assert!(is_too_long(&silence, begin + 25_000 * MS));
        // An end that comes back at the limit hears the peer first.
        silence.excuse(begin + 60_000 * MS, 35_000 * MS, PATIENCE);
        assert!(!is_too_long(&silence, begin + 60_299 * MS));
        assert!(is_too_long(&silence, begin + 60_300 * MS));
    }

    /// This end is held up again and again, and the path is dead.
    #[test]
    fn absences_in_a_row_do_not_postpone_for_ever() {
        let begin = Instant::now();
        let mut silence = Silence::new(begin);
        silence.begin(begin, PATIENCE);
        let late = |round: u32| begin + round * 250 * MS;
        let ended = (1..200).find(|round| {
            silence.excuse(late(*round), 150 * MS, PATIENCE);
            is_too_long(&silence, late(*round) + 50 * MS)
        });
        // The limit of 5 s and 16 pauses of 300 ms, of which each round counts 100 ms.
        assert_eq!(ended, Some(98));
    }

    /// The host of a peer that is stopped dies, and all that is sent to it expires.
    #[test]
    fn waits_for_a_dead_host_add_up() {
        let begin = Instant::now();
        for (idle, adds_up) in [(1_000, true), (3_600_000, false)] {
            let (mut silence, mut now) = (Silence::new(begin), begin + 600 * MS);
            silence.begin(begin, PATIENCE);
            assert!(silence.ask(begin + 300 * MS));
            silence.look_at_host(now, true);
            for _ in 0..50 {
                assert_eq!(silence.is_too_long(now, false, PATIENCE), None);
                now += 100 * MS;
                silence.look(now);
                silence.look_at_host(now, false);
                silence.end(now);
                now += idle * MS;
                silence.begin(now, PATIENCE);
            }
            assert_eq!(silence.is_too_long(now, false, PATIENCE), adds_up.then_some(LIMIT));
        }
    }

    /// A caller gives the last message up before the driver comes back.
    #[test]
    fn caller_that_comes_first_counts_no_absence() {
        let begin = Instant::now();
        let mut silence = Silence::new(begin);
        silence.begin(begin, PATIENCE);
        silence.look(begin + 100 * MS);
        silence.end(begin + 60_000 * MS);
        assert_eq!(silence.is_too_long(begin + 60_000 * MS, false, PATIENCE), None);
    }

    #[test]
    fn stopped_peer_is_waited_for() {
        let begin = Instant::now();
        let mut silence = Silence::new(begin);
        silence.begin(begin, PATIENCE);
        assert!(silence.ask(begin + 300 * MS) && !silence.ask(begin + 500 * MS));
        assert!(!silence.doubts_peer(begin + 599 * MS, PATIENCE) && silence.doubts_peer(begin + 600 * MS, PATIENCE));
        for pause in 2..12_000 {
            let now = begin + pause * PATIENCE.pause;
            silence.look_at_host(now, true);
            assert!(!silence.doubts_peer(now, PATIENCE) && !is_too_long(&silence, now));
            assert!(!silence.should_halve(now + PATIENCE.pause, PATIENCE));
            assert_eq!(silence.next_at(PATIENCE), Some(now + PATIENCE.pause));
        }
        // The peer runs again, and tells of no arrival: the path is silent.
        assert!(silence.hear_of_peer(begin + 3_600_300 * MS, PATIENCE));
        assert!(!is_too_long(&silence, begin + 3_604_999 * MS));
        assert!(is_too_long(&silence, begin + 3_605_000 * MS));
    }

    #[test]
    fn host_of_a_stopped_peer_has_to_live() {
        let begin = Instant::now();
        let mut silence = Silence::new(begin);
        silence.begin(begin, PATIENCE);
        assert!(silence.ask(begin + 300 * MS));
        silence.look_at_host(begin + 600 * MS, true);
        // This end did not look meanwhile.
        silence.excuse(begin + 3_600_000 * MS, 3_599_000 * MS, PATIENCE);
        let lived_at = begin + 3_599_600 * MS;
        for pause in 1..16 {
            let now = lived_at + pause * PATIENCE.pause;
            assert!(silence.doubts_peer(now, PATIENCE) && !is_too_long(&silence, now));
            silence.look_at_host(now, false);
            assert!(!silence.doubts_peer(now, PATIENCE) && silence.peer_is_stopped());
        }
        let now = lived_at + LIMIT;
        assert_eq!(silence.is_too_long(now, false, PATIENCE), None, "nobody waits");
        assert_eq!(silence.is_too_long(now, true, PATIENCE), Some(LIMIT));
        // A segment is under way again, after a time in which the driver did not look.
        silence.begin(now + 3_600_000 * MS, PATIENCE);
        assert!(!is_too_long(&silence, now + 3_604_999 * MS));
        assert!(is_too_long(&silence, now + 3_605_000 * MS));
    }

    /// The peer has answered while this end did not look.
    #[test]
    fn absence_counts_once_beside_a_question() {
        let begin = Instant::now();
        let mut silence = Silence::new(begin);
        silence.begin(begin, PATIENCE);
        assert!(silence.ask(begin + 300 * MS));
        silence.excuse(begin + 10_350 * MS, 10_000 * MS, PATIENCE);
        assert!(!silence.doubts_peer(begin + 10_599 * MS, PATIENCE));
        assert!(!silence.hear_of_peer(begin + 10_350 * MS, PATIENCE), "it was not stopped");
        assert!(!is_too_long(&silence, begin + 14_999 * MS));
        assert!(is_too_long(&silence, begin + 15_000 * MS));
    }

    /// A peer that answers is running, and its path is dead.
    #[test]
    fn answers_without_arrivals_excuse_nothing() {
        let begin = Instant::now();
        let mut silence = Silence::new(begin);
        silence.begin(begin, PATIENCE);
        for pause in 1..16 {
            let now = begin + pause * PATIENCE.pause;
            assert!(silence.ask(now) && !silence.hear_of_peer(now + 20 * MS, PATIENCE));
        }
        assert!(is_too_long(&silence, begin + LIMIT));
    }
}
