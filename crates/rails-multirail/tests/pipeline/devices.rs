//! Stages that are devices.

use crate::util::{buffered, count_to, named, number, numbered, rail, runtime};
use rails_multirail::pipeline::{
    Buffer, Input, Link, Pipeline,
    device::{self, FrameDevice, HostDevice},
};
use std::{
    collections::VecDeque,
    error::Error,
    num::NonZeroUsize,
    task::{Context, Poll},
};

/// A device that returns no frame before it has three of them, or was asked for one twice.
struct Deep {
    under_way: VecDeque<Buffer>,
    asked: bool,
}

impl FrameDevice<Buffer> for Deep {
    fn depth(&self) -> NonZeroUsize {
        NonZeroUsize::new(3).unwrap()
    }

    fn submit(&mut self, frame: Buffer) -> Result<(), Box<dyn Error + Send + Sync>> {
        assert!(self.under_way.len() < 3, "it was asked for its depth");
        self.under_way.push_back(frame);
        Ok(())
    }

    fn poll_done(&mut self, context: &mut Context<'_>) -> Poll<Result<Buffer, Box<dyn Error + Send + Sync>>> {
        assert!(!self.under_way.is_empty(), "it is not asked for nothing");
        if self.under_way.len() < 3 && !std::mem::replace(&mut self.asked, true) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.asked = false;
        let frame = self.under_way.pop_front().unwrap();
        let next = number(&frame) + 1;
        Poll::Ready(Ok(numbered(frame, next)))
    }
}

#[test]
fn frames_of_a_deep_device_stay_in_order() {
    let pipeline = Pipeline::builder("p")
        .source("source", rail(0), async |output| count_to(500, output).await)
        .stage("device", rail(1), buffered(2, 8), async |input, output| {
            device::run(Deep { under_way: VecDeque::new(), asked: false }, input, output).await
        })
        .sink("sink", rail(0), Link::new(2), async |mut input: Input<Buffer>| {
            let mut next = 1;
            while let Some(buffer) = input.recv().await? {
                assert_eq!(number(&buffer), next);
                next += 1;
            }
            assert_eq!(next, 501);
            Ok(())
        });
    runtime().block_on(pipeline.start().unwrap().join()).unwrap();
}

#[test]
fn a_host_device_changes_frames_in_place() {
    let pipeline = Pipeline::builder("p")
        .source("source", rail(0), async |output| count_to(3, output).await)
        .stage("device", rail(1), buffered(1, 2), async |input, output| {
            let device = HostDevice::new(|frame: &mut Buffer| frame[..4].copy_from_slice(&[0, 0, 9, 0]));
            device::run(device, input, output).await
        })
        .stage("swap", rail(0), Link::new(1), async |input, output| {
            let device = HostDevice::new(|frame: &mut Buffer| device::swap_red_and_blue(frame));
            device::run(device, input, output).await
        })
        .sink("sink", rail(1), Link::new(1), async |mut input: Input<Buffer>| {
            while let Some(buffer) = input.recv().await? {
                assert_eq!(buffer[..4], [9, 0, 0, 0]);
            }
            Ok(())
        });
    runtime().block_on(pipeline.start().unwrap().join()).unwrap();
}

#[test]
fn a_device_without_a_next_stage_gives_frames_back() {
    let pipeline = Pipeline::builder("p")
        .source("source", rail(0), async |output| count_to(500, output).await)
        .stage("device", rail(1), buffered(2, 8), async |input, output| {
            device::run(Deep { under_way: VecDeque::new(), asked: false }, input, output).await
        })
        .sink("sink", rail(0), Link::new(1), async |mut input: Input<Buffer>| {
            input.recv().await?;
            Err("the window was closed".into())
        });
    let error = runtime().block_on(pipeline.start().unwrap().join()).unwrap_err();
    assert_eq!(named(&error), "sink");
}
