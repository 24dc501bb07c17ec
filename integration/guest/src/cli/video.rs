// SPDX-License-Identifier: MIT OR Apache-2.0

//! The arguments of `video`.

use super::arguments::in_one_word;
use crate::video::{Decode, Encode};
use bellhop_guest_umd::video::EncoderRate;
use clap::{Args, Subcommand};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What to do with a video.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct VideoArguments {
    #[command(subcommand)]
    pub(super) job: VideoJob,
}

/// A job on a video.
#[derive(Debug, Clone, Subcommand)]
pub(super) enum VideoJob {
    /// Decode an IVF file of AV1, and write its pictures
    Decode(DecodeArguments),
    /// Encode pictures to an IVF file of AV1
    Encode(EncodeArguments),
}

#[derive(Debug, Clone, Args)]
pub(super) struct DecodeArguments {
    /// The video
    #[arg(value_name = "FILE.ivf")]
    pub(super) file: PathBuf,
    /// The folder for the pictures, as PNG
    #[arg(long, value_name = "DIR")]
    pub(super) png: Option<PathBuf>,
    /// The file for the pictures, as YUV4MPEG2; - for standard output
    #[arg(long, value_name = "FILE.y4m")]
    pub(super) y4m: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Clone, Args)]
pub(super) struct EncodeArguments {
    /// The pictures, as YUV4MPEG2: 4:2:0 with 8 or 10 bits
    #[arg(value_name = "FILE.y4m")]
    pub(super) file: PathBuf,
    /// The file for the video; - for standard output
    #[arg(value_name = "FILE.ivf")]
    pub(super) output: PathBuf,
    /// Quality: 0, the best, to 255, the smallest
    #[arg(long, value_name = "0-255", default_value_t = 100)]
    quantizer: u8,
    /// About how many bits a second, in place of --quantizer
    #[arg(long, value_name = "BITS", conflicts_with = "quantizer", value_parser = clap::value_parser!(u32).range(1..=800_000_000))]
    bit_rate: Option<u32>,
    /// Most pictures from a key frame to the next; 0: only the first is one
    #[arg(long, value_name = "PICTURES", default_value_t = 240, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    key_frames: u32,
    /// 0, the slowest, to 10
    #[arg(long, value_name = "0-10", default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=10))]
    speed: u32,
    /// Print the report as JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl DecodeArguments {
    pub(super) fn job(&self) -> Decode {
        Decode { file: self.file.clone(), png: self.png.clone() }
    }
}

impl EncodeArguments {
    pub(super) fn job(&self) -> Encode {
        Encode {
            file: self.file.clone(),
            rate: match self.bit_rate {
                Some(bits) => EncoderRate::BitsPerSecond(bits),
                None => EncoderRate::Quantizer(self.quantizer),
            },
            key_frame_interval: self.key_frames,
            speed: self.speed,
        }
    }
}

impl VideoArguments {
    /// Whether standard output is for the video or its pictures.
    pub(super) fn takes_standard_output(&self) -> bool {
        let output = match &self.job {
            VideoJob::Decode(decode) => decode.y4m.as_deref(),
            VideoJob::Encode(encode) => Some(encode.output.as_path()),
        };
        output == Some(Path::new("-"))
    }

    /// These arguments as a command line of `bellhop-guest`.
    #[must_use]
    pub fn to_command_line(&self) -> Vec<OsString> {
        let mut line: Vec<OsString> = vec!["video".into()];
        match &self.job {
            VideoJob::Decode(DecodeArguments { file, png, y4m, json }) => {
                line.push("decode".into());
                line.extend(png.as_deref().map(|folder| in_one_word("--png", folder)));
                line.extend(y4m.as_deref().map(|file| in_one_word("--y4m", file)));
                line.extend(json.then(|| "--json".into()));
                line.extend(["--".into(), file.clone().into()]);
            }
            VideoJob::Encode(arguments) => {
                let EncodeArguments { file, output, quantizer, bit_rate, key_frames, speed, json } =
                    arguments;
                line.push("encode".into());
                line.push(match bit_rate {
                    Some(bits) => format!("--bit-rate={bits}").into(),
                    None => format!("--quantizer={quantizer}").into(),
                });
                line.push(format!("--key-frames={key_frames}").into());
                line.push(format!("--speed={speed}").into());
                line.extend(json.then(|| "--json".into()));
                line.extend(["--".into(), file.clone().into(), output.clone().into()]);
            }
        }
        line
    }
}
