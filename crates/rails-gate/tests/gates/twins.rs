//! Two gates that dial each other.

use crate::two_gates::{carried, connect, echo, gate, is_echoed, until};
use rails_gate::{Door, DoorKind, Gate};
use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::Path,
    time::Duration,
};
use tempfile::TempDir;
use tokio::{net::TcpStream, task::JoinHandle};

/// Addresses for two gates, which have to know each other's before they start.
///
/// The loopback address is of this process, so that no other one takes a port of it meanwhile. The
/// other tests of this process bind 127.0.0.1 alone.
fn free_addresses() -> [SocketAddr; 2] {
    let [.., high, middle, low] = std::process::id().to_be_bytes();
    let address = Ipv4Addr::new(127, 128 | high, middle, low.max(1));
    let listeners = [(), ()].map(|()| TcpListener::bind((address, 0)).unwrap());
    listeners.map(|listener| listener.local_addr().unwrap())
}

/// The policy of one of two gates, by its own address and the other's.
fn policy(folder: &Path, own: SocketAddr, other: SocketAddr) -> String {
    format!(
        "listen = ['{own}']\nsocket = '{}/{own}'\n[[peer]]\nname = 'other'\nsecret_file = 's'\n\
         dial = ['{other}']\nnetworks = ['127.0.0.0/8']\nreach = ['127.0.0.0/8:*']\nanswer_within = '10s'\n",
        folder.display()
    )
}

fn door(folder: &TempDir, gate: SocketAddr) -> Door {
    Door::new(DoorKind::Forward, folder.path().join(gate.to_string())).alive_within(Duration::from_secs(20))
}

/// Opens connections through a gate until it has some; each that is open carries bytes.
fn open_some(door: Door, destination: SocketAddr) -> JoinHandle<Vec<TcpStream>> {
    tokio::spawn(async move {
        let mut open = Vec::new();
        while open.len() < 20 {
            if let Ok(mut program) = connect(&door, destination).await {
                assert!(is_echoed(&mut program).await, "a connection that is open is carried");
                open.push(program);
            } else {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        open
    })
}

fn sessions(gates: &[&Gate]) -> Vec<usize> {
    gates.iter().map(|gate| gate.status().peers[0].sessions).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_session_stays_and_no_connection_is_lost() {
    let destination = echo().await;
    for _ in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = free_addresses();
        let (first, second) =
            tokio::join!(gate(policy(folder.path(), one, other)), gate(policy(folder.path(), other, one)));
        let opened = [one, other].map(|gate| open_some(door(&folder, gate), destination));
        let mut open = Vec::new();
        for opened in opened {
            open.extend(opened.await.unwrap());
        }
        for program in &mut open {
            assert!(is_echoed(program).await, "the connection goes on");
        }
        drop(open);
        until(&[&first, &second], || sessions(&[&first, &second]) == [1, 1]).await;
        // One is started anew.
        drop(second);
        until(&[&first], || sessions(&[&first]) == [0]).await;
        let second = gate(policy(folder.path(), other, one)).await;
        let opened = [one, other].map(|gate| open_some(door(&folder, gate), destination));
        for opened in opened {
            opened.await.unwrap();
        }
        until(&[&first, &second], || sessions(&[&first, &second]) == [1, 1]).await;
        assert!(is_echoed(&mut carried(&door(&folder, one), destination).await).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_that_dials_itself_has_no_session() {
    let folder = tempfile::tempdir().unwrap();
    let [address, _] = free_addresses();
    let alone = gate(policy(folder.path(), address, address)).await;
    // One end knows it first, and the other is told that there is no session.
    let why = || alone.status().peers[0].last_error.clone().unwrap_or_default();
    until(&[&alone], || why().contains("this gate itself")).await;
    assert_eq!(alone.status().peers[0].sessions, 0);
}
