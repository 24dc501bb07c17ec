// SPDX-License-Identifier: MIT OR Apache-2.0

//! The source function of an instruction, through inlining.

use addr2line::Loader;
use std::path::{Path, PathBuf};

/// A function.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Function {
    /// Its file, from the workspace's root; `None` for other crates.
    pub file: Option<String>,
    /// Its name.
    pub name: String,
}

/// A program's symbols.
pub struct Symbols {
    loader: Loader,
    root: PathBuf,
}

impl Symbols {
    /// The symbols of a program with line tables, built in the workspace at `root`.
    ///
    /// # Errors
    /// When the program has no line tables.
    pub fn of(program: &Path, root: &Path) -> Result<Self, String> {
        let failed = |error| format!("{} has no line tables: {error}", program.display());
        Ok(Self { loader: Loader::new(program).map_err(failed)?, root: root.to_owned() })
    }

    /// The innermost function of the workspace at an address, inlined or not: it is charged for inlined code of
    /// `core` and other crates. If there is none, the function that the symbol table names.
    ///
    /// # Errors
    /// When the symbols cannot be read.
    pub fn function(&self, address: u64) -> Result<Function, String> {
        let mut frames = self.loader.find_frames(address).map_err(unreadable)?;
        while let Some(frame) = frames.next().map_err(unreadable)? {
            let file = frame.location.and_then(|location| location.file);
            let Some(file) = file.and_then(|file| Path::new(file).strip_prefix(&self.root).ok())
            else {
                continue;
            };
            let name = match &frame.function {
                Some(name) => name.demangle().map_err(unreadable)?.into_owned(),
                None => self.symbol(address),
            };
            let file = Some(file.to_string_lossy().into_owned());
            return Ok(Function { file, name: without_types(name) });
        }
        Ok(Function { file: None, name: self.symbol(address) })
    }

    fn symbol(&self, address: u64) -> String {
        let symbol = self.loader.find_symbol(address).unwrap_or_default();
        addr2line::demangle_auto(symbol.into(), None).into_owned()
    }
}

/// A function's name without its type parameters.
fn without_types(mut name: String) -> String {
    if let Some(types) = name.find('<').filter(|place| *place > 0) {
        name.truncate(types);
    }
    name
}

fn unreadable(error: impl std::fmt::Display) -> String {
    format!("the program's symbols cannot be read: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::root;

    #[inline(never)]
    fn here() -> usize {
        here as *const () as usize
    }

    #[test]
    fn a_function_of_the_workspace_is_found_in_the_program_that_runs() {
        let program = std::env::current_exe().unwrap();
        let symbols = Symbols::of(&program, &root()).unwrap();
        let address = here() as u64 - base() as u64;
        let Function { file, name } = symbols.function(address).unwrap();
        assert_eq!(file.as_deref(), Some("integration/xtask/src/cost/symbols.rs"));
        assert!(name.contains("here"), "{name}");
        assert_eq!(symbols.function(0).unwrap(), Function { file: None, name: String::new() });
    }

    /// Where the program is loaded.
    fn base() -> usize {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        usize::from_str_radix(maps.split('-').next().unwrap(), 16).unwrap()
    }
}
