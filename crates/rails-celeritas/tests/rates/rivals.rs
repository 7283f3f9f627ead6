//! Simple models of TCP flows: CUBIC (RFC 9438) and BBR (version 1), without retransmissions. The
//! path keeps the order, so that a packet behind which another one has arrived is lost.

use crate::flows::{Flow, Item, Outbox};
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// The sender's books.
#[derive(Debug, Default)]
struct Books {
    /// Packets under way: number, time, and the packets that had been delivered when it left, with
    /// that time.
    under_way: VecDeque<(u64, Instant, f64, Instant)>,
    next: u64,
    delivered: f64,
    delivered_at: Option<Instant>,
    acknowledgments: Vec<u64>,
}

/// An acknowledgment.
struct News {
    lost: usize,
    rtt: Duration,
    /// The rate at which packets were delivered since this one left, in packets per second.
    rate: f64,
}

impl Books {
    fn send(&mut self, now: Instant, outbox: &mut Outbox) {
        let delivered_at = *self.delivered_at.get_or_insert(now);
        self.under_way.push_back((self.next, now, self.delivered, delivered_at));
        outbox.forward.push((1500, Item::Number(self.next)));
        self.next += 1;
    }

    /// Takes an arrival at either end. Returns the news of one at the sender.
    fn arrive(&mut self, now: Instant, at_receiver: bool, item: &Item) -> Option<News> {
        let Item::Number(number) = *item else { unreachable!("rivals send numbers") };
        if at_receiver {
            self.acknowledgments.push(number);
            return None;
        }
        let index = self.under_way.iter().position(|(one, ..)| *one == number)?;
        let lost = self.under_way.drain(..index).count();
        let (_, sent_at, delivered, delivered_at) = self.under_way.pop_front()?;
        self.delivered += 1.0;
        self.delivered_at = Some(now);
        let rate = (self.delivered - delivered) / (now - delivered_at).as_secs_f64();
        Some(News { lost, rtt: now - sent_at, rate })
    }

    fn acknowledge(&mut self, outbox: &mut Outbox) {
        let back = self.acknowledgments.drain(..).map(|number| (false, Item::Number(number)));
        outbox.control.extend(back);
    }

    /// The time at which all is lost of which nothing was heard.
    fn given_up_at(&self) -> Option<Instant> {
        self.under_way.back().map(|(_, at, ..)| *at + Duration::from_millis(300))
    }

    fn give_up(&mut self, now: Instant) -> bool {
        let is_lost = self.given_up_at().is_some_and(|at| at <= now);
        if is_lost {
            self.under_way.clear();
        }
        is_lost
    }
}

/// A flow with CUBIC.
#[derive(Debug)]
pub(crate) struct Cubic {
    books: Books,
    window: f64,
    threshold: f64,
    most: f64,
    cut_at: Instant,
}

pub(crate) fn cubic(now: Instant, _: Duration) -> Box<dyn Flow> {
    Box::new(Cubic { books: Books::default(), window: 10.0, threshold: f64::MAX, most: 0.0, cut_at: now })
}

impl Flow for Cubic {
    fn arrive(&mut self, now: Instant, at_receiver: bool, item: Item) {
        let Some(news) = self.books.arrive(now, at_receiver, &item) else { return };
        let rtt = news.rtt.as_secs_f64();
        if news.lost > 0 && self.cut_at + news.rtt <= now {
            self.most = self.window;
            self.window = (self.window * 0.7).max(2.0);
            self.threshold = self.window;
            self.cut_at = now;
        } else if self.window < self.threshold {
            self.window += 1.0;
        } else {
            let time = (now - self.cut_at).as_secs_f64() + rtt;
            let middle = (self.most * 0.3 / 0.4).cbrt();
            let target = self.most + 0.4 * (time - middle).powi(3);
            let reno = self.most * 0.7 + 0.53 * time / rtt;
            self.window += (target.max(reno) - self.window).clamp(0.0, self.window / 2.0) / self.window;
        }
    }

    fn timeout(&mut self, now: Instant) {
        if self.books.give_up(now) {
            (self.threshold, self.window) = (self.window / 2.0, 10.0);
        }
    }

    fn work(&mut self, now: Instant, outbox: &mut Outbox) {
        self.books.acknowledge(outbox);
        while (self.books.under_way.len() as f64) < self.window {
            self.books.send(now, outbox);
        }
    }

    fn due(&self) -> Option<Instant> {
        self.books.given_up_at()
    }
}

/// A flow with BBR.
#[derive(Debug)]
pub(crate) struct Bbr {
    books: Books,
    /// The highest rates of the latest rounds, in packets per second.
    rates: VecDeque<f64>,
    base: Duration,
    base_at: Instant,
    round_at: Instant,
    round: usize,
    /// Rounds of the start without growth; `None` behind the start.
    stalled: Option<(usize, f64)>,
    next_at: Instant,
    probes_until: Option<Instant>,
}

pub(crate) fn bbr(now: Instant, rtt: Duration) -> Box<dyn Flow> {
    Box::new(Bbr {
        books: Books::default(),
        rates: [10.0 / rtt.as_secs_f64()].into(),
        // The first round trip is shorter.
        base: 2 * rtt + Duration::from_secs(1),
        base_at: now,
        round_at: now,
        round: 0,
        stalled: Some((0, 0.0)),
        next_at: now,
        probes_until: None,
    })
}

impl Bbr {
    fn rate(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }

    fn window(&self) -> f64 {
        let gain = if self.stalled.is_some() { 2.89 } else { 2.0 };
        if self.probes_until.is_some() { 4.0 } else { (gain * self.rate() * self.base.as_secs_f64()).max(4.0) }
    }

    fn gain(&self) -> f64 {
        match (self.stalled, self.round % 8) {
            (Some(_), _) => 2.89,
            (None, 0) => 1.25,
            (None, 1) => 0.75,
            _ => 1.0,
        }
    }

    fn end_round(&mut self, now: Instant) {
        self.round += 1;
        self.round_at = now;
        if let Some((stalled, best)) = self.stalled {
            let rate = self.rate();
            let next = if rate > best * 1.25 { (0, rate) } else { (stalled + 1, best) };
            self.stalled = Some(next).filter(|(stalled, _)| *stalled < 3);
            if self.stalled.is_none() {
                self.round = 1;
            }
        }
        self.rates.push_back(0.0);
        while self.rates.len() > 10 {
            self.rates.pop_front();
        }
    }
}

impl Flow for Bbr {
    fn arrive(&mut self, now: Instant, at_receiver: bool, item: Item) {
        let Some(news) = self.books.arrive(now, at_receiver, &item) else { return };
        if news.rtt <= self.base || self.base_at + Duration::from_secs(10) <= now {
            if news.rtt > self.base {
                self.probes_until = Some(now + Duration::from_millis(200));
            }
            (self.base, self.base_at) = (news.rtt, now);
        }
        if self.probes_until.is_some_and(|until| until <= now) {
            self.probes_until = None;
        }
        if self.probes_until.is_none() {
            let last = self.rates.back_mut().expect("there is one");
            *last = last.max(news.rate);
        }
        // Few packets are under way while it probes: such rounds tell nothing of the rate.
        if self.round_at + self.base <= now && self.probes_until.is_none() {
            self.end_round(now);
        }
    }

    fn timeout(&mut self, now: Instant) {
        self.books.give_up(now);
    }

    fn work(&mut self, now: Instant, outbox: &mut Outbox) {
        self.books.acknowledge(outbox);
        while self.next_at <= now && (self.books.under_way.len() as f64) < self.window() {
            self.books.send(now, outbox);
            let pause = Duration::from_secs_f64(1.0 / (self.rate() * self.gain()).max(1.0));
            self.next_at = self.next_at.max(now - Duration::from_millis(1)) + pause;
        }
    }

    fn due(&self) -> Option<Instant> {
        let is_free = (self.books.under_way.len() as f64) < self.window();
        is_free.then_some(self.next_at).into_iter().chain(self.books.given_up_at()).min()
    }
}
