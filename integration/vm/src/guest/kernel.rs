// SPDX-License-Identifier: MIT OR Apache-2.0

//! A guest's kernel: its image, and the modules that give user space a PCI device.

use super::bz_image;
use anyhow::{Context, bail, ensure};
use object::{Object, ObjectSection};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Modules for `bellhop-guest`: VFIO in a VM with an IOMMU, UIO in one without.
pub const GUEST_MODULES: &[&str] = &["uio_pci_generic", "vfio_iommu_type1", "vfio-pci"];
/// Modules for a VM that runs VMs on the processor that QEMU emulates.
pub const HOST_MODULES: &[&str] = &["kvm-amd"];

/// The image's file: one that starts as it is, and one that decompresses itself first.
const UNCOMPRESSED: &str = "vmlinux";
const COMPRESSED: &str = "vmlinuz";

/// A kernel in the cache.
#[derive(Debug)]
pub struct Kernel {
    /// The image that the VMM boots.
    pub image: PathBuf,
    /// The modules, uncompressed, in the order in which they can be loaded.
    pub modules: Vec<PathBuf>,
}

impl Kernel {
    /// Takes a kernel with some modules out of Debian's unpacked kernel packages.
    ///
    /// # Errors
    /// When they lack a file, or `into` cannot be written.
    pub fn extract(packages: &Path, wanted: &[&str], into: &Path) -> anyhow::Result<()> {
        let folder = only_folder(&packages.join("usr/lib/modules"))?;
        let image = image(packages, &folder)?;
        let stored = fs::read(&image);
        let stored = stored.with_context(|| format!("cannot read {}", image.display()))?;
        match bz_image::kernel(&stored)? {
            Some(kernel) => fs::write(into.join(UNCOMPRESSED), kernel),
            None => fs::write(into.join(COMPRESSED), stored),
        }
        .context("cannot copy the kernel")?;
        let modules = into.join("modules");
        fs::create_dir(&modules).context("cannot create a folder")?;
        let tree = Tree::read(&folder)?;
        for (number, (name, module)) in tree.load_order(wanted)?.into_iter().enumerate() {
            fs::write(modules.join(format!("{number:02}-{name}.ko")), module)
                .context("cannot write a kernel module")?;
        }
        Ok(())
    }

    /// The kernel that [`Self::extract`] wrote into a folder.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn open(folder: &Path) -> anyhow::Result<Self> {
        let mut modules = files(&folder.join("modules"))?;
        modules.sort();
        let images = [UNCOMPRESSED, COMPRESSED].map(|name| folder.join(name));
        let image = images.into_iter().find(|image| image.is_file());
        let image = image.with_context(|| format!("there is no kernel in {}", folder.display()))?;
        Ok(Self { image, modules })
    }
}

/// The image in a package: in `/boot`, or since Linux 7 beside the modules.
fn image(packages: &Path, modules: &Path) -> anyhow::Result<PathBuf> {
    let beside = modules.join("vmlinuz");
    if beside.is_file() {
        return Ok(beside);
    }
    let is_image = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"vmlinuz-"))
    };
    files(&packages.join("boot"))?
        .into_iter()
        .find(is_image)
        .context("Debian's kernel packages hold no kernel where this bellhop looks for it")
}

/// A kernel's modules by name.
struct Tree {
    files: BTreeMap<String, PathBuf>,
    /// Names of modules that are built in.
    built_in: BTreeSet<String>,
}

impl Tree {
    fn read(folder: &Path) -> anyhow::Result<Self> {
        let mut tree = Self { files: BTreeMap::new(), built_in: BTreeSet::new() };
        let mut folders = vec![folder.join("kernel")];
        while let Some(folder) = folders.pop() {
            for path in files(&folder)? {
                match (path.is_dir(), module_name(&path)) {
                    (true, _) => folders.push(path),
                    (false, Some(name)) => drop(tree.files.insert(name, path)),
                    (false, None) => {}
                }
            }
        }
        let path = folder.join("modules.builtin");
        let built_in =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        tree.built_in = built_in.lines().filter_map(|line| module_name(Path::new(line))).collect();
        Ok(tree)
    }

    /// Modules with all their dependencies, in the order of loading.
    fn load_order(&self, wanted: &[&str]) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
        let mut order = Vec::new();
        for name in wanted {
            self.load(&canonical(name), &mut Vec::new(), &mut order)?;
        }
        Ok(order)
    }

    fn load(
        &self,
        name: &str,
        waiting: &mut Vec<String>,
        order: &mut Vec<(String, Vec<u8>)>,
    ) -> anyhow::Result<()> {
        if self.built_in.contains(name) || order.iter().any(|(loaded, _)| loaded == name) {
            return Ok(());
        }
        ensure!(
            !waiting.iter().any(|other| other == name),
            "kernel module {name} depends on itself"
        );
        let path = self.files.get(name).with_context(|| {
            format!("the guest's kernel has no module {name}; choose another with --variant")
        })?;
        let module = decompress(path)?;
        waiting.push(name.to_owned());
        for dependency in dependencies(&module)
            .with_context(|| format!("{} is not a kernel module", path.display()))?
        {
            self.load(&dependency, waiting, order)?;
        }
        waiting.pop();
        order.push((name.to_owned(), module));
        Ok(())
    }
}

/// The modules that a module declares as dependencies. Packages come without `modules.dep`, which is made at
/// installation.
fn dependencies(module: &[u8]) -> anyhow::Result<Vec<String>> {
    let file = object::File::parse(module)?;
    let section = file.section_by_name(".modinfo").context("it has no .modinfo")?;
    let entries = section.data()?.split(|&byte| byte == 0);
    let depends = entries.filter_map(|entry| entry.strip_prefix(b"depends="));
    let names = depends.flat_map(|names| names.split(|&byte| byte == b','));
    Ok(names
        .filter(|name| !name.is_empty())
        .map(|name| canonical(&String::from_utf8_lossy(name)))
        .collect())
}

fn decompress(path: &Path) -> anyhow::Result<Vec<u8>> {
    let stored = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let kind = path.extension().unwrap_or_default();
    if kind == "ko" {
        return Ok(stored);
    }
    if kind != "xz" {
        bail!("{} is compressed in a way that bellhop cannot read", path.display());
    }
    let mut module = Vec::new();
    lzma_rust2::XzReader::new(stored.as_slice(), true)
        .read_to_end(&mut module)
        .with_context(|| format!("cannot decompress {}", path.display()))?;
    Ok(module)
}

/// The module's name in a file name such as `vfio-pci.ko.xz`.
fn module_name(path: &Path) -> Option<String> {
    let (name, _) = path.file_name()?.to_str()?.split_once(".ko")?;
    Some(canonical(name))
}

/// A name with the kernel's underscores, for which file names may have dashes.
fn canonical(name: &str) -> String {
    name.replace('-', "_")
}

fn only_folder(folder: &Path) -> anyhow::Result<PathBuf> {
    match files(folder)?.as_slice() {
        [only] => Ok(only.clone()),
        others => bail!("{} holds {} kernels, not one", folder.display(), others.len()),
    }
}

fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let cannot = || format!("cannot list {}", folder.display());
    let entries = fs::read_dir(folder).with_context(cannot)?;
    entries.map(|entry| Ok(entry.with_context(cannot)?.path())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::write::Object as Writer;
    use object::{Architecture, BinaryFormat, Endianness, SectionKind};

    fn module(information: &str) -> Vec<u8> {
        let mut file = Writer::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
        let section = file.add_section(Vec::new(), b".modinfo".to_vec(), SectionKind::ReadOnlyData);
        file.set_section_data(section, information.as_bytes().to_vec(), 1);
        file.write().unwrap()
    }

    /// A tree of modules and their dependencies; a module with `None` is built in.
    fn tree(folder: &Path, modules: &[(&str, Option<&str>)]) -> Tree {
        let drivers = folder.join("kernel/drivers");
        fs::create_dir_all(&drivers).unwrap();
        let mut built_in = String::new();
        for (name, depends) in modules {
            match depends {
                Some(depends) => {
                    let information = format!("license=GPL\0depends={depends}\0name=x\0");
                    fs::write(drivers.join(format!("{name}.ko")), module(&information)).unwrap();
                }
                None => built_in += &format!("kernel/drivers/{name}.ko\n"),
            }
        }
        fs::write(folder.join("modules.builtin"), built_in).unwrap();
        Tree::read(folder).unwrap()
    }

    fn order(tree: &Tree, wanted: &[&str]) -> anyhow::Result<Vec<String>> {
        Ok(tree.load_order(wanted)?.into_iter().map(|(name, _)| name).collect())
    }

    #[test]
    fn modules_come_after_what_they_need_and_once() {
        let folder = tempfile::tempdir().unwrap();
        let modules = [
            ("vfio-pci", Some("vfio-pci-core,vfio")),
            ("vfio-pci-core", Some("vfio,irqbypass")),
            ("vfio", Some("")),
            ("irqbypass", None),
            ("other", Some("")),
        ];
        let tree = tree(folder.path(), &modules);
        let loaded = order(&tree, &["vfio-pci", "vfio", "irqbypass"]).unwrap();
        assert_eq!(loaded, ["vfio", "vfio_pci_core", "vfio_pci"]);
    }

    #[test]
    fn a_kernel_without_a_module_is_refused_by_the_name_of_the_module() {
        let folder = tempfile::tempdir().unwrap();
        let tree = tree(folder.path(), &[("a", Some("b"))]);
        let error = order(&tree, &["a"]).unwrap_err().to_string();
        assert!(error.contains("no module b"), "{error}");
    }

    #[test]
    fn modules_that_need_each_other_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let tree = tree(folder.path(), &[("a", Some("b")), ("b", Some("a"))]);
        assert!(order(&tree, &["a"]).unwrap_err().to_string().contains("depends on itself"));
    }

    #[test]
    fn an_image_that_starts_as_it_is_comes_before_one_that_decompresses_itself() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("modules")).unwrap();
        assert!(Kernel::open(folder.path()).is_err());
        for name in [COMPRESSED, UNCOMPRESSED] {
            fs::write(folder.path().join(name), "").unwrap();
            assert_eq!(Kernel::open(folder.path()).unwrap().image, folder.path().join(name));
        }
    }

    #[test]
    fn the_image_is_found_where_old_and_new_packages_have_it() {
        let folder = tempfile::tempdir().unwrap();
        let modules = folder.path().join("modules");
        let boot = folder.path().join("boot");
        fs::create_dir(&modules).unwrap();
        fs::create_dir(&boot).unwrap();
        fs::write(boot.join("config-6"), "").unwrap();
        assert!(image(folder.path(), &modules).is_err());
        fs::write(boot.join("vmlinuz-6"), "").unwrap();
        assert_eq!(image(folder.path(), &modules).unwrap(), boot.join("vmlinuz-6"));
        fs::write(modules.join("vmlinuz"), "").unwrap();
        assert_eq!(image(folder.path(), &modules).unwrap(), modules.join("vmlinuz"));
    }
}
