//! The two ends of a stream, each in a namespace of its own, both in this process.

use rails::{
    multirail::{
        LaneAddress, MultiRailListener, MultiRailStream, RailRequest, Rails, Scheme, StreamOptions, plan_rails,
    },
    topo::{InterfaceAddress, Nic, NicKind, Topology},
};
use rails_lab::{LinkLab, Side};
use std::{future::Future, net::SocketAddr, sync::mpsc, thread, time::Duration};

/// Opens a stream from side A to side B with a lane over each link, of that transport, and runs
/// both ends to their end.
///
/// Each end has a thread in its namespace, and the threads that it starts, such as those of its
/// rails, start there too.
pub(crate) fn run<A: Send, B: Send>(
    lab: &LinkLab,
    transports: &[Scheme],
    options: &StreamOptions,
    near: impl AsyncFnOnce(MultiRailStream) -> A + Send,
    far: impl AsyncFnOnce(MultiRailStream) -> B + Send,
) -> (A, B) {
    let (listening, found) = mpsc::channel();
    thread::scope(|scope| {
        let near = scope.spawn(move || {
            inside(lab, Side::A, async |rails, _| {
                let addresses: Vec<LaneAddress> = found.recv().expect("the peer listens");
                let stream = MultiRailStream::connect(&rails, &addresses, options).await.expect("the links are up");
                assert_eq!(stream.lanes_up(), lab.link_count(), "{:?}", stream.failed_lanes());
                near(stream).await
            })
        });
        let far = scope.spawn(move || {
            inside(lab, Side::B, async |rails, addresses| {
                let schemes = transports.iter().zip(addresses);
                let addresses: Vec<LaneAddress> =
                    schemes.map(|(scheme, socket)| LaneAddress { scheme: *scheme, socket }).collect();
                let listener = MultiRailListener::bind(&rails, &addresses, options).await;
                let listener = listener.expect("the addresses are there");
                listening.send(listener.local_addrs().to_vec()).expect("the peer waits for them");
                far(listener.accept().await.expect("the peer connects")).await
            })
        });
        (near.join().expect("the near end does not panic"), far.join().expect("the far end does not panic"))
    })
}

/// Runs one end with a rail on each of its interfaces; `end` gets their addresses too, with port 0.
fn inside<T>(lab: &LinkLab, side: Side, end: impl AsyncFnOnce(Rails, Vec<SocketAddr>) -> T) -> T {
    let _inside = lab.enter(side).expect("root may enter");
    let rails = rails(lab, side);
    let addresses =
        rails.iter().map(|rail| SocketAddr::new(rail.planned().address.expect("each has one"), 0)).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(in_time(end(rails, addresses)))
}

/// The machine's CPUs with the interfaces of one end. `/sys` shows those of the namespace that it
/// was mounted in, so they are described and not detected.
fn rails(lab: &LinkLab, side: Side) -> Rails {
    let machine = Topology::detect().expect("this machine can be read");
    let nic = |link| Nic {
        kind: NicKind::Virtual,
        up: Some(true),
        addresses: vec![InterfaceAddress { ip: lab.address(side, link), prefix_len: 24 }],
        ..Nic::named(lab.interface(side, link))
    };
    let count = machine.online_cpus().last().expect("a CPU is online").0 + 1;
    let described = Topology::synthetic(&format!("core:{count} pu:1"), (0..lab.link_count()).map(nic).collect());
    let described = described.expect("the description is sound").with_allowed(machine.allowed_cpus().clone());

    let names: Vec<&str> = (0..lab.link_count()).map(|link| lab.interface(side, link)).collect();
    let wish: RailRequest = names.join(",").parse().expect("names of interfaces are a wish");
    let plan = plan_rails(&described, &wish).expect("the interfaces are there");
    Rails::build(&plan).expect("rails need no privilege")
}

async fn in_time<T>(end: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, end).await.expect("it ends in time")
}

/// A bound against hanging, far above the time of every step here.
const PATIENCE: Duration = Duration::from_secs(90);
