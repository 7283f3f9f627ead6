//! What is read is what the file has.

use crate::util::{Data, Node, SHAPE, done, element, run, stderr};
use rails_array::{Region, Shape};
use std::fs;

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|element| f32::from_le_bytes(element.try_into().unwrap())).collect()
}

/// The elements of `u[5:30:2, 1, 100:400]`.
fn expected() -> Vec<f32> {
    (5..30).step_by(2).flat_map(|time| (100..400).map(move |longitude| element(time, 1, longitude))).collect()
}

#[test]
fn a_box_comes_over_a_link_as_raw_elements() {
    let data = Data::new();
    let node = Node::start(&data.text("wind.nc"), &[]);
    let output = run(["get", &node.dataset("wind"), "--box", "u[5:30:2, 1, 100:400]", "-o", "-"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(floats(&output.stdout), expected());
    assert_eq!(stderr(&output), "");
    // Slab by slab, because a quarter of the memory is less than all of it.
    let target = data.text("all.raw");
    done(["get", &node.dataset("wind"), "--box", "u[...]", "-o", &target, "--memory", "4MiB"]);
    let all = (0..SHAPE[0])
        .flat_map(|time| (0..SHAPE[1]).flat_map(move |level| (0..SHAPE[2]).map(move |at| element(time, level, at))));
    assert_eq!(floats(&fs::read(target).unwrap()), all.collect::<Vec<f32>>());
}

#[test]
fn a_file_of_netcdf_has_coordinates_and_attributes() {
    let data = Data::new();
    let node = Node::start(&data.text("wind.nc"), &[]);
    let target = data.text("part.nc");
    done(["get", &node.dataset("wind"), "--box", "u[5:30:2, 1, 100:400]", "-o", &target]);
    let described = done(["describe", &target]);
    for line in [
        "\ttime = 13 ;",
        "\tlongitude = 300 ;",
        "\tfloat u(time, longitude) ;",
        "\t\tu:units = \"m/s\" ;",
        "\t\ttime:units = \"hours since 1979-01-01\" ;",
        "\t\t:title = \"a \\\"wind\\\"\" ;",
        "\tshort level ;",
    ] {
        assert!(described.contains(line), "{described}");
    }
    let part = run(["get", &target, "--box", "u[...]", "-o", "-"]);
    assert_eq!(floats(&part.stdout), expected(), "{}", stderr(&part));
    let times = run(["get", &target, "--box", "time[:]", "-o", "-"]).stdout;
    let expected: Vec<u8> = (5..30).step_by(2).flat_map(|time| (f64::from(time) * 6.0).to_le_bytes()).collect();
    assert_eq!(times, expected);
    assert_eq!(run(["get", &target, "--box", "level[]", "-o", "-"]).stdout, 500_i16.to_le_bytes());
}

#[test]
fn numpys_format_has_the_shape() {
    let data = Data::new();
    let target = data.text("part.npy");
    done(["get", &data.text("wind.nc"), "--box", "u[5:30:2, 1, 100:400]", "-o", &target]);
    let bytes = fs::read(target).unwrap();
    let text = String::from_utf8_lossy(&bytes[..128]);
    assert!(text.contains("'descr': '<f4', 'fortran_order': False, 'shape': (13, 300)"), "{text}");
    assert_eq!(floats(&bytes[128..]), expected());
}

#[test]
fn a_read_is_explained() {
    let data = Data::new();
    let box_ = "u[0:2, 1, 0:10]";
    let explained = done(["explain", &data.text("wind.nc"), "--box", box_, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&explained).unwrap();
    assert_eq!((json["wanted_bytes"].as_u64(), json["array"].as_str()), (Some(80), Some("u")));
    let blocks = json["blocks"].as_array().unwrap();
    let extents = |region: &serde_json::Value, key: &str| -> Vec<u64> {
        region[key].as_array().unwrap().iter().map(|extent| extent.as_u64().unwrap()).collect()
    };
    let wanted = Region::new([0, 1, 0], Shape::new([2, 1, 10]).unwrap()).unwrap();
    let parts = blocks.iter().map(|block| {
        let region = Region::new(extents(block, "start"), Shape::new(extents(block, "shape")).unwrap()).unwrap();
        region.intersection(&wanted).map_or(0, |part| part.elements())
    });
    assert_eq!(parts.sum::<u64>(), wanted.elements());
    assert!(done(["explain", &data.text("wind.nc"), "--box", box_, "--blocks"]).lines().count() >= 4 + blocks.len());
}
