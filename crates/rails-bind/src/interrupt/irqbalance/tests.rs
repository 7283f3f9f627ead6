//! A machine made of files, and an irqbalance that is a thread.

use super::*;
use crate::settings::{Change, Host, Journal, PutBack, Refusals, Setting, Value};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, UnixCredentials, recvmsg, setsockopt, sockopt::PassCred};
use proptest::prelude::*;
use std::{
    io::{IoSliceMut, Write},
    os::{fd::AsRawFd, unix::net::UnixListener},
    process::id,
    sync::{Arc, Mutex},
};

/// A root with these processes: number, name and command line.
fn machine(processes: &[(u32, &str, &[u8])]) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a directory");
    for (pid, name, line) in [(1, "init", &b"/sbin/init\0"[..])].iter().chain(processes) {
        let directory = root.path().join("proc").join(pid.to_string());
        fs::create_dir_all(&directory).expect("a directory");
        fs::write(directory.join("comm"), format!("{name}\n")).expect("a file");
        fs::write(directory.join("cmdline"), line).expect("a file");
    }
    fs::create_dir_all(root.path().join("run/irqbalance")).expect("a directory");
    root
}

/// The requests to the fake, in order, and its bans.
#[derive(Debug, Default)]
struct Fake {
    asked: Vec<String>,
    banned: Vec<u32>,
    flaw: Flaw,
}

/// The difference of the fake from the real one.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    #[default]
    None,
    /// The fake knows no bans.
    Deaf,
    /// The fake hangs up without an answer, as the real one does on other users.
    Refuses,
    Garbles,
    Stalls,
}

/// An irqbalance in this process.
fn fake(flaw: Flaw) -> (tempfile::TempDir, Balancer, Arc<Mutex<Fake>>) {
    let root = machine(&[(id(), "irqbalance", b"irqbalance\0--foreground\0")]);
    let listener = UnixListener::bind(root.path().join(format!("run/irqbalance/irqbalance{}.sock", id())));
    let listener = listener.expect("a temporary directory has a short name");
    setsockopt(&listener, PassCred, &true).expect("it is a Unix socket");
    let fake = Arc::new(Mutex::new(Fake { banned: vec![9], flaw, ..Fake::default() }));
    let shared = Arc::clone(&fake);
    std::thread::spawn(move || {
        for client in listener.incoming() {
            serve(client.expect("it is asked for"), &shared);
        }
    });
    let balancer = Balancer::find_under(root.path()).expect("it can be listed").expect("it runs");
    (root, balancer, fake)
}

fn serve(mut client: std::os::unix::net::UnixStream, fake: &Mutex<Fake>) {
    let mut bytes = [0; 500];
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let mut space = nix::cmsg_space!(UnixCredentials);
    let received =
        recvmsg::<()>(client.as_raw_fd(), &mut parts, Some(&mut space), MsgFlags::empty()).expect("a request");
    let sender = received.cmsgs().expect("it was all read").find_map(|message| match message {
        ControlMessageOwned::ScmCredentials(sender) => Some((sender.pid(), sender.uid())),
        _ => None,
    });
    assert_eq!(sender, Some((nix::unistd::getpid().as_raw(), nix::unistd::geteuid().as_raw())));
    let length = received.bytes;
    let request = String::from_utf8(bytes[..length].to_vec()).expect("it is text");
    let mut fake = fake.lock().expect("no test panics with it");
    fake.asked.push(request.clone());
    match (fake.flaw, request.strip_prefix("settings ban irqs ")) {
        (Flaw::Refuses, _) | (Flaw::Deaf, Some(_)) => {}
        (Flaw::Garbles, None) => client.write_all(b"SLEEP ten").expect("it is read"),
        (Flaw::Stalls, None) => std::mem::forget(client),
        (_, Some(numbers)) => fake.banned = numbers.split(' ').filter_map(|number| number.parse().ok()).collect(),
        (_, None) => {
            let one = |number: &u32| format!("IRQ {number} LOAD 0 DIFF 0 CLASS 0 ");
            let banned: String = fake.banned.iter().map(one).collect();
            client.write_all(format!("SLEEP 10 {banned}BANNED 00000000").as_bytes()).expect("it is read");
        }
    }
}

fn numbers(numbers: &[u32]) -> BTreeSet<u32> {
    numbers.iter().copied().collect()
}

fn found(root: &Path) -> Option<Balancer> {
    Balancer::find_under(root).expect("the processes can be listed")
}

fn banned(balancer: &Balancer) -> BTreeSet<u32> {
    balancer.banned().expect("it listens")
}

#[test]
fn process_by_its_name() {
    let none = machine(&[(7, "irqbalance-ui", b"irqbalance-ui\0"), (8, "sh", b"irqbalance\0"), (9, "irqbalance", b"")]);
    assert_eq!(found(none.path()), None, "the last is a zombie");
    let two = machine(&[(7, "irqbalance", b""), (31, "irqbalance", b"irqbalance\0"), (12, "irqbalance", b"x\0")]);
    assert_eq!(found(two.path()).expect("it runs").pid().as_raw(), 12);
}

#[test]
fn hidden_processes_are_not_taken_for_absent() {
    let root = machine(&[]);
    let why = || match Balancer::find_under(root.path()) {
        Err(BalancerError::Hidden { why }) => why,
        other => panic!("{other:?}"),
    };
    fs::remove_dir_all(root.path().join("proc/1")).expect("it is there");
    assert_eq!(why(), "/proc shows no processes");
    fs::create_dir(root.path().join("proc/self")).expect("a directory");
    assert_eq!(why(), "/proc shows the processes of other users to root alone (hidepid)");
    let error = Balancer::find_under(&root.path().join("none")).expect_err("it has no processes");
    assert!(matches!(error, BalancerError::Unlisted { .. }), "{error}");
}

#[test]
fn bans_beside_the_bans_of_others() {
    let (_root, balancer, fake) = fake(Flaw::None);
    balancer.ban(&[26, 25, 9, 26]).expect("it listens");
    assert_eq!(banned(&balancer), numbers(&[9, 25, 26]));
    // Another program bans one more meanwhile.
    fake.lock().expect("no test panics with it").banned.push(40);
    balancer.unban(&[25, 26]).expect("it listens");
    assert_eq!(banned(&balancer), numbers(&[9, 40]));
    balancer.unban(&[9, 40]).expect("it listens");
    assert_eq!(banned(&balancer), numbers(&[]));
    let mut asked = fake.lock().expect("no test panics with it").asked.clone();
    asked.retain(|request| request != "setup");
    assert_eq!(asked, ["settings ban irqs 9 25 26", "settings ban irqs 9 40", "settings ban irqs NONE"]);
}

#[test]
fn bans_that_change_nothing_are_not_sent() {
    let (_root, balancer, fake) = fake(Flaw::None);
    balancer.ban(&[9]).expect("it listens");
    balancer.ban(&[]).expect("it listens");
    balancer.unban(&[25]).expect("it listens");
    let asked = fake.lock().expect("no test panics with it").asked.clone();
    assert!(asked.iter().all(|request| request == "setup"), "{asked:?}");
}

#[test]
fn ban_as_a_setting() {
    let (root, balancer, fake) = fake(Flaw::None);
    let journal = Journal::at(root.path().join("journal")).expect("a folder");
    let host = Host::under(root.path());
    let bans = [Change::ban(9), Change::ban(25), Change::ban(26)];
    let guard = host.apply(&journal, &bans, Refusals::Fail).expect("it listens");
    assert_eq!(banned(&balancer), numbers(&[9, 25, 26]));
    fake.lock().expect("no test panics with it").banned.push(40);
    guard.restore().expect("the journal is there");
    assert_eq!(banned(&balancer), numbers(&[9, 40]), "9 was banned before");

    // irqbalance forgets its bans when it ends, so there is nothing to put back then.
    let guard = host.apply(&journal, &bans, Refusals::Fail).expect("it listens");
    fs::remove_dir_all(root.path().join("run")).expect("it is there");
    fs::remove_dir_all(root.path().join("proc")).expect("it is there");
    fs::create_dir_all(root.path().join("proc/1")).expect("a folder");
    let outcomes = guard.restore().expect("the journal is there");
    assert!(outcomes.iter().all(|(_, outcome)| matches!(outcome, PutBack::Gone)), "{outcomes:?}");
}

#[test]
fn changes_beside_a_running_irqbalance() {
    let (root, _balancer, _fake) = fake(Flaw::None);
    let steer = Change { setting: Setting::FlowTable, value: Value::Number(1) };
    let wanted = || vec![Change::interrupt(25, "2".parse().expect("a list")), steer.clone()];
    let heeded = || heed(root.path(), wanted()).expect("the processes can be listed");
    assert_eq!(heeded(), (BalancerPlan::Ban, [vec![Change::ban(25)], wanted()].concat()));
    fs::remove_dir_all(root.path().join("run")).expect("it is there");
    assert_eq!(heeded(), (BalancerPlan::Follow, vec![steer.clone()]));
    fs::remove_dir_all(root.path().join("proc").join(id().to_string())).expect("it is there");
    assert_eq!(heeded(), (BalancerPlan::None, wanted()));
}

#[test]
fn each_failure_by_its_name() {
    let problem = |result: Result<BTreeSet<u32>, BalancerError>| match result {
        Err(BalancerError::Unusable { problem, .. }) => problem,
        other => panic!("{other:?}"),
    };
    let ban = |balancer: &Balancer, interrupts: &[u32]| balancer.ban(interrupts).map(|()| BTreeSet::new());
    let (_root, balancer, shared) = fake(Flaw::None);
    assert!(problem(ban(&balancer, &(100..300).collect::<Vec<_>>())).contains("no room for 201 interrupts"));
    assert_eq!(shared.lock().expect("no test panics with it").asked, ["setup"], "it is not sent");
    let (_root, balancer, _fake) = fake(Flaw::Deaf);
    assert_eq!(problem(ban(&balancer, &[25])), "it was told to leave {9, 25} alone, and leaves {9}");
    let (_root, balancer, _fake) = fake(Flaw::Refuses);
    assert!(matches!(balancer.banned(), Err(BalancerError::NotPermitted { source: None, .. })));
    let (_root, balancer, _fake) = fake(Flaw::Garbles);
    assert_eq!(problem(balancer.banned()), r#"its answer "SLEEP ten" is not understood"#);
    let (_root, balancer, _fake) = fake(Flaw::Stalls);
    let balancer = Balancer { patience: Duration::from_millis(50), ..balancer };
    assert!(problem(balancer.banned()).starts_with("it did not answer"));
    let root = machine(&[(id(), "irqbalance", b"irqbalance\0")]);
    let balancer = found(root.path()).expect("it runs");
    assert_eq!(problem(balancer.banned()), "it has no socket that can be reached");
    let process = root.path().join("proc").join(id().to_string());
    fs::write(process.join("cmdline"), "").expect("it is there");
    assert!(matches!(balancer.banned(), Err(BalancerError::Ended { .. })), "a zombie has ended");
    fs::remove_dir_all(process).expect("it is there");
    assert!(matches!(balancer.ban(&[25]), Err(BalancerError::Ended { .. })));
}

#[test]
fn socket_of_another_process() {
    let (root, balancer, fake) = fake(Flaw::None);
    let run = root.path().join("run/irqbalance");
    fs::rename(run.join(format!("irqbalance{}.sock", id())), run.join("irqbalance1.sock")).expect("it is there");
    let error = Balancer { pid: Tid::from_raw(1).expect("it is above zero"), ..balancer }
        .ban(&[25])
        .expect_err("it is another process");
    assert!(error.to_string().ends_with(&format!("its socket belongs to process {}", id())), "{error}");
    assert_eq!(fake.lock().expect("no test panics with it").asked, [] as [&str; 0], "the balancer hears nothing");
}

#[test]
fn answer_of_version_1_9_2() {
    let answer = "SLEEP 2 IRQ 26 LOAD 0 DIFF 0 CLASS 0 IRQ 27 LOAD 0 DIFF 0 CLASS 0 BANNED 00000000,0000000f";
    assert_eq!(client::parse(answer), Some(numbers(&[26, 27])));
    assert_eq!(client::parse("SLEEP 10 BANNED 00000000"), Some(numbers(&[])));
    for cut in ["", "SLEEP", "SLEEP 10 ", "SLEEP 10 IRQ 26 LOAD 0", "SLEEP 10 IRQ x BANNED 0", "TYPE 3 BANNED 0"] {
        assert_eq!(client::parse(cut), None, "{cut}");
    }
}

proptest! {
    #[test]
    fn any_banned_interrupts(numbers in prop::collection::btree_set(0_u32..=u32::MAX, 0..50)) {
        let one = |number: &u32| format!("IRQ {number} LOAD 7 DIFF 1 CLASS 4 ");
        let answer = format!("SLEEP 10 {}BANNED ff", numbers.iter().map(one).collect::<String>());
        prop_assert_eq!(client::parse(&answer), Some(numbers));
    }

    #[test]
    fn any_answer(text in "\\PC*", words in "SLEEP 10 ((IRQ|LOAD|BANNED|-?[0-9]{1,12}) ){0,9}") {
        let _ = (client::parse(&text), client::parse(&words));
    }
}
