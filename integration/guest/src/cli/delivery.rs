// SPDX-License-Identifier: MIT OR Apache-2.0

//! What becomes of the one file that leaves a guest in a VM or a container.

use crate::files::NewFile;
use crate::video::Stills;
use anyhow::Context;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};

/// What is made of a guest's standard output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// This file.
    File(PathBuf),
    /// A PNG for each picture of it, which is YUV4MPEG2.
    Stills {
        /// Their folder.
        folder: PathBuf,
        /// The file that has all of it, too.
        file: Option<PathBuf>,
    },
}

impl Output {
    /// Begins what is made, so that an unwritable path fails before there is content.
    ///
    /// # Errors
    /// When a file or folder cannot be made.
    pub fn create(&self) -> anyhow::Result<Delivery> {
        Ok(match self {
            Self::File(path) => Delivery::File(NewFile::create(path)?),
            Self::Stills { folder, file } => Delivery::Stills {
                stills: Stills::create(folder)?,
                file: file.as_deref().map(NewFile::create).transpose()?,
                pictures: tempfile::tempfile().context("cannot make a temporary file")?,
            },
        })
    }

    /// The file, where it is all that is made.
    #[must_use]
    pub fn as_file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Stills { .. } => None,
        }
    }
}

/// What is being made of a guest's standard output. Only what is finished appears.
#[derive(Debug)]
pub enum Delivery {
    /// A file.
    File(NewFile),
    /// Stills.
    Stills {
        /// Their folder.
        stills: Stills,
        /// The file that has all of it, too.
        file: Option<NewFile>,
        /// What the guest writes.
        pictures: File,
    },
}

impl Delivery {
    /// The file that the guest writes.
    ///
    /// # Errors
    /// When there are no file descriptors.
    pub fn handle(&self) -> anyhow::Result<File> {
        match self {
            Self::File(file) => file.handle(),
            Self::Stills { pictures, .. } => {
                pictures.try_clone().context("cannot share a temporary file")
            }
        }
    }

    /// Finishes what is made of it.
    ///
    /// # Errors
    /// When the guest did not write what it should, or there is no room.
    pub fn finish(self) -> anyhow::Result<()> {
        match self {
            Self::File(file) => file.finish(),
            Self::Stills { stills, file, mut pictures } => {
                let mut bytes = Vec::new();
                pictures.rewind().context("cannot read a temporary file")?;
                pictures.read_to_end(&mut bytes).context("cannot read a temporary file")?;
                stills.write_all(&bytes)?;
                file.map_or(Ok(()), |file| file.finish_with(bytes))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;

    #[test]
    fn the_pictures_of_a_guest_are_stills_and_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let (stills, all) = (folder.path().join("stills"), folder.path().join("all.y4m"));
        let output = Output::Stills { folder: stills.clone(), file: Some(all.clone()) };
        let delivery = output.create().unwrap();
        let pictures = b"YUV4MPEG2 W2 H2 F25:1\nFRAME\n123456FRAME\n654321";
        delivery.handle().unwrap().write_all(pictures).unwrap();
        assert!(!all.exists());
        delivery.finish().unwrap();
        assert_eq!(fs::read(&all).unwrap(), pictures);
        assert_eq!(fs::read_dir(&stills).unwrap().count(), 2);
    }

    #[test]
    fn what_is_no_picture_is_refused_and_makes_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let all = folder.path().join("all.y4m");
        let output = Output::Stills { folder: folder.path().join("new"), file: Some(all.clone()) };
        let delivery = output.create().unwrap();
        delivery.handle().unwrap().write_all(b"YUV4MPEG2 W2 H2\nFRAME\n123").unwrap();
        let error = format!("{:#}", delivery.finish().unwrap_err());
        assert!(error.contains("the last picture is cut off"), "{error}");
        assert!(!all.exists());
    }
}
