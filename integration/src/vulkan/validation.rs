// SPDX-License-Identifier: MIT OR Apache-2.0

//! Khronos' validation layer, which says what a program does that Vulkan does not allow.

use super::log::Log;
use crate::hosted::Outcome;
use anyhow::Context;
use bellhop_guest::output::note;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
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
    /// Only this user may enter it.
    _own: TempDir,
    /// Has the manifest, the settings and the log, in `own`.
    folder: PathBuf,
    /// The folder of unpacked packages with the layer.
    packages: PathBuf,
    log: Log,
}

/// What the layer says of itself, and not of the program: where a thread waits for a value that another has yet to submit, and the wait
/// ends before that submission has returned, it loses count.
const OF_ITSELF: &str = "UNASSIGNED-VkSemaphore-state-timeout";

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
        let own = tempfile::tempdir().context("cannot make a folder for the layer")?;
        let folder = own.path().join("layer");
        let log = folder.join("log");
        let settings = format!(
            "khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG\n\
             khronos_validation.report_flags = error\n\
             khronos_validation.enable_message_limit = false\n\
             khronos_validation.message_id_filter = {OF_ITSELF}\n\
             khronos_validation.disables = VK_VALIDATION_FEATURE_DISABLE_SHADER_VALIDATION_CACHE_EXT\n\
             khronos_validation.enables = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT\n\
             khronos_validation.log_filename = {}\n",
            log.display()
        );
        let write = |name: &str, mode: u32, text: &str| {
            let path = folder.join(name);
            fs::write(&path, text)?;
            fs::set_permissions(&path, Permissions::from_mode(mode))
        };
        let written = fs::create_dir(&folder)
            .and_then(|()| fs::set_permissions(&folder, Permissions::from_mode(0o755)))
            .and_then(|()| write("layer.json", 0o644, &text.to_string()))
            .and_then(|()| write("vk_layer_settings.txt", 0o644, &settings));
        written.context("cannot set the layer up")?;
        let log = Log::new(&log)?;
        Ok(Self { _own: own, folder, packages: packages.to_owned(), log })
    }

    /// The variables with which a program's Vulkan loader loads the layer.
    pub fn variables(&self) -> [(&'static str, &Path); 3] {
        [
            ("VK_LAYER_PATH", &self.folder),
            ("VK_LAYER_SETTINGS_PATH", &self.folder),
            ("VK_INSTANCE_LAYERS", Path::new(NAME)),
        ]
    }

    /// The folders that the program finds the layer in, for any user to read. The layer's log is in one: a pipe, which whoever
    /// may only read from the folder writes to all the same.
    pub fn folders(&self) -> [&Path; 2] {
        [&self.folder, &self.packages]
    }

    /// Prints what the layer found in a program that has ended like this. A program with an error has failed.
    ///
    /// # Errors
    /// When its log cannot be read.
    pub fn judge(self, outcome: Outcome) -> anyhow::Result<Outcome> {
        let log = self.log.end().context("cannot read the validation layer's log")?;
        let errors = count(&log);
        match errors {
            0 => note("the validation layer found no error"),
            1 => note(format_args!("the validation layer found an error:\n{log}")),
            _ => note(format_args!("the validation layer found {errors} errors:\n{log}")),
        }
        let failed = errors > 0 && outcome == Outcome::Succeeded;
        Ok(if failed { Outcome::Failed(1) } else { outcome })
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

    /// A layer that a folder of packages has.
    fn layer(packages: &Path) -> Validation {
        assert!(Validation::new(packages).is_err());
        let manifest = packages.join(MANIFEST);
        fs::create_dir_all(manifest.parent().unwrap()).unwrap();
        fs::write(&manifest, r#"{"layer":{"name":"N","library_path":"lib.so"}}"#).unwrap();
        Validation::new(packages).unwrap()
    }

    #[test]
    fn a_program_of_any_user_finds_the_layer_by_its_whole_path() {
        let packages = tempfile::tempdir().unwrap();
        let validation = layer(packages.path());
        let [(_, folder), ..] = validation.variables();
        assert_eq!(validation.folders(), [folder, packages.path()]);
        assert_eq!(fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o755);
        let written = fs::read(folder.join("layer.json")).unwrap();
        let written: serde_json::Value = serde_json::from_slice(&written).unwrap();
        let library = packages.path().join(LIBRARY);
        assert_eq!(written["layer"]["library_path"], library.to_str().unwrap());
        assert_eq!(written["layer"]["name"], "N");
    }

    #[test]
    fn a_program_with_an_error_has_failed_and_one_without_ended_as_it_did() {
        let packages = tempfile::tempdir().unwrap();
        let judged = |log: &str, outcome| {
            let validation = layer(packages.path());
            fs::write(validation.folder.join("log"), log).unwrap();
            fs::remove_file(packages.path().join(MANIFEST)).unwrap();
            validation.judge(outcome).unwrap()
        };
        let error = format!("{ERROR} VUID-x ]\n");
        assert_eq!(judged("", Outcome::Succeeded), Outcome::Succeeded);
        assert_eq!(judged(&error, Outcome::Succeeded), Outcome::Failed(1));
        assert_eq!(judged(&error, Outcome::Failed(7)), Outcome::Failed(7));
    }
}
