//! Interrupts go where they are sent, and back, however the process ends that sent them.

use crate::machine::machine;
use rails_bind::{
    interrupt::{self, Distribution, InterruptCounts, Vectors, distribute},
    settings::{
        ApplyError, Change, Host, Journal, PutBack, Refusals, Setting, SettingError, SettingState, SettingsGuard, Undo,
        Value,
    },
};
use rails_lab::guest::Cable;
use rails_topo::{CpuSet, Nic, NodeId, Topology};
use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    panic::{self, AssertUnwindSafe},
    process::{Command, Stdio},
};

fn cpus(list: &str) -> CpuSet {
    list.parse().expect("a list")
}

/// The near NIC of node 1, with its cable.
fn node_1() -> (Cable, Topology, Nic) {
    let cable = Cable::plug(1).expect("the cable is free");
    let topology = Topology::detect().expect("a machine");
    let nic = topology.nic(cable.near()).expect("it has a driver").clone();
    assert_eq!(nic.node, Some(NodeId(1)));
    (cable, topology, nic)
}

fn journal() -> Journal {
    Journal::at("/run/rails-test").expect("/run can be written to")
}

fn apply(changes: &[Change]) -> SettingsGuard {
    Host::this().apply(&journal(), changes, Refusals::Fail).expect("root may")
}

/// The wish of each interrupt of the NIC.
fn wishes(nic: &Nic) -> Vec<CpuSet> {
    let wish = |number| interrupt::read(number).expect("it is there").requested;
    nic.interrupts.iter().map(|interrupt| wish(interrupt.number)).collect()
}

/// The CPUs that served the NIC's interrupts while packets went over the cable, and the number of
/// interrupts.
fn served(cable: &Cable, nic: &Nic) -> (CpuSet, u64) {
    // An interrupt moves when it next fires, which may still be counted where it was.
    cable.ping(3).expect("the cable carries");
    let before = InterruptCounts::read().expect("the kernel counts");
    cable.ping(20).expect("the cable carries");
    let during = InterruptCounts::read().expect("the kernel counts").since(&before);
    let all = nic.interrupts.iter().flat_map(|interrupt| during.of(interrupt.number));
    all.fold((CpuSet::new(), 0), |(on, times), (cpu, count)| (on.union(&CpuSet::single(cpu)), times + count))
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_interrupts_counted_on_the_chosen_cpu() {
    let _turn = machine();
    let (cable, topology, nic) = node_1();
    let former = wishes(&nic);
    for cpu in ["3", "2", "0"] {
        let changes =
            distribute(&topology, &nic, Vectors::All, &Distribution::On(cpus(cpu))).expect("it has interrupts");
        assert_eq!(changes.len(), 3, "{nic:?}");
        let mut guard = apply(&changes);
        let (on, times) = served(&cable, &nic);
        assert_eq!(on, cpus(cpu));
        assert!(times >= 20, "20 pings made {times} interrupts");
        // The queues' interrupts have fired since, and the one for configuration has not.
        for (interrupt, changed) in nic.interrupts.iter().zip(guard.refresh()) {
            match interrupt.role().queue() {
                Some(0) => assert!(matches!(changed.state, SettingState::Applied), "{changed:?}"),
                _ => assert!(matches!(changed.state, SettingState::Applied | SettingState::Pending { .. })),
            }
        }
    }
    assert_eq!(wishes(&nic), former, "the guards have put all of it back");
    // Interrupts that were sent elsewhere are not seen on CPU 3: the check can fail.
    let _elsewhere = apply(&distribute(&topology, &nic, Vectors::All, &Distribution::On(cpus("0"))).expect("likewise"));
    assert_ne!(served(&cable, &nic).0, cpus("3"));
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_one_queue_on_the_nearest_cores() {
    let _turn = machine();
    let (_cable, topology, nic) = node_1();
    let queue = distribute(&topology, &nic, Vectors::Queue(0), &Distribution::NearestCores).expect("it has one queue");
    assert_eq!(queue.len(), 2, "one interrupt to receive and one to send: {queue:?}");
    assert!(queue.iter().all(|change| change.value == Value::Cpus(cpus("2"))), "{queue:?}");
    let all = distribute(&topology, &nic, Vectors::All, &Distribution::NearestCores).expect("it has interrupts");
    assert!(all.iter().any(|change| change.value == Value::Cpus(cpus("2-3"))), "configuration goes to either: {all:?}");
    assert!(distribute(&topology, &nic, Vectors::Queue(1), &Distribution::NearestCores).is_err());
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_panic_leaves_the_machine_as_it_was() {
    let _turn = machine();
    let (_cable, topology, nic) = node_1();
    let former = wishes(&nic);
    let changes = distribute(&topology, &nic, Vectors::All, &Distribution::On(cpus("0"))).expect("it has interrupts");
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| {
        let _guard = apply(&changes);
        assert_ne!(wishes(&nic), former);
        panic!("on purpose");
    }));
    assert!(outcome.is_err());
    assert_eq!(wishes(&nic), former);
    assert!(journal().records().expect("it can be read").is_empty());
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_failed_apply_changes_nothing() {
    let _turn = machine();
    let (_cable, topology, nic) = node_1();
    let former = wishes(&nic);
    let mut changes =
        distribute(&topology, &nic, Vectors::All, &Distribution::On(cpus("0"))).expect("it has interrupts");
    // The timer is the kernel's own, so the last change is refused when the others have been made.
    changes.push(Change::interrupt(0, cpus("1")));
    let error = Host::this().apply(&journal(), &changes, Refusals::Fail).expect_err("the timer stays");
    assert!(matches!(error, ApplyError::Setting(SettingError::Managed { .. })), "{error}");
    assert_eq!(wishes(&nic), former);
    assert!(journal().records().expect("it can be read").is_empty());

    let guard = Host::this().apply(&journal(), &changes, Refusals::Report).expect("the others may be moved");
    let refused = guard.changes().iter().filter(|changed| matches!(changed.state, SettingState::Refused(_)));
    assert_eq!(refused.count(), 1);
    assert_ne!(wishes(&nic), former);
    drop(guard);
    assert_eq!(wishes(&nic), former);
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_undo_after_a_killed_process() {
    if env::var_os(HOLD).is_some() {
        hold();
    }
    let _turn = machine();
    let (_cable, _topology, nic) = node_1();
    let former = wishes(&nic);
    let host = Host::this();
    let steering = steering(&nic);
    let former_steering = host.read(&steering.setting).expect("it is there");
    let mut child = Command::new(env::current_exe().expect("it is running"))
        .args(["--exact", "--ignored", "--nocapture", "interrupts::guest_undo_after_a_killed_process"])
        .env(HOLD, &nic.name)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.ends_with(HOLDING)), "the other process moved nothing");
    assert!(wishes(&nic).iter().all(|wish| *wish == cpus("0")), "{:?}", wishes(&nic));
    child.kill().expect("it runs");
    child.wait().expect("it was killed");
    assert!(wishes(&nic).iter().all(|wish| *wish == cpus("0")), "it is not put back yet");

    let undone = journal().undo(&host, Undo::Abandoned, false).expect("it can be read");
    assert!(undone.iter().all(|undone| matches!(undone.outcome, PutBack::Restored { .. })), "{undone:?}");
    assert_eq!(wishes(&nic), former);
    assert_eq!(host.read(&steering.setting).expect("it is there"), former_steering);
}

/// The process that is to be killed.
fn hold() -> ! {
    let topology = Topology::detect().expect("a machine");
    let name = env::var(HOLD).expect("it is text");
    let nic = topology.nic(&name).expect("it is there");
    let mut changes =
        distribute(&topology, nic, Vectors::All, &Distribution::On(cpus("0"))).expect("it has interrupts");
    changes.push(steering(nic));
    let _guard = apply(&changes);
    println!("{HOLDING}");
    std::io::stdout().flush().expect("somebody reads");
    let _ = std::io::stdin().lines().next();
    std::process::exit(1);
}

fn steering(nic: &Nic) -> Change {
    let setting = Setting::ReceiveSteering { interface: nic.name.parse().expect("a name"), queue: 0 };
    Change { setting, value: Value::Cpus(cpus("0-1")) }
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_steering_is_set_read_back_and_put_back() {
    let _turn = machine();
    let (cable, _topology, nic) = node_1();
    let interface = || nic.name.parse().expect("a name");
    let changes = [
        steering(&nic),
        Change { setting: Setting::FlowTable, value: Value::Number(4096) },
        Change { setting: Setting::ReceiveFlows { interface: interface(), queue: 0 }, value: Value::Number(2048) },
        Change { setting: Setting::ThreadedNapi { interface: interface() }, value: Value::Number(1) },
    ];
    let former: Vec<Value> =
        changes.iter().map(|change| Host::this().read(&change.setting).expect("it is there")).collect();
    let guard = apply(&changes);
    assert!(guard.changes().iter().all(|changed| matches!(changed.state, SettingState::Applied)), "{guard:?}");
    cable.ping(5).expect("packets still come through");
    guard.restore().expect("the journal is there");
    let now: Vec<Value> =
        changes.iter().map(|change| Host::this().read(&change.setting).expect("it is there")).collect();
    assert_eq!(now, former);

    // A NIC with one queue lists the file of XPS, and refuses to read it.
    let transmit = Setting::TransmitSteering { interface: interface(), queue: 0 };
    let error = Host::this().read(&transmit).expect_err("it has one queue");
    assert!(matches!(error, SettingError::Unsupported { .. }), "{error}");
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_bad_wishes_are_refused_by_name() {
    let _turn = machine();
    let (_cable, topology, nic) = node_1();
    let number = nic.interrupts[0].number;
    let refuse = |change: Change| {
        let error = Host::this().apply(&journal(), &[change], Refusals::Fail).expect_err("it cannot be");
        match error {
            ApplyError::Setting(error) => error,
            other => panic!("{other}"),
        }
    };
    let absent = refuse(Change::interrupt(number, cpus("77")));
    assert!(matches!(absent, SettingError::NoneUsable { .. }), "{absent}");
    let vanished = refuse(Change::interrupt(4000, cpus("1")));
    assert!(matches!(vanished, SettingError::NotThere { .. }), "{vanished}");
    let offline =
        distribute(&topology, &nic, Vectors::All, &Distribution::On(cpus("2,77"))).expect_err("77 is not there");
    assert!(offline.to_string().ends_with("not online (77)"), "{offline}");

    // A /proc that is mounted for reading only, as containers have it.
    std::fs::create_dir_all("/run/read-only/proc").expect("/run can be written to");
    let mount = |arguments: &[&str]| assert!(Command::new("mount").args(arguments).status().expect("mount").success());
    mount(&["--bind", "/proc", "/run/read-only/proc"]);
    mount(&["-o", "remount,bind,ro", "/run/read-only/proc"]);
    let outcome =
        Host::under("/run/read-only").apply(&journal(), &[Change::interrupt(number, cpus("1"))], Refusals::Fail);
    assert!(Command::new("umount").arg("/run/read-only/proc").status().expect("umount").success());
    let error = outcome.expect_err("nothing can be written there");
    assert!(matches!(error, ApplyError::Setting(SettingError::ReadOnly { .. })), "{error}");
}

/// The kernel drops offline CPUs from a mask of steering, if need be all of them, which switches it
/// off.
#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_refused_steering_changes_nothing() {
    struct Offline;
    impl Drop for Offline {
        fn drop(&mut self) {
            fs::write("/sys/devices/system/cpu/cpu3/online", "1").expect("the guest's CPUs can be switched");
        }
    }
    let _turn = machine();
    let (_cable, _topology, nic) = node_1();
    let _former = apply(&[steering(&nic)]);
    fs::write("/sys/devices/system/cpu/cpu3/online", "0").expect("the guest's CPUs can be switched");
    let _offline = Offline;
    let to_offline = Change { value: Value::Cpus(cpus("3")), ..steering(&nic) };
    for refusals in [Refusals::Report, Refusals::Fail] {
        let outcome = Host::this().apply(&journal(), std::slice::from_ref(&to_offline), refusals);
        match &outcome {
            Ok(guard) => {
                let state = &guard.changes()[0].state;
                assert!(matches!(state, SettingState::Refused(SettingError::NoneUsable { .. })), "{state:?}");
            }
            Err(error) => assert!(matches!(error, ApplyError::Setting(SettingError::NoneUsable { .. })), "{error}"),
        }
        let now = Host::this().read(&to_offline.setting).expect("it is there");
        assert_eq!(now, steering(&nic).value, "with {refusals:?}");
        assert_eq!(outcome.is_ok(), refusals == Refusals::Report);
        drop(outcome);
    }
}

const HOLD: &str = "RAILS_TEST_HOLD";
const HOLDING: &str = "holding";
