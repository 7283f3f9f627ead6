use super::*;
use proptest::{collection::vec, prelude::*};
use std::{error::Error, fs, time::Duration};

/// A policy of this text, and of a peer "beta" with these lines.
fn beta(lines: &str) -> Result<Policy, PolicyError> {
    Policy::parse(&format!("listen = [\"[::]:7600\"]\n[[peer]]\nname = \"beta\"\nsecret_file = \"s\"\n{lines}"))
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

#[test]
fn a_policy_with_every_key() {
    let text = r#"
listen = ["0.0.0.0:7600", "udp://host:7600"]
socket = "/run/rails/gate.sock"
socket_mode = "0666"
socket_group = "rails"

[[peer]]
name = "beta"
dial = ["10.99.0.2:7600", "[fe80::1%eth7]:7600", "beta.example:7600"]
secret_file = "beta.secret"
networks = ["10.99.0.0/16", "fd00::/64", "192.0.2.7:443"]
reach = ["127.0.0.1:5432", "10.99.0.2:80,443", "10.0.0.0/24:8000-8100"]
proxy_protocol = ["10.0.0.0/24:8080"]
streams = 7
bytes = "1 MiB"
connections_per_second = 3
answer_within = "1s 500ms"

[[peer]]
name = "gamma"
secret_file = "/etc/rails/gamma.secret"
networks = ["10.99.7.0/24:22", "192.0.2.7:444"]
"#;
    let policy = Policy::parse(text).unwrap();
    assert_eq!(policy.listen, ["0.0.0.0:7600", "udp://host:7600"]);
    assert_eq!(policy.socket.as_deref(), Some(Path::new("/run/rails/gate.sock")));
    assert_eq!((policy.socket_mode, policy.socket_group.as_deref()), (0o666, Some("rails")));
    assert!(policy.encrypt && !Policy::parse(&format!("encrypt = false\n{text}")).unwrap().encrypt);
    let [beta, gamma] = policy.peers() else { panic!("{policy:?}") };
    assert_eq!(beta.dial, ["10.99.0.2:7600", "[fe80::1%eth7]:7600", "beta.example:7600"]);
    assert_eq!(beta.key, PeerKey::Secret("beta.secret".into()));
    assert_eq!(beta.limits, PeerLimits { streams: 7, bytes: 1 << 20, connections_per_second: 3 });
    assert_eq!(beta.answer_within, Duration::from_millis(1500));
    assert_eq!((gamma.limits, gamma.answer_within), (PeerLimits::default(), Duration::from_millis(50)));
    assert_eq!(policy.peer("gamma"), Some(gamma));
    assert_eq!(policy.peer("delta"), None);
    let networks: Vec<_> = policy.networks().map(|(target, peer)| format!("{target} {}", peer.name)).collect();
    let gammas = ["10.99.7.0/24:22 gamma", "192.0.2.7:444 gamma"];
    assert_eq!(networks, [&["10.99.0.0/16:* beta", "[fd00::]/64:* beta", "192.0.2.7:443 beta"][..], &gammas].concat());
    for (destination, name) in [
        ("10.99.1.1:22", Some("beta")),
        ("10.99.7.1:22", Some("gamma")),
        ("[::ffff:10.99.7.1]:22", Some("gamma")),
        ("10.99.7.1:23", Some("beta")),
        ("192.0.2.7:443", Some("beta")),
        ("192.0.2.7:444", Some("gamma")),
        ("192.0.2.7:445", None),
        ("[fd00::7]:1", Some("beta")),
        ("127.0.0.1:22", None),
    ] {
        let route = policy.route(address(destination)).map(|peer| peer.name.as_str());
        assert_eq!(route, name, "{destination}");
    }
    for reachable in ["127.0.0.1:5432", "[::ffff:127.0.0.1]:5432", "0.0.0.0:5432", "10.99.0.2:443", "10.0.0.9:8100"] {
        assert!(beta.may_reach(address(reachable)) && !gamma.may_reach(address(reachable)), "{reachable}");
    }
    for unreachable in ["127.0.0.1:22", "[::ffff:127.0.0.1]:22", "[::1]:5432", "10.99.0.2:81", "10.0.0.9:8101"] {
        assert!(!beta.may_reach(address(unreachable)), "{unreachable}");
    }
    assert!(beta.wants_proxy_header(address("10.0.0.9:8080")) && !beta.wants_proxy_header(address("10.0.0.9:8081")));
}

#[test]
fn wrong_values_with_line_key_and_remedy() {
    for (lines, place, remedy) in [
        ("strems = 7", "line 5, `strems = 7`", "unknown field `strems`, expected one of"),
        ("streams = \"many\"", "line 5, `streams = \"many\"`", "expected u32"),
        ("\n[[peer]]\nsecret_file = \"s\"", "line 6, `[[peer]]`", "missing field `name`"),
        ("[[peer", "line 5, `[[peer`", "]]"),
        ("dial = [\n\"10.0.0.1\"]", "line 6, peer.beta.dial", "write HOST:PORT"),
        ("dial = [\"fd00::1:80\"]", "line 5, peer.beta.dial", "with an IPv6 address in brackets"),
        ("networks = [\n\"10.0.0.0/8\",\n\"10.0.0.1/8\"]", "line 7, peer.beta.networks", "write 10.0.0.0/8"),
        ("reach = [\"10.0.0.0/8\"]", "line 5, peer.beta.reach", "write 10.0.0.0/8:443, or 10.0.0.0/8:*"),
        ("proxy_protocol = [\"::1\"]", "line 5, peer.beta.proxy_protocol", "[::1]:*"),
        ("streams = 0", "line 5, peer.beta.streams", "0 is out of range; take 1 to 1000000"),
        ("connections_per_second = 1000001", "line 5, peer.beta.connections_per_second", "take 1 to 1000000"),
        ("bytes = \"1 parsec\"", "line 5, peer.beta.bytes", "try B, KiB"),
        ("bytes = \"1 KiB\"", "line 5, peer.beta.bytes", "take 64 KiB to 1 TiB"),
        ("answer_within = \"50\"", "line 5, peer.beta.answer_within", "such as 50ms"),
        ("answer_within = \"0s\"", "line 5, peer.beta.answer_within", "take 1ms to 1m"),
        ("pin = \"sha256/aa\"", "line 5, peer.beta.pin", "leave one of them out"),
        ("[[peer]]\nname = \"beta\"\nsecret_file = \"s\"", "line 6, peer.name", "rename one"),
        ("[[peer]]\nname = \"b/c\"\nsecret_file = \"s\"", "line 6, peer.name", "take 1 to 64"),
        ("[[peer]]\nname = \"gamma\"", "line 5, peer.gamma", "add `secret_file`, or `pin`"),
    ] {
        let error = beta(lines).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{place}: ")) && error.contains(remedy), "{lines}: {error}");
    }
}

#[test]
fn wrong_values_at_the_top() {
    let peer = "[[peer]]\nname = \"beta\"\nsecret_file = \"s\"\ndial = [\"b:1\"]";
    for (text, place, remedy) in [
        ("", "line 1, peer", "add a table [[peer]]"),
        ("listen = [\":7600\"]", "line 1, listen", "write HOST:PORT"),
        ("socket_group = \"rails\"", "line 1, socket_group", "no `socket`"),
        ("socket = \"s\"\nsocket_mode = \"0o660\"", "line 2, socket_mode", "such as \"0660\""),
        ("socket = \"s\"\nsocket_mode = \"4755\"", "line 2, socket_mode", "such as \"0660\""),
        ("socket = \"s\"\nsocket_mode = \"+660\"", "line 2, socket_mode", "such as \"0660\""),
        ("certificate = \"c\"", "line 1, certificate", "no `certificate_key`"),
        ("certificate_key = \"c\"", "line 1, certificate_key", "no `certificate`"),
        ("authorities = \"c\"", "line 1, authorities", "no `certificate`"),
    ] {
        let text = if text.is_empty() { String::new() } else { format!("{text}\n{peer}") };
        let error = Policy::parse(&text).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{place}: ")) && error.contains(remedy), "{text}: {error}");
    }
    let error = Policy::parse("[[peer]]\nname = \"beta\"\nsecret_file = \"s\"").unwrap_err().to_string();
    assert!(error.starts_with("line 1, peer.beta.dial: ") && error.contains("add `dial`"), "{error}");
}

#[test]
fn a_destination_through_two_peers_names_both() {
    let gamma =
        "[[peer]]\nname = \"gamma\"\nsecret_file = \"s\"\nnetworks = [\"10.1.0.0/16\",\n\"10.0.0.0/8:443-445\"]";
    let error = beta(&format!("networks = [\"10.0.0.0/8:80,444\"]\n{gamma}")).unwrap_err();
    assert_eq!((error.line, error.key.as_str()), (10, "peer.gamma.networks"));
    let PolicyProblem::Overlap { net, ports, peers } = &error.problem else { panic!("{error}") };
    assert_eq!((net.to_string(), ports.to_string()), ("10.0.0.0/8".to_owned(), "444".to_owned()));
    assert_eq!([peers[0].as_str(), peers[1].as_str()], ["beta", "gamma"]);
    beta(&format!("networks = [\"10.0.0.0/8:80,446\", \"10.0.0.0/8:80\"]\n{gamma}")).unwrap();
}

#[cfg(feature = "tls")]
#[test]
fn a_pin_takes_a_certificate_here_and_authorities_to_listen() {
    let pin = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
    let peer = format!("[[peer]]\nname = \"beta\"\ndial = [\"b:1\"]\npin = \"sha256/{pin}\"");
    let certificate = "certificate = \"c\"\ncertificate_key = \"k\"\n";
    let listen = "listen = [\"a:1\"]\n";
    for (text, remedy) in [
        (peer.clone(), "add `certificate`"),
        (format!("{listen}{certificate}{peer}"), "add `authorities`"),
        (format!("{certificate}{}", peer.replace("47", "")), "no pin"),
    ] {
        let error = Policy::parse(&text).unwrap_err();
        assert!(error.key == "peer.beta.pin" && error.to_string().contains(remedy), "{error}");
    }
    for text in [format!("{certificate}{peer}"), format!("{listen}{certificate}authorities = \"a\"\n{peer}")] {
        let policy = Policy::parse(&text).unwrap();
        assert_eq!(policy.peers()[0].key, PeerKey::Pin(pin.parse().unwrap()));
        assert_eq!(policy.identity.unwrap().key, Path::new("k"));
    }
}

#[cfg(not(feature = "tls"))]
#[test]
fn a_pin_takes_tls() {
    let text = "listen = [\"a:1\"]\n[[peer]]\nname = \"beta\"\npin = \"aa\"";
    assert_eq!(Policy::parse(text).unwrap_err().problem, PolicyProblem::NoTls);
}

#[test]
fn paths_start_at_the_folder_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gate.toml");
    let text = "socket = \"s\"\ncertificate = \"c\"\ncertificate_key = \"/k\"\nlisten = [\"a:1\"]\n\
                [[peer]]\nname = \"b\"\nsecret_file = \"../b\"";
    fs::write(&path, text).unwrap();
    let policy = Policy::read(&path).unwrap();
    assert_eq!(policy.socket, Some(folder.path().join("s")));
    assert_eq!(policy.peers()[0].key, PeerKey::Secret(folder.path().join("../b")));
    let identity = policy.identity.unwrap();
    assert_eq!((identity.certificate, identity.key), (folder.path().join("c"), "/k".into()));
}

#[test]
fn files_that_are_no_policy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gate.toml");
    assert!(matches!(Policy::read(&path), Err(ReadPolicyError::Read { .. })));
    fs::write(&path, b"\xff").unwrap();
    assert!(matches!(Policy::read(&path), Err(ReadPolicyError::NotText { .. })));
    let valid = "listen = [\"a:1\"]\n[[peer]]\nname = \"b\"\nsecret_file = \"b\"\n#";
    for (length, is_read) in [(Policy::MAX_BYTES, true), (Policy::MAX_BYTES + 1, false)] {
        fs::write(&path, format!("{valid}{}", "x".repeat(length - valid.len()))).unwrap();
        match Policy::read(&path) {
            Ok(policy) => assert!(is_read && policy.peers().len() == 1),
            Err(error) => assert!(!is_read && error.source().unwrap().to_string().contains("1048576"), "{error:?}"),
        }
    }
}

proptest! {
    /// Each peer reaches and routes exactly as its own lists have it, however many lists there are.
    #[test]
    fn a_policy_permits_what_its_lists_contain(
        reach in vec(vec(generate::target(), 0..4), 3),
        addresses in vec(generate::address(), 20),
    ) {
        let mut text = "listen = [\"a:1\"]\n".to_owned();
        for (index, targets) in reach.iter().enumerate() {
            let list: Vec<_> = targets.iter().map(|target| format!("{:?}", target.to_string())).collect();
            let list = list.join(", ");
            text += &format!("[[peer]]\nname = \"p{index}\"\nsecret_file = \"s\"\nreach = [{list}]\n");
        }
        let policy = Policy::parse(&text).unwrap();
        for address in addresses {
            for (peer, targets) in policy.peers().iter().zip(&reach) {
                prop_assert_eq!(peer.may_reach(address), targets.iter().any(|target| target.contains(address)));
                prop_assert!(!peer.wants_proxy_header(address));
            }
            prop_assert_eq!(policy.route(address), None);
        }
    }
}
