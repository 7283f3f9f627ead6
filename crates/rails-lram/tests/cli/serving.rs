//! Nodes that serve, and what they tell of themselves.

use crate::util::{Data, Node, done, lram, run, stderr};
use nix::sys::signal::Signal;
use std::{fs, io};

#[test]
fn datasets_are_listed_and_described() {
    let data = Data::new();
    let node = Node::start(&data.text("wind.nc"), &[]);
    let listed: serde_json::Value = serde_json::from_str(&done(["ls", &node.address, "--json"])).unwrap();
    assert_eq!(listed[0]["name"], "wind");
    assert!(done(["ls", &node.address]).contains("wind"));
    let described = done(["describe", &node.dataset("wind")]);
    assert!(described.contains("\tfloat u(time, level, longitude) ;"), "{described}");
    // The only dataset needs no name.
    let json: serde_json::Value = serde_json::from_str(&done(["describe", &node.address, "--json"])).unwrap();
    assert_eq!(json["arrays"][2]["shape"], serde_json::json!([40, 3, 500]));
    let (code, stdout, _) = node.end(Signal::SIGTERM);
    assert_eq!(code, Some(143));
    assert!(stdout.starts_with("lram://127.0.0.1:") && stdout.contains("/wind  3 arrays, "), "{stdout}");
}

#[test]
fn files_that_are_left_out_are_told() {
    let data = Data::new();
    fs::write(data.path("broken.nc"), b"CDF\x01 and no more").unwrap();
    // Zarr's version 2: numbers, and texts that are not read.
    for (name, data_type) in [("numbers", "<f4"), ("texts", "<U5")] {
        fs::create_dir_all(data.path("mixed.zarr").join(name)).unwrap();
        let array = serde_json::json!({
            "zarr_format": 2, "shape": [3], "chunks": [3], "dtype": data_type, "compressor": null, "fill_value": null,
            "order": "C", "filters": null,
        });
        fs::write(data.path("mixed.zarr").join(name).join(".zarray"), array.to_string()).unwrap();
    }
    fs::write(data.path("mixed.zarr/.zgroup"), r#"{"zarr_format": 2}"#).unwrap();
    let described = run(["describe", &data.text("mixed.zarr")]);
    assert!(String::from_utf8_lossy(&described.stdout).contains("float numbers("));
    assert!(
        stderr(&described).contains("left out: ") && stderr(&described).contains("texts"),
        "{}",
        stderr(&described)
    );
    let folder = data.text("");
    let node = Node::start(&folder, &[]);
    assert!(!done(["ls", &node.address]).contains("broken"));
    let (code, _, stderr) = node.end(Signal::SIGINT);
    assert_eq!(code, Some(130));
    assert!(stderr.contains("left out: ") && stderr.contains("broken.nc"), "{stderr}");
    assert!(stderr.contains("the array `texts`") && stderr.contains("`<U5` is unknown"), "{stderr}");
}

#[test]
fn warm_blocks_are_hits_of_the_node() {
    let data = Data::new();
    let node = Node::start(&data.text("wind.nc"), &[]);
    let address = node.dataset("wind");
    let warmed = done(["warm", &address, "--box", "u[...]"]);
    assert!(warmed.contains(" keeps ") && !warmed.contains(" keeps 0 B"), "{warmed}");
    done(["get", &address, "--box", "u[0:20]", "-o", &data.text("part.raw")]);
    let status: serde_json::Value = serde_json::from_str(&done(["status", &node.address, "--json"])).unwrap();
    let budgets = status[0]["status"]["budgets"].as_array().unwrap();
    assert!(budgets.iter().any(|budget| budget["array"] == "u"), "{status}");
    assert!(done(["status", &node.address]).contains("demand hits"));
    let metrics = done(["status", &node.address, "--prometheus"]);
    assert!(metrics.contains("lram_up{node=\"127.0.0.1:"), "{metrics}");
    // Nobody reads what it prints.
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    assert!(lram(["top", &node.address, "--every", "100ms"]).stdout(writer).status().unwrap().success());
    let looks = done(["top", &node.address, "--every", "100ms", "--count", "2"]);
    assert_eq!(looks.lines().count(), 3, "{looks}");
}

#[test]
fn memory_of_applications_is_told() {
    let data = Data::new();
    let rules = ["--budget", "model-?:wind,min=2MiB,max=8MiB,weight=7", "--budget", "*,policy=mru"];
    let node = Node::start(&data.text("wind.nc"), &rules);
    for application in ["model-1", "other"] {
        let of = ["--application", application, "-o", &data.text(&format!("{application}.raw"))];
        done(["get", &node.dataset("wind"), "--box", "u[0:20]"].into_iter().chain(of));
    }
    let status = done(["status", &node.address]);
    let row = |application| {
        let rows = status.lines().map(str::split_whitespace).map(Iterator::collect::<Vec<_>>);
        rows.into_iter().find(|row| row.first() == Some(&application)).unwrap()[4..].join(" ")
    };
    assert_eq!(row("model-1"), "2 MiB 8 MiB 7", "{status}");
    assert_eq!(row("other"), "0 B 16 MiB 1", "{status}");
    assert!(done(["status", &node.address, "--prometheus"]).contains("lram_budget_min_bytes{"));
}

#[test]
fn a_node_serves_what_another_one_has() {
    let data = Data::new();
    let archive = Node::start(&data.text("wind.nc"), &[]);
    let near = Node::start(&archive.address, &[]);
    let output = run(["get", &near.dataset("wind"), "--box", "u[3, 2, :4]", "-o", "-"]);
    let expected: Vec<u8> = (32_000..32_004).flat_map(|element| (element as f32).to_le_bytes()).collect();
    assert_eq!(output.stdout, expected, "{}", stderr(&output));
}

#[test]
fn a_secret_is_needed_where_the_node_has_one() {
    let data = Data::new();
    let secret = data.text("secret");
    fs::write(&secret, "sixteen bytes or more").unwrap();
    let other = data.text("other");
    fs::write(&other, "sixteen other bytes or more").unwrap();
    let node = Node::start(&data.text("wind.nc"), &["--secret-file", &secret]);
    assert!(done(["ls", &node.address, "--secret-file", &secret]).contains("wind"));
    let mut by_environment = lram(["ls", &node.address]);
    assert!(by_environment.env("RAILS_SECRET", "sixteen bytes or more").status().unwrap().success());
    for refused in [&["--secret-file", &other[..]][..], &[]] {
        let output = run(["ls", &node.address].into_iter().chain(refused.iter().copied()));
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("both ends have the same secret"), "{}", stderr(&output));
    }
}

#[test]
fn files_of_a_folder_become_one_dataset() {
    let data = Data::new();
    for (name, steps) in [("b.nc", "0:25"), ("a.nc", "25:40")] {
        let part = format!("u[{steps}]");
        done(["get", &data.text("wind.nc"), "--box", &part, "-o", &data.text(name)]);
    }
    fs::remove_file(data.path("wind.nc")).unwrap();
    let file = data.text("all.toml");
    let output = run(["import", &data.text(""), "-o", &file]);
    assert!(output.status.success(), "{}", stderr(&output));
    let reasons = stderr(&output);
    assert!(reasons.contains("along `time`") && reasons.contains("`u` is 40x3x500, in blocks of "), "{reasons}");
    assert_eq!(data.names(), ["a.nc", "all.toml", "b.nc"]);
    assert!(fs::read_to_string(&file).unwrap().contains("order = \"listed\""));
    let output = run(["get", &file, "--box", "u[:, 1, 7]", "-o", "-"]);
    let expected: Vec<u8> = (0..40).flat_map(|step| (step as f32 * 10_000.0 + 1007.0).to_le_bytes()).collect();
    assert_eq!(output.stdout, expected, "{}", stderr(&output));
    let again = run(["import", &data.text(""), "-o", &file]);
    assert_eq!(again.status.code(), Some(1));
    assert!(stderr(&again).contains("the file is there already"), "{}", stderr(&again));
    let elsewhere = run(["import", &data.text(""), "-o", "/all.toml"]);
    assert_eq!(elsewhere.status.code(), Some(2), "{}", stderr(&elsewhere));
    let of_file = run(["import", &data.text("a.nc")]);
    assert_eq!(of_file.status.code(), Some(2));
    assert!(stderr(&of_file).contains("it is no folder"), "{}", stderr(&of_file));
}

#[test]
fn the_demo_reads_the_same_near_and_far() {
    let shown = done(["demo", "--compute", "0", "--rtt", "1ms", "--rate", "10gbit"]);
    for case in ["a file of this machine", "a node", "a node, prefetched", "a node, presended"] {
        assert!(shown.contains(case), "{shown}");
    }
}
