//! Messages over an emulated path of 500 Mbit/s and 19 ms that loses packets, beside TCP with CUBIC and with BBR.
//!
//! `cargo run --release -p rails-celeritas --example lossy_path -- [LOSS...]` (root; it makes network namespaces)

// The protocol alone takes the time as an argument.
#![allow(clippy::disallowed_methods)]

use bytes::Bytes;
use rails_celeritas::{CeleritasOptions, ConnectionStats};
use rails_lab::{EmulatedLink, LinkLab, Side};
use rails_topo::Bandwidth;
use std::{
    env,
    error::Error,
    io::{Read, Write},
    net::SocketAddr,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};
use tokio::runtime::Builder;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const MESSAGE: usize = 20_000_000;
const MESSAGES: usize = 8;
/// The path carries 500 Mbit/s of Ethernet frames, whose headers are 14 of 1,514 bytes.
const RATE: Bandwidth = Bandwidth::mbps(494);

fn main() -> Result<()> {
    let losses: Vec<f64> = env::args().skip(1).map(|loss| loss.parse()).collect::<std::result::Result<_, _>>()?;
    let losses = if losses.is_empty() { vec![0.0, 1e-4, 1e-3, 1e-2, 5e-2] } else { losses };
    println!("{MESSAGES} messages of {MESSAGE} bytes; 500 Mbit/s, RTT 19 ms, queue 20 ms, seed 7");
    for loss in losses {
        println!("loss {loss}");
        measured(loss, celeritas)?;
        for congestion in ["cubic", "bbr"] {
            measured(loss, |lab| tcp(lab, congestion))?;
        }
    }
    Ok(())
}

/// Runs one contender on a path of its own.
fn measured(loss: f64, run: impl FnOnce(&LinkLab) -> Result<(String, Duration, usize)>) -> Result<()> {
    let path =
        EmulatedLink::mbit(500).rtt(Duration::from_millis(19)).queue(Duration::from_millis(20)).loss(loss).seed(7);
    let lab = LinkLab::builder().emulated(path).build()?;
    let (name, time, bytes) = run(&lab)?;
    let goodput = bytes as f64 * 8.0 / time.as_secs_f64() / 1e6;
    println!("  {goodput:6.1} Mbit/s  {name}; path: {:?}", lab.emulated_counters(0)?.from(Side::A));
    Ok(())
}

fn celeritas(lab: &LinkLab) -> Result<(String, Duration, usize)> {
    let address = SocketAddr::new(lab.address(Side::B, 0), 7600);
    let (ready, listening) = mpsc::channel();
    let runtime = || Builder::new_current_thread().enable_all().build();
    thread::scope(|scope| {
        let receiver = scope.spawn(move || -> Result<ConnectionStats> {
            let _inside = lab.enter(Side::B)?;
            runtime()?.block_on(async {
                let listener = CeleritasOptions::fixed(RATE).listen(address).await?;
                ready.send(())?;
                let connection = listener.accept().await?;
                while let Some(message) = connection.receive().await? {
                    assert_eq!(message.blocks.iter().map(|block| block.len()).sum::<usize>(), MESSAGE);
                }
                let stats = connection.stats();
                connection.close().await?;
                Ok(stats)
            })
        });
        listening.recv()?;
        let _inside = lab.enter(Side::A)?;
        let (stats, time) = runtime()?.block_on(async {
            let connection = CeleritasOptions::fixed(RATE).connect(address).await?;
            let block = Bytes::from(vec![7; MESSAGE]);
            let begin = Instant::now();
            let sent: std::result::Result<Vec<_>, _> =
                (0..MESSAGES).map(|_| connection.send(vec![block.clone()])).collect();
            connection.finish();
            for sending in sent? {
                sending.await?;
            }
            let (time, stats) = (begin.elapsed(), connection.stats());
            connection.close().await?;
            Ok::<_, Box<dyn Error + Send + Sync>>((stats, time))
        })?;
        let far = receiver.join().expect("the receiver does not panic")?;
        let again = stats.sender.retransmitted_segments as f64 / stats.sender.segments as f64;
        let said = format!("Celeritas, {:.3} % sent again, {:?}, {:?}", 100.0 * again, far.scatter, far.receiver);
        Ok((said, time, MESSAGE * MESSAGES))
    })
}

fn tcp(lab: &LinkLab, congestion: &str) -> Result<(String, Duration, usize)> {
    let address = SocketAddr::new(lab.address(Side::B, 0), 7600);
    let (ready, listening) = mpsc::channel();
    thread::scope(|scope| {
        let receiver = scope.spawn(move || -> Result<()> {
            let _inside = lab.enter(Side::B)?;
            let listener = std::net::TcpListener::bind(address)?;
            ready.send(())?;
            let (mut stream, _) = listener.accept()?;
            let mut buffer = vec![0; 1 << 20];
            while stream.read(&mut buffer)? > 0 {}
            stream.write_all(&[1])?;
            Ok(())
        });
        listening.recv()?;
        let _inside = lab.enter(Side::A)?;
        let mut stream = std::net::TcpStream::connect(address)?;
        socket2::SockRef::from(&stream).set_tcp_congestion(congestion.as_bytes())?;
        let block = vec![7; 1 << 20];
        let (begin, mut bytes) = (Instant::now(), 0);
        while bytes < MESSAGE * MESSAGES && begin.elapsed() < Duration::from_secs(10) {
            stream.write_all(&block)?;
            bytes += block.len();
        }
        stream.shutdown(std::net::Shutdown::Write)?;
        stream.read_exact(&mut [0])?;
        let time = begin.elapsed();
        receiver.join().expect("the receiver does not panic")?;
        Ok((format!("TCP {congestion}"), time, bytes))
    })
}
