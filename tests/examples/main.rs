//! Every example gives its documented result. This test compiles them in and calls them, so that it
//! can assert their return values. `tests/netns` asserts that both lanes of a stream carry their
//! part, over links with a rate: on loopback the rail that gets the CPU may carry all bytes.
#![allow(clippy::duplicate_mod, reason = "each example of far arrays has the planet as a module of its own")]

#[allow(dead_code, reason = "an example's `main` is for those who run it")]
#[path = "../../examples/follow_the_interrupt.rs"]
mod follow_the_interrupt;
#[allow(dead_code, reason = "an example's `main` is for those who run it")]
#[path = "../../examples/grpc_over_rails.rs"]
mod grpc_over_rails;
#[allow(dead_code, reason = "an example's `main` is for those who run it")]
#[path = "../../examples/h3_over_rails.rs"]
mod h3_over_rails;
#[allow(dead_code, reason = "an example's `main` is for those who run it")]
#[path = "../../examples/hyper_over_rails.rs"]
mod hyper_over_rails;
#[allow(dead_code, reason = "an example's `main` is for those who run it")]
#[path = "../../examples/messages.rs"]
mod messages;
#[allow(dead_code, reason = "an example's `main` is for those who run it")]
#[path = "../../examples/metrics.rs"]
mod metrics;
#[allow(dead_code, reason = "an example's `main` is for those who run it")]
#[path = "../../examples/netvideo.rs"]
mod netvideo;
#[allow(dead_code, reason = "an example's `main` is for those who run it")]
#[path = "../../examples/ozone.rs"]
mod ozone;
#[allow(dead_code, reason = "an example's `main` is for those who run it")]
#[path = "../../examples/pin_one_rail.rs"]
mod pin_one_rail;
#[allow(dead_code, reason = "an example's `main` is for those who run it")]
#[path = "../../examples/placed_three_ways.rs"]
mod placed_three_ways;
#[allow(dead_code, reason = "an example's `main` is for those who run it")]
#[path = "../../examples/send_a_folder.rs"]
mod send_a_folder;
#[allow(dead_code, reason = "an example's `main` is for those who run it")]
#[path = "../../examples/serve_on_rails.rs"]
mod serve_on_rails;
#[allow(dead_code, reason = "an example's `main` is for those who run it")]
#[path = "../../examples/show_topology.rs"]
mod show_topology;
#[allow(dead_code, reason = "an example's `main` is for those who run it")]
#[path = "../../examples/stripe_a_file.rs"]
mod stripe_a_file;
#[allow(dead_code, reason = "an example's `main` is for those who run it")]
#[path = "../../examples/surface_temperature.rs"]
mod surface_temperature;
#[allow(dead_code, reason = "an example's `main` is for those who run it")]
#[path = "../../examples/tls.rs"]
mod tls;
#[allow(dead_code, reason = "an example's `main` is for those who run it")]
#[path = "../../examples/wind_shear.rs"]
mod wind_shear;

use rails::{
    bind::thread,
    multirail::{RailId, pipeline, planner},
    topo::{Bandwidth, CpuSet, Interrupt, Nic, NodeId, Topology},
};
use rails_lambdaram::Site;
use std::{fs, io::Cursor, net::TcpListener};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};

#[test]
fn show_topology_says_what_is_known_and_what_is_not() {
    let known = Nic {
        pci: Some("0000:3b:00.0".parse().unwrap()),
        node: Some(NodeId(1)),
        speed: Some(Bandwidth::mbps(100_000)),
        interrupts: vec![Interrupt { number: 101, name: None, affinity: None, effective: Some("2".parse().unwrap()) }],
        ..Nic::named("eth0")
    };
    let machine = Topology::synthetic("package:2 numa:1 core:2 pu:1", vec![known, Nic::named("eth1")]).unwrap();
    assert_eq!(
        show_topology::describe(&machine),
        "\
package 0: CPUs 0-1
package 1: CPUs 2-3
node 0: 1 GiB of memory, CPUs 0-1
node 1: 1 GiB of memory, CPUs 2-3
4 cores: CPUs 0 | 1 | 2 | 3
this process may use CPUs 0-3 of 0-3
eth0: a device, speed 100 Gbit/s
  PCI address 0000:3b:00.0, node 1
  beside CPUs 2-3
  interrupt 101 is served on CPUs 2
eth1: a device, speed unknown
  PCI address unknown, node unknown
  beside unknown CPUs: a rail on it may be far from it
  unknown interrupts: nobody can say whether a rail's thread is beside them
"
    );
}

#[test]
fn show_topology_shows_this_machine() {
    let topology = Topology::detect().unwrap();
    let text = show_topology::describe(&topology);
    assert!(topology.nics().iter().all(|nic| text.contains(&format!("{}: ", nic.name))), "{text}");
    assert!(text.contains(&format!("{} cores: ", topology.cores().len())), "{text}");
}

#[tokio::test]
async fn pin_one_rail_runs_on_the_cpu_that_was_planned() {
    let pinned = pin_one_rail::run("loopback:1").await.unwrap();
    assert_eq!(pinned.sum, 1100);
    assert_eq!(pinned.cpus_now, CpuSet::single(pinned.planned));
    assert_eq!(pinned.placement.cpu, pinned.planned);
    assert!(pinned.placement.cpus.as_ref().is_ok_and(|cpus| cpus.is_applied()));
    assert!(!pinned.affinity.thread.holds(), "loopback has no interrupt to be beside: {}", pinned.affinity);
}

#[tokio::test]
async fn pin_one_rail_on_known_and_unknown_interfaces() {
    let pinned = pin_one_rail::run("lo").await.unwrap();
    assert_eq!(pinned.cpus_now, CpuSet::single(pinned.planned));
    let error = pin_one_rail::run("nosuch0").await.err().expect("there is no such interface");
    assert!(matches!(error.downcast_ref(), Some(planner::PlanError::NoSuchDevice { name, .. }) if name == "nosuch0"));
    assert!(pin_one_rail::run("a/b").await.is_err());
}

#[tokio::test]
async fn stripe_a_file_with_counts_by_lane() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.lock");
    let striped = stripe_a_file::run(tokio::fs::File::open(path).await.unwrap()).await.unwrap();
    assert_eq!(striped.digest, blake3::hash(&fs::read(path).unwrap()));

    let large = stripe_a_file::made_up(24 << 20);
    let digest = blake3::hash(&large);
    let striped = stripe_a_file::run(Cursor::new(large)).await.unwrap();
    assert_eq!(striped.digest, digest);
    assert_eq!(striped.stats.bytes_read, 24 << 20);
    let mut lanes = striped.stats.lanes;
    lanes.sort_by_key(|lane| lane.lane);
    assert_eq!(lanes.iter().map(|lane| lane.rail).collect::<Vec<_>>(), [RailId(0), RailId(1)]);
    assert!(lanes.iter().all(|lane| lane.lost.is_none()), "{lanes:?}");
    let received: u64 = lanes.iter().map(|lane| lane.bytes_received).sum();
    assert_eq!(received, striped.stats.bytes_read + striped.stats.bytes_duplicated);
}

#[tokio::test]
async fn stripe_a_file_takes_an_empty_file() {
    let striped = stripe_a_file::run(tokio::io::empty()).await.unwrap();
    assert_eq!(striped.digest, blake3::hash(b""));
    assert_eq!(striped.stats.bytes_read, 0);
}

#[tokio::test]
async fn send_a_folder_with_several_files_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let source = send_a_folder::made_up(folder.path(), 6, 2 << 20).unwrap();
    let into = folder.path().join("received");
    let sent = send_a_folder::run(&source, &into).await.unwrap();
    assert_eq!((sent.summary.files.len(), sent.summary.bytes_sent), (6, 12 << 20));
    assert!((1..=6).contains(&sent.at_a_time), "{}", sent.at_a_time);
    for file in 0..6 {
        let name = format!("{file}.raw");
        assert!(fs::read(source.join(&name)).unwrap() == fs::read(into.join("photos").join(&name)).unwrap());
    }
}

#[tokio::test]
async fn grpc_over_rails_asks_two_services() {
    assert_eq!(grpc_over_rails::run().await.unwrap(), ["weather: Serving", "tides: not known"]);
}

#[tokio::test]
async fn hyper_over_rails_on_one_stream_of_two_lanes() {
    let done = hyper_over_rails::run().await.unwrap();
    assert_eq!(
        done.answers,
        [
            "GET /: 200 OK, 16 bytes",
            "POST /echo: 200 OK, 16777216 bytes",
            "GET /nowhere: 404 Not Found, 21 bytes",
            "GET /: 200 OK, 16 bytes",
        ]
    );
    let bytes = |count: fn(&rails::multirail::LaneStats) -> u64| done.stats.lanes.iter().map(count).sum::<u64>();
    assert!(bytes(|lane| lane.bytes_sent) > 16 << 20);
    assert!(bytes(|lane| lane.bytes_received) > 16 << 20);
    assert!(done.stats.lanes.len() == 2 && done.stats.lanes.iter().all(|lane| lane.lost.is_none()));
}

#[tokio::test]
async fn h3_over_rails_has_a_stream_for_each_request() {
    let done = h3_over_rails::run().await.unwrap();
    assert_eq!(
        done.answers,
        [
            "stream 0, GET /: 200 OK, 16 bytes",
            "stream 4, POST /echo: 200 OK, 16777216 bytes",
            "stream 8, GET /nowhere: 404 Not Found, 0 bytes",
            "stream 12, GET /: 200 OK, 16 bytes",
        ]
    );
    let bytes = |count: fn(&rails::multirail::LaneStats) -> u64| done.stats.lanes.iter().map(count).sum::<u64>();
    assert!(bytes(|lane| lane.bytes_sent) > 16 << 20);
    assert!(bytes(|lane| lane.bytes_received) > 16 << 20);
    assert!(done.stats.lanes.len() == 2 && done.stats.lanes.iter().all(|lane| lane.lost.is_none()));
}

#[tokio::test]
async fn tls_greets_the_client_that_it_trusts() {
    let said = tls::run().await.unwrap();
    let (greeting, from) = said.split_once('\n').unwrap();
    let pin = greeting.strip_prefix("welcome, ").unwrap();
    assert!(pin.len() == 64 && from.len() == 5 + 64 && !from.ends_with(pin), "{said}");
}

#[tokio::test]
async fn metrics_are_served_while_a_stream_runs() {
    let page = metrics::run("127.0.0.1:0".parse().unwrap(), std::time::Duration::from_millis(300)).await.unwrap();
    let lanes =
        |name: &str| page.lines().filter(|line| line.starts_with(&format!("{name}{{process=\"example\""))).count();
    assert_eq!((lanes("rails_lane_bytes_total"), lanes("rails_lane_rtt_seconds")), (4, 2), "{page}");
    assert_eq!((lanes("rails_rail_tasks"), lanes("rails_rail_switches_total")), (2, 4), "{page}");
    assert!(page.ends_with("# EOF\n"));
}

#[tokio::test]
async fn a_service_on_rails_says_which_rail_served() {
    let service = serve_on_rails::run("loopback:2", "127.0.0.1:0").await.unwrap();
    let mut connection = TcpStream::connect(service.local_addr()).await.unwrap();
    connection.write_all(b"GET / HTTP/1.1\r\nHost: rails\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.unwrap();
    let (head, page) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200") && page.starts_with("rail ") && page.contains(" on CPU "), "{answer}");
    service.stop().await;
}

/// The list for the reader is complete, and in an order that the reader can follow.
#[test]
fn the_list_of_examples_names_each_of_them() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    let list = fs::read_to_string(format!("{folder}/README.md")).unwrap();
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let examples: Vec<String> = files.filter(|name| name.ends_with(".rs")).collect();
    assert_eq!(examples.len(), 17, "an example without a test: {examples:?}");
    for example in examples {
        assert!(list.contains(&format!("({example})")), "{example} is not listed");
        let text = fs::read_to_string(format!("{folder}/{example}")).unwrap();
        let name = example.trim_end_matches(".rs");
        let header = text.lines().take_while(|line| line.starts_with("//!")).collect::<String>();
        assert!(header.contains("Run: `cargo run") && header.contains(name), "{example} does not say how it is run");
        assert!(header.contains("Expected:"), "{example} does not say what to expect");
    }
}

#[test]
fn follow_the_interrupt_without_an_interrupt() {
    // This runs on a thread of its own, which stays bound until the result is dropped.
    std::thread::spawn(|| {
        let (_listener, stream) = follow_the_interrupt::to_myself().unwrap();
        let seen = follow_the_interrupt::run(&stream).unwrap();
        assert_eq!(seen.interrupts.unwrap_err().to_string(), "no interrupt of lo is known");
        assert_eq!(seen.thread.outcome().got().len(), 1, "the CPU that the packet came out on");
        assert!(seen.report.interrupt.to_string().starts_with("unknown: lo raises no interrupts"), "{}", seen.report);
    })
    .join()
    .unwrap();
}

#[test]
fn placed_three_ways_counts_the_same_bytes() {
    let unbound = thread::current_affinity().unwrap();
    let compared = placed_three_ways::run(None, 2, 3).unwrap();
    for (client, sent) in &compared.0 {
        let received: Vec<u64> = sent.iter().map(|sent| sent.received).collect();
        assert_eq!(received, [3 * placed_three_ways::BLOCK_BYTES as u64; 2], "{client}");
    }
    let [unplaced, by_hand, by_rail] = compared.0.each_ref().map(|(_, sent)| &sent[1].thread);
    assert_eq!(unplaced.may_run_on, unbound);
    assert_eq!(by_hand.may_run_on.len(), 1, "the CPU that the packets come out on");
    assert_eq!((by_rail.may_run_on.len(), by_rail.name.as_str()), (1, "rail-0"));
    assert_eq!(thread::current_affinity().unwrap(), unbound, "the placement by hand was not undone");

    let text = compared.to_string();
    let table: Vec<&str> = text.lines().take(4).collect();
    assert!(table[0].starts_with("client") && table[0].ends_with("Gbit/s"), "{text}");
    for (row, client) in table[1..].iter().zip(["unplaced", "by hand", "by rail"]) {
        assert!(row.starts_with(client) && row.contains("unknown") && row.contains(" 48 MiB "), "{text}");
    }
    assert_eq!(text.matches("interrupt affine: unknown: lo raises no interrupts").count(), 3, "{text}");
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_long_placed_three_ways_beside_a_nic() {
    let cable = rails_lab::guest::Cable::plug(1).unwrap();
    // The kernel unmaps pages for a while to see which CPU touches them, and does not say then where
    // they lie.
    fs::write("/proc/sys/kernel/numa_balancing", "0").unwrap();
    rails_lab::guest::drop_caches().unwrap();
    let (namespace, address) = (cable.namespace().clone(), format!("{}:7575", cable.far_address()));
    let (listening, is_listening) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _inside = namespace.enter().unwrap();
        let listener = TcpListener::bind(address).unwrap();
        listening.send(listener.local_addr().unwrap()).unwrap();
        listener.incoming().take(3).try_for_each(|socket| placed_three_ways::receive(socket?)).unwrap();
    });
    let compared = placed_three_ways::run(Some(is_listening.recv().unwrap()), 1, 2).unwrap();
    let [unplaced, by_hand, by_rail] = compared.0.each_ref().map(|(_, sent)| &sent[0].affinity);
    assert!(unplaced.thread.is_broken() && unplaced.memory.is_broken(), "{unplaced}");
    assert!(by_hand.holds(), "{by_hand}");
    assert!(by_rail.holds(), "{by_rail}");
}

#[test]
fn placed_three_ways_refuses_bad_arguments() {
    let wish = |arguments: &[&str]| {
        let arguments: Vec<String> = arguments.iter().copied().map(str::to_owned).collect();
        placed_three_ways::wish(&arguments)
    };
    assert!(matches!(wish(&[]), Ok(placed_three_ways::Wish::Send(None))));
    assert!(matches!(wish(&["10.0.1.2:7575"]), Ok(placed_three_ways::Wish::Send(Some(_)))));
    assert!(matches!(wish(&["receive", "[::]:7575"]), Ok(placed_three_ways::Wish::Receive(_))));
    for bad in [&["10.0.1.2"][..], &["receive"], &["receive", "7575"], &["10.0.1.2:7575", "8"], &["a", "b", "c"]] {
        assert!(wish(bad).unwrap_err().to_string().contains("usage: placed_three_ways"), "{bad:?}");
    }
}

#[test]
fn placed_three_ways_without_a_receiver() {
    // The port is taken, and no socket listens on it.
    let taken = TcpSocket::new_v4().unwrap();
    taken.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let nobody = taken.local_addr().unwrap();
    let error = placed_three_ways::run(Some(nobody), 1, 1).err().expect("nobody listens there");
    assert_eq!(error.to_string(), format!("unplaced: cannot send to {nobody}"));
}

#[tokio::test]
async fn netvideo_shows_every_frame_and_frees_every_buffer() {
    video_is_shown(false).await;
}

#[tokio::test]
#[ignore = "needs a CUDA device"]
async fn cuda_netvideo_shows_every_frame_and_frees_buffers() {
    video_is_shown(true).await;
}

async fn video_is_shown(cuda: bool) {
    const FRAME_BYTES: usize = 1 << 20;
    // Two frames and a half, of which the half is not sent.
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let mut pixels = stripe_a_file::made_up(5 << 19);
    std::io::Write::write_all(&mut file, &pixels).unwrap();
    let display = tempfile::NamedTempFile::new().unwrap();
    for (most, file, count) in [(20, None, 20), (9, Some(file.path().to_owned()), 2)] {
        let video = netvideo::Video { file, cuda, display: Some(display.path().to_owned()) };
        let ([sender, _], latency) = netvideo::run(video, most, FRAME_BYTES).await.unwrap();
        assert_eq!(latency.len(), count);
        let handed_over: Vec<u64> = sender.stages.iter().map(|stage| stage.items_out).collect();
        assert_eq!(handed_over, [count as u64, count as u64, 0]);
        let buffers = sender.stages[0].buffers.as_ref().unwrap();
        assert_eq!(buffers.free, buffers.count);
    }
    pixels.truncate(2 * FRAME_BYTES);
    pipeline::device::swap_red_and_blue(&mut pixels);
    assert!(fs::read(display.path()).unwrap() == pixels, "the display has other pixels");
}

#[tokio::test]
async fn messages_answered_beside_large_ones() {
    let exchanged = messages::run(4, 5).await.unwrap();
    assert_eq!((exchanged.large, exchanged.bytes, exchanged.answers_took.len()), (4, 16 << 20, 5));
}

#[tokio::test]
async fn wind_shear_is_that_of_the_file() {
    let planet = wind_shear::planet::Planet::serve().await.unwrap();
    let site = Site::open(&planet.address()).await.unwrap();
    let mut means = Vec::new();
    for area in [":, :", "26:34, ::4"] {
        let mut steps = Vec::new();
        wind_shear::run(&site, area, |step| steps.push((step.number, step.mean))).await.unwrap();
        assert!(steps.iter().map(|(number, _)| *number).eq(0..24), "{steps:?}");
        means.push(steps.iter().map(|(_, mean)| mean).sum::<f32>() / 24.0);
    }
    // The jet of the northern half is in the basin.
    assert!((means[0] - 4.270).abs() < 0.001 && (means[1] - 10.801).abs() < 0.001, "{means:?}");
    let budgets = site.status().budgets;
    assert!(budgets.iter().any(|array| array.ahead_fetched > 0), "nothing was fetched ahead: {budgets:?}");
    let refused = wind_shear::run(&site, "90, :", |_| ()).await.unwrap_err();
    assert!(refused.to_string().contains("lies outside axis 2"), "{refused}");
}

#[tokio::test]
async fn ozone_is_thickest_at_the_poles() {
    let planet = ozone::planet::Planet::serve().await.unwrap();
    let site = Site::open(&planet.address()).await.unwrap();
    let layer = ozone::run(&site).await.unwrap();
    assert_eq!((layer.rows.len(), layer.reads), (46, 46 * 24));
    let [south, equator] = [layer.rows[0], layer.rows[22]];
    assert_eq!((south.0, equator.0), (-90.0, -2.0));
    // Twice as much, without the part that the equator has of the way there.
    assert!((south.1 / equator.1 - 2.0 / (1.0 + 2.0 / 90.0)).abs() < 1e-3, "{south:?} {equator:?}");
    assert!((equator.1 - 267.47).abs() < 0.01, "{equator:?}");
}

#[tokio::test]
async fn surface_temperature_is_a_picture_of_the_mean() {
    let planet = surface_temperature::planet::Planet::serve().await.unwrap();
    let site = Site::open(&planet.address()).await.unwrap();
    let mut means = Vec::new();
    let picture = surface_temperature::run(&site, |picture| {
        means.push(picture.mean());
        Ok(())
    });
    let picture = picture.await.unwrap();
    assert_eq!((means.len(), picture.steps), (24, 24));
    // It becomes warmer.
    assert!((means[0] - 278.852).abs() < 0.001 && (means[23] - 279.810).abs() < 0.001, "{means:?}");
    let letters = picture.letters();
    let rows: Vec<&str> = letters.lines().collect();
    assert_eq!(rows.len(), 23);
    assert_eq!(rows[0], " ".repeat(72), "{letters}");
    assert!(rows[11].starts_with("@@@@@@%%%%%######***"), "a continent and a sea: {letters}");
    let ppm = picture.ppm();
    let pixels = ppm.strip_prefix(b"P6\n72 46\n255\n").unwrap();
    assert_eq!((pixels.len(), &pixels[..3]), (72 * 46 * 3, &[0, 0, 255][..]));
}
