// SPDX-License-Identifier: MIT OR Apache-2.0

//! The images that a stream names.

use crate::serve::commands::wrong::Why;
use bellhop_protocol::vulkan::{Command, Image};
use std::collections::HashMap;
use std::rc::Rc;

/// Most images of a stream that differ.
const MOST: usize = 1 << 14;

/// The images that a stream names, as they were made of their descriptions.
pub struct Images<I> {
    made: Vec<Rc<I>>,
    /// Their places in `made`.
    places: HashMap<Image, usize>,
}

impl<I> Images<I> {
    /// Has none.
    pub fn new() -> Self {
        Self { made: Vec::new(), places: HashMap::new() }
    }

    /// Has an image made, whose description has been checked, if it was not named before.
    ///
    /// # Errors
    /// When there are too many, or `make` fails.
    pub fn add(
        &mut self,
        image: &Image,
        make: impl FnOnce(&Image) -> Result<Rc<I>, Why>,
    ) -> Result<(), Why> {
        if self.places.contains_key(image) {
            return Ok(());
        }
        if self.made.len() >= MOST {
            return Err("more images than a stream may have".into());
        }
        self.made.push(make(image)?);
        self.places.insert(*image, self.made.len() - 1);
        Ok(())
    }

    /// The images, without any twice.
    pub fn all(&self) -> &[Rc<I>] {
        &self.made
    }

    /// The image of a description that was added.
    pub fn get(&self, image: &Image) -> Option<&Rc<I>> {
        self.made.get(*self.places.get(image)?)
    }

    /// The images that a command names, without descriptors.
    pub fn of<'c>(command: &'c Command<'_>) -> impl Iterator<Item = &'c Image> + use<'c, I> {
        let images = match command {
            Command::CopyImage(copy, _) => [Some(&copy.source), Some(&copy.destination)],
            Command::CopyMemoryToImage(copy, _) => [Some(&copy.image), None],
            Command::CopyImageToMemory(copy, _) => [Some(&copy.image), None],
            Command::ClearImage(clear, _) => [Some(&clear.image), None],
            Command::ClearDepthStencil(clear, _) => [Some(&clear.image), None],
            Command::ResolveImage(resolve, _) => {
                [Some(&resolve.source), Some(&resolve.destination)]
            }
            Command::BlitImage(blit, _) => [Some(&blit.source), Some(&blit.destination)],
            _ => [None, None],
        };
        images.into_iter().flatten()
    }
}
