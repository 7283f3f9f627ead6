//! `cargo xtask python`: builds the Python package, and runs its tests in an environment of its own
//! below `target/`.

use crate::shell::{Exit, root, shown};
use anyhow::{Context, Result, bail};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Builds the package as a wheel, installs it with the packages that its tests need, and runs these
/// with the arguments of pytest.
///
/// Without Python, or without the packages and a registry that has them, nothing is tested, which
/// is said loudly.
pub(crate) fn python(arguments: &[String]) -> Result<Exit> {
    let environment = match Environment::make() {
        Ok(environment) => environment,
        Err(reason) => {
            println!("\n!!! Python package: {reason:#}: not checked !!!");
            return Ok(Exit::SUCCESS);
        }
    };
    let wheel = environment.build()?;
    run(environment.command("pip").args(["install", "--quiet", "--no-deps", "--force-reinstall"]).arg(wheel))?;
    for check in CHECKS {
        run(environment.command(check[0]).args(&check[1..]).current_dir(root().join("python")))?;
    }
    // As a program, for as a module of Python it would find the package that is not built.
    let mut pytest = environment.command("pytest");
    pytest.current_dir(root().join("python")).args(["-p", "no:cacheprovider"]);
    crate::shell::run(pytest.args(arguments))
}

/// A virtual environment of Python, with the packages that the tests need.
struct Environment {
    folder: PathBuf,
}

impl Environment {
    fn make() -> Result<Self> {
        let python = env::var("PYTHON").unwrap_or_else(|_| "python3".into());
        let version = ["-c", "import sys; sys.exit(sys.version_info < (3, 10))"];
        run(Command::new(&python).args(version)).context("Python 3.10 or newer is not there")?;
        let folder = root().join("target/python");
        let environment = Self { folder: folder.join("venv") };
        if !environment.folder.join("bin/pip").exists() {
            run(Command::new(&python).args(["-m", "venv", "--clear"]).arg(&environment.folder))
                .context("Python makes no virtual environment (on Debian, install python3-venv)")?;
        }
        let mut install = environment.command("pip");
        install.args(["install", "--quiet", "--disable-pip-version-check", "--requirement", REQUIREMENTS]);
        run(&mut install).context("the packages of its tests cannot be installed")?;
        Ok(environment)
    }

    /// The wheel, built as tests are.
    fn build(&self) -> Result<PathBuf> {
        let wheels = root().join("target/python/wheels");
        if wheels.exists() {
            fs::remove_dir_all(&wheels).with_context(|| format!("cannot remove {}", wheels.display()))?;
        }
        let mut build = self.command("maturin");
        build.args(["build", "--quiet", "--locked", "--profile", "dev"]);
        build.args(["--manifest-path", "python/Cargo.toml", "--target-dir", "target", "--out"]).arg(&wheels);
        run(&mut build)?;
        let mut files = fs::read_dir(&wheels).with_context(|| format!("cannot list {}", wheels.display()))?;
        let file = files.next().context("maturin has made no wheel")?.context("the wheel cannot be looked at")?;
        Ok(file.path())
    }

    /// A program of the environment, at the root of the checkout.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.folder.join("bin").join(program));
        command.current_dir(root()).env("VIRTUAL_ENV", &self.folder).env("PATH", path_with(&self.folder.join("bin")));
        command
    }
}

/// The search path, with a folder in front.
fn path_with(folder: &Path) -> std::ffi::OsString {
    let others = env::var_os("PATH").unwrap_or_default();
    env::join_paths([folder.to_owned()].into_iter().chain(env::split_paths(&others))).unwrap_or(others)
}

/// Runs a command that has to end well.
fn run(command: &mut Command) -> Result<()> {
    println!("$ {}", shown(command));
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("cannot run `{}`", shown(command)))?;
    if !status.success() {
        bail!("`{}` failed ({status})", shown(command));
    }
    Ok(())
}

/// Lints, format and types.
const CHECKS: [&[&str]; 3] = [
    &["ruff", "check", "--quiet", "lambdaram", "tests", "../examples/python"],
    &["ruff", "format", "--quiet", "--check", "lambdaram", "tests", "../examples/python"],
    &["mypy"],
];

const REQUIREMENTS: &str = "python/tests/requirements.txt";
