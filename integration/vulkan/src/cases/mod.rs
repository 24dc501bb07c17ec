// SPDX-License-Identifier: MIT OR Apache-2.0

//! The behaviours, by area.

mod asynchronous;
mod chain;
mod command;
mod device;
mod dispatch;
mod event;
mod fence;
mod graphics;
mod group;
mod image;
mod lost;
mod memory;
mod pipeline;
mod query;
mod sampler;
mod semaphore;
mod set;
mod shader;
mod sharing;
mod storage_image;
mod swapchain;
mod texels;
mod timeline;
mod transfer;

use crate::case::Case;

/// All areas.
const ALL: &[&[Case]] = &[
    device::CASES,
    memory::CASES,
    transfer::CASES,
    pipeline::CASES,
    dispatch::CASES,
    chain::CASES,
    set::CASES,
    set::NOTHING,
    command::CASES,
    fence::CASES,
    semaphore::CASES,
    timeline::CASES,
    sharing::CASES,
    event::CASES,
    query::CASES,
    swapchain::CASES,
    swapchain::frames::CASES,
    swapchain::display::CASES,
    asynchronous::CASES,
    lost::CASES,
    lost::drawing::CASES,
    lost::attachments::CASES,
];

/// The areas that are folders.
const FOLDERS: &[&[&[Case]]] = &[
    shader::CASES,
    image::CASES,
    storage_image::CASES,
    sampler::CASES,
    texels::CASES,
    group::CASES,
    graphics::CASES,
    graphics::vertex::CASES,
    graphics::raster::CASES,
    graphics::blend::CASES,
    graphics::depth::CASES,
    graphics::attachment::CASES,
    graphics::fragment::CASES,
    graphics::samples::CASES,
    graphics::pass::CASES,
];

/// All behaviours whose names begin with one of these words; all there are if there is no word.
pub fn selected(words: &[String]) -> impl Iterator<Item = &'static Case> {
    let begins = |case: &Case| words.iter().any(|word| case.id.starts_with(word.as_str()));
    let is_wanted = move |case: &&Case| words.is_empty() || begins(case);
    ALL.iter().chain(FOLDERS.iter().copied().flatten()).copied().flatten().filter(is_wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_behaviour_has_a_name_of_its_own_and_says_what_it_shows() {
        let mut names = BTreeSet::new();
        for case in selected(&[]) {
            assert!(names.insert(case.id), "two are called {}", case.id);
            assert!(case.id.contains('.') && case.shows.len() > 20, "{case:?}");
        }
        assert!(names.len() >= 1200);
    }

    #[test]
    fn a_word_is_the_beginning_of_names() {
        let count = |word: &str| selected(&[word.to_owned()]).count();
        let all_begin =
            |word: &str| selected(&[word.to_owned()]).all(|case| case.id.starts_with(word));
        assert!(count("group.") > 0 && all_begin("group."));
        assert_eq!((count("memory"), count("emory")), (count("memory."), 0));
    }
}
