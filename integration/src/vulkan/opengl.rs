// SPDX-License-Identifier: MIT OR Apache-2.0

//! OpenGL for a program of Debian's: Mesa's zink, which draws with Vulkan.

use std::ffi::OsString;
use std::path::Path;

/// Debian's packages of Mesa's OpenGL, OpenGL ES, GLX and EGL, with all libraries that a program may load by itself.
pub const PACKAGES: [&str; 7] = [
    "libgl1-mesa-dri",
    "libglx-mesa0",
    "libegl-mesa0",
    "libgl1",
    "libegl1",
    "libgles2",
    "libvulkan1",
];
/// Where packages have what Mesa loads, and what tells the loader of EGL about Mesa.
const DRIVERS: &str = "usr/lib/x86_64-linux-gnu/dri";
const VENDORS: &str = "usr/share/glvnd/egl_vendor.d";

/// The packages of a program, and those of OpenGL.
#[must_use]
pub fn with_packages(packages: &[String]) -> Vec<String> {
    let own = PACKAGES.iter().map(|package| (*package).to_owned());
    let mut all: Vec<_> = packages.iter().cloned().chain(own).collect();
    all.sort();
    all.dedup();
    all
}

/// The variables with which OpenGL is zink's, of packages that the program finds in this folder.
#[must_use]
pub fn variables(root: &Path) -> [(&'static str, OsString); 4] {
    [
        ("MESA_LOADER_DRIVER_OVERRIDE", "zink".into()),
        // An X server need not know of buffers of GPUs (DRI3): the driver shows images in windows itself.
        ("LIBGL_KOPPER_DRI2", "1".into()),
        ("LIBGL_DRIVERS_PATH", root.join(DRIVERS).into()),
        ("__EGL_VENDOR_LIBRARY_DIRS", root.join(VENDORS).into()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_named_once_whoever_asks_for_it() {
        let packages = with_packages(&["mesa-utils".into(), "libegl1".into()]);
        assert_eq!(packages.len(), PACKAGES.len() + 1);
        assert_eq!(packages.last().unwrap(), "mesa-utils");
    }

    #[test]
    fn mesa_is_found_where_the_packages_are() {
        let [driver, _, drivers, vendors] = variables(Path::new("/packages"));
        assert_eq!(driver, ("MESA_LOADER_DRIVER_OVERRIDE", "zink".into()));
        assert_eq!(drivers.1, "/packages/usr/lib/x86_64-linux-gnu/dri");
        assert_eq!(vendors.1, "/packages/usr/share/glvnd/egl_vendor.d");
    }
}
