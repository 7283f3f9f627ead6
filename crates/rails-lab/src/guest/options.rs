//! The options of a guest and of its run.

use super::{Guest, GuestError, machine::Size};
use std::{env, ffi::OsString, path::PathBuf, time::Duration};

/// Describes a [`Guest`].
#[derive(Debug, Clone)]
#[must_use]
pub struct GuestBuilder {
    size: Size,
    time_limit: Duration,
    cache: Option<PathBuf>,
    kernel: Option<(PathBuf, PathBuf)>,
    environment: Vec<(String, OsString)>,
    folder: PathBuf,
    shown: Vec<PathBuf>,
    programs: Vec<String>,
}

impl Default for GuestBuilder {
    fn default() -> Self {
        Self {
            size: Size { cores_per_node: 2, memory_per_node_mib: 1024 },
            time_limit: Duration::from_secs(600),
            cache: None,
            kernel: None,
            environment: Vec::new(),
            folder: PathBuf::from("/"),
            shown: Vec::new(),
            programs: Vec::new(),
        }
    }
}

impl GuestBuilder {
    /// The cores of each of the two nodes, 1 to 32. Default: 2. Each core costs the owner a thread.
    pub fn cores_per_node(mut self, cores: u32) -> Self {
        self.size.cores_per_node = cores;
        self
    }

    /// The memory of each of the two nodes in MiB, 256 to 65,536. Default: 1,024. The owner pays
    /// for the part in use.
    pub fn memory_per_node_mib(mut self, mib: u32) -> Self {
        self.size.memory_per_node_mib = mib;
        self
    }

    /// The time that booting, running the command and powering off may take together. Default: 10
    /// minutes.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// The folder that caches the kernel, as an absolute path. Default: `rails-lab` in the user's
    /// cache folder, which is `$XDG_CACHE_HOME` or `~/.cache` (XDG Base Directory Specification).
    pub fn cache(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cache = Some(folder.into());
        self
    }

    /// A kernel image and its modules (`.../lib/modules/RELEASE`), as absolute paths. Default:
    /// Debian's, fetched by apt.
    pub fn kernel(mut self, image: impl Into<PathBuf>, modules: impl Into<PathBuf>) -> Self {
        self.kernel = Some((image.into(), modules.into()));
        self
    }

    /// Adds a variable to the command's environment. Default: only those that the [module](super)
    /// names.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// The folder in which the command starts, as an absolute path. Default: `/`.
    pub fn working_directory(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = folder.into();
        self
    }

    /// Keeps an absolute path of the owner visible, also below `/tmp` or `/run`, which are empty in
    /// the guest. Default: the working directory, the kernel's modules, and the command's program.
    pub fn show(mut self, path: impl Into<PathBuf>) -> Self {
        self.shown.push(path.into());
        self
    }

    /// Puts a program on the guest's `PATH`, by its name, which its Debian package must share. If
    /// the owner has not installed it, the package is fetched into the cache and unpacked there;
    /// the owner's system does not change. Default: none.
    pub fn program(mut self, name: impl Into<String>) -> Self {
        self.programs.push(name.into());
        self
    }

    /// Checks the values.
    ///
    /// # Errors
    ///
    /// [`GuestError::OutOfRange`], [`GuestError::RelativePath`], [`GuestError::BadVariable`],
    /// [`GuestError::NoCache`].
    pub fn build(self) -> Result<Guest, GuestError> {
        let Size { cores_per_node: cores, memory_per_node_mib: mib } = self.size;
        if !(1..=32).contains(&cores) {
            return Err(GuestError::OutOfRange { what: "cores per node", value: cores.into(), range: "1 to 32" });
        }
        if !(256..=65_536).contains(&mib) {
            let what = "MiB of memory per node";
            return Err(GuestError::OutOfRange { what, value: mib.into(), range: "256 to 65,536" });
        }
        if self.time_limit.is_zero() {
            return Err(GuestError::OutOfRange { what: "seconds of time", value: 0, range: "more than none" });
        }
        if let Some((name, _)) = self.environment.iter().find(|(name, _)| !is_variable(name)) {
            return Err(GuestError::BadVariable { name: name.clone() });
        }
        let cache = self.cache.or_else(default_cache).ok_or(GuestError::NoCache)?;
        let kernel = self.kernel.iter().flat_map(|(image, modules)| [image, modules]);
        let paths = [&cache, &self.folder].into_iter().chain(kernel).chain(&self.shown);
        if let Some(path) = paths.into_iter().find(|path| !path.is_absolute()) {
            return Err(GuestError::RelativePath { path: path.clone() });
        }
        Ok(Guest {
            size: self.size,
            time_limit: self.time_limit,
            cache,
            kernel: self.kernel,
            environment: self.environment,
            folder: self.folder,
            shown: self.shown,
            programs: self.programs,
        })
    }
}

/// Whether the name is one by the shell's grammar (POSIX, Shell Command Language, 2.10.2 rule 7).
fn is_variable(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    name.bytes().next().is_some_and(letter) && name.bytes().all(|byte| letter(byte) || byte.is_ascii_digit())
}

fn default_cache() -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
    Some(caches.join("rails-lab"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(builder: GuestBuilder) -> String {
        builder.cache("/cache").build().unwrap_err().to_string()
    }

    #[test]
    fn sizes_are_bounded_on_both_sides() {
        for (cores, good) in [(0, false), (1, true), (32, true), (33, false)] {
            assert_eq!(Guest::builder().cache("/c").cores_per_node(cores).build().is_ok(), good, "{cores} cores");
        }
        for (mib, good) in [(255, false), (256, true), (65_536, true), (65_537, false)] {
            assert_eq!(Guest::builder().cache("/c").memory_per_node_mib(mib).build().is_ok(), good, "{mib} MiB");
        }
        let message = "a guest cannot have 0 cores per node: 1 to 32 are possible";
        assert_eq!(refused(Guest::builder().cores_per_node(0)), message);
        assert!(refused(Guest::builder().time_limit(Duration::ZERO)).contains("time"));
    }

    #[test]
    fn paths_are_absolute() {
        let relative = [
            Guest::builder().working_directory("here"),
            Guest::builder().show("here"),
            Guest::builder().kernel("/vmlinuz", "here"),
            Guest::builder().kernel("here", "/lib/modules/6.1"),
        ];
        for builder in relative {
            assert_eq!(refused(builder), "the path here is not absolute");
        }
        assert!(matches!(Guest::builder().cache("here").build(), Err(GuestError::RelativePath { .. })));
    }

    #[test]
    fn variables_are_what_a_shell_takes() {
        for name in ["", "1A", "A=B", "a b", "A'"] {
            assert!(refused(Guest::builder().env(name, "x")).contains("cannot be passed"), "{name}");
        }
        assert!(Guest::builder().cache("/c").env("_A1", "any value' at all").build().is_ok());
    }
}
