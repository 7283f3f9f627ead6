//! Frames of files: of any length, read in both ways, with any number of buffers and reads.

use crate::util::{all_are_back, drain, named, rail, runtime};
use proptest::prelude::*;
use rails_multirail::pipeline::{
    Buffer, Input, Link, Output, Pipeline, PipelineError, PipelineStats, Side, StageFailure,
    file::{FileError, FileFrames, Reading},
};
use std::{
    error::Error,
    fs,
    io::{ErrorKind, Write},
    num::NonZeroUsize,
    os::unix::fs::symlink,
    pin::pin,
    sync::mpsc,
    task::{Context, Poll, Waker},
    time::Duration,
};
use tempfile::NamedTempFile;

/// The bytes of a file of that length: no two frames of it are the same.
fn bytes(length: usize) -> Vec<u8> {
    (0..length as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

fn file_of(bytes: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn count(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).unwrap()
}

/// The next frame, by a caller that drops the future each time that it would wait.
async fn next_by_looks(frames: &mut FileFrames, output: &mut Output<Buffer>) -> Result<Option<Buffer>, FileError> {
    loop {
        let next = pin!(frames.next(output)).as_mut().poll(&mut Context::from_waker(Waker::noop()));
        match next {
            Poll::Ready(next) => return next,
            Poll::Pending => tokio::time::sleep(Duration::from_micros(50)).await,
        }
    }
}

/// At most `most` frames, as a sink gets them from a source with `buffers` buffers.
async fn read(
    mut frames: FileFrames,
    frame_bytes: usize,
    most: usize,
    buffers: usize,
    by_looks: bool,
) -> Result<(PipelineStats, Vec<Vec<u8>>), Box<PipelineError>> {
    let (told, heard) = mpsc::channel();
    let pipeline = Pipeline::builder("p")
        .source("source", rail(0), async move |mut output: Output<Buffer>| {
            for _ in 0..most {
                let next = match by_looks {
                    true => next_by_looks(&mut frames, &mut output).await?,
                    false => frames.next(&mut output).await?,
                };
                let Some(frame) = next else { break };
                output.send(frame).await?;
            }
            Ok(())
        })
        .sink(
            "sink",
            rail(1),
            Link::new(1).buffers(Side::Consumer, frame_bytes, buffers),
            async move |mut input: Input<Buffer>| {
                while let Some(frame) = input.recv().await? {
                    told.send(frame.to_vec())?;
                }
                Ok(())
            },
        );
    let stats = pipeline.start().unwrap().join().await?;
    Ok((stats, heard.iter().collect()))
}

fn run(
    frames: FileFrames,
    frame_bytes: usize,
    most: usize,
    buffers: usize,
) -> Result<(PipelineStats, Vec<Vec<u8>>), Box<PipelineError>> {
    runtime().block_on(read(frames, frame_bytes, most, buffers, false))
}

fn run_by_looks(
    frames: FileFrames,
    frame_bytes: usize,
    buffers: usize,
) -> Result<(PipelineStats, Vec<Vec<u8>>), Box<PipelineError>> {
    runtime().block_on(read(frames, frame_bytes, usize::MAX, buffers, true))
}

/// The error of the stage, as one of the file's.
fn of_file(error: &PipelineError) -> &FileError {
    let StageFailure::Failed(error) = &error.failure else { panic!("{error}") };
    error.downcast_ref().expect("the file's")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whole_frames_arrive_and_the_rest_is_told(
        frame_bytes in prop_oneof![1..6000_usize, Just(4096), Just(8192)],
        whole in 0..8_usize,
        part in 0.0..1.0_f64,
        buffers in 1..5_usize,
        reads in 1..5_usize,
        by_looks: bool,
    ) {
        let rest = (frame_bytes as f64 * part) as usize;
        let all = bytes(whole * frame_bytes + rest);
        let file = file_of(&all);
        let frames = FileFrames::open(file.path(), frame_bytes).unwrap().reads(count(reads));
        prop_assert_eq!((frames.count(), frames.rest_bytes()), (whole as u64, rest));
        if let Reading::Cached { reason } = frames.reading() {
            prop_assert!(reason.contains("no multiple of 4096") != (frame_bytes % 4096 == 0), "{}", reason);
        }
        let (stats, got) = if by_looks {
            run_by_looks(frames, frame_bytes, buffers).unwrap()
        } else {
            run(frames, frame_bytes, usize::MAX, buffers).unwrap()
        };
        prop_assert!(got.iter().flatten().eq(&all[..whole * frame_bytes]));
        prop_assert!(all_are_back(&stats), "{:?}", stats);
        prop_assert_eq!(stats.stages[0].items_out, whole as u64);
    }
}

/// One buffer is out when the next is wanted, and comes back all the same.
#[test]
fn frames_repeat_from_the_first_one_on() {
    let all = bytes(3 * 4096 + 7);
    let file = file_of(&all);
    for (buffers, reads) in [(1, 4), (4, 1), (4, 3)] {
        let frames = FileFrames::open(file.path(), 4096).unwrap().reads(count(reads)).repeated();
        let (stats, got) = run(frames, 4096, 10, buffers).unwrap();
        let expected = all.chunks_exact(4096).cycle().take(10);
        assert!(got.iter().map(Vec::as_slice).eq(expected), "{buffers} buffers, {reads} reads");
        assert_eq!(stats.stages[1].items_in, 10);
    }
    let frames = FileFrames::open(file_of(b"short").path(), 4096).unwrap().repeated();
    assert_eq!((frames.count(), frames.rest_bytes()), (0, 5));
    assert_eq!(run(frames, 4096, 10, 1).unwrap().1, Vec::<Vec<u8>>::new());
}

/// A failure that comes while the caller is gone waits for it, and nothing comes in place of the
/// frame.
#[test]
fn a_failure_waits_for_its_caller() {
    for _ in 0..20 {
        let file = file_of(&bytes(9 * 4096));
        let frames = FileFrames::open(file.path(), 4096).unwrap().reads(count(4));
        file.as_file().set_len(3 * 4096 + 100).unwrap();
        let error = run_by_looks(frames, 4096, 6).unwrap_err();
        assert!(matches!(of_file(&error), FileError::Read { frame: 3, .. }), "{error:?}");
        assert_eq!(error.stats.stages[1].items_in, 3, "those before it arrive");
    }
}

#[test]
fn a_file_that_is_cut_short_names_its_frame() {
    let file = file_of(&bytes(5 * 4096));
    let frames = FileFrames::open(file.path(), 4096).unwrap().reads(count(3));
    file.as_file().set_len(2 * 4096 + 100).unwrap();
    let error = run(frames, 4096, usize::MAX, 3).unwrap_err();
    assert_eq!(named(&error), "source");
    let FileError::Read { path, frame: 2, bytes: 4096, offset: 8192, source } = of_file(&error) else {
        panic!("{error:?}")
    };
    assert_eq!((path.as_path(), source.kind()), (file.path(), ErrorKind::UnexpectedEof));
    let said = error.source().unwrap().to_string();
    assert_eq!(said, format!("pread failed for frame 2 of `{}`, 4096 bytes at 8192", path.display()));
    assert_eq!(error.stats.stages[1].items_in, 2, "those before it arrive");
}

#[test]
fn buffers_of_another_length_are_refused() {
    let file = file_of(&bytes(4096));
    let error = run(FileFrames::open(file.path(), 4096).unwrap(), 4095, 1, 1).unwrap_err();
    assert_eq!(named(&error), "source");
    assert!(matches!(of_file(&error), FileError::BufferLength { frame_bytes: 4096, buffer_bytes: 4095, .. }));
}

#[test]
fn a_link_without_buffers_is_told() {
    let file = file_of(&bytes(4096));
    let mut frames = FileFrames::open(file.path(), 4096).unwrap();
    let pipeline = Pipeline::builder("p")
        .source("source", rail(0), async move |mut output: Output<Buffer>| {
            frames.next(&mut output).await?;
            Ok(())
        })
        .sink("sink", rail(1), Link::new(1), async |input| drain(input).await);
    let error = runtime().block_on(pipeline.start().unwrap().join()).unwrap_err();
    assert!(matches!(of_file(&error), FileError::NoBuffer(_)), "{error:?}");
}

#[test]
fn paths_without_frames_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("file"), "frame").unwrap();
    symlink("file", path("link")).unwrap();
    assert_eq!(FileFrames::open(path("link"), 5).unwrap().count(), 1);
    assert!(matches!(FileFrames::open(path("file"), 0), Err(FileError::EmptyFrame { .. })));
    assert!(matches!(FileFrames::open(folder.path(), 5), Err(FileError::NotAFile { .. })));
    assert!(matches!(FileFrames::open("/dev/null", 5), Err(FileError::NotAFile { .. })));
    let missing = FileFrames::open(path("missing"), 5).unwrap_err();
    assert_eq!(missing.to_string(), format!("stat failed for `{}`", path("missing").display()));
}

/// A frame that no multiple of 4096 describes is read through the page cache; others are read past
/// it where the file system of this folder allows it.
#[test]
fn the_way_of_the_bytes_is_said() {
    let file = file_of(&bytes(8192));
    let frames = FileFrames::open(file.path(), 1000).unwrap();
    assert_eq!(frames.reading().to_string(), "through the page cache (a frame of 1000 bytes is no multiple of 4096)");
    match FileFrames::open(file.path(), 4096).unwrap().reading() {
        Reading::Direct => {}
        Reading::Cached { reason } => assert!(reason.starts_with("the file system refuses O_DIRECT: "), "{reason}"),
        other => panic!("{other:?}"),
    }
}
