//! Random traffic of many channels between two sessions, beside an oracle of each.

use super::{Limits, Running, Side, messages, rails};
use crate::{
    carry::carry,
    session::{Asking, Channel, Session},
    socket::{Socket, reset_on_close},
    traffic::End,
};
use rails_multirail::RailId;
use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::timeout,
};

/// The numbers of a linear congruential generator (Knuth's MMIX).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn byte(seed: u64, at: u64) -> u8 {
    (seed.wrapping_add(at).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// A connection, and the end of it that the gate carries.
pub(super) async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (program, gate) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
    (program.unwrap(), gate.unwrap().0)
}

/// Writes bytes in pieces of any size, at any pace.
async fn write(to: &mut (impl AsyncWriteExt + Unpin), seed: u64, length: u64, mut random: Random) -> io::Result<()> {
    let mut at = 0;
    while at < length {
        let largest = [1, 40, 3_000, 200_000][random.below(4) as usize];
        let piece = (1 + random.below(largest)).min(length - at);
        let bytes: Vec<u8> = (at..at + piece).map(|at| byte(seed, at)).collect();
        to.write_all(&bytes).await?;
        at += piece;
        if random.below(8) == 0 {
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}

/// Reads to the end, slowly at times; counts the bytes.
async fn read(mut from: impl AsyncReadExt + Unpin, seed: u64, mut random: Random) -> (u64, io::Result<()>) {
    let (mut at, mut buffer) = (0, vec![0; 100_000]);
    loop {
        let largest = [10, 2_000, 100_000][random.below(3) as usize];
        let room = 1 + random.below(largest) as usize;
        let read = match from.read(&mut buffer[..room]).await {
            Ok(0) => return (at, Ok(())),
            Ok(read) => read,
            Err(error) => return (at, Err(error)),
        };
        for found in &buffer[..read] {
            assert_eq!(*found, byte(seed, at), "byte {at}");
            at += 1;
        }
        if random.below(50) == 0 {
            tokio::time::sleep(Duration::from_micros(random.below(2_000))).await;
        }
    }
}

/// What becomes of a connection.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    /// Each direction ends behind its last byte.
    Ends,
    /// The program resets it.
    ResetByProgram,
    /// The service resets it.
    ResetByService,
}

/// A connection as both of its ends know it by its seed.
struct Plan {
    fate: Fate,
    /// The bytes that the program sends, and those that the service sends. An end that resets sends
    /// as many before.
    lengths: [u64; 2],
    seed: u64,
}

impl Plan {
    fn of(seed: u64) -> Self {
        let mut random = Random(seed ^ 77);
        let fate = [Fate::Ends, Fate::ResetByProgram, Fate::ResetByService][random.below(3) as usize];
        let lengths =
            [[0, 1, 70_000, 1_500_000][random.below(4) as usize], [0, 3, 90_000, 800_000][random.below(4) as usize]];
        Self { fate, lengths, seed }
    }

    /// Plays the program (end 0) or the service (end 1), and says how the gate has to see its end.
    async fn play(&self, stream: TcpStream, end: usize) -> End {
        let resets = [Fate::ResetByProgram, Fate::ResetByService];
        match self.fate {
            Fate::Ends => self.play_to_the_end(stream, end).await,
            fate if fate == resets[end] => self.reset(stream, end).await,
            _ => self.be_reset(stream, end).await,
        }
    }

    fn seeds(&self, end: usize) -> (u64, u64) {
        (self.seed ^ (1 + end as u64), self.seed ^ (2 - end as u64))
    }

    fn random(&self, end: usize, use_of: u64) -> Random {
        Random(self.seed ^ (5 + 2 * use_of + end as u64))
    }

    async fn play_to_the_end(&self, stream: TcpStream, end: usize) -> End {
        let (own, others) = self.seeds(end);
        let (from, mut to) = stream.into_split();
        let writes = async {
            write(&mut to, own, self.lengths[end], self.random(end, 0)).await?;
            to.shutdown().await
        };
        let (written, (length, read)) = tokio::join!(writes, read(from, others, self.random(end, 1)));
        written.and(read).unwrap();
        assert_eq!(length, self.lengths[1 - end], "the direction ended where its writer ended it");
        End::Finished
    }

    async fn reset(&self, mut stream: TcpStream, end: usize) -> End {
        let (own, others) = self.seeds(end);
        let (from, mut to) = stream.split();
        let writes = async {
            write(&mut to, own, self.lengths[end], self.random(end, 0)).await.unwrap();
            let mut random = self.random(end, 2);
            if random.below(2) == 0 {
                tokio::time::sleep(Duration::from_micros(random.below(3_000))).await;
            }
        };
        let reads = async {
            let (length, read) = read(from, others, self.random(end, 1)).await;
            read.unwrap();
            assert_eq!(length, self.lengths[1 - end], "the direction ended where its writer ended it");
            std::future::pending().await
        };
        tokio::select! {
            () = writes => {}
            () = reads => {}
        }
        reset_on_close(&stream);
        End::ResetHere
    }

    async fn be_reset(&self, stream: TcpStream, end: usize) -> End {
        let (own, others) = self.seeds(end);
        let (from, mut to) = stream.into_split();
        // A call that fails takes the error, and the next one finds an end.
        let has_failed = AtomicBool::new(false);
        let writes = async {
            match write(&mut to, own, self.lengths[end], self.random(end, 0)).await {
                Ok(()) => drop(to.shutdown().await),
                Err(_) => has_failed.store(true, Ordering::Relaxed),
            }
        };
        let reads = async {
            let (length, read) = read(from, others, self.random(end, 1)).await;
            assert!(read.is_err() || has_failed.load(Ordering::Relaxed), "a reset is no end: after {length} bytes");
            assert!(length <= self.lengths[1 - end], "{length} bytes");
        };
        tokio::join!(writes, reads);
        End::ResetThere
    }
}

/// A program at one end of a channel of the sessions, and a service at the other.
async fn connection(opener: Arc<Session>, number: u16, seed: u64) {
    let mut random = Random(seed);
    let channel = opener.open(SocketAddr::from(([10, 0, 0, 1], number)), None).await.unwrap();
    let (program, socket) = pair().await;
    if random.below(2) == 0 {
        // Bytes may arrive before the socket is there.
        tokio::time::sleep(Duration::from_micros(random.below(3_000))).await;
    }
    let carried = carried(socket, channel, number);
    let end = Plan::of(seed).play(program, 0).await;
    assert_eq!(carried.await.unwrap(), end);
}

/// Carries a connection as a gate does: on a thread that has the socket for itself, which may be
/// another one than the session's.
fn carried(socket: TcpStream, channel: Channel, number: u16) -> JoinHandle<End> {
    let rail = RailId(usize::from(number / 2 % 2));
    let socket = socket.into_std().unwrap();
    rails()[rail].runtime().handle().spawn(async move {
        let socket = Socket::of_tcp(TcpStream::from_std(socket).unwrap());
        carry(socket, channel, &Arc::default()).await
    })
}

async fn service(asking: Asking, seed: u64) {
    let number = asking.destination.port();
    let channel = asking.accept().unwrap();
    let (service, socket) = pair().await;
    let carried = carried(socket, channel, number);
    let end = Plan::of(seed).play(service, 1).await;
    assert_eq!(carried.await.unwrap(), end);
}

fn seed_of(run: u64, number: u16) -> u64 {
    run.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ u64::from(number)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_and_resets_of_random_channels() {
    let runs = std::env::var("RAILS_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(4);
    for run in 0..runs {
        let (dialled, accepted) = messages().await;
        // Room for a few large windows only.
        let limits = || Limits::new(64, 3 << 20);
        let (dialled, accepted) = tokio::join!(
            Running::begin(dialled, Side::Dialled, 1, limits()),
            Running::begin(accepted, Side::Accepted, 2, limits())
        );
        let (dialled, accepted) = (dialled.unwrap(), accepted.unwrap());
        let (sessions, all_limits) =
            ([dialled.session, accepted.session], [dialled.limits.clone(), accepted.limits.clone()]);
        let services: Vec<_> = [(dialled.asked, 1), (accepted.asked, 0)]
            .map(|(mut asked, from)| {
                tokio::spawn(async move {
                    let mut services = tokio::task::JoinSet::new();
                    while services.len() < CONNECTIONS / 2 {
                        let asking = asked.recv().await.unwrap();
                        assert_eq!(asking.destination.port() % 2, from);
                        let seed = seed_of(run, asking.destination.port());
                        services.spawn(service(asking, seed));
                    }
                    services.join_all().await;
                })
            })
            .into();
        let programs: tokio::task::JoinSet<()> = (0..CONNECTIONS as u16)
            .map(|number| connection(sessions[usize::from(number % 2)].clone(), number, seed_of(run, number)))
            .collect();
        timeout(Duration::from_secs(120), programs.join_all()).await.expect("no wake-up is lost");
        for service in services {
            timeout(Duration::from_secs(120), service).await.expect("no wake-up is lost").unwrap();
        }
        for limits in all_limits {
            assert_eq!(limits.taken(), (0, 0));
        }
    }
}

const CONNECTIONS: usize = 24;
