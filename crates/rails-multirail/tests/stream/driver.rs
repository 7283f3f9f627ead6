//! The threads that drive the lanes.

use crate::{
    loopback::rails,
    util::{echoed, options, pair, pattern},
};
use rails_bind::thread::Tid;
use rails_multirail::{Driver, RailRequest, Rails, StreamStats, plan_rails};
use rails_topo::Topology;

/// Moves bytes both ways over two lanes, and gives the statistics of both ends.
async fn driven(rails: &Rails, driver: Driver) -> [StreamStats; 2] {
    let (near, far) = pair(rails, &options().driver(driver)).await;
    echoed(near, far, &pattern(3 << 20)).await
}

fn threads(rails: &Rails) -> Vec<Tid> {
    rails.iter().map(|rail| rail.runtime().placement().tid).collect()
}

#[tokio::test]
async fn each_lane_is_driven_by_its_own_rails_thread() {
    let rails = rails(2);
    let own = threads(&rails);
    assert_ne!(own[0], own[1]);
    for end in driven(&rails, Driver::PerRail).await {
        assert_eq!(end.lanes.len(), 2);
        for lane in end.lanes {
            assert_eq!(lane.thread, own[lane.rail.0], "{lane:?}");
        }
    }
}

#[tokio::test]
async fn rails_on_one_cpu_share_the_first_ones_thread() {
    let topology = Topology::detect().expect("this machine can be read");
    let mut plan = plan_rails(&topology, &RailRequest::loopback(3)).expect("loopback rails can be planned");
    plan.rails[2].cpu = plan.rails[0].cpu;
    let rails = Rails::build(&plan).expect("loopback rails need no privilege");
    let own = threads(&rails);
    let second = if plan.rails[1].cpu == plan.rails[0].cpu { own[0] } else { own[1] };
    for end in driven(&rails, Driver::default()).await {
        let threads: Vec<Tid> = end.lanes.iter().map(|lane| lane.thread).collect();
        assert_eq!(threads, [own[0], second, own[0]]);
    }
}

#[tokio::test]
async fn single_driver_uses_the_first_rails_thread() {
    let rails = rails(2);
    let first = threads(&rails)[0];
    for end in driven(&rails, Driver::Single).await {
        assert_eq!(end.lanes.len(), 2);
        for (lane, address) in end.lanes.iter().zip(["127.0.0.1", "127.0.0.2"]) {
            assert_eq!(lane.thread, first, "{lane:?}");
            assert_eq!(lane.local.ip().to_string(), address, "the socket is its rail's all the same");
        }
        assert_ne!(end.lanes[0].rail, end.lanes[1].rail);
    }
}
