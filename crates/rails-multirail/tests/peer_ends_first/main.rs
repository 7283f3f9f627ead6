//! A peer that ends first, after all bytes have arrived, is no reason for a warning. This test has
//! a file of its own, because it reads the log of the whole process.

use rails_multirail::{MultiRailListener, MultiRailStream, RailRequest, Rails, Secret, StreamOptions, plan_rails};
use rails_topo::Topology;
use std::{
    io,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

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

/// All bytes have arrived, and so has the end of the peer's direction; then the peer's kernel
/// closes the lanes. This end ends its own direction a while later.
#[tokio::test]
async fn a_peer_that_ends_first_is_no_warning() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .init();
    let topology = Topology::detect().expect("this machine can be read");
    let plan = plan_rails(&topology, &RailRequest::loopback(2)).expect("loopback rails can be planned");
    let rails = || Rails::build(&plan).expect("loopback rails need no privilege");
    let (near_rails, far_rails) = (rails(), rails());
    let secret = Secret::pre_shared(b"0123456789abcdef").expect("the secret is long enough");
    let options = StreamOptions::new(secret);
    let listener =
        MultiRailListener::bind(&far_rails, ["127.0.0.1:0", "127.0.0.2:0"], &options).await.expect("loopback");
    let mut near = MultiRailStream::connect(&near_rails, listener.local_addrs(), &options).await.expect("it opens");
    let mut far = listener.accept().await.expect("it listens");
    far.write_all(&[1; 1000]).await.expect("the stream is up");
    near.read_exact(&mut [0; 1000]).await.expect("all arrive");
    near.write_all(&[1; 100_000]).await.expect("the stream is up");
    drop(near);
    let mut got = Vec::new();
    far.read_to_end(&mut got).await.expect("the stream ends in order");
    assert_eq!(got.len(), 100_000);
    near_rails.drain(PATIENCE).await.expect("all has arrived");
    near_rails.shutdown(PATIENCE).await.expect("nothing holds the rails");
    let deadline = Instant::now() + PATIENCE;
    while far.lanes_up() > 0 {
        assert!(Instant::now() < deadline, "the peer's kernel closes the lanes");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // The stream fails for want of a peer, later than a standstill would be logged.
    timeout(PATIENCE, far.shutdown()).await.expect("it ends").expect_err("the peer does not hear of the end");
    drop(far);
    let said = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
    assert!(said.is_empty(), "{} warnings:\n{said}", said.lines().count());
}

const PATIENCE: Duration = Duration::from_secs(60);
