//! The cost of an idle stream.

use crate::{
    loopback::{listener, rails},
    util::options,
};
use rails_bind::thread::Tid;
use rails_multirail::{MultiRailStream, Rails};
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::{sleep, timeout},
};

/// How often these threads have gone to sleep: once for every wake.
fn sleeps(threads: &[Tid]) -> u64 {
    let of = |thread: &Tid| -> u64 {
        let status = std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).expect("the thread runs");
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.and_then(|count| count.trim().parse().ok()).expect("the kernel counts them")
    };
    threads.iter().map(of).sum()
}

fn threads(rails: &Rails) -> impl Iterator<Item = Tid> {
    rails.iter().map(|rail| rail.runtime().placement().tid)
}

#[tokio::test]
async fn an_idle_stream_wakes_no_thread() {
    let rails = [rails(2), rails(2)];
    let options = options().outage_limit(Duration::from_secs(10));
    let (listening, addresses) = listener(&rails[1], &options).await;
    let mut near = MultiRailStream::connect(&rails[0], &addresses, &options).await.expect("it listens");
    let mut far = listening.accept().await.expect("a stream was opened");
    near.write_all(b"the last for a while").await.expect("a lane is whole");
    far.read_exact(&mut [0; 20]).await.expect("a lane is whole");
    let threads: Vec<Tid> = rails.iter().flat_map(threads).collect();
    // The pool frees its buffers first; from then on the stream has nothing to do.
    let quiet = async {
        loop {
            let before = sleeps(&threads);
            sleep(QUIET).await;
            if sleeps(&threads) == before {
                return;
            }
        }
    };
    timeout(PATIENCE, quiet).await.expect("an idle stream goes on waking threads");
    drop((near, far));
}

/// The time in which no thread may wake.
const QUIET: Duration = Duration::from_secs(3);
/// The pool keeps buffers for at most 10 s.
const PATIENCE: Duration = Duration::from_secs(40);
