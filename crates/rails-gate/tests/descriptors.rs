//! A gate whose process is out of descriptors. The limit is of the whole process, so this file has
//! one test.

#[path = "gates/raw_door.rs"]
mod raw_door;
#[path = "gates/two_gates.rs"]
#[allow(dead_code, reason = "the other tests of gates use the rest")]
mod two_gates;
use rustix::process::{Resource, getrlimit, setrlimit};
use std::{fs::File, os::fd::OwnedFd, time::Duration};
use tokio::time::{sleep, timeout};
use two_gates::{TwoGates, echo, is_echoed, pair};

/// Descriptors until there are no more.
fn take_all() -> Vec<OwnedFd> {
    std::iter::from_fn(|| File::open("/dev/null").ok().map(OwnedFd::from)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_without_descriptors_loses_no_connection_and_goes_on_when_there_are_some() {
    let gates = TwoGates::start("'127.0.0.0/8:*'").await;
    let (destination, socket) = (echo().await, gates.socket());
    let mut carried = gates.connect(destination).await;
    // The gate has its descriptor, and the service has accepted it, before there are no more.
    assert!(is_echoed(&mut carried).await);
    let before = getrlimit(Resource::Nofile);
    let mut small = before;
    small.current = Some(300);
    setrlimit(Resource::Nofile, small).unwrap();
    let (mut plain, mut through, mut open) = (0, 0, Vec::new());
    // The door is of this process, and needs some itself. The programs' connections are there before.
    for free in 0..14 {
        let (program, handed_over) = pair().await;
        let handed_over = [handed_over.into_std().unwrap().into()];
        let mut taken = take_all();
        taken.truncate(taken.len() - free);
        // The door keeps its own descriptors, as one in another process does.
        // A gate that has no descriptor for it does not hear it.
        let asked = timeout(Duration::from_millis(300), raw_door::through(&socket, destination));
        let door = asked.await.unwrap_or(None);
        if let Some(door) = &door {
            through += 1;
            raw_door::hand_over(door, &handed_over);
            open.push(program);
        } else {
            plain += 1;
        }
        assert!(is_echoed(&mut carried).await, "connections go on");
        // What was handed over while there was no room for it waits until there is some.
        sleep(Duration::from_millis(20)).await;
        drop((handed_over, taken));
        let carried = || gates.near.status().connections.iter().map(|counts| counts.opened).sum::<u64>();
        gates.until(|_| carried() == 1 + through).await;
        drop(door);
    }
    for program in &mut open {
        assert!(is_echoed(program).await, "what is through is carried");
    }
    assert!(plain > 0 && through > 0, "{plain} went plain, {through} through");
    setrlimit(Resource::Nofile, before).unwrap();
    assert!(is_echoed(&mut gates.connect(destination).await).await);
}
