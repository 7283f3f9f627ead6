//! The code of `docs/`, compiled and not run. Each block of Rust there stands here too, word by
//! word, with the declarations that it takes.

#![allow(dead_code, reason = "the code is for readers")]

use axum::{Router, routing::get};
use bytes::Bytes;
use rails::{
    cuda::{CudaDevice, CudaOptions},
    multirail::{
        MultiRailStream, RailId, Rails,
        pipeline::{Buffer, Input, Link, Output, Pipeline, Side, device, file::FileFrames},
        plan_rails,
        planner::RailPlan,
    },
    proto::{
        policy::{Adaptive, Decision, StripePolicy, Wait},
        record::{Decided, Entry, RecordedEvent},
    },
    task::TaskQueues,
    topo::{Storage, Topology},
};
use std::{collections::BTreeSet, error::Error, fs, time::Duration};

/// The pages whose code the documentation tests of the crate compile.
const TESTED_BY_RUSTDOC: [&str; 2] = ["celeritas.md", "placement.md"];

#[test]
fn code_of_the_pages_is_compiled() {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let compiled = words(include_str!("snippets.rs"));
    let mut pages = BTreeSet::new();
    for entry in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/docs")).unwrap() {
        let path = entry.unwrap().path();
        let page = path.file_name().unwrap().to_str().unwrap().to_owned();
        if !page.ends_with(".md") || TESTED_BY_RUSTDOC.contains(&page.as_str()) {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for block in text.split("\n```rust\n").skip(1) {
            let code = block.split("\n```").next().unwrap();
            assert!(compiled.contains(&words(code)), "not compiled, in {page}:\n{code}");
            pages.insert(page.clone());
        }
    }
    assert_eq!(Vec::from_iter(pages), ["pipelines.md", "runtime.md", "troubleshooting.md"]);
}

type Outcome = Result<(), Box<dyn Error>>;

const FRAME_BYTES: usize = 1 << 20;

fn a_runtime_per_rail() -> Outcome {
    let plan = plan_rails(&Topology::detect()?, &"eth0,eth1".parse()?)?;
    let rails = Rails::build(&plan)?;
    drop(rails);
    Ok(())
}

async fn a_computation(rails: Rails, frame: Vec<u8>) -> Outcome {
    let sum = rails[RailId(0)].runtime().compute(move || checksum(&frame)).await?;
    assert_eq!(sum, 0);
    Ok(())
}

fn checksum(frame: &[u8]) -> u8 {
    frame.iter().fold(0, |sum, byte| sum ^ byte)
}

async fn a_service() -> Outcome {
    let rails = Rails::build(&plan_rails(&Topology::detect()?, &"eth0,eth1".parse()?)?)?;
    let app = Router::new().route("/", get(|| async { "hello" }));
    let serving = rails.serve("0.0.0.0:3000", move |_, listener| axum::serve(listener, app.clone()).into_future());
    println!("a service has ended: {:?}", serving.await?.ended().await);
    Ok(())
}

fn a_rail_that_spins(plan: RailPlan) -> Outcome {
    let rails = Rails::build_with(&plan, |_, runtime| runtime.spin(Duration::from_micros(50)))?;
    drop(rails);
    Ok(())
}

fn a_rail_that_runs_tasks(plan: RailPlan, topology: Topology) -> Outcome {
    let queues = TaskQueues::new(&topology, 256);
    let rails = Rails::build_with(&plan, |_, runtime| runtime.tasks(&queues))?;
    drop(rails);
    Ok(())
}

async fn a_pipeline(rails: Rails, mut stream: MultiRailStream) -> Outcome {
    // Four buffers, on the node of the stage that reads them.
    let frames = Link::new(2).buffers(Side::Consumer, FRAME_BYTES, 4);
    let stats = Pipeline::builder("frames")
        .source("render", &rails[RailId(0)].task_runtimes()[0], async |mut output: Output<Buffer>| {
            for number in 0..100 {
                let mut buffer = output.buffer().await?;
                render(number, &mut buffer);
                output.send(buffer).await?;
            }
            Ok(())
        })
        .sink("send", rails[RailId(1)].runtime(), frames, async move |mut input: Input<Buffer>| {
            while let Some(buffer) = input.recv().await? {
                stream.write_bytes(Bytes::from_owner(buffer)).await?;
            }
            Ok(())
        })
        .start()?
        .join()
        .await?;
    drop(stats);
    Ok(())
}

fn render(number: u8, frame: &mut [u8]) {
    frame.fill(number);
}

fn a_stage_on_a_gpu(rails: &Rails, frames: Link) {
    let pipeline = Pipeline::builder("frames")
        .source("source", rails[RailId(0)].runtime(), async |_output: Output<Buffer>| Ok(()))
        .stage("compute", &rails[RailId(1)].task_runtimes()[0], frames, async |input, output| {
            // On the stage's own thread: the page-locked memory lies on its node.
            let device = CudaDevice::new(&CudaOptions::new(FRAME_BYTES))?;
            device::run(device, input, output).await
        })
        .sink("sink", rails[RailId(0)].runtime(), Link::new(1), async |_input: Input<Buffer>| Ok(()));
    drop(pipeline);
}

async fn frames_of_a_file(mut output: Output<Buffer>) -> Result<(), Box<dyn Error + Send + Sync>> {
    let storage = Storage::of("/data/film.rgba")?; // nvme0n1p2 on nvme0n1
    let request = format!("eth0,eth1,{}", storage.disks.join("+"));
    // ... and on the third rail, which has no lane:
    let mut frames = FileFrames::open("/data/film.rgba", FRAME_BYTES)?;
    while let Some(frame) = frames.next(&mut output).await? {
        output.send(frame).await?;
    }
    drop(request);
    Ok(())
}

fn a_decision(line: &str) -> Outcome {
    let entry: Entry = serde_json::from_str(line)?;
    let RecordedEvent::Decided(Decided { lane, mut view, .. }) = entry.event else { panic!("no decision: {line}") };
    assert_eq!(Adaptive.decide(&view.view(), lane), Decision::Wait(Wait::SoonerElsewhere));
    view.lanes[lane].rate = Some(100e6);
    assert_eq!(Adaptive.decide(&view.view(), lane), Decision::New(262_144));
    Ok(())
}
