// SPDX-License-Identifier: MIT OR Apache-2.0

//! The paths that the code of one module names, read from its syntax.

use crate::check::rooms::modules::{Binding, Module, is_test};
use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{
    Attribute, ImplItem, Item, ItemImpl, ItemMacro, ItemMod, ItemUse, Macro, Path, Type, UseTree,
    VisRestricted, Visibility,
};

/// A path as code names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its segments, without generic arguments.
    pub path: Vec<String>,
    /// The meaning of `Self` there.
    pub this: Option<Vec<String>>,
}

/// Notes the names that the items of a module define, import and use; calls `defines_macro` with each macro.
pub fn items(items: &[Item], module: &mut Module, defines_macro: impl FnMut(String)) {
    let mut scanner = Scanner { module, this: None, defines_macro };
    for item in items {
        scanner.define(item);
        scanner.visit_item(item);
    }
}

struct Scanner<'a, F> {
    module: &'a mut Module,
    this: Option<Vec<String>>,
    defines_macro: F,
}

impl<F: FnMut(String)> Scanner<'_, F> {
    /// Notes the name of an item that the module defines.
    fn define(&mut self, item: &Item) {
        let name = match item {
            Item::Const(item) => &item.ident,
            Item::Enum(item) => &item.ident,
            Item::Fn(item) => &item.sig.ident,
            Item::Static(item) => &item.ident,
            Item::Struct(item) => &item.ident,
            Item::Trait(item) => &item.ident,
            Item::TraitAlias(item) => &item.ident,
            Item::Type(item) => &item.ident,
            Item::Union(item) => &item.ident,
            // A macro that takes an item's visibility and keyword defines that item.
            Item::Macro(item) if item.ident.is_none() => {
                for name in defined_by_macro(item.mac.tokens.clone()) {
                    self.bind(name, Binding::Item);
                }
                return;
            }
            _ => return,
        };
        if !is_test(attributes(item)) {
            self.bind(name.to_string(), Binding::Item);
        }
    }

    fn bind(&mut self, name: String, binding: Binding) {
        self.module.names.entry(name).or_default().push(binding);
    }

    fn name(&mut self, path: Vec<String>) {
        if path == ["Self"] {
            return;
        }
        let named = Named { path, this: self.this.clone() };
        if !self.module.named.contains(&named) {
            self.module.named.push(named);
        }
    }

    /// Imports the names of a `use` tree. A re-export is a door: it passes a name on and does not use it.
    fn import(&mut self, prefix: &[String], tree: &UseTree, is_door: bool) {
        let mut path = prefix.to_vec();
        match tree {
            UseTree::Path(tree) => {
                path.push(tree.ident.to_string());
                self.import(&path, &tree.tree, is_door);
            }
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.import(&path, tree, is_door));
            }
            UseTree::Glob(_) => {
                if !is_door {
                    self.name(path.clone());
                }
                self.module.globs.push(path);
            }
            UseTree::Name(name) => {
                if name.ident != "self" {
                    path.push(name.ident.to_string());
                }
                let short = path.last().cloned().unwrap_or_default();
                self.import_as(short, path, is_door);
            }
            UseTree::Rename(rename) => {
                if rename.ident != "self" {
                    path.push(rename.ident.to_string());
                }
                self.import_as(rename.rename.to_string(), path, is_door);
            }
        }
    }

    fn import_as(&mut self, name: String, path: Vec<String>, is_door: bool) {
        if !is_door {
            self.name(path.clone());
        }
        self.bind(name, Binding::Import(path));
    }

    /// Notes the paths in a macro's tokens. A lone word counts as a path if `keeps_words`. In the rules of a macro
    /// it does not: such a word has a meaning only where the macro is called.
    fn tokens(&mut self, tokens: TokenStream, keeps_words: bool) {
        for path in paths(tokens) {
            let begins_anywhere = matches!(path[0].as_str(), "crate" | "super" | "self");
            if begins_anywhere || keeps_words {
                self.name(path);
            }
        }
    }
}

impl<'ast, F: FnMut(String)> Visit<'ast> for Scanner<'_, F> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let attributes = match item {
            ImplItem::Const(item) => &item.attrs,
            ImplItem::Fn(item) => &item.attrs,
            ImplItem::Type(item) => &item.attrs,
            _ => return visit::visit_impl_item(self, item),
        };
        if !is_test(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, _: &'ast ItemMod) {
        // The module is read separately.
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let is_door = !matches!(item.vis, Visibility::Inherited);
        self.import(&[], &item.tree, is_door);
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let this = match &*item.self_ty {
            Type::Path(this) if this.qself.is_none() => Some(segments(&this.path)),
            _ => None,
        };
        if let (Some(this), None) = (&this, &item.trait_) {
            let names = item.items.iter().filter_map(|item| match item {
                ImplItem::Const(item) => Some(item.ident.to_string()),
                ImplItem::Fn(item) => Some(item.sig.ident.to_string()),
                _ => None,
            });
            self.module.associated.extend(names.map(|name| (this.clone(), name)));
        }
        let around = std::mem::replace(&mut self.this, this);
        visit::visit_item_impl(self, item);
        self.this = around;
    }

    fn visit_item_macro(&mut self, item: &'ast ItemMacro) {
        match &item.ident {
            Some(name) => {
                (self.defines_macro)(name.to_string());
                self.tokens(item.mac.tokens.clone(), false);
            }
            None => visit::visit_item_macro(self, item),
        }
    }

    fn visit_macro(&mut self, called: &'ast Macro) {
        let mut path = segments(&called.path);
        if let Some(name) = path.last_mut() {
            name.push('!');
        }
        self.name(path);
        self.tokens(called.tokens.clone(), true);
    }

    fn visit_path(&mut self, path: &'ast Path) {
        self.name(segments(path));
        visit::visit_path(self, path);
    }

    fn visit_vis_restricted(&mut self, _: &'ast VisRestricted) {
        // An item's visibility does not use the path.
    }

    fn visit_attribute(&mut self, _: &'ast Attribute) {
        // Derives and other attributes name items of other crates.
    }
}

/// The segments of a path, without generic arguments.
pub fn segments(path: &Path) -> Vec<String> {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect()
}

/// The attributes of an item.
pub fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// The names that follow an item's keyword in a macro's arguments.
fn defined_by_macro(tokens: TokenStream) -> Vec<String> {
    const KEYWORDS: [&str; 7] = ["struct", "enum", "union", "trait", "type", "fn", "const"];
    let mut names = Vec::new();
    let mut follows = false;
    for token in tokens {
        match token {
            TokenTree::Ident(word) if follows => {
                names.push(word.to_string());
                follows = false;
            }
            TokenTree::Ident(word) => follows = KEYWORDS.contains(&word.to_string().as_str()),
            _ => follows = false,
        }
    }
    names
}

/// The paths in tokens, those within brackets too.
fn paths(tokens: TokenStream) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut path = Vec::<String>::new();
    // Punctuation before the next word: colons continue a path, a dot makes the word a field.
    let (mut colons, mut dots) = (0, 0);
    for token in tokens {
        match token {
            TokenTree::Ident(word) => {
                if colons != 2 {
                    found.push(std::mem::take(&mut path));
                }
                if dots != 1 {
                    path.push(word.to_string());
                }
                (colons, dots) = (0, 0);
            }
            TokenTree::Punct(mark) => {
                colons = if mark.as_char() == ':' { colons + 1 } else { 0 };
                dots = if mark.as_char() == '.' { dots + 1 } else { 0 };
            }
            TokenTree::Group(group) => {
                found.extend(paths(group.stream()));
                (colons, dots) = (0, 0);
            }
            TokenTree::Literal(_) => (colons, dots) = (0, 0),
        }
    }
    found.push(path);
    found.retain(|path| !path.is_empty());
    found
}
