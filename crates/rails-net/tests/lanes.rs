//! Lanes over the loopback interface: their local ends, their options and their counters.

use bytes::Bytes;
use nix::errno::Errno;
use rails_lab::{LinkLab, Sandbox, Shape, Side};
use rails_net::{
    BindEndError, ConnectError, Deviation, KeepAlive, Lane, ListenError, LocalEnd, TcpAcceptor, TcpLane, TcpState,
    TcpTransport, TransportDetails,
};
use rails_topo::{CpuId, DataSize};
use std::{
    error::Error,
    future::poll_fn,
    io::{self, IoSliceMut},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const OTHER_LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

async fn pair(connecting: &TcpTransport, listening: &TcpTransport) -> (TcpLane, TcpLane) {
    let listener: TcpAcceptor = listening.listen(LOOPBACK).expect("every machine has a loopback interface");
    let near = connecting.connect(listener.local_addr()).await.expect("the listener accepts");
    (near, listener.accept().await.expect("a peer has connected"))
}

/// The errno at the root of an error.
fn errno(error: &(dyn Error + 'static)) -> Option<i32> {
    let mut root = error;
    while let Some(source) = root.source() {
        root = source;
    }
    root.downcast_ref::<io::Error>()?.raw_os_error()
}

#[tokio::test]
async fn a_lane_begins_at_the_address_that_was_asked_for() {
    let from_other = TcpTransport::new().local(OTHER_LOOPBACK);
    let (near, far) = pair(&from_other, &TcpTransport::new()).await;
    assert_eq!(near.local_addr().ip(), OTHER_LOOPBACK);
    assert_eq!(near.local_addr(), far.peer_addr());
    assert_eq!(near.peer_addr(), far.local_addr());
    assert_eq!(near.interface().expect("interfaces can be listed"), None, "no interface lists 127.0.0.2");
    assert_eq!(far.interface().expect("interfaces can be listed").as_deref(), Some("lo"));
}

#[tokio::test]
async fn a_lane_bound_to_a_device_reads_back_as_bound() {
    let by_device = TcpTransport::new().local(LocalEnd::Device("lo".to_owned()));
    let (near, far) = pair(&by_device, &by_device).await;
    for lane in [near, far] {
        assert_eq!(lane.settings().expect("readable").device.as_deref(), Some("lo"));
        assert_eq!(lane.interface().expect("interfaces can be listed").as_deref(), Some("lo"));
    }
}

#[tokio::test]
async fn device_and_address_at_once() {
    let both = LocalEnd::DeviceAddress { device: "lo".to_owned(), address: OTHER_LOOPBACK };
    let by_both = TcpTransport::new().local(both);
    let (near, _far) = pair(&by_both, &TcpTransport::new()).await;
    assert_eq!(near.local_addr().ip(), OTHER_LOOPBACK);
    assert_eq!(near.settings().expect("readable").device.as_deref(), Some("lo"));
    let other_family = TcpTransport::new()
        .listen("[::1]:0".parse().expect("an address"))
        .expect("every machine has a loopback interface");
    let near = by_both.connect(other_family.local_addr()).await.expect("the listener accepts");
    assert_eq!(near.settings().expect("readable").device.as_deref(), Some("lo"));
    let error = by_both.listen(LOOPBACK).expect_err("the listener's address is another one");
    assert!(matches!(error, ListenError::LocalEnd(BindEndError::Mismatch { .. })), "{error}");
}

#[tokio::test]
async fn default_options_at_both_ends() {
    let (near, far) = pair(&TcpTransport::new(), &TcpTransport::new()).await;
    for lane in [near, far] {
        let settings = lane.settings().expect("readable");
        assert!(settings.no_delay);
        assert_eq!(settings.not_sent_lowat, Some(DataSize::bytes(1 << 20)));
        assert_eq!(settings.keepalive, Some(KeepAlive::default()));
        assert_eq!(settings.user_timeout, None, "it would end the lane of a peer that only does not read");
        // `None` if the kernel does not have the option.
        assert!(settings.rto_max.is_none_or(|longest| longest == Duration::from_secs(1)), "{settings:?}");
        assert_eq!(settings.device, None);
        assert!(settings.congestion.is_some());
        assert!(lane.deviations().is_empty());
    }
}

#[tokio::test]
async fn given_options_at_both_ends() {
    let keepalive = KeepAlive { idle: Duration::from_secs(7), interval: Duration::from_secs(3), probes: 2 };
    let size = DataSize::bytes(64 << 10);
    let options = TcpTransport::new()
        .congestion("reno")
        .no_delay(false)
        .send_buffer(size)
        .receive_buffer(size)
        .not_sent_lowat(None)
        .keepalive(keepalive)
        .user_timeout(Duration::from_millis(1234))
        .rto_max(Duration::from_millis(2400))
        .max_segment(DataSize::bytes(1000))
        .incoming_cpu(CpuId(0));
    let (near, far) = pair(&options, &options).await;
    for lane in [near, far] {
        let settings = lane.settings().expect("readable");
        assert_eq!(settings.congestion.as_deref(), Some("reno"));
        assert!(!settings.no_delay);
        assert_eq!(
            (settings.send_buffer, settings.receive_buffer),
            (Some(DataSize::bytes(128 << 10)), Some(DataSize::bytes(128 << 10)))
        );
        assert_eq!(settings.not_sent_lowat, None);
        assert_eq!(settings.keepalive, Some(keepalive));
        assert_eq!(settings.user_timeout, Some(Duration::from_millis(1234)));
        assert!(settings.rto_max.is_none_or(|longest| longest == Duration::from_millis(2400)), "{settings:?}");
        assert!(lane.deviations().is_empty(), "{:?}", lane.deviations());
        let stats = lane.detailed_stats().expect("readable");
        let Some(TransportDetails::Tcp(tcp)) = &stats.details else { panic!("{stats:?}") };
        assert!(tcp.segment_size_bytes <= 1000, "{tcp:?}");
    }
}

#[tokio::test]
async fn keepalive_and_user_timeout_can_be_left_off() {
    let options = TcpTransport::new().keepalive(None).user_timeout(Duration::from_secs(1)).user_timeout(None);
    let (near, _far) = pair(&options, &options).await;
    let settings = near.settings().expect("readable");
    assert_eq!((settings.keepalive, settings.user_timeout), (None, None));
}

#[tokio::test]
async fn a_buffer_that_the_kernel_cuts_is_reported() {
    let wanted = DataSize::bytes(1 << 40);
    let (near, far) = pair(&TcpTransport::new().send_buffer(wanted), &TcpTransport::new()).await;
    match near.deviations() {
        [Deviation::SendBuffer { wanted: reported, got }] => {
            assert_eq!(*reported, wanted);
            assert!(*got < wanted);
        }
        other => panic!("{other:?}"),
    }
    assert!(far.deviations().is_empty());
}

#[tokio::test]
async fn a_lane_counts_what_it_carries() {
    const BYTES: u64 = 3 << 20;
    let (mut near, mut far) = pair(&TcpTransport::new(), &TcpTransport::new()).await;
    let received = tokio::spawn(async move {
        let mut left = BYTES as usize;
        let mut buffer = vec![0; 64 << 10];
        while left > 0 {
            let room = left.min(buffer.len());
            left -= far.get_mut().read(&mut buffer[..room]).await.expect("the lane holds");
        }
        // One byte back: its segment acknowledges all bytes before it.
        far.get_mut().write_all(&[1]).await.expect("the lane holds");
        far
    });
    near.get_mut().write_all(&vec![7; BYTES as usize]).await.expect("the lane holds");
    let mut answer = [0];
    near.get_mut().read_exact(&mut answer).await.expect("the lane holds");
    let far = received.await.expect("the task does not panic");

    let (sent, got) = (near.stats().expect("readable"), far.stats().expect("readable"));
    assert_eq!((sent.state, got.state), (TcpState::Established, TcpState::Established));
    assert_eq!(got.bytes_received, Some(BYTES));
    // The byte back carries the acknowledgement of all bytes; the handshake of the connecting side
    // counts as one.
    assert_eq!(sent.bytes_acked, Some(BYTES + 1));
    assert_eq!(sent.bytes_sent.zip(sent.bytes_retransmitted).map(|(all, again)| all - again), Some(BYTES));
    assert_eq!(sent.not_sent_bytes, Some(0));
    assert_eq!(sent.bytes_received, Some(1));
    assert!(sent.rtt.is_some() && sent.rtt_variation.is_some() && sent.min_rtt.is_some(), "{sent:?}");
    assert!(sent.delivery_rate.is_some_and(|rate| rate.as_bits_per_second() > 0), "{sent:?}");
    assert!(sent.congestion_window_segments > 0 && sent.segment_size_bytes > 0, "{sent:?}");
    assert!(sent.congestion.is_some() && got.congestion.is_some());
}

/// Writes until the peer's host, whose process does not read, takes no more bytes.
async fn fill(near: &TcpLane) {
    let bytes = [Bytes::from(vec![7; 64 << 10])];
    let closes = async {
        while near.stats().expect("readable").peer_window_bytes.is_some_and(|bytes| bytes > 0) {
            let _ = near.try_submit(&[], &bytes);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), closes).await.expect("the peer's host takes no more bytes");
}

fn small_window() -> TcpTransport {
    TcpTransport::new().receive_buffer(DataSize::bytes(16 << 10))
}

#[tokio::test]
async fn the_window_of_a_peer_that_does_not_read() {
    let (near, _far) = pair(&TcpTransport::new(), &small_window()).await;
    assert!(near.stats().expect("readable").peer_window_bytes.is_none_or(|bytes| bytes > 0));
    fill(&near).await;
}

#[tokio::test]
#[ignore = "needs root: makes network namespaces"]
async fn netns_probes_of_a_host_that_is_gone() {
    let lab = LinkLab::builder().link(Shape::Unshaped).build().expect("labs can be built here");
    let listener = {
        let _inside = lab.enter(Side::B).expect("it exists");
        small_window().listen((lab.address(Side::B, 0), 0).into()).expect("the address is there")
    };
    let near = {
        let _inside = lab.enter(Side::A).expect("it exists");
        TcpTransport::new().connect(listener.local_addr()).await.expect("it listens")
    };
    let _far = listener.accept().await.expect("a peer has connected");
    fill(&near).await;
    let unanswered = || near.stats().expect("readable").unanswered_probes;
    let gone = async {
        // The host answers.
        for _ in 0..300 {
            assert!(unanswered() < 3);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        lab.set_black_hole(Side::B, 0, true).expect("it exists");
        while unanswered() < 3 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone).await.expect("the kernel probes once a second at least");
}

#[tokio::test]
async fn the_peers_closing_is_seen_and_counts_as_one_byte() {
    let (mut near, far) = pair(&TcpTransport::new(), &TcpTransport::new()).await;
    drop(far.into_stream());
    assert_eq!(near.get_mut().read(&mut [0]).await.expect("the end of the stream"), 0);
    let stats = near.stats().expect("readable");
    assert_eq!((stats.state, stats.bytes_received), (TcpState::CloseWait, Some(1)));
}

#[tokio::test]
async fn a_refused_port_is_refused() {
    // This socket holds a port without listening, so that no other program can listen there meanwhile.
    let silent = tokio::net::TcpSocket::new_v4().expect("a socket");
    silent.bind(LOOPBACK).expect("every machine has a loopback interface");
    let unused = silent.local_addr().expect("the socket is bound");
    let error = TcpTransport::new().local(OTHER_LOOPBACK).connect(unused).await.expect_err("nothing listens");
    assert!(matches!(&error, ConnectError::Refused { remote, .. } if *remote == unused), "{error}");
    assert_eq!(error.to_string(), format!("{unused} refused a connection from 127.0.0.2"));
    assert_eq!(errno(&error), Some(libc::ECONNREFUSED));
}

#[tokio::test]
async fn an_unanswered_call_times_out() {
    // A listener whose queue is full answers no further call.
    let full = TcpTransport::new().backlog(0).listen(LOOPBACK).expect("every machine has a loopback interface");
    let options = TcpTransport::new().connect_timeout(Duration::from_millis(50));
    let mut waiting = Vec::new();
    let error = loop {
        match options.connect(full.local_addr()).await {
            Ok(lane) if waiting.len() < 16 => waiting.push(lane),
            Ok(_) => panic!("a queue of length 0 took 16 connections"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ConnectError::TimedOut { .. }), "{error}");
    assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("no answer within 50ms"));
}

#[tokio::test]
async fn an_address_of_another_machine_cannot_be_begun_at() {
    // An address for documentation (RFC 5737), which no machine has.
    let foreign: IpAddr = [192, 0, 2, 1].into();
    let remote = SocketAddr::new(LOOPBACK.ip(), 9);
    let error =
        TcpTransport::new().local(foreign).connect(remote).await.expect_err("this machine does not have the address");
    assert!(
        matches!(&error, ConnectError::LocalEnd(BindEndError::Address { address, .. }) if address.ip() == foreign),
        "{error}"
    );
    assert_eq!(errno(&error), Some(libc::EADDRNOTAVAIL));
    let error =
        TcpTransport::new().listen(SocketAddr::new(foreign, 0)).expect_err("this machine does not have the address");
    assert!(matches!(error, ListenError::LocalEnd(BindEndError::Address { .. })), "{error}");
}

#[tokio::test]
async fn addresses_that_do_not_go_together_are_named() {
    let v6: IpAddr = std::net::Ipv6Addr::LOCALHOST.into();
    let remote = SocketAddr::new(LOOPBACK.ip(), 9);
    let error = TcpTransport::new().local(v6).connect(remote).await.expect_err("IPv6 to IPv4");
    assert!(matches!(error, ConnectError::LocalEnd(BindEndError::Mismatch { .. })), "{error}");
    let error = TcpTransport::new().local(OTHER_LOOPBACK).listen(LOOPBACK).expect_err("two addresses");
    assert!(matches!(error, ListenError::LocalEnd(BindEndError::Mismatch { .. })), "{error}");
}

#[tokio::test]
async fn a_wrong_device_is_an_error_and_not_another_device() {
    // The kernel by itself takes the empty name for "no device", and looks for the first 15 characters
    // of a long one.
    for device in ["no-such-device", "", "a-name-of-more-than-15"] {
        let options = TcpTransport::new().local(LocalEnd::Device(device.to_owned()));
        let error = options.connect(SocketAddr::new(LOOPBACK.ip(), 9)).await.expect_err("no such device");
        assert_eq!(error.to_string(), format!("cannot bind to device `{device}`"));
        assert!(matches!(error, ConnectError::LocalEnd(BindEndError::Device { .. })), "{error}");
        assert_eq!(errno(&error), Some(libc::ENODEV));
        let error = options.listen(LOOPBACK).expect_err("no such device");
        assert!(matches!(error, ListenError::LocalEnd(BindEndError::Device { .. })), "{error}");
    }
}

#[test]
fn lane_without_the_options_that_only_improve_it() {
    for errno in [Errno::EPERM, Errno::ENOSYS, Errno::ENOPROTOOPT, Errno::EINVAL] {
        let sandbox = Sandbox::new()
            .deny(errno, &["setsockopt"])
            .deny_where(errno, "getsockopt", 2, libc::TCP_CONGESTION)
            .deny_where(errno, "getsockopt", 2, libc::SO_SNDBUF)
            .deny_where(errno, "getsockopt", 2, libc::SO_RCVBUF);
        sandbox.rerun("lane_without_the_options_that_only_improve_it", || {
            tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
                let (mut near, mut far) = pair(&TcpTransport::new(), &TcpTransport::new()).await;
                near.get_mut().write_all(b"carried").await.unwrap();
                let mut arrived = [0; 7];
                far.get_mut().read_exact(&mut arrived).await.unwrap();
                assert_eq!(&arrived, b"carried");
                let settings = near.settings().unwrap();
                assert_eq!((settings.no_delay, settings.keepalive, settings.congestion), (false, None, None));
                assert_eq!(near.stats().unwrap().congestion, None);

                let asked = [
                    ("TCP_NOTSENT_LOWAT", TcpTransport::new().not_sent_lowat(DataSize::bytes(4096))),
                    ("TCP_NODELAY", TcpTransport::new().no_delay(false)),
                    ("SO_SNDBUF", TcpTransport::new().send_buffer(DataSize::bytes(1 << 20))),
                    ("TCP_MAXSEG", TcpTransport::new().max_segment(DataSize::bytes(1000))),
                    ("TCP_USER_TIMEOUT", TcpTransport::new().user_timeout(Duration::from_secs(9))),
                ];
                for (name, options) in asked {
                    let lenient = options.clone().leave_out_refused(true);
                    pair(&lenient, &lenient).await;
                    let refused = options.listen(LOOPBACK);
                    let is_named = matches!(&refused, Err(ListenError::Option(error)) if error.option == name);
                    assert!(is_named, "{name}: {refused:?}");
                }
            });
        });
    }
}

#[tokio::test]
async fn error_for_an_unknown_congestion_control() {
    let options = TcpTransport::new().congestion("no-such");
    let error = options.connect(SocketAddr::new(LOOPBACK.ip(), 9)).await.expect_err("no such algorithm");
    assert!(matches!(&error, ConnectError::Option(option) if option.option == "TCP_CONGESTION"), "{error}");
    assert_eq!(error.to_string(), "setsockopt failed for TCP_CONGESTION = `no-such`");
    assert!(matches!(options.listen(LOOPBACK), Err(ListenError::Option(_))));
}

#[tokio::test]
async fn refusal_of_zero_values() {
    let remote = SocketAddr::new(LOOPBACK.ip(), 9);
    let probes = |idle, probes| KeepAlive { idle, interval: Duration::from_secs(1), probes };
    for (options, option) in [
        (TcpTransport::new().user_timeout(Duration::ZERO), "TCP_USER_TIMEOUT"),
        (TcpTransport::new().not_sent_lowat(DataSize::bytes(0)), "TCP_NOTSENT_LOWAT"),
        (TcpTransport::new().max_segment(DataSize::bytes(0)), "TCP_MAXSEG"),
        (TcpTransport::new().max_segment(DataSize::bytes(50)), "TCP_MAXSEG"),
        (TcpTransport::new().keepalive(probes(Duration::ZERO, 1)), "TCP_KEEPIDLE"),
        (TcpTransport::new().keepalive(probes(Duration::from_secs(1), 0)), "TCP_KEEPCNT"),
    ] {
        match options.connect(remote).await.expect_err("the value is refused") {
            ConnectError::Option(error) => assert_eq!((error.option, errno(&error)), (option, Some(libc::EINVAL))),
            other => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn times_are_never_shorter_than_asked_for() {
    let keepalive = KeepAlive { idle: Duration::from_millis(6001), interval: Duration::from_millis(1), probes: 1 };
    let options = TcpTransport::new().keepalive(keepalive).user_timeout(Duration::from_micros(1001));
    let (near, _far) = pair(&options, &options).await;
    let settings = near.settings().expect("readable");
    let rounded = KeepAlive { idle: Duration::from_secs(7), interval: Duration::from_secs(1), probes: 1 };
    assert_eq!((settings.keepalive, settings.user_timeout), (Some(rounded), Some(Duration::from_millis(2))));
}

#[tokio::test]
async fn a_taken_port_is_an_error_unless_it_is_shared() {
    let shared = TcpTransport::new().reuse_port(true);
    let first = shared.listen(LOOPBACK).expect("every machine has a loopback interface");
    let second = shared.listen(first.local_addr()).expect("both share");
    assert_eq!(second.local_addr(), first.local_addr());
    let error = TcpTransport::new().listen(first.local_addr()).expect_err("this one does not share");
    assert_eq!(errno(&error), Some(libc::EADDRINUSE));
}

#[tokio::test]
async fn busy_poll_time_or_missing_privilege() {
    let options = TcpTransport::new().busy_poll(Duration::from_nanos(49_001));
    match options.listen(LOOPBACK) {
        Ok(listener) => {
            let near = options.connect(listener.local_addr()).await.expect("the listener accepts");
            let far = listener.accept().await.expect("a peer has connected");
            for lane in [&near, &far] {
                assert_eq!(lane.settings().expect("readable").busy_poll, Some(Duration::from_micros(50)), "rounded up");
            }
        }
        Err(ListenError::Option(error)) => {
            assert_eq!(errno(&error), Some(libc::EPERM));
            assert!(error.to_string().ends_with("takes CAP_NET_ADMIN"), "{error}");
        }
        Err(error) => panic!("{error}"),
    }
    let none = TcpTransport::new().busy_poll(Duration::ZERO).listen(LOOPBACK).expect_err("zero is not a time to poll");
    assert_eq!(errno(&none), Some(libc::EINVAL));
}

#[test]
fn arrivals_on_another_runtime() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (opening, taking) = (runtime(), runtime());
    let (near, far) = opening.block_on(pair(&TcpTransport::new(), &TcpTransport::new()));
    let receive = async || {
        let mut buffer = [0; 8];
        loop {
            poll_fn(|context| near.poll_receive_ready(context)).await.expect("the runtime runs");
            match near.try_receive(&mut [IoSliceMut::new(&mut buffer)]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                count => return buffer[..count.expect("the lane holds")].to_vec(),
            }
        }
    };
    let send = |bytes: &[u8]| assert_eq!(far.try_submit(bytes, &[]).expect("there is room"), bytes.len());
    send(b"before");
    let report = taking.enter();
    near.register_here().expect("the kernel has descriptors");
    drop((report, opening));
    taking.block_on(async {
        assert_eq!(receive().await, b"before");
        let (got, ()) = tokio::join!(receive(), async { send(b"after") });
        assert_eq!(got, b"after");
        assert!(near.settings().expect("the options are the socket's").no_delay);
        near.close_write().expect("the lane holds");
    });
}

/// Whether the lane is ready to receive before long.
async fn is_ready(lane: &TcpLane) -> bool {
    let ready = poll_fn(|context| lane.poll_receive_ready(context));
    match tokio::time::timeout(Duration::from_millis(100), ready).await {
        Ok(ready) => ready.map(|()| true).expect("the lane holds"),
        Err(_) => false,
    }
}

#[tokio::test]
async fn arrivals_below_the_low_water_mark_wait() {
    let (near, far) = pair(&TcpTransport::new(), &TcpTransport::new()).await;
    let most = near.settings().expect("readable").receive_buffer.unwrap().as_bytes() as usize / 8;
    let send = |bytes: usize| assert_eq!(far.try_submit(&vec![1; bytes], &[]).expect("there is room"), bytes);
    let receive = || near.try_receive(&mut [IoSliceMut::new(&mut vec![0; 1 << 20])]).expect("bytes have arrived");
    let set = |bytes: usize| near.set_receive_low_water(DataSize::bytes(bytes as u64)).expect("the kernel has it");
    // A mark beyond an eighth of the receive buffer is that eighth.
    for (wanted, mark) in [(1_000, 1_000), (most, most), (1 << 30, most)] {
        set(wanted);
        send(mark - 1);
        assert!(!is_ready(&near).await, "{wanted}");
        send(1);
        assert!(is_ready(&near).await, "{wanted}");
        assert_eq!(receive(), mark);
        // The bytes that have arrived are enough for the new mark.
        send(10);
        assert!(!is_ready(&near).await, "{wanted}");
        set(1);
        assert!(is_ready(&near).await, "{wanted}");
        assert_eq!(receive(), 10);
    }
    set(most);
    send(10);
    far.close_write().expect("the lane holds");
    assert!(is_ready(&near).await, "the peer's close ends the wait");
    assert_eq!(receive(), 10);
}

#[tokio::test]
async fn closing_after_the_peers_reset() {
    let (near, far) = pair(&TcpTransport::new(), &TcpTransport::new()).await;
    near.try_submit(b"never read", &[]).expect("there is room");
    assert!(is_ready(&far).await);
    drop(far);
    assert!(is_ready(&near).await, "the reset has arrived");
    let error = near.close_write().expect_err("the connection has ended");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}
