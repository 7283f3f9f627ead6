//! The real irqbalance, and the interrupts that it leaves alone.

use crate::machine::machine;
use nix::unistd::{Uid, setfsuid};
use rails_bind::{
    interrupt::{
        self,
        irqbalance::{Balancer, BalancerError, BalancerPlan, heed},
    },
    settings::{Change, Host, Journal, Refusals},
};
use rails_topo::CpuSet;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::{Child, Command},
    thread::sleep,
    time::{Duration, Instant},
};

/// An irqbalance until this is dropped; its moves of the NICs' interrupts are undone after it.
struct Irqbalance {
    child: Child,
    found: BTreeMap<u32, CpuSet>,
}

impl Irqbalance {
    /// Starts irqbalance, with a folder for its socket, as systemd makes it, or without.
    fn start(folder: bool) -> (Self, Balancer) {
        let _ = fs::remove_dir_all(FOLDER);
        if folder {
            fs::create_dir(FOLDER).expect("/run is writable in the guest");
        }
        assert_eq!(Balancer::find().expect("all processes are seen"), None, "no other process started one");
        let found = nic_interrupts().into_iter().map(|number| (number, wish(number))).collect();
        let mut command = Command::new("irqbalance");
        // irqbalance shall not look at the interrupts between a ban and the change that follows it.
        command.args(["--foreground", "--interval=3", "--banirq=1"]);
        let child = command.spawn().expect("irqbalance is there: `cargo xtask lab` fetches it");
        let this = Self { child, found };
        let balancer = this.until("it listens", || Balancer::find().expect("seen").filter(|it| it.banned().is_ok()));
        assert_eq!(balancer.pid().as_raw(), i32::try_from(this.child.id()).expect("a process has a number"));
        (this, balancer)
    }

    /// Waits for something that irqbalance does at its next looks; it is slow on an emulated
    /// machine.
    fn until<T>(&self, what: &str, check: impl Fn() -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            if let Some(value) = check() {
                return value;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "it was waited for in vain that {what}");
            sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Irqbalance {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for (number, cpus) in &self.found {
            wish_for(*number, cpus);
        }
    }
}

/// The interrupts of the NICs' queues.
fn nic_interrupts() -> Vec<u32> {
    let table = fs::read_to_string("/proc/interrupts").expect("it is there");
    let queues = table.lines().filter(|line| line.contains("-input.") || line.contains("-output."));
    let numbers: Vec<u32> = queues
        .map(|line| line.split(':').next().and_then(|number| number.trim().parse().ok()).expect("a number"))
        .collect();
    assert!(numbers.len() >= 8, "the guest has four NICs: {table}");
    numbers
}

fn wish(number: u32) -> CpuSet {
    interrupt::read(number).expect("it is there").requested
}

fn wish_for(number: u32, cpus: &CpuSet) {
    fs::write(format!("/proc/irq/{number}/smp_affinity_list"), cpus.to_string()).expect("root moves interrupts");
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_irqbalance_heeds_bans_and_moves_the_rest() {
    let _turn = machine();
    let (running, balancer) = Irqbalance::start(true);
    assert_eq!(heed(Path::new("/"), Vec::new()).expect("all processes are seen").0, BalancerPlan::Ban);

    let all: CpuSet = "0-3".parse().expect("a list");
    let interrupts = nic_interrupts();
    let (ours, others) = interrupts.split_at(4);
    let journal = Journal::at("/run/rails-test").expect("/run can be written to");
    let bans: Vec<Change> = ours.iter().copied().map(Change::ban).collect();
    let guard = Host::this().apply(&journal, &bans, Refusals::Fail).expect("root is listened to");
    let banned: BTreeSet<u32> = ours.iter().copied().chain([1]).collect();
    assert_eq!(balancer.banned().expect("root is listened to"), banned);
    nic_interrupts().iter().for_each(|number| wish_for(*number, &all));
    // irqbalance decides on later moves with the ban: each change of the list makes it place all
    // interrupts anew.
    running.until("it places the others", || others.iter().all(|number| wish(*number) != all).then_some(()));
    for number in ours {
        assert_eq!(wish(*number), all, "interrupt {number} was to be left alone");
    }

    drop(guard);
    assert_eq!(balancer.banned().expect("root is listened to"), BTreeSet::from([1]));
    // The control: the ban alone kept them.
    running.until("it places these too", || ours.iter().all(|number| wish(*number) != all).then_some(()));
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_irqbalance_by_its_abstract_socket() {
    let _turn = machine();
    let (_running, balancer) = Irqbalance::start(false);
    assert!(!Path::new(FOLDER).exists());
    balancer.ban(&[2]).expect("root is listened to");
    assert_eq!(balancer.banned().expect("root is listened to"), BTreeSet::from([1, 2]));
    balancer.unban(&[2]).expect("root is listened to");
    assert_eq!(balancer.banned().expect("root is listened to"), BTreeSet::from([1]));
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_irqbalance_refuses_other_users() {
    let _turn = machine();
    let (running, balancer) = Irqbalance::start(true);
    let error = std::thread::scope(|scope| {
        let as_nobody = scope.spawn(|| {
            // The change is this thread's alone, and drops the capabilities that override file permissions.
            setfsuid(Uid::from_raw(65534));
            balancer.ban(&[2]).expect_err("the socket is root's")
        });
        as_nobody.join().expect("it does not panic")
    });
    assert!(matches!(error, BalancerError::NotPermitted { source: Some(_), .. }), "{error}");
    assert_eq!(balancer.banned().expect("root is listened to"), BTreeSet::from([1]));
    drop(running);
    assert!(matches!(balancer.banned(), Err(BalancerError::Ended { .. })));
}

/// The folder in which systemd has irqbalance make its socket.
const FOLDER: &str = "/run/irqbalance";
