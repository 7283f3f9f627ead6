//! A stream that stands still logs a warning. This test has a file of its own, because it reads the
//! log of the whole process.

use rails_multirail::{
    EventKind, MultiRailListener, MultiRailStream, RailRequest, Rails, Secret, StandstillCause, StreamOptions,
    plan_rails,
};
use rails_topo::Topology;
use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

/// The log's text.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn lines(&self) -> Vec<String> {
        String::from_utf8_lossy(&self.0.lock().unwrap()).lines().map(str::to_owned).collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_peer_that_does_not_read_is_logged() {
    let log = Log::default();
    let writer = log.clone();
    let warnings = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .finish();
    tracing::subscriber::set_global_default(warnings).expect("the process has no other subscriber");
    let topology = Topology::detect().expect("this machine can be read");
    let plan = plan_rails(&topology, &RailRequest::loopback(2)).expect("loopback rails can be planned");
    let rails = Rails::build(&plan).expect("loopback rails need no privilege");
    let secret = Secret::pre_shared(b"0123456789abcdef").expect("the secret is long enough");
    let options = StreamOptions::new(secret).join_grace(PATIENCE).longest_chunk(64 << 10).window(256 << 10);
    let addresses: Vec<SocketAddr> = (1..=2).map(|last| SocketAddr::from(([127, 0, 0, last], 0))).collect();
    let listener = MultiRailListener::bind(&rails, &addresses, &options).await.expect("loopback");
    let mut near = MultiRailStream::connect(&rails, listener.local_addrs(), &options).await.expect("it listens");
    let mut far = listener.accept().await.expect("a stream was opened");
    let mut events = near.subscribe();

    // An idle stream logs nothing, neither before the first transfer nor after it.
    near.write_all(b"read at once").await.expect("a lane is whole");
    far.read_exact(&mut [0; 12]).await.expect("a lane is whole");
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert_eq!(log.lines(), [""; 0]);

    let bytes = vec![7; TOTAL];
    let stream = near.id();
    let written = tokio::spawn(async move {
        near.write_all(&bytes).await?;
        near.shutdown().await?;
        near.read_to_end(&mut Vec::new()).await
    });
    // The warnings come after one, two and four seconds.
    for least in [1, 2, 4] {
        let stood = async {
            loop {
                if let EventKind::Standstill { cause, stood_for } = events.recv().await.expect("the stream lives").kind
                {
                    return (cause, stood_for);
                }
            }
        };
        let (cause, stood_for) = timeout(PATIENCE, stood).await.expect("the stream stands still");
        assert_eq!(cause, StandstillCause::PeerDoesNotRead);
        assert!(stood_for >= Duration::from_secs(least), "{stood_for:?}");
    }
    let lines = log.lines();
    assert_eq!(lines.len(), 3, "{lines:#?}");
    for line in &lines {
        assert!(line.contains("WARN") && line.contains(&format!("stream={stream}")), "{line}");
        assert!(line.contains("the stream makes no progress: the peer's application does not read"), "{line}");
        for lane in ["lane 0: idle, 0 bytes unacknowledged, last progress ", "lane 1: idle, 0 bytes unacknowledged"] {
            assert!(line.contains(lane), "{line}");
        }
    }

    let mut got = vec![0; TOTAL];
    far.read_exact(&mut got).await.expect("a lane is whole");
    far.shutdown().await.expect("a lane is whole");
    timeout(PATIENCE, written)
        .await
        .expect("the write ends")
        .expect("the task does not panic")
        .expect("every byte arrives");
    let lines = log.lines();
    assert_eq!(lines.len(), 4, "{lines:#?}");
    assert!(lines[3].contains("the stream makes progress again"), "{}", lines[3]);
}

/// More bytes than the window and the send buffer hold.
const TOTAL: usize = 8 << 20;
/// Every step here is short. A step that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);
