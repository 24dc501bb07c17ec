// SPDX-License-Identifier: MIT OR Apache-2.0

//! Khronos' validation layer, which says what a program does that Vulkan does not allow.

use anyhow::Context;
use bellhop_guest::output::note;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Debian's package of it.
pub const PACKAGE: &str = "vulkan-validationlayers";
/// Its name.
const NAME: &str = "VK_LAYER_KHRONOS_validation";
/// Its manifest and its library in the package.
const MANIFEST: &str = "usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json";
const LIBRARY: &str = "usr/lib/x86_64-linux-gnu/libVkLayer_khronos_validation.so";
/// What each error begins with in its log.
const ERROR: &str = "Validation Error: [";

/// The layer for one run of a program.
#[derive(Debug)]
pub struct Validation {
    /// Has the manifest, the settings and the log.
    folder: TempDir,
}

impl Validation {
    /// Sets the layer in a folder of unpacked packages up: all checks, that of synchronization among them, and each error as often as
    /// it happens. It remembers no shaders: otherwise it has nothing to say of one that another program may use and this one may not.
    ///
    /// # Errors
    /// When the folder has no layer, or nothing can be written.
    pub fn new(packages: &Path) -> anyhow::Result<Self> {
        let manifest = packages.join(MANIFEST);
        let cannot = || format!("cannot read {}", manifest.display());
        let text = fs::read(&manifest).with_context(cannot)?;
        let mut text: serde_json::Value = serde_json::from_slice(&text).with_context(cannot)?;
        text["layer"]["library_path"] =
            packages.join(LIBRARY).to_str().context("the path of the layer is not UTF-8")?.into();
        let folder = tempfile::tempdir().context("cannot make a folder for the layer's log")?;
        let made = Self { folder };
        let settings = format!(
            "khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG\n\
             khronos_validation.report_flags = error\n\
             khronos_validation.enable_message_limit = false\n\
             khronos_validation.disables = VK_VALIDATION_FEATURE_DISABLE_SHADER_VALIDATION_CACHE_EXT\n\
             khronos_validation.enables = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT\n\
             khronos_validation.log_filename = {}\n",
            made.log().display()
        );
        for (file, text) in [("layer.json", text.to_string()), ("vk_layer_settings.txt", settings)]
        {
            fs::write(made.folder.path().join(file), text).context("cannot set the layer up")?;
        }
        Ok(made)
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Sets the variables with which a program's Vulkan loader loads the layer.
    pub(super) fn name_layer(&self, command: &mut Command) {
        let folder = self.folder.path();
        command.env("VK_LAYER_PATH", folder).env("VK_LAYER_SETTINGS_PATH", folder);
        command.env("VK_INSTANCE_LAYERS", NAME);
    }

    /// Prints what the layer found. Returns the number of errors.
    ///
    /// # Errors
    /// When its log cannot be read.
    pub(super) fn report(&self) -> anyhow::Result<usize> {
        let log = match fs::read_to_string(self.log()) {
            // The program has not used Vulkan.
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            log => log.context("cannot read the validation layer's log")?,
        };
        let errors = count(&log);
        match errors {
            0 => note("the validation layer found no error"),
            1 => note(format_args!("the validation layer found an error:\n{log}")),
            _ => note(format_args!("the validation layer found {errors} errors:\n{log}")),
        }
        Ok(errors)
    }
}

/// The number of errors in a log.
fn count(log: &str) -> usize {
    log.matches(ERROR).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_and_the_lines_about_them_are_not() {
        let log = "VUID-x(ERROR / SPEC): msgNum: 1 - Validation Error: [ VUID-x ] Object 0: ...\n    \
                   Objects: 1\n        [0] 0xe, type: 7, name: NULL\n";
        assert_eq!([count(""), count(log), count(&log.repeat(2))], [0, 1, 2]);
    }

    #[test]
    fn a_program_finds_the_layer_by_its_whole_path() {
        let packages = tempfile::tempdir().unwrap();
        assert!(Validation::new(packages.path()).is_err());
        let manifest = packages.path().join(MANIFEST);
        fs::create_dir_all(manifest.parent().unwrap()).unwrap();
        fs::write(&manifest, r#"{"layer":{"name":"N","library_path":"lib.so"}}"#).unwrap();
        let validation = Validation::new(packages.path()).unwrap();
        let written = fs::read(validation.folder.path().join("layer.json")).unwrap();
        let written: serde_json::Value = serde_json::from_slice(&written).unwrap();
        let library = packages.path().join(LIBRARY);
        assert_eq!(written["layer"]["library_path"], library.to_str().unwrap());
        assert_eq!(written["layer"]["name"], "N");
        assert_eq!(validation.report().unwrap(), 0);
    }
}
