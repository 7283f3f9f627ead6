//! `cargo xtask circles`: the files of a crate that depend on each other.
//!
//! A file depends on the one that holds an item if it imports the item or names it in its code, by
//! whichever path.
//! - A re-export is no dependence. A path through one leads to the file that holds the item, so a
//!   `mod.rs` that only declares and re-exports its children depends on none of them, and no file
//!   on it.
//! - A file may name the items of the modules that hold it: a child stands within its parent's
//!   text, sees the parent's private items, and is a part of it. So a `mod.rs` with items of its
//!   own may use its children, and they may use those items; the children may not depend on each
//!   other in a circle, nor on a file outside that depends on them. The root of a crate holds every
//!   file and is no exception: what `lib.rs` has for all depends on none of them.
//! - Modules and items for tests alone (`#[cfg(test)]`) are left out, and so are attributes.
//! - A method is not named by a path: its file counts only if its type does.

mod names;
mod source;

use crate::shell::{Exit, cargo, root, shown};
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use source::{Mention, Source};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

/// The mentions by which one file depends on another.
type Uses<'a> = BTreeMap<(usize, usize), Vec<&'a Mention>>;

/// Prints every circle, and fails if there is one.
pub(crate) fn circles() -> Result<Exit> {
    let mut exit = Exit::SUCCESS;
    for (package, file) in crates()? {
        let source = Source::read(&file)?;
        let uses = uses(&source);
        let shown = |file: usize| source.files[file].strip_prefix(root()).unwrap_or(&source.files[file]).display();
        for circle in circles_of(source.files.len(), &uses) {
            exit = Exit::FAILURE;
            println!("\n{package}: a circle of {} files", circle.len());
            for ((from, to), mentions) in &uses {
                if circle.contains(from) && circle.contains(to) {
                    println!("  {} -> {}", shown(*from), shown(*to));
                    // Code names items by its imports.
                    let has_imports = mentions.iter().any(|mention| mention.is_import);
                    for Mention { line, path, .. } in mentions.iter().filter(|mention| mention.is_import == has_imports)
                    {
                        println!("    line {line}: {}", path.join("::"));
                    }
                }
            }
        }
    }
    Ok(exit)
}

fn uses(source: &Source) -> Uses<'_> {
    let mut uses = Uses::new();
    for mention in &source.mentions {
        let from = source.modules[mention.module].file;
        let holders = source.holders(mention.module);
        for to in source.files_of(mention).into_iter().filter(|to| *to != from && !holders.contains(to)) {
            uses.entry((from, to)).or_default().push(mention);
        }
    }
    uses
}

/// The sets of files each of which depends on all others of its set.
fn circles_of(files: usize, uses: &Uses<'_>) -> Vec<BTreeSet<usize>> {
    let reached: Vec<BTreeSet<usize>> = (0..files).map(|file| reached(file, uses)).collect();
    let circle = |file: usize| reached[file].iter().copied().filter(|other| reached[*other].contains(&file)).collect();
    let circles: BTreeSet<BTreeSet<usize>> = (0..files).map(circle).collect();
    circles.into_iter().filter(|circle| circle.len() > 1).collect()
}

/// The files that one depends on, directly or through others.
fn reached(file: usize, uses: &Uses<'_>) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut ahead = vec![file];
    while let Some(from) = ahead.pop() {
        let next = uses.range((from, 0)..=(from, usize::MAX)).map(|((_, to), _)| *to);
        ahead.extend(next.filter(|to| reached.insert(*to)));
    }
    reached
}

/// The crates of the workspace in a folder `src`, each with its package and first file.
fn crates() -> Result<Vec<(String, PathBuf)>> {
    let mut command = cargo(["metadata", "--no-deps", "--format-version", "1"]);
    let output = command.output().with_context(|| format!("cannot run `{}`", shown(&command)))?;
    if !output.status.success() {
        bail!("`{}` failed ({}): {}", shown(&command), output.status, String::from_utf8_lossy(&output.stderr));
    }
    let metadata: Metadata = serde_json::from_slice(&output.stdout).context("cargo wrote odd metadata")?;
    let targets = |package: Package| package.targets.into_iter().map(move |target| (package.name.clone(), target));
    let targets = metadata.packages.into_iter().flat_map(targets);
    let of_src = targets.filter(|(_, target)| target.kind.iter().any(|kind| kind == "lib" || kind == "bin"));
    Ok(of_src.map(|(package, target)| (package, target.src_path)).collect())
}

/// The parts of the metadata that are of use here (cargo-metadata(1)).
#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    targets: Vec<Target>,
}

#[derive(Debug, Deserialize)]
struct Target {
    kind: Vec<String>,
    src_path: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// The circles of a crate with these files.
    fn circles_in(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let source = Source::read(&folder.path().join("lib.rs")).unwrap();
        let name = |file: usize| source.files[file].strip_prefix(folder.path()).unwrap().display().to_string();
        let circles = circles_of(source.files.len(), &uses(&source)).into_iter();
        circles.map(|circle| circle.into_iter().map(name).collect()).collect()
    }

    const ROOT: (&str, &str) = ("lib.rs", "mod a; mod b; mod c;");

    #[test]
    fn imports_make_a_circle() {
        let files = [
            ROOT,
            ("a.rs", "use crate::b::B; pub struct A(B);"),
            ("b.rs", "use super::{a, c::{self, C}}; pub struct B(c::D); fn f(_: a::A, _: C) {}"),
            ("c.rs", "pub struct C; pub struct D;"),
        ];
        assert_eq!(circles_in(&files), [["a.rs", "b.rs"]]);
    }

    #[test]
    fn paths_in_code_and_macros_make_a_circle() {
        let files = [
            ROOT,
            ("a.rs", "pub const A: u8 = 1; fn f() { println!(\"{}\", crate::b::B.len()) }"),
            ("b.rs", "pub const B: &str = \"\"; fn f() -> u8 { super::c::g() }"),
            ("c.rs", "pub fn g() -> u8 { vec![1, crate::a::A][0] }"),
        ];
        assert_eq!(circles_in(&files), [["a.rs", "b.rs", "c.rs"]]);
    }

    #[test]
    fn re_exports_lead_to_the_file_of_the_item() {
        let root = ("lib.rs", "mod m; pub use m::*;");
        let parent = ("m/mod.rs", "mod x; mod y; pub use x::X; pub use y::Y;");
        let one_way = [root, parent, ("m/x.rs", "pub struct X(super::Y);"), ("m/y.rs", "pub struct Y;")];
        assert!(circles_in(&one_way).is_empty());
        let both_ways = [root, parent, ("m/x.rs", "pub struct X(super::Y);"), ("m/y.rs", "pub struct Y(crate::X);")];
        assert_eq!(circles_in(&both_ways), [["m/x.rs", "m/y.rs"]]);
    }

    #[test]
    fn children_may_use_their_parents_items() {
        let files = [
            ("lib.rs", "mod m;"),
            ("m/mod.rs", "mod x; use x::X; pub struct M(X);"),
            ("m/x.rs", "use super::M; pub struct X; impl M { fn f() {} }"),
        ];
        assert!(circles_in(&files).is_empty());
    }

    #[test]
    fn root_is_no_part_of_its_children() {
        let files = [("lib.rs", "mod a; pub struct L(a::A);"), ("a.rs", "pub struct A; fn f(_: crate::L) {}")];
        assert_eq!(circles_in(&files), [["lib.rs", "a.rs"]]);
    }

    #[test]
    fn tests_and_other_crates_make_no_circle() {
        let files = [
            ROOT,
            ("a.rs", "use std::io; pub struct A(super::b::io::Error); #[cfg(test)] mod tests { use crate::b::B; }"),
            ("b.rs", "pub use std::io; pub struct B(crate::a::A); fn f() -> io::Result<()> { ::a::g() }"),
            (
                "c.rs",
                "use crate::b::B; #[cfg(all(test, unix))] fn f(_: B) {} #[cfg(not(test))] mod d { use super::B; }",
            ),
        ];
        assert!(circles_in(&files).is_empty());
    }
}
