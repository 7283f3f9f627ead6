//! The hand-over of buffers from one stage of a pipeline to the next, on rails with a core each.
//!
//! Run: `cargo bench --bench pipeline`
//!
//! `item` hands over five words, the size of a buffer and its number, through a channel of 64.
//! `buffer` has a source that takes a buffer, hands it over and takes the next one; the sink drops
//! it, which gives it back to the source: a figure is that of the hand-over, of the pool on both
//! sides, and of all counters together. `one buffer` has only one, so the figure is that of a
//! hand-over and of the way back. `busy` stages spin, and `asleep` ones await, so that each
//! wakes the other's thread. The buffers are of 4 KiB, and none of their bytes is touched.
//!
//! `a word there and back` is the machine's own cost: an atomic word that goes to the other core
//! and back. A hand-over between two cores that have nothing queued cannot take less than half of
//! it, and a virtual machine whose cores the host moves has another figure from minute to minute.
//!
//! `frames of a file` are those of 4K video, read over and over from a file of eight beside this
//! program: with `O_DIRECT` if its file system allows it, which is printed. `small` buffers have
//! pages of 4 KiB, and `huge` ones huge pages where the kernel has them.
//!
//! The figures are means, with the time in which other programs had one of the two cores.
//!
//! On a machine with one core both stages share it, and `busy` measures the scheduler.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rails::{
    bind::memory::{BufferOptions, Pages},
    multirail::{
        RailId, RailRequest, Rails,
        pipeline::{Buffer, Input, Link, Output, Pipeline, Side, file::FileFrames},
        plan_rails,
    },
    topo::Topology,
};
use std::{
    error::Error,
    hint::{black_box, spin_loop},
    io::Write,
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{
            AtomicU64,
            Ordering::{Acquire, Release},
        },
        mpsc,
    },
    time::{Duration, Instant},
};
use tokio::runtime::Builder;

fn hand_over(criterion: &mut Criterion) {
    let topology = Topology::detect().expect("this machine can be read");
    let plan = plan_rails(&topology, &RailRequest::loopback(2)).expect("loopback rails can be planned");
    let rails = Rails::build(&plan).expect("loopback rails need no privilege");
    criterion.bench_function("a word there and back", |bencher| bencher.iter_custom(|trips| word(&rails, trips)));
    let mut group = criterion.benchmark_group("hand-over");
    group.throughput(Throughput::Elements(1));
    for (state, spin) in [("busy", Duration::from_millis(1)), ("asleep", Duration::ZERO)] {
        group.bench_function(format!("item/{state}"), |bencher| {
            let source = async |items, mut output: Output<[u64; 5]>| {
                for item in 0..=items {
                    output.send([item; 5]).await?;
                }
                Ok(())
            };
            bencher.iter_custom(|items| run(&rails, items, Link::new(64), spin, source));
        });
        for (name, length, buffers) in [("buffer", 64, 128), ("one buffer", 1, 1)] {
            group.bench_function(format!("{name}/{state}"), |bencher| {
                let source = async |items, mut output: Output<Buffer>| {
                    for _ in 0..=items {
                        let buffer = output.buffer().await?;
                        output.send(buffer).await?;
                    }
                    Ok(())
                };
                let link = Link::new(length).buffers(Side::Consumer, 4 << 10, buffers);
                bencher.iter_custom(|items| run(&rails, items, link.clone(), spin, source));
            });
        }
    }
    group.finish();

    // Beside this program, which lies on a disk where the folder of temporary files may be in memory.
    let program = std::env::current_exe().expect("the kernel tells it");
    let folder = program.parent().expect("a program is in a folder");
    let mut film = tempfile::NamedTempFile::new_in(folder).expect("there is room");
    let frame: Vec<u8> = (0..FRAME_BYTES).map(|byte| byte as u8).collect();
    (0..8).for_each(|_| film.write_all(&frame).expect("there is room"));
    let frames = || FileFrames::open(film.path(), FRAME_BYTES).expect("it is a file").repeated();
    println!("frames of a file are read {}", frames().reading());
    let mut group = criterion.benchmark_group("frames of a file");
    group.throughput(Throughput::Bytes(FRAME_BYTES as u64)).sample_size(10);
    for (name, pages) in [("small", Pages::Small), ("huge", Pages::TransparentHuge)] {
        for reads in [1, 2, 4] {
            let options = BufferOptions::new().pages(pages);
            let link = Link::new(1).buffers(Side::Consumer, FRAME_BYTES, 6).buffer_options(options);
            group.bench_function(format!("{name}/{reads}"), |bencher| {
                bencher.iter_custom(|items| {
                    let mut frames = frames().reads(NonZeroUsize::new(reads).expect("it is not 0"));
                    let source = async move |items, mut output: Output<Buffer>| {
                        for _ in 0..=items {
                            let frame = frames.next(&mut output).await?.ok_or("they repeat")?;
                            output.send(frame).await?;
                        }
                        Ok(())
                    };
                    run(&rails, items, link.clone(), Duration::ZERO, source)
                });
            });
        }
    }
    group.finish();
}

/// The time of so many round trips of a word between two rails' threads.
fn word(rails: &Rails, trips: u64) -> Duration {
    let place = Arc::new(AtomicU64::new(0));
    let (near, far) = (place.clone(), place);
    let answering = rails[RailId(1)].runtime().spawn(async move {
        for trip in 0..trips {
            while far.load(Acquire) != 2 * trip + 1 {
                spin_loop();
            }
            far.store(2 * trip + 2, Release);
        }
    });
    let asking = rails[RailId(0)].runtime().block_on(move || async move {
        let start = Instant::now();
        for trip in 0..trips {
            near.store(2 * trip + 1, Release);
            while near.load(Acquire) != 2 * trip + 2 {
                spin_loop();
            }
        }
        start.elapsed()
    });
    drop(answering);
    asking.expect("it does not panic")
}

/// The time of so many items, from the first to the last that the sink gets.
fn run<T: Send + 'static>(
    rails: &Rails,
    items: u64,
    link: Link,
    spin: Duration,
    source: impl AsyncFnOnce(u64, Output<T>) -> Result<(), Box<dyn Error + Send + Sync>> + Send + 'static,
) -> Duration {
    let [from, to] = [0, 1].map(|rail| rails[RailId(rail)].runtime());
    let (told, heard) = mpsc::channel();
    let pipeline = Pipeline::builder("hand-over")
        .spin(spin)
        .source("source", from, async move |output| source(items, output).await)
        .sink("sink", to, link, async move |mut input: Input<T>| {
            drop(input.recv().await?);
            let start = Instant::now();
            while let Some(item) = input.recv().await? {
                drop(black_box(item));
            }
            told.send(start.elapsed())?;
            Ok(())
        });
    let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(pipeline.start().expect("there is memory").join()).expect("no stage fails");
    heard.recv().expect("the sink has ended")
}

/// A frame of 4K in RGBA.
const FRAME_BYTES: usize = 3840 * 2160 * 4;

criterion_group!(benches, hand_over);
criterion_main!(benches);
