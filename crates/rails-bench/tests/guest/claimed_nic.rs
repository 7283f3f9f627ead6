//! A NIC whose interrupts and queues a running end has to itself.

use crate::{
    doctor::{FAR_INTERRUPTS, IN_PLACE, plant},
    util::{json, output, rails_bench},
};
use rails_bind::{
    claims::{Number, Numbers},
    settings::{Host, Setting, Value},
};
use rails_lab::guest::{self, Cable};
use rails_topo::{Nic, Topology};
use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Stdio},
    thread,
};

/// An exclusive `serve` at the near end of the cable, which ends with the test.
struct Owner(Child);

impl Owner {
    fn start(cable: &Cable) -> Self {
        let listen = format!("{}:0", cable.near_address());
        let mut command = rails_bench(None, &["serve", "--exclusive", "--insecure", "--listen", &listen]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it can be started");
        let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.starts_with("listening on ")), "it does not listen");
        thread::spawn(move || lines.for_each(drop));
        Self(child)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The report of `doctor --fix` on the NIC while packets come in.
fn mended(cable: &Cable) -> String {
    let args = ["doctor", "--iface", cable.near(), "--fix", "--seconds", "1", "--journal", "/run/rails-test"];
    let mut child = rails_bench(None, &args).stdout(Stdio::piped()).spawn().expect("it can be started");
    while child.try_wait().expect("it was started").is_none() {
        cable.ping(1).expect("the cable carries");
    }
    let mut said = String::new();
    child.stdout.take().expect("it is piped").read_to_string(&mut said).expect("it is text");
    said
}

fn affinities(nic: &Nic) -> Vec<Value> {
    let setting = |number| Setting::InterruptAffinity { interrupt: number };
    nic.interrupts.iter().map(|irq| Host::this().read(&setting(irq.number)).expect("it is there")).collect()
}

fn list(numbers: impl Iterator<Item = u32>) -> String {
    numbers.map(Number).collect::<Numbers>().to_string()
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_claimed_nic_is_left_alone() {
    guest::require();
    let cable = Cable::plug(1).expect("the cable is free");
    plant(&cable, &FAR_INTERRUPTS);
    let topology = Topology::detect().expect("a machine");
    let nic = topology.nic(cable.near()).expect("it has a driver");
    let owner = Owner::start(&cable);
    let holders = json(&output(rails_bench(None, &["rails", "--json"])));
    let holder = &holders["holders"][0];
    let holds = &holder["holds"];
    assert_eq!(holder["pid"], owner.0.id());
    assert_eq!(holds["interrupts"], list(nic.interrupts.iter().map(|irq| irq.number)), "{holds}");
    assert_eq!(holds["queues"][cable.near()], list(nic.rx_queues.iter().map(|queue| queue.index)), "{holds}");

    let listen = format!("{}:0", cable.near_address());
    let refused = output(rails_bench(None, &["serve", "--exclusive", "--insecure", "--listen", &listen]));
    let said = String::from_utf8_lossy(&refused.stderr);
    let (interrupt, by) = (nic.interrupts[0].number, format!("process {} (`", owner.0.id()));
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("error: --listen: ") && said.contains("`rails-bench rails` lists all"), "{said}");
    assert!(said.contains(&format!("interrupt {interrupt} is held by {by}")), "{said}");

    let before = affinities(nic);
    let said = mended(&cable);
    assert!(
        said.contains("not changed: the affinity of interrupt ") && said.contains(&format!("claimed by {by}")),
        "{said}"
    );
    assert_eq!(affinities(nic), before, "{said}");

    drop(owner);
    let said = mended(&cable);
    assert!(said.lines().any(|line| line.starts_with("changed: the affinity of interrupt ")), "{said}");
    assert_ne!(affinities(nic), before, "{said}");
    let undone = output(rails_bench(None, &["undo", "--journal", "/run/rails-test"]));
    assert!(undone.status.success());
    assert_eq!(affinities(nic), before);
    plant(&cable, &IN_PLACE);
}
