// SPDX-License-Identifier: MIT OR Apache-2.0

//! `bellhop container`.

use super::vulkan::{Whose, loader, sources, validation};
use crate::container::{self, Contents, Options, Payload, Program, Root};
use crate::guest_binary;
use crate::hosted::Outcome;
use crate::vulkan::validation::Validation;
use crate::vulkan::{driver, opengl};
use anyhow::{Context, ensure};
use bellhop_guest::cli::{Carried, Delivery, Output};
use bellhop_guest::output::put_line;
use clap::Args;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The arguments of `bellhop container`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  bellhop container                           the main job, in a container
  bellhop container -- selftest               the conformance suite in a container
  bellhop container --vulkan debian-13 -- kernel my.wgsl --in a --out b
                                              your kernel on files of this machine
  bellhop container --vulkan debian-13 -- picture
                                              a picture that a kernel draws: picture.png
  bellhop container --vulkan debian-13 --vulkan-driver --package vulkan-tools -- vulkaninfo --summary
                                              a program of Debian's with Bellhop's Vulkan driver
  bellhop container --vulkan debian-13 --vulkan-driver --folder venv -- venv/bin/python compute.py
                                              a program of this machine's
  bellhop container --vulkan debian-13 --vulkan-driver --opengl --windows --package glmark2-x11 -- glmark2
                                              a program of Debian's that draws with OpenGL into a window
  bellhop container --vulkan debian-13 --vulkan-driver --validate --folder app -- app/program
                                              what it does that Vulkan does not allow
  bellhop container --memory 64m              a limit on memory, which covers what the guest maps
  bellhop container --image-only              the image, for your own containers
  bellhop container --print-command           the podman command, with the options that this host needs")]
pub struct ContainerArguments {
    /// The most memory that the container may use, such as 512m
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// Use the bellhopd that listens on this socket instead of starting one
    #[arg(long, value_name = "PATH", conflicts_with = "config")]
    socket_path: Option<PathBuf>,
    /// The configuration file for the bellhopd that this starts
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Whose Vulkan runs kernels, in the bellhopd that this starts
    #[arg(long, value_enum, value_name = "WHOSE", default_value_t = Whose::System, conflicts_with = "socket_path")]
    vulkan: Whose,
    /// Put this file into the container's folder /files; may be given several times
    ///
    /// The files of `kernel` and `picture` need none of this: they go into the container, and come back, by themselves.
    #[arg(long, value_name = "PATH")]
    file: Vec<PathBuf>,
    /// The image's program, instead of the one that $BELLHOP_GUEST_BINARY names, or the bellhop-guest that belongs to
    /// this bellhop
    #[arg(long, value_name = "PATH")]
    guest_binary: Option<PathBuf>,
    /// Run a program with Bellhop's Vulkan driver instead of bellhop-guest
    ///
    /// It finds this machine's /usr, and the folders that --folder names, to read from; or what --package or --image says.
    /// It may write to /tmp.
    #[arg(long, conflicts_with_all = ["image_only", "print_command", "guest_binary"])]
    vulkan_driver: bool,
    /// The Vulkan driver, instead of the one that belongs to this bellhop
    #[arg(long, value_name = "FILE", env = "BELLHOP_VULKAN_DRIVER", requires = "vulkan_driver")]
    driver: Option<PathBuf>,
    /// Run a program of this package of Debian 13's, fetched once and not installed; may be given several times
    #[arg(long, value_name = "NAME", requires = "vulkan_driver")]
    package: Vec<String>,
    /// Give the program of the packages OpenGL, too: Mesa's zink, fetched with them, which draws with the Vulkan driver
    #[arg(long, requires = "package")]
    opengl: bool,
    /// Let the program show windows on this machine's X server, which $DISPLAY names
    #[arg(long, requires = "vulkan_driver")]
    windows: bool,
    /// Run a program of this image of podman's, which has a Vulkan loader
    #[arg(long, value_name = "IMAGE", requires = "vulkan_driver", conflicts_with = "package")]
    image: Option<String>,
    /// Give the program this folder, at the same path, to read from; may be given several times
    #[arg(long, value_name = "PATH", requires = "vulkan_driver")]
    folder: Vec<PathBuf>,
    /// Have Khronos' validation layer look at what the program does, and at its synchronization
    ///
    /// It is fetched once and not installed. Its errors are printed at the end; with one, the exit status is at least 1.
    #[arg(long, requires = "vulkan_driver", conflicts_with = "image")]
    validate: bool,
    /// Build the image in your own storage, print its name, and exit
    #[arg(long, conflicts_with_all = ["memory", "socket_path", "config", "vulkan", "file", "task"])]
    image_only: bool,
    /// Print the podman command that runs a container with the device, and exit
    ///
    /// Its device is the one at --socket-path, or the service's at /run/bellhop/gpu.sock.
    #[arg(long, conflicts_with_all = ["image_only", "guest_binary", "config", "vulkan"])]
    print_command: bool,
    /// What bellhop-guest does in the container, or the program with the Vulkan driver
    #[arg(last = true, value_name = "GUEST-COMMAND", default_value = "run")]
    task: Vec<OsString>,
}

impl ContainerArguments {
    /// Runs the command.
    ///
    /// # Errors
    /// When podman fails, or the container does not complete its task.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if self.vulkan_driver {
            return self.run_program();
        }
        let worker = self.vulkan.worker(None)?;
        let Carried { task, files, output } = Carried::new(&self.file, self.task)?;
        let mut options = Options {
            socket: self.socket_path,
            config: self.config,
            worker,
            memory: self.memory,
            payload: Payload::Task(task),
            files,
            output: None,
        };
        if self.print_command {
            let file = output.as_ref().map(|output| {
                output
                    .as_file()
                    .context("podman alone makes no folder of PNGs: ask for --y4m, and not --png")
            });
            put_line(container::command_line(options, file.transpose()?)?)?;
            return Ok(ExitCode::SUCCESS);
        }
        let program = guest_binary::find(self.guest_binary.as_deref())?;
        let output = output.as_ref().map(Output::create).transpose()?;
        options.output = output.as_ref().map(Delivery::handle).transpose()?;
        let outcome = if self.image_only {
            container::make_image(&program)?
        } else {
            container::run(options, Contents::Guest(&program))?
        };
        if let (Some(output), Outcome::Succeeded) = (output, outcome) {
            output.finish()?;
        }
        Ok(outcome.exit_code())
    }

    /// Runs a program with the Vulkan driver.
    fn run_program(self) -> anyhow::Result<ExitCode> {
        ensure!(self.task != ["run"], "name a program after --");
        // The program's files alone, and no words of bellhop-guest's.
        let Carried { files, .. } = Carried::new(&self.file, vec!["run".into()])?;
        let root = match (self.image, &self.package[..]) {
            (Some(image), _) => Root::Image(image),
            (None, []) => Root::ThisMachine,
            (None, packages) => {
                let mut packages = packages.to_vec();
                if self.opengl {
                    packages = opengl::with_packages(&packages);
                }
                Root::Packages(bellhop_vm::fetch_programs(&packages, &sources(None))?.root())
            }
        };
        // Images and packages that run programs with Vulkan have a loader.
        let contents = root.contents();
        let loader = if root == Root::ThisMachine { loader(self.vulkan)? } else { None };
        let validation = self.validate.then(validation).transpose()?;
        let of_layer = validation.iter().flat_map(Validation::folders);
        let of_windows = self.windows.then_some(Path::new(WINDOWS));
        let own = self.folder.iter().map(PathBuf::as_path);
        let folders = own.chain(of_layer).chain(of_windows).map(|folder| {
            let path = std::path::absolute(folder);
            path.with_context(|| format!("cannot find {}", folder.display()))
        });
        let mut variables: Vec<_> =
            validation.iter().flat_map(Validation::variables).map(owned).collect();
        if self.opengl {
            // To the program, the packages are everything.
            variables.extend(opengl::variables(Path::new("/")));
        }
        if self.windows {
            let display = std::env::var_os("DISPLAY");
            variables.push(("DISPLAY", display.context("$DISPLAY names no X server")?));
        }
        let of_manifest = tempfile::tempdir().context("cannot make a folder for a manifest")?;
        let program = Program {
            root,
            driver: driver::find(self.driver.as_deref())?,
            manifest: Program::write_manifest(of_manifest.path())?,
            loader,
            folders: folders.collect::<anyhow::Result<_>>()?,
            variables,
            words: absolute_program(self.task)?,
        };
        let options = Options {
            socket: self.socket_path,
            config: self.config,
            worker: self.vulkan.worker(None)?,
            memory: self.memory,
            payload: Payload::Program(program),
            files,
            output: None,
        };
        let outcome = container::run(options, contents)?;
        let judged = validation.map_or(Ok(outcome), |validation| validation.judge(outcome))?;
        Ok(judged.exit_code())
    }
}

/// Where X servers listen.
const WINDOWS: &str = "/tmp/.X11-unix";

fn owned((name, value): (&'static str, &Path)) -> (&'static str, OsString) {
    (name, value.into())
}

/// The words of a command line whose program has its whole path, unless it is a name to search for.
fn absolute_program(mut words: Vec<OsString>) -> anyhow::Result<Vec<OsString>> {
    if let Some(program) = words.first_mut()
        && Path::new(program).components().count() > 1
    {
        let path = std::path::absolute(&program);
        *program = path.with_context(|| format!("cannot find {}", program.display()))?.into();
    }
    Ok(words)
}
