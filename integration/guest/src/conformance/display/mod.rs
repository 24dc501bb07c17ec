// SPDX-License-Identifier: MIT OR Apache-2.0

//! `display.*`: monitors, topology, flips, VSYNC and the pointer. Where the guest has no display, none is offered.
//! `screen.*`: what its monitors show. Where nobody looks at them from beside the host, none is offered.

mod agent;
mod compositor;
mod flips;
pub(in crate::conformance) mod lab;
mod lifetime;
mod monitors;
pub(in crate::conformance) mod picture;
mod present;
pub(in crate::conformance) mod seen;
mod topology;
mod vsync;

use crate::conformance::behaviour::Behaviour;
use crate::conformance::source::{KMD_DISPLAY, KMD_ESCAPE, KMD_FLIP, KMD_INTERRUPT, UM_D_STATES};

pub(in crate::conformance) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour::new("display.children", KMD_DISPLAY, monitors::children)
        .shows("the display has connectors, as many sources, and says where a monitor is"),
    Behaviour::new("display.descriptor", KMD_DISPLAY, monitors::descriptor)
        .shows("a monitor's EDID is whole, and its checksums are right"),
    Behaviour::new("display.modes", KMD_DISPLAY, monitors::modes).shows(
        "a monitor's modes have blanking and a rate, each is there once, and the EDID's preferred \
         one is the first",
    ),
    Behaviour::new("display.topology.enumerated", KMD_DISPLAY, topology::enumerated)
        .shows("whatever enumeration offers, is supported and can be committed"),
    Behaviour::new("display.topology.refused", KMD_DISPLAY, topology::refused)
        .shows("a topology that cannot be shown is refused for the constraint that it breaks"),
    Behaviour::new("display.topology.all-or-nothing", KMD_DISPLAY, topology::all_or_nothing)
        .shows("a commit that is refused changes nothing of what is shown"),
    Behaviour::new("display.topology.owned", KMD_DISPLAY, topology::owned)
        .shows("a process has its source to itself until it gives it up"),
    Behaviour::new("display.topology.clone", KMD_DISPLAY, topology::clone)
        .shows("two monitors show one source, and one of them shows it on without the other"),
    Behaviour::new("display.topology.extended", KMD_DISPLAY, topology::extended)
        .shows("two monitors show two sources, each with flips of its own"),
    Behaviour::new("display.visibility", KMD_DISPLAY, lifetime::visibility).shows(
        "a blanked source has no VSYNC, flips of it happen at once, and the last one is seen then",
    ),
    Behaviour::new("display.flip.vsync", KMD_FLIP, flips::at_vsync)
        .shows("a flip is shown at a VSYNC, which has its number"),
    Behaviour::new("display.flip.immediate", KMD_FLIP, flips::immediate)
        .shows("immediate flips wait for no VSYNC, and have happened when they are answered"),
    Behaviour::new("display.flip.fences", KMD_FLIP, flips::after_its_fence)
        .shows("a flip waits until all its fences are signaled"),
    Behaviour::new("display.flip.drawn", KMD_FLIP, flips::after_drawing)
        .shows("frames of a swap chain are shown when the GPU has drawn them, each of them"),
    Behaviour::new("display.flip.order", KMD_FLIP, flips::in_order)
        .shows("no flip overtakes one that waits for a fence, and each has a VSYNC of its own"),
    Behaviour::new("display.flip.replace", KMD_FLIP, flips::replaced)
        .shows("a flip that replaces those before it drops them, and they are never shown"),
    Behaviour::new("display.flip.mailbox", KMD_FLIP, flips::mailbox)
        .shows("of many frames in mailbox mode the newest is shown, and each ends once"),
    Behaviour::new("display.flip.bound", KMD_FLIP, flips::bounded)
        .shows("as many flips wait as the protocol says, and one more is refused"),
    Behaviour::new("display.flip.refused", KMD_FLIP, flips::refused)
        .shows("what is no primary, or does not hold the picture, is not flipped to"),
    Behaviour::new("display.vsync.wanted", KMD_INTERRUPT, vsync::only_while_wanted)
        .shows("a VSYNC interrupts only while somebody wants it"),
    Behaviour::new("display.vsync.rate", KMD_INTERRUPT, vsync::rate)
        .shows("there are as many VSYNCs as the mode says, at its slowest rate and its fastest"),
    Behaviour::new("display.scan-line", KMD_DISPLAY, vsync::scan_line)
        .shows("the scan line moves, lies in the mode, and says when it is not visible"),
    Behaviour::new("display.pointer", KMD_DISPLAY, lifetime::pointer)
        .shows("a pointer has at most 64 pixels each way, and only the owner moves it"),
    Behaviour::new("display.exclusive", KMD_FLIP, compositor::exclusive)
        .shows("full-screen exclusive: a program has the screen that the compositor gave up"),
    Behaviour::new("display.windowed", KMD_FLIP, present::windowed)
        .shows("classic windowed: the compositor copies a program's surface into its own frame"),
    Behaviour::new("display.direct-flip", KMD_FLIP, compositor::direct_flip)
        .shows("DirectFlip: the compositor shows a program's buffer without a copy"),
    Behaviour::new("display.independent-flip", KMD_FLIP, compositor::independent_flip)
        .shows("IndependentFlip: a program flips the compositor's source itself, while it may"),
    Behaviour::new("display.independent-flip.taken-back", KMD_FLIP, compositor::taken_back).shows(
        "flips that wait of a program are lost when the compositor takes its source back",
    ),
    Behaviour::new("display.present.fill", KMD_FLIP, present::fill)
        .shows("PRESENT fills a rectangle in each pixel format, or the dirty parts of it"),
    Behaviour::new("display.present.copy", KMD_FLIP, present::copy)
        .shows("PRESENT copies a rectangle in each pixel format, or the dirty parts of it"),
    Behaviour::new("display.present.stretch-nearest", KMD_FLIP, present::stretch_nearest)
        .shows("PRESENT scales a rectangle up and down by the nearest pixels"),
    Behaviour::new("display.present.stretch-bilinear", KMD_FLIP, present::stretch_bilinear)
        .shows("PRESENT scales a rectangle up and down between pixels, channel by channel"),
    Behaviour::new("display.present.refused", KMD_FLIP, present::refused)
        .shows("what PRESENT cannot draw is refused, and nothing of it is drawn"),
    Behaviour::new("display.primary.destroyed", KMD_FLIP, lifetime::primary_destroyed).shows(
        "a primary can be destroyed while it is shown or waits; nothing is shown of it then",
    ),
    Behaviour::new("display.process.ended", KMD_DISPLAY, lifetime::process_ended)
        .shows("a process's end takes its picture away, and the source is free"),
    Behaviour::new("display.agent", KMD_ESCAPE, agent::layouts).shows(
        "the agent extends, clones and turns off what monitors show, in modes that are asked for",
    ),
    Behaviour::new("display.agent.gives-way", KMD_ESCAPE, agent::gives_way).shows(
        "what the agent shows gives way to a program, and the agent shows nothing beside it",
    ),
    Behaviour::new("display.agent.consent", KMD_ESCAPE, agent::consent).shows(
        "a program that shows something agrees to another topology, refuses it, or loses its sources",
    ),
    Behaviour::new("display.power.d3", UM_D_STATES, lifetime::power)
        .shows("after D3 the picture is there again, and the count of VSYNCs goes on"),
];
