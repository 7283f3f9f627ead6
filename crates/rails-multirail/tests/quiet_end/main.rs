//! Streams that end in order log no warning, even on a busy machine. This test has a file of its
//! own, because it reads the log of the whole process.

use rails_multirail::{MultiRailListener, MultiRailStream, RailRequest, Rails, Secret, StreamOptions, plan_rails};
use rails_topo::Topology;
use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The log's text.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends bytes, receives the answer, and ends both directions.
async fn talk(mut stream: MultiRailStream) {
    stream.write_all(&[1; 1000]).await.expect("the stream is up");
    stream.shutdown().await.expect("everything arrives");
    let mut got = Vec::new();
    stream.read_to_end(&mut got).await.expect("the stream ends in order");
    assert_eq!(got.len(), 1000);
}

#[tokio::test]
async fn a_regular_end_is_silent() {
    let log = Log::default();
    let writer = log.clone();
    let warnings = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .finish();
    tracing::subscriber::set_global_default(warnings).expect("the process has no other subscriber");
    let topology = Topology::detect().expect("this machine can be read");
    let plan = plan_rails(&topology, &RailRequest::loopback(4)).expect("loopback rails can be planned");
    let rails = Rails::build(&plan).expect("loopback rails need no privilege");
    // The streams end while lanes are still joining, and do not wait for them.
    let secret = Secret::pre_shared(b"0123456789abcdef").expect("the secret is long enough");
    let options = StreamOptions::new(secret).join_grace(std::time::Duration::ZERO);
    let addresses: Vec<SocketAddr> = (1..=4).map(|last| SocketAddr::from(([127, 0, 0, last], 0))).collect();
    let listener = MultiRailListener::bind(&rails, &addresses, &options).await.expect("loopback");
    let addresses = listener.local_addrs().to_vec();

    let is_over = Arc::new(AtomicBool::new(false));
    let hogs: Vec<_> = (0..4)
        .map(|_| {
            let is_over = is_over.clone();
            std::thread::spawn(move || while !is_over.load(Relaxed) {})
        })
        .collect();
    for _ in 0..STREAMS / AT_ONCE {
        let talks: Vec<_> = (0..AT_ONCE)
            .map(|_| {
                let (rails, addresses, options) = (rails.clone(), addresses.clone(), options.clone());
                tokio::spawn(async move {
                    talk(MultiRailStream::connect(&rails, &addresses, &options).await.expect("the stream opens")).await;
                })
            })
            .collect();
        let mut answers = Vec::new();
        for _ in 0..AT_ONCE {
            answers.push(tokio::spawn(talk(listener.accept().await.expect("it listens"))));
        }
        for talk in talks.into_iter().chain(answers) {
            talk.await.expect("the task does not panic");
        }
    }
    is_over.store(true, Relaxed);
    hogs.into_iter().for_each(|hog| hog.join().expect("the thread does not panic"));
    // By then, lanes that were joining have failed.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let log = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
    // A peer that gets no CPU stalls its lanes in truth, at any time and for as long.
    let is_about_the_end = |line: &&str| !line.contains("a lane cannot be used") && !line.contains("an outage begins");
    let said: Vec<&str> = log.lines().filter(is_about_the_end).collect();
    assert!(said.is_empty(), "{} warnings:\n{}", said.len(), said.join("\n"));
}

const STREAMS: usize = 200;
/// The number of concurrent streams.
const AT_ONCE: usize = 5;
