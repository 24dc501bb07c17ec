// SPDX-License-Identifier: MIT OR Apache-2.0

//! Commands that move bytes and texels: their memory, and how they are recorded.

use super::images::{Images, Rows, is_empty};
use super::wrong::Why;
use crate::serve::imports::Imports;
use crate::serve::memory::Access;
use crate::vulkan::{Image, Recorder};
use bellhop_protocol::vulkan::{self as protocol, Command, Copy, Fill};
use std::rc::Rc;

/// The longest range that is copied or filled at once. Devices do not make buffers of any length.
const LONGEST: u64 = 1 << 30;

/// Calls `touch` with each range of memory that a command reaches that moves bytes or texels.
///
/// # Errors
/// Those of `touch`, and what is wrong with a copy.
pub fn touch(
    command: &Command<'_>,
    touch: impl Fn(u64, u64, Access) -> Result<(), Why>,
) -> Result<(), Why> {
    let (load, store) = (Access::Load, Access::Store);
    let touch_image = |image: &protocol::Image, access| touch(image.address, image.size, access);
    let touch_rows = |rows: &Rows<'_>, access| touch(rows.address, rows.length()?, access);
    match command {
        Command::Copy(copy, _) => {
            touch(copy.source, copy.length, load)?;
            touch(copy.destination, copy.length, store)
        }
        Command::Fill(fill, _) => touch(fill.destination, fill.length, store),
        Command::Update(update, data) => touch(update.destination, data.len() as u64, store),
        Command::CopyImage(copy, _) => {
            touch_image(&copy.source, load)?;
            touch_image(&copy.destination, store)
        }
        Command::CopyMemoryToImage(copy, _) => {
            touch_rows(&copy.into(), load)?;
            touch_image(&copy.image, store)
        }
        Command::CopyImageToMemory(copy, _) => {
            touch_image(&copy.image, load)?;
            touch_rows(&copy.into(), store)
        }
        Command::ResolveImage(resolve, _) => {
            touch_image(&resolve.source, load)?;
            touch_image(&resolve.destination, store)
        }
        Command::BlitImage(blit, _) => {
            touch_image(&blit.source, load)?;
            touch_image(&blit.destination, store)
        }
        Command::ClearImage(clear, _) => touch_image(&clear.image, store),
        Command::ClearDepthStencil(clear, _) => touch_image(&clear.image, store),
        _ => Ok(()),
    }
}

/// Records a command that moves bytes or texels. Does nothing for others.
///
/// # Errors
/// When Vulkan refuses it.
pub fn record<'d>(
    command: &Command<'_>,
    recorder: &mut Recorder<'d>,
    imports: &mut Imports<'d>,
    images: &Images<Image<'d>>,
) -> Result<(), Why> {
    let image = |of: &protocol::Image| -> Result<&Rc<Image<'d>>, Why> {
        images.get(of).ok_or_else(|| "an image that was not made".into())
    };
    match command {
        Command::Barrier(..) => recorder.barrier(),
        Command::Copy(Copy { source, destination, length, .. }, _) => {
            for (at, length) in pieces(*length) {
                let from = imports.range(source + at, length)?;
                recorder.copy(&from, &imports.range(destination + at, length)?)?;
            }
        }
        Command::Fill(Fill { header, destination, length }, _) => {
            for (at, length) in pieces(*length) {
                recorder.fill(&imports.range(destination + at, length)?, header.argument)?;
            }
        }
        Command::Update(update, data) if !data.is_empty() => {
            let range = imports.range(update.destination, data.len() as u64)?;
            recorder.update(&range, data)?;
        }
        Command::CopyImage(copy, _) => {
            recorder.copy_image(copy, image(&copy.source)?, image(&copy.destination)?);
        }
        Command::CopyMemoryToImage(copy, _) => {
            let rows = Rows::from(copy);
            let from = imports.range(rows.address, rows.length()?)?;
            recorder.copy_to_image(&from, image(rows.image)?, &rows.region)?;
        }
        Command::CopyImageToMemory(copy, _) => {
            let rows = Rows::from(copy);
            let to = imports.range(rows.address, rows.length()?)?;
            recorder.copy_from_image(image(rows.image)?, &to, &rows.region)?;
        }
        Command::ClearImage(clear, _) => {
            recorder.clear_image(image(&clear.image)?, clear.color, &clear.range);
        }
        Command::ClearDepthStencil(clear, _) => {
            recorder.clear_depth(image(&clear.image)?, clear.value, &clear.range);
        }
        Command::ResolveImage(resolve, _) => {
            recorder.resolve(resolve, image(&resolve.source)?, image(&resolve.destination)?);
        }
        Command::BlitImage(blit, _) if !is_empty(blit) => {
            recorder.blit(blit, image(&blit.source)?, image(&blit.destination)?);
        }
        _ => {}
    }
    Ok(())
}

/// Parts of a length: where each begins, and its length.
fn pieces(length: u64) -> impl Iterator<Item = (u64, u64)> {
    let starts = (0..length).step_by(LONGEST as usize);
    starts.map(move |at| (at, LONGEST.min(length - at)))
}
