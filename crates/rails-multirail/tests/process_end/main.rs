//! A program that writes, drops its stream and returns from `main`: the end of the process waits
//! for the bytes.
//!
//! The test program runs itself again: the test [`child`] is that program where it finds an address
//! in the environment.

use rails_multirail::{MultiRailListener, MultiRailStream, RailRequest, Rails, Secret, StreamOptions, plan_rails};
use rails_topo::Topology;
use std::{env, net::SocketAddr, process::Stdio, time::Duration};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    process::{Child, Command},
    runtime::Handle,
    time::{sleep, timeout},
};

/// Drops its handles in async code, as a program does whose `main` is asynchronous.
#[tokio::test]
async fn bytes_dropped_in_async_code_arrive() {
    let (far, child) = accept(Kind::Async).await;
    everything_arrives(far, child).await;
}

#[tokio::test]
async fn bytes_dropped_by_a_blocking_main_arrive() {
    let (far, child) = accept(Kind::Blocking).await;
    everything_arrives(far, child).await;
}

/// `std::process::exit` runs no destructor; the stream was dropped before.
#[tokio::test]
async fn bytes_dropped_before_an_exit_arrive() {
    let (far, child) = accept(Kind::Exits).await;
    everything_arrives(far, child).await;
}

/// The runtime that exits has watched the sockets of the lanes until then.
#[tokio::test]
async fn bytes_behind_a_conversation_arrive() {
    let (mut far, child) = accept(Kind::Converses).await;
    for _ in 0..ROUND_TRIPS {
        let message = in_time(far.read_u8()).await.unwrap();
        in_time(far.write_u8(message)).await.unwrap();
    }
    everything_arrives(far, child).await;
}

/// The child is stopped (`SIGSTOP`) for longer than it may linger.
#[tokio::test]
async fn bytes_of_a_process_that_was_stopped_arrive() {
    let (far, mut child) = accept(Kind::Stopped).await;
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut has_dropped = false;
    while !has_dropped {
        let line = in_time(lines.next_line()).await.unwrap().expect("it says when it has dropped its stream");
        has_dropped = line.ends_with(DROPPED);
    }
    signal(&child, "-STOP").await;
    sleep(STOPPED_LINGER + Duration::from_millis(1_200)).await;
    signal(&child, "-CONT").await;
    everything_arrives(far, child).await;
}

async fn signal(child: &Child, signal: &str) {
    let process = child.id().expect("it has not ended").to_string();
    assert!(Command::new("kill").args([signal, &process]).status().await.unwrap().success());
}

#[tokio::test]
async fn linger_bounds_the_wait_for_an_idle_reader() {
    let (_far, child) = accept(Kind::Impatient).await;
    let output = in_time(child.wait_with_output()).await.unwrap();
    assert!(output.status.success(), "{output:?}");
    let log = String::from_utf8(output.stderr).unwrap();
    let warnings: Vec<&str> =
        log.lines().filter(|line| line.contains("before the peer had all written bytes")).collect();
    assert_eq!(warnings.len(), 1, "{log}");
    let bytes = warnings[0].split_once(" bytes=").unwrap().1.split(' ').next().unwrap();
    assert!((1..=BYTES).contains(&bytes.parse::<usize>().unwrap()), "{log}");
}

/// The task that exits runs on the rail, which cannot deliver meanwhile.
#[tokio::test]
async fn an_exit_on_a_rail_says_that_bytes_are_lost() {
    let (_far, child) = accept(Kind::ExitsOnTheRail).await;
    let output = in_time(child.wait_with_output()).await.unwrap();
    assert!(output.status.success(), "{output:?}");
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(log.contains("the process ends before dropped streams have delivered their bytes"), "{log}");
}

async fn everything_arrives(mut far: MultiRailStream, child: Child) {
    let mut bytes = Vec::new();
    in_time(far.read_to_end(&mut bytes)).await.unwrap();
    assert!(bytes == vec![7; BYTES], "{} bytes of {BYTES}", bytes.len());
    let output = in_time(child.wait_with_output()).await.unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// How the child ends.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Async,
    Blocking,
    Exits,
    Converses,
    Stopped,
    Impatient,
    ExitsOnTheRail,
}

const KINDS: [Kind; 7] =
    [Kind::Async, Kind::Blocking, Kind::Exits, Kind::Converses, Kind::Stopped, Kind::Impatient, Kind::ExitsOnTheRail];

/// Starts a child, and accepts its stream.
async fn accept(kind: Kind) -> (MultiRailStream, Child) {
    let rails = rails(2);
    let listener = MultiRailListener::bind(&rails, ["127.0.0.1:0", "127.0.0.2:0"], &options()).await.unwrap();
    let addresses: Vec<String> = listener.local_addrs().iter().map(|address| address.socket.to_string()).collect();
    let mut command = Command::new(env::current_exe().expect("it is running"));
    command
        .args(["--exact", "child", "--nocapture"])
        .env(ADDRESSES, addresses.join(","))
        .env(KIND, format!("{kind:?}"));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true).spawn().expect("it starts");
    (in_time(listener.accept()).await.expect("the child connects"), child)
}

#[test]
fn child() {
    let Ok(addresses) = env::var(ADDRESSES) else { return };
    let addresses: Vec<SocketAddr> = addresses.split(',').map(|address| address.parse().unwrap()).collect();
    let kind = env::var(KIND).unwrap();
    let kind = KINDS.into_iter().find(|known| format!("{known:?}") == kind).unwrap();
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    // With a second lane, that one would deliver the bytes.
    let rails = rails(if kind == Kind::Converses { 1 } else { 2 });
    let addresses = &addresses[..rails.len()];
    if kind == Kind::ExitsOnTheRail {
        let (rail, own) = (rails.iter().next().unwrap().runtime().handle().clone(), rails.clone());
        let addresses = addresses.to_vec();
        return rail
            .block_on(rail.spawn(async move {
                drop(written(&own, &addresses, kind).await);
                std::process::exit(0);
            }))
            .unwrap();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    if kind == Kind::Blocking {
        let stream = runtime.block_on(written(&rails, addresses, kind));
        drop(runtime);
        drop(stream);
        return;
    }
    runtime.block_on(async move {
        drop(written(&rails, addresses, kind).await);
        println!("{DROPPED}");
        if matches!(kind, Kind::Exits | Kind::Converses) {
            std::process::exit(0);
        }
    });
}

/// A stream that has written all bytes, which the peer does not have yet.
async fn written(rails: &Rails, addresses: &[SocketAddr], kind: Kind) -> MultiRailStream {
    let linger = match kind {
        Kind::Impatient => Duration::from_millis(300),
        Kind::Stopped => STOPPED_LINGER,
        _ => PATIENCE,
    };
    let mut options = options().send_buffer(BYTES).linger(linger);
    if kind == Kind::Converses {
        options = options.application_runtime(&Handle::current());
    }
    let mut stream = MultiRailStream::connect(rails, addresses, &options).await.unwrap();
    for message in (0..ROUND_TRIPS).filter(|_| kind == Kind::Converses) {
        stream.write_u8(message).await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), message);
    }
    stream.write_all(&vec![7; BYTES]).await.unwrap();
    stream.flush().await.unwrap();
    stream
}

fn rails(count: usize) -> Rails {
    let plan = plan_rails(&Topology::detect().unwrap(), &RailRequest::loopback(count)).unwrap();
    Rails::build(&plan).unwrap()
}

/// The window is small, so that most bytes wait for the reader.
fn options() -> StreamOptions {
    let secret = Secret::pre_shared(b"sixteen bytes!!!").unwrap();
    StreamOptions::new(secret).join_grace(PATIENCE).longest_chunk(64 << 10).window(256 << 10)
}

async fn in_time<T>(step: impl Future<Output = T>) -> T {
    timeout(PATIENCE, step).await.expect("no step hangs")
}

const ADDRESSES: &str = "RAILS_TEST_ADDRESSES";
const KIND: &str = "RAILS_TEST_KIND";
const BYTES: usize = 8 << 20;
/// Long enough to deliver the bytes on a busy machine.
const STOPPED_LINGER: Duration = Duration::from_millis(1_500);
const DROPPED: &str = "the stream was dropped";
const ROUND_TRIPS: u8 = 64;
const PATIENCE: Duration = Duration::from_secs(60);
