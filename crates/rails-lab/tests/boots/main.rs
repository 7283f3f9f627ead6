//! A guest's promises to its owner, each test with boots of its own. Run: `cargo xtask lab boots_`

use rails_lab::guest::{Guest, GuestBuilder, GuestError, GuestStatus};
use std::{
    env, fs,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// A script's output and how it ended.
fn sh(builder: GuestBuilder, script: &str) -> (Vec<u8>, Result<GuestStatus, GuestError>) {
    let mut output = Vec::new();
    let guest = builder.build().unwrap();
    let status = guest.run(["sh", "-c", script], |line| output.extend_from_slice(line));
    (output, status)
}

/// The guest with the kernel of `cargo xtask lab`.
fn guest() -> GuestBuilder {
    match (env::var_os("RAILS_LAB_KERNEL"), env::var_os("RAILS_LAB_MODULES")) {
        (Some(image), Some(modules)) => Guest::builder().kernel(image, modules),
        _ => Guest::builder(),
    }
}

#[test]
#[ignore = "needs QEMU: cargo xtask lab"]
fn boots_long_status_and_output_unchanged() {
    let all_bytes: Vec<u8> = (0..=255).collect();
    let script = r#"printf '%s|' "$PWD" "$A" "$RAILS_GUEST" "$TMPDIR"; echo console >/dev/console; echo err >/dev/stderr
        sleep 1000 & awk 'BEGIN { for (i = 0; i < 256; i++) printf "%c", i }'; exit 42"#;
    let builder = guest().working_directory("/usr").env("A", "it's \"b\"\nc").env("LC_ALL", "C");
    let (output, status) = sh(builder, script);
    assert_eq!(status.unwrap().code(), 42);
    let expected = [b"/usr|it's \"b\"\nc|1|/run|err\n", &all_bytes[..]].concat();
    assert_eq!(String::from_utf8_lossy(&output), String::from_utf8_lossy(&expected));
    assert_eq!(output, expected);
}

#[test]
#[ignore = "needs QEMU: cargo xtask lab"]
fn boots_long_end_with_a_panic_that_is_shown() {
    let (output, status) = sh(guest(), "echo before; echo c > /proc/sysrq-trigger; sleep 100");
    assert_eq!(output, b"before\n");
    let error = status.unwrap_err();
    assert!(matches!(error, GuestError::Panicked { .. }), "{error}");
    assert!(error.to_string().contains("sysrq triggered crash"), "{error}");
}

#[test]
#[ignore = "needs QEMU: cargo xtask lab"]
fn boots_long_end_when_powered_off_from_inside() {
    let (_, status) = sh(guest(), "busybox poweroff -f; sleep 100");
    assert!(matches!(status, Err(GuestError::Lost { .. })), "{status:?}");
}

#[test]
#[ignore = "needs QEMU: cargo xtask lab"]
fn boots_long_end_at_the_time_limit() {
    let (_, status) = sh(guest().time_limit(Duration::from_millis(500)), "true");
    assert!(matches!(status, Err(GuestError::TimedOut { up: false, .. })), "{status:?}");
    let script = "echo started; echo stuck here >/dev/console; sleep 1000";
    let (output, status) = sh(guest().time_limit(Duration::from_secs(45)), script);
    assert_eq!(output, b"started\n");
    let error = status.unwrap_err();
    assert!(matches!(error, GuestError::TimedOut { up: true, .. }), "{error}");
    assert!(error.to_string().contains("stuck here"), "{error}");
    assert_eq!(emulators(std::process::id()), [] as [String; 0]);
}

#[test]
#[ignore = "needs QEMU: cargo xtask lab"]
fn boots_long_have_the_size_that_was_asked_for() {
    let builder = guest().cores_per_node(1).memory_per_node_mib(512);
    let script = "cat /sys/devices/system/node/node*/cpulist; grep -h MemTotal /sys/devices/system/node/node*/meminfo";
    let (output, status) = sh(builder, script);
    assert!(status.unwrap().is_success());
    let text = String::from_utf8(output).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..2], ["0", "1"]);
    for line in &lines[2..4] {
        let kib: u64 = line.split_whitespace().rev().nth(1).unwrap().parse().unwrap();
        assert!((400 * 1024..=512 * 1024).contains(&kib), "{line}");
    }
}

/// The test runs its own binary again for the owner that is to be killed.
#[test]
#[ignore = "needs QEMU: cargo xtask lab"]
fn boots_long_do_not_outlive_a_killed_owner() {
    if env::var_os(OWNER).is_some() {
        let _ = sh(guest(), "sleep 1000");
        panic!("nobody killed the owner");
    }
    for signal in ["-INT", "-KILL"] {
        // In the background of a script SIGINT is ignored, and so it would be by the owner.
        let mut owner = Command::new("env")
            .arg("--default-signal=INT")
            .arg(env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "boots_long_do_not_outlive_a_killed_owner"])
            .env(OWNER, "1")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        wait_until(|| !emulators(owner.id()).is_empty());
        assert!(Command::new("kill").args([signal, &owner.id().to_string()]).status().unwrap().success());
        owner.wait().unwrap();
        wait_until(|| emulators(owner.id()).is_empty());
    }
}

/// The processes whose command line names a guest of this owner.
fn emulators(owner: u32) -> Vec<String> {
    let name = format!("rails-guest-{owner}-");
    let is_ours = |pid: &String| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&name)
    };
    let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    processes.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).filter(is_ours).collect()
}

fn wait_until(done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "it did not happen within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Set in the process that is to be killed.
const OWNER: &str = "RAILS_LAB_TEST_OWNER";
/// A bound against hanging, far above the duration of any step here.
const PATIENCE: Duration = Duration::from_secs(60);
