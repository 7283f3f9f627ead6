//! A path that is long and has a rate, between two ends on this machine.

use bytes::Bytes;
use rails_topo::Bandwidth;
use std::{io, net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, sleep_until},
};

/// Carries connections to an address. Each direction of each has the rate, and takes half of the
/// round trip. It loses nothing, and its ends see each other's windows only through it, so TCP
/// starts faster than on a line of that length. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct SlowPath {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl SlowPath {
    /// A path to that address.
    ///
    /// # Errors
    /// No port can be had.
    pub(crate) async fn to(target: SocketAddr, rate: Bandwidth, round_trip: Duration) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let line = Line { bytes_per_second: (rate.as_bits_per_second() / 8).max(1), delay: round_trip / 2 };
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(async move {
                    // A connection that fails ends at both ends.
                    let _ = line.carry(near, target).await;
                });
            }
        });
        Ok(Self { address, task })
    }

    /// The address at this end.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for SlowPath {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A rate and a delay.
#[derive(Debug, Clone, Copy)]
struct Line {
    bytes_per_second: u64,
    delay: Duration,
}

impl Line {
    async fn carry(self, near: TcpStream, target: SocketAddr) -> io::Result<()> {
        let far = TcpStream::connect(target).await?;
        for end in [&near, &far] {
            end.set_nodelay(true)?;
        }
        let ((near_reads, near_writes), (far_reads, far_writes)) = (near.into_split(), far.into_split());
        tokio::try_join!(self.direction(near_reads, far_writes), self.direction(far_reads, near_writes))?;
        Ok(())
    }

    /// The time at which the line is free again after so many bytes, and that of their arrival.
    fn carried(self, bytes: usize, free: Instant, now: Instant) -> (Instant, Instant) {
        let seconds = bytes as f64 / self.bytes_per_second as f64;
        let free = free.max(now) + Duration::from_secs_f64(seconds);
        (free, free + self.delay)
    }

    /// Carries bytes one way, until their sender ends.
    async fn direction(self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) -> io::Result<()> {
        let (sender, mut on_their_way) = mpsc::channel::<(Instant, Bytes)>(MAX_CHUNKS);
        let sending = async move {
            let mut free = Instant::now();
            let mut buffer = vec![0; CHUNK_BYTES];
            loop {
                let bytes = from.read(&mut buffer).await?;
                if bytes == 0 {
                    return Ok::<_, io::Error>(());
                }
                let arrival;
                (free, arrival) = self.carried(bytes, free, Instant::now());
                // What is sent faster than the rate waits at the sender.
                sleep_until(free).await;
                if sender.send((arrival, Bytes::copy_from_slice(&buffer[..bytes]))).await.is_err() {
                    return Ok(());
                }
            }
        };
        let arriving = async {
            while let Some((at, bytes)) = on_their_way.recv().await {
                sleep_until(at).await;
                to.write_all(&bytes).await?;
            }
            to.shutdown().await
        };
        tokio::try_join!(sending, arriving).map(drop)
    }
}

/// 2 ms at 500 Mbit/s: the timer of the runtime has a resolution of one.
const CHUNK_BYTES: usize = 128 << 10;
/// The bytes on their way: more than a line of 10 Gbit/s over 20 ms.
const MAX_CHUNKS: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_carries_at_its_rate_and_after_its_delay() {
        let line = Line { bytes_per_second: 10_000_000, delay: Duration::from_millis(20) };
        let now = Instant::now();
        let after = |millis| now + Duration::from_millis(millis);
        assert_eq!(line.carried(100_000, now, now), (after(10), after(30)));
        assert_eq!(line.carried(100_000, after(10), now), (after(20), after(40)));
        // A line that was idle is not faster for it.
        assert_eq!(line.carried(100_000, now, after(50)), (after(60), after(80)));
    }

    #[tokio::test]
    async fn bytes_arrive_whole() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let target = listener.local_addr().unwrap();
        let path = SlowPath::to(target, Bandwidth::mbps(800), Duration::from_millis(4)).await.unwrap();
        let mut near = TcpStream::connect(path.address()).await.unwrap();
        let (mut far, _) = listener.accept().await.unwrap();
        let sent: Vec<u8> = (0..1_000_000_u32).map(|number| number as u8).collect();
        let expected = sent.clone();
        let sending = tokio::spawn(async move {
            near.write_all(&sent).await.unwrap();
            near.shutdown().await.unwrap();
            near
        });
        let mut arrived = Vec::new();
        far.read_to_end(&mut arrived).await.unwrap();
        assert!(arrived == expected, "{} bytes arrived", arrived.len());
        drop(sending.await.unwrap());
    }
}
