//! Recorded programs, and their replays.

use crate::util::{Data, Node, SHAPE, done, lram, run, stderr};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use std::{fs, thread::sleep, time::Duration};

/// Records `get` of a box at a node.
fn record(data: &Data, selection: &str, more: &[&str]) -> String {
    let node = Node::start(&data.text("wind.nc"), &[]);
    let (trace, output) = (data.text("run.trace"), data.text("part.raw"));
    let lram = assert_cmd::cargo::cargo_bin("lram");
    let program = [lram.to_str().unwrap(), "get", &node.dataset("wind"), "--box", selection, "-o", &output, "--force"];
    done(["trace", "record", "-o", &trace].into_iter().chain(more.iter().copied()).chain(["--"]).chain(program));
    trace
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("it is JSON")
}

#[test]
fn a_program_is_recorded_and_replayed() {
    let data = Data::new();
    let trace = record(&data, "u[:, 1]", &[]);
    let lines: Vec<Value> = fs::read_to_string(&trace).unwrap().lines().map(json).collect();
    let kinds: Vec<&String> = lines.iter().map(|line| line.as_object().unwrap().keys().next().unwrap()).collect();
    assert_eq!((kinds[0].as_str(), kinds[kinds.len() - 1].as_str()), ("trace", "end"), "{kinds:?}");
    let replayed = json(&done(["trace", "replay", &trace, "--json"]));
    assert_eq!(replayed["reads"], lines.iter().filter(|line| line.get("read").is_some()).count());
    assert_eq!(replayed["replayed"]["wanted_bytes"], SHAPE[0] * SHAPE[2] * 4);
    let count = |of: &Value| ["hits", "ahead_hits", "late_ahead", "misses"].map(|name| of[name].as_u64().unwrap());
    let (then, now) = (count(&replayed["recorded"]), count(&replayed["replayed"]));
    assert_eq!(then.iter().sum::<u64>(), now.iter().sum::<u64>(), "{replayed}");
    assert_eq!(json(&done(["trace", "replay", &trace, "--json"])), replayed);
    let text = done(["trace", "replay", &trace, "--block-shape", "u=1x3x500", "--rtt", "50ms", "--rate", "10mbit"]);
    assert!(text.contains("blocks 1x3x500") && text.contains("a round trip of 50.00 ms, 10 Mbit/s"), "{text}");
    let slow =
        ["trace", "replay", &trace, "--json", "--rtt", "100ms", "--rate", "1gbit", "--no-prefetch", "--no-views"];
    let slow = json(&done(slow.into_iter().chain(["--policy", "mru", "--memory", "8MiB", "--block-shape", "1,3,500"])));
    assert_eq!((&slow["setting"]["policy"], &slow["setting"]["prefetch"]), (&Value::from("mru"), &Value::from(false)));
    assert_eq!((&slow["replayed"]["misses"], &slow["replayed"]["path_bytes"]), (&40.into(), &(40 * 6000).into()));
}

#[test]
fn advice_names_what_to_change() {
    let data = Data::new();
    let trace = record(&data, "u[:, 1, 7]", &[]);
    // On a path where bytes take long, the 500 elements beside each that is read are what costs.
    let path = ["--rtt", "1ms", "--rate", "100kbit"];
    let advice = done(["advise", &trace].into_iter().chain(path));
    assert!(advice.contains("block_shape = [") && advice.contains("for the array `u`"), "{advice}");
    let advice = json(&done(["advise", &trace, "--json", "--memory", "8MiB"].into_iter().chain(path)));
    assert_eq!((&advice["is_better"], &advice["memories"][0]["memory_bytes"]), (&true.into(), &(8 << 20).into()));
    assert!(advice["best"]["gain"].as_f64().unwrap() > 0.5, "{advice}");
    // A single read that is a whole round trip cannot be better.
    let advice = done(["advise", &trace, "--rtt", "500ms", "--rate", "100gbit"]);
    assert!(advice.contains("With the same memory nothing is better by 5 %"), "{advice}");
}

#[test]
fn the_program_is_as_if_it_were_run_alone() {
    let data = Data::new();
    let trace = data.text("run.trace");
    let shell = |script: &str| run(["trace", "record", "-o", &trace, "--", "sh", "-c", script]);
    let output = shell("echo \"$LRAM_TRACE\"; exit 7");
    assert_eq!((output.status.code(), output.stdout), (Some(7), format!("{trace}\n").into_bytes()));
    assert!(!data.path("run.trace").exists(), "nothing was read");
    let mut sleeping = lram(["trace", "record", "-o", &trace, "--", "sleep", "600"]).spawn().unwrap();
    let name = format!("/proc/{}/comm", sleeping.id());
    while fs::read_to_string(&name).unwrap() != "sleep\n" {
        assert!(sleeping.try_wait().unwrap().is_none(), "it has ended");
        sleep(Duration::from_millis(1));
    }
    kill(Pid::from_raw(sleeping.id() as i32), Signal::SIGTERM).unwrap();
    let ended = sleeping.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended), Some(Signal::SIGTERM as i32));
    let missing = run(["trace", "record", "-o", &trace, "--", "/no/such/program"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(stderr(&missing).contains("cannot run /no/such/program"), "{}", stderr(&missing));
}

#[test]
fn each_process_has_a_trace_of_its_own() {
    let data = Data::new();
    let (trace, wind) = (data.text("run.trace"), data.text("wind.nc"));
    let lram = assert_cmd::cargo::cargo_bin("lram");
    let get = format!("'{}' get '{wind}' --box 'u[3]' -o - >/dev/null", lram.display());
    let script = format!("{get} & {get} & wait");
    done(["trace", "record", "-o", &trace, "--", "sh", "-c", &script]);
    for name in ["run.trace", "run.trace.2"] {
        assert_eq!(json(&done(["trace", "replay", &data.text(name), "--json"]))["reads"], 1);
    }
    let again = run(["trace", "record", "-o", &trace, "--", "true"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(stderr(&again).contains("the file is there already\nhelp: --force replaces it"), "{}", stderr(&again));
    done(["trace", "record", "-o", &trace, "--force", "--", "true"]);
    assert_eq!(data.names(), ["wind.nc"]);
}

#[test]
fn files_that_are_no_traces_are_refused() {
    let data = Data::new();
    let trace = record(&data, "u[0:3]", &[]);
    let whole = fs::read_to_string(&trace).unwrap();
    let refused = |text: &str, words: &str| {
        fs::write(&trace, text).unwrap();
        for command in [&["trace", "replay", &trace][..], &["advise", &trace]] {
            let output = run(command.iter().copied());
            assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
            let error = stderr(&output);
            assert!(error.contains(&format!("{trace}: {words}")), "{error} for {words}");
        }
    };
    refused("CDF", "the file ends without a line `trace`");
    refused("CDF\n", "line 1: it is no line of a trace");
    refused(&whole.replace("u\",\"shape\":[40,", "u\",\"shape\":[2,"), "line 3: ");
    let unread = whole.lines().filter(|line| !line.starts_with("{\"read\"")).map(|line| format!("{line}\n"));
    refused(&unread.collect::<String>(), "it has no read");
    let (body, _) = whole.trim_end().rsplit_once('\n').unwrap();
    fs::write(&trace, format!("{body}\n{{\"end\":")).unwrap();
    let output = run(["trace", "replay", &trace]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("the last line is cut") && stderr(&output).contains("ended at once"));
    for (args, code, words) in [
        (&["--block-shape", "v=1x3x500"][..], 2, "it does not say which array"),
        (&["--block-shape", "1xax500"], 2, "an extent is no number"),
        (&["--block-shape", "1x3"], 1, "the blocks do not divide the array `u`"),
        (&["--memory", "1MiB"], 1, "and not 1 MiB"),
        (&["--policy", "fifo"], 2, "`fifo` is no policy"),
        (&["--rtt", "2000000s"], 2, "more than an hour"),
    ] {
        let output = run(["trace", "replay", &trace].into_iter().chain(args.iter().copied()));
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
}
