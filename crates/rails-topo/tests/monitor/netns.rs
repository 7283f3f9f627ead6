//! Interfaces in a network namespace of their own. Each test starts itself there, by `ip netns
//! exec`, which mounts the namespace's own `/sys`.

use rails_topo::monitor::{Change, Changes, Monitor, MonitorOptions, Update};
use std::{
    env,
    process::{Command, id},
    time::Duration,
};

/// A namespace that is deleted in the end, with its contents.
struct Namespace(String);

impl Namespace {
    fn new(name: &str) -> Self {
        let name = format!("monitor-{name}-{}", id());
        ip(&format!("netns add {name}"));
        Self(name)
    }

    /// Runs the test of this program once more, inside.
    fn run(&self, test: &str) {
        let program = env::current_exe().expect("it is running");
        let output = Command::new("ip")
            .args(["netns", "exec", &self.0])
            .arg(program)
            .args(["--exact", "--ignored", "--nocapture", test])
            .env(INSIDE, "1")
            .output()
            .expect("ip is installed");
        let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        assert!(output.status.success(), "{out}{err}");
        assert!(out.contains("1 passed"), "it did not run there: {out}");
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        ip(&format!("netns del {}", self.0));
    }
}

fn is_inside() -> bool {
    env::var_os(INSIDE).is_some()
}

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().expect("ip is installed");
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The next changes up to the first that is one of these, that one included.
async fn until(changes: &mut Changes, is_it: impl Fn(&Change) -> bool) -> Vec<Change> {
    let mut seen = Vec::new();
    loop {
        let next = tokio::time::timeout(PATIENCE, changes.next()).await;
        let Ok(next) = next else { panic!("the awaited event has not come, but {seen:?}") };
        let update = next.expect("the monitor runs").expect("nothing failed");
        let Update::Change(stamped) = update else { panic!("{update:?}") };
        seen.push(stamped.change.clone());
        if is_it(&stamped.change) {
            return seen;
        }
    }
}

#[test]
#[ignore = "needs root, network namespaces and ip"]
fn netns_life_of_a_link_in_order() {
    if !is_inside() {
        Namespace::new("life").run("netns::netns_life_of_a_link_in_order");
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let monitor = Monitor::start(MonitorOptions::new()).await.expect("this machine can be read");
        let mut changes = monitor.subscribe();
        let mut followed = (**changes.start()).clone();
        let mut next = async |what: &str, is_it: &dyn Fn(&Change) -> bool| {
            ip(what);
            let seen = until(&mut changes, is_it).await;
            seen.iter().for_each(|change| followed.apply(change));
            seen.last().cloned()
        };
        let is_added = |change: &Change| matches!(change, Change::NicAdded { nic } if nic.name == "lane0");
        let added = next("link add lane0 type veth peer name lane1", &is_added).await;
        let Some(Change::NicAdded { nic }) = added else { unreachable!("it was awaited") };
        assert_eq!((nic.up, nic.carrier), (Some(false), None));
        assert!(nic.index.is_some() && nic.mac.is_some() && nic.rx_queues.len() == 1, "{nic:?}");

        next("link set lane1 up", &|change| link(change, "lane1") == Some((Some(false), Some(false)))).await;
        next("link set lane0 up", &|change| link(change, "lane0") == Some((Some(true), Some(true)))).await;
        next(
            "link set lane0 mtu 1400",
            &|change| matches!(change, Change::NicMtu { nic, mtu: Some(1400) } if nic == "lane0"),
        )
        .await;
        let address = |change: &Change| match change {
            Change::NicAddressAdded { nic, address } => {
                Some((true, format!("{nic} {}/{}", address.ip, address.prefix_len)))
            }
            Change::NicAddressRemoved { nic, address } => {
                Some((false, format!("{nic} {}/{}", address.ip, address.prefix_len)))
            }
            _ => None,
        };
        let is_address =
            |change: &Change, added: bool| address(change) == Some((added, "lane0 10.7.7.1/24".to_owned()));
        next("address add 10.7.7.1/24 dev lane0", &|change| is_address(change, true)).await;
        next("address del 10.7.7.1/24 dev lane0", &|change| is_address(change, false)).await;
        next("link set lane0 down", &|change| link(change, "lane0") == Some((Some(false), None))).await;
        next("link set lane0 name rail0", &|change| {
            *change == Change::NicRenamed { from: "lane0".to_owned(), to: "rail0".to_owned() }
        })
        .await;
        next("link del rail0", &|change| *change == Change::NicRemoved { nic: "rail0".to_owned() }).await;
        let names: Vec<&str> = followed.topology.nics().iter().map(|nic| nic.name.as_str()).collect();
        assert!(!names.contains(&"rail0") && !names.contains(&"lane0"), "{names:?}");
    });
}

#[test]
#[ignore = "needs root, network namespaces and ip"]
fn netns_port_leaves_its_bridge() {
    if !is_inside() {
        Namespace::new("bridge").run("netns::netns_port_leaves_its_bridge");
        return;
    }
    for arguments in
        ["link add lane0 type veth peer name lane1", "link add br0 type bridge", "link set lane0 master br0"]
    {
        ip(arguments);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let monitor = Monitor::start(MonitorOptions::new()).await.expect("this machine can be read");
        let mut changes = monitor.subscribe();
        ip("link set lane0 nomaster");
        ip("link set lane0 mtu 1400");
        let seen = until(&mut changes, |change| matches!(change, Change::NicMtu { nic, .. } if nic == "lane0")).await;
        assert!(!seen.iter().any(|change| matches!(change, Change::NicRemoved { .. })), "{seen:?}");
    });
}

fn link(change: &Change, of: &str) -> Option<(Option<bool>, Option<bool>)> {
    match change {
        Change::NicLink { nic, up, carrier } if nic == of => Some((*up, *carrier)),
        _ => None,
    }
}

const INSIDE: &str = "RAILS_MONITOR_INSIDE";

/// How long a change may take where the machine is busy; it is no measurement.
const PATIENCE: Duration = Duration::from_secs(20);
