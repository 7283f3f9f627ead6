//! Documents that stand beside each other say the same, and their code compiles.

mod snippets;

use std::{collections::BTreeSet, fs};

fn read(path: &str) -> String {
    fs::read_to_string(format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// The names between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The features of the manifest, without `default`.
fn features() -> BTreeSet<String> {
    let manifest = read("Cargo.toml");
    let section = manifest.split_once("\n[features]\n").unwrap().1;
    let lines = section.lines().take_while(|line| !line.starts_with('['));
    let names = lines.filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(" = "));
    names.map(|(name, _)| name.to_owned()).filter(|name| name != "default").collect()
}

#[test]
fn features_are_those_of_the_crate_documents() {
    let library = read("src/lib.rs");
    let section = library.split_once("//! # Features\n").unwrap().1;
    let items = section.lines().take_while(|line| line.starts_with("//!")).filter(|line| line.starts_with("//! - `"));
    let heads = items.map(|line| line.split_once(':').unwrap().0);
    let documented: BTreeSet<String> = heads.flat_map(quoted).map(str::to_owned).collect();
    assert_eq!(documented, features());
}

#[test]
fn features_that_the_readme_names_exist() {
    let readme = read("README.md");
    let list = readme.split_once("Features:\n").unwrap().1;
    let sentence = list.split_once(". ").unwrap().0;
    let (named, features) = (quoted(sentence).collect::<Vec<_>>(), features());
    assert!(named.len() >= 6, "{named:?}");
    assert!(named.iter().all(|name| features.contains(*name)), "{named:?} of {features:?}");
}

#[test]
fn goodput_of_the_readme_is_the_measured_one() {
    let (readme, figures) = (read("README.md"), read("docs/performance.md"));
    let row = figures.lines().find(|line| line.starts_with("| 2 x 400 Mbit/s |")).unwrap();
    let measured = row.split('|').nth(2).unwrap().trim();
    assert!(readme.contains(&format!("two links of 400 Mbit/s carry one stream at {measured}\n")), "{measured}");
}

#[test]
fn keys_of_the_gates_policy_are_those_that_the_crate_documents() {
    /// The keys that a text's tables explain: the first word of each row.
    fn keys(text: &str) -> Vec<&str> {
        let rows = text.lines().filter_map(|line| line.trim_start_matches("//! ").strip_prefix("| `"));
        rows.filter_map(|row| row.split('`').next()).collect()
    }
    let module = read("crates/rails-gate/src/policy/mod.rs");
    let page = read("docs/gate.md");
    let (_, page) = page.split_once("## The policy\n").expect("the page has the keys");
    let page = page.split("\n## ").next().expect("a section");
    assert!(keys(page).contains(&"reach"), "{page}");
    assert_eq!(keys(page), keys(&module));
}
