// SPDX-License-Identifier: MIT OR Apache-2.0

//! `kernel.*`: kernels that guests bring. Where the device runs none, only `kernel.caps` has something to show.

mod arguments;
mod commands;
mod compute;
mod create;
mod faults;
mod lab;
mod memory;
mod nodes;
mod row;
mod submitting;
mod time;

use crate::conformance::behaviour::{Behaviour, Mismatch};
use crate::conformance::scene::{Bench, Scene};
use crate::conformance::source;
use bellhop_guest_umd::Kernel;

pub(in crate::conformance) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour::new("kernel.caps", source::KERNELS, create::caps).shows(
        "the device says what kernels can be, or why there are none and what to install, and then \
         refuses them",
    ),
    Behaviour::new("kernel.pointers", source::KERNELS, compute::pointers)
        .shows("a kernel follows pointers that are GPU virtual addresses"),
    Behaviour::new("kernel.descriptors", source::KERNELS, compute::descriptors)
        .shows("a kernel reaches exactly the range of its descriptor, whatever pages it lies in"),
    Behaviour::new("kernel.everywhere", source::KERNELS, compute::everywhere)
        .shows("kernels reach local memory and the guest's own, however many pages it has"),
    Behaviour::new("kernel.integers-64", source::KERNELS, compute::integers)
        .shows("kernels compute with integers of 64 bits"),
    Behaviour::new("kernel.loop", source::KERNELS, compute::long_loop)
        .shows("a loop of 1,000,000 iterations has as many"),
    Behaviour::new("kernel.shared-memory", source::KERNELS, compute::shared_memory)
        .shows("the invocations of a work group share memory, and wait for each other"),
    Behaviour::new("kernel.atomics", source::KERNELS, compute::atomics)
        .shows("atomic operations of all work groups and dispatches count"),
    Behaviour::new("kernel.groups", source::KERNELS, compute::groups).shows(
        "as many work groups run as the dispatch says, in three dimensions; none if one of them \
         is 0",
    ),
    Behaviour::new("kernel.batch.barriers", source::KERNELS, compute::barriers)
        .shows("a dispatch behind a barrier sees what the dispatches before it wrote"),
    Behaviour::new("kernel.batch.overlapping", source::KERNELS, compute::overlapping).shows(
        "dispatches without barriers all run, and the packet behind them sees what they wrote",
    ),
    Behaviour::new("kernel.among-packets", source::KERNELS, compute::among_packets)
        .shows("kernels and other packets see what the packets before them wrote"),
    Behaviour::new("kernel.apart", source::KERNELS, compute::apart).shows(
        "the kernels of two processes compute at the same addresses, each in its own memory",
    ),
    Behaviour::new("kernel.arguments.several", source::KERNELS, arguments::several)
        .shows("a kernel gets all its push constants and descriptors, in order"),
    Behaviour::new("kernel.arguments.none", source::KERNELS, arguments::none)
        .shows("a kernel without arguments runs"),
    Behaviour::new("kernel.arguments.specialised", source::KERNELS, arguments::specialised)
        .shows("each kernel has its own specialisation constants, or the module's"),
    Behaviour::new("kernel.arguments.elsewhere", source::KERNELS, arguments::elsewhere)
        .shows("arguments are read at each submission, from any memory of the process"),
    Behaviour::new("kernel.arguments.wrong", source::KERNELS, arguments::wrong)
        .shows("arguments that the kernel does not take lose the queue, which names them"),
    Behaviour::new(
        "kernel.arguments.wrong-descriptor",
        source::KERNELS,
        arguments::wrong_descriptor,
    )
    .shows("a misaligned or empty descriptor loses the queue"),
    Behaviour::new("kernel.arguments.unreadable", source::KERNELS, arguments::unreadable)
        .shows("arguments that are not mapped lose the queue, at the exact address"),
    Behaviour::new("kernel.create.refused", source::KERNELS, create::refused)
        .shows("a module that does not compile is refused with a reason, and others compile"),
    Behaviour::new("kernel.create.not-spirv", source::KERNELS, create::not_spirv)
        .shows("what is no SPIR-V is refused with a reason"),
    Behaviour::new(
        "kernel.create.unknown-entry-point",
        source::KERNELS,
        create::unknown_entry_point,
    )
    .shows("an entry point that the module does not have is refused with a reason"),
    Behaviour::new("kernel.create.bad-fields", source::KERNELS, create::bad_fields)
        .shows("requests with fields that they cannot have are refused"),
    Behaviour::new("kernel.create.unreadable", source::KERNELS, create::unreadable)
        .shows("SPIR-V that the process cannot read is refused, with the address"),
    Behaviour::new("kernel.create.counted", source::KERNELS, create::counted)
        .shows("a guest can have as many kernels as the device says, and a number is used once"),
    Behaviour::new("kernel.number.unknown", source::KERNELS, create::unknown_number)
        .shows("a dispatch of a kernel that there is not, or no longer, loses its queue"),
    Behaviour::new("kernel.number.other-process", source::KERNELS, create::other_process)
        .shows("a process can neither dispatch nor destroy another's kernels"),
    Behaviour::new("kernel.destroy.in-flight", source::KERNELS, create::destroyed_in_flight)
        .shows("a dispatch finishes though its kernel is destroyed meanwhile"),
    Behaviour::new("kernel.copy-node", source::KERNELS, create::not_on_copy_nodes)
        .shows("copy nodes run no kernels"),
    Behaviour::new("kernel.fault.read", source::KERNELS, faults::read)
        .shows("a load from an unmapped page loses the queue, at the exact address"),
    Behaviour::new("kernel.fault.write", source::KERNELS, faults::write)
        .shows("a store to an unmapped page loses the queue, at the exact address"),
    Behaviour::new("kernel.fault.read-only", source::KERNELS, faults::read_only)
        .shows("a store to a read-only page loses the queue, at the exact address"),
    Behaviour::new("kernel.fault.outside", source::KERNELS, faults::outside).shows(
        "a pointer to where no GPU virtual address is loses the queue, and other kernels compute",
    ),
    Behaviour::new("kernel.fault.freed", source::KERNELS, faults::freed)
        .shows("a store to an address that was freed after a kernel used it is a fault"),
    Behaviour::new("kernel.fault.descriptor", source::KERNELS, faults::descriptor)
        .shows("a descriptor over an unmapped page loses the queue, in that page"),
    Behaviour::new("kernel.fault.named", source::KERNELS, faults::named)
        .shows("the driver names the kernel and the address of a fault"),
    Behaviour::new("kernel.fault.others-go-on", source::KERNELS, faults::others_go_on).shows(
        "kernels of another process continue on an engine on which kernel after kernel faults",
    ),
    Behaviour::new("kernel.turns", source::KERNELS, time::takes_turns)
        .shows("queues have their turns beside a kernel that runs on"),
    Behaviour::new("kernel.suspended", source::KERNELS, time::suspended)
        .shows("a kernel stands still while its context is suspended, and then continues"),
    Behaviour::new("kernel.killed", source::KERNELS, time::killed_process)
        .shows("the kernel of a process that dies ends, and others compute"),
    Behaviour::new("kernel.evicted", source::KERNELS, memory::evicted)
        .shows("what kernels wrote comes back after eviction, and nothing else was written"),
    Behaviour::new("kernel.evicted.fault", source::KERNELS, memory::while_evicted)
        .shows("a load from an evicted page loses the queue, at the exact address"),
    Behaviour::new("kernel.evicted.running", source::KERNELS, memory::under_a_kernel).shows(
        "pages that are evicted while a kernel writes them fault, and get no stores afterwards",
    ),
    Behaviour::new("kernel.freed.running", source::KERNELS, memory::freed_under_a_kernel).shows(
        "a page that is unmapped while a kernel writes it faults, and gets no stores afterwards",
    ),
    Behaviour::new("kernel.km.hw-queue", source::KERNELS, submitting::kernel_mode)
        .shows("kernels run on queues for kernel-mode submission"),
    Behaviour::new("kernel.km.basic-plus-plus", source::KERNELS, submitting::basic_plus_plus)
        .shows("basic++ model: kernels run, on paged allocations while they are listed"),
    Behaviour::new("kernel.km.virtual", source::KERNELS, submitting::virtual_addressing)
        .shows("WDDM 2.0 model: kernels run, with arguments in the buffer that the host supplied"),
    Behaviour::new("kernel.km.basic", source::KERNELS, submitting::basic_refuses)
        .shows("basic model: kernels are refused, since they have virtual addresses"),
    Behaviour::new("kernel.fences", source::KERNELS, submitting::fences)
        .shows("a fence behind a kernel is signaled when others see what the kernel wrote"),
    Behaviour::new("kernel.interrupts", source::KERNELS, submitting::interrupts)
        .shows("a conditional interrupt behind a kernel wakes a blocked thread"),
    Behaviour::new("kernel.commands", source::KERNELS, commands::executed).shows(
        "a stream of commands is executed as often as it is submitted, and between the packets \
         around it",
    ),
    Behaviour::new("kernel.commands.pipelines", source::KERNELS, commands::pipelines)
        .shows("a pipeline and a set are what memory says when a command names them"),
    Behaviour::new("kernel.commands.caps", source::KERNELS, commands::caps)
        .shows("a command stores what the host's Vulkan can do, and others the time"),
    Behaviour::new("kernel.commands.wait", source::KERNELS, commands::waits)
        .shows("a command waits until a processor has stored a word"),
    Behaviour::new("kernel.commands.in-a-row", source::KERNELS, row::in_a_row).shows(
        "streams that are submitted at once are executed one after the other, whatever they lack",
    ),
    Behaviour::new("kernel.commands.behind-a-fault", source::KERNELS, row::behind_a_fault)
        .shows("nothing is executed of a stream behind one that faults late"),
    Behaviour::new("kernel.commands.malformed", source::KERNELS, commands::malformed).shows(
        "what is no stream loses the queue, which says where, and nothing of it is executed",
    ),
    Behaviour::new("kernel.commands.fault", source::KERNELS, commands::faults)
        .shows("commands that reach unmapped pages lose the queue, at the exact address"),
    Behaviour::new("kernel.commands.hang", source::KMD_TDR, commands::hang)
        .shows("commands that do not end cost their context alone"),
    Behaviour::new("kernel.commands.copy-node", source::KERNELS, commands::not_on_copy_nodes)
        .shows("copy nodes execute no streams"),
    Behaviour::new("kernel.compute-node", source::KERNELS, nodes::computes)
        .shows("a Compute node runs kernels and executes streams"),
    Behaviour::new("kernel.compute-node.drawing", source::KERNELS, nodes::does_not_draw).shows(
        "a command that draws loses its queue on a Compute node, which says where, and nothing of the stream is executed",
    ),
    Behaviour::new("kernel.compute-node.frames", source::KMD_ENGINES, nodes::beside_frames)
        .shows("a kernel that runs on and on a Compute node holds up nothing on the 3D node"),
    Behaviour::new("kernel.compute-node.hang", source::KMD_TDR, nodes::hang).shows(
        "a kernel that does not end on a Compute node leaves the queues that its process has on the 3D node",
    ),
    Behaviour::new("kernel.hang", source::KMD_TDR, time::hang).shows(
        "a kernel that does not end costs its context alone, and neighbours compute throughout",
    ),
];

/// A kernel that loads from one address and stores to another, each unless it is 0. "Not offered" where kernels follow no
/// pointers.
pub(in crate::conformance) fn touch(scene: &Scene, bench: &Bench) -> Result<Kernel, Mismatch> {
    lab::bench_with_pointers(scene)?;
    bench.kernel(&lab::TOUCH)
}
