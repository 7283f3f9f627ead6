//! Without privileges.

use rails_topo::{
    Topology,
    monitor::{Monitor, MonitorOptions},
};

#[tokio::test]
async fn first_snapshot_and_end_of_a_monitor() {
    let monitor = Monitor::start(MonitorOptions::new()).await.expect("this machine can be read");
    let mut changes = monitor.subscribe();
    let known = changes.start().topology.clone();
    let detected = Topology::detect().expect("this machine can be read");
    assert_eq!(known.online_cpus(), detected.online_cpus());
    assert_eq!(known.allowed_cpus(), detected.allowed_cpus());
    assert_eq!(known.allowed_nodes(), detected.allowed_nodes());
    assert_eq!(known.nodes(), detected.nodes());
    assert_eq!(known.cores(), detected.cores());
    drop(monitor);
    // Changes from before the end come first.
    while let Some(update) = changes.next().await {
        update.expect("nothing failed");
    }
}
