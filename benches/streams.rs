//! The price of many streams: memory, descriptors, wakes while they are idle, before their first
//! use and after it, and a kilobyte there and back each second, beside as many plain TCP
//! connections.
//!
//! Run: `cargo bench --bench streams`. Both ends of every stream are in this process, so a figure
//! per end is half of the process's; both ends' tasks run on the first rail of their end.

use rails::{
    multirail::{
        Limits, MultiRailListener, MultiRailStream, RailId, RailRequest, Rails, Secret, StreamOptions, plan_rails,
    },
    topo::Topology,
};
use std::{
    fs,
    net::SocketAddr,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{interval_at, sleep},
};

fn main() {
    // `cargo bench` measures; `cargo test --benches` only tries.
    let (count, time) = match std::env::args().any(|argument| argument == "--bench") {
        true => (1000, Duration::from_secs(10)),
        false => (10, Duration::from_secs(1)),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let figures = runtime.block_on(async {
        [
            ("plain TCP", measure(plain(count).await, time).await),
            ("two rails", measure(striped(count).await, time).await),
        ]
    });
    println!(
        "{count} streams, each with its two ends in this process; {time:?} idle, then {time:?} of 1 KiB a second each, \
         then idle again"
    );
    println!(
        "                  KiB/end  descriptors/end  wakes/s idle, again  CPU ms/s  p50 us  p99 us  p99.9 us  max us"
    );
    for (name, Figures { kib, descriptors, idle, again, cpu, trips }) in figures {
        let [p50, p99, p999] = [500, 990, 999].map(|part| trips[trips.len() * part / 1000]);
        let max = trips[trips.len() - 1];
        println!(
            "{name:<16} {kib:>8.1} {descriptors:>16.1} {idle:>13.1} {again:>6.1} {cpu:>9.1} {p50:>7.0} {p99:>7.0} \
             {p999:>9.0} {max:>7.0}"
        );
    }
}

/// Both ends of all streams, with the rails on which their tasks run.
struct Streams<S> {
    rails: [Rails; 2],
    pairs: Vec<(S, S)>,
    before: Usage,
}

struct Figures {
    kib: f64,
    descriptors: f64,
    /// The wakes a second before the first use, and after the last.
    idle: f64,
    again: f64,
    cpu: f64,
    /// The round trips in microseconds, in order.
    trips: Vec<f64>,
}

/// The process's memory in bytes, its descriptors, wakes and CPU time.
#[derive(Clone, Copy)]
struct Usage {
    memory: u64,
    descriptors: usize,
    wakes: u64,
    cpu: Duration,
}

impl Usage {
    fn now() -> Self {
        let statm = fs::read_to_string("/proc/self/statm").expect("the process runs");
        let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("statm(5)");
        let wakes = fs::read_dir("/proc/self/task").expect("the process runs").map(|task| {
            let status = fs::read_to_string(task.expect("an entry").path().join("status")).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            line.and_then(|count| count.trim().parse::<u64>().ok()).unwrap_or_default()
        });
        let wakes = wakes.sum();
        // `man 5 proc_pid_stat`: the fields behind the name begin with the third; user and system time in
        // ticks of 10 ms.
        let stat = fs::read_to_string("/proc/self/stat").expect("the process runs");
        let fields: Vec<&str> = stat.rsplit(") ").next().expect("stat(5)").split(' ').collect();
        let ticks = |field: usize| fields[field - 3].parse::<u64>().expect("a number of ticks");
        let cpu = Duration::from_millis(10 * (ticks(14) + ticks(15)));
        let descriptors = fs::read_dir("/proc/self/fd").expect("the process runs").count();
        Self { memory: 4096 * pages, descriptors, wakes, cpu }
    }
}

fn rails() -> [Rails; 2] {
    let topology = Topology::detect().expect("this machine can be read");
    let plan = plan_rails(&topology, &RailRequest::loopback(2)).expect("loopback rails can be planned");
    [(); 2].map(|()| Rails::build(&plan).expect("loopback rails need no privilege"))
}

async fn striped(count: usize) -> Streams<MultiRailStream> {
    let [near, far] = rails();
    let limits = Limits::default().streams(2 * count).streams_per_peer(2 * count).memory_per_peer(u64::MAX);
    let secret = Secret::pre_shared(b"0123456789abcdef").expect("the secret is long enough");
    let options = StreamOptions::new(secret).limits(limits);
    let addresses = [1, 2].map(|last| SocketAddr::from(([127, 0, 0, last], 0)));
    let listener = MultiRailListener::bind(&far, &addresses, &options).await.expect("loopback can be listened on");
    let addresses: Vec<SocketAddr> = listener.local_addrs().iter().map(|address| address.socket).collect();
    let (before, mut pairs) = (Usage::now(), Vec::new());
    for _ in 0..count {
        let opened = MultiRailStream::connect(&near, &addresses, &options);
        let (opened, accepted) = tokio::join!(opened, listener.accept());
        pairs.push((opened.expect("it listens"), accepted.expect("a stream was opened")));
    }
    Streams { rails: [near, far], pairs, before }
}

async fn plain(count: usize) -> Streams<TcpStream> {
    let (rails, mut pairs) = (rails(), Vec::new());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let (address, before) = (listener.local_addr().expect("it is bound"), Usage::now());
    let [near, far] = rails.each_ref().map(|rails| rails[RailId(0)].runtime().handle().clone());
    for _ in 0..count {
        let (opened, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        // Each socket moves to the runtime of its end's tasks.
        let [opened, accepted] =
            [(opened, &near), (accepted.map(|(stream, _)| stream), &far)].map(|(stream, handle)| {
                let stream = stream.and_then(TcpStream::into_std).expect("it listens");
                let _inside = handle.enter();
                let stream = TcpStream::from_std(stream).expect("the runtime takes it");
                stream.set_nodelay(true).expect("TCP has it");
                stream
            });
        pairs.push((opened, accepted));
    }
    Streams { rails, pairs, before }
}

async fn measure<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(streams: Streams<S>, time: Duration) -> Figures {
    let Streams { rails: [near, far], pairs, before } = streams;
    let (count, begin) = (pairs.len(), Instant::now() + 2 * time);
    let mut tasks = Vec::new();
    for (index, (mut asker, mut answerer)) in pairs.into_iter().enumerate() {
        far[RailId(0)].runtime().handle().spawn(async move {
            let mut message = [0; 1024];
            while answerer.read_exact(&mut message).await.is_ok() {
                answerer.write_all(&message).await.expect("the stream holds");
            }
        });
        // The streams take their turns over the whole second.
        let first = begin + Duration::from_secs(1).mul_f64(index as f64 / count as f64);
        tasks.push(near[RailId(0)].runtime().handle().spawn(async move {
            let (mut ticks, mut message) = (interval_at(first.into(), Duration::from_secs(1)), [7; 1024]);
            let mut trips = Vec::new();
            while first.elapsed() < time {
                ticks.tick().await;
                let start = Instant::now();
                asker.write_all(&message).await.expect("the stream holds");
                asker.read_exact(&mut message).await.expect("the stream holds");
                trips.push(start.elapsed().as_secs_f64() * 1e6);
            }
            (trips, asker)
        }));
    }
    // The streams finish their opening in the first period.
    sleep(time).await;
    let idle_from = Usage::now();
    sleep(time.mul_f64(0.9)).await;
    let idle_to = Usage::now();
    tokio::time::sleep_until(begin.into()).await;
    let busy_from = Usage::now();
    sleep(time).await;
    let busy_to = Usage::now();
    let (mut trips, mut open) = (Vec::new(), Vec::new());
    for task in tasks {
        let (of_one, stream) = task.await.expect("the stream holds");
        trips.extend(of_one);
        open.push(stream);
    }
    trips.sort_by(f64::total_cmp);
    // Buffers and timers of the last use go in the first period.
    sleep(time).await;
    let again_from = Usage::now();
    sleep(time).await;
    let again_to = Usage::now();
    let ends = 2.0 * count as f64;
    Figures {
        kib: idle_to.memory.saturating_sub(before.memory) as f64 / 1024.0 / ends,
        descriptors: idle_to.descriptors.saturating_sub(before.descriptors) as f64 / ends,
        idle: (idle_to.wakes - idle_from.wakes) as f64 / (0.9 * time.as_secs_f64()),
        again: (again_to.wakes - again_from.wakes) as f64 / time.as_secs_f64(),
        cpu: (busy_to.cpu - busy_from.cpu).as_secs_f64() * 1e3 / time.as_secs_f64(),
        trips,
    }
}
