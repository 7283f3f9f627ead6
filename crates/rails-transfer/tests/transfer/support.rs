//! Trees on disk, and runs of both ends over a pipe.

use rails_transfer::{
    AcceptStreams, Change, Observer, OpenStreams, Outcome, Reason, ReceiveError, ReceiveOptions, ReceiveSummary,
    RelPath, SendError, SendOptions, SendSummary, Totals, receive, send,
};
use std::{
    collections::BTreeMap,
    env,
    ffi::OsStr,
    fs, io,
    os::unix::{
        ffi::OsStrExt,
        fs::{PermissionsExt, symlink},
    },
    path::{Path, PathBuf},
    pin::Pin,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex},
    sync::mpsc,
};
use walkdir::WalkDir;

/// One entry of a tree, with its mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    Folder(u32),
    File(u32, Vec<u8>),
    /// A symbolic link, with its target.
    Link(Vec<u8>),
}

/// A tree by relative path.
pub(crate) type Tree = BTreeMap<Vec<u8>, Node>;

pub(crate) type Results = (Result<SendSummary, SendError>, Result<ReceiveSummary, ReceiveError>);

/// Writes a tree; folders get their modes last.
pub(crate) fn plant(root: &Path, tree: &Tree) {
    let at = |path: &Vec<u8>| root.join(OsStr::from_bytes(path));
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    for (path, node) in tree {
        match node {
            Node::Folder(_) => fs::create_dir(at(path)).unwrap(),
            Node::Link(target) => symlink(OsStr::from_bytes(target), at(path)).unwrap(),
            Node::File(mode, bytes) => {
                fs::write(at(path), bytes).unwrap();
                set(&at(path), *mode);
            }
        }
    }
    for (path, node) in tree.iter().rev() {
        if let Node::Folder(mode) = node {
            set(&at(path), *mode);
        }
    }
}

/// Reads a tree, without `root` itself.
pub(crate) fn harvest(root: &Path) -> Tree {
    let mut tree = Tree::new();
    for entry in WalkDir::new(root).min_depth(1) {
        let entry = entry.unwrap();
        let path = entry.path().strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o7777;
        let node = match entry.file_type() {
            kind if kind.is_dir() => Node::Folder(mode),
            kind if kind.is_file() => Node::File(mode, fs::read(entry.path()).unwrap()),
            _ => Node::Link(fs::read_link(entry.path()).unwrap().into_os_string().into_encoded_bytes()),
        };
        tree.insert(path, node);
    }
    tree
}

/// Runs both ends over a pipe of `capacity` bytes.
pub(crate) fn transfer(sources: &[PathBuf], into: &Path, capacity: usize) -> Results {
    let (a, b) = duplex(capacity);
    watched(sources, into, (a, b), Arc::new(()))
}

/// As [`transfer`], with a sender's options.
pub(crate) fn transfer_with(options: SendOptions, sources: &[PathBuf], into: &Path) -> Results {
    let (a, b) = duplex(4096);
    block_on(async { tokio::join!(options.send(a, sources, Arc::new(())), receive(b, into, Arc::new(()))) })
}

/// As [`transfer`], with an observer at the sender.
pub(crate) fn watched(
    sources: &[PathBuf],
    into: &Path,
    (a, b): (DuplexStream, DuplexStream),
    observer: Arc<dyn Observer>,
) -> Results {
    block_on(async { tokio::join!(send(a, sources, observer), receive(b, into, Arc::new(()))) })
}

/// Runs both ends over a wire that is cut after `cut` bytes from the sender; gives how many of them
/// it passed on.
pub(crate) fn transfer_cut(sources: &[PathBuf], into: &Path, cut: usize) -> (Results, usize) {
    let (a, near) = duplex(4096);
    let (far, b) = duplex(4096);
    let (sent, received, passed) = block_on(async {
        tokio::join!(send(a, sources, Arc::new(())), receive(b, into, Arc::new(())), relay(near, far, cut))
    });
    ((sent, received), passed.len())
}

/// Carries bytes both ways until `cut` bytes went from `near` to `far`, or one end closes; then
/// closes both. Gives the bytes that went from `near` to `far`.
pub(crate) async fn relay(near: DuplexStream, far: DuplexStream, cut: usize) -> Vec<u8> {
    let (mut near_in, mut near_out) = tokio::io::split(near);
    let (mut far_in, mut far_out) = tokio::io::split(far);
    let mut passed = Vec::new();
    let forth = async {
        let mut buffer = vec![0; 4096];
        while passed.len() < cut {
            let room = buffer.len().min(cut - passed.len());
            match near_in.read(&mut buffer[..room]).await {
                Ok(count @ 1..) if far_out.write_all(&buffer[..count]).await.is_ok() => {
                    passed.extend_from_slice(&buffer[..count]);
                }
                _ => break,
            }
        }
        if passed.len() < cut {
            let _ = far_out.shutdown().await;
            std::future::pending().await
        }
    };
    let back = async { tokio::io::copy(&mut far_in, &mut near_out).await };
    tokio::select! {
        () = forth => {}
        _ = back => {}
    }
    passed
}

/// Runs both ends over a control stream and further ones.
pub(crate) fn over(streams: &Streams, sources: &[PathBuf], into: &Path, observer: Arc<dyn Observer>) -> Results {
    let (a, b) = duplex(streams.capacity);
    let control = Faulty { inner: Some(a), number: None, written: 0, fault: streams.fault, left: streams.left() };
    let (opens, accepts) = streams.ends();
    let (sender, receiver) = (SendOptions::new().streams(streams.opened), ReceiveOptions::new().streams(streams.taken));
    block_on(async {
        tokio::join!(
            sender.send_over(control, opens, sources, observer),
            receiver.receive_over(b, accepts, into, Arc::new(()))
        )
    })
}

/// The further streams of a transfer: pipes in memory.
pub(crate) struct Streams {
    /// How many the sender would open, and the receiver takes.
    pub(crate) opened: usize,
    pub(crate) taken: usize,
    /// How many can be opened.
    pub(crate) can_open: usize,
    /// Bytes that a stream holds.
    pub(crate) capacity: usize,
    pub(crate) fault: Option<Fault>,
    /// How many were opened.
    pub(crate) count: Arc<AtomicUsize>,
    /// The bytes that may be written, of all streams.
    pub(crate) left: Arc<AtomicUsize>,
}

/// What happens to the sender's bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// After that many bytes of all streams, each stream ends as it is written to.
    Kill { after: usize },
    /// A further stream ends after that many bytes.
    End { stream: usize, after: usize },
    /// A bit of a further stream is flipped.
    Flip { stream: usize, at: usize, bit: u8 },
}

impl Default for Streams {
    fn default() -> Self {
        Self {
            opened: 4,
            taken: 4,
            can_open: usize::MAX,
            capacity: 1 << 16,
            fault: None,
            count: Arc::default(),
            left: Arc::default(),
        }
    }
}

impl Streams {
    /// How many streams were opened since the last call.
    pub(crate) fn count(&self) -> usize {
        self.count.swap(0, Relaxed)
    }

    pub(crate) fn ends(&self) -> (Opens, Accepts) {
        let (to_peer, accepts) = mpsc::unbounded_channel();
        let opens = Opens {
            count: self.count.clone(),
            next: 0,
            can_open: self.can_open,
            capacity: self.capacity,
            fault: self.fault,
            left: self.left(),
            to_peer,
        };
        (opens, Accepts(accepts))
    }

    /// The bytes of all streams that are left to the sender.
    fn left(&self) -> Arc<AtomicUsize> {
        if let Some(Fault::Kill { after }) = self.fault {
            self.left.store(after, Relaxed);
        }
        self.left.clone()
    }
}

pub(crate) struct Opens {
    count: Arc<AtomicUsize>,
    next: usize,
    can_open: usize,
    capacity: usize,
    fault: Option<Fault>,
    left: Arc<AtomicUsize>,
    to_peer: mpsc::UnboundedSender<DuplexStream>,
}

impl OpenStreams for Opens {
    type Stream = Faulty;

    async fn open(&mut self) -> io::Result<Faulty> {
        if self.next == self.can_open {
            return Err(io::Error::other("no more of them"));
        }
        let (near, far) = duplex(self.capacity);
        let _ = self.to_peer.send(far);
        let number = self.next;
        self.next += 1;
        self.count.fetch_add(1, Relaxed);
        Ok(Faulty { inner: Some(near), number: Some(number), written: 0, fault: self.fault, left: self.left.clone() })
    }
}

pub(crate) struct Accepts(mpsc::UnboundedReceiver<DuplexStream>);

impl AcceptStreams for Accepts {
    type Stream = DuplexStream;

    async fn accept(&mut self) -> io::Result<DuplexStream> {
        self.0.recv().await.ok_or_else(|| io::Error::other("the sender is gone"))
    }
}

/// A stream of the sender, with its fault.
pub(crate) struct Faulty {
    inner: Option<DuplexStream>,
    /// The number of a further stream.
    number: Option<usize>,
    written: usize,
    fault: Option<Fault>,
    left: Arc<AtomicUsize>,
}

impl Faulty {
    /// How many bytes may be written at once, and the bits of the first of them to flip.
    fn allowed(&self) -> (usize, u8) {
        match self.fault {
            Some(Fault::Kill { .. }) => (self.left.load(Relaxed), 0),
            Some(Fault::End { stream, after }) if self.number == Some(stream) => (after - self.written, 0),
            Some(Fault::Flip { stream, at, bit }) if self.number == Some(stream) => {
                match at.checked_sub(self.written) {
                    Some(0) => (1, 1 << bit),
                    Some(before) => (before, 0),
                    None => (usize::MAX, 0),
                }
            }
            _ => (usize::MAX, 0),
        }
    }
}

impl AsyncWrite for Faulty {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        let (allowed, flipped) = self.allowed();
        if allowed == 0 {
            self.inner = None;
        }
        let Some(inner) = &mut self.inner else { return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())) };
        let mut part = buffer[..buffer.len().min(allowed)].to_vec();
        part[0] ^= flipped;
        let written = Pin::new(inner).poll_write(context, &part);
        if let Poll::Ready(Ok(count)) = written {
            self.written += count;
            let _ = self.left.fetch_update(Relaxed, Relaxed, |left| Some(left.saturating_sub(count)));
        }
        written
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.inner {
            Some(inner) => Pin::new(inner).poll_shutdown(context),
            None => Poll::Ready(Ok(())),
        }
    }
}

impl AsyncRead for Faulty {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.inner {
            Some(inner) => Pin::new(inner).poll_read(context, buffer),
            None => Poll::Ready(Ok(())),
        }
    }
}

pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// Runs a test in a process of its own, begun by the words of `through`: it is the body of the test
/// called `name`.
pub(crate) fn in_a_process(name: &str, through: &[&str], test: impl FnOnce()) {
    const INSIDE: &str = "RAILS_TRANSFER_TEST_INSIDE";
    if env::var_os(INSIDE).is_some() {
        return test();
    }
    let mut command = Command::new("env");
    command.arg(format!("{INSIDE}=1")).args(through).arg(env::current_exe().unwrap());
    let output = command.args(["--exact", name, "--nocapture"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

/// Notes the calls of the sender's observer, and runs a hook on each.
pub(crate) struct Notes<F> {
    pub(crate) notes: Mutex<Vec<String>>,
    hook: F,
}

impl<F: Fn(&str) + Send + Sync> Notes<F> {
    pub(crate) fn new(hook: F) -> Arc<Self> {
        Arc::new(Self { notes: Mutex::default(), hook })
    }

    fn note(&self, note: String) {
        (self.hook)(&note);
        self.notes.lock().unwrap().push(note);
    }
}

impl<F: Fn(&str) + Send + Sync> Observer for Notes<F> {
    fn totals(&self, totals: &Totals) {
        self.note(format!("totals {} {} {}", totals.files, totals.folders, totals.bytes));
    }

    fn started(&self, path: &RelPath, size: u64, resumed_at: u64) {
        self.note(format!("started {path} {size} {resumed_at}"));
    }

    fn moved(&self, path: &RelPath, bytes: u64) {
        self.note(format!("moved {path} {bytes}"));
    }

    fn finished(&self, path: &RelPath, size: u64, outcome: Outcome<'_>) {
        let outcome = match outcome {
            Outcome::Stored(_) => "stored",
            Outcome::AlreadyThere => "there",
            Outcome::Made => "made",
            Outcome::Failed(_) => "failed",
            Outcome::Would(Change::Send { .. }) => "would send",
            Outcome::Would(Change::Update) => "would update",
            Outcome::Would(Change::Make) => "would make",
            Outcome::Would(Change::Remove) => "would remove",
            Outcome::Removed => "removed",
        };
        self.note(format!("{outcome} {path} {size}"));
    }

    fn fewer_streams(&self, streams: usize, reason: &Reason) {
        self.note(format!("fewer streams {streams} {reason}"));
    }

    fn skipped(&self, source: &Path, reason: &Reason) {
        self.note(format!("skipped {} {reason}", source.file_name().unwrap().display()));
    }
}

/// Bytes that do not repeat, so that a block at the wrong place is noticed.
pub(crate) fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}
