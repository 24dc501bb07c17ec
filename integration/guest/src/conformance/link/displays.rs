// SPDX-License-Identifier: MIT OR Apache-2.0

//! Displays of several GPUs.

use crate::conformance::behaviour::{Mismatch, require};
use crate::conformance::display::lab::{Lab, refusal};
use crate::conformance::display::picture::colours;
use crate::conformance::scene::{Scene, TIMEOUT};
use bellhop_guest_umd::CommandBuffer;
use bellhop_guest_umd::display::{
    Constraint, Flip, FlipOutcome, Path, Primary, Refusal, Surface, Topology,
};
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::power::DevicePowerState;
use std::collections::BTreeMap;

/// A monitor of the master and one of a slave, each with its own source.
pub(super) struct Screens {
    pub(super) lab: Lab,
    /// The source of each, which has the number of the connector.
    pub(super) sources: [u32; 2],
    /// The GPU of the second.
    slave: u8,
}

impl Screens {
    pub(super) fn new(scene: &Scene) -> Result<Self, Mismatch> {
        let lab = Lab::new(scene)?;
        let mut first: BTreeMap<u8, u32> = BTreeMap::new();
        for child in lab.monitors(1)? {
            let gpu = lab.display.children().get(child as usize).map_or(0, |child| child.gpu());
            first.entry(gpu).or_insert(child);
        }
        let mut first = first.into_iter();
        match (first.next(), first.next()) {
            (Some((0, master)), Some((slave, source))) => {
                Ok(Self { lab, sources: [master, source], slave })
            }
            _ => Err(Mismatch::NotOffered("no slave has a monitor beside the master's".into())),
        }
    }

    /// Shows both sources.
    pub(super) fn show(&self) -> Result<[Surface; 2], Mismatch> {
        let path = |source| self.lab.small_path(source, source);
        let [one, other] = self.sources;
        let surfaces = self.lab.commit(&Topology::new().path(path(one)?).path(path(other)?))?;
        surfaces.try_into().map_err(|_| Mismatch::Seen("not one surface for each path".into()))
    }

    /// Both sources with their surfaces.
    fn shown(&self) -> Result<impl Iterator<Item = (u32, Surface)>, Mismatch> {
        Ok(self.sources.into_iter().zip(self.show()?))
    }
}

pub(super) fn numbered(scene: &Scene) -> Result<(), Mismatch> {
    let Screens { lab, slave, .. } = Screens::new(scene)?;
    let children = lab.display.children();
    let gpus: Vec<u8> = children.iter().map(|child| child.gpu()).collect();
    require!(gpus.is_sorted(), "connectors are of {gpus:?}, not in the order of the chain");
    require!(gpus.contains(&slave) && gpus.contains(&0), "connectors are of {gpus:?}");
    let sources = lab.display.sources();
    require!(sources as usize == children.len(), "{sources} sources for {gpus:?}");
    for child in lab.monitors(1)? {
        // What stands in the EDID is another monitor's for each.
        let modes = lab.display.monitor_modes(child)?;
        require!(!modes.is_empty(), "connector {child} has no mode");
        require!(lab.display.edid(child)?.len() >= 128, "connector {child} has no EDID");
        // Its own source shows on it.
        lab.display.check(&Topology::new().path(Path::new(child, child)))?;
    }
    Ok(())
}

pub(super) fn flip(scene: &Scene) -> Result<(), Mismatch> {
    let screens = Screens::new(scene)?;
    let display = &screens.lab.display;
    for (source, surface) in screens.shown()? {
        let pictures = screens.lab.pictures(surface, 2)?;
        display.set_vsync_events(source, true)?;
        let mut last = 0;
        for turn in 0..8 {
            let ended = screens.lab.flip_on(source, &pictures[turn % 2])?;
            require!(ended.count > last, "VSYNC {} after VSYNC {last}", ended.count);
            last = ended.count;
            let vsync = loop {
                let vsync = display.wait_for_vsync(source, TIMEOUT)?;
                if vsync.count >= ended.count {
                    break vsync;
                }
            };
            require!(vsync.flip == ended.flip, "source {source} shows flip {}", vsync.flip);
            screens.lab.expect_picture_on(source, &pictures[turn % 2], turn as u64 % 2)?;
        }
        let line = display.scan_line(source)?.line;
        require!(line < 2 * surface.height, "source {source} scans line {line}");
        display.set_vsync_events(source, false)?;
        display.flip(source, Flip::to(&pictures[0]).immediate())?;
        // The primaries go while the other source is flipped.
    }
    Ok(())
}

pub(super) fn peer(scene: &Scene) -> Result<(), Mismatch> {
    let screens = Screens::new(scene)?;
    let device = &screens.lab.device;
    let copies = scene.node(EngineType::COPY)?;
    for (source, surface) in screens.shown()? {
        let in_memory_of: Vec<Primary> = [0, screens.slave]
            .into_iter()
            .map(|gpu| device.create_primary_on(surface, gpu))
            .collect::<Result<_, _>>()?;
        // No processor of the guest's reaches those, so a copy engine draws there what the guest drew elsewhere.
        let mut queue = device.create_context(copies)?.create_user_mode_queue(4096)?;
        for (primary, number) in in_memory_of.iter().zip(2..) {
            let drawn = screens.lab.picture(surface, number)?;
            let mut commands = CommandBuffer::new(device, 256)?;
            commands.copy(drawn.gpu_va(), primary.gpu_va(), surface.size()?)?;
            let value = queue.submit(&mut commands)?;
            queue.progress_fence().poll(value, TIMEOUT)?;
        }
        let visible = screens.lab.picture(surface, 1)?;
        let all = in_memory_of.iter().zip(2..);
        for (primary, number) in all.clone().chain([(&visible, 1)]).chain(all) {
            screens.lab.flip_on(source, primary)?;
            screens.lab.expect_seen(source, &colours(surface, number)?)?;
        }
        for (primary, gpu) in in_memory_of.iter().zip([0, screens.slave]) {
            let used = device.video_memory_info_on(gpu)?.usage;
            let size = primary.surface().size()?;
            require!(used == size, "{used} bytes of GPU {gpu} are used by a primary of {size}");
        }
    }
    Ok(())
}

pub(super) fn refused(scene: &Scene) -> Result<(), Mismatch> {
    let Screens { lab, sources: [master, slave], .. } = Screens::new(scene)?;
    let display = &lab.display;
    for (source, target) in [(master, slave), (slave, master)] {
        let own = Path::new(target, target);
        let crossed = Topology::new().path(Path::new(source, target));
        let of = display.children()[source as usize].gpu();
        let expected = |path| Refusal { constraint: Constraint::OTHER_GPU, path, limit: of.into() };
        let refused = refusal(display.check(&crossed))?;
        require!(refused == expected(0), "{refused}");
        let modes = display.target_modes(&crossed, 0)?;
        require!(modes.is_empty(), "{} modes are offered across GPUs", modes.len());
        // A clone of both is refused for the path that crosses.
        let clone = Topology::new().path(Path::new(source, source)).path(Path::new(source, target));
        let refused = refusal(display.check(&clone))?;
        require!(refused == expected(1), "{refused}");
        display.check(&Topology::new().path(own))?;
    }
    Ok(())
}

pub(super) fn ended(scene: &Scene) -> Result<(), Mismatch> {
    for is_abnormal in [false, true] {
        let screens = Screens::new(scene)?;
        let [master, slave] = screens.sources;
        let surfaces = screens.show()?;
        let pictures = [screens.lab.picture(surfaces[0], 0)?, screens.lab.picture(surfaces[1], 1)?];
        screens.lab.flip_on(master, &pictures[0])?;
        screens.lab.flip_on(slave, &pictures[1])?;
        // One is destroyed while it is shown, the other is shown on.
        let [first, second] = pictures;
        drop(first);
        let seen = screens.lab.pass_vsyncs_of(master, 2)?;
        require!(seen == 0, "flip {seen} is shown, whose primary is destroyed");
        let seen = screens.lab.pass_vsyncs_of(slave, 2)?;
        require!(seen != 0, "the slave's monitor shows nothing");
        if is_abnormal {
            screens.lab.process.terminate_abnormally()?;
        }
        drop((second, screens));
        let next = Screens::new(scene)?;
        next.show()?;
        for source in next.sources {
            let seen = next.lab.pass_vsyncs_of(source, 2)?;
            require!(seen == 0, "flip {seen} of a process that ended is shown");
        }
    }
    Ok(())
}

pub(super) fn power(scene: &Scene) -> Result<(), Mismatch> {
    let screens = Screens::new(scene)?;
    let Screens { lab, sources, .. } = &screens;
    let surfaces = screens.show()?;
    let pictures = [lab.picture(surfaces[0], 0)?, lab.picture(surfaces[1], 1)?];
    let mut before = Vec::new();
    for (source, picture) in sources.iter().zip(&pictures) {
        before.push(lab.flip_on(*source, picture)?);
    }
    lab.process.set_device_power(DevicePowerState::D3)?;
    lab.process.set_device_power(DevicePowerState::D0)?;
    for ((source, picture), before) in sources.iter().zip(&pictures).zip(before) {
        let seen = lab.pass_vsyncs_of(*source, 2)?;
        require!(seen == before.flip, "after D3, source {source} shows flip {seen}");
        let flip = lab.display.flip(*source, Flip::to(picture))?;
        let after = lab.expect_on(*source, flip, FlipOutcome::SHOWN)?;
        require!(after.count > before.count, "VSYNC {} after {}", after.count, before.count);
        lab.expect_picture_on(*source, picture, u64::from(*source != sources[0]))?;
    }
    Ok(())
}
