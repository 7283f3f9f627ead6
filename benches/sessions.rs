//! Sessions beside plain TCP, lone streams, yamux and quinn: bulk data, small messages, new, idle
//! and busy streams, and a lost lane. Each row is a ratio or a figure, with its target.
//!
//! Run: `cargo bench --bench sessions`, with `-- NAME` for the cases whose names have NAME in them,
//! and with `-- --quick` for short rounds. Cases over links need root; instructions are counted by
//! valgrind. Both ends are in this process, over two lanes. Contenders take turns in each round, so
//! that a busy machine disturbs all. Nothing is drawn by chance.

mod mux;

use bytes::Bytes;
use futures_util::future::join_all;
use mux::{Contender, Ends, Pipe, Place};
use nix::sys::resource::{UsageWho, getrusage};
use rails_lab::{LinkLab, Shape, Side};
use std::{
    fs,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::{
    runtime::{Builder, Runtime},
    time::{interval_at, sleep, sleep_until},
};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(at) = arguments.iter().position(|argument| argument == EXCHANGE) {
        return exchange_alone(&arguments[at + 1..]);
    }
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    // `cargo bench` measures; `cargo test --benches` only tries.
    let effort = match (has("--bench"), has("--quick")) {
        (true, false) => Effort { rounds: 7, time: Duration::from_secs(1), streams: 1000, is_trial: false },
        (true, true) => Effort { rounds: 3, time: Duration::from_millis(300), streams: 1000, is_trial: false },
        (false, _) => Effort { rounds: 1, time: Duration::from_millis(20), streams: 10, is_trial: true },
    };
    let wanted = arguments.iter().find(|argument| !argument.starts_with("--"));
    let bench = Bench { runtime: Builder::new_multi_thread().enable_all().build().expect("a runtime"), effort };
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    println!(
        "{cpus} CPUs, Linux {}, TCP's {}, {:?}; tasks on the first rail of each end, unless a row says otherwise",
        read("/proc/sys/kernel/osrelease"),
        read("/proc/sys/net/ipv4/tcp_congestion_control"),
        bench.effort
    );
    for (name, case) in CASES {
        if wanted.is_none_or(|wanted| name.contains(wanted.as_str())) {
            case(&bench, name);
        }
    }
}

/// A case prints rows under its name.
type Case = fn(&Bench, &str);

const CASES: [(&str, Case); 10] = [
    ("bulk", Bench::bulk),
    ("round-trip", Bench::round_trips),
    ("instructions", Bench::instructions),
    ("open", Bench::opens),
    ("idle", Bench::idle),
    ("echoes", Bench::echoes),
    ("beside-bulk", Bench::beside_bulk),
    ("unread", Bench::unread),
    ("sixteen", Bench::sixteen),
    ("lost-lane", Bench::lost_lane),
];

/// How long to measure.
#[derive(Debug, Clone, Copy)]
struct Effort {
    rounds: usize,
    time: Duration,
    /// The number of many streams.
    streams: usize,
    /// Whether this is only a trial, in which figures mean nothing.
    is_trial: bool,
}

struct Bench {
    /// The runtime of this thread, and of tasks that are on no rail.
    runtime: Runtime,
    effort: Effort,
}

/// One figure of a row, by round.
struct Samples(Vec<f64>);

impl Samples {
    fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    }

    fn max(&self) -> f64 {
        self.0.iter().copied().fold(f64::MIN, f64::max)
    }

    /// The ratio of each round's figures.
    fn ratios(&self, to: &Self) -> Self {
        Self(self.0.iter().zip(&to.0).map(|(one, other)| one / other).collect())
    }

    fn spread(&self) -> String {
        let min = self.0.iter().copied().fold(f64::MAX, f64::min);
        format!("{min:.2} to {:.2}", self.max())
    }
}

enum Target {
    AtMost(f64),
    AtLeast(f64),
}

/// Prints a figure beside its target.
fn row(name: &str, what: &str, figure: f64, target: &Target, spread: &Samples) {
    let (is_met, target) = match target {
        Target::AtMost(most) => (figure <= *most, format!("<= {most}")),
        Target::AtLeast(least) => (figure >= *least, format!(">= {least}")),
    };
    let verdict = if is_met { "met" } else { "MISSED" };
    println!("{name:<13} {what:<58} {figure:>8.3} {target:>9} {verdict:<6} ({})", spread.spread());
}

/// Prints figures without a target.
fn note(name: &str, what: &str, figures: &Samples, unit: &str) {
    println!("{name:<13}   {what:<56} {:>8.2} {unit} ({})", figures.median(), figures.spread());
}

impl Bench {
    /// One bulk stream.
    fn bulk(&self, name: &str) {
        let place = Place::loopback();
        let contenders = [Contender::Stream, Contender::Session, Contender::Tcp, Contender::Yamux, Contender::Quinn];
        let rates = self.runtime.block_on(self.rates(&place, &contenders.map(|contender| (contender, 1, 0))));
        let ratios = rates[1].ratios(&rates[0]);
        row(name, "one bulk stream of a session / a lone stream", ratios.median(), &Target::AtLeast(0.99), &ratios);
        for (contender, rates) in contenders.iter().zip(&rates) {
            note(name, &contender.to_string(), rates, "Gbit/s");
        }
    }

    /// Sixteen bulk streams of one session.
    fn sixteen(&self, name: &str) {
        let place = Place::loopback();
        let loads = [
            (Contender::Session, 1, 0),
            (Contender::Session, 16, 0),
            (Contender::Tcp, 16, 0),
            (Contender::Yamux, 16, 0),
        ];
        let rates = self.runtime.block_on(self.rates(&place, &loads));
        let ratios = rates[1].ratios(&rates[0]);
        row(name, "16 bulk streams of a session / one", ratios.median(), &Target::AtLeast(0.95), &ratios);
        for ((contender, streams, _), rates) in loads.iter().zip(&rates) {
            note(name, &format!("{contender}, {streams} streams"), rates, "Gbit/s");
        }
    }

    /// A stream that is never read among a hundred.
    fn unread(&self, name: &str) {
        let place = Place::loopback();
        let rates = [(Contender::Session, 99, 0), (Contender::Session, 99, 1)];
        let rates = self.runtime.block_on(self.rates(&place, &rates));
        let ratios = rates[1].ratios(&rates[0]);
        row(name, "99 streams beside one that is not read / alone", ratios.median(), &Target::AtLeast(0.99), &ratios);
        for (what, rates) in ["99 streams alone", "99 streams beside one that is not read"].iter().zip(&rates) {
            note(name, what, rates, "Gbit/s");
        }
    }

    /// The rates, in gigabits per second, of loads: a contender, its streams, and more streams that
    /// are not read. All are up at once, and take turns.
    async fn rates(&self, place: &Place, loads: &[(Contender, usize, usize)]) -> Vec<Samples> {
        let mut rates: Vec<Samples> = loads.iter().map(|_| Samples(Vec::new())).collect();
        for _ in 0..self.effort.rounds {
            for ((contender, read, unread), rates) in loads.iter().zip(&mut rates) {
                let ends = place.connect(*contender).await;
                let bulk = Bulk::start(place, &ends, *read, *unread).await;
                sleep(self.effort.time / 4).await;
                let (start, before) = (Instant::now(), bulk.received.load(Relaxed));
                sleep(self.effort.time).await;
                let bytes = bulk.received.load(Relaxed) - before;
                rates.0.push(bytes as f64 * 8e-9 / start.elapsed().as_secs_f64());
                bulk.stop().await;
            }
        }
        rates
    }

    /// Small messages there and back.
    fn round_trips(&self, name: &str) {
        let on_rails = Place::loopback();
        let elsewhere = on_rails.with_tasks(self.runtime.handle());
        for (where_, place) in [("on a rail", &on_rails), ("on a multi-thread runtime", &elsewhere)] {
            for length in [64, 1024] {
                self.runtime.block_on(self.round_trips_at(name, where_, place, length));
            }
        }
    }

    async fn round_trips_at(&self, name: &str, where_: &str, place: &Place, length: usize) {
        let contenders = [Contender::Tcp, Contender::Session, Contender::Stream, Contender::Yamux, Contender::Quinn];
        let mut figures = contenders.map(|_| [(); 2].map(|()| Samples(Vec::new())));
        for _ in 0..CONNECTS {
            let mut exchanges = Vec::new();
            for contender in contenders {
                let ends = place.connect(contender).await;
                let [near, far] = ends.open().await;
                exchanges.push((ends, Exchange::start(place, near, far, length), Vec::new()));
            }
            for _ in 0..self.effort.rounds {
                for (_, exchange, trips) in &mut exchanges {
                    trips.extend(exchange.go(self.effort.time / 4).await);
                }
            }
            for (figures, (_ends, _, trips)) in figures.iter_mut().zip(&mut exchanges) {
                let [p50, p99] = percentiles(trips);
                figures[0].0.push(p50);
                figures[1].0.push(p99);
            }
        }
        for (index, (percentile, most)) in [("p50", 1.15), ("p99", 1.3)].into_iter().enumerate() {
            let ratios = figures[1][index].ratios(&figures[0][index]);
            let what = format!("{length} B, {where_}: {percentile} / TCP's");
            row(name, &what, ratios.max(), &Target::AtMost(most), &ratios);
        }
        for (contender, [p50, p99]) in contenders.iter().zip(&figures) {
            note(name, &format!("{contender}, p50"), p50, "us");
            note(name, &format!("{contender}, p99"), p99, "us");
        }
    }

    /// Instructions of a small message at an end, counted by callgrind in a process of its own.
    fn instructions(&self, name: &str) {
        if self.effort.is_trial {
            return println!("{name:<13} not tried: it takes minutes");
        }
        for (length, before) in INSTRUCTIONS_BEFORE {
            for contender in ["session", "stream"] {
                let counts = [500, 2500].map(|count| collected(contender, length, count));
                let [Some(few), Some(many)] = counts else {
                    return println!("{name:<13} not counted: valgrind is missing or failed");
                };
                // A round trip is two messages, each of which two ends handle.
                let per_message = (many - few) as f64 / 2000.0 / 4.0;
                let what = format!("{length} B in a {contender}: instructions / {before} before sessions");
                let ratio = per_message / f64::from(before);
                row(name, &what, ratio, &Target::AtMost(0.5), &Samples(vec![ratio]));
                note(name, "instructions per message and end", &Samples(vec![per_message]), "");
            }
        }
    }

    /// A new stream with a byte there and back.
    fn opens(&self, name: &str) {
        let place = Place::loopback();
        for contender in [Contender::Session, Contender::Yamux, Contender::Quinn] {
            let (mut trips, mut opens) = (Samples(Vec::new()), Samples(Vec::new()));
            self.runtime.block_on(async {
                let ends = Arc::new(place.connect(contender).await);
                let [near, far] = ends.open().await;
                let mut exchange = Exchange::start(&place, near, far, 64);
                let is_over = Arc::new(AtomicBool::new(false));
                let answering = place.tasks[1].spawn(answer_new(ends.clone(), is_over.clone()));
                for _ in 0..self.effort.rounds {
                    let mut of_round = exchange.go(self.effort.time / 2).await;
                    trips.0.push(percentiles(&mut of_round)[0]);
                    let opening = place.tasks[0].spawn(open_new(ends.clone(), self.effort.time / 2));
                    opens.0.push(percentiles(&mut opening.await.expect("the streams hold"))[0]);
                }
                is_over.store(true, Relaxed);
                let last = place.tasks[0].spawn(open_new(ends, Duration::ZERO));
                last.await.expect("the streams hold");
                answering.await.expect("the streams hold");
            });
            let ratios = opens.ratios(&trips);
            if contender == Contender::Session {
                let what = "a new stream, a byte there and back / 64 B on an open one";
                row(name, what, ratios.median(), &Target::AtMost(1.1), &ratios);
            }
            note(name, &format!("{contender}, the same ratio"), &ratios, "");
            note(name, &format!("{contender}, a new stream"), &opens, "us");
            note(name, &format!("{contender}, an open one"), &trips, "us");
        }
    }

    /// Streams that wait.
    fn idle(&self, name: &str) {
        let place = Place::loopback();
        let count = self.effort.streams;
        let descriptors = || fs::read_dir("/proc/self/fd").expect("the process runs").count();
        self.runtime.block_on(async {
            // The first session of a process fills caches.
            drop(place.connect(Contender::Session).await.open().await);
            sleep(self.effort.time).await;
            let before = descriptors();
            let ends = place.connect(Contender::Session).await;
            drop(ends.open().await);
            sleep(self.effort.time).await;
            let memory = resident();
            let mut open = Vec::with_capacity(count);
            for _ in 0..count {
                open.push(ends.open().await);
            }
            // Buffers and timers of the last use go first.
            sleep(Duration::from_secs(2)).await;
            let kib = (resident() as f64 - memory as f64) / 1024.0 / (2 * count) as f64;
            row(name, "KiB of a stream and end", kib, &Target::AtMost(1.0), &Samples(vec![kib]));
            let held = (descriptors() - before) as f64;
            let listening = 2.0;
            let per_lane = (held - listening) / 2.0;
            row(name, "descriptors of a lane, both ends", per_lane, &Target::AtMost(2.0), &Samples(vec![per_lane]));
            let mut wakes = Vec::new();
            for _ in 0..3 {
                let from = switches();
                sleep(self.effort.time).await;
                wakes.push((switches() - from) as f64 / self.effort.time.as_secs_f64());
            }
            let wakes = Samples(wakes);
            row(name, "wakes of the rails' threads a second", wakes.median(), &Target::AtMost(0.0), &wakes);
        });
    }

    /// A kilobyte there and back each second on each of a thousand streams.
    fn echoes(&self, name: &str) {
        let place = Place::loopback();
        let (mut p50s, mut p99s, mut cpus) = (
            [(); 2].map(|()| Samples(Vec::new())),
            [(); 2].map(|()| Samples(Vec::new())),
            [(); 2].map(|()| Samples(Vec::new())),
        );
        let rounds = self.effort.rounds.min(3);
        let time = if self.effort.is_trial {
            Duration::from_secs(1)
        } else {
            4 * self.effort.time.max(Duration::from_secs(1))
        };
        for _ in 0..rounds {
            for (index, contender) in [Contender::Tcp, Contender::Session].into_iter().enumerate() {
                let (mut trips, cpu) = self.runtime.block_on(self.echo_each_second(&place, contender, time));
                let [p50, p99] = percentiles(&mut trips);
                p50s[index].0.push(p50);
                p99s[index].0.push(p99);
                cpus[index].0.push(cpu);
            }
        }
        let what = format!("{} streams, 1 KiB a second each", self.effort.streams);
        for (figure, most, [tcp, session]) in [("p99", 1.5, &p99s), ("CPU", 1.0, &cpus)] {
            let ratios = session.ratios(tcp);
            row(name, &format!("{what}: {figure} / TCP's"), ratios.median(), &Target::AtMost(most), &ratios);
        }
        for (index, contender) in ["TCP", "session"].into_iter().enumerate() {
            note(name, &format!("{contender}, p50"), &p50s[index], "us");
            note(name, &format!("{contender}, p99"), &p99s[index], "us");
            note(name, &format!("{contender}, CPU time"), &cpus[index], "ms/s");
        }
    }

    /// The round trips, and the CPU time in milliseconds a second.
    async fn echo_each_second(&self, place: &Place, contender: Contender, time: Duration) -> (Vec<f64>, f64) {
        let ends = place.connect(contender).await;
        let mut pipes = Vec::new();
        for _ in 0..self.effort.streams {
            pipes.push(ends.open().await);
        }
        let begin = Instant::now() + Duration::from_secs(1);
        let mut tasks = Vec::new();
        let count = pipes.len() as f64;
        for (index, [mut near, far]) in pipes.into_iter().enumerate() {
            place.tasks[1].spawn(answer(far, 1024));
            // The streams take their turns over the whole second.
            let first = begin + Duration::from_secs(1).mul_f64(index as f64 / count);
            tasks.push(place.tasks[0].spawn(async move {
                let (mut ticks, mut message) = (interval_at(first.into(), Duration::from_secs(1)), [7; 1024]);
                let mut trips = Vec::new();
                while first.elapsed() < time {
                    ticks.tick().await;
                    let start = Instant::now();
                    near.sender.write_all(&message).await;
                    near.receiver.read_exact(&mut message).await;
                    trips.push(start.elapsed().as_secs_f64() * 1e6);
                }
                trips
            }));
        }
        sleep_until(begin.into()).await;
        let before = cpu_time();
        sleep(time).await;
        let cpu = (cpu_time() - before).as_secs_f64() * 1e3 / time.as_secs_f64();
        let trips = join_all(tasks).await.into_iter().flat_map(|trips| trips.expect("the stream holds"));
        (trips.collect(), cpu)
    }

    /// A kilobyte there and back beside a bulk stream, over two shaped links.
    fn beside_bulk(&self, name: &str) {
        let Some(lab) = self.lab(name) else { return };
        let place = Place::linked(&lab);
        for contender in [Contender::Session, Contender::Yamux, Contender::Quinn] {
            let mut figures = [(); 2].map(|()| Samples(Vec::new()));
            let mut rates = Samples(Vec::new());
            self.runtime.block_on(async {
                for _ in 0..self.effort.rounds.min(3) {
                    let ends = place.connect(contender).await;
                    let [near, far] = ends.open().await;
                    let mut exchange = Exchange::start(&place, near, far, 1024);
                    let bulk = Bulk::start(&place, &ends, 1, 0).await;
                    sleep(self.effort.time).await;
                    let (start, before) = (Instant::now(), bulk.received.load(Relaxed));
                    let mut trips = exchange.go(3 * self.effort.time).await;
                    let bytes = bulk.received.load(Relaxed) - before;
                    rates.0.push(bytes as f64 * 8e-6 / start.elapsed().as_secs_f64());
                    let of_round = percentiles(&mut trips);
                    figures.iter_mut().zip(of_round).for_each(|(figures, figure)| figures.0.push(figure / 1e3));
                    bulk.stop().await;
                }
            });
            if contender == Contender::Session {
                let what = "1 KiB beside a bulk stream, 2 x 400 Mbit/s: p99, ms";
                row(name, what, figures[1].median(), &Target::AtMost(4.0), &figures[1]);
            }
            note(name, &format!("{contender}, p50"), &figures[0], "ms");
            note(name, &format!("{contender}, p99"), &figures[1], "ms");
            note(name, &format!("{contender}, the bulk stream"), &rates, "Mbit/s");
        }
    }

    /// The busiest link lost under streams that send 64 bytes twenty times a second each.
    fn lost_lane(&self, name: &str) {
        let Some(lab) = self.lab(name) else { return };
        let place = Place::linked(&lab);
        let period = Duration::from_millis(50);
        let (mut before, mut during) = (Samples(Vec::new()), Samples(Vec::new()));
        for _ in 0..self.effort.rounds.min(3) {
            self.runtime.block_on(async {
                let ends = place.connect(Contender::Session).await;
                let (is_lost, is_over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
                let begin = Instant::now() + Duration::from_secs(1);
                let (mut writing, mut reading) = (Vec::new(), Vec::new());
                for index in 0..self.effort.streams {
                    let [near, far] = ends.open().await;
                    let first = begin + period.mul_f64(index as f64 / self.effort.streams as f64);
                    writing.push(place.tasks[0].spawn(write_each(near, first, period, is_over.clone())));
                    reading.push(place.tasks[1].spawn(longest_waits(far, begin, is_lost.clone())));
                }
                sleep_until((begin + 2 * self.effort.time).into()).await;
                // Small messages may all take one of the lanes.
                let carried = |link: &usize| lab.counters(Side::A, *link).expect("the link is there").tx_bytes;
                let before_all = [0, 1].map(|link| carried(&link));
                sleep(self.effort.time / 2).await;
                let busiest = (0..2).max_by_key(|link| carried(link) - before_all[*link]).expect("there are two");
                is_lost.store(true, Relaxed);
                lab.set_link_up(Side::B, busiest, false).expect("the link is there");
                sleep(2 * self.effort.time).await;
                is_over.store(true, Relaxed);
                let written = join_all(writing).await.into_iter().map(|count| count.expect("the stream holds"));
                let read = join_all(reading).await.into_iter().map(|read| read.expect("the stream holds"));
                let (mut longest, mut lost) = ([Duration::ZERO; 2], 0);
                for (written, (read, waits)) in written.zip(read) {
                    lost += written - read;
                    longest.iter_mut().zip(waits).for_each(|(longest, wait)| *longest = wait.max(*longest));
                }
                assert_eq!(lost, 0, "messages were lost");
                before.0.push(longest[0].as_secs_f64() * 1e3);
                during.0.push(longest[1].as_secs_f64() * 1e3);
                lab.set_link_up(Side::B, busiest, true).expect("the link is there");
            });
            std::thread::sleep(Duration::from_secs(1));
        }
        let what = format!("{} streams and a lost link: longest wait of any, ms", self.effort.streams);
        row(name, &what, during.max(), &Target::AtMost(100.0), &during);
        note(name, "longest wait with both links", &before, "ms");
    }

    fn lab(&self, name: &str) -> Option<LinkLab> {
        if self.effort.is_trial {
            println!("{name:<13} not tried: it takes links");
            return None;
        }
        let lab = LinkLab::check().and_then(|()| LinkLab::builder().links([Shape::mbit(400); 2]).build());
        lab.inspect_err(|error| println!("{name:<13} NOT MEASURED: {error}")).ok()
    }
}

/// Bulk data on streams, from the near end to the far one.
struct Bulk {
    received: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    senders: Vec<tokio::task::JoinHandle<()>>,
    receivers: Vec<tokio::task::JoinHandle<()>>,
    /// Streams that nobody reads.
    _unread: Vec<Pipe>,
}

impl Bulk {
    async fn start(place: &Place, ends: &Ends, read: usize, unread: usize) -> Self {
        let (received, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let block = Bytes::from(vec![7; BLOCK]);
        let (mut senders, mut receivers, mut idle) = (Vec::new(), Vec::new(), Vec::new());
        for index in 0..read + unread {
            let [mut near, mut far] = ends.open().await;
            let (over, block) = (is_over.clone(), block.clone());
            senders.push(place.tasks[0].spawn(async move {
                while !over.load(Relaxed) && near.sender.write_block(&block).await {}
                near.end().await;
            }));
            if index < unread {
                idle.push(far);
                continue;
            }
            let received = received.clone();
            receivers.push(place.tasks[1].spawn(async move {
                let mut buffer = vec![0; BLOCK];
                loop {
                    match far.receiver.read_block(&mut buffer).await {
                        0 => break,
                        count => received.fetch_add(count as u64, Relaxed),
                    };
                }
            }));
        }
        Self { received, is_over, senders, receivers, _unread: idle }
    }

    async fn stop(self) {
        self.is_over.store(true, Relaxed);
        let Self { senders, receivers, _unread: idle, .. } = self;
        // The senders of streams that nobody reads wait for ever.
        drop(idle);
        join_all(senders).await;
        join_all(receivers).await;
    }
}

/// Round trips on one stream.
struct Exchange {
    near: Option<Pipe>,
    length: usize,
    tasks: tokio::runtime::Handle,
}

impl Exchange {
    fn start(place: &Place, near: Pipe, far: Pipe, length: usize) -> Self {
        place.tasks[1].spawn(answer(far, length));
        Self { near: Some(near), length, tasks: place.tasks[0].clone() }
    }

    /// The round trips of that time, in microseconds.
    async fn go(&mut self, time: Duration) -> Vec<f64> {
        let (mut near, length) = (self.near.take().expect("one goes at a time"), self.length);
        let going = self.tasks.spawn(async move {
            // The first ones find out who receives.
            ask(&mut near, length, time / 10).await;
            let trips = ask(&mut near, length, time).await;
            (near, trips)
        });
        let (near, trips) = going.await.expect("the stream holds");
        self.near = Some(near);
        trips
    }
}

async fn ask(pipe: &mut Pipe, length: usize, time: Duration) -> Vec<f64> {
    let (begin, mut message, mut trips) = (Instant::now(), vec![7; length], Vec::new());
    while trips.is_empty() || begin.elapsed() < time {
        let start = Instant::now();
        pipe.sender.write_all(&message).await;
        pipe.receiver.read_exact(&mut message).await;
        trips.push(start.elapsed().as_secs_f64() * 1e6);
    }
    trips
}

async fn answer(mut pipe: Pipe, length: usize) {
    let mut message = vec![0; length];
    while pipe.receiver.try_read_exact(&mut message).await {
        pipe.sender.write_all(&message).await;
    }
    pipe.end().await;
}

/// Opens streams for that time, at least one, and gives the time of each with a byte there and
/// back, and its end.
async fn open_new(ends: Arc<Ends>, time: Duration) -> Vec<f64> {
    let (begin, mut trips) = (Instant::now(), Vec::new());
    while trips.is_empty() || begin.elapsed() < time {
        let start = Instant::now();
        let mut pipe = ends.begin().await;
        pipe.sender.write_all(&[7]).await;
        pipe.receiver.read_exact(&mut [0]).await;
        pipe.end().await;
        trips.push(start.elapsed().as_secs_f64() * 1e6);
    }
    trips
}

async fn answer_new(ends: Arc<Ends>, is_over: Arc<AtomicBool>) {
    loop {
        let mut pipe = ends.accept().await;
        let mut byte = [0];
        pipe.receiver.read_exact(&mut byte).await;
        pipe.sender.write_all(&byte).await;
        pipe.end().await;
        if is_over.load(Relaxed) {
            break;
        }
    }
}

/// Writes the time, from `begin` of [`longest_waits`] on, in each period. Gives the number of
/// messages.
async fn write_each(mut pipe: Pipe, first: Instant, period: Duration, is_over: Arc<AtomicBool>) -> u64 {
    let (mut ticks, mut count) = (interval_at(first.into(), period), 0);
    let mut message = [0; 64];
    while !is_over.load(Relaxed) {
        ticks.tick().await;
        message[..16].copy_from_slice(&now().to_le_bytes());
        pipe.sender.write_all(&message).await;
        count += 1;
    }
    pipe.end().await;
    count
}

/// The number of messages until the stream ends, and the longest time that one was under way,
/// before the loss and after it.
async fn longest_waits(mut pipe: Pipe, begin: Instant, is_lost: Arc<AtomicBool>) -> (u64, [Duration; 2]) {
    let (mut count, mut waits, mut message) = (0, [Duration::ZERO; 2], [0; 64]);
    while pipe.receiver.try_read_exact(&mut message).await {
        count += 1;
        let written = u128::from_le_bytes(message[..16].try_into().expect("16 bytes"));
        let wait = Duration::from_nanos((now() - written) as u64);
        if begin.elapsed() > Duration::from_millis(500) {
            let wait_until_now = &mut waits[usize::from(is_lost.load(Relaxed))];
            *wait_until_now = wait.max(*wait_until_now);
        }
    }
    (count, waits)
}

/// Nanoseconds since the first call.
fn now() -> u128 {
    static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    START.elapsed().as_nanos()
}

/// The p50 and the p99.
fn percentiles(figures: &mut [f64]) -> [f64; 2] {
    figures.sort_by(f64::total_cmp);
    [50, 99].map(|percent| figures[(figures.len() - 1) * percent / 100])
}

fn cpu_time() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("the kernel counts");
    let times = [usage.user_time(), usage.system_time()];
    times.iter().map(|time| Duration::new(time.tv_sec() as u64, time.tv_usec() as u32 * 1000)).sum()
}

/// The process's resident memory, in bytes.
fn resident() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").expect("the process runs");
    4096 * statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("statm(5)")
}

/// How often the threads of rails have gone to sleep.
fn switches() -> u64 {
    let tasks = fs::read_dir("/proc/self/task").expect("the process runs");
    let of_task = |path: std::path::PathBuf| {
        let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
        let status = fs::read_to_string(path.join("status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        if name.starts_with("rail") { line.trim().parse::<u64>().ok() } else { None }
    };
    tasks.filter_map(|task| of_task(task.expect("an entry").path())).sum()
}

/// The instructions of a process that exchanges that many messages.
fn collected(contender: &str, length: u32, count: u32) -> Option<u64> {
    let itself = std::env::current_exe().expect("it runs");
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(itself);
    command.args([EXCHANGE, contender, &length.to_string(), &count.to_string()]);
    let output = command.stdout(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find_map(|line| line.split_once("Collected :"))?;
    line.1.trim().parse().ok()
}

/// Exchanges messages, and does nothing else: what callgrind counts.
fn exchange_alone(arguments: &[String]) {
    let contender = if arguments[0] == "session" { Contender::Session } else { Contender::Stream };
    let [length, count] = [1, 2].map(|index| arguments[index].parse::<usize>().expect("a number"));
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let place = Place::loopback();
    runtime.block_on(async {
        let ends = place.connect(contender).await;
        let [mut near, far] = ends.open().await;
        place.tasks[1].spawn(answer(far, length));
        let asking = place.tasks[0].spawn(async move {
            let mut message = vec![7; length];
            for _ in 0..count {
                near.sender.write_all(&message).await;
                near.receiver.read_exact(&mut message).await;
            }
            near
        });
        drop(asking.await.expect("the stream holds"));
    });
}

/// The bytes of a write of bulk data.
const BLOCK: usize = 256 << 10;
/// The connects whose worst is the figure.
const CONNECTS: usize = 4;
/// The argument that has the process exchange messages alone.
const EXCHANGE: &str = "exchange";
/// The length of a message, and the instructions of one at an end before there were sessions
/// (commit 31f8d4a7, a lone stream, the same exchange).
const INSTRUCTIONS_BEFORE: [(u32, u32); 2] = [(64, 11_943), (1024, 13_035)];
