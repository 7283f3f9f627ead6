//! Stages that end badly: the pipeline ends, names the stage, and every buffer goes back.

use crate::util::{all_are_back, buffered, count_to, drain, forward, named, rail, rails, runtime};
use rails_multirail::{
    RailId,
    pipeline::{Broken, Buffer, Closed, Input, Link, NoBuffer, Output, Pipeline, Side, StageFailure, StartError},
};
use std::{
    error::Error,
    future::{pending, poll_fn},
    pin::pin,
    sync::mpsc,
    task::Poll,
    time::Duration,
};
use tokio::sync::oneshot;

#[test]
fn a_panic_names_its_stage() {
    let pipeline = Pipeline::builder("p")
        .source("source", rail(0), async |output| count_to(100, output).await)
        .stage("stage", rail(1), buffered(2, 4), async |mut input: Input<Buffer>, output| {
            let first = input.recv().await?;
            assert!(first.is_none(), "it cannot take {} bytes", first.map_or(0, |buffer| buffer.len()));
            forward(input, output).await
        })
        .sink("sink", rail(0), Link::new(1), async |input| drain(input).await);
    let error = runtime().block_on(pipeline.start().unwrap().join()).unwrap_err();
    assert_eq!(named(&error), "stage");
    assert_eq!(error.to_string(), "stage `stage` of pipeline `p` panicked: it cannot take 64 bytes");
}

#[test]
fn an_error_names_its_stage_and_breaks_the_next() {
    let (told, heard) = mpsc::channel();
    let pipeline = Pipeline::builder("p")
        .source("source", rail(0), async |output| {
            count_to(3, output).await?;
            Err("the camera is off".into())
        })
        .sink("sink", rail(1), buffered(2, 4), async move |mut input: Input<Buffer>| {
            let mut items = 0;
            let end = loop {
                match input.recv().await {
                    Ok(Some(_)) => items += 1,
                    end => break end.map(drop),
                }
            };
            told.send((items, end))?;
            Ok(())
        });
    let error = runtime().block_on(pipeline.start().unwrap().join()).unwrap_err();
    assert_eq!(named(&error), "source");
    let StageFailure::Failed(cause) = &error.failure else { panic!("{error:?}") };
    assert_eq!(cause.to_string(), "the camera is off");
    // The text includes the failure's, so the chain goes on behind that.
    assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("the camera is off"));
    // The items that were sent before the failure arrive, and the sink tells their end from a good one.
    assert_eq!(heard.recv(), Ok((3, Err(Broken))));
}

#[test]
fn a_sink_that_stops_reading_is_named() {
    let pipeline = Pipeline::builder("p")
        .source("source", rail(0), async |output| count_to(1000, output).await)
        .stage("stage", rail(1), buffered(2, 4), async |input, output| forward(input, output).await)
        .sink("sink", rail(0), Link::new(1), async |mut input: Input<Buffer>| {
            input.recv().await?;
            Ok(())
        });
    let error = runtime().block_on(pipeline.start().unwrap().join()).unwrap_err();
    assert_eq!(named(&error), "sink");
    assert!(matches!(error.failure, StageFailure::StoppedReading), "{error:?}");
}

#[test]
fn a_stage_that_drops_its_input_and_goes_on_is_named() {
    let pipeline = Pipeline::builder("p")
        .end_limit(Duration::ZERO)
        .source("source", rail(0), async |output| count_to(1000, output).await)
        .stage("stage", rail(1), buffered(2, 4), async |input: Input<Buffer>, output: Output<Buffer>| {
            drop(input);
            let _output = output;
            pending().await
        })
        .sink("sink", rail(0), Link::new(1), async |input| drain(input).await);
    let error = runtime().block_on(pipeline.start().unwrap().join()).unwrap_err();
    assert_eq!(named(&error), "stage");
    assert!(matches!(error.failure, StageFailure::StoppedReading), "{error:?}");
}

#[test]
fn a_break_goes_on_through_stages_that_end_well() {
    let (told, heard) = mpsc::channel();
    let pipeline = Pipeline::builder("p")
        .source("source", rail(0), async |output| {
            count_to(3, output).await?;
            Err("the camera is off".into())
        })
        .stage("stage", rail(1), buffered(2, 4), async |mut input: Input<Buffer>, mut output| {
            while let Ok(Some(buffer)) = input.recv().await {
                output.send(buffer).await?;
            }
            Ok(())
        })
        .sink("sink", rail(0), Link::new(1), async move |input| {
            told.send(drain(input).await.is_err())?;
            Ok(())
        });
    let error = runtime().block_on(pipeline.start().unwrap().join()).unwrap_err();
    assert_eq!(named(&error), "source");
    assert_eq!(heard.recv(), Ok(true));
}

#[test]
fn a_source_that_waits_elsewhere_is_ended() {
    let pipeline = Pipeline::builder("p")
        .end_limit(Duration::ZERO)
        .source("source", rail(0), async |output: Output<Buffer>| {
            let _output = output;
            pending().await
        })
        .sink("sink", rail(1), buffered(1, 1), async |_| Err("the window was closed".into()));
    let error = runtime().block_on(pipeline.start().unwrap().join()).unwrap_err();
    assert_eq!(named(&error), "sink");
}

#[test]
fn a_stage_that_takes_no_item_is_named() {
    let pipeline = Pipeline::builder("p")
        .stall_limit(Some(STALL))
        .source("source", rail(0), async |output| count_to(1000, output).await)
        .stage("stage", rail(1), buffered(1, 8), async |input, output| forward(input, output).await)
        .sink("sink", rail(0), Link::new(1), async |mut input: Input<Buffer>| {
            input.recv().await?;
            pending().await
        });
    let error = runtime().block_on(pipeline.start().unwrap().join()).unwrap_err();
    assert_eq!(named(&error), "sink");
    assert!(matches!(error.failure, StageFailure::Stalled { limit: STALL }), "{error:?}");
}

#[test]
fn a_stage_that_gets_no_buffer_is_named() {
    let pipeline = Pipeline::builder("p")
        .stall_limit(Some(STALL))
        .source("source", rail(0), async |output| count_to(1000, output).await)
        .sink("sink", rail(1), buffered(4, 3), async |mut input: Input<Buffer>| {
            let mut kept = Vec::new();
            while let Some(buffer) = input.recv().await? {
                kept.push(buffer);
            }
            Ok(())
        });
    let error = runtime().block_on(pipeline.start().unwrap().join()).unwrap_err();
    assert_eq!(named(&error), "source");
    assert!(matches!(error.failure, StageFailure::NoBufferBack { limit: STALL }), "{error:?}");
}

/// A rail of its own: its thread is occupied.
#[test]
fn a_stage_that_never_awaits_is_told() {
    let rails = rails();
    let (release, held) = mpsc::channel::<()>();
    let pipeline = Pipeline::builder("p")
        .stall_limit(Some(STALL))
        .end_limit(Duration::ZERO)
        .source("source", rails[RailId(0)].runtime(), async |output| count_to(1000, output).await)
        .sink("sink", rails[RailId(1)].runtime(), buffered(1, 3), async move |mut input: Input<Buffer>| {
            input.recv().await?;
            let _ = held.recv();
            Ok(())
        });
    let error = runtime().block_on(pipeline.start().unwrap().join()).unwrap_err();
    drop(release);
    assert_eq!((error.stage.as_str(), &error.still_running[..]), ("sink", &["sink".to_owned()][..]));
    assert!(error.to_string().ends_with("still running, as they do not await: sink"), "{error}");
}

#[test]
fn a_stage_of_a_stopped_rail_is_named() {
    let rails = rails();
    let pipeline = Pipeline::builder("p").source("source", rail(0), async |output| count_to(1000, output).await).sink(
        "sink",
        rails[RailId(1)].runtime(),
        buffered(1, 3),
        async |mut input: Input<Buffer>| {
            input.recv().await?;
            pending().await
        },
    );
    let running = pipeline.start().unwrap();
    rails.blocking_shutdown(Duration::from_secs(60)).unwrap();
    let error = runtime().block_on(running.join()).unwrap_err();
    assert_eq!(named(&error), "sink");
    assert!(matches!(error.failure, StageFailure::Cancelled), "{error:?}");
}

#[test]
fn dropping_a_pipeline_ends_its_stages() {
    let (alive, ended) = mpsc::channel::<()>();
    let pipeline = Pipeline::builder("p")
        .source("source", rail(0), async |output| count_to(u64::MAX, output).await)
        .sink("sink", rail(1), buffered(1, 3), async move |input| {
            let _alive = alive;
            drain(input).await
        });
    drop(pipeline.start().unwrap());
    assert!(ended.recv().is_err(), "nothing was sent");
}

#[test]
fn wrong_descriptions_are_refused() {
    let described = |name: &str, link: Link| {
        let source = Pipeline::builder("p").source("a", rail(0), async |output| count_to(1, output).await);
        source.sink(name, rail(1), link, async |input| drain(input).await).start().unwrap_err()
    };
    let error = described("b", buffered(0, 1));
    let text = "pipeline `p`: the channel from `a` to `b` has a length of 0; it needs room for an item";
    assert_eq!(error.to_string(), text);
    assert!(matches!(described("a", buffered(1, 1)), StartError::NameTaken { stage, .. } if stage == "a"));
    for (bytes, count) in [(0, 1), (1, 0), (usize::MAX, usize::MAX)] {
        let error = described("b", Link::new(1).buffers(Side::Producer, bytes, count));
        assert!(matches!(error, StartError::Buffers { .. }), "{error:?}");
    }
}

#[test]
fn a_link_without_buffers_says_so() {
    let pipeline = Pipeline::builder("p").source("source", rail(0), async |output| count_to(1, output).await).sink(
        "sink",
        rail(1),
        Link::new(1),
        async |input| drain(input).await,
    );
    let error = runtime().block_on(pipeline.start().unwrap().join()).unwrap_err();
    assert_eq!(named(&error), "source");
    let StageFailure::Failed(cause) = error.failure else { panic!("it failed") };
    assert!(cause.to_string().contains("Link::buffers"), "{cause}");
}

/// No other stage notices the drop, and no limit would find it.
#[test]
fn a_dropped_input_ends_idle_stages() {
    let pipeline = Pipeline::builder("p")
        .end_limit(Duration::ZERO)
        .stall_limit(None)
        .source("source", rail(0), async |output: Output<Buffer>| {
            let _output = output;
            pending().await
        })
        .sink("sink", rail(1), buffered(1, 1), async |input: Input<Buffer>| {
            drop(input);
            pending().await
        });
    let error = runtime().block_on(pipeline.start().unwrap().join()).unwrap_err();
    assert_eq!(named(&error), "sink");
    assert!(matches!(error.failure, StageFailure::StoppedReading), "{error:?}");
}

#[test]
fn a_wait_for_a_buffer_ends_with_the_receiver() {
    let (tell, hear) = oneshot::channel();
    let pipeline = Pipeline::builder("p")
        .end_limit(Duration::MAX)
        .stall_limit(None)
        .source("source", rail(0), async move |mut output: Output<Buffer>| {
            let buffer = output.buffer().await?;
            output.send(buffer).await?;
            // The only buffer is with the sink.
            let refused = output.buffer().await.map(drop);
            let _ = tell.send(refused);
            Ok(())
        })
        .sink("sink", rail(1), buffered(1, 1), async move |mut input: Input<Buffer>| {
            let _kept = input.recv().await?;
            drop(input);
            assert_eq!(hear.await?, Err(NoBuffer::Closed(Closed)));
            Ok(())
        });
    let error = runtime().block_on(pipeline.start().unwrap().join()).unwrap_err();
    assert_eq!(named(&error), "sink");
    assert!(matches!(error.failure, StageFailure::StoppedReading), "{error:?}");
}

#[test]
fn a_stage_whose_input_lives_elsewhere_is_named() {
    let pipeline = Pipeline::builder("p").source("source", rail(0), async |output| count_to(1000, output).await).sink(
        "sink",
        rail(1),
        buffered(2, 4),
        async |mut input: Input<Buffer>| {
            input.recv().await?;
            std::mem::forget(input);
            Ok(())
        },
    );
    let error = runtime().block_on(pipeline.start().unwrap().join()).unwrap_err();
    assert_eq!(named(&error), "sink");
    assert!(matches!(error.failure, StageFailure::StoppedReading), "{error:?}");
}

/// The next stage still has its input, and has heard the end.
#[test]
fn an_output_refuses_items_after_its_stage() {
    let (give, taken) = mpsc::channel();
    let (told, heard) = mpsc::channel();
    let (release, released) = oneshot::channel::<()>();
    let pipeline = Pipeline::builder("p")
        .source("source", rail(0), async move |output: Output<Option<Buffer>>| {
            give.send(output).map_err(|_| "the test has ended")?;
            Ok(())
        })
        .sink("sink", rail(1), buffered(2, 4), async move |mut input: Input<Option<Buffer>>| {
            told.send(input.recv().await?.is_none())?;
            released.await?;
            drop(input);
            Ok(())
        });
    let running = pipeline.start().unwrap();
    let mut output = taken.recv().unwrap();
    assert_eq!(heard.recv(), Ok(true));
    assert_eq!(output.offer(None), Err(Closed));
    assert!(matches!(output.try_buffer(), Err(NoBuffer::Closed(Closed))));
    release.send(()).unwrap();
    let stats = runtime().block_on(running.join()).unwrap();
    assert_eq!((stats.stages[0].items_out, all_are_back(&stats)), (0, true));
}

#[test]
fn a_stage_that_looked_once_is_named() {
    let (looked, sees) = oneshot::channel();
    let pipeline = Pipeline::builder("p")
        .stall_limit(Some(STALL))
        .source("source", rail(0), async move |mut output: Output<u32>| {
            sees.await?;
            output.send(0).await?;
            pending().await
        })
        .sink("sink", rail(1), Link::new(1), async |mut input: Input<u32>| {
            let mut next = pin!(input.recv());
            poll_fn(|context| {
                assert!(next.as_mut().poll(context).is_pending(), "nothing was sent");
                Poll::Ready(())
            })
            .await;
            let _ = looked.send(());
            pending().await
        });
    let error = runtime().block_on(pipeline.start().unwrap().join()).unwrap_err();
    assert_eq!(error.stage, "sink");
    assert!(matches!(error.failure, StageFailure::Stalled { limit: STALL }), "{error:?}");
}

/// Long enough for a stage to be scheduled on a busy machine.
const STALL: Duration = Duration::from_secs(3);
