//! Rails through the facade, as a user has them: detected, planned, built, used, read back and
//! dropped.

mod celeritas;
mod claimed;
mod moved;
mod pinned;
mod queues;
mod serve;
mod stopped;
mod streams;
mod tasks;

use rails::{
    multirail::{RailRequest, Rails, plan_rails},
    topo::Topology,
};

/// Rails on 127.0.0.1, 127.0.0.2 and so on.
fn loopback(count: usize) -> (Topology, Rails) {
    let topology = Topology::detect().expect("this machine can be read");
    let plan = plan_rails(&topology, &RailRequest::loopback(count)).expect("loopback rails can be planned");
    let rails = Rails::build(&plan).expect("loopback rails need no privilege");
    (topology, rails)
}
