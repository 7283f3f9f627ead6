//! Sessions in processes of their own.
//!
//! The test program runs itself again: the test [`child`] is that program where it finds its case
//! in the environment.

use crate::{
    loopback::{listener, rails},
    util::{Ends, asked, echo, ends_by, in_time, options, pattern},
};
use rails_multirail::{MultiRailSession, SessionError};
use std::{env, fs, net::SocketAddr, process::Stdio};
use tokio::process::{Child, Command};

/// A program that writes, drops its session and returns from `main`: the end of the process waits
/// for the bytes, and the peer learns that the session was closed.
#[tokio::test]
async fn the_end_of_the_process_waits_for_a_session() {
    let rails = rails(2);
    let (listener, addresses) = listener(&rails, &options()).await;
    let child = start("drops", &addresses);
    let far = in_time(listener.accept_session()).await.unwrap();
    for _ in 0..STREAMS {
        let mut receive = in_time(far.accept_uni()).await.unwrap();
        let seed = receive.id().index();
        assert!(in_time(receive.read_to_end(LENGTH)).await.unwrap() == pattern(LENGTH, seed), "other bytes arrived");
    }
    let closed = in_time(far.closed()).await;
    assert!(matches!(closed, SessionError::ClosedByPeer { code: 0, .. }), "{closed:?}");
    let output = in_time(child.wait_with_output()).await.unwrap();
    assert!(output.status.success(), "{output:?}");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(!log.contains("before the peer had all"), "{log}");
}

/// A process that closes its session and ends at once.
#[tokio::test]
async fn the_code_of_a_process_that_ends() {
    let rails = rails(2);
    let (listener, addresses) = listener(&rails, &options()).await;
    let child = start("closes", &addresses);
    let far = in_time(listener.accept_session()).await.unwrap();
    let closed = in_time(far.closed()).await;
    assert!(matches!(closed, SessionError::ClosedByPeer { code: 42, .. }), "{closed:?}");
    assert!(in_time(child.wait_with_output()).await.unwrap().status.success());
}

/// Both ends of the streams are in one process, whose resident memory the kernel counts.
#[tokio::test]
async fn an_idle_stream_takes_little_memory() {
    let child = start("idles", &[]);
    let output = in_time(child.wait_with_output()).await.unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let bytes: u64 = told.lines().find_map(|line| line.split_once(TAKES)?.1.parse().ok()).expect("it tells");
    assert!(bytes <= 1 << 10, "a stream takes {bytes} bytes at each end");
}

fn start(case: &str, addresses: &[SocketAddr]) -> Child {
    let addresses: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
    let mut command = Command::new(env::current_exe().expect("it is running"));
    command.args(["--exact", "processes::child", "--nocapture"]).env(CASE, case).env(ADDRESSES, addresses.join(","));
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true).spawn().expect("it starts")
}

#[test]
fn child() {
    let Ok(case) = env::var(CASE) else { return };
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        match case.as_str() {
            "drops" => drops(&connect().await).await,
            "closes" => connect().await.close(42, b"the process ends"),
            _ => idles().await,
        }
    });
}

async fn connect() -> MultiRailSession {
    let addresses = env::var(ADDRESSES).unwrap();
    let addresses: Vec<SocketAddr> = addresses.split(',').map(|address| address.parse().unwrap()).collect();
    in_time(MultiRailSession::connect(&rails(2), &addresses, &options())).await.unwrap()
}

async fn drops(session: &MultiRailSession) {
    for seed in 0..STREAMS {
        let mut send = in_time(session.open_uni()).await.unwrap();
        in_time(send.write_all(&pattern(LENGTH, seed))).await.unwrap();
    }
}

async fn idles() {
    let many = || options().max_concurrent_bi_streams(1 << 20);
    let Ends { near, far, _listener, _rails } = ends_by(&many(), &many()).await;
    echo(&far);
    // The allocator, the runtime and the tasks that echo take their share before.
    let mut kept = vec![opened(&near, &far, 100).await];
    let before = resident();
    kept.push(opened(&near, &far, MANY).await);
    println!("{TAKES}{}", (resident() - before) / (2 * MANY as u64));
    assert_eq!(in_time(asked(&near, b"on")).await, b"on");
}

/// Streams that have carried a byte each way, and their handles at both ends.
async fn opened(near: &MultiRailSession, far: &MultiRailSession, count: usize) -> Vec<impl Sized> {
    let mut opened = Vec::with_capacity(count);
    for _ in 0..count {
        let (mut send, mut receive) = in_time(far.open_bi()).await.unwrap();
        in_time(send.write_all(b"1")).await.unwrap();
        let (mut reply, mut question) = in_time(near.accept_bi()).await.unwrap();
        assert_eq!(in_time(question.read_chunk(1)).await.unwrap().unwrap().len(), 1);
        in_time(reply.write_all(b"2")).await.unwrap();
        assert_eq!(in_time(receive.read_chunk(1)).await.unwrap().unwrap().len(), 1);
        opened.push((send, receive, reply, question));
    }
    opened
}

/// The resident memory of this process, in bytes.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

const CASE: &str = "RAILS_SESSION_CASE";
const ADDRESSES: &str = "RAILS_SESSION_ADDRESSES";
const TAKES: &str = "a stream takes bytes: ";
const STREAMS: u64 = 20;
const LENGTH: usize = 100_000;
const MANY: usize = 10_000;
