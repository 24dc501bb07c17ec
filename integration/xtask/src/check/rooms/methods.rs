// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which file defines a method that another file calls.
//!
//! Any file of a crate may add methods to a type of the crate, and a call of such a method names no file. A type is
//! *spread* if more than one file adds methods to it. A call of a method of a spread type leads from the calling file
//! to the file that defines the method. The type of a receiver follows from, in this order:
//!
//! 1. `Self`, a declared type (of a parameter, a variable or a field);
//! 2. the name of the variable or field: `access` and `process_access` stand for `ProcessAccess`;
//! 3. the name of the method, if the calling file names the type, only this type of the crate has a method of that name,
//!    and neither a trait nor the standard library has ([`STANDARD`]).
//!
//! A call that is ambiguous after that, such as `insert` of a variable without a type, leads nowhere: a wrong edge
//! would forbid code that is in order.
//!
//! A lone word to which an arrow `=>` leads in the arguments of a macro of the crate counts by the third rule: a table of
//! handlers calls them.

use crate::check::rooms::calls::{Call, Root};
use crate::check::rooms::edges::{Resolver, Target};
use crate::check::rooms::modules::{FileId, ModuleId, Modules};
use crate::check::rooms::scan::Named;
use std::collections::{BTreeMap, BTreeSet};

/// Methods of the standard library's iterators, options and collections whose names a type may well use, too.
const STANDARD: [&str; 28] = [
    "all", "any", "chain", "clear", "contains", "count", "entry", "extend", "filter", "find",
    "first", "get", "get_mut", "insert", "is_empty", "iter", "last", "len", "map", "max", "min",
    "next", "pop", "push", "remove", "replace", "retain", "take",
];

/// The methods of a crate's types.
pub struct Methods<'a> {
    modules: &'a Modules,
    /// For each name, the types with such a method, and the files that define it.
    named: BTreeMap<&'a str, BTreeMap<Target<'a>, BTreeSet<FileId>>>,
    /// The names of methods that traits declare.
    of_traits: BTreeSet<&'a str>,
    /// The types to which more than one file adds methods.
    spread: BTreeSet<Target<'a>>,
    /// The types that each file names.
    known: BTreeSet<(FileId, Target<'a>)>,
}

/// What is known of a receiver.
enum Receiver<'a, 'c> {
    /// Its type.
    Of(Target<'a>),
    /// The name of the variable or field.
    Called(&'c str),
    /// Nothing.
    Unknown,
    /// It is of no type of the crate.
    Foreign,
}

impl<'a> Methods<'a> {
    /// Collects the methods that a resolver knows.
    pub fn new(modules: &'a Modules, resolver: &Resolver<'a>) -> Self {
        let mut named = BTreeMap::<_, BTreeMap<_, _>>::new();
        let mut files = BTreeMap::<_, BTreeSet<FileId>>::new();
        for ((target, name), defining) in resolver.associated() {
            named.entry(*name).or_default().insert(*target, defining.clone());
            files.entry(*target).or_default().extend(defining);
        }
        let spread = files.into_iter().filter(|(_, files)| files.len() > 1);
        let traits = modules.all.iter().flat_map(|module| &module.calls.of_traits);
        let mut known = BTreeSet::new();
        for (id, module) in modules.all.iter().enumerate() {
            for Named { path, this } in &module.named {
                for path in [Some(path), this.as_ref()].into_iter().flatten() {
                    let targets = resolver.resolve(id, path).into_iter();
                    known.extend(targets.map(|(target, _)| (module.file, target)));
                }
            }
        }
        Self {
            modules,
            named,
            of_traits: traits.map(String::as_str).collect(),
            spread: spread.map(|(target, _)| target).collect(),
            known,
        }
    }

    /// The files that define the method of a spread type that a module calls.
    pub fn definers(&self, resolver: &Resolver<'a>, id: ModuleId, call: &Call) -> BTreeSet<FileId> {
        let Some(types) = self.named.get(call.method.as_str()) else { return BTreeSet::new() };
        let only = || match types.iter().next() {
            Some((target, _)) if types.len() == 1 => {
                let file = self.modules.all[id].file;
                let method = call.method.as_str();
                let is_method = !self.of_traits.contains(method) && !STANDARD.contains(&method);
                (is_method && self.known.contains(&(file, *target))).then_some(*target)
            }
            _ => None,
        };
        let target = match self.receiver(resolver, id, call) {
            Receiver::Of(target) => Some(target),
            Receiver::Foreign => None,
            Receiver::Called(name) => {
                let mut alike = types.keys().filter(|target| stands_for(name, target));
                match (alike.next(), alike.next()) {
                    (Some(target), None) => Some(*target),
                    _ => only(),
                }
            }
            Receiver::Unknown => only(),
        };
        let target = target.filter(|target| self.spread.contains(target));
        target.and_then(|target| types.get(&target)).cloned().unwrap_or_default()
    }

    fn receiver<'c>(
        &self,
        resolver: &Resolver<'a>,
        id: ModuleId,
        call: &'c Call,
    ) -> Receiver<'a, 'c> {
        let mut receiver = match &call.root {
            Root::Typed(path) => self.item(resolver, id, path),
            Root::Variable(name) => Receiver::Called(name),
            Root::Unknown => Receiver::Unknown,
            Root::Listed(called) if self.modules.macros.contains_key(called) => Receiver::Unknown,
            Root::Listed(_) => Receiver::Foreign,
        };
        for field in &call.fields {
            receiver = match receiver {
                Receiver::Of(target) => self.field(resolver, target, field),
                Receiver::Called(name) => match self.owner(name, field) {
                    Some(target) => self.field(resolver, target, field),
                    None => Receiver::Called(field),
                },
                Receiver::Unknown | Receiver::Foreign => Receiver::Called(field),
            };
        }
        receiver
    }

    /// The type of a path, if it is one of the crate.
    fn item<'c>(&self, resolver: &Resolver<'a>, id: ModuleId, path: &[String]) -> Receiver<'a, 'c> {
        let found = resolver.resolve(id, path).into_iter();
        let mut found =
            found.filter(|(target, rest)| rest.is_empty() && matches!(target, Target::Item(..)));
        found.next().map_or(Receiver::Foreign, |(target, _)| Receiver::Of(target))
    }

    /// The field of a structure.
    fn field<'c>(
        &self,
        resolver: &Resolver<'a>,
        of: Target<'a>,
        field: &'c str,
    ) -> Receiver<'a, 'c> {
        let Target::Item(module, name) = of else { return Receiver::Called(field) };
        let key = (name.to_owned(), field.to_owned());
        match self.modules.all[module].calls.fields.get(&key) {
            Some(path) => self.item(resolver, module, path),
            None => Receiver::Called(field),
        }
    }

    /// The only structure for which a variable's name stands and that has a field.
    fn owner(&self, variable: &str, field: &str) -> Option<Target<'a>> {
        let modules = self.modules.all.iter().enumerate();
        let mut owners = modules.flat_map(|(id, module)| {
            let fields = module.calls.fields.keys().filter(|(_, name)| name == field);
            let targets = fields.map(move |(of, _)| Target::Item(id, of));
            targets.filter(|target| stands_for(variable, target))
        });
        match (owners.next(), owners.next()) {
            (Some(owner), None) => Some(owner),
            _ => None,
        }
    }
}

/// Whether a variable's name is that of a type, or the last words of it.
fn stands_for(variable: &str, target: &Target<'_>) -> bool {
    let Target::Item(_, name) = target else { return false };
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    let rest = snake.strip_suffix(variable);
    rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('_'))
}
