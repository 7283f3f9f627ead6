use super::*;
use proptest::prelude::*;

fn interface(name: &str) -> InterfaceName {
    name.parse().expect("a name")
}

fn tid(number: u32) -> Tid {
    Tid::from_raw(number as i32).expect("above zero")
}

fn settings() -> impl Strategy<Value = Setting> {
    let at = ("[a-z0-9.-]{1,15}", 0..64_u32)
        .prop_filter_map("no name", |(name, queue)| Some((name.parse::<InterfaceName>().ok()?, queue)));
    (0..8, 1..5000_u32, at).prop_map(|(kind, interrupt, (interface, queue))| match kind {
        0 => Setting::InterruptAffinity { interrupt },
        1 => Setting::ReceiveSteering { interface, queue },
        2 => Setting::ReceiveFlows { interface, queue },
        3 => Setting::TransmitSteering { interface, queue },
        4 => Setting::ThreadedNapi { interface },
        5 => Setting::ThreadAffinity { thread: tid(interrupt), started_ns: queue.into() },
        6 => Setting::ProcessMemory { process: tid(interrupt), started_ns: queue.into() },
        _ => Setting::FlowTable,
    })
}

#[test]
fn name_that_would_lead_elsewhere_is_no_interface() {
    for name in ["", ".", "..", "../irq", "a/b", "eth0:1", "a b", "sixteen-bytes-00", "a\nb"] {
        assert!(name.parse::<InterfaceName>().is_err(), "{name:?}");
        assert!(serde_json::from_value::<InterfaceName>(serde_json::json!(name)).is_err(), "{name:?}");
    }
    assert_eq!(interface("enp175s0f0np0").as_str(), "enp175s0f0np0");
}

#[test]
fn change_reads_as_the_command_that_makes_it() {
    let cpus: CpuSet = "2-3,33".parse().expect("a list");
    assert_eq!(Change::interrupt(24, cpus.clone()).command(), "echo 2-3,33 > /proc/irq/24/smp_affinity_list");
    let setting = Setting::ReceiveSteering { interface: interface("eth0"), queue: 1 };
    let steer = Change { setting, value: Value::Cpus(cpus) };
    assert_eq!(steer.command(), "echo 2,0000000c > /sys/class/net/eth0/queues/rx-1/rps_cpus");
    let off = Change { setting: Setting::FlowTable, value: Value::Number(0) };
    assert_eq!(off.command(), "echo 0 > /proc/sys/net/core/rps_sock_flow_entries");
    let setting = Setting::ThreadAffinity { thread: tid(77), started_ns: 1 };
    let bind = Change { setting, value: Value::Cpus("2-3".parse().expect("a list")) };
    assert_eq!(bind.command(), "taskset -pc 2-3 77");
}

#[test]
fn name_that_a_shell_would_heed_is_quoted() {
    for (name, quoted) in [("a;reboot", "'a;reboot'"), ("$(id)", "'$(id)'"), ("it's", r"'it'\''s'")] {
        let setting = Setting::ThreadedNapi { interface: interface(name) };
        let command = Change { setting, value: Value::Number(1) }.command();
        let word = command.strip_prefix("echo 1 > ").expect("it writes");
        assert_eq!(word.replace("/sys/class/net/", "").replace("/threaded", ""), quoted);
    }
}

proptest! {
    #[test]
    fn any_setting_survives_its_record(
        setting in settings(),
        numbers in proptest::collection::btree_set(0_u32..9000, 1..20),
        number: u32,
    ) {
        let cpus: CpuSet = numbers.into_iter().map(rails_topo::CpuId).collect();
        let nodes: NodeSet = cpus.iter().map(|cpu| rails_topo::NodeId(cpu.0)).collect();
        let (right, wrong) = match setting.form() {
            Form::CpuList | Form::CpuMask => (Value::Cpus(cpus), Value::Nodes(nodes)),
            Form::NodeList => (Value::Nodes(nodes), Value::Number(number)),
            Form::Number => (Value::Number(number), Value::Cpus(cpus)),
        };
        let text = setting.text(&right).expect("it is of the right kind");
        prop_assert_eq!(setting.parse(&text), Some(right));
        prop_assert_eq!(setting.text(&wrong), None);
    }

    #[test]
    fn path_stays_where_settings_are(setting in settings()) {
        let path = setting.path().unwrap_or("proc/irq/0".to_owned());
        prop_assert!(path.starts_with("proc/irq/") || path.starts_with("proc/sys/net/core/") || path.starts_with("sys/class/net/"));
        prop_assert!(path.split('/').all(|part| !part.is_empty() && part != "." && part != ".."));
        let json = serde_json::to_string(&setting).expect("it serializes");
        prop_assert_eq!(serde_json::from_str::<Setting>(&json).expect("it is read back"), setting);
    }

    #[test]
    fn no_text_makes_a_setting_panic(setting in settings(), text in "\\PC{0,40}") {
        let _ = setting.parse(&text);
    }
}
