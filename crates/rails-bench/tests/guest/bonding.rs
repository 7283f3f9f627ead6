//! One stream over two NICs: striped over two rails, and over a bond of the kernel (RTK paper, Fig.
//! 11).

use crate::util::{Server, ip, json, output, rails_bench, two_cables};
use rails_lab::guest::{self, Cable, load_module};
use std::process::Command;

/// Both ends of a bond over both cables.
struct Bond<'a>(&'a (Cable, Cable));

impl<'a> Bond<'a> {
    fn over(cables: &'a (Cable, Cable)) -> Self {
        let bond = Self(cables);
        let (first, second) = cables;
        let far = Some(first.namespace());
        for (inside, nics, address) in
            [(None, [first.near(), second.near()], "10.9.9.1/24"), (far, [first.far(), second.far()], "10.9.9.2/24")]
        {
            ip(inside, "link add bond0 type bond mode balance-rr miimon 100");
            for nic in nics {
                ip(inside, &format!("link set {nic} down"));
                ip(inside, &format!("link set {nic} master bond0"));
            }
            ip(inside, &format!("address add {address} dev bond0"));
            ip(inside, "link set bond0 up");
        }
        let reached = Command::new("busybox").args(["ping", "-q", "-c", "3", "-w", "20", "10.9.9.2"]).output();
        assert!(reached.expect("busybox is there").status.success(), "nothing comes over the bond");
        bond
    }
}

impl Drop for Bond<'_> {
    fn drop(&mut self) {
        let (first, second) = self.0;
        ip(None, "link del bond0");
        ip(Some(first.namespace()), "link del bond0");
        for cable in [first, second] {
            ip(None, &format!("link set {} up", cable.near()));
            ip(Some(first.namespace()), &format!("link set {} up", cable.far()));
            for (inside, nic, address) in [
                (None, cable.near(), cable.near_address()),
                (Some(first.namespace()), cable.far(), cable.far_address()),
            ] {
                // Joining a bond keeps a NIC's addresses on most kernels; an address that is there already is as
                // good.
                ip(inside, &format!("address replace {address}/24 dev {nic}"));
            }
            cable.ping(1).expect("the cable carries again");
        }
    }
}

/// Receiver goodput in Mbit/s of one measurement to these addresses.
fn goodput(cables: &(Cable, Cable), to: &str, plain: bool) -> f64 {
    let kind: &[&str] = if plain { &["--plain", "--insecure"] } else { &["--insecure"] };
    let server = Server::start(cables.0.namespace(), &[&["--listen", to, "--insecure"], CUBIC].concat());
    let stream = [&["stream", "--to", to, "--seconds", SECONDS, "--json"], kind, CUBIC].concat();
    let measured = json(&output(rails_bench(None, &stream)));
    server.finish();
    measured["receiver_goodput_bits_per_second"].as_f64().expect("a number") / 1e6
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_long_two_rails_carry_more_than_a_bond() {
    guest::require();
    load_module("bonding").expect("the guest's kernel has it");
    let cables = two_cables();
    let rails_to = format!("{},{}", cables.0.far_address(), cables.1.far_address());
    let mut samples: [Vec<f64>; 3] = Default::default();
    for _ in 0..ROUNDS {
        samples[0].push(goodput(&cables, &rails_to, false));
        samples[1].push(goodput(&cables, &cables.0.far_address(), true));
        let _bond = Bond::over(&cables);
        samples[2].push(goodput(&cables, "10.9.9.2", true));
    }
    let [rails, single, bond] = samples.each_ref().map(|samples| median(samples));
    println!(
        "receiver goodput in Mbit/s, median of {ROUNDS} rounds of {SECONDS} s, cubic, emulated machine:\n\
         two rails {rails:.1}, one NIC {single:.1}, bond (balance-rr) {bond:.1}; samples {samples:.1?}\n\
         rails / bond = {:.2}",
        rails / bond
    );
    assert!(rails > bond, "two rails carried {rails:.1} Mbit/s, the bond {bond:.1}");
}

fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

const ROUNDS: usize = 3;
const SECONDS: &str = "3";
const CUBIC: &[&str] = &["--congestion", "cubic"];
