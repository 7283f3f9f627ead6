//! Plans as JSON, of this version and of others.

use crate::{changed, cpus, nic, planned, planned_with, served_by, two_packages};
use rails_multirail::{
    RailId, RailPlan, RailRequest, plan_rails,
    planner::{Binding, Capacity, RailWish, Which},
};
use rails_topo::{Bandwidth, CpuId, Nic};
use serde_json::{Value, json};

fn read(json: &Value) -> Result<RailPlan, serde_json::Error> {
    serde_json::from_str(&json.to_string())
}

/// A plan of a version that knew neither bindings nor capacities.
fn early() -> Value {
    json!({
        "rails": [{
            "id": 0, "interface": "eth0", "address": "10.0.0.1", "end": { "device": "eth0" }, "cpu": 8, "node": 1,
            "reasons": ["lane eth0"]
        }],
        "notes": ["a note"]
    })
}

#[test]
fn plan_without_later_fields() {
    let end = serde_json::to_value(&planned(&two_packages(vec![nic("eth0", 1, 10, "10.0.0.1")]), "eth0").rails[0].end);
    let mut json = early();
    json["rails"][0]["end"] = end.unwrap();
    let plan = read(&json).unwrap();
    let rail = &plan.rails[0];
    assert_eq!((rail.id, rail.cpu, rail.bound_cpu()), (RailId(0), CpuId(8), Some(CpuId(8))));
    assert_eq!((&rail.binding, &rail.capacity), (&Binding::AFFINE, &Capacity::default()));
    assert!(rail.task_cpus.is_empty() && rail.exclusive_cpus.is_empty() && rail.rejected_cpus.is_empty());
    assert_eq!((&plan.expected, plan.notes.as_slice()), (&None, ["a note".to_owned()].as_slice()));
    assert!(plan.to_string().contains("rail 0  eth0 10.0.0.1            cpu 8    node 1"), "{plan}");
}

#[test]
fn required_binding_in_a_plan() {
    let machine = two_packages(vec![nic("eth0", 1, 10, "10.0.0.1")]);
    let plan = |request: &str, is_required: bool| {
        let mut request: RailRequest = request.parse().unwrap();
        request.requires_placement = is_required;
        let plan = plan_rails(&machine, &request).unwrap();
        let json = serde_json::to_value(&plan).unwrap();
        assert_eq!(read(&json).unwrap(), plan);
        json["rails"][0]["binding"].clone()
    };
    assert_eq!(plan("eth0", false), json!("affine"));
    assert_eq!(plan("eth0", true), json!({ "required": "affine" }));
    assert_eq!(plan("eth0@8", true), json!({ "required": { "explicit": { "cpus": "8", "node": null } } }));
    let mut wish: RailWish = "eth0".parse().unwrap();
    wish.binding = wish.binding.required();
    let plan = plan_rails(&machine, &RailRequest::new(Which::Listed(vec![wish]))).unwrap();
    assert!(plan.rails[0].binding.required);
}

#[test]
fn plan_with_fields_of_a_later_version() {
    let machine = two_packages(vec![nic("eth0", 1, 10, "10.0.0.1")]);
    let plan = planned(&machine, "eth0+cores:2@8-15/1");
    let mut json = serde_json::to_value(&plan).unwrap();
    json["later"] = json!(1);
    json["rails"][0]["later"] = json!({ "a": [] });
    json["expected"]["later"] = json!("x");
    assert_eq!(read(&json).unwrap(), plan);
}

#[test]
fn plan_that_is_damaged() {
    let plan = planned(&two_packages(vec![nic("eth0", 1, 10, "10.0.0.1")]), "eth0");
    for (field, value) in [
        ("cpu", json!(-1)),
        ("cpu", json!(u32::MAX)),
        ("task_cpus", json!("3-1")),
        ("binding", json!("x")),
        ("node", json!("a")),
        ("node", json!(u32::MAX)),
    ] {
        let mut json = serde_json::to_value(&plan).unwrap();
        json["rails"][0][field] = value;
        assert!(read(&json).is_err(), "{field}");
    }
}

#[test]
fn plans_of_extremes_survive_json() {
    let fast = Nic { speed: Some(Bandwidth::bits_per_second(u64::MAX - 1)), ..nic("eth0", 1, 10, "10.0.0.1") };
    let machine = two_packages(vec![served_by(fast, "13"), nic("eth1", 0, 10, "10.0.1.1")]);
    let exclusive = planned_with(&machine, "eth0+cores:2@8-15/1,eth1", |request| {
        (request.exclusive, request.claimed) = (true, cpus("0").into());
    });
    let empty = changed(&machine, |json| json["nodes"] = json!([]));
    let plans = [
        exclusive.unwrap(),
        planned(&machine, "eth0@default"),
        planned(&machine, "cores:3"),
        planned(&empty, "eth0,eth0"),
    ];
    for plan in plans {
        assert_eq!(read(&serde_json::to_value(&plan).unwrap()).unwrap(), plan);
    }
}
