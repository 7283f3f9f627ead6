//! A CUDA device. Tests named `cuda_*` need one; the others tell what happens on a machine without.

use rails_cuda::{CudaDevice, CudaError, CudaOptions, device_names};
use rails_multirail::{
    RailId, RailRequest, Rails,
    pipeline::{
        Buffer, Input, Link, Output, Pipeline, Side,
        device::{self, FrameDevice, swap_red_and_blue},
    },
    plan_rails,
};
use rails_topo::Topology;
use rand::{RngExt, SeedableRng, rngs::ChaCha8Rng};
use std::{collections::VecDeque, error::Error, future::poll_fn, num::NonZeroUsize, time::Duration};
use tokio::{runtime::Runtime, time::timeout};

#[test]
fn a_device_or_an_error_that_says_what_to_do() {
    match CudaDevice::<Vec<u8>>::new(&CudaOptions::new(64)) {
        Ok(mut device) => {
            let frame: Vec<u8> = (0..64).collect();
            device.submit(frame.clone()).unwrap();
            assert_eq!(runtime().block_on(done(&mut device)), swapped(&frame));
        }
        Err(error @ CudaError::NoDriver { .. }) => {
            let text = error.to_string();
            assert!(text.starts_with("no CUDA driver: libcuda.so.1") && text.contains("install"), "{text}");
            let mut causes = Vec::new();
            let mut cause = error.source();
            while let Some(error) = cause {
                causes.push(error.to_string());
                cause = error.source();
            }
            assert!(causes.iter().any(|cause| cause.contains("cannot open shared object file")), "{causes:?}");
            assert!(matches!(device_names(), Err(CudaError::NoDriver { .. })));
        }
        // A driver without a device.
        Err(error) => assert!(matches!(error, CudaError::Call { call: "cuInit", .. }), "{error:?}"),
    }
}

#[test]
#[ignore = "needs a CUDA device"]
fn cuda_frames_are_swapped_as_on_the_host() {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let longest = 100_003;
    let mut device = CudaDevice::new(&CudaOptions::new(longest)).unwrap();
    assert!(!device.name().is_empty());
    assert_eq!(device.name(), device_names().unwrap()[0]);
    let short = 0..=17;
    let lengths = short.chain([1023, 1024, 1025, longest - 1, longest]);
    let lengths: Vec<usize> = lengths.chain((0..50).map(|_| random.random_range(0..=longest))).collect();
    runtime().block_on(async {
        let mut under_way = VecDeque::new();
        for length in lengths {
            if under_way.len() == device.depth().get() {
                assert_eq!(Some(done(&mut device).await), under_way.pop_front());
            }
            let mut frame = vec![0; length];
            random.fill(&mut frame[..]);
            under_way.push_back(swapped(&frame));
            device.submit(frame).unwrap();
        }
        for expected in under_way {
            assert!(done(&mut device).await == expected);
        }
    });
}

#[test]
#[ignore = "needs a CUDA device"]
fn cuda_threads_of_a_large_frame_take_several_pixels() {
    // More than 2^24 pixels.
    let bytes = (1 << 26) + 4 * 1000 + 3;
    let mut device = CudaDevice::new(&CudaOptions::new(bytes).depth(NonZeroUsize::MIN)).unwrap();
    let mut frame = vec![0; bytes];
    ChaCha8Rng::seed_from_u64(2).fill(&mut frame[..]);
    device.submit(frame.clone()).unwrap();
    assert!(runtime().block_on(done(&mut device)) == swapped(&frame));
}

#[test]
#[ignore = "needs a CUDA device"]
fn cuda_frames_of_a_pipeline_stay_in_order() {
    let topology = Topology::detect().unwrap();
    let rails = Rails::build(&plan_rails(&topology, &RailRequest::loopback(2)).unwrap()).unwrap();
    let [first, second] = [0, 1].map(|rail| rails[RailId(rail)].runtime());
    let pipeline = Pipeline::builder("p")
        .source("source", first, async |mut output: Output<Buffer>| {
            for number in 0..FRAMES {
                let mut frame = output.buffer().await?;
                frame.copy_from_slice(&pattern(number));
                output.send(frame).await?;
            }
            Ok(())
        })
        .stage("cuda", second, Link::new(1).buffers(Side::Consumer, FRAME_BYTES, 6), async |input, output| {
            let device = CudaDevice::new(&CudaOptions::new(FRAME_BYTES))?;
            device::run(device, input, output).await
        })
        .sink("sink", first, Link::new(1), async |mut input: Input<Buffer>| {
            let mut number = 0;
            while let Some(frame) = input.recv().await? {
                assert!(frame[..] == swapped(&pattern(number)), "frame {number}");
                number += 1;
            }
            assert_eq!(number, FRAMES);
            Ok(())
        });
    let stats = runtime().block_on(pipeline.start().unwrap().join()).unwrap();
    let buffers = stats.stages[0].buffers.as_ref().unwrap();
    assert_eq!(buffers.free, buffers.count);
}

#[test]
#[ignore = "needs a CUDA device"]
fn cuda_devices_are_dropped_with_frames_under_way() {
    for under_way in (0..=3).cycle().take(20) {
        let mut device = CudaDevice::new(&CudaOptions::new(FRAME_BYTES)).unwrap();
        for number in 0..under_way {
            device.submit(pattern(number)).unwrap();
        }
    }
    let mut device = CudaDevice::new(&CudaOptions::new(FRAME_BYTES)).unwrap();
    device.submit(pattern(9)).unwrap();
    assert!(runtime().block_on(done(&mut device)) == swapped(&pattern(9)), "the GPU works on");
}

#[test]
#[ignore = "needs a CUDA device"]
fn cuda_device_goes_on_after_a_frame_too_long() {
    let mut device = CudaDevice::new(&CudaOptions::new(8).depth(NonZeroUsize::MIN)).unwrap();
    let error = device.submit(vec![0; 9]).unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(CudaError::FrameTooLong { frame_bytes: 9, longest: 8 })), "{error}");
    device.submit(vec![1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    let error = device.submit(vec![0; 8]).unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(CudaError::Full { depth: 1 })), "{error}");
    assert_eq!(runtime().block_on(done(&mut device)), [3, 2, 1, 4, 7, 6, 5, 8]);
}

#[test]
#[ignore = "needs a CUDA device"]
fn cuda_devices_share_a_gpu_and_move_between_threads() {
    let threads = [3, 4].map(|number| {
        let mut device = CudaDevice::new(&CudaOptions::new(FRAME_BYTES)).unwrap();
        std::thread::spawn(move || {
            device.submit(pattern(number)).unwrap();
            assert!(runtime().block_on(done(&mut device)) == swapped(&pattern(number)));
        })
    });
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
#[ignore = "needs a CUDA device"]
fn cuda_staging_memory_has_its_pages() {
    let device = CudaDevice::<Vec<u8>>::new(&CudaOptions::new(FRAME_BYTES)).unwrap();
    let residency = device.staging_residency().unwrap();
    assert_eq!((residency.absent(), residency.unknown()), (0, 0), "{residency}");
}

#[test]
#[ignore = "needs a CUDA device"]
fn cuda_device_of_no_such_number() {
    let count = device_names().unwrap().len() as u32;
    for ordinal in [count, u32::MAX] {
        let error = CudaDevice::<Vec<u8>>::new(&CudaOptions::new(8).ordinal(ordinal)).unwrap_err();
        assert!(matches!(error, CudaError::NoDevice { ordinal: named, .. } if named == ordinal), "{error}");
    }
}

/// The next frame that comes back.
async fn done<B: AsMut<[u8]>>(device: &mut CudaDevice<B>) -> B {
    let done = poll_fn(|context| device.poll_done(context));
    timeout(DEADLINE, done).await.expect("the device has done with the frame").expect("without an error")
}

fn swapped(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    swap_red_and_blue(&mut frame);
    frame
}

/// Bytes by which each frame and each place in it are known.
fn pattern(number: usize) -> Vec<u8> {
    (0..FRAME_BYTES).map(|at| (at.wrapping_mul(31) ^ (at >> 8) ^ number) as u8).collect()
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

const FRAMES: usize = 100;
const FRAME_BYTES: usize = 640 * 480 * 4;
const DEADLINE: Duration = Duration::from_secs(60);
