//! Several redirects, of one cgroup and of cgroups in each other.

use crate::ground::{Answered, Cgroup, Ground, net};
use rails_divert::redirect::Redirect;

/// What programs of a cgroup hear, and who they believe their peer to be.
fn hear(cgroup: &Cgroup) -> Vec<String> {
    cgroup.python(
        "
for host in '192.0.2.1', '198.51.100.1':
    s = create_connection((host, 80))
    print(peer(s), heard(s))
",
    )
}

#[test]
#[ignore = "needs root, network namespaces and cgroup2"]
fn netns_innermost_of_nested_redirects_has_the_first_word() {
    let ground = Ground::new();
    let below = ground.cgroup.below("inner");
    let install = |cgroup: &Cgroup, networks: &[&str], word| {
        let networks: Vec<_> = networks.iter().map(|words| net(words)).collect();
        Answered::new(Redirect::install(&cgroup.folder, &networks, &[]).unwrap(), word)
    };
    let outer = install(&ground.cgroup, &["192.0.2.0/24", "198.51.100.0/24"], "outer");
    let inner = install(&below, &["192.0.2.0/24"], "inner");
    let by_outer = ["192.0.2.1:80 outer 192.0.2.1:80", "198.51.100.1:80 outer 198.51.100.1:80"];
    let by_both = ["192.0.2.1:80 inner 192.0.2.1:80", "198.51.100.1:80 outer 198.51.100.1:80"];
    assert_eq!(hear(&below), by_both);
    assert_eq!(hear(&ground.cgroup), by_outer);
    drop(inner);
    assert_eq!(hear(&below), by_outer);

    // The other way round, the inner one last, and then the outer one is dropped.
    let _inner = install(&below, &["192.0.2.0/24", "198.51.100.0/24"], "inner");
    drop(outer);
    assert_eq!(hear(&below), ["192.0.2.1:80 inner 192.0.2.1:80", "198.51.100.1:80 inner 198.51.100.1:80"]);
}

#[test]
#[ignore = "needs root, network namespaces and cgroup2"]
fn netns_first_of_two_redirects_of_a_cgroup_has_the_first_word() {
    let ground = Ground::new();
    let first = ground.answered(&[net("192.0.2.0/24")]);
    let networks = [net("192.0.2.0/24"), net("198.51.100.0/24")];
    let _second = Answered::new(Redirect::install(&ground.cgroup.folder, &networks, &[]).unwrap(), "second");
    assert_eq!(hear(&ground.cgroup), ["192.0.2.1:80 through 192.0.2.1:80", "198.51.100.1:80 second 198.51.100.1:80"]);
    drop(first);
    assert_eq!(hear(&ground.cgroup), ["192.0.2.1:80 second 192.0.2.1:80", "198.51.100.1:80 second 198.51.100.1:80"]);
}
