//! Frames that are read from a file or a disk into the buffers of a link, with several reads under
//! way.

use super::{Buffer, NoBuffer, Output};
use crate::{
    blocking::{BlockingPool, BlockingTask},
    runtime::TaskError,
};
use nix::libc::{O_DIRECT, O_NONBLOCK};
use rails_bind::{BindError, thread};
use rails_topo::CpuSet;
use std::{
    collections::VecDeque,
    fmt,
    fs::{self, File},
    future::pending,
    io::{self, Seek, SeekFrom},
    num::NonZeroUsize,
    os::{
        fd::AsRawFd,
        unix::fs::{FileExt, FileTypeExt, OpenOptionsExt},
    },
    panic::resume_unwind,
    path::PathBuf,
    sync::Arc,
};

/// The frames of a file, in order: all of one length, one behind the other, without anything
/// between them.
///
/// A source of a pipeline takes them with [`next`](Self::next), which reads further frames
/// meanwhile, each into a free buffer of the source's output. Buffers of huge pages
/// ([`Link::buffer_options`](super::Link::buffer_options)) make fewer requests of a read than
/// others. Where the file system allows it, they are read with `O_DIRECT`, so that the
/// bytes go from the disk into the buffer, past the page cache ([`Reading`]).
///
/// Each read blocks a thread of its own, which has the CPUs of the calling thread for that time. So
/// the reads of a source on a rail beside the disk are on that rail, and the disk's queues and
/// interrupts with them.
///
/// ```no_run
/// use rails_multirail::pipeline::{Buffer, Output, file::FileFrames};
///
/// const FRAME_BYTES: usize = 3840 * 2160 * 4;
///
/// async fn source(mut output: Output<Buffer>) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
///     let mut frames = FileFrames::open("film.rgba", FRAME_BYTES)?;
///     println!("{} frames, read {}; {} bytes too many", frames.count(), frames.reading(), frames.rest_bytes());
///     while let Some(frame) = frames.next(&mut output).await? {
///         output.send(frame).await?;
///     }
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct FileFrames {
    file: Arc<OpenedFile>,
    frame_bytes: usize,
    count: u64,
    rest_bytes: usize,
    reading: Reading,
    reads: NonZeroUsize,
    repeats: bool,
    /// The number of the next frame to read, of those in the file.
    next: u64,
    /// The failure that ends the frames, until the caller gets it.
    failure: Option<FileError>,
    threads: BlockingPool,
    /// The reads, the oldest first.
    under_way: VecDeque<BlockingTask<Result<Buffer, FileError>>>,
}

/// How the bytes of frames are read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reading {
    /// With `O_DIRECT`: from the disk into the buffer. A file system in memory (tmpfs) accepts it
    /// too, and copies.
    Direct,
    /// Through the page cache, which costs a copy.
    Cached {
        /// Why not with `O_DIRECT`.
        reason: String,
    },
}

/// Frames cannot be read from a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// A frame has no bytes.
    #[error("frames of 0 bytes cannot be read from `{path}`", path = path.display())]
    EmptyFrame {
        /// The file.
        path: PathBuf,
    },
    /// The path is of a folder, a pipe, a socket or a character device.
    #[error("`{path}` is neither a plain file nor a block device", path = path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The file cannot be opened, or its length cannot be found.
    #[error("{call} failed for `{path}`", path = path.display())]
    Open {
        /// The call.
        call: &'static str,
        /// The file.
        path: PathBuf,
        /// The answer of the operating system.
        source: io::Error,
    },
    /// A frame could not be read. A file that was cut short since it was opened gives
    /// [`UnexpectedEof`](io::ErrorKind::UnexpectedEof).
    #[error("pread failed for frame {frame} of `{path}`, {bytes} bytes at {offset}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The number of the frame in the file, from 0.
        frame: u64,
        /// The length of the frame.
        bytes: usize,
        /// The frame's offset, in bytes.
        offset: u64,
        /// The answer of the operating system.
        source: io::Error,
    },
    /// The link's buffers are not of a frame's length.
    #[error("buffers of {buffer_bytes} bytes are not for frames of {frame_bytes} from `{path}`", path = path.display())]
    BufferLength {
        /// The file.
        path: PathBuf,
        /// The length of a frame.
        frame_bytes: usize,
        /// The length of a buffer.
        buffer_bytes: usize,
    },
    /// The output gave no buffer.
    #[error(transparent)]
    NoBuffer(#[from] NoBuffer),
    /// The operating system gave no thread to read on. The cause names the limits that it may have
    /// met.
    #[error("no thread to read `{path}` on", path = path.display())]
    NoThread {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// A file, and its name for errors.
#[derive(Debug)]
struct OpenedFile {
    file: File,
    path: PathBuf,
}

impl FileFrames {
    /// Opens a plain file, or a block device such as `/dev/nvme0n1`, whose frames have
    /// `frame_bytes` bytes each.
    ///
    /// The file is read with `O_DIRECT`, and through the page cache where that is refused. A file
    /// that grows later keeps the number of frames that it had here.
    ///
    /// # Errors
    /// [`FileError::EmptyFrame`], [`FileError::NotAFile`], [`FileError::Open`].
    ///
    /// # References
    /// open(2), `O_DIRECT`
    pub fn open(path: impl Into<PathBuf>, frame_bytes: usize) -> Result<Self, FileError> {
        let path: PathBuf = path.into();
        if frame_bytes == 0 {
            return Err(FileError::EmptyFrame { path });
        }
        let failed = |call| {
            let path = path.clone();
            move |source| FileError::Open { call, path, source }
        };
        // Opening a pipe waits for its writer, so the kind comes first.
        let kind = fs::metadata(&path).map_err(failed("stat"))?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(FileError::NotAFile { path });
        }
        // Another file may have its place by now; `O_NONBLOCK` opens a pipe without a wait.
        let mut cached = File::options().read(true).custom_flags(O_NONBLOCK).open(&path).map_err(failed("open"))?;
        let kind = cached.metadata().map_err(failed("fstat"))?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(FileError::NotAFile { path });
        }
        // The metadata of a block device has no length.
        let length = cached.seek(SeekFrom::End(0)).map_err(failed("lseek"))?;
        let (count, rest) = (length / frame_bytes as u64, length % frame_bytes as u64);
        let (file, reading) = match direct(&cached, frame_bytes, count > 0) {
            Ok(file) => (file, Reading::Direct),
            Err(reason) => (cached, Reading::Cached { reason }),
        };
        Ok(Self {
            file: Arc::new(OpenedFile { file, path }),
            frame_bytes,
            count,
            rest_bytes: usize::try_from(rest).expect("it is less than a frame"),
            reading,
            reads: DEFAULT_READS,
            repeats: false,
            next: 0,
            failure: None,
            threads: BlockingPool::new("rails-read".to_owned(), || ()),
            under_way: VecDeque::new(),
        })
    }

    /// Sets how many reads are under way at a time, as far as buffers are free. Default: 2, so that
    /// the disk has the next read when one is done; the kernel cuts a long read into many
    /// requests by itself. Each occupies a buffer and a thread.
    pub fn reads(self, reads: NonZeroUsize) -> Self {
        Self { reads, ..self }
    }

    /// Has the first frame follow the last one, for ever. Default: the frames end with the file.
    pub fn repeated(self) -> Self {
        Self { repeats: true, ..self }
    }

    /// The number of whole frames in the file.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The bytes behind the last whole frame, in which a frame was cut short. They are not read.
    pub fn rest_bytes(&self) -> usize {
        self.rest_bytes
    }

    /// How the frames are read.
    pub fn reading(&self) -> &Reading {
        &self.reading
    }

    /// The next frame, once it is read; `None` behind the last whole one. Further reads go on after
    /// it has returned.
    ///
    /// Dropping the future loses no frame. When the frames are dropped with reads under way, as by
    /// a stage that is aborted, each of these ends by itself, and its buffer goes back then.
    ///
    /// # Errors
    /// [`FileError`]; the frames end with it, after the reads that were under way.
    pub async fn next<T>(&mut self, output: &mut Output<T>) -> Result<Option<Buffer>, FileError> {
        if self.failure.is_none() {
            match self.next_read(output).await {
                Ok(frame) => return Ok(frame),
                Err(error) => (self.failure, self.next, self.repeats) = (Some(error), self.count, false),
            }
        }
        while let Some(rest) = self.under_way.front_mut() {
            // The caller gets the first error.
            drop(rest.await);
            self.under_way.pop_front();
        }
        self.failure.take().map_or(Ok(None), Err)
    }

    async fn next_read<T>(&mut self, output: &mut Output<T>) -> Result<Option<Buffer>, FileError> {
        loop {
            let is_room = self.next < self.count && self.under_way.len() < self.reads.get();
            if is_room && self.under_way.is_empty() {
                let buffer = output.buffer().await?;
                self.begin(buffer)?;
                continue;
            }
            tokio::select! {
                // The disk gets its next read before a frame goes on.
                biased;
                // The stage waits for the disk, and not for this.
                buffer = output.spare_buffer(), if is_room => self.begin(buffer?)?,
                read = oldest(&mut self.under_way), if !self.under_way.is_empty() => {
                    self.under_way.pop_front();
                    return match read {
                        Ok(read) => read.map(Some),
                        Err(TaskError::Panicked(panic)) => resume_unwind(panic.into_payload()),
                        Err(error) => unreachable!("a read that has begun is not cancelled: {error}"),
                    };
                }
                else => return Ok(None),
            }
        }
    }

    /// Begins to read the next frame.
    fn begin(&mut self, buffer: Buffer) -> Result<(), FileError> {
        if buffer.len() != self.frame_bytes {
            let (frame_bytes, buffer_bytes) = (self.frame_bytes, buffer.len());
            return Err(FileError::BufferLength { path: self.file.path.clone(), frame_bytes, buffer_bytes });
        }
        let (file, frame, cpus) = (self.file.clone(), self.next, thread::current_affinity());
        let begun = self.threads.run(move || on(cpus, || file.read(frame, buffer)));
        let begun = begun.map_err(|source| FileError::NoThread { path: self.file.path.clone(), source })?;
        self.under_way.push_back(begun.expect("the threads end with the frames"));
        self.next += 1;
        if self.repeats && self.next == self.count {
            self.next = 0;
        }
        Ok(())
    }
}

impl OpenedFile {
    fn read(&self, frame: u64, mut buffer: Buffer) -> Result<Buffer, FileError> {
        let bytes = buffer.len();
        let offset = frame * bytes as u64;
        match self.file.read_exact_at(&mut buffer, offset) {
            Ok(()) => Ok(buffer),
            Err(source) => Err(FileError::Read { path: self.path.clone(), frame, bytes, offset, source }),
        }
    }
}

/// Reads on these CPUs, and where the thread is if it cannot be bound: the CPUs may have gone
/// offline meanwhile.
fn on<R>(cpus: Result<CpuSet, BindError>, read: impl FnOnce() -> R) -> R {
    let bound = cpus.and_then(|cpus| thread::bind_current(&cpus));
    if let Err(error) = &bound {
        tracing::warn!(%error, "a frame is read away from the CPUs of its rail");
    }
    read()
}

/// The result of the oldest read, which the caller takes off.
async fn oldest<R>(under_way: &mut VecDeque<BlockingTask<R>>) -> Result<R, TaskError> {
    match under_way.front_mut() {
        Some(read) => read.await,
        None => pending().await,
    }
}

/// The file, opened anew with `O_DIRECT`, or why that cannot be.
///
/// A file system may refuse when the file is opened or when it is read, so the first block is read
/// here: then all frames are read in one way.
fn direct(file: &File, frame_bytes: usize, has_frames: bool) -> Result<File, String> {
    if !frame_bytes.is_multiple_of(BLOCK) {
        return Err(format!("a frame of {frame_bytes} bytes is no multiple of {BLOCK}"));
    }
    let refused = |error: io::Error| format!("the file system refuses O_DIRECT: {error}");
    // The path in `/proc` names the opened file, although another one may have its path by now.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let file = File::options().read(true).custom_flags(O_DIRECT).open(path).map_err(refused)?;
    if has_frames {
        let mut scratch = vec![0; 2 * BLOCK];
        let start = scratch.as_ptr().align_offset(BLOCK);
        file.read_exact_at(&mut scratch[start..start + BLOCK], 0).map_err(refused)?;
    }
    Ok(file)
}

/// `with O_DIRECT`, or `through the page cache` and why.
impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct => f.write_str("with O_DIRECT"),
            Self::Cached { reason } => write!(f, "through the page cache ({reason})"),
        }
    }
}

/// Memory, places and lengths of direct reads are multiples of the disk's logical block, which has
/// 512 or 4096 bytes. A pool of buffers of that length begins each of them at such an address.
const BLOCK: usize = 4096;
const DEFAULT_READS: NonZeroUsize = NonZeroUsize::new(2).expect("it is not 0");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_have_the_cpus_of_their_rail_meanwhile() {
        let read = || {
            let before = thread::current_affinity().unwrap();
            let last = CpuSet::single(before.iter().last().unwrap());
            assert_eq!(on(Ok(last.clone()), || thread::current_affinity().unwrap()), last);
            assert_eq!(on(Ok(CpuSet::new()), || thread::current_affinity().unwrap()), before, "no CPU to be bound to");
            assert_eq!(thread::current_affinity().unwrap(), before);
        };
        std::thread::spawn(read).join().unwrap();
    }
}
