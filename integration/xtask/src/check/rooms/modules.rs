// SPDX-License-Identifier: MIT OR Apache-2.0

//! The modules of a crate: what each defines, imports and names.

use crate::check::rooms::calls::{self, Calls};
use crate::check::rooms::scan::{self, Named};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use syn::{Attribute, Item, ItemMod, Meta};

/// A module's place among [`Modules::all`].
pub type ModuleId = usize;
/// A file's place among [`Modules::files`].
pub type FileId = usize;

/// The meaning of a name in a module.
#[derive(Clone, Debug)]
pub enum Binding {
    /// A module below.
    Module(ModuleId),
    /// A definition of the module.
    Item,
    /// Another name's meaning.
    Import(Vec<String>),
}

/// One module.
#[derive(Debug)]
pub struct Module {
    /// The file that contains it.
    pub file: FileId,
    /// The module around it; a root has none.
    pub parent: Option<ModuleId>,
    /// Its names. One may stand for a module, a type and a value.
    pub names: BTreeMap<String, Vec<Binding>>,
    /// The paths of its glob imports.
    pub globs: Vec<Vec<String>>,
    /// The paths that its code names.
    pub named: Vec<Named>,
    /// The methods and constants of its `impl` blocks: the path of the type, and the name.
    pub associated: Vec<(Vec<String>, String)>,
    /// The methods that its code calls.
    pub calls: Calls,
}

/// All modules of a crate's library and programs.
#[derive(Debug, Default)]
pub struct Modules {
    /// The files, in the order in which they were found.
    pub files: Vec<PathBuf>,
    /// The modules, each after its parent.
    pub all: Vec<Module>,
    /// The files that define macros with `macro_rules!`.
    pub macros: BTreeMap<String, FileId>,
}

impl Modules {
    /// Reads a root file and every file that it declares.
    ///
    /// # Errors
    /// When a file is missing or is not Rust.
    pub fn add_root(&mut self, root: &Path) -> Result<(), String> {
        let folder = root.parent().unwrap_or(root).to_owned();
        self.add_file(root, None, &folder).map(drop)
    }

    /// Reads one file; the modules that it declares are files in `below`.
    fn add_file(
        &mut self,
        path: &Path,
        parent: Option<ModuleId>,
        below: &Path,
    ) -> Result<ModuleId, String> {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = fs::read_to_string(path).map_err(|error| failed(&error))?;
        let syntax = syn::parse_file(&text).map_err(|error| failed(&error))?;
        let known = self.files.iter().position(|file| file == path);
        let file = known.unwrap_or_else(|| {
            self.files.push(path.to_owned());
            self.files.len() - 1
        });
        self.add_module(file, parent, &syntax.items, below)
    }

    fn add_module(
        &mut self,
        file: FileId,
        parent: Option<ModuleId>,
        items: &[Item],
        below: &Path,
    ) -> Result<ModuleId, String> {
        let id = self.all.len();
        let mut module = Module {
            file,
            parent,
            names: BTreeMap::new(),
            globs: Vec::new(),
            named: Vec::new(),
            associated: Vec::new(),
            calls: calls::of(items),
        };
        scan::items(items, &mut module, |name| {
            self.macros.insert(name, file);
        });
        self.all.push(module);
        for item in items {
            if let Item::Mod(declared) = item
                && !is_test(&declared.attrs)
            {
                let child = self.add_declared(id, declared, below)?;
                let name = declared.ident.to_string();
                self.all[id].names.entry(name).or_default().push(Binding::Module(child));
            }
        }
        Ok(id)
    }

    fn add_declared(
        &mut self,
        parent: ModuleId,
        declared: &ItemMod,
        below: &Path,
    ) -> Result<ModuleId, String> {
        let name = declared.ident.to_string();
        let inner = below.join(&name);
        let file = self.all[parent].file;
        if let Some((_, items)) = &declared.content {
            return self.add_module(file, Some(parent), items, &inner);
        }
        if let Some(place) = explicit_path(&declared.attrs) {
            let place = self.files[file].parent().unwrap_or(below).join(place);
            let place = fs::canonicalize(&place)
                .map_err(|error| format!("{}: {error}", place.display()))?;
            let folder = place.parent().unwrap_or(below).to_owned();
            let is_folder = place.file_name().is_some_and(|name| name == "mod.rs");
            let below = if is_folder { folder } else { folder.join(&name) };
            return self.add_file(&place, Some(parent), &below);
        }
        let beside = below.join(format!("{name}.rs"));
        let path = if beside.is_file() { beside } else { inner.join("mod.rs") };
        self.add_file(&path, Some(parent), &inner)
    }
}

/// The file that `#[path = "..."]` names.
fn explicit_path(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(place), .. }) => Some(place.value()),
            _ => None,
        },
        _ => None,
    })
}

/// Whether an item is compiled for tests only.
pub fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            condition == "test" || condition.starts_with("all (test ,")
        }
        _ => false,
    })
}
