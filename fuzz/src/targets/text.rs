//! Text that people and the kernel write.

use super::texts;
use rails_bench::fuzzing;
use rails_multirail::{
    RailRequest,
    planner::{RailWish, plan_rails},
};
use rails_proto::parameters::MAX_LANES;
use rails_topo::{CpuSet, Interrupt, InterruptLines, MacAddress, Nic, PciAddress, Topology};
use std::sync::LazyLock;

/// A request that was read can be planned, with no more rails than a stream has lanes.
pub(crate) fn rail_request(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(request) = text.parse::<RailRequest>() {
        static MACHINE: LazyLock<Topology> = LazyLock::new(|| {
            let nics = ["eth0", "eth1"].map(Nic::named).into();
            Topology::synthetic("package:2 numa:1 core:4 pu:2", nics).expect("the description is valid")
        });
        if let Ok(plan) = plan_rails(&MACHINE, &request) {
            assert!((1..=MAX_LANES).contains(&plan.rails.len()), "{plan:?}");
        }
    }
    let _ = text.parse::<RailWish>();
}

pub(crate) fn rail_requests() -> Vec<Vec<u8>> {
    texts(["auto", "auto:3", "loopback", "loopback:4", "eth0,eth1@8-11", "10.0.0.1@0-3,10.0.1.1", "fe80::1@2", "2"])
}

pub(crate) const REQUEST_WORDS: &[&str] = &["auto", "loopback", "eth0", "@", ":", ",", "127.0.0.1", "::1", "0-3"];

/// The file of `run --profile`.
pub(crate) fn profile(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    fuzzing::profile(text);
}

pub(crate) fn profiles() -> Vec<Vec<u8>> {
    texts([
        "rails = 'eth0,eth1@4-7/1'\ncores = 2\nexclusive = true\njson = 'verdicts.json'\n",
        "fix = false\nno_follow = true",
    ])
}

pub(crate) const PROFILE_WORDS: &[&str] = &[
    "rails = ",
    "cores = ",
    "exclusive = ",
    "fix = ",
    "require_placement = ",
    "no_follow = ",
    "quiet = ",
    "json = ",
    "true",
];

/// Durations, sizes, rates and addresses.
pub(crate) fn command_line(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    fuzzing::command_line(text);
}

pub(crate) fn command_lines() -> Vec<Vec<u8>> {
    texts([
        "19ms",
        "1.5s",
        "0",
        "250us",
        "8MiB",
        "1.5GB",
        "4096",
        "400,100",
        "unshaped",
        "[::1]:7575",
        "host:1",
        "10.0.0.1",
        "400,100x3,unshaped",
        "400@1ms,400@50msx2",
    ])
}

/// The output of iperf3 and ucx_perftest.
pub(crate) fn rivals_output(data: &[u8]) {
    fuzzing::rivals_output(data);
}

pub(crate) fn outputs() -> Vec<Vec<u8>> {
    texts([
        "iterations,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr\n20,49757.695,49757.695,70.00,80.00,20,20\n",
        r#"{"start":{},"end":{"sum_received":{"bytes":7,"bits_per_second":56.5},"sender_tcp_congestion":"cubic"}}"#,
    ])
}

pub(crate) const OUTPUT_WORDS: &[&str] =
    &["overall_bw", ",", "\n", "nan", "inf", "1e999", "\"end\":{", "\"sum_received\":{", "\"bits_per_second\":"];

pub(crate) const LINE_WORDS: &[&str] = &[
    "ms",
    "us",
    "ns",
    "KiB",
    "TiB",
    "GB",
    "18446744073709551615",
    "1e308",
    "unshaped",
    "[::1]",
    ":7575",
    "@1ms",
    "x2",
];

/// Lists and masks print as text that reads back as the same set.
pub(crate) fn id_set(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(set) = text.parse::<CpuSet>() {
        assert_eq!(set.to_string().parse().as_ref(), Ok(&set));
        assert_eq!(set.iter().count(), set.len());
    }
    if let Ok(set) = CpuSet::parse_mask(text) {
        assert_eq!(CpuSet::parse_mask(&set.to_mask()).as_ref(), Ok(&set));
    }
    if let Ok(address) = text.parse::<PciAddress>() {
        assert_eq!(address.to_string().parse(), Ok(address));
    }
    if let Ok(address) = text.parse::<MacAddress>() {
        assert_eq!(address.to_string().parse(), Ok(address));
    }
}

pub(crate) fn id_sets() -> Vec<Vec<u8>> {
    texts(["0-3,8,10-11", "0-1048575", "ff,ffffffff", "00000000,0000000f", "0000:3b:00.1", "02:00:5e:10:00:01", ""])
}

/// The reader takes any number of lines without a panic, and understands their names or not.
pub(crate) fn interrupts(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let lines = InterruptLines::parse(&text);
    let cpus = lines.cpus().len();
    for line in lines {
        assert!(line.counts().count() <= cpus, "{line:?}");
        let name = line.name.map(str::to_owned);
        let _ = Interrupt { number: line.number, name, affinity: None, effective: None }.role();
    }
}

pub(crate) fn interrupt_files() -> Vec<Vec<u8>> {
    texts([
        "            CPU0       CPU1\n  24:          7          0  PCI-MSIX-0000:00:03.0   0-edge      virtio0-input.0\n\
         NMI:          0          0   Non-maskable interrupts\nERR:          0\n",
        "           CPU0       CPU2\n 130:  1  2  PCI-MSI 1572864-edge      mlx5_comp0@pci:0000:3b:00.0\n",
        "  CPU0 \n 1: 4294967295 IO-APIC 1-edge eth0-TxRx-3\n",
    ])
}

pub(crate) const INTERRUPT_WORDS: &[&str] =
    &["CPU0", "CPU1", "\n", " 24: ", "-edge", "eth0-rx-0", "eth0-TxRx-1", "virtio0-output.1", "mlx5_comp1@pci:"];
