//! An HTTP service on rails, beside the same service on tokio's multi-thread runtime with as many
//! threads.
//!
//! Run: `cargo bench --bench http`
//!
//! The service is axum's, and echoes 32 bytes. The client keeps 64 connections busy over loopback,
//! each with one request at a time, from a thread on each CPU with its share of the connections,
//! and then from two threads that the scheduler places. On loopback, packets arrive on the CPU of
//! their sender: so the second client's connections may all be one rail's, as those of one NIC
//! queue would be. The two services take turns, with new connections in each round. CPU time
//! is by request, that of the service's threads, and that of both ends.

use axum::{Router, routing::post};
use rails::{
    bind::{
        thread,
        usage::{ProcessUsage, ThreadUsage},
    },
    multirail::{RailRequest, Rails, plan_rails},
    topo::Topology,
};
use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime::{Builder, Handle, Runtime},
};

fn main() {
    // `cargo bench` measures; `cargo test --benches` only tries.
    let (rounds, time) = match std::env::args().any(|argument| argument == "--bench") {
        true => (5, Duration::from_secs(3)),
        false => (1, Duration::from_millis(100)),
    };
    let plan = Topology::detect().map(|topology| plan_rails(&topology, &RailRequest::loopback(None)));
    let plan = plan.expect("this machine can be read").expect("loopback rails can be planned");
    let rails = Rails::build(&plan).expect("loopback rails need no privilege");
    let waiting = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let serving = rails.serve((Ipv4Addr::LOCALHOST, 0), |_, listener| axum::serve(listener, router()).into_future());
    let service = waiting.block_on(serving).expect("a free port");
    service.steering().expect("the kernel steers");
    let (multi_thread, threads) = multi_thread(rails.len());
    let listener = multi_thread.block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
    let plain = listener.local_addr().expect("it is bound");
    multi_thread.spawn(axum::serve(listener, router()).into_future());

    let on_rails = || rails.iter().filter_map(|rail| rail.stats().usage).collect::<Vec<_>>();
    let on_threads = || {
        let threads = threads.lock().expect("no thread panics");
        threads.iter().map(|thread| ThreadUsage::of(*thread).expect("the workers live")).collect::<Vec<_>>()
    };
    let pinned = Rails::build(&plan).expect("loopback rails need no privilege");
    let placed = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let clients = [
        ("a client thread on each CPU", pinned.iter().map(|rail| rail.runtime().handle().clone()).collect::<Vec<_>>()),
        ("two client threads, placed by the scheduler", vec![placed.handle().clone()]),
    ];
    println!("{} threads each, {CONNECTIONS} connections, {time:?} a round", rails.len());
    for (name, clients) in clients {
        println!("{name}\nround  on           requests/s  p50 us  p99 us  CPU us/request  of both ends");
        let mut all = [(); 2].map(|()| Vec::new());
        for round in 0..rounds {
            // Each goes first in turn.
            for place in [round % 2, 1 - round % 2] {
                let figures = waiting.block_on(async {
                    match place {
                        0 => measure(&clients, service.local_addr(), time, &on_rails).await,
                        _ => measure(&clients, plain, time, &on_threads).await,
                    }
                });
                println!("{round:>5}  {:<12} {figures}", NAMES[place]);
                all[place].push(figures);
            }
        }
        let ratio = |of: fn(&Figures) -> f64| {
            let [rails, plain] = all.each_ref().map(|figures| median(figures.iter().map(of).collect()));
            rails / plain
        };
        let [rate, p99] = [ratio(|figures| figures.rate), ratio(|figures| figures.p99)];
        let [cpu, whole] = [ratio(|figures| figures.cpu), ratio(|figures| figures.whole)];
        println!("rails over multi-thread, medians: {rate:.3}, p99 {p99:.3}, CPU {cpu:.3}, of both ends {whole:.3}");
    }
}

/// The figures of one round, in microseconds but for the rate.
struct Figures {
    rate: f64,
    p50: f64,
    p99: f64,
    cpu: f64,
    whole: f64,
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:>10.0} {:>7.0} {:>7.0} {:>15.2} {:>15.2}", self.rate, self.p50, self.p99, self.cpu, self.whole)
    }
}

fn router() -> Router {
    Router::new().route("/echo", post(async |body: String| body))
}

/// tokio's multi-thread runtime, and its workers.
fn multi_thread(workers: usize) -> (Runtime, Arc<Mutex<Vec<thread::Tid>>>) {
    let threads = Arc::new(Mutex::new(Vec::new()));
    let started = threads.clone();
    let note = move || started.lock().expect("no thread panics").push(thread::current_tid());
    let runtime = Builder::new_multi_thread().worker_threads(workers).on_thread_start(note).enable_all().build();
    (runtime.expect("a runtime"), threads)
}

async fn measure(
    clients: &[Handle],
    address: SocketAddr,
    time: Duration,
    usage: &dyn Fn() -> Vec<ThreadUsage>,
) -> Figures {
    let cpu = || usage().iter().filter_map(|usage| usage.cpu_time).sum::<Duration>();
    let whole = || ProcessUsage::current().map(|usage| usage.total()).expect("the kernel counts it");
    let clients = clients.iter().cycle().take(CONNECTIONS);
    let (begin, before) = (Instant::now(), (cpu(), whole()));
    let tasks: Vec<_> =
        clients.map(|client| client.spawn(ask(address, begin + time / 4, begin + time * 5 / 4))).collect();
    let mut trips = Vec::new();
    for task in tasks {
        trips.extend(task.await.expect("the service answers"));
    }
    trips.sort_unstable();
    let at = |share: f64| trips[((trips.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e6;
    let requests = trips.len() as f64;
    // The CPU time is that of the warm-up too, a quarter of the measured time.
    let by_request = |time: Duration| time.as_secs_f64() * 1e6 / (requests * 1.25);
    Figures {
        rate: requests / time.as_secs_f64(),
        p50: at(0.5),
        p99: at(0.99),
        cpu: by_request(cpu() - before.0),
        whole: by_request(whole() - before.1),
    }
}

/// Asks one request after the other until `end`, and gives the round trips since `warm`.
async fn ask(address: SocketAddr, warm: Instant, end: Instant) -> Vec<Duration> {
    let mut connection = TcpStream::connect(address).await.expect("it listens");
    connection.set_nodelay(true).expect("TCP has it");
    let request = format!("POST /echo HTTP/1.1\r\nHost: rails\r\nContent-Length: {}\r\n\r\n{BODY}", BODY.len());
    let (mut answer, mut length, mut trips) = ([0; 1024], 0, Vec::new());
    loop {
        let begin = Instant::now();
        if begin >= end {
            return trips;
        }
        connection.write_all(request.as_bytes()).await.expect("the connection is kept");
        // Every answer is as long as the first one.
        let mut got = 0;
        while got == 0 || got < length {
            match connection.read(&mut answer[got..]).await.expect("the connection is kept") {
                0 => panic!("the service has closed a connection"),
                read => got += read,
            }
        }
        length = got;
        assert!(answer[..got].ends_with(BODY.as_bytes()), "{}", String::from_utf8_lossy(&answer[..got]));
        if begin >= warm {
            trips.push(begin.elapsed());
        }
    }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

const CONNECTIONS: usize = 64;
const BODY: &str = "thirty-two bytes to be sent back";
const NAMES: [&str; 2] = ["rails", "multi-thread"];
