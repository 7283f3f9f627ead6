//! Reads and hashes the sender's files, each reader on a thread of its own.

use crate::{
    frame::{Block, MAX_HOLE},
    keep::Keeps,
    message::{Digest, Held},
    meta::Meta,
    path::RelPath,
    plan::Place,
    proto::{Choice, Pace, choose, prefix_to_check},
    reason::Reason,
    stamp::{Identity, Stamp},
    zeros::hash_zeros,
};
use cap_std::fs::{Metadata, MetadataExt as _};
use nix::{
    errno::Errno,
    unistd::{Whence, lseek},
};
use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    num::NonZeroU64,
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc as sync_mpsc,
    },
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// A file to read, after the receiver has named the bytes that it holds.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) id: u64,
    pub(crate) path: RelPath,
    pub(crate) source: Place,
    /// The offered size.
    pub(crate) size: u64,
    pub(crate) held: Held,
    pub(crate) keeps: Keeps,
    /// The file that was listed, if other names are to be linked to it.
    pub(crate) twin: Option<Identity>,
    /// Whether the file is compared alone, and not sent.
    pub(crate) is_dry_run: bool,
    /// Set when the receiver has given up on the file.
    pub(crate) stop: Arc<AtomicBool>,
}

impl Job {
    /// The present size and properties of the file, if it is still one.
    fn list(&self) -> Option<(u64, Meta)> {
        let metadata = self.source.inspect().ok().filter(Metadata::is_file)?;
        let mut meta = self.keeps.meta(&metadata);
        meta.has_twins = self.twin == Some(Stamp::of(&metadata).identity);
        if self.keeps.has_attributes() {
            self.keeps.add_attributes(&mut meta, &self.source.open().ok()?);
        }
        Some((metadata.len(), meta))
    }
}

/// The files to read. The first reader that is free takes the next one.
#[derive(Debug, Clone)]
pub(crate) struct Jobs(Arc<Mutex<sync_mpsc::Receiver<Arc<Job>>>>);

impl Jobs {
    /// The end that hands jobs out, and the end of the readers.
    pub(crate) fn new() -> (sync_mpsc::Sender<Arc<Job>>, Self) {
        let (jobs_in, jobs) = sync_mpsc::channel();
        (jobs_in, Self(Arc::new(Mutex::new(jobs))))
    }

    /// Waits for the next job; `None` when there will be none.
    fn next(&self) -> Option<Arc<Job>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
    }
}

/// The pace of a batch, which all its readers keep together.
#[derive(Debug, Clone)]
pub(crate) struct Pacer(Arc<Mutex<Pace>>);

impl Pacer {
    pub(crate) fn new(bits_per_second: NonZeroU64) -> Self {
        Self(Arc::new(Mutex::new(Pace::new(bits_per_second))))
    }

    fn max_block(&self) -> usize {
        self.pace().max_block()
    }

    /// The time at which so many bytes may go.
    fn take(&self, bytes: usize) -> Instant {
        let mut pace = self.pace();
        let now = Instant::now();
        now + pace.take(now, bytes)
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a reader finds: `Keep` or `Would`; or `Start`, and behind the blocks and holes `Finish`. In
/// place of `Keep`, `Would` and `Finish`, at any time, `Changed` or `Failed`.
#[derive(Debug)]
pub(crate) enum Event {
    Start {
        offset: u64,
        meta: Meta,
    },
    /// Zeros, at most [`MAX_HOLE`] of them.
    Hole {
        len: u64,
    },
    Finish {
        digest: Digest,
    },
    Keep {
        digest: Digest,
        meta: Meta,
    },
    /// In a dry run, in place of `Start` and all behind it.
    Would {
        offset: u64,
    },
    /// The file changed since it was listed: the bytes may be of several versions.
    Changed {
        reason: Reason,
        /// The present size and properties, if it is still a file.
        now: Option<(u64, Meta)>,
    },
    /// The file cannot be sent, or was stopped.
    Failed {
        reason: Reason,
    },
}

/// The way of a reader's events to the peer.
pub(crate) trait Output {
    /// The reason why a reader stops for good.
    type Gone;

    /// Passes an event on; waits for room.
    fn emit(&mut self, job: &Arc<Job>, event: Event) -> Result<(), Self::Gone>;

    /// Passes a block of the started file on; waits for room.
    fn block(&mut self, job: &Arc<Job>, block: Block) -> Result<(), Self::Gone>;

    /// A block to fill, of which the bytes have been used.
    fn spare(&mut self) -> Block;

    /// Fails once nobody wants the events.
    fn check(&mut self) -> Result<(), Self::Gone>;
}

/// Reads the files of all jobs, until there are no more or the output is gone.
pub(crate) fn read_all<O: Output>(jobs: &Jobs, pacer: Option<&Pacer>, mut output: O) -> Result<(), O::Gone> {
    while let Some(job) = jobs.next() {
        let event = match (Reading { job: &job, pacer, output: &mut output }.read()) {
            Ok(()) => continue,
            Err(Stop::Gone(gone)) => return Err(gone),
            Err(Stop::Failed(reason)) => Event::Failed { reason },
            Err(Stop::Changed(reason)) => Event::Changed { reason, now: job.list() },
        };
        output.emit(&job, event)?;
    }
    Ok(())
}

/// The reason why a file was not read to its end.
enum Stop<G> {
    /// The file could not be read.
    Failed(Reason),
    /// The file changed.
    Changed(Reason),
    /// The output is gone.
    Gone(G),
}

struct Reading<'a, O> {
    job: &'a Arc<Job>,
    pacer: Option<&'a Pacer>,
    output: &'a mut O,
}

impl<O: Output> Reading<'_, O> {
    fn read(&mut self) -> Result<(), Stop<O::Gone>> {
        let job = self.job;
        let (mut file, stamp, meta) = open(job)?;
        let mut hasher = blake3::Hasher::new();
        let mut scratch = Vec::new();
        let mut prefix = None;
        if let Some(len) = prefix_to_check(&job.held, job.size) {
            self.hash_exactly(&mut file, &mut hasher, len, &mut scratch)?;
            prefix = Some((len, hasher.clone()));
        }
        let mut whole = None;
        if job.held.whole.is_some() {
            let hashed = prefix.as_ref().map_or(0, |(len, _)| *len);
            self.hash_exactly(&mut file, &mut hasher, job.size - hashed, &mut scratch)?;
            whole = Some(Digest::from(hasher.finalize()));
        }
        let prefix_digest = prefix.as_ref().map(|(_, hasher)| hasher.finalize().into());
        let choice = choose(&job.held, job.size, prefix_digest, whole);
        if job.is_dry_run
            && let Choice::From(offset) = choice
        {
            return self.emit(Event::Would { offset });
        }
        let digest = match (choice, whole, prefix) {
            (Choice::Keep, Some(digest), _) => {
                unchanged(job, &file, &stamp)?;
                return self.emit(Event::Keep { digest, meta });
            }
            (Choice::From(offset), _, Some((len, hasher))) if offset == len => {
                self.stream(&mut file, meta, hasher, offset)?
            }
            _ => self.stream(&mut file, meta, blake3::Hasher::new(), 0)?,
        };
        unchanged(job, &file, &stamp)?;
        self.emit(Event::Finish { digest })
    }

    /// Reads from `offset` to the end; returns the digest of the whole file.
    fn stream(
        &mut self,
        file: &mut File,
        meta: Meta,
        mut hasher: blake3::Hasher,
        offset: u64,
    ) -> Result<Digest, Stop<O::Gone>> {
        file.seek(SeekFrom::Start(offset)).map_err(|error| failed("seek in", &error))?;
        self.emit(Event::Start { offset, meta })?;
        let size = self.job.size;
        let (mut at, mut data) = (offset, offset..offset);
        let most = self.pacer.map_or(BLOCK, |pacer| pacer.max_block().min(BLOCK));
        while at < size {
            stopped(self.job)?;
            if at == data.end {
                data = next_data(file, at, size)?;
            }
            if at < data.start {
                self.output.check().map_err(Stop::Gone)?;
                let len = (data.start - at).min(MAX_HOLE);
                hash_zeros(&mut hasher, len);
                self.emit(Event::Hole { len })?;
                at += len;
                continue;
            }
            let left = data.end - at;
            let len = usize::try_from(left).map_or(most, |left| left.min(most));
            let mut block = self.output.spare();
            let payload = block.payload_mut(len);
            read_exactly(file, payload, size)?;
            hasher.update(payload);
            self.wait(len)?;
            self.output.block(self.job, block).map_err(Stop::Gone)?;
            at += len as u64;
        }
        if read_some(file, &mut [0])? != 0 {
            return Err(Stop::Changed(Reason::new(format_args!("sender: the file grew past {size} bytes while sent"))));
        }
        Ok(hasher.finalize().into())
    }

    /// Waits until so many bytes may go.
    fn wait(&mut self, bytes: usize) -> Result<(), Stop<O::Gone>> {
        let Some(at) = self.pacer.map(|pacer| pacer.take(bytes)) else { return Ok(()) };
        loop {
            let left = at.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(MAX_NAP));
            stopped(self.job)?;
            self.output.check().map_err(Stop::Gone)?;
        }
    }

    fn hash_exactly(
        &mut self,
        file: &mut File,
        hasher: &mut blake3::Hasher,
        mut left: u64,
        scratch: &mut Vec<u8>,
    ) -> Result<(), Stop<O::Gone>> {
        scratch.resize(usize::try_from(left).map_or(BLOCK, |left| left.min(BLOCK)).max(scratch.len()), 0);
        while left > 0 {
            stopped(self.job)?;
            self.output.check().map_err(Stop::Gone)?;
            let len = usize::try_from(left).map_or(BLOCK, |left| left.min(BLOCK));
            read_exactly(file, &mut scratch[..len], self.job.size)?;
            hasher.update(&scratch[..len]);
            left -= len as u64;
        }
        Ok(())
    }

    fn emit(&mut self, event: Event) -> Result<(), Stop<O::Gone>> {
        self.output.emit(self.job, event).map_err(Stop::Gone)
    }
}

impl Stamp {
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
fn open<G>(job: &Job) -> Result<(File, Stamp, Meta), Stop<G>> {
    let file = job.source.open().map_err(|error| failed("open", &error))?;
    let inspect = || Metadata::from_file(&file).map_err(|error| failed("inspect", &error));
    let mut metadata = inspect()?;
    if !metadata.is_file() {
        return Err(Stop::Failed(Reason::new("sender: this is no longer a regular file")));
    }
    if job.twin.is_some_and(|twin| twin != Stamp::of(&metadata).identity) {
        return Err(Stop::Changed(Reason::new("sender: another file has the name than the one that was listed")));
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
    let mut meta = job.keeps.meta(&metadata);
    // The listing has named the attributes that have no room.
    job.keeps.add_attributes(&mut meta, &file);
    Ok((file, Stamp::of(&metadata), meta))
}

/// Checks that the bytes that were read since the file was opened are those of the file that has
/// the name.
fn unchanged<G>(job: &Job, file: &File, stamp: &Stamp) -> Result<(), Stop<G>> {
    if job.source.inspect().ok().map(|metadata| Stamp::of(&metadata).identity) != Some(stamp.identity) {
        return Err(Stop::Changed(Reason::new("sender: the file was replaced while it was sent")));
    }
    let metadata = Metadata::from_file(file).map_err(|error| failed("inspect", &error))?;
    if Stamp::of(&metadata) != *stamp {
        return Err(Stop::Changed(Reason::new("sender: the file changed while it was sent")));
    }
    Ok(())
}

/// The next bytes of the file that are not in a hole, from `at` on, which need not begin there; the
/// file is read on from them. They are empty at the end of the file.
fn next_data<G>(file: &mut File, at: u64, size: u64) -> Result<Range<u64>, Stop<G>> {
    let is_sparse = Metadata::from_file(file).is_ok_and(|metadata| metadata.blocks() < size.div_ceil(512));
    let seek = |from: u64, whence| {
        let from = i64::try_from(from).map_err(|_| Errno::EINVAL)?;
        lseek(&*file, from, whence).map(|to| u64::try_from(to).unwrap_or(size).min(size))
    };
    let data = match if is_sparse { seek(at, Whence::SeekData) } else { Err(Errno::EINVAL) } {
        Ok(start) => start..seek(start, Whence::SeekHole).unwrap_or(size),
        // The hole reaches to the end.
        Err(Errno::ENXIO) => size..size,
        // A file system without holes (or a file that has none).
        Err(_) => at..size,
    };
    file.seek(SeekFrom::Start(data.start)).map_err(|error| failed("seek in", &error))?;
    Ok(data)
}

fn read_exactly<G>(file: &mut File, mut into: &mut [u8], size: u64) -> Result<(), Stop<G>> {
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

fn read_some<G>(file: &mut File, into: &mut [u8]) -> Result<usize, Stop<G>> {
    loop {
        match file.read(into) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other.map_err(|error| failed("read", &error)),
        }
    }
}

fn stopped<G>(job: &Job) -> Result<(), Stop<G>> {
    // Relaxed, because the flag only saves work.
    if job.stop.load(Ordering::Relaxed) {
        return Err(Stop::Failed(Reason::new("sender: stopped because the receiver gave up")));
    }
    Ok(())
}

fn failed<G>(doing: &str, error: &io::Error) -> Stop<G> {
    Stop::Failed(Reason::new(format_args!("sender: cannot {doing} the file: {error}")))
}

/// The bytes of a block: large enough that work per block does not matter, small enough to stay in
/// the second-level cache between the read, the hash and the write. Below the protocol's limit of 1
/// MiB.
const BLOCK: usize = 256 * 1024;
/// So long a reader that keeps a pace does not look whether it is wanted.
const MAX_NAP: Duration = Duration::from_millis(100);
/// Two ticks of the slowest clock: up to Linux 6.12 a file's times are those of the last tick, of
/// at most 10 ms.
const TICK: Duration = Duration::from_millis(20);
/// The tick of file systems whose times are whole seconds (ext4 with inodes of 128 bytes), or every
/// second one (vfat).
const COARSE_TICK: Duration = Duration::from_secs(2);
/// A file that still changes after so many ticks is being written.
const MAX_LOOKS: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

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
        let (source, path) = (Place::Named(path.to_owned()), RelPath::parse("f").unwrap());
        let (held, keeps, stop) = (Held::default(), Keeps::default(), Arc::default());
        Job { id: 0, path, source, size: 3, held, keeps, twin: None, is_dry_run: false, stop }
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
            let Ok((file, stamp, _)) = open::<()>(&job) else { panic!("it is there") };
            change();
            assert_eq!(matches!(unchanged::<()>(&job, &file, &stamp), Err(Stop::Changed(_))), is_one, "change {index}");
        }
    }
}
