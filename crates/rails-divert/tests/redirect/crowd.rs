//! Many connections.

use crate::{
    ground::{Ground, NETWORK, net, run},
    parts::CROWD,
};
use rails_divert::redirect::{AsyncRedirect, Redirect};
use std::{io, process::Stdio, thread, time::Duration};
use tokio::{io::AsyncWriteExt, time::timeout};

#[tokio::test]
#[ignore = "needs root, network namespaces and cgroup2"]
async fn netns_destinations_of_a_thousand_connections() {
    let ground = Ground::new();
    let networks = [net("192.0.2.0/24"), net("2001:db8::/32")];
    let redirect = Redirect::install(&ground.cgroup.folder, &networks, &[]).unwrap();
    let redirect = AsyncRedirect::new(redirect).unwrap();
    let mut crowd = ground.cgroup.part("crowd");
    let crowd = crowd.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    for _ in 0..CROWD {
        let accepted = timeout(DEADLINE, redirect.accept()).await.expect("all connections arrive");
        let (mut stream, destination) = accepted.unwrap();
        stream.write_all(format!("through {destination}\n").as_bytes()).await.unwrap();
    }
    let output = crowd.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(redirect.try_accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
}

/// One destination is in the networks before and after each swap, so each connect(2) to it must be
/// diverted.
#[test]
#[ignore = "needs root, network namespaces and cgroup2"]
fn netns_networks_are_swapped_without_a_gap() {
    let ground = Ground::new();
    let first = [net("192.0.2.0/24"), net("198.51.100.0/24")];
    let second = [net("192.0.2.1/32"), net("2001:db8::/32")];
    let redirect = ground.answered(&first);
    thread::scope(|scope| {
        let clients: Vec<_> =
            (0..2).map(|_| scope.spawn(|| run(&mut ground.cgroup.part("one after the other")))).collect();
        let mut swaps = 0;
        while clients.iter().any(|client| !client.is_finished()) {
            redirect.set_networks(if swaps % 2 == 0 { &second } else { &first }).unwrap();
            swaps += 1;
        }
        assert!(swaps > 10, "{swaps} swaps");
    });

    let answer = |address: &str| {
        ground.cgroup.python(&format!(
            "
try: print(heard(create_connection(('{address}', 80))))
except OSError as error: print(errno.errorcode[error.errno])
"
        ))
    };
    redirect.set_networks(&first).unwrap();
    assert_eq!(answer("198.51.100.9"), ["through 198.51.100.9:80"]);
    assert_eq!(answer("2001:db8::9"), ["ENETUNREACH"]);
    redirect.set_networks(&second).unwrap();
    assert_eq!(answer("198.51.100.9"), ["ENETUNREACH"]);
    assert_eq!(answer("2001:db8::9"), ["through [2001:db8::9]:80"]);
    assert_eq!(answer(NETWORK), [format!("through {NETWORK}:80")]);

    // Networks that cannot be leave the former ones.
    redirect.set_networks(&[net("127.0.0.0/8")]).unwrap_err();
    assert_eq!(answer(NETWORK), [format!("through {NETWORK}:80")]);
    redirect.set_networks(&[]).unwrap();
    assert_eq!(answer(NETWORK), ["ENETUNREACH"]);
}

const DEADLINE: Duration = Duration::from_secs(120);
