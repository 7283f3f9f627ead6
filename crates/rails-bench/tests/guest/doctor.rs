//! The doctor finds the planted faults and nothing else, and mends those that it can.

use crate::util::{json, output, rails_bench};
use rails_bind::{
    interrupt::{Distribution, Vectors, distribute},
    memory::{BufferOptions, MemoryPolicy, NumaBuffer},
    settings::{Change, Host, Setting, Value},
    thread,
};
use rails_lab::guest::{self, Cable};
use rails_topo::{CpuSet, Topology};
use serde_json::Value as Json;
use std::{
    env,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    time::Duration,
};

/// The faults of the worker, and of the NIC of node 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Planted {
    /// The CPU of the NIC's interrupts.
    interrupts_on: &'static str,
    /// Where its packets are handed on to.
    steered_to: &'static str,
    /// Where its NAPI thread may run, if it has one.
    napi_on: Option<&'static str>,
    /// Where the worker's thread may run.
    thread_on: &'static str,
    /// The policy of its buffer.
    memory: Memory,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Memory {
    Node0,
    Node1,
    Both,
}

pub(crate) const IN_PLACE: Planted =
    Planted { interrupts_on: "2", steered_to: "", napi_on: None, thread_on: "2", memory: Memory::Node1 };

pub(crate) const FAR_INTERRUPTS: Planted = Planted { interrupts_on: "0", ..IN_PLACE };

/// The properties that the doctor is to call broken: interrupt, thread, memory.
const PLANTED: [(&str, Planted, [bool; 3]); 9] = [
    ("nothing", IN_PLACE, [false, false, false]),
    (
        "nothing, with steering and a NAPI thread in place",
        Planted { steered_to: "2-3", napi_on: Some("3"), ..IN_PLACE },
        [false, false, false],
    ),
    ("interrupts on the other node", FAR_INTERRUPTS, [true, true, false]),
    ("packets handed to the other node", Planted { steered_to: "0-1", ..IN_PLACE }, [true, false, false]),
    ("the NAPI thread on the other node", Planted { napi_on: Some("0"), ..IN_PLACE }, [true, false, false]),
    // The thread's memory is far from it too, then.
    ("the thread on the other node", Planted { thread_on: "0", ..IN_PLACE }, [false, true, true]),
    ("a thread that is not bound", Planted { thread_on: "0-3", ..IN_PLACE }, [false, true, true]),
    ("buffers on the other node", Planted { memory: Memory::Node0, ..IN_PLACE }, [false, false, true]),
    ("buffers on both nodes", Planted { memory: Memory::Both, ..IN_PLACE }, [false, false, true]),
];

/// A process that moves data over the cable of node 1 all the time.
struct Worker(Child);

impl Worker {
    fn start(cable: &Cable, planted: &Planted) -> Self {
        let mut child = Command::new(env::current_exe().expect("it is running"))
            .args(["--exact", "--ignored", "--nocapture", "doctor::guest_long_the_doctor_finds_what_was_planted"])
            .env(WORK, format!("{}|{}|{:?}", cable.far_address(), planted.thread_on, planted.memory))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.ends_with(WORKING)), "the worker does not work");
        // After a minute the test harness says that the test is slow, and ends if its pipe is closed.
        std::thread::spawn(move || lines.for_each(drop));
        Self(child)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The worker: it echoes over the cable, with its data in a large buffer.
fn work(task: &str) -> ! {
    let [address, thread_on, memory] =
        task.split('|').collect::<Vec<_>>().try_into().expect("an address, CPUs and a policy");
    let _bound = thread::bind_current(&cpus(thread_on)).expect("they are there");
    let nodes = |list: &str| list.parse().expect("a list");
    let policy = match memory {
        "Node0" => MemoryPolicy::Bind(nodes("0")),
        "Node1" => MemoryPolicy::Bind(nodes("1")),
        _ => MemoryPolicy::Interleave(nodes("0-1")),
    };
    let mut buffer = NumaBuffer::new(64 << 20, &BufferOptions::new().policy(policy).prefault(true)).expect("it fits");
    let mut stream = TcpStream::connect((address, 7600)).expect("somebody listens");
    println!("{WORKING}");
    std::io::stdout().flush().expect("somebody reads");
    loop {
        for piece in buffer.chunks_mut(64 << 10) {
            stream.write_all(piece).expect("the peer reads");
            stream.read_exact(piece).expect("the peer echoes");
        }
    }
}

/// Echoes every byte, at the far end of the cable, for as long as the tests run.
fn echo(cable: &Cable) {
    let (namespace, address) = (cable.namespace().clone(), cable.far_address());
    let (ready, is_ready) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _inside = namespace.enter().expect("it is there");
        let listener = TcpListener::bind((address.as_str(), 7600)).expect("the address is the namespace's");
        ready.send(()).expect("somebody waits");
        for stream in listener.incoming() {
            let mut stream = stream.expect("somebody connects");
            std::thread::spawn(move || {
                let mut buffer = vec![0; 64 << 10];
                while let Ok(length @ 1..) = stream.read(&mut buffer) {
                    if stream.write_all(&buffer[..length]).is_err() {
                        break;
                    }
                }
            });
        }
    });
    is_ready.recv().expect("it listens");
}

/// Plants the fault, from any earlier state of the machine.
pub(crate) fn plant(cable: &Cable, planted: &Planted) {
    let topology = Topology::detect().expect("a machine");
    let nic = topology.nic(cable.near()).expect("it has a driver");
    let interface = || nic.name.parse().expect("a name");
    let write = |change: &Change| {
        let status = Command::new("sh").args(["-c", &change.command()]).status().expect("a shell");
        assert!(status.success(), "{}", change.command());
    };
    for change in distribute(&topology, nic, Vectors::All, &Distribution::On(cpus(planted.interrupts_on)))
        .expect("it has interrupts")
    {
        write(&change);
    }
    let steering = Setting::ReceiveSteering { interface: interface(), queue: 0 };
    write(&Change { setting: steering, value: Value::Cpus(cpus(planted.steered_to)) });
    let napi = Change {
        setting: Setting::ThreadedNapi { interface: interface() },
        value: Value::Number(planted.napi_on.is_some().into()),
    };
    write(&napi);
    if let Some(on) = planted.napi_on {
        let find = format!("for p in /proc/[0-9]*; do grep -q ^napi/{} $p/comm && echo ${{p#/proc/}}; done", nic.name);
        let found = Command::new("sh").args(["-c", &find]).output().expect("a shell");
        let threads = String::from_utf8(found.stdout).expect("numbers");
        assert!(!threads.trim().is_empty(), "no NAPI thread of {}", nic.name);
        for thread in threads.split_whitespace() {
            let bound = Command::new("taskset").args(["-pc", on, thread]).output().expect("util-linux is there");
            assert!(bound.status.success(), "{}", String::from_utf8_lossy(&bound.stderr));
        }
    }
}

/// The doctor's verdicts on the worker, by property, and all of its words.
fn examined(worker: &Worker, more: &[&str]) -> ([bool; 3], Json) {
    let pid = worker.0.id().to_string();
    let args = [&["doctor", "--pid", &pid, "--seconds", "1", "--json", "--journal", "/run/rails-test"], more].concat();
    let said = json(&output(rails_bench(None, &args)));
    let report = &said["examined"][0]["report"];
    let state = |property: &str| report[property]["state"].as_str().expect("a state").to_owned();
    let states = ["interrupt", "thread", "memory"].map(state);
    assert!(!states.contains(&"unknown".to_owned()), "{said:#}");
    (states.map(|state| state == "broken"), said)
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_long_the_doctor_finds_what_was_planted() {
    guest::require();
    if let Ok(task) = env::var(WORK) {
        work(&task);
    }
    let cable = Cable::plug(1).expect("the cable is free");
    echo(&cable);
    for (what, planted, broken) in PLANTED {
        plant(&cable, &planted);
        let worker = Worker::start(&cable, &planted);
        std::thread::sleep(Duration::from_millis(300));
        let (found, said) = examined(&worker, &[]);
        assert_eq!(found, broken, "planted: {what}\n{said:#}");
    }
    plant(&cable, &IN_PLACE);
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_long_the_doctor_mends_and_undo_takes_it_back() {
    guest::require();
    let cable = Cable::plug(1).expect("the cable is free");
    echo(&cable);
    let all = Planted { interrupts_on: "0", steered_to: "0-1", thread_on: "0-3", memory: Memory::Node0, ..IN_PLACE };
    plant(&cable, &all);
    let topology = Topology::detect().expect("a machine");
    let nic = topology.nic(cable.near()).expect("it has a driver");
    let worker = Worker::start(&cable, &all);
    let (found, _) = examined(&worker, &[]);
    assert_eq!(found, [true, true, true]);

    let (found, said) = examined(&worker, &["--fix"]);
    assert_eq!(found, [false, false, false], "{said:#}");
    let undone = output(rails_bench(None, &["undo", "--journal", "/run/rails-test"]));
    let said = String::from_utf8_lossy(&undone.stdout);
    assert!(undone.status.success(), "{said}");
    for interrupt in &nic.interrupts {
        let setting = Setting::InterruptAffinity { interrupt: interrupt.number };
        assert_eq!(Host::this().read(&setting).expect("it is there"), Value::Cpus(cpus("0")), "{said}");
    }
    let (found, _) = examined(&worker, &[]);
    assert_eq!(found, [true, true, true], "all of it is as it was");
    drop(worker);
    plant(&cable, &IN_PLACE);
}

fn cpus(list: &str) -> CpuSet {
    list.parse().expect("a list")
}

const WORK: &str = "RAILS_TEST_WORK";
const WORKING: &str = "working";
