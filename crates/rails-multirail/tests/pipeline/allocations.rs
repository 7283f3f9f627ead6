//! Handing buffers over allocates nothing.

use crate::util::{buffered, numbered, rails, runtime};
use rails_multirail::{
    RailId,
    pipeline::{Buffer, Input, Output, Pipeline},
};
use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::Poll,
};
use tokio::task::yield_now;

/// Runs a future, and counts the allocations of its polls.
async fn counted<F: Future>(future: F, allocations: &AtomicU64) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| {
        let mut polled = Poll::Pending;
        let made = allocation_counter::measure(|| polled = future.as_mut().poll(context));
        allocations.fetch_add(made.count_total, Relaxed);
        polled
    })
    .await
}

#[test]
fn no_allocation_in_steady_state() {
    let allocations: Arc<[AtomicU64; 2]> = Arc::default();
    let [of_source, of_sink] = [allocations.clone(), allocations.clone()];
    // Rails of its own: tasks of other tests would have the runtimes' queues grow.
    let rails = rails();
    let pipeline = Pipeline::builder("p")
        .source("source", rails[RailId(0)].runtime(), async move |mut output: Output<Buffer>| {
            let steady = async |from: u64, to: u64, output: &mut Output<Buffer>| {
                for item in from..to {
                    let buffer = output.buffer().await.expect("the link has some");
                    output.send(numbered(buffer, item)).await.expect("it is read");
                }
            };
            // Thread-local state, and tokio's queue of tasks that yield, are made at their first use.
            yield_now().await;
            steady(0, WARM_UP, &mut output).await;
            counted(steady(WARM_UP, ITEMS, &mut output), &of_source[0]).await;
            Ok(())
        })
        .sink("sink", rails[RailId(1)].runtime(), buffered(2, 3), async move |mut input: Input<Buffer>| {
            yield_now().await;
            for _ in 0..WARM_UP {
                drop(input.recv().await?);
            }
            counted(async { while input.recv().await.is_ok_and(|item| item.is_some()) {} }, &of_sink[1]).await;
            Ok(())
        });
    let stats = runtime().block_on(pipeline.start().unwrap().join()).unwrap();
    assert_eq!(stats.stages[1].items_in, ITEMS);
    let made = allocations.each_ref().map(|count| count.load(Relaxed));
    assert_eq!(made, [0, 0], "by the source and by the sink");
}

const WARM_UP: u64 = 5_000;
const ITEMS: u64 = 20_000;
