//! A pipeline whose stages sit on both nodes: from node 0 to node 1 and back. Every stage looks at
//! its CPU for every item, and the node of every buffer is read in two ways: through move_pages(2),
//! and in `/proc/self/numa_maps`. A source that reads a disk is beside it.

use super::{cpus_of, guest, residency, run};
use rails_bind::{memory::Residency, thread::current_cpu};
use rails_multirail::{
    RailId, RailRequest, Rails,
    pipeline::{
        Buffer, Input, Link, Output, Pipeline, PipelineStats, RunningPipeline, Side, StageFailure,
        file::{FileFrames, Reading},
    },
    plan_rails,
    runtime::RailRuntime,
};
use rails_topo::{CpuId, NodeId, Storage, Topology};
use std::{
    error::Error,
    fs::{self, File},
    io::Write,
    os::unix::fs::FileTypeExt,
    thread,
    time::{Duration, Instant},
};

/// A rail without a lane for the source, the compute stage and the sink: on nodes 0, 1 and 0, each
/// on its own CPU.
fn rails_of_stages() -> Rails {
    let topology = Topology::detect().expect("this machine can be read");
    let [near, far] = [0, 1].map(|node| cpus_of(NodeId(node)));
    let [first, second] = [near.first(), near.last()].map(|cpu| cpu.expect("the node has CPUs"));
    assert_ne!(first, second, "the node has two CPUs");
    let middle = far.first().expect("the node has CPUs");
    let request = format!("cores:1@{first}/0,cores:1@{middle}/1,cores:1@{second}/0");
    let request: RailRequest = request.parse().expect("a request");
    let plan = plan_rails(&topology, &request).expect("it can be planned");
    println!("{plan}");
    let rails = Rails::build(&plan).expect("they need no privilege");
    let planned: Vec<CpuId> = rails.iter().map(|rail| rail.planned().cpu).collect();
    assert_eq!(planned, [first, middle, second]);
    for (rail, node) in rails.iter().zip(NODES) {
        assert_eq!(rail.runtime().placement().memory_node, Ok(node));
        assert!(cpus_of(node).contains(rail.planned().cpu));
    }
    rails
}

/// The place of a stage.
#[derive(Debug, Clone, Copy)]
struct Place {
    cpu: CpuId,
    node: NodeId,
}

impl Place {
    /// Asserts that the calling thread runs there.
    fn check(self) {
        let cpu = current_cpu().expect("the kernel tells it");
        assert_eq!(cpu, self.cpu);
        assert!(cpus_of(self.node).contains(cpu), "CPU {cpu} is not of node {}", self.node);
    }
}

/// A run of the pipeline.
#[derive(Debug, Clone, Copy)]
struct Run {
    /// The side of the buffers of each link.
    sides: [Side; 2],
    items: u64,
    /// A stage that panics, and at which item.
    panics: Option<(&'static str, u64)>,
}

impl Run {
    fn fails(self, stage: &str, item: u64) {
        assert_ne!(self.panics, Some((stage, item)), "{MADE_UP}");
    }

    /// The node of the buffers of a link.
    fn node_of(self, link: usize) -> NodeId {
        match self.sides[link] {
            Side::Producer => NODES[link],
            Side::Consumer => NODES[link + 1],
        }
    }

    fn start(self, rails: &Rails) -> RunningPipeline {
        let runtimes: [&RailRuntime; 3] = std::array::from_fn(|stage| rails[RailId(stage)].runtime());
        let places: [Place; 3] =
            std::array::from_fn(|stage| Place { cpu: rails[RailId(stage)].planned().cpu, node: NODES[stage] });
        let nodes = [0, 1].map(|link| self.node_of(link));
        let [first, second] = self.sides.map(|side| Link::new(2).buffers(side, LENGTH, BUFFERS));
        let pipeline = Pipeline::builder("across the nodes")
            .source("source", runtimes[0], async move |output| source(self, places[0], nodes[0], output).await)
            .stage("compute", runtimes[1], first, async move |input, output| {
                compute(self, places[1], nodes, input, output).await
            })
            .sink("sink", runtimes[2], second, async move |input| sink(self, places[2], nodes[1], input).await);
        pipeline.start().expect("the buffers can be made")
    }
}

type Ended = Result<(), Box<dyn Error + Send + Sync>>;

async fn source(run: Run, place: Place, node: NodeId, mut output: Output<Buffer>) -> Ended {
    all_lie_on(node, &output);
    for item in 0..run.items {
        place.check();
        run.fails("source", item);
        let mut buffer = output.buffer().await?;
        write(item, &mut buffer);
        output.send(buffer).await?;
    }
    all_lie_on(node, &output);
    place.check();
    Ok(())
}

/// Copies each item into a buffer of the next link, upside down.
async fn compute(
    run: Run,
    place: Place,
    nodes: [NodeId; 2],
    mut input: Input<Buffer>,
    mut output: Output<Buffer>,
) -> Ended {
    all_lie_on(nodes[1], &output);
    let mut item = 0;
    while let Some(from) = input.recv().await? {
        place.check();
        run.fails("compute", item);
        lies_on(nodes[0], &from);
        check(item, from.chunks(PAGE));
        let mut to = output.buffer().await?;
        for (to, from) in to.chunks_mut(PAGE).zip(from.chunks(PAGE).rev()) {
            to.copy_from_slice(from);
        }
        drop(from);
        output.send(to).await?;
        item += 1;
    }
    assert_eq!(item, run.items);
    all_lie_on(nodes[1], &output);
    place.check();
    Ok(())
}

async fn sink(run: Run, place: Place, node: NodeId, mut input: Input<Buffer>) -> Ended {
    let mut item = 0;
    while let Some(buffer) = input.recv().await? {
        place.check();
        run.fails("sink", item);
        lies_on(node, &buffer);
        check(item, buffer.chunks(PAGE).rev());
        item += 1;
    }
    assert_eq!(item, run.items);
    place.check();
    Ok(())
}

/// The bytes of a page of an item: no two pages of a run are the same, and no byte is that of the
/// item before.
fn page(item: u64, index: usize) -> [u8; PAGE] {
    let mut page = [item as u8; PAGE];
    page[..8].copy_from_slice(&item.to_le_bytes());
    page[8..16].copy_from_slice(&(index as u64).to_le_bytes());
    page
}

fn write(item: u64, buffer: &mut Buffer) {
    for (index, place) in buffer.chunks_mut(PAGE).enumerate() {
        place.copy_from_slice(&page(item, index));
    }
}

fn check<'b>(item: u64, pages: impl ExactSizeIterator<Item = &'b [u8]>) {
    assert_eq!(pages.len(), LENGTH / PAGE);
    for (index, found) in pages.enumerate() {
        assert!(found == page(item, index), "page {index} of item {item}: {:?}", &found[..16]);
    }
}

/// Asserts that every page of all buffers of an output lies on the node.
fn all_lie_on(node: NodeId, output: &Output<Buffer>) {
    let pages: Residency = output.buffer_residency().expect("the link has buffers").expect("the kernel tells it");
    assert_eq!(pages.pages(), (BUFFERS * LENGTH / PAGE) as u64);
    assert_eq!(pages.pages_on(node), pages.pages(), "buffers of node {node}: {pages}");
}

/// Asserts that every page of a buffer lies on the node, by two statements of the kernel.
fn lies_on(node: NodeId, buffer: &Buffer) {
    let pages = residency(buffer);
    assert_eq!((pages.pages(), pages.pages_on(node)), ((LENGTH / PAGE) as u64, (LENGTH / PAGE) as u64), "{pages}");
    let area = area_of(buffer.as_ptr().addr());
    let mut words = area.split_whitespace().skip(1);
    assert_eq!(words.next(), Some(format!("bind:{node}").as_str()), "{area}");
    let on_node = |word: &str| {
        let (node, pages) = word.strip_prefix('N')?.split_once('=')?;
        Some((NodeId(node.parse().ok()?), pages.parse::<usize>().ok()?))
    };
    // The kernel makes one area of neighbours with one policy, so it may hold the buffers of both
    // links.
    let by_node: Vec<(NodeId, usize)> = words.filter_map(on_node).collect();
    match by_node[..] {
        [(found, pages)] => assert!(found == node && pages >= BUFFERS * LENGTH / PAGE, "{area}"),
        _ => panic!("not on one node: {area}"),
    }
}

/// The line of `/proc/self/numa_maps` for the area that an address lies in: each begins with the
/// area's start in hexadecimal, and the lines are in the order of these.
fn area_of(address: usize) -> String {
    let areas = fs::read_to_string("/proc/self/numa_maps").expect("the kernel knows nodes");
    let start = |line: &str| usize::from_str_radix(line.split(' ').next().expect("a word"), 16).expect("an address");
    areas.lines().take_while(|line| start(line) <= address).last().expect("the address is mapped").to_owned()
}

/// Asserts that all buffers of both links are free.
fn all_are_back(stats: &PipelineStats) {
    let pools: Vec<_> = stats.stages.iter().filter_map(|stage| stage.buffers.as_ref()).collect();
    assert_eq!(pools.len(), 2);
    assert!(pools.iter().all(|buffers| (buffers.free, buffers.count) == (BUFFERS, BUFFERS)), "{stats:?}");
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_pipeline_stages_on_both_nodes() {
    let _on_node_0 = guest();
    let rails = rails_of_stages();
    for sides in [
        [Side::Consumer, Side::Producer],
        [Side::Producer, Side::Consumer],
        [Side::Producer, Side::Producer],
        [Side::Consumer, Side::Consumer],
    ] {
        let wanted = Run { sides, items: 32, panics: None };
        let stats = run(wanted.start(&rails).join()).expect("no stage fails");
        all_are_back(&stats);
        for (link, stage) in stats.stages[..2].iter().enumerate() {
            let buffers = stage.buffers.as_ref().expect("it has an output");
            assert_eq!(buffers.wished_node, Some(wanted.node_of(link)));
            assert_eq!(stage.items_out, wanted.items);
        }
        assert_eq!(stats.stages[2].items_in, wanted.items);
    }
}

/// Each stage fails once, and the same rails then run the whole pipeline.
#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_buffers_are_back_after_a_panic() {
    let _on_node_0 = guest();
    let rails = rails_of_stages();
    let whole = Run { sides: [Side::Consumer, Side::Consumer], items: 8, panics: None };
    for stage in ["source", "compute", "sink"] {
        let error = run(Run { panics: Some((stage, 4)), ..whole }.start(&rails).join()).expect_err("a stage panics");
        println!("{error}");
        assert_eq!((error.stage.as_str(), &error.still_running[..]), (stage, &[][..]));
        let StageFailure::Panicked(panic) = &error.failure else { panic!("{error}") };
        assert!(panic.to_string().contains(MADE_UP), "{panic}");
        all_are_back(&error.stats);
        all_are_back(&run(whole.start(&rails).join()).expect("no stage fails"));
    }
}

/// The guest's disk, with frames on it.
fn disk_of_frames() -> &'static str {
    rails_lab::guest::load_module("nvme").expect("the guest's kernel has it");
    let begun = Instant::now();
    while !fs::metadata(DISK).is_ok_and(|facts| facts.file_type().is_block_device()) {
        assert!(begun.elapsed() < PATIENCE, "there is no {DISK}");
        thread::sleep(Duration::from_millis(20));
    }
    let mut disk = File::options().write(true).open(DISK).expect("the guest's tests run as root");
    for frame in 0..DISK_FRAMES {
        let pages: Vec<u8> = (0..LENGTH / PAGE).flat_map(|index| page(frame, index)).collect();
        disk.write_all(&pages).expect("there is room");
    }
    disk.sync_all().expect("it is written");
    DISK
}

/// The planner puts the rail of the disk on node 1, where it is, although the program is on node 0.
#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_frames_of_a_disk_read_beside_it() {
    let _on_node_0 = guest();
    let disk = disk_of_frames();
    let storage = Storage::of(disk).expect("it is a disk");
    assert_eq!((storage.device.as_str(), &storage.disks[..]), ("nvme0n1", &["nvme0n1".to_owned()][..]));
    let topology = Topology::detect().expect("this machine can be read");
    let (display, at_disk) = (cpus_of(NodeId(0)), cpus_of(NodeId(1)));
    let display = display.last().expect("the node has CPUs");
    let request: RailRequest = format!("{},cores:1@{display}/0", storage.disks.join("+")).parse().expect("a request");
    let plan = plan_rails(&topology, &request).expect("it can be planned");
    println!("{plan}");
    let rails = Rails::build(&plan).expect("they need no privilege");
    let places: [Place; 2] = std::array::from_fn(|rail| {
        let placed = rails[RailId(rail)].runtime().placement();
        Place { cpu: placed.cpu, node: placed.memory_node.clone().expect("the kernel tells it") }
    });
    assert_eq!(places.map(|place| place.node), [NodeId(1), NodeId(0)]);
    assert!(at_disk.contains(places[0].cpu), "{plan}");
    for (side, node) in [(Side::Producer, NodeId(1)), (Side::Consumer, NodeId(0))] {
        // Each ends with its last frame, so that no read is under way when the pipeline ends.
        let rounds = [(); 3].map(|()| {
            let frames = FileFrames::open(disk, LENGTH).expect("it is a disk");
            assert_eq!((frames.count(), frames.rest_bytes(), frames.reading()), (DISK_FRAMES, 0, &Reading::Direct));
            frames
        });
        let [from, to] = [0, 1].map(|rail| rails[RailId(rail)].runtime());
        let pipeline = Pipeline::builder("from a disk")
            .source("source", from, async move |mut output: Output<Buffer>| {
                all_lie_on(node, &output);
                for mut frames in rounds {
                    while let Some(frame) = frames.next(&mut output).await? {
                        places[0].check();
                        output.send(frame).await?;
                    }
                }
                all_lie_on(node, &output);
                Ok(())
            })
            .sink("sink", to, Link::new(1).buffers(side, LENGTH, BUFFERS), async move |mut input: Input<Buffer>| {
                let mut item = 0;
                while let Some(frame) = input.recv().await? {
                    places[1].check();
                    lies_on(node, &frame);
                    check(item % DISK_FRAMES, frame.chunks(PAGE));
                    item += 1;
                }
                assert_eq!(item, 3 * DISK_FRAMES);
                Ok(())
            });
        let stats = run(pipeline.start().expect("the buffers can be made").join()).expect("no stage fails");
        let buffers = stats.stages[0].buffers.as_ref().expect("it has an output");
        assert_eq!(buffers.free, BUFFERS);
    }
}

/// The nodes of the source, the compute stage and the sink.
const NODES: [NodeId; 3] = [NodeId(0), NodeId(1), NodeId(0)];
const LENGTH: usize = 4 << 20;
/// Buffers of each link.
const BUFFERS: usize = 3;
const PAGE: usize = 4096;
const DISK: &str = "/dev/nvme0n1";
/// As many as fit on it.
const DISK_FRAMES: u64 = 4;
/// No sound program takes as long, not even on an emulated machine.
const PATIENCE: Duration = Duration::from_secs(240);
/// The panic of a stage that is made to fail.
const MADE_UP: &str = "the stage fails here";
