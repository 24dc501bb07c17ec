// SPDX-License-Identifier: MIT OR Apache-2.0

//! A guest's task whose files are the host's: a VM or a container has none of them.
//!
//! The task's own command line says which files it reads. They are carried into the guest, and named there. A task writes
//! at most one file, which leaves the guest as its standard output: so a guest can write no file but what was asked for.
//! The pictures of a video leave it as one file, too, which becomes a folder of them here.

use super::delivery::Output;
use super::video::{DecodeArguments, VideoJob};
use super::{
    AttestArguments, Cli, Command, KernelArguments, LinkArguments, OpenArguments, PictureArguments,
    SealArguments, VideoArguments, Work,
};
use clap::Parser;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The folder in guests with files of the host's.
pub const FOLDER: &str = "/files";
/// What stands for standard output in place of a file.
const STANDARD_OUTPUT: &str = "-";

/// A file that is carried into a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CarriedFile {
    /// The file here.
    pub path: PathBuf,
    /// Its name in [`FOLDER`].
    pub name: OsString,
}

impl CarriedFile {
    /// Its path in the guest.
    #[must_use]
    pub fn in_guest(&self) -> PathBuf {
        Path::new(FOLDER).join(&self.name)
    }
}

/// A task, with what goes into the guest and comes out of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Carried {
    /// The arguments of `bellhop-guest`, in which files are named as in the guest.
    pub task: Vec<OsString>,
    /// The files that are to be in the guest.
    pub files: Vec<CarriedFile>,
    /// What the guest's standard output makes.
    pub output: Option<Output>,
}

impl Carried {
    /// A task, in whose guest these files are to be besides those that it names.
    ///
    /// # Errors
    /// When two of the files have the same name, or one has none, or the task makes more than leaves a guest.
    pub fn new(files: &[PathBuf], task: Vec<OsString>) -> anyhow::Result<Self> {
        let mut carried = Self::default();
        for path in files {
            let name = path.file_name();
            let name = name.ok_or_else(|| anyhow::anyhow!("{} is no file", path.display()))?;
            let is_there = carried.files.iter().any(|file| file.name == name);
            anyhow::ensure!(!is_there, "two files are called {}", Path::new(name).display());
            carried.files.push(CarriedFile { path: path.clone(), name: name.to_owned() });
        }
        carried.task = carried.adapted(&task)?.unwrap_or(task);
        Ok(carried)
    }

    /// The task for a guest that has the files which it names. `None` if it names none, or cannot be understood: the
    /// guest then says what is wrong with it.
    ///
    /// # Errors
    /// When the task makes more than leaves a guest.
    fn adapted(&mut self, task: &[OsString]) -> anyhow::Result<Option<Vec<OsString>>> {
        let name = OsStr::new("bellhop-guest");
        let words = std::iter::once(name).chain(task.iter().map(AsRef::as_ref));
        let Ok(cli) = Cli::try_parse_from(words) else { return Ok(None) };
        let Command::Work(work) = cli.command else { return Ok(None) };
        let (command, line) = match work {
            Work::Kernel(arguments) => ("kernel", self.kernel(arguments).to_command_line()),
            Work::Picture(arguments) => ("picture", self.picture(arguments).to_command_line()),
            Work::Video(arguments) => ("video", self.video(arguments)?.to_command_line()),
            Work::Link(arguments) => ("link", self.link(arguments).to_command_line()),
            Work::Seal(arguments) => ("seal", self.seal(arguments).to_command_line()),
            Work::Open(arguments) => ("open", self.open(arguments).to_command_line()),
            Work::Attest(arguments) => ("attest", self.attest(arguments).to_command_line()),
            _ => return Ok(None),
        };
        // Options of the device come first.
        let place = task.iter().position(|word| word == command);
        Ok(place.map(|place| [&task[..place], &line].concat()))
    }

    fn kernel(&mut self, mut arguments: KernelArguments) -> KernelArguments {
        for path in std::iter::once(&mut arguments.kernel).chain(&mut arguments.inputs) {
            *path = self.carry(path);
        }
        if let Some(output) = &mut arguments.output {
            self.take_output(output);
        }
        arguments
    }

    fn picture(&mut self, mut arguments: PictureArguments) -> PictureArguments {
        self.take_output(&mut arguments.output);
        arguments
    }

    fn video(&mut self, mut arguments: VideoArguments) -> anyhow::Result<VideoArguments> {
        match &mut arguments.job {
            VideoJob::Decode(DecodeArguments { file, png, y4m, .. }) => {
                *file = self.carry(file);
                if let Some(folder) = png.take() {
                    let all = y4m.replace(STANDARD_OUTPUT.into());
                    anyhow::ensure!(
                        all.as_deref() != Some(Path::new(STANDARD_OUTPUT)),
                        "a guest in a VM or a container writes its pictures once: with --png, name a file for --y4m"
                    );
                    self.output = Some(Output::Stills { folder, file: all });
                } else if let Some(y4m) = y4m {
                    self.take_output(y4m);
                }
            }
            VideoJob::Encode(encode) => {
                encode.file = self.carry(&encode.file);
                self.take_output(&mut encode.output);
            }
        }
        Ok(arguments)
    }

    fn link(&mut self, mut arguments: LinkArguments) -> LinkArguments {
        if let Some(output) = arguments.file() {
            self.take_output(output);
        }
        arguments
    }

    fn seal(&mut self, mut arguments: SealArguments) -> SealArguments {
        arguments.input = self.carry(&arguments.input);
        self.take_output(&mut arguments.output);
        arguments
    }

    fn open(&mut self, mut arguments: OpenArguments) -> OpenArguments {
        arguments.input = self.carry(&arguments.input);
        if let Some(output) = &mut arguments.output {
            self.take_output(output);
        }
        arguments
    }

    fn attest(&mut self, mut arguments: AttestArguments) -> AttestArguments {
        if let Some(statement) = &mut arguments.verify {
            *statement = self.carry(statement);
        }
        if let Some(output) = &mut arguments.output {
            self.take_output(output);
        }
        arguments
    }

    /// Carries a file, and returns its path in the guest.
    fn carry(&mut self, path: &Path) -> PathBuf {
        if let Some(known) = self.files.iter().find(|file| file.path == path) {
            return known.in_guest();
        }
        let mut name = path.file_name().unwrap_or_default().to_owned();
        // Before the name: its end says what the file is.
        while self.files.iter().any(|file| file.name == name) {
            name = [OsStr::new("other-"), &name].into_iter().collect();
        }
        let file = CarriedFile { path: path.to_owned(), name };
        let in_guest = file.in_guest();
        self.files.push(file);
        in_guest
    }

    fn take_output(&mut self, path: &mut PathBuf) {
        if path != Path::new(STANDARD_OUTPUT) {
            self.output = Some(Output::File(std::mem::replace(path, STANDARD_OUTPUT.into())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn carried(files: &[&str], task: &[&str]) -> Carried {
        let files: Vec<_> = files.iter().map(PathBuf::from).collect();
        Carried::new(&files, task.iter().map(OsString::from).collect()).unwrap()
    }

    /// The file that a task makes, and nothing else.
    fn file(carried: &Carried) -> Option<&str> {
        let file = carried.output.as_ref().map(|output| output.as_file().unwrap());
        file.map(|path| path.to_str().unwrap())
    }

    fn names(carried: &Carried) -> Vec<(&str, &str)> {
        let files = carried.files.iter();
        files.map(|file| (file.path.to_str().unwrap(), file.name.to_str().unwrap())).collect()
    }

    #[test]
    fn a_kernel_s_files_go_into_the_guest_and_its_output_comes_back() {
        let task =
            ["--placement", "bar", "kernel", "a/k.wgsl", "--in", "a/x", "--in=b/x", "--in", "a/x"];
        let carried = carried(&[], &[&task[..], &["--out", "y", "--push", "u32:7"]].concat());
        assert_eq!(names(&carried), [("a/k.wgsl", "k.wgsl"), ("a/x", "x"), ("b/x", "other-x")]);
        assert_eq!(file(&carried), Some("y"));
        let line = [
            "--placement",
            "bar",
            "kernel",
            "--in=/files/x",
            "--in=/files/other-x",
            "--in=/files/x",
        ];
        let rest = ["--out=-", "--groups=1,1,1", "--push=u32:7", "--", "/files/k.wgsl"];
        assert_eq!(carried.task, [&line[..], &rest].concat());
    }

    #[test]
    fn a_picture_comes_back_unless_it_is_standard_output_already() {
        let by_default = carried(&[], &["picture"]);
        assert_eq!(file(&by_default), Some("picture.png"));
        assert!(by_default.task.contains(&"--out=-".into()), "{:?}", by_default.task);
        assert_eq!(carried(&[], &["picture", "--out", "-"]).output, None);
    }

    #[test]
    fn a_video_goes_into_the_guest_and_its_pictures_come_back() {
        let decoded = carried(&[], &["video", "decode", "a/v.ivf", "--y4m", "out.y4m", "--json"]);
        assert_eq!(names(&decoded), [("a/v.ivf", "v.ivf")]);
        assert_eq!(file(&decoded), Some("out.y4m"));
        let line = ["video", "decode", "--y4m=-", "--json", "--", "/files/v.ivf"];
        assert_eq!(decoded.task, line);
        let encoded = carried(&[], &["video", "encode", "p.y4m", "v.ivf"]);
        assert_eq!(file(&encoded), Some("v.ivf"));
    }

    #[test]
    fn the_pictures_of_a_video_leave_the_guest_as_one_file_and_become_a_folder() {
        let task = ["video", "decode", "v.ivf", "--png", "dir", "--y4m"];
        let decoded = carried(&[], &task[..5]);
        assert_eq!(decoded.task, ["video", "decode", "--y4m=-", "--", "/files/v.ivf"]);
        let folder = PathBuf::from("dir");
        assert_eq!(decoded.output, Some(Output::Stills { folder: folder.clone(), file: None }));
        let both = carried(&[], &[&task[..], &["all"]].concat());
        assert_eq!(both.task, decoded.task);
        assert_eq!(both.output, Some(Output::Stills { folder, file: Some("all".into()) }));
        let twice = [&task[..], &["-"]].concat().into_iter().map(OsString::from).collect();
        let error = Carried::new(&[], twice).unwrap_err().to_string();
        assert!(error.contains("name a file for --y4m"), "{error}");
    }

    #[test]
    fn the_frames_of_a_chain_come_back() {
        for option in ["--apng", "--png"] {
            let drawn = carried(&[], &["link", "frames", option, "out"]);
            assert_eq!(file(&drawn), Some("out"));
            assert!(drawn.task.contains(&format!("{option}=-").into()), "{:?}", drawn.task);
        }
        assert_eq!(carried(&[], &["link", "frames"]).output, None);
    }

    #[test]
    fn files_of_secrets_go_into_the_guest_and_come_back() {
        let sealed = carried(&[], &["seal", "--protect", "a/x", "b/y"]);
        assert_eq!(names(&sealed), [("a/x", "x")]);
        assert_eq!(file(&sealed), Some("b/y"));
        assert_eq!(sealed.task, ["seal", "--protect", "--", "/files/x", "-"]);
        assert_eq!(carried(&[], &["open", "a/x"]).task, ["open", "--", "/files/x"]);
        let statement = carried(&[], &["attest", "--nonce", &"0a".repeat(32), "--out", "s"]);
        assert_eq!(file(&statement), Some("s"));
        assert_eq!(statement.task[2], "--out=-");
    }

    #[test]
    fn other_tasks_and_those_that_are_wrong_stay_as_they_are() {
        for task in
            [&["run", "--input", "kernel"][..], &["kernel"], &["kernel", "k", "--groups", "x"], &[]]
        {
            let carried = carried(&["dir/data"], task);
            assert_eq!(carried.task, task);
            assert_eq!(names(&carried), [("dir/data", "data")]);
            assert_eq!(carried.output, None);
        }
    }

    #[test]
    fn a_file_that_the_task_names_too_is_carried_once_and_two_of_one_name_are_refused() {
        let carried = carried(&["a/x"], &["kernel", "a/x"]);
        assert_eq!(names(&carried), [("a/x", "x")]);
        let error = Carried::new(&["a/x".into(), "b/x".into()], Vec::new()).unwrap_err();
        assert!(error.to_string().contains("two files are called x"), "{error}");
        assert!(Carried::new(&["..".into()], Vec::new()).is_err());
    }
}
