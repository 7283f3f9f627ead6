//! Black holes, and what TCP says of a lab.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use rails_lab::{LinkLab, Shape, Side, Wire};

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_a_black_hole_takes_what_arrives_at_one_end_and_lets_it_through_again() {
    let lab = LinkLab::builder().link(Shape::mbit(100)).wire(Wire::mbit(100)).build().unwrap();
    for link in 0..lab.link_count() {
        let [a, b] = Side::BOTH.map(|side| {
            let _inside = lab.enter(side).unwrap();
            let socket = UdpSocket::bind((lab.address(side, link), 0)).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
            socket
        });
        let arrives = |from: &UdpSocket, to: &UdpSocket| {
            let address: SocketAddr = to.local_addr().unwrap();
            from.send_to(b"there", address).unwrap();
            to.recv(&mut [0; 16]).is_ok()
        };
        assert!(arrives(&a, &b) && arrives(&b, &a), "both ways at first");
        lab.set_black_hole(Side::B, link, true).unwrap();
        assert!(!arrives(&a, &b), "the black hole lets nothing in");
        assert!(arrives(&b, &a), "the other way is open");
        lab.set_black_hole(Side::B, link, false).unwrap();
        assert!(arrives(&a, &b), "it is over");
        assert!(lab.set_black_hole(Side::B, link, false).is_err(), "there is none to take away");
    }
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_links_prescribe_the_congestion_control_and_a_port_that_is_listened_on_is_seen() {
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
