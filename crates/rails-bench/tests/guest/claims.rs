//! Processes that want more of node 1's cores for themselves than there are.

use crate::util::{json, output, rails_bench};
use assert_cmd::cargo::cargo_bin;
use rails_bind::claims::{ClaimError, Claims, Resource};
use rails_lab::guest;
use rails_multirail::{RailRequest, Rails, plan_rails, planner::PlanError, runtime::RuntimeError};
use rails_topo::{CpuSet, NodeId, Topology};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    env,
    io::{BufRead, BufReader, Lines, Write},
    process::{Child, ChildStderr, ChildStdout, Command, Stdio},
};

/// `serve` with exclusive rails, which may run on node 1 alone.
struct Claimant {
    child: Child,
    said: Lines<BufReader<ChildStderr>>,
}

impl Claimant {
    fn start(node: &CpuSet, rails: usize) -> Self {
        let listen: Vec<String> = (1..=rails).map(|rail| format!("127.0.0.{rail}:0")).collect();
        let mut command = Command::new("taskset");
        command.args(["-c", &node.to_string()]).arg(cargo_bin("rails-bench"));
        command.args(["serve", "--exclusive", "--insecure", "--listen", &listen.join(",")]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("util-linux is there");
        let said = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        Self { child, said }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it listens; gives its last words if it ends instead, as it has to with exit code
    /// 1.
    fn outcome(&mut self) -> Result<(), String> {
        let mut words = String::new();
        for line in self.said.by_ref() {
            let line = line.expect("it is text");
            if line.starts_with("listening on ") {
                return Ok(());
            }
            words += &format!("{line}\n");
        }
        assert_eq!(self.child.wait().expect("it was started").code(), Some(1), "{words}");
        Err(words)
    }

    /// Ends it by SIGKILL.
    fn kill(&mut self) {
        self.child.kill().expect("it is ours");
        self.child.wait().expect("it was started");
    }
}

impl Drop for Claimant {
    fn drop(&mut self) {
        // A process that has ended is not there to be ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The CPUs of node 1.
fn node_1(topology: &Topology) -> CpuSet {
    let node = topology.nodes().iter().find(|node| node.id == NodeId(1));
    node.expect("the guest has two nodes").cpus.clone()
}

fn cores_of(topology: &Topology, cpus: &CpuSet) -> usize {
    topology.cores().iter().filter(|core| core.cpus.intersects(cpus)).count()
}

/// The claimed CPUs of each process, as `rails-bench rails` lists them.
fn listed() -> BTreeMap<u32, CpuSet> {
    let holders = json(&output(rails_bench(None, &["rails", "--json"])));
    let holder = |holder: &Value| {
        assert!(holder["command"].as_str().expect("root sees it").contains("serve --exclusive"), "{holder}");
        let pid = holder["pid"].as_u64().expect("it is in this PID namespace").try_into().expect("it is a PID");
        (pid, holder["holds"]["cpus"].as_str().expect("a list").parse().expect("a list"))
    };
    holders["holders"].as_array().expect("a list").iter().map(holder).collect()
}

/// Starts that many processes at once, and checks which of them got which cores. Gives the winners.
fn compete(node: &CpuSet, cores: usize, claimants: usize, rails: usize) -> Vec<Claimant> {
    let mut claimants: Vec<Claimant> = (0..claimants).map(|_| Claimant::start(node, rails)).collect();
    let outcomes: Vec<Result<(), String>> = claimants.iter_mut().map(Claimant::outcome).collect();
    let holders = listed();
    let mut winners = Vec::new();
    let mut losers = Vec::new();
    for (claimant, outcome) in claimants.into_iter().zip(outcomes) {
        match outcome {
            Ok(()) => winners.push(claimant),
            Err(words) => losers.push(words),
        }
    }
    assert_eq!(winners.len() * rails, cores, "as many rails as there are cores: {holders:?} {losers:?}");
    assert!(winners.iter().map(Claimant::pid).eq(holders.keys().copied()), "{holders:?}");
    let mut owned = CpuSet::new();
    for cpus in holders.values() {
        assert!(!cpus.intersects(&owned), "a core has two owners: {holders:?}");
        owned = owned.union(cpus);
    }
    assert_eq!(&owned, node, "{holders:?}");
    for words in &losers {
        for (pid, cpus) in &holders {
            let (named, plural) = (format!("process {pid} (`"), if cpus.len() == 1 { "" } else { "s" });
            assert!(words.contains(&named) && words.contains("serve --exclusive --insecure"), "{words}");
            assert!(words.contains(&format!("which holds CPU{plural} {cpus}")), "{words}");
        }
    }
    winners
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_processes_compete_for_cores_of_node_1() {
    guest::require();
    let topology = Topology::detect().expect("a machine");
    let node = node_1(&topology);
    let cores = cores_of(&topology, &node);
    for round in 0..ROUNDS {
        // One core each, and one process too many; then all cores each.
        for (claimants, rails) in [(cores + 1, 1), (2, cores)] {
            let mut winners = compete(&node, cores, claimants, rails);
            let mut killed = winners.pop().expect("there is one");
            let held = listed().remove(&killed.pid()).expect("it lives");
            killed.kill();
            let free = node.difference(Claims::machine().taken().expect("it can be read").cpus());
            assert_eq!(free, held, "round {round}: the kernel lets go of them with the process");
            assert!(!listed().contains_key(&killed.pid()));
            let mut next = Claimant::start(&node, rails);
            assert_eq!(next.outcome(), Ok(()), "round {round}: they are free");
            assert_eq!(listed().get(&next.pid()), Some(&held));
        }
        assert!(listed().is_empty(), "round {round}");
    }
}

/// A process that plans one exclusive rail on node 1 and builds it, each time that the test asks
/// for it.
struct Planner {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Planner {
    fn start(node: &CpuSet) -> Self {
        let mut command = Command::new("taskset");
        command.args(["-c", &node.to_string()]).arg(env::current_exe().expect("it is running"));
        command.args(["--exact", "--ignored", "--nocapture", "claims::guest_last_core_goes_to_one_of_two_planners"]);
        command.env(PLANNER, "1").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("util-linux is there");
        let said = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let mut planner = Self { child, said };
        assert_eq!(planner.answer(), "ready");
        planner
    }

    fn tell(&mut self, what: &str) {
        writeln!(self.child.stdin.as_ref().expect("it is piped"), "{what}").expect("it lives");
    }

    fn answer(&mut self) -> String {
        // The test harness says something too, also in the line of the first answer.
        let mut lines = self.said.by_ref().map(|line| line.expect("it is text"));
        let line = lines.find(|line| line.contains(MARK)).expect("it lives");
        line.split_once(MARK).expect("it was found").1.to_owned()
    }
}

impl Drop for Planner {
    fn drop(&mut self) {
        // A process that has ended is not there to be ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The planner's part.
fn be_a_planner() -> ! {
    let topology = Topology::detect().expect("a machine");
    let mut rails = None;
    say("ready");
    for line in std::io::stdin().lines().map_while(Result::ok) {
        match line.as_str() {
            "build" => match plan_and_build(&topology) {
                Ok((cpus, built)) => {
                    rails = Some(built);
                    say(&format!("has {cpus}"));
                }
                Err(error) => say(&error),
            },
            "drop" => {
                drop(rails.take());
                say("dropped");
            }
            other => panic!("no such command: `{other}`"),
        }
    }
    std::process::exit(0);
}

/// One exclusive rail on cores that no process has claimed, and its CPUs.
fn plan_and_build(topology: &Topology) -> Result<(CpuSet, Rails), String> {
    let mut request = RailRequest::loopback(1);
    request.exclusive = true;
    request.claimed = Claims::machine().taken().expect("it can be read");
    let plan = match plan_rails(topology, &request) {
        Ok(plan) => plan,
        Err(PlanError::TooFewCores { .. }) => return Err(PLANNED_NONE.to_owned()),
        Err(error) => panic!("{error}"),
    };
    match Rails::build(&plan) {
        Ok(rails) => Ok((plan.rails[0].exclusive_cpus.clone(), rails)),
        Err(RuntimeError::Claim(error @ ClaimError::Held { .. })) => Err(error.to_string()),
        Err(error) => panic!("{error}"),
    }
}

fn say(answer: &str) {
    println!("{MARK}{answer}");
    std::io::stdout().flush().expect("somebody reads");
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_last_core_goes_to_one_of_two_planners() {
    guest::require();
    if env::var_os(PLANNER).is_some() {
        be_a_planner();
    }
    let topology = Topology::detect().expect("a machine");
    let node = node_1(&topology);
    let last = topology.cores().iter().rfind(|core| core.cpus.intersects(&node)).expect("it has cores").cpus.clone();
    let others = Claims::machine().claim(node.difference(&last).iter().map(Resource::Cpu)).expect("they are free");
    let mut planners = [Planner::start(&node), Planner::start(&node)];
    let (mut won, mut planned_none) = ([0, 0], 0);
    for _ in 0..RACES {
        planners.iter_mut().for_each(|planner| planner.tell("build"));
        let answers = [0, 1].map(|planner: usize| planners[planner].answer());
        let has = |planner: usize| answers[planner] == format!("has {last}");
        assert_ne!(has(0), has(1), "one of them has it: {answers:?}");
        let winner = usize::from(has(1));
        won[winner] += 1;
        let lost = &answers[1 - winner];
        if lost == PLANNED_NONE {
            planned_none += 1;
        } else {
            let (cpu, pid) = (last.first().expect("it has a CPU"), planners[winner].child.id());
            assert!(lost.starts_with(&format!("CPU {cpu} is held by process {pid} (`")), "{lost}");
            assert!(lost.contains("guest_last_core_goes_to_one_of_two_planners"), "{lost}");
        }
        for planner in &mut planners {
            planner.tell("drop");
            assert_eq!(planner.answer(), "dropped");
        }
    }
    println!("won by each: {won:?}; {planned_none} of the losers saw the core claimed before they planned");
    assert_eq!(Claims::machine().taken().expect("it can be read").cpus(), others.resources().cpus());
}

/// Each starts seven processes, which takes seconds in an emulated machine.
const ROUNDS: usize = 2;
const RACES: usize = 100;
const PLANNED_NONE: &str = "planned none";
const PLANNER: &str = "RAILS_TEST_PLANNER";
const MARK: &str = "planner: ";
