//! Both ends of a stream in one process, each with rails in a namespace of its own.

use bytes::Bytes;
use rails_lab::{LinkLab, Side};
use rails_multirail::{EventKind, MultiRailListener, MultiRailStream, RailRequest, Rails, StreamOptions, plan_rails};
use rails_topo::{InterfaceAddress, Nic, NicKind, Topology};
use std::{
    collections::BTreeMap,
    future::poll_fn,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::Poll,
    time::{Duration, Instant},
};
use tokio::{io::AsyncWrite, runtime::Runtime, task::JoinHandle, time::timeout};

/// A stream from side A to side B, with its lanes over every link of the lab.
pub(crate) struct Ends {
    pub(crate) lab: LinkLab,
    ends: [End; 2],
    runtime: Runtime,
    /// The rails that the lanes run on.
    _rails: [Rails; 2],
}

/// One end, with a task that reads and writes.
struct End {
    stream: Arc<Mutex<MultiRailStream>>,
    /// Whether the task writes, and whether it should end.
    writes: Arc<AtomicBool>,
    enough: Arc<AtomicBool>,
    task: JoinHandle<std::io::Result<[u64; 2]>>,
}

impl Ends {
    /// Opens a stream on which the ends in `writers` write without a pause.
    pub(crate) fn open(lab: LinkLab, options: &StreamOptions, writers: &[Side]) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let machine = Topology::detect().expect("this machine can be read");
        let rails = Side::BOTH.map(|side| rails(&lab, &machine, side));
        let (near, far) = runtime.block_on(async {
            let ends = rails[1].iter().map(|rail| SocketAddr::new(rail.planned().address.expect("it has one"), 0));
            let addresses: Vec<SocketAddr> = ends.collect();
            let listener = MultiRailListener::bind(&rails[1], &addresses, options).await.expect("it can listen");
            let near = MultiRailStream::connect(&rails[0], listener.local_addrs(), options).await.expect("it listens");
            let far = listener.accept().await.expect("a stream was opened");
            // The listener accepts lanes that are dialled again.
            tokio::spawn(async move { listener.accept().await.map(drop) });
            (near, far)
        });
        let ends = [(near, Side::A), (far, Side::B)].map(|(stream, side)| {
            let stream = Arc::new(Mutex::new(stream));
            let writes = Arc::new(AtomicBool::new(writers.contains(&side)));
            let enough = Arc::new(AtomicBool::new(false));
            let task = runtime.spawn(exchange(stream.clone(), writes.clone(), enough.clone()));
            End { stream, writes, enough, task }
        });
        let ends = Self { lab, ends, runtime, _rails: rails };
        let lanes = ends.stream(Side::A).lanes_up();
        ends.wait_until("every lane is up", || Side::BOTH.iter().all(|side| ends.stream(*side).lanes_up() == lanes));
        ends
    }

    pub(crate) fn stream(&self, side: Side) -> MutexGuard<'_, MultiRailStream> {
        self.ends[side as usize].stream.lock().expect("no thread panics while it holds the lock")
    }

    /// Makes both ends write from now on.
    pub(crate) fn write(&self) {
        self.ends.iter().for_each(|end| end.writes.store(true, Relaxed));
    }

    /// The numbers of the usable lanes at this end.
    pub(crate) fn usable_lanes(&self, side: Side) -> Vec<u16> {
        // The number of a lane's connections that are up, and of those that are stalled. A lane has two
        // while one replaces the other.
        let mut connections = BTreeMap::<u16, (i32, i32)>::new();
        for event in self.stream(side).events() {
            let Some(lane) = event.lane else { continue };
            let (up, stalled) = connections.entry(lane).or_default();
            match event.kind {
                EventKind::Joined => *up += 1,
                EventKind::Ended { .. } => (*up, *stalled) = (*up - 1, (*stalled - 1).max(0)),
                EventKind::Stalled { .. } => *stalled += 1,
                EventKind::Restored { .. } => *stalled -= 1,
                EventKind::Leaving => *stalled += 1,
                _ => {}
            }
        }
        connections.into_iter().filter(|(_, (up, stalled))| up > stalled).map(|(lane, _)| lane).collect()
    }

    /// The bytes that have arrived at this end, by lane.
    pub(crate) fn arrived(&self, side: Side) -> BTreeMap<u16, u64> {
        self.stream(side).stats().lanes.iter().map(|lane| (lane.lane, lane.bytes_received)).collect()
    }

    /// Whether a task has ended before the test told it to, which is a failure.
    pub(crate) fn has_failed(&self) -> bool {
        self.ends.iter().any(|end| end.task.is_finished())
    }

    /// Waits for a condition, and gives the time that it took.
    #[track_caller]
    pub(crate) fn wait_until(&self, what: &str, holds: impl Fn() -> bool) -> Duration {
        let since = Instant::now();
        while !holds() {
            let waited = since.elapsed();
            assert!(waited < PATIENCE && !self.has_failed(), "not within {waited:?}: {what}\n{}", self.story());
            self.pass(TICK);
        }
        since.elapsed()
    }

    /// Waits while the ends read and write.
    pub(crate) fn pass(&self, time: Duration) {
        self.runtime.block_on(async { tokio::time::sleep(time).await });
    }

    /// The events of both ends, as text.
    pub(crate) fn story(&self) -> String {
        let of = |side: Side| {
            let stream = self.stream(side);
            let events: Vec<String> = stream.events().iter().map(|event| format!("  {event:?}")).collect();
            let lanes: Vec<String> = stream
                .stats()
                .lanes
                .iter()
                .map(|lane| {
                    let (sent, received, rtt) = (lane.bytes_sent, lane.bytes_received, (lane.rtt, lane.min_rtt));
                    format!(
                        "  lane {}: up {}, sent {sent}, received {received}, rtt {rtt:?}, {:?}",
                        lane.lane, lane.up, lane.times
                    )
                })
                .collect();
            format!("side {side}:\n{}\n{}", events.join("\n"), lanes.join("\n"))
        };
        Side::BOTH.map(of).join("\n")
    }

    /// Ends the stream in order, and checks that every byte has arrived. Gives the number of bytes
    /// that each side sent.
    pub(crate) fn finish(self) -> [u64; 2] {
        for end in &self.ends {
            end.enough.store(true, Relaxed);
            end.writes.store(true, Relaxed);
        }
        let story = self.story();
        let [near, far] = self.ends.map(|end| {
            let done = self.runtime.block_on(async { timeout(PATIENCE, end.task).await });
            let done = done.unwrap_or_else(|_| panic!("it does not end\n{story}")).expect("the task does not panic");
            done.unwrap_or_else(|error| panic!("it failed: {error}\n{story}"))
        });
        assert_eq!([near[0], far[0]], [far[1], near[1]], "not every byte arrived");
        [near[0], far[0]]
    }
}

/// Writes while it should, and reads and compares the arriving bytes. Gives the number of bytes
/// written and read.
async fn exchange(
    stream: Arc<Mutex<MultiRailStream>>,
    writes: Arc<AtomicBool>,
    enough: Arc<AtomicBool>,
) -> std::io::Result<[u64; 2]> {
    let pattern: Vec<u8> = (0..PERIOD).map(|index| (index * index + index / 7) as u8).collect();
    let block = Bytes::from(pattern.repeat(2));
    let (mut written, mut read) = (0, 0);
    let (mut all_written, mut all_read) = (false, false);
    // No waker announces a change of the flags.
    let mut tick = tokio::time::interval(TICK);
    while !(all_written && all_read) {
        let turn = poll_fn(|context| {
            let mut stream = stream.lock().expect("no thread panics while it holds the lock");
            let mut progress = tick.poll_tick(context).is_ready();
            if !all_read && let Poll::Ready(bytes) = stream.poll_read_bytes(context)? {
                progress = true;
                all_read = bytes.is_none();
                for piece in bytes.iter().flat_map(|bytes| bytes.chunks(PERIOD)) {
                    let from = (read % PERIOD as u64) as usize;
                    assert!(block[from..from + piece.len()] == *piece, "other bytes arrived at {read}");
                    read += piece.len() as u64;
                }
            }
            if !all_written && enough.load(Relaxed) {
                all_written = Pin::new(&mut *stream).poll_shutdown(context)?.is_ready();
                progress |= all_written;
            } else if !all_written && writes.load(Relaxed) {
                let from = (written % PERIOD as u64) as usize;
                if let Poll::Ready(count) = stream.poll_write_bytes(context, &mut block.slice(from..from + PERIOD))? {
                    progress = true;
                    written += count as u64;
                }
            }
            if progress { Poll::Ready(std::io::Result::Ok(())) } else { Poll::Pending }
        });
        turn.await?;
    }
    Ok([written, read])
}

/// The machine's CPUs with the interfaces of one end: `/sys` shows those of the namespace that it
/// was mounted in.
fn rails(lab: &LinkLab, machine: &Topology, side: Side) -> Rails {
    let nic = |link| Nic {
        kind: NicKind::Virtual,
        up: Some(true),
        addresses: vec![InterfaceAddress { ip: lab.address(side, link), prefix_len: 24 }],
        ..Nic::named(lab.interface(side, link))
    };
    let cpus = machine.online_cpus().last().expect("a CPU is online").0 + 1;
    let nics = (0..lab.link_count()).map(nic).collect();
    let described = Topology::synthetic(&format!("core:{cpus} pu:1"), nics).expect("it is a machine");
    let described = described.with_allowed(machine.allowed_cpus().clone());
    let names: Vec<&str> = (0..lab.link_count()).map(|link| lab.interface(side, link)).collect();
    let wish: RailRequest = names.join(",").parse().expect("they are names");
    // The rails' threads start here, and so in the namespace.
    let _inside = lab.enter(side).expect("this is root");
    Rails::build(&plan_rails(&described, &wish).expect("each link is a rail")).expect("a rail on each link")
}

/// The length of the repeated pattern: longer than most writes, and not a power of two.
const PERIOD: usize = 65_521;
/// The interval at which tasks and waits check.
const TICK: Duration = Duration::from_millis(10);
/// Every step here is shorter. A step that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);
