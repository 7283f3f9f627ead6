//! Options of UDP sockets: set, read back, seen by the receiver, and refused.

use crate::{address_of, pair, receive, send, v4, v6};
use nix::{
    errno::Errno,
    sys::socket::{
        ControlMessageOwned, MsgFlags, SockaddrStorage, cmsg_space, recvmsg, setsockopt,
        sockopt::{Ipv4RecvTtl, Ipv6RecvHopLimit},
    },
};
use rails_lab::Sandbox;
use rails_net::{BindEndError, Deviation, Ecn, LocalEnd, Pacing, PacingUse, PathMtuDiscovery, UdpError, UdpOptions};
use rails_topo::DataSize;
use std::{
    io::{self, IoSlice, IoSliceMut},
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    num::NonZeroU8,
    os::fd::AsRawFd,
    time::Instant,
};

const OTHER_LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

#[tokio::test]
async fn the_receiver_sees_the_codepoint() {
    use Ecn::{Capable0, Capable1, CongestionExperienced, NotCapable};
    for address in [v4(), v6()] {
        for ecn in [NotCapable, Capable1, Capable0, CongestionExperienced] {
            let (near, far) = pair(&UdpOptions::new().ecn(ecn), &UdpOptions::new(), address);
            send(&near, &[IoSlice::new(b"marked")], None).await.expect("there is room");
            let mut buffer = [0; 10];
            let received = receive(&far, &mut [IoSliceMut::new(&mut buffer)]).await.expect("it has arrived");
            assert_eq!(received.ecn, Some(ecn));
            assert_eq!(near.settings().expect("readable").ecn, ecn);
        }
    }
}

/// Only IPv4: a socket that may not be kept to IPv6 is none that was asked for.
#[test]
fn socket_without_the_options_that_only_improve_it() {
    for errno in [Errno::EPERM, Errno::ENOSYS, Errno::ENOPROTOOPT, Errno::EINVAL] {
        let sandbox = Sandbox::new()
            .deny(errno, &["setsockopt"])
            .deny_where(errno, "getsockopt", 2, libc::SO_SNDBUF)
            .deny_where(errno, "getsockopt", 2, libc::SO_RCVBUF);
        sandbox.rerun("options::socket_without_the_options_that_only_improve_it", || {
            tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
                let options = UdpOptions::new().receive_buffer(DataSize::bytes(1 << 20));
                let (near, far) = pair(&options, &options, v4());
                send(&near, &[IoSlice::new(b"carried")], None).await.expect("there is room");
                let mut buffer = [0; 10];
                let received = receive(&far, &mut [IoSliceMut::new(&mut buffer)]).await.expect("it has arrived");
                assert_eq!(received.ecn, None);
                assert_eq!(&buffer[..7], b"carried");
                for asked in
                    [UdpOptions::new().ecn(Ecn::Capable0), UdpOptions::new().path_mtu_discovery(PathMtuDiscovery::Want)]
                {
                    let refused = asked.bind(v4());
                    assert!(matches!(refused, Err(UdpError::Option(_))), "{refused:?}");
                }
            });
        });
    }
}

#[tokio::test]
async fn the_receiver_sees_the_hop_limit() {
    for address in [v4(), v6()] {
        let far = UdpSocket::bind(address).expect("loopback is there");
        match address {
            SocketAddr::V4(_) => setsockopt(&far, Ipv4RecvTtl, &true),
            SocketAddr::V6(_) => setsockopt(&far, Ipv6RecvHopLimit, &true),
        }
        .expect("no privilege is needed");
        let near = UdpOptions::new().hop_limit(NonZeroU8::new(17));
        let near = near.connect(far.local_addr().expect("it has one")).expect("a route leads there");
        assert_eq!(near.settings().expect("readable").hop_limit, 17);
        send(&near, &[IoSlice::new(b"short-lived")], None).await.expect("there is room");
        let (mut buffer, mut control) = ([0; 100], vec![0; cmsg_space::<i32>()]);
        let mut buffers = [IoSliceMut::new(&mut buffer)];
        let message = recvmsg::<SockaddrStorage>(far.as_raw_fd(), &mut buffers, Some(&mut control), MsgFlags::empty());
        let limit = message.expect("it arrives").cmsgs().expect("there is room").find_map(|control| match control {
            ControlMessageOwned::Ipv4Ttl(limit) | ControlMessageOwned::Ipv6HopLimit(limit) => Some(limit),
            _ => None,
        });
        assert_eq!(limit, Some(17));
    }
}

#[tokio::test]
async fn settings_are_the_kernels() {
    for address in [v4(), v6()] {
        let (near, far) = pair(&UdpOptions::new(), &UdpOptions::new().coalescing(false), address);
        let settings = near.settings().expect("readable");
        assert!(settings.segmentation && settings.coalescing == Some(true));
        assert_eq!(settings.path_mtu_discovery, PathMtuDiscovery::Probe);
        assert_eq!((settings.device, settings.pacing), (None, PacingUse::Off));
        let route = settings.route.expect("it is connected");
        assert_eq!(route.interface, "lo");
        let headers = if address.is_ipv4() { 28 } else { 48 };
        let most = (route.mtu.as_bytes() - headers).min(65_507);
        assert_eq!(route.max_payload, DataSize::bytes(most));
        let settings = far.settings().expect("readable");
        assert_eq!((settings.coalescing, settings.route), (Some(false), None));
        assert!(near.deviations().is_empty() && far.deviations().is_empty());
        for mode in [PathMtuDiscovery::Dont, PathMtuDiscovery::Want, PathMtuDiscovery::Do] {
            let socket = UdpOptions::new().path_mtu_discovery(mode).bind(address).expect("loopback is there");
            assert_eq!(socket.settings().expect("readable").path_mtu_discovery, mode);
        }
    }
}

#[tokio::test]
async fn settings_and_figures_serialize_with_their_units() {
    let (near, _far) = pair(&UdpOptions::new(), &UdpOptions::new(), v4());
    let settings = serde_json::to_value(near.settings().expect("readable")).expect("it serializes");
    assert_eq!(settings["route"]["interface"], "lo");
    assert_eq!(settings["pacing"]["state"], "off");
    assert!(settings["receive_buffer_bytes"].as_u64() > Some(0) && settings["route"]["mtu_bytes"].as_u64() > Some(0));
    let stats = serde_json::to_value(near.stats()).expect("it serializes");
    assert_eq!((&stats["datagrams_sent"], &stats["segmentation_refused"]), (&0.into(), &0.into()));
}

#[tokio::test]
async fn a_buffer_that_the_kernel_cuts_is_a_deviation() {
    let wanted = DataSize::bytes(1 << 40);
    let socket = UdpOptions::new().send_buffer(wanted).receive_buffer(wanted).bind(v4()).expect("loopback is there");
    let settings = socket.settings().expect("readable");
    let half = |size: DataSize| DataSize::bytes(size.as_bytes() / 2);
    let (send, receive) = (half(settings.send_buffer), half(settings.receive_buffer));
    let expected = [Deviation::SendBuffer { wanted, got: send }, Deviation::ReceiveBuffer { wanted, got: receive }];
    assert_eq!(socket.deviations(), expected);
}

#[tokio::test]
async fn the_local_end_is_the_one_that_was_asked_for() {
    let far = UdpOptions::new().bind(v4()).expect("loopback is there");
    let by_device = UdpOptions::new().local(LocalEnd::Device("lo".to_owned()));
    let near = by_device.connect(address_of(&far)).expect("a route leads there");
    assert_eq!(near.settings().expect("readable").device.as_deref(), Some("lo"));
    let unconnected = by_device.bind(v4()).expect("loopback is there");
    assert_eq!(unconnected.route().expect("readable").expect("the device is known").interface, "lo");
    let from_other = UdpOptions::new().local(OTHER_LOOPBACK).connect(address_of(&far)).expect("a route leads there");
    assert_eq!(address_of(&from_other).ip(), OTHER_LOOPBACK);
    assert_eq!(from_other.route().expect("readable").expect("it is connected").interface, "lo");
}

#[tokio::test]
async fn a_wrong_local_end_is_refused() {
    let options = UdpOptions::new();
    let no_device = options.clone().local(LocalEnd::Device("nosuch0".to_owned()));
    for refused in [no_device.bind(v4()), no_device.connect(SocketAddr::new(OTHER_LOOPBACK, 9))] {
        assert!(matches!(refused, Err(UdpError::LocalEnd(BindEndError::Device { .. }))), "{refused:?}");
    }
    let elsewhere: IpAddr = [192, 0, 2, 1].into();
    let from_elsewhere = options.clone().local(elsewhere).connect(SocketAddr::new(OTHER_LOOPBACK, 9));
    for refused in [options.bind((elsewhere, 0).into()), from_elsewhere] {
        assert!(matches!(refused, Err(UdpError::LocalEnd(BindEndError::Address { .. }))), "{refused:?}");
    }
    let socket = options.bind(v4()).expect("loopback is there");
    let two = options.clone().local(OTHER_LOOPBACK);
    let mixed = [two.bind(v4()), two.connect(v6()), socket.connect(v6()).map(|()| socket)];
    for refused in mixed {
        assert!(matches!(refused, Err(UdpError::LocalEnd(BindEndError::Mismatch { .. }))), "{refused:?}");
    }
    // The kernel refuses a broadcast address to a socket without SO_BROADCAST, for all routes.
    let refused = options.connect("255.255.255.255:9".parse().expect("an address"));
    assert!(matches!(refused, Err(UdpError::Connect { .. })), "{refused:?}");
}

#[tokio::test]
async fn a_wrong_destination_is_an_error_and_sends_nothing() {
    let (near, far) = pair(&UdpOptions::new(), &UdpOptions::new(), v4());
    send(&near, &[IoSlice::new(b"x")], None).await.expect("there is room");
    receive(&far, &mut [IoSliceMut::new(&mut [0])]).await.expect("it has arrived");
    let burst = [IoSlice::new(b"onetwo")];
    let no_peer = far.try_send(&burst, crate::segment(3), None, None).expect_err("it is not connected");
    assert_eq!(no_peer.raw_os_error(), Some(libc::EDESTADDRREQ));
    for to in [v6(), ([127, 0, 0, 1], 0).into()] {
        assert!(near.try_send(&burst, crate::segment(3), Some(to), None).is_err(), "{to}");
    }
    assert!(near.settings().expect("readable").segmentation, "the errors were not about segmentation");
    assert_eq!(near.stats().datagrams_sent, 1);
}

#[tokio::test]
async fn times_are_refused_without_a_pacing_qdisc() {
    let paced = UdpOptions::new().pacing(Pacing::Auto);
    let (near, far) = pair(&paced, &paced, v4());
    let pacing = near.pacing();
    assert!(matches!(&pacing, PacingUse::NoQdisc { interface, .. } if interface == "lo"), "{pacing}");
    assert_eq!(far.pacing(), PacingUse::NoRoute);
    far.connect(address_of(&near)).expect("a route leads there");
    assert_eq!(far.pacing(), pacing);
    let refused = near.try_send(&[IoSlice::new(b"later")], None, None, Some(Instant::now()));
    assert_eq!(refused.expect_err("it would leave at once").kind(), io::ErrorKind::Unsupported);
}
