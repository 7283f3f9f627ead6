//! Against a machine made of files, and an irqbalance that is a thread.

use super::*;
use crate::settings::{Change, Host, Journal, PutBack, Refusals, Setting, Value};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, UnixCredentials, recvmsg, setsockopt, sockopt::PassCred};
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

/// What the fake was asked, in order, and what it has banned.
#[derive(Debug, Default)]
struct Fake {
    asked: Vec<String>,
    banned: Vec<u32>,
    /// How it differs from the real one.
    flaw: Flaw,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    #[default]
    None,
    /// It knows no bans.
    Deaf,
    /// It hangs up without an answer, as the real one does on other users.
    Refuses,
    Garbles,
    Stalls,
}

/// An irqbalance in this process, which is found and listens.
fn fake(flaw: Flaw) -> (tempfile::TempDir, Balancer, Arc<Mutex<Fake>>) {
    let root = machine(&[(id(), "irqbalance", b"irqbalance\0--foreground\0")]);
    let listener = UnixListener::bind(root.path().join(format!("run/irqbalance/irqbalance{}.sock", id())));
    let listener = listener.expect("a temporary directory has a short name");
    setsockopt(&listener, PassCred, &true).expect("it is a Unix socket");
    let fake = Arc::new(Mutex::new(Fake { banned: vec![9], flaw, ..Fake::default() }));
    let shared = Arc::clone(&fake);
    // It ends with the test program.
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

#[test]
fn it_is_found_by_its_name_with_its_options() {
    let none = machine(&[(7, "irqbalance-ui", b"irqbalance-ui\0"), (8, "sh", b"irqbalance\0")]);
    assert_eq!(Balancer::find_under(none.path()).expect("it can be listed"), None);
    let zombie = machine(&[(7, "irqbalance", b"")]);
    assert_eq!(Balancer::find_under(zombie.path()).expect("it can be listed"), None);
    let two =
        machine(&[(7, "irqbalance", b""), (31, "irqbalance", b"irqbalance\0"), (12, "irqbalance", b"x\0-i\x0024\0")]);
    let found = Balancer::find_under(two.path()).expect("it can be listed").expect("it runs");
    assert_eq!((found.pid.as_raw(), found.options.banned), (12, numbers(&[24])));
}

#[test]
fn what_cannot_be_seen_is_not_taken_for_missing() {
    let root = machine(&[]);
    fs::remove_dir_all(root.path().join("proc/1")).expect("it is there");
    assert!(matches!(Balancer::find_under(root.path()), Err(BalancerError::Hidden { .. })));
    let error = Balancer::find_under(&root.path().join("none")).expect_err("it has no processes");
    assert!(matches!(error, BalancerError::Unlisted { .. }), "{error}");
}

#[test]
fn a_ban_adds_to_those_of_others_and_is_taken_back_alone() {
    let (_root, balancer, fake) = fake(Flaw::None);
    balancer.ban(&[26, 25, 9, 26]).expect("it listens");
    assert_eq!(balancer.banned().expect("it listens"), numbers(&[9, 25, 26]));
    // Somebody else bans one more meanwhile.
    fake.lock().expect("no test panics with it").banned.push(40);
    balancer.unban(&[25, 26]).expect("it listens");
    assert_eq!(balancer.banned().expect("it listens"), numbers(&[9, 40]));
    assert_eq!(fake.lock().expect("no test panics with it").asked[1], "settings ban irqs 9 25 26");
}

#[test]
fn what_is_so_already_is_not_said_again() {
    let (_root, balancer, fake) = fake(Flaw::None);
    balancer.ban(&[9]).expect("it listens");
    balancer.ban(&[]).expect("it listens");
    balancer.unban(&[25]).expect("it listens");
    let asked = fake.lock().expect("no test panics with it").asked.clone();
    assert!(asked.iter().all(|request| request == "setup"), "{asked:?}");
}

#[test]
fn the_last_ban_is_cleared_by_its_own_word() {
    let (_root, balancer, fake) = fake(Flaw::None);
    fake.lock().expect("no test panics with it").banned = vec![25];
    balancer.unban(&[25]).expect("it listens");
    assert_eq!(balancer.banned().expect("it listens"), numbers(&[]));
    let asked = fake.lock().expect("no test panics with it").asked.clone();
    assert!(asked.contains(&"settings ban irqs NONE".to_owned()), "{asked:?}");
}

#[test]
fn a_ban_is_a_setting_like_others() {
    let (root, balancer, fake) = fake(Flaw::None);
    let journal = Journal::at(root.path().join("journal")).expect("a folder");
    let host = Host::under(root.path());
    let bans = [Change::ban(9), Change::ban(25), Change::ban(26)];
    let guard = host.apply(&journal, &bans, Refusals::Fail).expect("it listens");
    assert_eq!(balancer.banned().expect("it listens"), numbers(&[9, 25, 26]));
    fake.lock().expect("no test panics with it").banned.push(40);
    guard.restore().expect("the journal is there");
    assert_eq!(balancer.banned().expect("it listens"), numbers(&[9, 40]), "9 was banned before");

    // It forgets what it was told when it ends, so there is nothing to put back then.
    let guard = host.apply(&journal, &bans, Refusals::Fail).expect("it listens");
    fs::remove_dir_all(root.path().join("run")).expect("it is there");
    fs::remove_dir_all(root.path().join("proc")).expect("it is there");
    fs::create_dir_all(root.path().join("proc/1")).expect("a folder");
    let outcomes = guard.restore().expect("the journal is there");
    assert!(outcomes.iter().all(|(_, outcome)| matches!(outcome, PutBack::Gone)), "{outcomes:?}");
}

#[test]
fn changes_heed_it() {
    let (root, _balancer, fake) = fake(Flaw::None);
    let steer = Change { setting: Setting::FlowTable, value: Value::Number(1) };
    let wanted = || vec![Change::interrupt(25, "2".parse().expect("a list")), steer.clone()];
    let (plan, changes) = heed(root.path(), wanted()).expect("it is seen");
    assert_eq!(plan, BalancerPlan::Ban);
    assert_eq!(changes, [vec![Change::ban(25)], wanted()].concat());
    fs::remove_dir_all(root.path().join("run")).expect("it is there");
    let (plan, changes) = heed(root.path(), wanted()).expect("it is seen");
    assert_eq!((plan, changes), (BalancerPlan::Follow, vec![steer.clone()]));
    fs::remove_dir_all(root.path().join("proc").join(id().to_string())).expect("it is there");
    assert_eq!(heed(root.path(), wanted()).expect("it is seen"), (BalancerPlan::None, wanted()));
    drop(fake);
}

#[test]
fn more_than_a_request_holds_is_refused_before_it_is_sent() {
    let (_root, balancer, fake) = fake(Flaw::None);
    let many: Vec<u32> = (100..300).collect();
    let error = balancer.ban(&many).expect_err("it has no room");
    assert!(matches!(error, BalancerError::TooMany { count: 201, room: 500, .. }), "{error}");
    assert_eq!(fake.lock().expect("no test panics with it").asked, ["setup"]);
}

#[test]
fn a_ban_that_does_not_read_back_is_an_error() {
    let (_root, balancer, _fake) = fake(Flaw::Deaf);
    let error = balancer.ban(&[25]).expect_err("it does not take it");
    assert!(matches!(error, BalancerError::NotTaken { ref banned, .. } if *banned == numbers(&[9])), "{error}");
}

#[test]
fn each_way_to_say_nothing_has_its_name() {
    let (_root, balancer, _fake) = fake(Flaw::Refuses);
    assert!(matches!(balancer.banned(), Err(BalancerError::NotPermitted { source: None, .. })));
    let (_root, balancer, _fake) = fake(Flaw::Garbles);
    assert!(matches!(balancer.banned(), Err(BalancerError::Malformed { answer, .. }) if answer == "SLEEP ten"));
    let (_root, balancer, _fake) = fake(Flaw::Stalls);
    let balancer = Balancer { patience: Duration::from_millis(50), ..balancer };
    assert!(matches!(balancer.banned(), Err(BalancerError::NoAnswer { .. })));
    let root = machine(&[(id(), "irqbalance", b"irqbalance\0")]);
    let balancer = Balancer::find_under(root.path()).expect("it can be listed").expect("it runs");
    assert!(matches!(balancer.banned(), Err(BalancerError::NoSocket { .. })));
    let process = root.path().join("proc").join(id().to_string());
    fs::write(process.join("cmdline"), "").expect("it is there");
    assert!(matches!(balancer.banned(), Err(BalancerError::Ended { .. })), "a zombie has ended");
    fs::remove_dir_all(process).expect("it is there");
    assert!(matches!(balancer.ban(&[25]), Err(BalancerError::Ended { .. })));
}

#[test]
fn who_answers_in_its_place_is_told_nothing() {
    let (root, balancer, fake) = fake(Flaw::None);
    let run = root.path().join("run/irqbalance");
    fs::rename(run.join(format!("irqbalance{}.sock", id())), run.join("irqbalance1.sock")).expect("it is there");
    let error = Balancer { pid: Tid::from_raw(1).expect("it is above zero"), ..balancer }
        .ban(&[25])
        .expect_err("it is another process");
    assert!(matches!(error, BalancerError::Foreign { owner, .. } if owner == id() as i32), "{error}");
    assert_eq!(fake.lock().expect("no test panics with it").asked, [] as [&str; 0]);
}
