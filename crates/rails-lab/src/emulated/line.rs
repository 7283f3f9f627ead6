//! One direction of an emulated link: whether and when each frame is delivered.

use super::EmulatedLink;
use crate::Side;
use rand::{Rng, SeedableRng, rngs::ChaCha8Rng};
use std::time::Duration;

/// Decides the fate of the frames of one direction, in the order of arrival.
///
/// A line holds no frame and reads no clock. Instants are times since the link began, and never go
/// back.
#[derive(Debug)]
pub(crate) struct Line {
    link: EmulatedLink,
    from: Side,
    random: ChaCha8Rng,
    /// The time at which the last bit that was accepted will have left.
    free: Duration,
    /// The time at which the last frame that was accepted will arrive.
    last_arrival: Duration,
}

/// The fate of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The other end has the whole frame at that instant.
    Arrives(Duration),
    /// The frame takes its time on the link, but does not arrive.
    Lost,
    /// The queue had no room for the frame.
    QueueFull,
}

impl Line {
    pub(crate) fn new(link: EmulatedLink, from: Side) -> Self {
        let random = random(link.seed, from);
        Self { link, from, random, free: Duration::ZERO, last_arrival: Duration::ZERO }
    }

    /// Changes the link. Accepted frames arrive as before; later ones do not overtake them on a
    /// link that became shorter. The sequence of losses continues, unless the seed changes.
    pub(crate) fn change(&mut self, link: EmulatedLink) {
        if link.seed != self.link.seed {
            self.random = random(link.seed, self.from);
        }
        self.link = link;
    }

    pub(crate) fn offer(&mut self, now: Duration, bytes: usize) -> Fate {
        // Each frame takes one draw, also a dropped one, so that the n-th frame's draw does not
        // depend on the queue.
        let is_lost = uniform(self.random.next_u64()) < self.link.loss[self.from as usize];
        let starts = self.free.max(now);
        if starts - now > self.link.longest_wait() {
            return Fate::QueueFull;
        }
        self.free = starts + self.link.time_to_send(bytes as u64);
        if is_lost {
            return Fate::Lost;
        }
        self.last_arrival = self.last_arrival.max(self.free + self.link.delay());
        Fate::Arrives(self.last_arrival)
    }
}

/// The directions draw from two streams of one seed.
fn random(seed: u64, from: Side) -> ChaCha8Rng {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(from as u64);
    random
}

/// The upper 53 bits as a uniform number from 0 to below 1.
fn uniform(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn frame_on_an_idle_link() {
        let mut line = Line::new(reference(), Side::A);
        let arrival = |now, nanos| Fate::Arrives(now + Duration::from_nanos(nanos));
        assert_eq!(line.offer(Duration::ZERO, 1514), arrival(Duration::ZERO, 9_500_000 + 24_224));
        let later = Duration::from_secs(3);
        assert_eq!(line.offer(later, 1514), arrival(later, 9_500_000 + 24_224), "idle time is not saved up");
        assert_eq!(line.offer(later, 1514), arrival(later, 9_500_000 + 2 * 24_224), "it waits for the one before");
    }

    #[test]
    fn the_queue_ends_where_it_was_set_to() {
        let mut line = Line::new(EmulatedLink::mbit(8).queue_bytes(3000), Side::A);
        let fates: Vec<Fate> = (0..6).map(|_| line.offer(Duration::ZERO, 1000)).collect();
        // Nothing, then 1000, 2000 and 3000 bytes were ahead; 4000 are more than 3000.
        assert!(fates[..4].iter().all(|fate| matches!(fate, Fate::Arrives(_))), "{fates:?}");
        assert_eq!(fates[4..], [Fate::QueueFull; 2]);
        assert!(matches!(line.offer(Duration::from_millis(1), 1000), Fate::Arrives(_)), "room was made");
    }

    #[test]
    fn loss_is_as_frequent_as_asked_for() {
        let mut line = Line::new(EmulatedLink::mbit(500).loss(0.1), Side::A);
        let lost = (0..100_000).filter(|n| line.offer(Duration::from_millis(*n), 100) == Fate::Lost).count();
        assert!((9_500..10_500).contains(&lost), "{lost} of 100000");
        let mut none = Line::new(EmulatedLink::mbit(500).loss(0.0), Side::A);
        assert!((0..10_000).all(|n| none.offer(Duration::from_millis(n), 100) != Fate::Lost));
        let mut all = Line::new(EmulatedLink::mbit(500).loss(1.0), Side::A);
        assert!((0..10_000).all(|n| all.offer(Duration::from_millis(n), 100) == Fate::Lost));
    }

    #[test]
    fn losses_by_direction_and_seed() {
        let lossy = |seed| EmulatedLink::mbit(500).loss(0.5).seed(seed);
        let fates = |line: &mut Line| -> Vec<bool> {
            (0..200).map(|n| line.offer(Duration::from_secs(n), 100) == Fate::Lost).collect()
        };
        let first = fates(&mut Line::new(lossy(7), Side::A));
        assert_ne!(first, fates(&mut Line::new(lossy(7), Side::B)));
        assert_ne!(first, fates(&mut Line::new(lossy(8), Side::A)));
        let mut changed = Line::new(lossy(8), Side::A);
        changed.offer(Duration::ZERO, 100);
        changed.change(lossy(7));
        assert_eq!(first, fates(&mut changed));
    }

    fn reference() -> EmulatedLink {
        EmulatedLink::mbit(500).rtt(Duration::from_millis(19))
    }

    /// Emulated links from slow to fast, with all sorts of queues.
    fn links() -> impl Strategy<Value = EmulatedLink> {
        (10_000_u64..2_000_000_000, 0_u64..40_000, 0_u64..50_000, 0.0..0.5, any::<u64>()).prop_map(
            |(rate, rtt, queue, loss, seed)| {
                let [rtt, queue] = [rtt, queue].map(Duration::from_micros);
                EmulatedLink::bits_per_second(rate).rtt(rtt).queue(queue).loss(loss).seed(seed)
            },
        )
    }

    /// The pauses before frames (in nanoseconds), and their lengths; most come close together.
    fn frames() -> impl Strategy<Value = Vec<(u64, usize)>> {
        let pause = prop_oneof![4 => Just(0), 4 => 0_u64..50_000, 1 => 0_u64..50_000_000];
        prop::collection::vec((pause, 60_usize..1515), 1..150)
    }

    proptest! {
        #[test]
        fn rate_in_any_interval_and_earliest_arrival(link in links(), frames in frames()) {
            let mut line = Line::new(link, Side::A);
            let mut now = Duration::ZERO;
            let mut arrivals: Vec<(Duration, u64)> = Vec::new();
            for (pause, bytes) in frames {
                now += Duration::from_nanos(pause);
                if let Fate::Arrives(at) = line.offer(now, bytes) {
                    prop_assert!(at >= now + link.delay() + link.time_to_send(bytes as u64));
                    prop_assert!(at <= now + link.longest_wait() + link.time_to_send(bytes as u64) + link.delay());
                    arrivals.push((at, bytes as u64));
                }
            }
            for (first, &(start, _)) in arrivals.iter().enumerate() {
                let mut bytes = 0;
                for &(end, more) in &arrivals[first + 1..] {
                    bytes += more;
                    let room = (end - start).as_nanos() * u128::from(link.bits_per_second);
                    prop_assert!(u128::from(bytes) * 8 * 1_000_000_000 <= room, "{} bytes in {:?}", bytes, end - start);
                }
            }
        }

        #[test]
        fn frames_under_way_are_bounded_by_queue_and_delay(link in links(), frames in frames()) {
            let mut line = Line::new(link, Side::A);
            let mut now = Duration::ZERO;
            let mut flying: Vec<(Duration, u64)> = Vec::new();
            let time = link.longest_wait() + link.delay();
            // One frame is being sent beyond those that wait, and one may be partly out at the near end of the delay.
            let bound = time.as_nanos() * u128::from(link.bits_per_second) / 8_000_000_000 + 2 * 1514;
            for (pause, bytes) in frames {
                now += Duration::from_nanos(pause);
                if let Fate::Arrives(at) = line.offer(now, bytes) {
                    flying.push((at, bytes as u64));
                }
                flying.retain(|&(at, _)| at > now);
                let held: u64 = flying.iter().map(|&(_, bytes)| bytes).sum();
                prop_assert!(u128::from(held) <= bound, "{} of {}", held, bound);
            }
        }

        #[test]
        fn same_losses_of_one_seed_at_any_time(
            link in links(), count in 1_usize..100, early in 0_u64..1000, late in 0_u64..1000,
        ) {
            // With room for all, so that only the seed decides.
            let link = link.queue(Duration::from_secs(1_000_000));
            let lost = |pause: u64| -> Vec<bool> {
                let mut line = Line::new(link, Side::B);
                (0..count as u64).map(|n| line.offer(Duration::from_micros(n * pause), 100) == Fate::Lost).collect()
            };
            prop_assert_eq!(lost(early), lost(late));
        }

        #[test]
        fn frame_order_while_the_link_changes(before in links(), after in links(), frames in frames()) {
            let mut line = Line::new(before, Side::A);
            let mut now = Duration::ZERO;
            let mut last = Duration::ZERO;
            let half = frames.len() / 2;
            for (number, (pause, bytes)) in frames.into_iter().enumerate() {
                if number == half {
                    line.change(after);
                }
                now += Duration::from_nanos(pause);
                if let Fate::Arrives(at) = line.offer(now, bytes) {
                    prop_assert!(at >= last && at >= now);
                    last = at;
                }
            }
        }
    }
}
