//! The modules of a crate, and the names that its files declare, import and mention, as the text
//! has them.

use anyhow::{Context, Result, bail};
use proc_macro2::TokenTree;
use std::{
    collections::HashSet,
    fs,
    mem::replace,
    path::{Path, PathBuf},
};
use syn::{
    Attribute, Ident, Item, Meta, Token, UseTree, Visibility,
    parse::{ParseStream, Parser},
    punctuated::Punctuated,
    token,
    visit::{self, Visit},
};

/// A crate without its tests.
#[derive(Debug, Default)]
pub(super) struct Source {
    pub(super) files: Vec<PathBuf>,
    /// The root is the first.
    pub(super) modules: Vec<Module>,
    pub(super) mentions: Vec<Mention>,
}

/// A module, in a file of its own or within another's.
#[derive(Debug)]
pub(super) struct Module {
    pub(super) file: usize,
    /// The root is its own parent.
    pub(super) parent: usize,
    /// The names and numbers of its children. A name has several where features choose among them.
    pub(super) children: Vec<(String, usize)>,
    pub(super) items: HashSet<String>,
    /// The names that it imports or re-exports, and their paths.
    pub(super) imports: Vec<(String, Vec<String>)>,
    /// The paths of which it imports or re-exports every name.
    pub(super) globs: Vec<Vec<String>>,
}

/// A path in a file's code, or one that the file imports for itself.
#[derive(Debug)]
pub(super) struct Mention {
    pub(super) module: usize,
    pub(super) path: Vec<String>,
    pub(super) line: usize,
    /// Whether a `use` has it.
    pub(super) is_import: bool,
}

impl Source {
    /// Reads the crate that begins with this file.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let mut reader = Reader { source: Self::default(), module: 0, folder: PathBuf::new(), error: None };
        reader.read_file(root.to_owned(), 0, root.parent().unwrap_or(Path::new("")).to_owned())?;
        match reader.error {
            Some(error) => Err(error),
            None => Ok(reader.source),
        }
    }
}

/// Walks from one module into the next.
struct Reader {
    source: Source,
    module: usize,
    /// Where the files of the module's children lie.
    folder: PathBuf,
    error: Option<anyhow::Error>,
}

impl Reader {
    fn read_file(&mut self, path: PathBuf, parent: usize, folder: PathBuf) -> Result<usize> {
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let syntax = syn::parse_file(&text).with_context(|| format!("cannot parse {}", path.display()))?;
        self.source.files.push(path);
        Ok(self.read_module(&syntax.items, self.source.files.len() - 1, parent, folder))
    }

    fn read_module(&mut self, items: &[Item], file: usize, parent: usize, folder: PathBuf) -> usize {
        let id = self.source.modules.len();
        let names = items.iter().filter_map(declared).map(Ident::to_string).collect();
        let module = Module { file, parent, children: vec![], items: names, imports: vec![], globs: vec![] };
        self.source.modules.push(module);
        let outer = (replace(&mut self.module, id), replace(&mut self.folder, folder));
        items.iter().for_each(|item| self.visit_item(item));
        (self.module, self.folder) = outer;
        id
    }

    /// The module that `mod name;` declares.
    fn read_child(&mut self, item: &syn::ItemMod) -> Result<usize> {
        let name = item.ident.to_string();
        let file = self.source.modules[self.module].file;
        let within = self.folder.join(&name);
        if let Some((_, items)) = &item.content {
            return Ok(self.read_module(items, file, self.module, within));
        }
        let beside = self.source.files[file].parent().unwrap_or(Path::new(""));
        let (path, folder) = match named_file(&item.attrs) {
            // As that of a `mod.rs`.
            Some(named) => (beside.join(named), beside.to_owned()),
            None => match within.join("mod.rs") {
                path if path.exists() => (path, within),
                _ => (within.with_extension("rs"), within),
            },
        };
        if !path.exists() {
            bail!("{} declares the module {name}, which has no file", self.source.files[file].display());
        }
        self.read_file(path, self.module, folder)
    }

    fn mention_path(&mut self, path: &syn::Path) {
        if let (None, Some(first)) = (&path.leading_colon, path.segments.first()) {
            let line = first.ident.span().start().line;
            let path = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.source.mentions.push(Mention { module: self.module, path, line, is_import: false });
        }
    }

    /// The names that a `use` brings in. One that is for others as well mentions nothing: it only
    /// passes on.
    fn import(&mut self, tree: &UseTree, prefix: &[String], is_own: bool) {
        let joined = |ident: &Ident| [prefix, &[ident.to_string()]].concat();
        let (name, path, line) = match tree {
            UseTree::Path(path) => return self.import(&path.tree, &joined(&path.ident), is_own),
            UseTree::Group(group) => return group.items.iter().for_each(|tree| self.import(tree, prefix, is_own)),
            UseTree::Glob(glob) => {
                self.source.modules[self.module].globs.push(prefix.to_vec());
                (None, prefix.to_vec(), glob.star_token.spans[0].start().line)
            }
            UseTree::Name(name) if name.ident == "self" => {
                (prefix.last().cloned(), prefix.to_vec(), name.ident.span().start().line)
            }
            UseTree::Name(name) => (Some(name.ident.to_string()), joined(&name.ident), name.ident.span().start().line),
            UseTree::Rename(name) => {
                let path = if name.ident == "self" { prefix.to_vec() } else { joined(&name.ident) };
                (Some(name.rename.to_string()), path, name.ident.span().start().line)
            }
        };
        if let Some(name) = name {
            self.source.modules[self.module].imports.push((name, path.clone()));
        }
        if is_own {
            self.source.mentions.push(Mention { module: self.module, path, line, is_import: true });
        }
    }
}

/// Passes over what is compiled for tests alone.
macro_rules! unless_test {
    ($($visit:ident: $node:ident,)*) => {
        $(fn $visit(&mut self, node: &'ast syn::$node) {
            if !is_test(&node.attrs) {
                visit::$visit(self, node);
            }
        })*
    };
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if is_test(&item.attrs) || self.error.is_some() {
            return;
        }
        match self.read_child(item) {
            Ok(child) => self.source.modules[self.module].children.push((item.ident.to_string(), child)),
            Err(error) => self.error = Some(error),
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        // A path that begins with `::` leads out of the crate.
        if !is_test(&item.attrs) && item.leading_colon.is_none() {
            self.import(&item.tree, &[], matches!(item.vis, Visibility::Inherited));
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.mention_path(path);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        match paths.parse2(call.tokens.clone()) {
            Ok(paths) => paths.iter().for_each(|path| self.mention_path(path)),
            Err(error) => self.error = Some(error.into()),
        }
    }

    // Attributes are of other crates.
    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    unless_test! {
        visit_item_const: ItemConst,
        visit_item_enum: ItemEnum,
        visit_item_fn: ItemFn,
        visit_item_impl: ItemImpl,
        visit_item_macro: ItemMacro,
        visit_item_static: ItemStatic,
        visit_item_struct: ItemStruct,
        visit_item_trait: ItemTrait,
        visit_item_type: ItemType,
        visit_impl_item_fn: ImplItemFn,
        visit_field: Field,
        visit_variant: Variant,
        visit_local: Local,
        visit_arm: Arm,
    }
}

/// The name that an item gives itself.
fn declared(item: &Item) -> Option<&Ident> {
    match item {
        Item::Const(item) => Some(&item.ident),
        Item::Enum(item) => Some(&item.ident),
        Item::Fn(item) => Some(&item.sig.ident),
        Item::Macro(item) => item.ident.as_ref(),
        Item::Static(item) => Some(&item.ident),
        Item::Struct(item) => Some(&item.ident),
        Item::Trait(item) => Some(&item.ident),
        Item::Type(item) => Some(&item.ident),
        Item::Union(item) => Some(&item.ident),
        _ => None,
    }
}

/// Whether the attributes leave an item out of all but tests.
fn is_test(attributes: &[Attribute]) -> bool {
    let is_test = |attribute: &Attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => list.parse_args().is_ok_and(|meta: Meta| needs_test(&meta)),
        _ => false,
    };
    attributes.iter().any(is_test)
}

fn needs_test(condition: &Meta) -> bool {
    match condition {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("all") => list
            .parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
            .is_ok_and(|conditions| conditions.iter().any(needs_test)),
        _ => false,
    }
}

/// The file that `#[path = "..."]` names.
fn named_file(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(named) if named.path.is_ident("path") => match &named.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(file), .. }) => Some(file.value()),
            _ => None,
        },
        _ => None,
    })
}

/// The paths in a macro's arguments. A lone name counts if it begins as a type does, or is called:
/// most others are variables.
fn paths(input: ParseStream<'_>) -> syn::Result<Vec<syn::Path>> {
    let mut found = Vec::new();
    while !input.is_empty() {
        let is_field = input.peek(Token![.]) && !input.peek(Token![..]);
        if let Ok(path) = input.fork().call(syn::Path::parse_mod_style) {
            input.call(syn::Path::parse_mod_style)?;
            let is_item = |name: &Ident| {
                input.peek(token::Paren) || input.peek(Token![!]) || name.to_string().starts_with(char::is_uppercase)
            };
            if path.get_ident().is_none_or(is_item) {
                found.push(path);
            }
        } else if let TokenTree::Group(group) = input.parse()? {
            found.extend(paths.parse2(group.stream())?);
        } else if is_field {
            input.parse::<Option<TokenTree>>()?;
        }
    }
    Ok(found)
}
