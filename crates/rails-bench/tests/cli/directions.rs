//! Measurements from the peer and both ways, their reports at intervals, and their ends by a
//! signal.

use crate::util::{Killed, finish, interrupt, rails_bench, start, wait_for};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader},
    process::Child,
    sync::mpsc,
};

/// A `serve` on two loopback rails with these arguments besides, its stderr, and its addresses.
fn serve(more: &[&str]) -> (Child, mpsc::Receiver<String>, String) {
    let args = ["serve", "--listen", "127.0.0.1:0,127.0.0.2:0", "--insecure", "--once", "--json"];
    let (child, lines) = start(rails_bench(args.iter().chain(more).copied()));
    let addresses = wait_for(&lines, "listening on ").trim_start_matches("listening on ").replace(' ', "");
    (child, lines, addresses)
}

/// A `stream` to these addresses with these arguments besides, and its stderr.
fn stream(to: &str, more: &[&str]) -> (Child, mpsc::Receiver<String>) {
    let args = ["stream", "--insecure", "--json", "--to", to];
    start(rails_bench(args.iter().chain(more).copied()))
}

/// The documents of an output of this schema.
fn of_schema(output: &str, schema: &str) -> Vec<Value> {
    let all = output.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line is an object"));
    all.filter(|one| one["schema"] == schema).collect()
}

/// The bytes that the rails of a side carried.
fn carried(side: &Value, direction: &str) -> Vec<u64> {
    let lanes = side["rails"].as_array().unwrap().iter().flat_map(|rail| rail["lanes"].as_array().unwrap());
    lanes.map(|lane| lane[direction].as_u64().unwrap()).collect()
}

#[test]
fn stream_from_the_peer() {
    let (serving, served_lines, to) = serve(&[]);
    let (streaming, lines) = stream(&to, &["--reverse", "--bytes", "20MiB", "--check"]);
    let (code, out, said) = finish(streaming, &lines);
    assert_eq!(code, 0, "{said}");
    let measured = of_schema(&out, "rails-bench.stream");
    let [measured] = &measured[..] else { panic!("{out}") };
    assert_eq!((&measured["bytes"], &measured["bytes_written"]), (&(20 << 20).into(), &(20 << 20).into()));
    assert_eq!((&measured["from_peer"], &measured["wrong_at"]), (&true.into(), &Value::Null));
    assert!(carried(&measured["sender"], "bytes_sent").iter().sum::<u64>() >= 20 << 20, "{measured}");
    assert!(carried(&measured["receiver"], "bytes_received").iter().all(|bytes| *bytes > 0), "{measured}");
    let (code, out, said) = finish(serving, &served_lines);
    assert_eq!(code, 0, "{said}");
    let sent = of_schema(&out, "rails-bench.serve-sent");
    assert_eq!((&sent[0]["bytes_written"], &sent[0]["interrupted"]), (&(20 << 20).into(), &false.into()), "{out}");
}

#[test]
fn streams_both_ways_at_a_time() {
    let (serving, served_lines, to) = serve(&[]);
    let (streaming, lines) = stream(&to, &["--both", "--bytes", "20MiB", "--check"]);
    let (code, out, said) = finish(streaming, &lines);
    assert_eq!(code, 0, "{said}");
    let measured = of_schema(&out, "rails-bench.stream");
    let ways: Vec<&Value> = measured.iter().map(|one| &one["from_peer"]).collect();
    assert_eq!(ways, [&Value::Bool(false), &Value::Bool(true)], "{out}");
    assert!(measured.iter().all(|one| one["bytes"] == 20 << 20), "{out}");
    let (code, out, said) = finish(serving, &served_lines);
    assert_eq!(code, 0, "{said}");
    assert_eq!(of_schema(&out, "rails-bench.serve")[0]["bytes"], 20 << 20, "{out}");
    assert_eq!(of_schema(&out, "rails-bench.serve-sent")[0]["bytes_written"], 20 << 20, "{out}");
}

#[test]
fn results_after_a_signal_to_the_caller() {
    for way in [&[][..], &["--reverse"], &["--both"]] {
        let (serving, served_lines, to) = serve(&[]);
        let args = [&["--seconds", "600", "--interval", "0.1"], way].concat();
        let (mut streaming, lines) = stream(&to, &args);
        let mut out = BufReader::new(streaming.stdout.take().unwrap());
        let mut told = String::new();
        while of_schema(&told, "rails-bench.interval").len() < 2 {
            assert!(out.read_line(&mut told).unwrap() > 0, "{told}");
        }
        interrupt(streaming.id());
        std::io::Read::read_to_string(&mut out, &mut told).unwrap();
        assert_eq!(streaming.wait().unwrap().code(), Some(130), "{way:?}: {told}");
        drop(lines);
        let [first, second] = &of_schema(&told, "rails-bench.interval")[..2] else { panic!("{told}") };
        assert_eq!(first["end_seconds"], second["start_seconds"]);
        assert_eq!(second["lanes"].as_array().unwrap().len(), 2);
        let moved = |direction: &str| second[direction].as_u64().unwrap() > 100_000;
        assert_eq!([moved("bytes_sent"), moved("bytes_received")], [way != ["--reverse"], !way.is_empty()], "{second}");
        let measured = of_schema(&told, "rails-bench.stream");
        assert_eq!(measured.len(), if way == ["--both"] { 2 } else { 1 }, "{told}");
        for one in measured {
            assert_eq!((&one["interrupted"], &one["bytes"]), (&true.into(), &one["bytes_written"]), "{one}");
            assert!(one["bytes"].as_u64().unwrap() > 0, "{one}");
        }
        assert_eq!(finish(serving, &served_lines).0, 0, "the caller ended its measurement in order");
    }
}

#[test]
fn results_after_a_signal_to_the_server() {
    let (serving, served_lines, to) = serve(&["--interval", "0.1"]);
    let mut serving = Killed(serving);
    let (streaming, lines) = stream(&to, &["--seconds", "600", "--both"]);
    let mut out = BufReader::new(serving.0.stdout.take().unwrap());
    let mut told = String::new();
    while of_schema(&told, "rails-bench.interval").len() < 2 {
        assert!(out.read_line(&mut told).unwrap() > 0, "{told}");
    }
    interrupt(serving.0.id());
    std::io::Read::read_to_string(&mut out, &mut told).unwrap();
    assert_eq!(serving.0.wait().unwrap().code(), Some(130), "{told}");
    drop(served_lines);
    for (schema, bytes) in [("rails-bench.serve", "bytes"), ("rails-bench.serve-sent", "bytes_written")] {
        let [served] = &of_schema(&told, schema)[..] else { panic!("{told}") };
        assert_eq!(served["interrupted"], true);
        assert!(served[bytes].as_u64().unwrap() > 100_000 && served["seconds"].as_f64().unwrap() > 0.0, "{served}");
    }
    let (code, _, said) = finish(streaming, &lines);
    assert!(code == 1 && said.contains("a signal ended the command"), "{code} {said}");
}
