//! Small requests over one stream of two loopback rails, beside one plain TCP connection: 32 bytes
//! there and back, with 1, 4 and 32 of them under way.
//!
//! Run: `cargo bench --bench requests`, or `-- own`, `-- named` or `-- rails` for one of three
//! places. Both ends are in this process. The callers are on a runtime of their own, as below
//! `#[tokio::main]`; on such a runtime that the options name; or on the first rail of each end. TCP
//! and rails take turns, so that a busy machine disturbs both.

use rails::{
    multirail::{MultiRailListener, MultiRailStream, RailId, RailRequest, Rails, Secret, StreamOptions, plan_rails},
    topo::Topology,
};
use std::{
    collections::VecDeque,
    net::SocketAddr,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime::{Handle, Runtime},
    time::sleep,
};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo bench` measures; `cargo test --benches` only tries.
    let (time, rounds) = match arguments.iter().any(|argument| argument == "--bench") {
        true => (Duration::from_secs(1), 5),
        false => (Duration::from_millis(20), 1),
    };
    let wanted = arguments.iter().find(|argument| !argument.starts_with("--"));
    let application = Runtime::new().expect("a runtime");
    let [near, far] = rails();
    let own = [&application; 2].map(|runtime| runtime.handle().clone());
    let of_rails = [&near, &far].map(|rails| rails[RailId(0)].runtime().handle().clone());
    let options = StreamOptions::new(Secret::pre_shared(b"0123456789abcdef").expect("the secret is long enough"));
    let named = options.clone().application_runtime(application.handle());
    println!("callers   under way  transport  requests/s  p50 us  p99 us  max us   rate of TCP");
    for (place, ends, options) in [("own", &own, &options), ("named", &own, &named), ("rails", &of_rails, &options)] {
        if wanted.is_some_and(|wanted| !place.contains(wanted.as_str())) {
            continue;
        }
        for under_way in [1, 4, 32] {
            let (mut tcp, mut striped) = (Vec::new(), Vec::new());
            for _ in 0..rounds {
                tcp.push(application.block_on(async { exchange(plain(ends).await, ends, under_way, time).await }));
                striped.push(
                    application
                        .block_on(async { exchange(pair(&near, &far, options).await, ends, under_way, time).await }),
                );
            }
            let (tcp, striped) = (Figures::median(tcp), Figures::median(striped));
            for (name, figures) in [("TCP", tcp), ("two rails", striped)] {
                let Figures { rate, p50, p99, max } = figures;
                let ratio = rate / tcp.rate;
                println!(
                    "{place:<9} {under_way:>9}  {name:<9} {rate:>11.0} {p50:>7.0} {p99:>7.0} {max:>7.0} {ratio:>13.2}"
                );
            }
        }
    }
}

/// The requests per second, and how long they took in microseconds.
#[derive(Clone, Copy)]
struct Figures {
    rate: f64,
    p50: f64,
    p99: f64,
    max: f64,
}

impl Figures {
    /// The round with the median rate.
    fn median(mut rounds: Vec<Self>) -> Self {
        rounds.sort_by(|one, other| one.rate.total_cmp(&other.rate));
        rounds[rounds.len() / 2]
    }
}

fn rails() -> [Rails; 2] {
    let topology = Topology::detect().expect("this machine can be read");
    let plan = plan_rails(&topology, &RailRequest::loopback(2)).expect("loopback rails can be planned");
    [(); 2].map(|()| Rails::build(&plan).expect("loopback rails need no privilege"))
}

async fn pair(near: &Rails, far: &Rails, options: &StreamOptions) -> (MultiRailStream, MultiRailStream) {
    let addresses = [1, 2].map(|last| SocketAddr::from(([127, 0, 0, last], 0)));
    let listener = MultiRailListener::bind(far, &addresses, options).await.expect("loopback can be listened on");
    let connecting = MultiRailStream::connect(near, listener.local_addrs(), options);
    let (near, far) = tokio::join!(connecting, listener.accept());
    let (near, far) = (near.expect("it listens"), far.expect("one comes"));
    while near.lanes_up() < 2 || far.lanes_up() < 2 {
        sleep(Duration::from_millis(1)).await;
    }
    (near, far)
}

async fn plain(ends: &[Handle; 2]) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
    let [near, far] = [(near, &ends[0]), (far.map(|(stream, _)| stream), &ends[1])].map(|(stream, handle)| {
        let stream = stream.and_then(TcpStream::into_std).expect("it listens");
        let _inside = handle.enter();
        let stream = TcpStream::from_std(stream).expect("the runtime takes it");
        stream.set_nodelay(true).expect("TCP has it");
        stream
    });
    (near, far)
}

async fn exchange<S>((near, far): (S, S), [asks, answers]: &[Handle; 2], under_way: usize, time: Duration) -> Figures
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let answering = answers.spawn(answer(far));
    let figures = asks.spawn(ask(near, under_way, time)).await.expect("the stream holds");
    answering.await.expect("the stream holds");
    figures
}

async fn answer<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) {
    let mut request = [0; REQUEST];
    while stream.read_exact(&mut request).await.is_ok() && stream.write_all(&request).await.is_ok() {}
}

async fn ask<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, under_way: usize, time: Duration) -> Figures {
    let (mut request, mut sent) = ([7; REQUEST], VecDeque::new());
    let mut took = Vec::new();
    let mut start = Instant::now();
    // The first requests find out who receives, and do not count.
    let mut is_warm = false;
    while start.elapsed() < time {
        while sent.len() < under_way {
            sent.push_back(Instant::now());
            stream.write_all(&request).await.expect("the stream holds");
        }
        stream.read_exact(&mut request).await.expect("the stream holds");
        took.push(sent.pop_front().expect("one was sent").elapsed());
        if !is_warm && start.elapsed() > time / 10 {
            took.clear();
            (is_warm, start) = (true, Instant::now());
        }
    }
    let elapsed = start.elapsed().as_secs_f64();
    took.sort();
    let micros = |index: usize| took[index].as_secs_f64() * 1e6;
    let last = took.len() - 1;
    Figures {
        rate: took.len() as f64 / elapsed,
        p50: micros(last / 2),
        p99: micros(last * 99 / 100),
        max: micros(last),
    }
}

/// The bytes of a request, and of its answer.
const REQUEST: usize = 32;
