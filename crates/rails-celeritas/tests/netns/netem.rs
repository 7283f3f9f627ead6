//! The kernel's own way to delay and to lose packets, beside the laboratory's.

use crate::{call, carry};
use rails_celeritas::CeleritasOptions;
use rails_lab::{
    LinkLab, Shape, Side,
    guest::{load_module, require},
};
use rails_topo::Bandwidth;

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_long_netem_repeats_what_is_lost_alone() {
    require();
    for module in ["veth", "sch_netem"] {
        load_module(module).expect("the guest has it");
    }
    // netem takes a burst of segments for one packet, so that losses come in pairs and vary more.
    for (loss, least, most) in [("0%", 0.0, 0.002), ("1%", 0.002, 0.03), ("5%", 0.02, 0.1)] {
        let lab = LinkLab::builder().link(Shape::Unshaped).build().expect("labs can be built here");
        for side in Side::BOTH {
            let interface = lab.interface(side, 0);
            let netem = ["netem", "delay", "10ms", "loss", "random", loss, "limit", "10000"];
            call(&lab, side, &[&["tc", "qdisc", "add", "dev", interface, "root"], &netem[..]].concat());
        }
        let stats = carry(&lab, &CeleritasOptions::fixed(Bandwidth::mbps(20)), 1_500_000);
        let share = stats.sender.retransmitted_segments as f64 / stats.sender.segments as f64;
        println!("loss {loss}: {share:.4} sent again, {stats:?}");
        assert!((least..=most).contains(&share), "loss {loss}: {share} sent again, {stats:?}");
    }
}
