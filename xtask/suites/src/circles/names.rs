//! The files that a path leads to.

use super::source::{Mention, Source};

/// A place that a name leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Module(usize),
    /// An item, in this file.
    Item(usize),
    /// Another crate, or what the language brings along.
    Outside,
}

impl Source {
    /// The files that hold the item of that path; none if the path leads to a module, or out of the
    /// crate.
    pub(super) fn files_of(&self, mention: &Mention) -> Vec<usize> {
        let files = self.resolve(mention.module, &mention.path, &mut Vec::new()).into_iter();
        files.filter_map(|target| if let Target::Item(file) = target { Some(file) } else { None }).collect()
    }

    /// The files of the module and of those that hold it, but for the root's.
    pub(super) fn holders(&self, module: usize) -> Vec<usize> {
        let parents = std::iter::successors(Some(module), |module| Some(self.modules[*module].parent));
        parents.take_while(|module| *module != 0).map(|module| self.modules[module].file).collect()
    }

    /// Follows a path from a module. `open` are the names that are being looked up, for imports may
    /// go in circles.
    fn resolve(&self, from: usize, path: &[String], open: &mut Vec<(usize, String)>) -> Vec<Target> {
        let Some((first, rest)) = path.split_first() else { return vec![Target::Module(from)] };
        let begin = match first.as_str() {
            "crate" => vec![Target::Module(0)],
            "self" => vec![Target::Module(from)],
            "super" => vec![Target::Module(self.modules[from].parent)],
            name => self.look_up(from, name, open),
        };
        let found = if begin.is_empty() { vec![Target::Outside] } else { begin };
        rest.iter()
            .fold(found, |found, name| found.into_iter().flat_map(|target| self.step(target, name, open)).collect())
    }

    fn step(&self, from: Target, name: &str, open: &mut Vec<(usize, String)>) -> Vec<Target> {
        match from {
            Target::Module(module) if name == "super" => vec![Target::Module(self.modules[module].parent)],
            Target::Module(module) => match self.look_up(module, name, open) {
                // A macro has declared it.
                found if found.is_empty() => vec![Target::Item(self.modules[module].file)],
                found => found,
            },
            // A variant, or what belongs to a type.
            Target::Item(_) | Target::Outside => vec![from],
        }
    }

    /// The targets of a name in a module; none if the module does not know it.
    fn look_up(&self, id: usize, name: &str, open: &mut Vec<(usize, String)>) -> Vec<Target> {
        let key = (id, name.to_owned());
        if open.contains(&key) {
            return vec![Target::Outside];
        }
        open.push(key);
        let module = &self.modules[id];
        let mut found: Vec<_> = module
            .children
            .iter()
            .filter(|(child, _)| child == name)
            .map(|(_, child)| Target::Module(*child))
            .collect();
        if module.items.contains(name) {
            found.push(Target::Item(module.file));
        }
        for (_, path) in module.imports.iter().filter(|(import, _)| import == name) {
            found.extend(self.resolve(id, path, open));
        }
        if found.is_empty() {
            for glob in &module.globs {
                for target in self.resolve(id, glob, open) {
                    if let Target::Module(other) = target {
                        found.extend(self.look_up(other, name, open));
                    }
                }
            }
        }
        open.pop();
        found
    }
}
