//! A program beside a NIC of one of two nodes.

use crate::{
    doctor::{FAR_INTERRUPTS, IN_PLACE, plant},
    util::{output, rails_bench, two_cables},
};
use rails_bind::settings::{Host, Setting, Value};
use rails_lab::guest::{self, Cable};
use rails_topo::Topology;
use std::net::TcpListener;

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_place_and_interrupts_of_a_program() {
    guest::require();
    let cable = Cable::plug(1).expect("the cable is free");
    plant(&cable, &FAR_INTERRUPTS);
    let topology = Topology::detect().expect("a machine");
    let nic = topology.nic(cable.near()).expect("it has a driver");
    let interrupts: Vec<u32> = nic.interrupts.iter().map(|interrupt| interrupt.number).collect();
    let files = interrupts.iter().map(|number| format!("/proc/irq/{number}/smp_affinity_list")).collect::<Vec<_>>();
    // The interrupts are put in place while the program runs.
    let read = format!(
        "grep Cpus_allowed_list /proc/self/status; head -n 1 /proc/self/numa_maps
        until ! grep -q '^0$' {}; do sleep 0.1; done; echo fixed",
        files.join(" ")
    );
    let flags = ["run", "--rails", cable.near(), "--no-follow", "--fix", "--journal", "/run/rails-test"];
    let ended = output(rails_bench(None, &[&flags[..], &["--", "sh", "-c", &read]].concat()));
    let [out, said] = [&ended.stdout, &ended.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(ended.status.success(), "{out}{said}");
    assert!(out.contains("Cpus_allowed_list:\t2-3\n") && out.contains("prefer:1"), "{out}{said}");
    assert!(out.ends_with("fixed\n") && said.contains("interrupt affine"), "{out}{said}");
    for interrupt in interrupts {
        let now = Host::this().read(&Setting::InterruptAffinity { interrupt }).expect("it is there");
        assert_eq!(now, Value::Cpus("0".parse().expect("a list")), "it is put back: {said}");
    }
    plant(&cable, &IN_PLACE);
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_a_program_moves_to_the_node_of_its_traffic() {
    guest::require();
    // The kernel tells of connections by a module, which nothing loads by itself here.
    guest::load_module("tcp_diag").expect("the guest's kernel has it");
    let (first, second) = two_cables();
    let address = second.far_address();
    let listener = {
        let _inside = second.namespace().enter().expect("it is there");
        TcpListener::bind((address.as_str(), 0)).expect("the address is the namespace's")
    };
    let port = listener.local_addr().expect("it is bound").port();
    let reader = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().expect("somebody comes");
        std::io::copy(&mut connection, &mut std::io::sink()).unwrap_or_default()
    });
    let send = format!(
        "exec 3<>/dev/tcp/{address}/{port}; grep Cpus_allowed_list /proc/$$/status; head -n 1 /proc/self/numa_maps
        for i in $(seq 1000); do
          grep -q 'Cpus_allowed_list:.2-3$' /proc/$$/status && exit; head -c 100000 /dev/zero >&3; sleep 0.05
        done; exit 1"
    );
    let ended = output(rails_bench(None, &["run", "--rails", first.near(), "--", "bash", "-c", &send]));
    let [out, said] = [&ended.stdout, &ended.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(ended.status.success(), "{out}{said}");
    // Memory comes from the nearer of the two nodes, wherever the program goes.
    assert!(out.contains("Cpus_allowed_list:\t0-1\n") && out.contains("prefer (many):0-1"), "{out}{said}");
    assert!(said.contains("it moved once") && said.contains(&format!("{}: ", second.near())), "{said}");
    assert!(reader.join().expect("it reads") > 100_000);
}
