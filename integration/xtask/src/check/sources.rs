// SPDX-License-Identifier: MIT OR Apache-2.0

//! The product's sources, without tests, for checks that read them.

use std::fs;
use std::path::{Path, PathBuf};

/// The product's sources: all Rust files in a folder `src`, except modules of tests. Each with its path from the root.
///
/// # Errors
/// When one cannot be read, or is not Rust.
pub fn sources(root: &Path) -> Result<Vec<(String, String)>, String> {
    let mut paths = Vec::new();
    list(root, root, &mut paths)?;
    let mut sources = Vec::new();
    let mut tests = Vec::new();
    for path in paths {
        let source = read(&root.join(&path))?;
        let file = path.to_string_lossy().into_owned();
        tests.extend(test_modules(&path, &parse(&file, &source)?));
        sources.push((file, source));
    }
    sources.retain(|(file, _)| {
        let file = Path::new(file);
        !tests.iter().any(|module| file.starts_with(module) || file == module.with_extension("rs"))
    });
    Ok(sources)
}

/// Adds a folder's Rust files that are below a `src`.
fn list(root: &Path, folder: &Path, paths: &mut Vec<PathBuf>) -> Result<(), String> {
    let failed = |error| format!("cannot list {}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let Ok(inner) = path.strip_prefix(root) else { continue };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                list(root, &path, paths)?;
            }
        } else if name.ends_with(".rs") && inner.iter().any(|part| part == "src") {
            paths.push(inner.to_owned());
        }
    }
    paths.sort();
    Ok(())
}

/// Paths, without an ending, of a file's modules that are compiled for tests only.
fn test_modules(path: &Path, file: &syn::File) -> Vec<PathBuf> {
    let folder = match path.file_stem() {
        Some(stem) if stem != "mod" && stem != "lib" && stem != "main" => path.with_extension(""),
        _ => path.parent().unwrap_or(path).to_owned(),
    };
    let modules = file.items.iter().filter_map(|item| match item {
        syn::Item::Mod(module) if module.content.is_none() && is_test(&module.attrs) => {
            Some(folder.join(module.ident.to_string()))
        }
        _ => None,
    });
    modules.collect()
}

/// Reads a file.
///
/// # Errors
/// When it cannot be read.
pub fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// A source text's items.
///
/// # Errors
/// When the text is not Rust.
pub fn parse(file: &str, source: &str) -> Result<syn::File, String> {
    syn::parse_file(source).map_err(|error| format!("{file}: {error}"))
}

/// Whether an item is compiled for tests only.
pub fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_of_tests_in_files_of_their_own_are_left_out() {
        let file = parse("a.rs", "#[cfg(test)]\nmod tests;\nmod product;").unwrap();
        assert_eq!(test_modules(Path::new("x/src/a.rs"), &file), [Path::new("x/src/a/tests")]);
        assert_eq!(test_modules(Path::new("x/src/a/mod.rs"), &file), [Path::new("x/src/a/tests")]);
    }
}
