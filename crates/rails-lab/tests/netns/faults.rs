//! Black holes, and TCP's counters of a lab.

use crate::{PATIENCE, wait_until};
use rails_lab::{EmulatedLink, LinkLab, Shape, Side};
use std::net::{SocketAddr, UdpSocket};

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_black_hole_at_one_end_and_its_end() {
    let lab = LinkLab::builder().link(Shape::mbit(100)).emulated(EmulatedLink::mbit(100)).build().unwrap();
    for link in 0..lab.link_count() {
        let [a, b] = Side::BOTH.map(|side| {
            let _inside = lab.enter(side).unwrap();
            let socket = UdpSocket::bind((lab.address(side, link), 0)).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket
        });
        let send = |from: &UdpSocket, to: &UdpSocket, what: &str| {
            let address: SocketAddr = to.local_addr().unwrap();
            from.send_to(what.as_bytes(), address).unwrap();
        };
        // Gives the next datagram.
        let next = |to: &UdpSocket| {
            let mut buffer = [0; 16];
            let length = to.recv(&mut buffer).unwrap();
            String::from_utf8_lossy(&buffer[..length]).into_owned()
        };
        send(&a, &b, "before");
        send(&b, &a, "back");
        assert_eq!((next(&b), next(&a)), ("before".to_owned(), "back".to_owned()), "both ways at first");
        lab.set_black_hole(Side::B, link, true).unwrap();
        let arrived = || lab.counters(Side::B, link).unwrap().rx_packets;
        let before = arrived();
        send(&a, &b, "into the hole");
        // The datagram has come to the end that swallows it.
        wait_until(|| arrived() > before);
        send(&b, &a, "back");
        assert_eq!(next(&a), "back", "the other way is open");
        lab.set_black_hole(Side::B, link, false).unwrap();
        send(&a, &b, "after");
        assert_eq!(next(&b), "after", "the black hole lets nothing in, and it is over");
        assert!(lab.set_black_hole(Side::B, link, false).is_err(), "there is none to take away");
    }
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_congestion_control_and_listening_ports() {
    let lab = LinkLab::builder().link(Shape::Unshaped).build().unwrap();
    lab.set_congestion_control("reno").unwrap();
    lab.set_congestion_control("cubic").unwrap();
    assert!(lab.set_congestion_control("no-such").is_err());
    for side in Side::BOTH {
        let inside = lab.enter(side).unwrap();
        let listener = std::net::TcpListener::bind((lab.address(side, 0), 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(inside);
        let routes = lab.side(side).command("ip").args(["route", "show"]).output().unwrap();
        let routes = String::from_utf8(routes.stdout).unwrap();
        assert_eq!(routes.lines().count(), 1, "{routes}");
        assert!(routes.contains("congctl cubic"), "{routes}");
        assert!(lab.is_listening(side, port).unwrap());
        assert!(!lab.is_listening(side.other(), port).unwrap());
        assert_eq!(lab.transport_counters(side).unwrap().retransmitted_segments, 0);
    }
}
