//! The statistics of both ends of a stream agree.

use crate::{
    loopback::{PATIENCE, rails},
    util::{moved, options, pair, pattern, relayed_pair, relayed_pair_by},
};
use rails_multirail::{LaneStats, StreamMetrics, StreamStats};
use std::{
    io::Write,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::{sleep, timeout},
};

fn sum(stats: &StreamStats, count: impl Fn(&LaneStats) -> u64) -> u64 {
    stats.lanes.iter().map(count).sum()
}

/// The invariants of the statistics at each end.
fn assert_adds_up(stats: &StreamStats) {
    assert_eq!(sum(stats, |lane| lane.bytes_received), stats.bytes_read + stats.bytes_duplicated, "{stats:?}");
    assert_eq!(sum(stats, |lane| lane.duplicated.bytes), stats.bytes_duplicated, "{stats:?}");
    assert_eq!(sum(stats, |lane| lane.duplicated.chunks), stats.chunks_duplicated, "{stats:?}");
    assert_eq!(sum(stats, |lane| lane.sent_again.total().bytes), stats.bytes_sent_again, "{stats:?}");
    assert_eq!(sum(stats, |lane| lane.sent_again.total().chunks), stats.sent_again.total().chunks, "{stats:?}");
    assert!(stats.send_window.max_used_bytes <= stats.send_window.size_bytes, "{stats:?}");
    assert!(stats.receive_window.max_used_bytes <= stats.receive_window.size_bytes, "{stats:?}");
    for lane in &stats.lanes {
        assert!(lane.times.total() + lane.down <= stats.age, "{stats:?}");
    }
    let mut driven: Vec<u16> = stats.threads.iter().flat_map(|thread| thread.lanes.clone()).collect();
    driven.sort_unstable();
    assert_eq!(driven, stats.lanes.iter().map(|lane| lane.lane).collect::<Vec<_>>());
    serde_json::to_value(stats).expect("it can be written down");
}

#[tokio::test]
async fn bytes_sent_are_bytes_received() {
    let rails = rails(2);
    let (near, far) = pair(&rails, &options()).await;
    let [sent, received] = moved(near, far, pattern(20 << 20)).await;
    assert_adds_up(&sent);
    assert_adds_up(&received);
    assert_eq!((sent.stream, sent.bytes_written, received.bytes_read), (received.stream, 20 << 20, 20 << 20));
    assert_eq!(sum(&sent, |lane| lane.bytes_sent), (20 << 20) + sent.bytes_sent_again);
    for lane in &sent.lanes {
        let other = received.lanes.iter().find(|other| other.lane == lane.lane).unwrap();
        assert_eq!((lane.bytes_sent, lane.chunks_sent), (other.bytes_received, other.chunks_received));
        assert!(!lane.up && lane.times.total() > Duration::ZERO);
        assert!(lane.rtt.is_some() && lane.segments_retransmitted.is_some(), "this kernel says so: {lane:?}");
    }
    assert!(sent.threads.len() == 2 && sent.threads.iter().all(|thread| thread.cpu.is_some()));
    assert!(sent.send_window.max_used_bytes > 0 && received.receive_window.max_used_bytes > 0);
    assert!(received.stalls.nothing_to_send > Duration::ZERO, "this end only read: {received:?}");
}

#[tokio::test]
async fn statistics_of_a_lane_that_is_dialled_again() {
    let rails = rails(2);
    let (mut near, mut far, relays) = relayed_pair_by(&rails, &options().outage_limit(PATIENCE), true).await;
    let bytes = pattern(40 << 20);
    let expected = bytes.clone();
    let writer = tokio::spawn(async move {
        near.write_all(&bytes[..20 << 20]).await.unwrap();
        timeout(PATIENCE, async {
            while !near.stats().lanes.iter().any(|lane| lane.joined > 1 && lane.up) {
                sleep(Duration::from_millis(5)).await;
            }
        })
        .await
        .expect("the lane is dialled again");
        near.write_all(&bytes[20 << 20..]).await.unwrap();
        near.close().await.unwrap()
    });
    let mut got = vec![0; 4 << 20];
    far.read_exact(&mut got).await.unwrap();
    relays[0].cut();
    far.read_to_end(&mut got).await.unwrap();
    assert!(got == expected);
    let received = far.close().await.unwrap();
    let sent = timeout(PATIENCE, writer).await.expect("it ends").unwrap();
    assert_adds_up(&sent);
    assert_adds_up(&received);
    let again = sent.lanes.iter().find(|lane| lane.losses > 0).expect("one was lost");
    assert!(again.joined > 1 && again.down > Duration::ZERO, "{again:?}");
    // When the lane was cut, some bytes may have been given to it and not sent, or sent and not
    // received.
    assert!(sum(&sent, |lane| lane.bytes_sent) <= (40 << 20) + sent.bytes_sent_again);
    assert!(received.bytes_duplicated <= sent.bytes_sent_again, "{sent:?} {received:?}");
}

#[tokio::test]
async fn a_reader_that_waits_is_what_the_time_is_charged_to() {
    let rails = rails(2);
    let small = options().longest_chunk(16 << 10).window(64 << 10);
    let (mut near, mut far, _relays) = relayed_pair(&rails, &small).await;
    near.write_all(&pattern(100 << 10)).await.unwrap();
    let (sender, receiver) = timeout(PATIENCE, async {
        loop {
            let (sender, receiver) = (near.stats(), far.stats());
            if sender.stalls.window_full.min(receiver.stalls.not_read) >= Duration::from_millis(100) {
                return (sender, receiver);
            }
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("the time is charged to the window and to the reader");
    assert_eq!((sender.send_window.used_bytes, sender.send_window.max_used_bytes), (64 << 10, 64 << 10));
    assert_eq!(receiver.receive_window.used_bytes, 64 << 10);
    let mut all = vec![0; 100 << 10];
    far.read_exact(&mut all).await.unwrap();
    let read = far.stats();
    sleep(Duration::from_millis(50)).await;
    assert_eq!(far.stats().stalls.not_read, read.stalls.not_read, "all of it was read");
}

#[tokio::test]
async fn streams_are_told_of_as_long_as_they_last() {
    let rails = rails(2);
    let (mut near, mut far) = pair(&rails, &options()).await;
    let metrics = StreamMetrics::new().label("process", "test");
    metrics.watch(&near);
    metrics.watch(&near);
    near.write_all(&pattern(10_000)).await.unwrap();
    far.read_exact(&mut vec![0; 10_000]).await.unwrap();
    let text = metrics.to_prometheus();
    let line =
        format!("rails_stream_bytes_total{{process=\"test\",stream=\"{}\",direction=\"sent\"}} 10000\n", near.id());
    assert!(text.contains(&line), "{text}");
    assert!(text.ends_with("# EOF\n"));
    let (near, far) = tokio::join!(near.close(), far.close());
    assert!(near.unwrap().to_prometheus(&[]).contains("direction=\"sent\"} 10000\n"));
    far.unwrap();
    timeout(PATIENCE, async {
        while metrics.to_prometheus() != "# EOF\n" {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("an ended stream is told of no longer");
}

/// The log of all threads.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn one_log_line_per_stream_and_end() {
    let log = Log::default();
    let lines = log.clone();
    // At the next level the scheduler traces each decision.
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::DEBUG);
    // The lanes log on their own threads, so the subscriber is for the process; other tests' streams
    // have other names.
    subscriber.with_ansi(false).with_writer(move || lines.clone()).try_init().expect("no other test listens");
    let rails = rails(2);
    let (near, far) = pair(&rails, &options().longest_chunk(16 << 10)).await;
    let name = near.id().to_string();
    let [sent, _] = moved(near, far, pattern(8 << 20)).await;
    assert!(sum(&sent, |lane| lane.chunks_sent) >= 512);
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let own: Vec<&str> = text.lines().filter(|line| line.contains(&name)).collect();
    let count = |of: &str| own.iter().filter(|line| line.contains("DEBUG") && line.contains(of)).count();
    assert_eq!((count("the summary of a stream"), count("the summary of a lane")), (2, 4), "{own:#?}");
    assert!(own.len() < 100, "{own:#?}");
}
