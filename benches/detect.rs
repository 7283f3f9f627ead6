//! Reading a machine, against `lstopo -f --of xml` on the same input.
//!
//! Run: `cargo bench --bench detect`, with RAILS_CAPTURES=FOLDER for the largest captured tree
//! where that is elsewhere ([`captures`])
//!
//! Three machines: this one, the largest captured tree, and a described one of 192 PUs with a NIC
//! of 129 interrupts ([`machine`]). The trees are in `/dev/shm`. lstopo is a process, whose start
//! is part of its time; the code of rails is measured within this process. `the kernel's files` is
//! the reader that needs no hwloc, `hwloc and the kernel's files` is `Topology::detect`, and `a
//! capture` includes unpacking it.
//!
//! Target: this machine, and the largest captured tree, each within 1.5 times lstopo's time and
//! within 100 ms.

mod machine;

use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main, measurement::WallTime};
use rails::topo::{Capture, Topology};
use rails_lab::captures::{self, Unpacked};
use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

fn detect(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("this machine");
    group.bench_function("hwloc and the kernel's files", |bencher| {
        bencher.iter(|| Topology::detect().expect("it can be read"));
    });
    group.bench_function("the kernel's files", |bencher| {
        bencher.iter(|| Topology::from_sysfs_root("/").expect("it can be read"));
    });
    lstopo(&mut group, None);
    group.finish();

    let folder = tempfile::tempdir_in(MEMORY).expect("there is memory for files");
    machine::write(folder.path());
    tree(criterion, "192 PUs", folder.path());

    match largest() {
        Some(archive) => {
            let unpacked = Unpacked::of(&archive);
            tree(criterion, &archive.file_stem().unwrap_or_default().to_string_lossy(), unpacked.root());
        }
        None => eprintln!("SKIPPED: captured trees; set RAILS_CAPTURES to their folder"),
    }
}

fn tree(criterion: &mut Criterion, name: &str, root: &Path) {
    let capture = root.join("capture.tar.gz");
    Capture::of_folder(root).expect("it is a machine").save(&capture).expect("there is room");
    let mut group = criterion.benchmark_group(name);
    group.sample_size(20);
    group.bench_function("the kernel's files", |bencher| {
        bencher.iter(|| Topology::from_sysfs_root(root).expect("it is a machine"));
    });
    group.bench_function("a capture", |bencher| {
        bencher.iter(|| Topology::from_capture(&capture).expect("it is a machine"));
    });
    lstopo(&mut group, Some(root));
    group.finish();
}

fn lstopo(group: &mut BenchmarkGroup<'_, WallTime>, root: Option<&Path>) {
    let command = || {
        let mut command = Command::new("lstopo");
        command.args(["-f", "--of", "xml", "/dev/null"]).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some(root) = root {
            command.envs([
                ("HWLOC_COMPONENTS", "linux,-x86,stop"),
                ("HWLOC_THISSYSTEM", "0"),
                ("HWLOC_HIDE_ERRORS", "2"),
            ]);
            command.env("HWLOC_FSROOT", root);
        }
        command
    };
    if !command().status().is_ok_and(|status| status.success()) {
        return eprintln!("SKIPPED: lstopo is not there, or failed; install hwloc's programs");
    }
    group.bench_function("lstopo", |bencher| bencher.iter(|| command().status().expect("it runs")));
}

/// The largest archive of a tree, where there are any.
fn largest() -> Option<PathBuf> {
    let archives = captures::folder().is_dir().then(captures::trees)?;
    archives.into_iter().max_by_key(|path| path.metadata().map_or(0, |file| file.len()))
}

/// Files that are in memory.
const MEMORY: &str = "/dev/shm";

criterion_group!(benches, detect);
criterion_main!(benches);
