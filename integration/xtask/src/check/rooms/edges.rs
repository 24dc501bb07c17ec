// SPDX-License-Identifier: MIT OR Apache-2.0

//! The graph of files: which file names which definition of another, and which calls its methods.

use crate::check::rooms::methods::Methods;
use crate::check::rooms::modules::{Binding, FileId, Module, ModuleId, Modules};
use crate::check::rooms::scan::Named;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The files of a crate and the edges between them.
#[derive(Debug)]
pub struct Graph {
    /// The files.
    pub files: Vec<PathBuf>,
    /// The paths that files name of others.
    pub imports: Edges,
    /// The same, and the methods of spread types that files call: see `methods`.
    pub calls: Edges,
}

/// For each pair of files, what the first names of the second.
pub type Edges = BTreeMap<(FileId, FileId), BTreeSet<String>>;

/// The target of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target<'a> {
    /// A module.
    Module(ModuleId),
    /// A definition, by its module and its name there.
    Item(ModuleId, &'a str),
}

/// Names whose look-up is in progress, so that imports in a circle terminate.
type Asked<'a> = BTreeSet<(ModuleId, &'a str)>;

impl Graph {
    /// Reads the files below these roots.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn read(roots: &[PathBuf]) -> Result<Self, String> {
        let mut modules = Modules::default();
        roots.iter().try_for_each(|root| modules.add_root(root))?;
        let resolver = Resolver::new(&modules);
        let imports = resolver.edges();
        let mut calls = imports.clone();
        resolver.add_calls(&mut calls);
        Ok(Self { files: modules.files, imports, calls })
    }

    /// Makes the paths of files in a folder relative to it.
    pub fn shorten(&mut self, folder: &Path) {
        for file in &mut self.files {
            if let Ok(short) = file.strip_prefix(folder) {
                *file = short.to_owned();
            }
        }
    }
}

/// Finds what paths mean.
pub struct Resolver<'a> {
    modules: &'a Modules,
    /// The files with the methods and constants of each type.
    associated: Associated<'a>,
}

/// The files that define a method or constant of a type.
type Associated<'a> = BTreeMap<(Target<'a>, &'a str), BTreeSet<FileId>>;

impl<'a> Resolver<'a> {
    fn new(modules: &'a Modules) -> Self {
        let mut resolver = Self { modules, associated: BTreeMap::new() };
        for (id, module) in modules.all.iter().enumerate() {
            for (this, name) in &module.associated {
                for (target, rest) in resolver.resolve(id, this) {
                    if rest.is_empty() {
                        let files = resolver.associated.entry((target, name)).or_default();
                        files.insert(module.file);
                    }
                }
            }
        }
        resolver
    }

    /// The methods and constants of each type, with the files that define them.
    pub fn associated(&self) -> &Associated<'a> {
        &self.associated
    }

    /// Adds the calls of methods of spread types.
    fn add_calls(&self, edges: &mut Edges) {
        let methods = Methods::new(self.modules, self);
        for (id, module) in self.modules.all.iter().enumerate() {
            for call in &module.calls.all {
                let definers = methods.definers(self, id, call);
                if definers.contains(&module.file) {
                    continue;
                }
                for file in definers {
                    let method = format!(".{}()", call.method);
                    edges.entry((module.file, file)).or_default().insert(method);
                }
            }
        }
    }

    fn edges(&self) -> Edges {
        let mut edges = Edges::new();
        for (id, module) in self.modules.all.iter().enumerate() {
            for named in &module.named {
                for file in self.definers(id, module, named) {
                    if file != module.file {
                        let path = named.path.join("::");
                        edges.entry((module.file, file)).or_default().insert(path);
                    }
                }
            }
        }
        edges
    }

    /// The files that define a path that a module names.
    fn definers(&self, id: ModuleId, module: &Module, named: &Named) -> BTreeSet<FileId> {
        if let Some(name) = named.path.last().and_then(|name| name.strip_suffix('!')) {
            return self.modules.macros.get(name).copied().into_iter().collect();
        }
        let mut files = BTreeSet::new();
        let mut path = named.path.clone();
        if let (Some("Self"), Some(this)) = (path.first().map(String::as_str), &named.this) {
            path.splice(..1, this.iter().cloned());
        }
        for (target, rest) in self.resolve(id, &path) {
            // A path that ends at a module makes no edge: the items that are named through it do.
            if let Target::Item(owner, _) = target {
                files.insert(self.modules.all[owner].file);
            }
            if let [name, ..] = rest
                && let Some(associated) = self.associated.get(&(target, name.as_str()))
                && !associated.contains(&module.file)
            {
                files.extend(associated);
            }
        }
        files
    }

    /// The targets of a path in a module, each with the segments that follow the definition.
    pub fn resolve<'p>(&self, id: ModuleId, path: &'p [String]) -> Vec<(Target<'a>, &'p [String])> {
        self.resolve_asking(id, path, &mut Asked::new())
    }

    fn resolve_asking<'p>(
        &self,
        mut id: ModuleId,
        path: &'p [String],
        asked: &mut Asked<'a>,
    ) -> Vec<(Target<'a>, &'p [String])> {
        let mut rest = path;
        while let Some((first, behind)) = rest.split_first() {
            id = match first.as_str() {
                "crate" => self.root_of(id),
                "self" => id,
                "super" => self.modules.all[id].parent.unwrap_or(id),
                name => {
                    let found = self.look_up(id, name, asked);
                    return found
                        .into_iter()
                        .flat_map(|target| match target {
                            Target::Module(module) if !behind.is_empty() => {
                                self.resolve_asking(module, behind, asked)
                            }
                            _ => vec![(target, behind)],
                        })
                        .collect();
                }
            };
            rest = behind;
        }
        vec![(Target::Module(id), rest)]
    }

    /// The targets of a name in a module.
    fn look_up(&self, id: ModuleId, name: &str, asked: &mut Asked<'a>) -> Vec<Target<'a>> {
        let module = &self.modules.all[id];
        if let Some((own, bindings)) = module.names.get_key_value(name) {
            if !asked.insert((id, own)) {
                return Vec::new();
            }
            let found = bindings.iter().flat_map(|binding| match binding {
                Binding::Module(module) => vec![Target::Module(*module)],
                Binding::Item => vec![Target::Item(id, own)],
                Binding::Import(path) => self.whole(id, path, asked),
            });
            let found = found.collect();
            asked.remove(&(id, own.as_str()));
            return found;
        }
        let globs = module.globs.iter().flat_map(|path| self.whole(id, path, asked));
        let open: Vec<_> = globs.collect();
        let open = open.into_iter().filter_map(|target| match target {
            Target::Module(module) if module != id => Some(module),
            _ => None,
        });
        open.flat_map(|module| {
            let key = self.modules.all[module].names.get_key_value(name);
            match key {
                Some(_) => self.look_up(module, name, asked),
                None => Vec::new(),
            }
        })
        .collect()
    }

    /// The targets of an import, whose whole path must resolve.
    fn whole(&self, id: ModuleId, path: &[String], asked: &mut Asked<'a>) -> Vec<Target<'a>> {
        let found = self.resolve_asking(id, path, asked);
        // `use Enum::Variant` means the enumeration.
        found.into_iter().map(|(target, _)| target).collect()
    }

    fn root_of(&self, mut id: ModuleId) -> ModuleId {
        while let Some(parent) = self.modules.all[id].parent {
            id = parent;
        }
        id
    }
}
