//! Rails, and items that are numbered buffers.

use rails_multirail::{
    RailId, RailRequest, Rails,
    pipeline::{Buffer, Input, Link, Output, PipelineError, PipelineStats, Side},
    plan_rails,
    runtime::RailRuntime,
};
use rails_topo::Topology;
use std::{error::Error, sync::LazyLock};
use tokio::runtime::{Builder, Runtime};

pub(crate) type Ended = Result<(), Box<dyn Error + Send + Sync>>;

/// Two rails, which all tests share.
pub(crate) static RAILS: LazyLock<Rails> = LazyLock::new(rails);

pub(crate) fn rails() -> Rails {
    let topology = Topology::detect().expect("this machine can be read");
    let plan = plan_rails(&topology, &RailRequest::loopback(2)).expect("loopback rails can be planned");
    Rails::build(&plan).expect("loopback rails need no privilege")
}

/// The runtime of a stage: that of one rail and of the other in turn.
pub(crate) fn rail(stage: usize) -> &'static RailRuntime {
    RAILS[RailId(stage % 2)].runtime()
}

/// The runtime of a test.
pub(crate) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().expect("a runtime")
}

/// A link with small buffers.
pub(crate) fn buffered(length: usize, count: usize) -> Link {
    Link::new(length).buffers(Side::Consumer, 64, count)
}

/// Sends `items` buffers, numbered from 0 on.
pub(crate) async fn count_to(items: u64, mut output: Output<Buffer>) -> Ended {
    for item in 0..items {
        let buffer = output.buffer().await?;
        output.send(numbered(buffer, item)).await?;
    }
    Ok(())
}

pub(crate) fn numbered(mut buffer: Buffer, item: u64) -> Buffer {
    buffer[..8].copy_from_slice(&item.to_le_bytes());
    buffer
}

pub(crate) fn number(buffer: &Buffer) -> u64 {
    u64::from_le_bytes(buffer[..8].try_into().expect("eight bytes"))
}

/// Reads to the end.
pub(crate) async fn drain(mut input: Input<Buffer>) -> Ended {
    while input.recv().await?.is_some() {}
    Ok(())
}

/// Hands on all items.
pub(crate) async fn forward(mut input: Input<Buffer>, mut output: Output<Buffer>) -> Ended {
    while let Some(buffer) = input.recv().await? {
        output.send(buffer).await?;
    }
    Ok(())
}

/// Whether all buffers are back.
pub(crate) fn all_are_back(stats: &PipelineStats) -> bool {
    let mut pools = stats.stages.iter().filter_map(|stage| stage.buffers.as_ref());
    pools.all(|buffers| buffers.free == buffers.count)
}

/// The stage that an error names, where every buffer is back.
pub(crate) fn named(error: &PipelineError) -> &str {
    assert!(all_are_back(&error.stats), "{error}: {:?}", error.stats);
    assert!(error.still_running.is_empty(), "{error}");
    &error.stage
}
