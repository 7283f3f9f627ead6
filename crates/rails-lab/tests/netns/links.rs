//! Links carry traffic, keep to their rate, and can be taken down.

use crate::send_over;
use rails_lab::{LabError, LinkLab, Shape, Side, SystemError};
use std::{
    net::{SocketAddr, TcpStream, UdpSocket},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_each_link_carries_its_own_traffic() {
    let lab = LinkLab::builder().link(Shape::Unshaped).link(Shape::mbit(100)).build().unwrap();
    for link in 0..lab.link_count() {
        let other_before = lab.counters(Side::B, 1 - link).unwrap();
        let before = lab.counters(Side::B, link).unwrap();
        let received = send_over(&lab, link, &[7; PAYLOAD]);
        assert_eq!(received, vec![7; PAYLOAD]);
        let after = lab.counters(Side::B, link).unwrap();
        assert!(after.rx_bytes - before.rx_bytes > PAYLOAD as u64, "{before:?} {after:?}");
        assert!(after.tx_bytes > before.tx_bytes);
        assert_eq!(lab.counters(Side::B, 1 - link).unwrap(), other_before);
    }
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_a_program_sees_the_interfaces_of_its_side() {
    let lab = LinkLab::builder().link(Shape::Unshaped).link(Shape::Unshaped).build().unwrap();
    for side in Side::BOTH {
        let output = lab.side(side).command("ls").arg("/sys/class/net").output().unwrap();
        let mut expected = vec!["lo", lab.interface(side, 0), lab.interface(side, 1)];
        expected.sort_unstable();
        // A kernel with tunnels built in gives every namespace a few devices of its own.
        let listed = String::from_utf8(output.stdout).unwrap();
        let ours: Vec<_> = listed.lines().filter(|name| *name == "lo" || name.starts_with("rail")).collect();
        assert_eq!(ours, expected);
    }
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_the_guard_brings_the_thread_back() {
    let lab = LinkLab::builder().link(Shape::Unshaped).build().unwrap();
    let own = || std::fs::read_link("/proc/thread-self/ns/net").unwrap();
    let home = own();
    {
        let _a = lab.enter(Side::A).unwrap();
        let inside_a = own();
        assert_ne!(inside_a, home);
        let inherited = thread::spawn(own).join().unwrap();
        assert_eq!(inherited, inside_a);
        {
            let _b = lab.enter(Side::B).unwrap();
            assert_ne!(own(), inside_a);
        }
        assert_eq!(own(), inside_a);
    }
    assert_eq!(own(), home);
}

/// The one timed test of the lab: a rate that does not hold would make every figure measured here
/// worthless. It counts the arrivals while datagrams are sent faster than the rate, so that no
/// congestion control has a say.
#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_a_shaped_link_keeps_to_its_rate() {
    let lab = LinkLab::builder().link(Shape::mbit(200)).build().unwrap();
    assert_rate(&lab, 200.0);
    lab.set_rate(0, Shape::mbit(50)).unwrap();
    assert_rate(&lab, 50.0);
    lab.set_rate(0, Shape::Unshaped).unwrap();
    let unshaped = measure_mbit(&lab);
    println!("unshaped, {unshaped:.1} Mbit/s measured");
    assert!(unshaped > 150.0, "the link is still shaped: {unshaped:.1} Mbit/s");
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_link_down_and_up_again() {
    let lab = LinkLab::builder().link(Shape::Unshaped).link(Shape::Unshaped).build().unwrap();
    lab.set_link_up(Side::B, 0, false).unwrap();
    let target = SocketAddr::new(lab.address(Side::B, 0), 9);
    {
        let _a = lab.enter(Side::A).unwrap();
        assert!(TcpStream::connect_timeout(&target, Duration::from_millis(200)).is_err());
    }
    assert_eq!(send_over(&lab, 1, b"by the other link"), b"by the other link");
    lab.set_link_up(Side::B, 0, true).unwrap();
    assert_eq!(send_over(&lab, 0, b"back"), b"back");
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_a_bridge_hides_that_the_peer_is_down() {
    let lab = LinkLab::builder().link(Shape::Unshaped).bridged(Shape::mbit(100)).build().unwrap();
    assert_eq!(send_over(&lab, 1, b"there"), b"there");
    let carrier = |side, link| {
        let list = ["-o", "link", "show", "dev", lab.interface(side, link)];
        let output = lab.side(side).command("ip").args(list).output().unwrap();
        String::from_utf8(output.stdout).unwrap().contains("LOWER_UP")
    };
    for side in Side::BOTH {
        for (link, is_bridged) in [(0, false), (1, true)] {
            lab.set_link_up(side, link, false).unwrap();
            assert!(!carrier(side, link));
            assert_eq!(carrier(side.other(), link), is_bridged);
            lab.set_link_up(side, link, true).unwrap();
        }
    }
    assert_eq!(send_over(&lab, 1, b"back"), b"back");
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_refused_change_with_its_command() {
    let lab = LinkLab::builder().link(Shape::Unshaped).build().unwrap();
    let deleted = lab.side(Side::A).command("ip").args(["link", "del", lab.interface(Side::A, 0)]).status().unwrap();
    assert!(deleted.success());
    let error = lab.set_rate(0, Shape::mbit(100)).unwrap_err();
    let LabError::System(SystemError::Command { command, stderr, status }) = &error else { panic!("{error}") };
    assert!(command.contains("qdisc replace dev rail0a root tbf rate 100mbit"), "{command}");
    assert!(stderr.contains("rail0a"), "{stderr}");
    assert!(!status.success());
    assert!(matches!(lab.counters(Side::A, 0), Err(LabError::Counters { .. })));
}

/// No measurement is above the rate, and one reaches it: a sender that is kept from its processor
/// sends less, which is not the link's fault.
fn assert_rate(lab: &LinkLab, mbit: f64) {
    for _ in 0..ROUNDS {
        let measured = measure_mbit(lab);
        println!("{mbit} Mbit/s asked for, {measured:.1} measured");
        assert!(measured < 1.15 * mbit, "{mbit} Mbit/s asked for, {measured:.1} measured");
        if measured > 0.85 * mbit {
            return;
        }
    }
    panic!("{mbit} Mbit/s asked for, and never reached");
}

/// The rate at which B's interface receives while A sends as fast as it can.
fn measure_mbit(lab: &LinkLab) -> f64 {
    let socket = {
        let _a = lab.enter(Side::A).unwrap();
        UdpSocket::bind((lab.address(Side::A, 0), 0)).unwrap()
    };
    // Any port: the one before may be held a moment longer by a child that another test has just
    // forked.
    let sink = {
        let _b = lab.enter(Side::B).unwrap();
        UdpSocket::bind((lab.address(Side::B, 0), 0)).unwrap()
    };
    let target = sink.local_addr().unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                // A full queue answers with ENOBUFS, as intended here.
                let _ = socket.send_to(&[0; DATAGRAM], target);
            }
        });
        // The bucket starts full; the burst it lets through at once is not the rate.
        thread::sleep(Duration::from_millis(100));
        let (start, before) = (Instant::now(), lab.counters(Side::B, 0));
        thread::sleep(Duration::from_secs(1));
        let (elapsed, after) = (start.elapsed(), lab.counters(Side::B, 0));
        stop.store(true, Ordering::Relaxed);
        let bytes = after.unwrap().rx_bytes - before.unwrap().rx_bytes;
        bytes as f64 * 8.0 / 1e6 / elapsed.as_secs_f64()
    })
}

/// Of a rate that is not reached.
const ROUNDS: usize = 8;
const PAYLOAD: usize = 1 << 20;
const DATAGRAM: usize = 1400;
