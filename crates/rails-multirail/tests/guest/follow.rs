//! Rails that follow the machine under traffic: CPUs, links and interrupts come and go, and every
//! byte is compared.

use bytes::Bytes;
use rails_bind::{
    interrupt,
    settings::{Change, Host},
};
use rails_lab::guest::Cable;
use rails_multirail::{
    FollowOptions, MultiRailListener, MultiRailStream, RailEvent, RailEventKind, RailId, RailRequest, Rails, Security,
    StreamOptions, plan_rails, planner::LocalEnd,
};
use rails_topo::{CpuId, CpuSet, Topology, monitor::MonitorOptions};
use std::{
    collections::BTreeSet,
    fs,
    net::SocketAddr,
    path::PathBuf,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::{io::AsyncWriteExt, runtime::Runtime, sync::broadcast};

fn rails(request: &RailRequest) -> Rails {
    let plan = plan_rails(&Topology::detect().expect("this machine can be read"), request).expect("it can be planned");
    println!("{plan}");
    Rails::build(&plan).expect("they need no privilege")
}

/// A rail at the far end of a cable. `/sys` shows the near NICs alone, so the routes choose its
/// own.
fn rails_at(cable: &Cable) -> Rails {
    let _inside = cable.namespace().enter().expect("the guest's tests run as root");
    rails(&RailRequest::on([LocalEnd::Any]))
}

/// Quick enough for a test; the defaults are slower.
fn options() -> FollowOptions {
    let monitor = MonitorOptions::new().poll_interval(Duration::from_millis(200));
    FollowOptions::new().dwell(Duration::from_secs(1)).monitor(monitor)
}

fn on_cpu(cpu: u32, online: bool) {
    let file = format!("/sys/devices/system/cpu/cpu{cpu}/online");
    fs::write(file, if online { "1" } else { "0" }).expect("the guest's CPUs can be taken away, but for the first");
}

/// A CPU that is offline until this is dropped.
struct Offline(u32);

impl Drop for Offline {
    fn drop(&mut self) {
        on_cpu(self.0, true);
    }
}

/// A stream that carries numbered bytes until `stop` is set.
struct Traffic {
    runtime: Runtime,
    stop: Arc<AtomicBool>,
    received: Arc<AtomicU64>,
    near: tokio::task::JoinHandle<u64>,
    far: tokio::task::JoinHandle<u64>,
}

fn byte(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

impl Traffic {
    fn between(near: MultiRailStream, far: MultiRailStream, runtime: Runtime) -> Self {
        let (stop, received) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (mut near, mut far) = (near, far);
        let (stopped, arrived) = (stop.clone(), received.clone());
        let near = runtime.spawn(async move {
            let mut at = 0;
            while !stopped.load(Relaxed) {
                let piece = Bytes::from_iter((at..at + PIECE).map(byte));
                near.write_bytes(piece).await.expect("the peer reads");
                at += PIECE;
            }
            near.shutdown().await.expect("the peer has every byte");
            near.close().await.expect("it ends well");
            at
        });
        let far = runtime.spawn(async move {
            let mut at = 0;
            while let Some(bytes) = far.read_bytes().await.expect("the stream does not fail") {
                assert!(bytes.iter().zip(at..).all(|(found, at)| *found == byte(at)), "wrong bytes from {at} on");
                at += bytes.len() as u64;
                arrived.store(at, Relaxed);
            }
            far.close().await.expect("it ends well");
            at
        });
        Self { runtime, stop, received, near, far }
    }

    /// Waits until four more pieces have arrived.
    fn carries_on(&self) {
        let goal = self.received.load(Relaxed) + 4 * PIECE;
        let begun = Instant::now();
        while self.received.load(Relaxed) < goal {
            assert!(begun.elapsed() < PATIENCE, "the stream stands still at {}", self.received.load(Relaxed));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends the traffic, and compares the counts.
    fn finish(self) -> u64 {
        self.stop.store(true, Relaxed);
        let (sent, received) = self.runtime.block_on(async { (self.near.await, self.far.await) });
        let (sent, received) = (sent.expect("no assertion failed"), received.expect("no assertion failed"));
        assert_eq!(sent, received, "bytes were lost");
        println!("{received} bytes, each as it was sent");
        received
    }
}

/// The next event that is as wanted. Prints the time from `since` to each event.
fn event(
    events: &mut broadcast::Receiver<RailEvent>,
    since: Instant,
    is_wanted: impl Fn(&RailEvent) -> bool,
) -> RailEvent {
    let mut seen = Vec::new();
    while since.elapsed() < PATIENCE {
        match events.try_recv() {
            Ok(event) => {
                println!("{event}, {:.0?} after its cause", since.elapsed());
                if is_wanted(&event) {
                    return event;
                }
                seen.push(event.to_string());
            }
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
    panic!("no such event, but {seen:?}");
}

fn is_move_of(rail: usize) -> impl Fn(&RailEvent) -> bool {
    move |event| event.rail == Some(RailId(rail)) && matches!(event.kind, RailEventKind::Moved { .. })
}

fn runtime() -> Runtime {
    let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    threads.expect("a runtime")
}

/// A stream with a lane from each near rail to an address, of these in their order.
async fn pair(near: &Rails, far: &Rails, to: &[SocketAddr]) -> (MultiRailStream, MultiRailStream) {
    let options = StreamOptions::new(Security::insecure()).join_grace(PATIENCE);
    let listener = MultiRailListener::bind(far, to, &options).await.expect("free ports");
    // The listener stays for as long as lanes come back.
    let listener = Box::leak(Box::new(listener));
    let near = MultiRailStream::connect(near, &listener.local_addrs()[..near.len()], &options).await;
    let near = near.expect("it listens");
    (near, listener.accept().await.expect("a stream was opened"))
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_rail_leaves_an_offline_cpu_and_returns() {
    rails_lab::guest::require();
    let request = RailRequest::loopback(4);
    let rails = rails(&request);
    let on_3 = rails.iter().find(|rail| rail.planned().cpu == CpuId(3)).expect("one rail on each CPU").id();
    let mut events = rails.subscribe();
    rails.follow(&request, options()).expect("it can be watched");
    let runtime = runtime();
    let addresses: Vec<SocketAddr> = (1..=4).map(|last| SocketAddr::from(([127, 0, 0, last], 0))).collect();
    let (near, far) = runtime.block_on(pair(&rails, &rails, &addresses));
    let traffic = Traffic::between(near, far, runtime);
    traffic.carries_on();

    let since = Instant::now();
    on_cpu(3, false);
    let offline = Offline(3);
    let moved = event(&mut events, since, is_move_of(on_3.0));
    let RailEventKind::Moved { from, to, reasons, placement } = moved.kind else { unreachable!() };
    assert_eq!(from.cpu, CpuId(3));
    assert_eq!(reasons, ["CPU 3: is offline"]);
    assert_eq!(placement.cpus.as_ref().unwrap().got(), &CpuSet::single(to.cpu), "read back");
    assert_eq!(rails[on_3].runtime().cpus_now().expect("it runs"), CpuSet::single(to.cpu));
    assert_eq!(to.cpu, CpuId(2), "the other CPU of its node");
    traffic.carries_on();

    let since = Instant::now();
    drop(offline);
    let moved = event(&mut events, since, |event| match &event.kind {
        RailEventKind::Moved { to, .. } => to.cpu == CpuId(3),
        _ => false,
    });
    println!("{moved}");
    let is_alone = || {
        let cpus: BTreeSet<CpuId> = rails.iter().map(|rail| rail.planned().cpu).collect();
        cpus.len() == rails.len()
    };
    while !is_alone() {
        assert!(since.elapsed() < PATIENCE, "rails share a CPU while another one is free");
        std::thread::sleep(Duration::from_millis(20));
    }
    traffic.carries_on();
    traffic.finish();
    for rail in rails.iter() {
        assert_eq!(rail.runtime().cpus_now().expect("it runs"), CpuSet::single(rail.planned().cpu));
    }
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_spare_nic_takes_over_from_one_that_is_down() {
    rails_lab::guest::require();
    let first = Cable::plug(0).expect("the cable is free");
    let second = Cable::plug_beside(1, &first).expect("the cable is free");
    let request = RailRequest::count(1);
    let ours = rails(&request);
    let theirs = rails_at(&first);
    let mut events = ours.subscribe();
    ours.follow(&request, options()).expect("it can be watched");
    let before = ours[RailId(0)].planned().interface.clone().expect("it is on a NIC");
    let (used, spare) = if before == first.near() { (&first, &second) } else { (&second, &first) };
    assert_eq!(before, used.near());
    let runtime = runtime();
    let to: [SocketAddr; 2] =
        [used, spare].map(|cable| format!("{}:0", cable.far_address()).parse().expect("an address"));
    let (near, far) = runtime.block_on(pair(&ours, &theirs, &to));
    let traffic = Traffic::between(near, far, runtime);
    traffic.carries_on();

    let since = Instant::now();
    let down = Command::new("ip").args(["link", "set", used.near(), "down"]).status().expect("ip is there");
    assert!(down.success());
    let moved = event(&mut events, since, is_move_of(0));
    let RailEventKind::Moved { to, placement, .. } = moved.kind else { unreachable!() };
    assert_eq!(to.interface.as_deref(), Some(spare.near()));
    let node = Topology::detect().expect("it can be read").nic(spare.near()).expect("it is there").node;
    assert_eq!((to.node, placement.memory_node.clone().ok()), (node, node), "the memory follows the NIC");
    traffic.carries_on();
    println!("bytes arrive again {:.0?} after the link went down", since.elapsed());
    traffic.finish();
}

/// Another program moves the interrupts of the NIC's queues.
fn move_interrupts(nic: &str, cpu: u32) -> Vec<u32> {
    let topology = Topology::detect().expect("it can be read");
    let numbers: Vec<u32> =
        topology.nic(nic).expect("it is there").interrupts.iter().map(|interrupt| interrupt.number).collect();
    for number in &numbers {
        fs::write(PathBuf::from(format!("/proc/irq/{number}/smp_affinity_list")), cpu.to_string()).expect("root may");
    }
    numbers
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_long_moved_interrupt_followed_or_put_back() {
    rails_lab::guest::require();
    let cable = Cable::plug(1).expect("the cable is free");
    let settle = || {
        cable.ping(20).expect("the cable carries");
    };
    move_interrupts(cable.near(), 2);
    settle();
    let request: RailRequest = cable.near().parse().expect("its name");
    for puts_back in [false, true] {
        let ours = rails(&request);
        assert_eq!(ours[RailId(0)].planned().cpu, CpuId(3), "beside the CPU of the interrupts");
        let theirs = rails_at(&cable);
        let mut events = ours.subscribe();
        let options = if puts_back { options().put_interrupts_back() } else { options() };
        ours.follow(&request, options).expect("it can be watched");
        let runtime = runtime();
        let to = [format!("{}:0", cable.far_address()).parse().expect("an address")];
        let (near, far) = runtime.block_on(pair(&ours, &theirs, &to));
        let traffic = Traffic::between(near, far, runtime);
        traffic.carries_on();
        let since = Instant::now();
        let numbers = move_interrupts(cable.near(), 3);
        if puts_back {
            event(&mut events, since, |event| matches!(event.kind, RailEventKind::InterruptPutBack { .. }));
            let is_back = |number: &u32| {
                interrupt::read(*number).is_ok_and(|status| status.requested == CpuSet::single(CpuId(2)))
            };
            while !numbers.iter().all(is_back) {
                assert!(since.elapsed() < PATIENCE, "they are not put back");
                std::thread::sleep(Duration::from_millis(20));
            }
            traffic.carries_on();
            assert_eq!(ours[RailId(0)].planned().cpu, CpuId(3), "the rail stays");
        } else {
            let moved = event(&mut events, since, is_move_of(0));
            let RailEventKind::Moved { to, .. } = moved.kind else { unreachable!() };
            assert_eq!(to.cpu, CpuId(2), "beside the interrupts again");
            traffic.carries_on();
        }
        traffic.finish();
        ours.unfollow();
        for number in numbers {
            Host::this().set_again(&Change::interrupt(number, CpuSet::single(CpuId(2)))).expect("root may");
        }
        settle();
    }
}

const PIECE: u64 = 256 << 10;
/// No sound program takes as long, not even on an emulated machine. There the monitor's poll, which
/// finds moved interrupts, takes so long that it is made once in a minute or so.
const PATIENCE: Duration = Duration::from_secs(240);
