//! No thread stays behind. Threads belong to the whole process, so this test is the only one of its
//! program.

use rails::{
    bind::thread::Tid,
    multirail::{MultiRailListener, MultiRailStream, RailRequest, Rails, Secret, StreamOptions, plan_rails},
    topo::Topology,
};
use std::{
    collections::BTreeSet,
    fs,
    time::{Duration, Instant},
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test(flavor = "current_thread")]
async fn dropped_rails_leave_no_thread() {
    let topology = Topology::detect().unwrap();
    let plan = plan_rails(&topology, &RailRequest::loopback(3)).unwrap();
    let before = threads();

    let rails = Rails::build(&plan).unwrap();
    let built: BTreeSet<Tid> = threads().difference(&before).copied().collect();
    let placed: BTreeSet<Tid> = rails.iter().map(|rail| rail.runtime().placement().tid).collect();
    assert_eq!(built, placed, "a rail is one thread");

    // A rail that has run tasks, also with threads of the blocking pool, ends as one that has not.
    talk(&rails).await;
    for rail in rails.iter() {
        rail.runtime().spawn(async { tokio::task::spawn_blocking(|| ()).await.unwrap() }).await.unwrap();
    }
    assert!(threads().len() > before.len() + built.len(), "blocking work has threads of its own");
    drop(rails);
    wait_until(|| threads() == before);
}

async fn talk(rails: &Rails) {
    let options = StreamOptions::new(Secret::pre_shared(b"sixteen bytes!!!").unwrap());
    let listener = MultiRailListener::bind(rails, "127.0.0.1:0", &options).await.unwrap();
    let mut near = MultiRailStream::connect(rails, listener.local_addrs(), &options).await.unwrap();
    let mut far = listener.accept().await.unwrap();
    near.write_all(b"hello").await.unwrap();
    near.shutdown().await.unwrap();
    let mut heard = String::new();
    far.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, "hello");
    let (near, far) = tokio::join!(near.close(), far.close());
    assert!(near.is_ok() && far.is_ok());
}

fn threads() -> BTreeSet<Tid> {
    let entries = fs::read_dir("/proc/self/task").unwrap();
    let number = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().to_str()?.parse().ok();
    entries.map(|entry| number(entry).and_then(Tid::from_raw).expect("threads are listed by number")).collect()
}

/// A joined thread can be listed for a moment more: its joiner is woken before the kernel takes it
/// off the list (`mm_release` and `release_task`, both in the kernel's `do_exit`).
fn wait_until(done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "it did not happen within {PATIENCE:?}: {:?}", threads());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A bound against hanging.
const PATIENCE: Duration = Duration::from_secs(20);
