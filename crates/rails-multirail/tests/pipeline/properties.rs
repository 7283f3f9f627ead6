//! Any chain of stages, of any speeds, lengths and faults.

use crate::util::{all_are_back, buffered, number, numbered, rail, runtime};
use proptest::prelude::*;
use rails_multirail::pipeline::{Buffer, Input, Link, Output, Pipeline, StageFailure};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::task::yield_now;

/// The act of a stage at an item, in place of handing it on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Panic,
    Error,
    /// The stage returns as if all were well.
    EarlyEnd,
}

#[derive(Debug, Clone)]
struct Plan {
    items: u64,
    /// How often each stage yields at each item, the source first and the sink last.
    yields: Vec<u8>,
    /// The length of the channel before each stage but the source.
    lengths: Vec<usize>,
    buffers: usize,
    spin: bool,
    /// The stage, the item and the fault.
    fault: Option<(usize, u64, Fault)>,
}

fn plans() -> impl Strategy<Value = Plan> {
    let fault = prop_oneof![Just(Fault::Panic), Just(Fault::Error), Just(Fault::EarlyEnd)];
    (2..6_usize, 1..60_u64).prop_flat_map(move |(stages, items)| {
        (
            prop::collection::vec(0..4_u8, stages),
            prop::collection::vec(1..4_usize, stages - 1),
            1..6_usize,
            any::<bool>(),
            prop::option::of((0..stages, 0..items, fault.clone())),
        )
            .prop_map(move |(yields, lengths, buffers, spin, fault)| Plan {
                items,
                yields,
                lengths,
                buffers,
                spin,
                fault,
            })
    })
}

/// Whether a stage ends early, and yet has received all there is: whether it is too early depends
/// on the moment at which the stage before ends.
fn is_in_time(plan: &Plan) -> bool {
    plan.fault.is_some_and(|(stage, item, fault)| stage > 0 && item + 1 == plan.items && fault == Fault::EarlyEnd)
}

/// The work of one stage at one item. `Ok(false)` ends it early.
async fn work(plan: &Plan, stage: usize, item: u64) -> Result<bool, Box<dyn std::error::Error + Send + Sync>> {
    for _ in 0..plan.yields[stage] {
        yield_now().await;
    }
    match plan.fault {
        Some((at, when, fault)) if (at, when) == (stage, item) => match fault {
            Fault::Panic => panic!("as planned"),
            Fault::Error => Err("as planned".into()),
            Fault::EarlyEnd => Ok(false),
        },
        _ => Ok(true),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn each_item_once_and_every_buffer_back(plan in plans()) {
        let plan = Arc::new(plan);
        let arrived = Arc::new(Mutex::new(Vec::new()));
        let name = |stage: usize| format!("stage {stage}");
        let builder = Pipeline::builder("p").spin(Duration::from_micros(if plan.spin { 20 } else { 0 }));
        let mut open = builder.source(name(0), rail(0), {
            let plan = plan.clone();
            async move |mut output: Output<Buffer>| {
                for item in 0..plan.items {
                    let buffer = numbered(output.buffer().await?, item);
                    if !work(&plan, 0, item).await? {
                        break;
                    }
                    output.send(buffer).await?;
                }
                Ok(())
            }
        });
        let last = plan.lengths.len();
        let link = |stage: usize| match stage {
            1 => buffered(plan.lengths[0], plan.buffers),
            stage => Link::new(plan.lengths[stage - 1]),
        };
        for stage in 1..last {
            let plan = plan.clone();
            let link = link(stage);
            open = open.stage(name(stage), rail(stage), link, async move |mut input: Input<Buffer>, mut output| {
                while let Some(buffer) = input.recv().await? {
                    if !work(&plan, stage, number(&buffer)).await? {
                        break;
                    }
                    output.send(buffer).await?;
                }
                Ok(())
            });
        }
        let pipeline = open.sink(name(last), rail(last), link(last), {
            let (plan, arrived) = (plan.clone(), arrived.clone());
            async move |mut input: Input<Buffer>| {
                while let Some(buffer) = input.recv().await? {
                    if !work(&plan, last, number(&buffer)).await? {
                        break;
                    }
                    arrived.lock().unwrap().push(number(&buffer));
                }
                Ok(())
            }
        });
        let ended = runtime().block_on(pipeline.start().unwrap().join());
        let arrived = arrived.lock().unwrap();
        prop_assert!(arrived.iter().copied().eq(0..arrived.len() as u64), "{arrived:?}");
        match (plan.fault, ended) {
            (None, Ok(stats)) => {
                prop_assert_eq!(arrived.len() as u64, plan.items);
                prop_assert!(all_are_back(&stats), "{stats:?}");
            }
            (_, Ok(stats)) if is_in_time(&plan) => prop_assert!(all_are_back(&stats), "{stats:?}"),
            // A source that ends early has simply made fewer items.
            (Some((0, item, Fault::EarlyEnd)), Ok(stats)) => {
                prop_assert_eq!(arrived.len() as u64, item);
                prop_assert!(all_are_back(&stats), "{stats:?}");
            }
            (Some((stage, item, fault)), Err(error)) => {
                prop_assert_eq!(&error.stage, &name(stage));
                prop_assert!(arrived.len() as u64 <= item);
                let fits = matches!(
                    (fault, &error.failure),
                    (Fault::Panic, StageFailure::Panicked(_))
                        | (Fault::Error, StageFailure::Failed(_))
                        | (Fault::EarlyEnd, StageFailure::StoppedReading)
                );
                prop_assert!(fits, "{fault:?}: {error:?}");
                prop_assert!(all_are_back(&error.stats), "{error:?}");
                prop_assert!(error.still_running.is_empty(), "{error:?}");
            }
            (fault, ended) => prop_assert!(false, "{fault:?}: {ended:?}"),
        }
    }
}
