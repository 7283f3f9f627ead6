//! The whole crate over a driver on the CPU.

use super::*;
use crate::{
    CudaStatus,
    sys::fake::{Ended, Failure, Turn},
};
use rails_multirail::pipeline::device::swap_red_and_blue;
use std::{future::poll_fn, time::Duration};
use tokio::time::timeout;

/// Frames through a device of two slots, until the first error. Frames that come back are as they
/// should be.
fn frames(driver: &'static CudaDriver) -> Result<(), Box<dyn Error + Send + Sync>> {
    let options = CudaOptions::new(50).depth(NonZeroUsize::new(2).unwrap());
    let mut device = CudaDevice::of(driver, &options)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        device.submit(frame(0, 50))?;
        for number in 1..5 {
            // The third has no whole pixel.
            device.submit(frame(number, if number == 3 { 3 } else { 48 }))?;
            check(&mut device, number - 1).await?;
        }
        check(&mut device, 4).await?;
        // Two are left to the end.
        device.submit(frame(5, 8))?;
        device.submit(frame(6, 8))
    })
}

async fn check(device: &mut CudaDevice<Vec<u8>>, number: u8) -> Result<(), Box<dyn Error + Send + Sync>> {
    let done = poll_fn(|context| device.poll_done(context));
    let done = timeout(Duration::from_secs(60), done).await.expect("the device has done with the frame")?;
    let mut expected = frame(number, done.len());
    swap_red_and_blue(&mut expected);
    assert_eq!(done, expected);
    Ok(())
}

fn frame(number: u8, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| number ^ (7 * at) as u8).collect()
}

/// The end of those frames where the driver fails so.
fn ended(failure: Option<(usize, Failure)>) -> (Option<Box<dyn Error + Send + Sync>>, Ended) {
    let turn = Turn::new(failure);
    let result = frames(turn.driver());
    (result.err(), turn.end())
}

#[test]
fn nothing_is_left_of_a_device() {
    let (error, ended) = ended(None);
    assert!(error.is_none(), "{error:?}");
    assert!(ended.violations.is_empty() && ended.left == 0 && ended.registered == 0, "{ended:?}");
}

#[test]
fn any_call_may_fail_once_and_nothing_is_misused() {
    for at in 1.. {
        let (error, ended) = ended(Some((at, Failure::Passing)));
        assert!(ended.violations.is_empty(), "call {at}: {ended:?}");
        let Some(failed) = ended.failed else { break };
        match error {
            Some(error) => says_so(&*error, failed),
            None => assert!(is_at_the_end(failed), "call {at}: {failed} failed, and nobody said so"),
        }
        let is_leaked = ended.left + ended.registered > 0;
        assert!(!is_leaked || DESTRUCTORS.contains(&failed), "call {at}: {failed} failed, and left {ended:?}");
    }
}

#[test]
fn a_lost_context_is_an_error_and_its_memory_is_kept() {
    for at in 1.. {
        let (error, ended) = ended(Some((at, Failure::Lasting)));
        assert!(ended.violations.is_empty(), "call {at}: {ended:?}");
        let Some(failed) = ended.failed else { break };
        assert!(error.is_some() || is_at_the_end(failed), "call {at}: {failed} failed, and nobody said so");
    }
}

#[test]
fn the_words_of_the_compiler_are_in_the_error() {
    let (error, ended) = (1..)
        .map(|at| ended(Some((at, Failure::Passing))))
        .find(|(_, ended)| ended.failed.is_none_or(|failed| failed == "cuModuleLoadDataEx"))
        .expect("one of them fails there");
    assert_eq!(ended.failed, Some("cuModuleLoadDataEx"));
    let text = error.expect("it failed").to_string();
    assert!(text.contains("on device 0; its compiler says: line 1: no such thing"), "{text}");
}

#[test]
fn a_device_of_the_driver_has_its_name_and_its_memory() {
    let turn = Turn::new(None);
    let device = CudaDevice::<Vec<u8>>::of(turn.driver(), &CudaOptions::new(1)).unwrap();
    assert_eq!((device.name(), device.depth().get()), ("a device of the tests", 3));
    let residency = device.staging_residency().unwrap();
    assert_eq!((residency.absent(), residency.unknown()), (0, 0), "{residency}");
    drop(device);
    let error = CudaDevice::<Vec<u8>>::of(turn.driver(), &CudaOptions::new(1).ordinal(1)).unwrap_err();
    assert!(matches!(error, CudaError::NoDevice { ordinal: 1, count: 1 }), "{error}");
    let error = CudaDevice::<Vec<u8>>::of(turn.driver(), &CudaOptions::new(usize::MAX)).unwrap_err();
    assert!(matches!(error, CudaError::Staging { .. }), "{error}");
    let ended = turn.end();
    assert!(ended.violations.is_empty() && ended.left == 0 && ended.registered == 0, "{ended:?}");
}

/// The error names the call that failed, and the driver's words are its cause.
fn says_so(error: &(dyn Error + 'static), failed: &str) {
    assert!(error.to_string().contains(failed), "{failed}: {error}");
    let cause = error.source().and_then(|cause| cause.downcast_ref::<CudaStatus>()).expect("the driver's answer");
    assert_eq!(cause.to_string(), "CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access");
}

/// Whether the call is made while a device is dropped, when no caller could get its error.
fn is_at_the_end(failed: &str) -> bool {
    // The thread waits for the last frames.
    failed == "cuEventSynchronize" || DESTRUCTORS.contains(&failed)
}

/// Calls that end things, and the one that enters the context for them. Where one fails, things are
/// left to the end of the process.
const DESTRUCTORS: [&str; 8] = [
    "cuCtxPushCurrent",
    "cuStreamSynchronize",
    "cuStreamDestroy",
    "cuEventDestroy",
    "cuMemFree",
    "cuMemHostUnregister",
    "cuModuleUnload",
    "cuDevicePrimaryCtxRelease",
];
