// SPDX-License-Identifier: MIT OR Apache-2.0

//! The methods that the code of one module calls, read from its syntax.
//!
//! Syntax alone does not tell the type of every receiver. This file notes what it does tell: `self`, a variable with a
//! declared type, or a variable's name, and the fields between that and the method. `methods` finds the type.

use crate::check::rooms::modules::is_test;
use crate::check::rooms::scan::{attributes, segments};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};
use syn::{
    Arm, Block, Expr, ExprClosure, ExprMethodCall, Field, Fields, FnArg, GenericArgument, ImplItem,
    ImplItemFn, Item, ItemFn, ItemImpl, ItemMacro, ItemMod, ItemStruct, ItemTrait, Macro, Member,
    Pat, PatIdent, PatType, Path, PathArguments, TraitItem, Type,
};

/// Pointers that pass a method call on to what they point to.
const POINTERS: [&str; 3] = ["Arc", "Box", "Rc"];

/// Where a receiver begins.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Root {
    /// `self`, or a variable with a declared type: the path of the type.
    Typed(Vec<String>),
    /// Another variable, by its name.
    Variable(String),
    /// Another expression.
    Unknown,
    /// A lone word to which an arrow `=>` leads in the arguments of this macro. It may stand for a method.
    Listed(String),
}

/// A call of a method: `root.field.field.method(..)`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    /// Where the receiver begins.
    pub root: Root,
    /// The fields that follow.
    pub fields: Vec<String>,
    /// The method.
    pub method: String,
}

/// The calls of a module, and the declarations that help to resolve them.
#[derive(Debug, Default)]
pub struct Calls {
    /// The calls.
    pub all: BTreeSet<Call>,
    /// The fields of its structures: structure and field, and the path of the field's type.
    pub fields: BTreeMap<(String, String), Vec<String>>,
    /// The methods that its traits declare.
    pub of_traits: BTreeSet<String>,
}

/// Reads the calls of a module's items.
pub fn of(items: &[Item]) -> Calls {
    let mut reader = Reader { found: Calls::default(), this: None, scopes: Vec::new() };
    items.iter().for_each(|item| reader.visit_item(item));
    reader.found
}

struct Reader {
    found: Calls,
    /// The meaning of `Self`.
    this: Option<Vec<String>>,
    /// The variables of the blocks around: their types, if declared.
    scopes: Vec<BTreeMap<String, Option<Vec<String>>>>,
}

impl Reader {
    fn within(&mut self, read: impl FnOnce(&mut Self)) {
        self.scopes.push(BTreeMap::new());
        read(self);
        self.scopes.pop();
    }

    fn bind(&mut self, name: String, of: Option<Vec<String>>) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name, of);
        }
    }

    /// The path of a type, without references and pointers.
    fn path_of(&self, of: &Type) -> Option<Vec<String>> {
        match of {
            Type::Reference(of) => self.path_of(&of.elem),
            Type::Paren(of) => self.path_of(&of.elem),
            Type::Path(of) if of.qself.is_none() => match pointee(&of.path) {
                Some(inner) => self.path_of(inner),
                None if of.path.is_ident("Self") => self.this.clone(),
                None => Some(segments(&of.path)),
            },
            Type::TraitObject(of) => of.bounds.iter().find_map(|bound| match bound {
                syn::TypeParamBound::Trait(bound) => Some(segments(&bound.path)),
                _ => None,
            }),
            _ => None,
        }
    }

    fn root(&self, variable: &str) -> Root {
        if variable == "self" {
            return self.this.clone().map_or(Root::Unknown, Root::Typed);
        }
        let bound = self.scopes.iter().rev().find_map(|scope| scope.get(variable));
        match bound {
            Some(Some(of)) => Root::Typed(of.clone()),
            _ => Root::Variable(variable.to_owned()),
        }
    }

    /// Where a receiver begins, and the fields that follow.
    fn receiver(&self, receiver: &Expr) -> (Root, Vec<String>) {
        match receiver {
            Expr::Path(variable) => match variable.path.get_ident() {
                Some(name) => (self.root(&name.to_string()), Vec::new()),
                None => (Root::Unknown, Vec::new()),
            },
            Expr::Field(field) => match (self.receiver(&field.base), &field.member) {
                ((Root::Unknown, _), Member::Named(name)) => {
                    (Root::Variable(name.to_string()), Vec::new())
                }
                ((root, mut fields), Member::Named(name)) => {
                    fields.push(name.to_string());
                    (root, fields)
                }
                _ => (Root::Unknown, Vec::new()),
            },
            Expr::Paren(inner) => self.receiver(&inner.expr),
            Expr::Reference(inner) => self.receiver(&inner.expr),
            Expr::Try(inner) => self.receiver(&inner.expr),
            Expr::Unary(inner) => self.receiver(&inner.expr),
            _ => (Root::Unknown, Vec::new()),
        }
    }

    /// Notes the calls in the arguments of a macro: words, dots and an argument list.
    fn tokens(&mut self, tokens: TokenStream, called: Option<&str>) {
        let mut chain = Vec::<String>::new();
        let mut is_dotted = false;
        // The marks before the next word, and whether an arrow `=>` led to the chain.
        let (mut marks, mut is_listed) = ([' '; 2], false);
        for token in tokens {
            match token {
                TokenTree::Ident(word) => {
                    if !std::mem::take(&mut is_dotted) {
                        self.listed(&mut chain, called.filter(|_| is_listed));
                        is_listed = marks == ['=', '>'];
                    }
                    marks = [' '; 2];
                    chain.push(word.to_string());
                }
                TokenTree::Punct(mark) if mark.as_char() == '.' => is_dotted = true,
                TokenTree::Punct(mark) => {
                    self.listed(&mut chain, called.filter(|_| is_listed));
                    (is_dotted, is_listed) = (false, false);
                    marks = [marks[1], mark.as_char()];
                }
                TokenTree::Literal(_) => {
                    self.listed(&mut chain, called.filter(|_| is_listed));
                    (is_dotted, is_listed) = (false, false);
                }
                TokenTree::Group(group) => {
                    if group.delimiter() == Delimiter::Parenthesis && chain.len() > 1 {
                        let method = chain.pop().unwrap_or_default();
                        let root = match chain.remove(0) {
                            root if root.is_empty() => Root::Unknown,
                            root => self.root(&root),
                        };
                        let fields = std::mem::take(&mut chain);
                        self.found.all.insert(Call { root, fields, method });
                        // What follows is called on the result.
                        chain.push(String::new());
                    } else {
                        self.listed(&mut chain, called.filter(|_| is_listed));
                    }
                    (is_dotted, is_listed) = (false, false);
                    self.tokens(group.stream(), called);
                }
            }
        }
        self.listed(&mut chain, called.filter(|_| is_listed));
    }

    /// Notes a lone word to which an arrow leads in a macro.
    fn listed(&mut self, chain: &mut Vec<String>, called: Option<&str>) {
        if let ([word], Some(called)) = (chain.as_slice(), called)
            && !word.is_empty()
        {
            let root = Root::Listed(called.to_owned());
            self.found.all.insert(Call { root, fields: Vec::new(), method: word.clone() });
        }
        chain.clear();
    }
}

/// What a pointer points to.
fn pointee(path: &Path) -> Option<&Type> {
    let last = path.segments.last()?;
    if !POINTERS.iter().any(|pointer| last.ident == pointer) {
        return None;
    }
    match &last.arguments {
        PathArguments::AngleBracketed(of) => of.args.iter().find_map(|argument| match argument {
            GenericArgument::Type(of) => Some(of),
            _ => None,
        }),
        _ => None,
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, _: &'ast ItemMod) {
        // The module is read separately.
    }

    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        let Fields::Named(fields) = &item.fields else { return };
        for Field { ident, ty, .. } in &fields.named {
            if let (Some(field), Some(path)) = (ident, self.path_of(ty)) {
                let key = (item.ident.to_string(), field.to_string());
                self.found.fields.insert(key, path);
            }
        }
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        let methods = item.items.iter().filter_map(|item| match item {
            TraitItem::Fn(method) => Some(method.sig.ident.to_string()),
            _ => None,
        });
        self.found.of_traits.extend(methods);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let this = self.path_of(&item.self_ty);
        let around = std::mem::replace(&mut self.this, this);
        visit::visit_item_impl(self, item);
        self.this = around;
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        if !matches!(item, ImplItem::Fn(ImplItemFn { attrs, .. }) if is_test(attrs)) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.within(|reader| visit::visit_item_fn(reader, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.within(|reader| visit::visit_impl_item_fn(reader, item));
    }

    fn visit_block(&mut self, block: &'ast Block) {
        self.within(|reader| visit::visit_block(reader, block));
    }

    fn visit_expr_closure(&mut self, closure: &'ast ExprClosure) {
        self.within(|reader| visit::visit_expr_closure(reader, closure));
    }

    fn visit_arm(&mut self, arm: &'ast Arm) {
        self.within(|reader| visit::visit_arm(reader, arm));
    }

    fn visit_fn_arg(&mut self, argument: &'ast FnArg) {
        if let FnArg::Typed(argument) = argument {
            self.visit_pat_type(argument);
        }
    }

    fn visit_pat_type(&mut self, pattern: &'ast PatType) {
        match &*pattern.pat {
            Pat::Ident(name) => {
                // A type that is not known here, as of a closure, is not declared.
                self.bind(
                    name.ident.to_string(),
                    Some(self.path_of(&pattern.ty).unwrap_or_default()),
                );
            }
            _ => visit::visit_pat_type(self, pattern),
        }
    }

    fn visit_pat_ident(&mut self, name: &'ast PatIdent) {
        self.bind(name.ident.to_string(), None);
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        let (root, fields) = self.receiver(&call.receiver);
        self.found.all.insert(Call { root, fields, method: call.method.to_string() });
        visit::visit_expr_method_call(self, call);
    }

    fn visit_item_macro(&mut self, item: &'ast ItemMacro) {
        if item.ident.is_none() {
            visit::visit_item_macro(self, item);
        } else {
            self.tokens(item.mac.tokens.clone(), None);
        }
    }

    fn visit_macro(&mut self, called: &'ast Macro) {
        let name = called.path.segments.last().map(|name| name.ident.to_string());
        self.tokens(called.tokens.clone(), name.as_deref());
    }
}
