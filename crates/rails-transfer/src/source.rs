//! The sender's disk thread: reads and hashes files ahead of the stream.

use crate::{
    frame::Block,
    message::{Digest, Held, MODE_BITS},
    plan::Place,
    proto::{Choice, choose, prefix_to_check},
    reason::Reason,
};
use cap_std::fs::OpenOptionsExt as _;
use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc as sync_mpsc,
    },
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::sync::mpsc;

/// A file to read, after the receiver has named the bytes that it holds.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) id: u64,
    pub(crate) source: Place,
    /// The offered size.
    pub(crate) size: u64,
    pub(crate) held: Held,
    /// Set when the receiver has given up on the file.
    pub(crate) stop: Arc<AtomicBool>,
}

/// The thread's results, in the order of the jobs.
#[derive(Debug)]
pub(crate) enum Event {
    Start {
        id: u64,
        offset: u64,
    },
    Block {
        id: u64,
        block: Block,
    },
    Finish {
        id: u64,
        digest: Digest,
    },
    Keep {
        id: u64,
        digest: Digest,
    },
    /// The file changed since it was listed: the bytes may be of several versions.
    Changed {
        id: u64,
        reason: Reason,
        /// The present size in bytes and mode, if it is still a file.
        listed: Option<(u64, u32)>,
    },
    /// The file cannot be sent, or was stopped.
    Failed {
        id: u64,
        reason: Reason,
    },
}

/// The channels of the thread's owner.
pub(crate) struct Handles {
    pub(crate) jobs: sync_mpsc::Sender<Job>,
    pub(crate) events: mpsc::Receiver<Event>,
    /// Returns sent blocks, which are filled again.
    pub(crate) used: sync_mpsc::Sender<Block>,
}

/// The thread's half and its owner's half.
pub(crate) fn channels() -> (Reader, Handles) {
    let (jobs_in, jobs) = sync_mpsc::channel();
    let (events, events_out) = mpsc::channel(READ_AHEAD);
    let (used_in, used) = sync_mpsc::channel();
    (Reader { jobs, events, used }, Handles { jobs: jobs_in, events: events_out, used: used_in })
}

/// The thread's half.
pub(crate) struct Reader {
    jobs: sync_mpsc::Receiver<Job>,
    events: mpsc::Sender<Event>,
    used: sync_mpsc::Receiver<Block>,
}

/// The reason why a file was not read to its end.
enum Stop {
    /// The file could not be read.
    Failed(Reason),
    /// The file changed.
    Changed(Reason),
    /// The thread's owner has dropped its half.
    Closed,
}

impl Reader {
    /// Reads the files of all jobs, until the owner drops either end.
    pub(crate) fn run(self) {
        while let Ok(job) = self.jobs.recv() {
            let outcome = match self.read(&job) {
                Err(Stop::Failed(reason)) => self.tell(Event::Failed { id: job.id, reason }),
                Err(Stop::Changed(reason)) => self.tell(Event::Changed { id: job.id, reason, listed: listed(&job) }),
                other => other,
            };
            if outcome.is_err() {
                return;
            }
        }
    }

    fn read(&self, job: &Job) -> Result<(), Stop> {
        let (mut file, stamp) = open(job)?;
        let mut hasher = blake3::Hasher::new();
        let mut scratch = Vec::new();
        let mut prefix = None;
        if let Some(len) = prefix_to_check(&job.held, job.size) {
            self.hash_exactly(&mut file, &mut hasher, len, job, &mut scratch)?;
            prefix = Some((len, hasher.clone()));
        }
        let mut whole = None;
        if job.held.whole.is_some() {
            let hashed = prefix.as_ref().map_or(0, |(len, _)| *len);
            self.hash_exactly(&mut file, &mut hasher, job.size - hashed, job, &mut scratch)?;
            whole = Some(Digest::from(hasher.finalize()));
        }
        let prefix_digest = prefix.as_ref().map(|(_, hasher)| hasher.finalize().into());
        let digest = match (choose(&job.held, job.size, prefix_digest, whole), whole, prefix) {
            (Choice::Keep, Some(digest), _) => {
                unchanged(job, &file, &stamp)?;
                return self.tell(Event::Keep { id: job.id, digest });
            }
            (Choice::From(offset), _, Some((len, hasher))) if offset == len => {
                self.stream(job, &mut file, hasher, offset)?
            }
            _ => self.stream(job, &mut file, blake3::Hasher::new(), 0)?,
        };
        unchanged(job, &file, &stamp)?;
        self.tell(Event::Finish { id: job.id, digest })
    }

    /// Reads from `offset` to the end; returns the digest of the whole file.
    fn stream(&self, job: &Job, file: &mut File, mut hasher: blake3::Hasher, offset: u64) -> Result<Digest, Stop> {
        file.seek(SeekFrom::Start(offset)).map_err(|error| failed("seek in", &error))?;
        self.tell(Event::Start { id: job.id, offset })?;
        let mut left = job.size - offset;
        while left > 0 {
            stopped(job)?;
            let len = usize::try_from(left).map_or(BLOCK, |left| left.min(BLOCK));
            let mut block = self.used.try_recv().unwrap_or_default();
            let payload = block.payload_mut(len);
            read_exactly(file, payload, job.size)?;
            hasher.update(payload);
            self.tell(Event::Block { id: job.id, block })?;
            left -= len as u64;
        }
        if read_some(file, &mut [0])? != 0 {
            let size = job.size;
            return Err(Stop::Changed(Reason::new(format_args!("sender: the file grew past {size} bytes while sent"))));
        }
        Ok(hasher.finalize().into())
    }

    fn hash_exactly(
        &self,
        file: &mut File,
        hasher: &mut blake3::Hasher,
        mut left: u64,
        job: &Job,
        scratch: &mut Vec<u8>,
    ) -> Result<(), Stop> {
        scratch.resize(BLOCK, 0);
        while left > 0 {
            stopped(job)?;
            if self.events.is_closed() {
                return Err(Stop::Closed);
            }
            let len = usize::try_from(left).map_or(BLOCK, |left| left.min(BLOCK));
            read_exactly(file, &mut scratch[..len], job.size)?;
            hasher.update(&scratch[..len]);
            left -= len as u64;
        }
        Ok(())
    }

    fn tell(&self, event: Event) -> Result<(), Stop> {
        self.events.blocking_send(event).map_err(|_| Stop::Closed)
    }
}

/// Properties of a file that change with its bytes.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    identity: Identity,
    size: u64,
    /// The last change of the bytes (mtime), in seconds and nanoseconds.
    modified: (i64, i64),
    /// The last change of bytes or attributes (ctime), which no call can set.
    changed: (i64, i64),
}

/// Device and inode.
type Identity = (u64, u64);

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            identity: (metadata.dev(), metadata.ino()),
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// The time during which a change could still get the file's present times, at `now` since
    /// 1970; `None` if it could not.
    fn is_fresh_for(&self, now: Duration) -> Option<Duration> {
        let (seconds, nanos) = self.modified.max(self.changed);
        let last = Duration::new(u64::try_from(seconds).ok()?, u32::try_from(nanos).ok()?);
        let tick = if self.modified.1 == 0 && self.changed.1 == 0 { COARSE_TICK } else { TICK };
        // A time in the future is that of another clock.
        let age = now.checked_sub(last)?;
        tick.checked_sub(age).filter(|left| !left.is_zero())
    }
}

/// Opens the file, and checks that it is the listed one.
fn open(job: &Job) -> Result<(File, Stamp), Stop> {
    // Between listing and opening, a file may have become a pipe, whose opening would wait for a
    // writer, or a link. `O_NONBLOCK` means nothing to a regular file (open(2)).
    let opened = match &job.source {
        Place::Named(path) => OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path),
        Place::Below(root, path) => {
            let mut options = cap_std::fs::OpenOptions::new();
            let options = options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW);
            root.open_with(path, options).map(cap_std::fs::File::into_std)
        }
    };
    let file = opened.map_err(|error| failed("open", &error))?;
    let inspect = || file.metadata().map_err(|error| failed("inspect", &error));
    let mut metadata = inspect()?;
    if !metadata.is_file() {
        return Err(Stop::Failed(Reason::new("sender: this is no longer a regular file")));
    }
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut looks = 0;
    while let Some(left) = Stamp::of(&metadata).is_fresh_for(now()) {
        if looks == MAX_LOOKS {
            return Err(Stop::Changed(Reason::new("sender: the file is being written")));
        }
        stopped(job)?;
        thread::sleep(left);
        metadata = inspect()?;
        looks += 1;
    }
    if metadata.len() != job.size {
        let (now, then) = (metadata.len(), job.size);
        let text = format_args!("sender: the file had {then} bytes when it was listed and has {now} now");
        return Err(Stop::Changed(Reason::new(text)));
    }
    let stamp = Stamp::of(&metadata);
    Ok((file, stamp))
}

/// Checks that the bytes that were read since the file was opened are those of the file that has
/// the name.
fn unchanged(job: &Job, file: &File, stamp: &Stamp) -> Result<(), Stop> {
    if named(job).ok() != Some(stamp.identity) {
        return Err(Stop::Changed(Reason::new("sender: the file was replaced while it was sent")));
    }
    let metadata = file.metadata().map_err(|error| failed("inspect", &error))?;
    if Stamp::of(&metadata) != *stamp {
        return Err(Stop::Changed(Reason::new("sender: the file changed while it was sent")));
    }
    Ok(())
}

/// The file that has the name.
fn named(job: &Job) -> io::Result<Identity> {
    match &job.source {
        Place::Named(path) => fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino())),
        Place::Below(root, path) => {
            use cap_std::fs::MetadataExt as _;
            root.symlink_metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
        }
    }
}

/// The size and mode of the file that has the name.
fn listed(job: &Job) -> Option<(u64, u32)> {
    match &job.source {
        Place::Named(path) => {
            let metadata = fs::metadata(path).ok().filter(Metadata::is_file)?;
            Some((metadata.len(), metadata.mode() & MODE_BITS))
        }
        Place::Below(root, path) => {
            use cap_std::fs::MetadataExt as _;
            let metadata = root.symlink_metadata(path).ok().filter(cap_std::fs::Metadata::is_file)?;
            Some((metadata.len(), metadata.mode() & MODE_BITS))
        }
    }
}

fn read_exactly(file: &mut File, mut into: &mut [u8], size: u64) -> Result<(), Stop> {
    while !into.is_empty() {
        match read_some(file, into)? {
            0 => {
                let text = format_args!("sender: the file shrank below {size} bytes while sent");
                return Err(Stop::Changed(Reason::new(text)));
            }
            count => into = &mut into[count..],
        }
    }
    Ok(())
}

fn read_some(file: &mut File, into: &mut [u8]) -> Result<usize, Stop> {
    loop {
        match file.read(into) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other.map_err(|error| failed("read", &error)),
        }
    }
}

fn stopped(job: &Job) -> Result<(), Stop> {
    // Relaxed, because the flag only saves work.
    if job.stop.load(Ordering::Relaxed) {
        return Err(Stop::Failed(Reason::new("sender: stopped because the receiver gave up")));
    }
    Ok(())
}

fn failed(doing: &str, error: &io::Error) -> Stop {
    Stop::Failed(Reason::new(format_args!("sender: cannot {doing} the file: {error}")))
}

/// The bytes of a block: large enough that work per block does not matter, small enough to stay in
/// the second-level cache between the read, the hash and the write. Below the protocol's limit of 1
/// MiB.
const BLOCK: usize = 256 * 1024;
/// Two ticks of the slowest clock: up to Linux 6.12 a file's times are those of the last tick, of
/// at most 10 ms.
const TICK: Duration = Duration::from_millis(20);
/// The tick of file systems whose times are whole seconds (ext4 with inodes of 128 bytes), or every
/// second one (vfat).
const COARSE_TICK: Duration = Duration::from_secs(2);
/// A file that still changes after so many ticks is being written.
const MAX_LOOKS: u32 = 3;
/// Blocks read ahead of the stream: 2 MiB of memory.
const READ_AHEAD: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fresh_times_are_waited_out() {
        let ms = Duration::from_millis;
        let fresh = |nanos, age| {
            let stamp = Stamp { identity: (1, 1), size: 0, modified: (900, nanos), changed: (1_000, nanos) };
            stamp.is_fresh_for(Duration::new(1_000, nanos as u32) + age)
        };
        assert_eq!([ms(0), ms(15), ms(20)].map(|age| fresh(1, age)), [Some(ms(20)), Some(ms(5)), None]);
        assert_eq!([ms(20), ms(1_999), ms(2_000)].map(|age| fresh(0, age)), [Some(ms(1_980)), Some(ms(1)), None]);
        let stamp = Stamp { identity: (1, 1), size: 0, modified: (1_000, 1), changed: (1_000, 1) };
        assert_eq!(stamp.is_fresh_for(ms(999_999)), None, "of another clock");
    }

    fn job(path: &std::path::Path) -> Job {
        let source = Place::Named(path.to_owned());
        Job { id: 0, source, size: 3, held: Held::default(), stop: Arc::default() }
    }

    #[test]
    fn changes_since_the_opening_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let other = || {
            fs::write(folder.path().join("other"), "abc").unwrap();
            fs::rename(folder.path().join("other"), &path).unwrap();
        };
        let changes: [(&dyn Fn(), bool); 4] = [
            (&|| drop(fs::read(&path).unwrap()), false),
            (&|| fs::write(&path, "xyz").unwrap(), true),
            (&other, true),
            (&|| fs::remove_file(&path).unwrap(), true),
        ];
        for (index, (change, is_one)) in changes.into_iter().enumerate() {
            // So late that a clock of ticks is still at the file's own time.
            fs::write(&path, "abc").unwrap();
            let job = job(&path);
            let Ok((file, stamp)) = open(&job) else { panic!("it is there") };
            change();
            assert_eq!(matches!(unchanged(&job, &file, &stamp), Err(Stop::Changed(_))), is_one, "change {index}");
        }
    }
}
