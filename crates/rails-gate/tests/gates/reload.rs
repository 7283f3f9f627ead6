//! Policies that change while connections are carried.

use crate::two_gates::{TwoGates, connect, echo, is_echoed, settings, until};
use rails_gate::{Plain, Refusal};
use rails_multirail::{PeerSecrets, Secret, Security};
use std::time::Duration;

const ALL: &str = "'127.0.0.0/8:*'";

fn far_policy(reach: &str) -> String {
    format!("listen = ['127.0.0.1:0', '127.0.0.2:0']\n[[peer]]\nname = 'near'\nsecret_file = 's'\nreach = [{reach}]\n")
}

/// A policy of the near gate that does not name the far one.
fn without(gates: &TwoGates) -> String {
    format!(
        "socket = '{}'\n[[peer]]\nname = 'nobody'\nsecret_file = 'n'\ndial = ['127.0.0.1:1']\n",
        gates.socket().display()
    )
}

fn near_policy(gates: &TwoGates) -> String {
    let dial: Vec<_> = gates.far.local_addrs().iter().map(|address| format!("'{}'", address.socket)).collect();
    format!(
        "socket = '{}'\n[[peer]]\nname = 'far'\nsecret_file = 's'\ndial = [{}]\nnetworks = ['127.0.0.0/8']\nanswer_within = '10s'\n",
        gates.socket().display(),
        dial.join(", ")
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_is_removed_keeps_its_connections_and_may_come_back() {
    let gates = TwoGates::start(ALL).await;
    let destination = echo().await;
    let mut carried = gates.connect(destination).await;
    let reload = |policy: &str| {
        let (policy, security) = settings(policy);
        gates.near.reload(policy, security).unwrap();
    };
    let without = without(&gates);
    reload(&without);
    assert!(is_echoed(&mut carried).await, "the connection goes on");
    assert_eq!(connect(&gates.door(), destination).await.err(), Some(Plain::NotRouted));
    assert!(is_echoed(&mut carried).await);
    // Back while the old session is there: it is used on.
    reload(&near_policy(&gates));
    let mut second = gates.connect(destination).await;
    assert!(is_echoed(&mut second).await && is_echoed(&mut carried).await);
    assert_eq!((gates.near.status().peers[0].sessions, gates.far.status().peers[0].sessions), (1, 1));
    // Gone again: the session ends with its last connection.
    reload(&without);
    drop(carried);
    gates.until(|gates| gates.far.status().peers[0].connections == 1).await;
    assert!(is_echoed(&mut second).await);
    drop(second);
    gates.until(|gates| gates.near.status().peers.len() == 1 && gates.far.status().peers[0].sessions == 0).await;
    // Back when all has ended: it is dialled anew.
    reload(&near_policy(&gates));
    gates.until(|gates| gates.near.status().peers[0].sessions == 1).await;
    assert!(is_echoed(&mut gates.connect(destination).await).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_accepting_gate_lets_go_of_a_peer_and_takes_it_back() {
    let gates = TwoGates::start(ALL).await;
    let destination = echo().await;
    let mut carried = gates.connect(destination).await;
    let (nobody, _) = settings(&far_policy(ALL).replace("'near'", "'nobody'"));
    let (policy, security) = settings(&far_policy(ALL));
    gates.far.reload(nobody, security.clone()).unwrap();
    let refused = connect(&gates.door(), destination).await.err();
    assert_eq!(refused, Some(Plain::Refused(Refusal::NotAllowed)));
    assert!(is_echoed(&mut carried).await, "the connection goes on");
    gates.far.reload(policy, security).unwrap();
    assert!(is_echoed(&mut gates.connect(destination).await).await && is_echoed(&mut carried).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reach_that_narrows_holds_for_new_connections() {
    let gates = TwoGates::start(ALL).await;
    let (kept, closed) = (echo().await, echo().await);
    let mut carried = gates.connect(closed).await;
    let (policy, security) = settings(&far_policy(&format!("'{kept}'")));
    gates.far.reload(policy, security).unwrap();
    let refused = connect(&gates.door(), closed).await.err();
    assert_eq!(refused, Some(Plain::Refused(Refusal::NotAllowed)));
    assert!(is_echoed(&mut carried).await && is_echoed(&mut gates.connect(kept).await).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_that_change_hold_for_new_sessions() {
    let gates = TwoGates::start(ALL).await;
    let destination = echo().await;
    let mut carried = gates.connect(destination).await;
    let new = || Secret::pre_shared(b"another secret of many bytes").unwrap();
    let (policy, mut security) = settings(&far_policy(ALL));
    security.listen = Some(Security::psk_of(PeerSecrets::new([("near".to_owned(), new())]).unwrap()));
    gates.far.reload(policy, security).unwrap();
    assert!(is_echoed(&mut carried).await && is_echoed(&mut gates.connect(destination).await).await);
    // A session with the secret of before does not begin any more.
    let (policy, security) = settings(&without(&gates));
    gates.near.reload(policy, security).unwrap();
    drop(carried);
    gates.until(|gates| gates.far.status().peers[0].sessions == 0).await;
    let (policy, security) = settings(&near_policy(&gates));
    gates.near.reload(policy, security).unwrap();
    gates.until(|gates| gates.near.status().peers[0].last_error.is_some()).await;
    assert_eq!(gates.near.status().peers[0].sessions, 0);
    // With the new one it does.
    let (policy, mut security) = settings(&near_policy(&gates));
    security.dial = security.dial.into_keys().map(|name| (name, Security::psk(new()))).collect();
    gates.near.reload(policy, security).unwrap();
    until(&[&gates.near], || gates.near.status().peers[0].sessions == 1).await;
    assert!(is_echoed(&mut gates.connect(destination).await).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_that_come_and_go_while_connections_are_opened_lose_none() {
    let gates = TwoGates::start(ALL).await;
    let destination = echo().await;
    let with = near_policy(&gates);
    let without = without(&gates);
    let mut through = Vec::new();
    for round in 0..40 {
        let (policy, security) = settings(if round % 2 == 0 { &without } else { &with });
        gates.near.reload(policy, security).unwrap();
        loop {
            match connect(&gates.door(), destination).await {
                Ok(program) => through.push(program),
                // There is a session soon.
                Err(Plain::NoSession) if round % 4 == 1 => {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    continue;
                }
                Err(_) => {}
            }
            break;
        }
        tokio::time::sleep(Duration::from_millis(round % 7)).await;
    }
    assert!(through.len() >= 10);
    for program in &mut through {
        assert!(is_echoed(program).await);
    }
    gates.until(|gates| gates.near.status().peers[0].sessions == 1).await;
}
