//! Emulated links delay, lose and limit as planned, and nothing else happens on them.

use crate::{PATIENCE, send_over, wait_until};
use rails_lab::{EmulatedLink, LabError, LinkLab, Shape, Side};
use std::{
    collections::BTreeSet,
    net::{SocketAddr, TcpStream, UdpSocket},
    thread,
    time::{Duration, Instant},
};

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_round_trip_of_an_emulated_link() {
    let lab = LinkLab::builder().emulated(EmulatedLink::mbit(500).rtt(RTT)).build().unwrap();
    let rtt = round_trip(&lab, 0);
    println!("{RTT:?} asked for, {rtt:?} measured");
    assert!(rtt >= RTT, "{rtt:?}");
    assert!(rtt < RTT * 2, "{rtt:?}");
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_emulated_link_that_loses_everything() {
    let lab = LinkLab::builder()
        .emulated(EmulatedLink::mbit(100).loss_from(Side::A, 1.0))
        .known_neighbours()
        .build()
        .unwrap();
    assert_eq!(numbers_received(&lab, 100), BTreeSet::new());
    let counters = lab.emulated_counters(0).unwrap();
    assert_eq!((counters.from_a.frames, counters.from_a.lost), (0, 100), "{counters:?}");
    assert_eq!(counters.unplanned_drops(), 0);
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_neighbours_ask_or_are_known() {
    for (is_known, asked) in [(false, 1), (true, 0)] {
        let builder = LinkLab::builder().emulated(EmulatedLink::mbit(100));
        let lab = if is_known { builder.known_neighbours() } else { builder }.build().unwrap();
        round_trip(&lab, 0);
        let counters = lab.emulated_counters(0).unwrap();
        let expected = TRIPS as u64 + asked;
        assert_eq!((counters.from_a.frames, counters.from_b.frames), (expected, expected), "{counters:?}");
    }
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_same_losses_of_one_seed_and_no_stray_frame() {
    let received = |seed| {
        let lab = LinkLab::builder()
            .emulated(EmulatedLink::mbit(500).loss(0.2).seed(seed))
            .known_neighbours()
            .build()
            .unwrap();
        let numbers = numbers_received(&lab, 500);
        let counters = lab.emulated_counters(0).unwrap();
        // Every frame is a datagram of ours, so the n-th frame is the n-th datagram in each run.
        assert_eq!(counters.from_a.frames, numbers.len() as u64, "{counters:?}");
        assert_eq!(counters.from_a.frames + counters.from_a.lost, 500, "{counters:?}");
        assert_eq!((counters.from_b.frames, counters.from_b.lost), (0, 0), "{counters:?}");
        assert_eq!(counters.unplanned_drops(), 0);
        numbers
    };
    let first = received(7);
    assert!((300..500).contains(&first.len()), "{} of 500", first.len());
    assert_eq!(first, received(7));
    assert_ne!(first, received(8));
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_a_full_queue_drops_what_it_was_told_to() {
    // 40 frames of 1000 bytes in 1 Mbit/s wait 8 ms each; the queue holds three besides the one being
    // sent.
    let lab =
        LinkLab::builder().emulated(EmulatedLink::mbit(1).queue_bytes(3 * 1000)).known_neighbours().build().unwrap();
    let (sender, _receiver) = sockets(&lab);
    for _ in 0..40 {
        sender.send(&[0; 1000 - HEADERS]).unwrap();
    }
    wait_until(|| {
        let line = lab.emulated_counters(0).unwrap().from_a;
        line.frames + line.queue_full == 40
    });
    let counters = lab.emulated_counters(0).unwrap();
    assert!(counters.from_a.frames >= 4 && counters.from_a.queue_full > 20, "{counters:?}");
    assert_eq!(counters.unplanned_drops(), 0);
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_both_kinds_of_links_in_one_lab() {
    let lab = LinkLab::builder()
        .link(Shape::mbit(400))
        .emulated(EmulatedLink::mbit(500).rtt(RTT))
        .link(Shape::Unshaped)
        .build()
        .unwrap();
    assert_eq!(lab.link_count(), 3);
    assert_eq!(lab.interface(Side::B, 1), "rail1b");
    for link in 0..3 {
        let before = lab.counters(Side::B, link).unwrap();
        assert_eq!(send_over(&lab, link, &vec![7; PAYLOAD]).len(), PAYLOAD);
        let after = lab.counters(Side::B, link).unwrap();
        assert!(after.rx_bytes - before.rx_bytes > PAYLOAD as u64, "link {link}: {before:?} {after:?}");
    }
    assert!(round_trip(&lab, 1) >= RTT);
    assert!(round_trip(&lab, 2) < RTT);
    let kinds = [
        (lab.set_rate(1, Shape::mbit(10)), "link 1 is an emulated link; set_rate is for the other kind"),
        (lab.set_emulated(0, EmulatedLink::mbit(10)), "link 0 is a veth pair; set_emulated is for the other kind"),
        (lab.emulated_counters(2).map(drop), "link 2 is a veth pair; emulated_counters is for the other kind"),
    ];
    for (answer, said) in kinds {
        assert_eq!(answer.unwrap_err().to_string(), said);
    }
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_emulated_link_changed_in_mid_stream() {
    let lab = LinkLab::builder().emulated(EmulatedLink::mbit(50)).build().unwrap();
    thread::scope(|scope| {
        let received = scope.spawn(|| send_over(&lab, 0, &vec![7; 8 * PAYLOAD]).len());
        wait_until(|| lab.emulated_counters(0).unwrap().from_a.bytes > PAYLOAD as u64);
        lab.set_emulated(0, EmulatedLink::mbit(5).rtt(RTT).loss(0.01)).unwrap();
        let before = lab.emulated_counters(0).unwrap();
        wait_until(|| lab.emulated_counters(0).unwrap().from_a.frames > before.from_a.frames + 50);
        assert!(!received.is_finished(), "at 5 Mbit/s it takes ten seconds more");
        lab.set_emulated(0, EmulatedLink::mbit(500)).unwrap();
        assert_eq!(received.join().unwrap(), 8 * PAYLOAD);
    });
    assert!(matches!(lab.set_emulated(0, EmulatedLink::mbit(0)), Err(LabError::BadEmulatedLink { .. })));
    assert!(round_trip(&lab, 0) < RTT);
    lab.set_emulated(0, EmulatedLink::mbit(500).rtt(RTT)).unwrap();
    assert!(round_trip(&lab, 0) >= RTT);
    assert_eq!(lab.emulated_counters(0).unwrap().unplanned_drops(), 0);
}

/// Every figure over the reference link rests on this: all losses are the link's own.
#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_reference_link_without_unplanned_drops() {
    let lab =
        LinkLab::builder().emulated(EmulatedLink::mbit(500).rtt(RTT).queue(Duration::from_millis(20))).build().unwrap();
    let began = Instant::now();
    assert_eq!(send_over(&lab, 0, &vec![7; 128 * PAYLOAD]).len(), 128 * PAYLOAD);
    let mbit = (128 * PAYLOAD * 8) as f64 / 1e6 / began.elapsed().as_secs_f64();
    let counters = lab.emulated_counters(0).unwrap();
    println!("{mbit:.0} Mbit/s, {counters:?}");
    assert!(mbit < 500.0, "{mbit}");
    assert_eq!(counters.unplanned_drops(), 0, "{counters:?}");
    assert_eq!((counters.from_a.lost, counters.from_b.lost), (0, 0));
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_emulated_link_down_and_up_again() {
    let lab = LinkLab::builder().emulated(EmulatedLink::mbit(100)).build().unwrap();
    let carrier = |side| {
        let file = format!("/sys/class/net/{}/carrier", lab.interface(side, 0));
        let output = lab.side(side).command("cat").arg(file).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(carrier(Side::A), "1");
    lab.set_link_up(Side::B, 0, false).unwrap();
    assert_eq!(carrier(Side::A), "0");
    let target = SocketAddr::new(lab.address(Side::B, 0), 9);
    {
        let _a = lab.enter(Side::A).unwrap();
        assert!(TcpStream::connect_timeout(&target, Duration::from_millis(200)).is_err());
    }
    lab.set_link_up(Side::B, 0, true).unwrap();
    assert_eq!(carrier(Side::A), "1");
    assert_eq!(send_over(&lab, 0, &vec![7; PAYLOAD]).len(), PAYLOAD);
    let counters = lab.emulated_counters(0).unwrap();
    assert_eq!(counters.unplanned_drops(), 0, "{counters:?}");
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_emulated_link_without_its_device() {
    let lab = LinkLab::builder().emulated(EmulatedLink::mbit(100)).build().unwrap();
    let deleted = lab.side(Side::A).command("ip").args(["link", "del", lab.interface(Side::A, 0)]).status().unwrap();
    assert!(deleted.success());
    wait_until(|| matches!(lab.emulated_counters(0), Err(LabError::EmulationEnded { link: 0, .. })));
    assert!(matches!(lab.set_emulated(0, EmulatedLink::mbit(1)), Err(LabError::EmulationEnded { .. })));
}

/// The shortest of some round trips of a datagram.
fn round_trip(lab: &LinkLab, link: usize) -> Duration {
    let bind = |side| {
        let _inside = lab.enter(side).unwrap();
        let socket = UdpSocket::bind((lab.address(side, link), 0)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    };
    let (near, far) = (bind(Side::A), bind(Side::B));
    near.connect(far.local_addr().unwrap()).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..TRIPS {
                let mut buffer = [0; 8];
                let (_, from) = far.recv_from(&mut buffer).unwrap();
                far.send_to(&buffer, from).unwrap();
            }
        });
        let trips = (0..TRIPS).map(|_| {
            let began = Instant::now();
            near.send(&[0; 8]).unwrap();
            near.recv(&mut [0; 8]).unwrap();
            began.elapsed()
        });
        trips.min().unwrap()
    })
}

/// Sends numbered datagrams from A to B over link 0; gives the numbers that arrived.
fn numbers_received(lab: &LinkLab, count: u32) -> BTreeSet<u32> {
    let (sender, receiver) = sockets(lab);
    let mut numbers = BTreeSet::new();
    for number in 0..count {
        sender.send(&number.to_le_bytes()).unwrap();
        // Few at a time, so that neither the queue nor the receiver's buffer has a say.
        if number % 50 == 49 || number + 1 == count {
            wait_until(|| {
                let line = lab.emulated_counters(0).unwrap().from_a;
                line.frames + line.lost == u64::from(number) + 1
            });
            let mut buffer = [0; 4];
            while receiver.recv(&mut buffer).is_ok() {
                numbers.insert(u32::from_le_bytes(buffer));
            }
        }
    }
    numbers
}

/// A connected sender in A, and a receiver in B that does not wait.
fn sockets(lab: &LinkLab) -> (UdpSocket, UdpSocket) {
    let receiver = {
        let _b = lab.enter(Side::B).unwrap();
        UdpSocket::bind((lab.address(Side::B, 0), 0)).unwrap()
    };
    receiver.set_nonblocking(true).unwrap();
    let _a = lab.enter(Side::A).unwrap();
    let sender = UdpSocket::bind((lab.address(Side::A, 0), 0)).unwrap();
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    (sender, receiver)
}

const RTT: Duration = Duration::from_millis(19);
const TRIPS: usize = 10;
const PAYLOAD: usize = 1 << 20;
/// Of Ethernet, IPv4 and UDP.
const HEADERS: usize = 14 + 20 + 8;
