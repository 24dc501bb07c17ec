// SPDX-License-Identifier: MIT OR Apache-2.0

//! Layouts of images, what changes them, and who has an image ("Image Layouts", "Queue Family Ownership Transfer").

use super::model::{Model, pattern};
use crate::case::{Case, case};
use crate::lab::{At, Form, Lab, Outcome, PATIENCE, Submit, range, same};
use ash::vk;
use ash::vk::ImageLayout as L;

pub(super) const CASES: &[Case] = &[
    case("image.layout.through-all", "an image keeps its texels through all layouts", through_all),
    case("image.layout.newer-form", "a change as Vulkan 1.3 says it keeps texels too", newer_form),
    case(
        "image.layout.for-copies",
        "copies work in the layouts that are made for them",
        for_copies,
    ),
    case("image.layout.discarded", "an image that forgot its texels takes new ones", discarded),
    case(
        "image.layout.discarded-level",
        "a level that forgets its texels leaves the others theirs",
        discarded_level,
    ),
    case(
        "image.layout.of-each-level",
        "levels of an image are in layouts of their own",
        of_each_level,
    ),
    case("image.layout.behind-event", "a layout changes behind an event", behind_event),
    case("image.layout.in-secondary", "a secondary command buffer changes a layout", in_secondary),
    case(
        "image.layout.two-submissions",
        "an image is as the submission before left it",
        two_submissions,
    ),
    case(
        "image.layout.two-queues",
        "a queue finds what another stored, behind a semaphore and a hand-over",
        two_queues,
    ),
];

const FORM: Form = Form::flat(vk::Format::R32_UINT, 16, 16).sampled().storage();

fn through_all(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let form = FORM.levels(2).layers(2);
    let model = Model::new(form, 1);
    let image = gpu.image_of(form, &model.levels)?;
    let way = [
        L::GENERAL,
        L::TRANSFER_SRC_OPTIMAL,
        L::SHADER_READ_ONLY_OPTIMAL,
        L::TRANSFER_DST_OPTIMAL,
        L::GENERAL,
        L::SHADER_READ_ONLY_OPTIMAL,
        L::GENERAL,
    ];
    gpu.run(|commands| {
        for step in way.windows(2) {
            commands.change(image, [step[0], step[1]]);
        }
    })?;
    same!(gpu.level_bytes(image, 0)?, model.levels[0]);
    same!(gpu.level_bytes(image, 1)?, model.levels[1]);
    Ok(())
}

fn newer_form(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let model = Model::new(FORM, 1);
    let image = gpu.image_of(FORM, &model.levels)?;
    gpu.run(|commands| {
        commands.change_2(image, [L::GENERAL, L::TRANSFER_SRC_OPTIMAL]);
        commands.change_2(image, [L::TRANSFER_SRC_OPTIMAL, L::READ_ONLY_OPTIMAL]);
        commands.change_2(image, [L::READ_ONLY_OPTIMAL, L::GENERAL]);
    })?;
    same!(gpu.level_bytes(image, 0)?, model.levels[0]);
    Ok(())
}

fn for_copies(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let bytes = pattern(1, FORM.bytes(0));
    let (from, to) = (gpu.buffer_of_bytes(&bytes)?, gpu.buffer(256)?);
    let (one, other) = (gpu.image(FORM)?, gpu.image(FORM)?);
    let whole = vk::ImageCopy::default()
        .src_subresource(crate::lab::layers(0, 0, 1))
        .dst_subresource(crate::lab::layers(0, 0, 1))
        .extent(FORM.extent_3d(0));
    let (read, written) = (L::TRANSFER_SRC_OPTIMAL, L::TRANSFER_DST_OPTIMAL);
    gpu.run(|commands| {
        commands.change(one, [L::UNDEFINED, written]).change(other, [L::UNDEFINED, written]);
        commands.to_image_in(&from, (one, written), &[FORM.whole(0)]);
        commands.change(one, [written, read]);
        commands.copy_image_in((one, read), (other, written), &[whole]);
        commands.change(other, [written, read]);
        commands.out_of_image_in((other, read), &to, &[FORM.whole(0)]).barrier();
    })?;
    same!(crate::lab::bytes_of(&to.read()), bytes);
    Ok(())
}

fn discarded(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let image = gpu.image(FORM)?;
    for number in 1..5 {
        let model = Model::new(FORM, number);
        // Each begins with a change from `UNDEFINED`.
        gpu.put_levels(image, &model.levels)?;
        same!(gpu.level_bytes(image, 0)?, model.levels[0]);
    }
    Ok(())
}

fn discarded_level(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let form = FORM.levels(3);
    let model = Model::new(form, 1);
    let image = gpu.image_of(form, &model.levels)?;
    let (level, one) = (range([1, 1], [0, 1]), vk::ClearColorValue { uint32: [9; 4] });
    gpu.run(|commands| {
        commands.change_part(image, level, [L::UNDEFINED, L::GENERAL]);
        commands.clear(image, one, &[level]).barrier();
    })?;
    same!(gpu.level_bytes(image, 0)?, model.levels[0]);
    same!(gpu.level_words(image, 1)?, [9; 64]);
    same!(gpu.level_bytes(image, 2)?, model.levels[2]);
    Ok(())
}

fn of_each_level(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let form = FORM.levels(2);
    let model = Model::new(form, 1);
    let image = gpu.image_of(form, &model.levels)?;
    let (read, written) = (L::TRANSFER_SRC_OPTIMAL, L::TRANSFER_DST_OPTIMAL);
    let (first, second) = (range([0, 1], [0, 1]), range([1, 1], [0, 1]));
    let copy = vk::ImageCopy::default()
        .src_subresource(crate::lab::layers(0, 0, 1))
        .dst_subresource(crate::lab::layers(1, 0, 1))
        .extent(form.extent_3d(1));
    gpu.run(|commands| {
        commands.change_part(image, first, [L::GENERAL, read]);
        commands.change_part(image, second, [L::GENERAL, written]);
        commands.copy_image_in((image, read), (image, written), &[copy]);
        commands.change_part(image, first, [read, L::GENERAL]);
        commands.change_part(image, second, [written, L::GENERAL]);
    })?;
    let mut expected = model.clone();
    expected.copy(&model, &copy);
    same!(gpu.level_bytes(image, 1)?, expected.levels[1]);
    same!(gpu.level_bytes(image, 0)?, model.levels[0]);
    Ok(())
}

fn behind_event(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let model = Model::new(FORM, 1);
    let (image, event) = (gpu.image(FORM)?, gpu.event()?);
    let buffer = gpu.buffer_of_bytes(&model.levels[0])?;
    gpu.run(|commands| {
        commands.change(image, [L::UNDEFINED, L::TRANSFER_DST_OPTIMAL]);
        commands.to_image_in(&buffer, (image, L::TRANSFER_DST_OPTIMAL), &[FORM.whole(0)]);
        commands.set_event(event);
        commands.wait_and_change(event, image, [L::TRANSFER_DST_OPTIMAL, L::GENERAL]);
    })?;
    same!(gpu.level_bytes(image, 0)?, model.levels[0]);
    Ok(())
}

fn in_secondary(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let model = Model::new(FORM, 1);
    let image = gpu.image(FORM)?;
    let buffer = gpu.buffer_of_bytes(&model.levels[0])?;
    let secondary = gpu.record_secondary(gpu.queue()?, |commands| {
        commands.ready(&[image]).to_image(&buffer, image, &[FORM.whole(0)]).barrier();
    })?;
    gpu.run(|commands| {
        commands.execute(&[secondary]);
    })?;
    same!(gpu.level_bytes(image, 0)?, model.levels[0]);
    Ok(())
}

fn two_submissions(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let queue = gpu.queue()?;
    let mut model = Model::new(FORM, 1);
    let image = gpu.image_of(FORM, &model.levels)?;
    let region = super::model::part(0, [0, 1], [2, 3, 0], [9, 8, 1]);
    let bytes = pattern(77, model.outside(&[region]));
    let (buffer, seen) = (gpu.buffer_of_bytes(&bytes)?, gpu.buffer(256)?);
    let written = gpu.record(queue, |commands| {
        commands.to_image(&buffer, image, &[region]);
    })?;
    let read = gpu.record(queue, |commands| {
        // A barrier reaches what was submitted before.
        commands.barrier().out_of_image(image, &seen, &[FORM.whole(0)]).barrier();
    })?;
    gpu.submit(queue, &[Submit { commands: &[written], ..Submit::default() }], vk::Fence::null())?;
    gpu.finish(queue, &[read])?;
    model.put(&region, &bytes);
    same!(crate::lab::bytes_of(&seen.read()), model.levels[0]);
    Ok(())
}

fn two_queues(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let [first, second] = gpu.two_queues()?;
    let model = Model::new(FORM, 1);
    let image = gpu.image(FORM)?;
    let (buffer, seen) = (gpu.buffer_of_bytes(&model.levels[0])?, gpu.buffer(256)?);
    let semaphore = gpu.binary()?;
    let families = [first.family, second.family];
    let written = gpu.record(first, |commands| {
        commands.ready(&[image]).to_image(&buffer, image, &[FORM.whole(0)]).barrier();
        commands.hand_over(image, families);
    })?;
    let read = gpu.record(second, |commands| {
        commands.hand_over(image, families);
        commands.out_of_image(image, &seen, &[FORM.whole(0)]).barrier();
    })?;
    let (at, fence) = ([At(semaphore, 0)], gpu.fence(false)?);
    let one = Submit { commands: &[written], signal: &at, ..Submit::default() };
    let other = Submit { commands: &[read], wait: &at, ..Submit::default() };
    gpu.submit(first, &[one], vk::Fence::null())?;
    gpu.submit(second, &[other], fence)?;
    gpu.wait_fences(&[fence], true, PATIENCE)?;
    same!(crate::lab::bytes_of(&seen.read()), model.levels[0]);
    Ok(())
}
