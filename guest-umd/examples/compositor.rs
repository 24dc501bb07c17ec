// SPDX-License-Identifier: MIT OR Apache-2.0

//! A compositor, and programs whose pictures it shows, each in a strip of the screen: `compositor 600 SOCKET`, and by whatever users
//! `compositor client ff0000 SOCKET`. They run behind one broker.
//!
//! A picture goes from program to screen by GPU copies alone, and a program that stops stops nobody else.

use bellhop_guest_umd::display::{Path, PresentMode, Surface, SwapChain, Topology};
use bellhop_guest_umd::protocol::control::allocation::SegmentSet;
use bellhop_guest_umd::protocol::control::fence::NtHandle;
use bellhop_guest_umd::protocol::control::gpu_va::Protection;
use bellhop_guest_umd::{Adapter, CommandBuffer, Device, Fence, GpuMapping};
use std::fs::{Permissions, set_permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use std::{env, thread};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const STRIPS: u32 = 4;
const TIMEOUT: Duration = Duration::from_secs(10);
const HOUR: Duration = Duration::from_secs(3600);

fn main() -> Result<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["client", colour, socket] => client(u32::from_str_radix(colour, 16)?, socket),
        [frames, socket] => compositor(frames.parse()?, socket),
        _ => Err("compositor FRAMES SOCKET, or compositor client RRGGBB SOCKET".into()),
    }
}

/// A program's picture, as the compositor has it.
struct Window {
    picture: GpuMapping,
    /// Gets a picture's number when the compositor's GPU work has copied it, so that the program may draw on.
    taken: Fence,
    /// The last picture that is drawn, and who waits for the next one after each that is composed.
    ready: Arc<AtomicU64>,
    next: Sender<()>,
    composed: u64,
}

fn compositor(frames: u32, socket: &str) -> Result<()> {
    let adapter = Adapter::open_default()?;
    let display = adapter.display()?;
    let topology = display.complete(&Topology::new().path(Path::new(0, 0)))?;
    display.commit(&topology)?;
    let surface = Surface::from(topology.paths()[0].get().source_mode);
    let strip = u64::from(surface.pitch()?) * u64::from(surface.height / STRIPS);

    let device = adapter.create_device()?;
    let mut queue = device.create_context(0)?.create_user_mode_queue(4096)?;
    let mut chain = SwapChain::new(&display, &device, 0, surface, 3)?;
    let mut commands = CommandBuffer::many(&device, 4096, 3)?;
    // The last picture of each program, which is shown until the next one is there.
    let desktop = device.allocation(surface.size()?).segments(SegmentSet::PRIVATE).create()?;
    desktop.make_resident()?;
    let desktop = desktop.map(Protection::WRITE)?;

    let (sender, newcomers) = channel();
    let listener = UnixListener::bind(socket)?;
    set_permissions(socket, Permissions::from_mode(0o666))?;
    let its_device = device.clone();
    thread::spawn(move || {
        for program in listener.incoming().flatten().take(STRIPS as usize) {
            let (device, sender) = (its_device.clone(), sender.clone());
            // Each has a thread, so that none waits for another.
            thread::spawn(move || greet(program, &device, strip, &sender));
        }
    });

    let mut windows: Vec<Window> = Vec::new();
    for frame in 0..frames {
        // The guest's agent asks before it changes what monitors show.
        if let Some(wanted) = display.next_topology_wanted(Duration::ZERO)? {
            display.refuse(wanted.request, "pictures of programs are shown")?;
        }
        windows.extend(newcomers.try_iter());
        let image = chain.acquire(TIMEOUT)?;
        let commands = &mut commands[image.index()];
        commands.reset();
        if frame == 0 {
            commands.fill(desktop.gpu_va(), surface.size()?, 0x0020_3040)?;
        }
        for (window, at) in windows.iter_mut().zip(0..) {
            let ready = window.ready.load(Ordering::Acquire);
            if ready > window.composed {
                commands.copy(window.picture.gpu_va(), desktop.gpu_va() + at * strip, strip)?;
                commands.signal_fence(&window.taken, ready)?;
                window.composed = ready;
                // Its thread ends with the program.
                let _ = window.next.send(());
            }
        }
        commands.copy(desktop.gpu_va(), chain.primary(&image).gpu_va(), surface.size()?)?;
        let composed = queue.submit(commands)?;
        chain.present(image, PresentMode::Vsync, &[(queue.progress_fence(), composed)])?;
    }
    chain.finish(TIMEOUT)?;
    let statistics = chain.statistics()?;
    println!("{} frames presented, {} shown", statistics.presented, statistics.shown);
    let pictures: Vec<_> = windows.iter().map(|window| window.composed.to_string()).collect();
    println!("pictures of programs: {}", pictures.join(", "));
    Ok(std::fs::remove_file(socket)?)
}

/// Learns the names of what a program shares, has the compositor show it, and then waits for one picture after another. What a
/// program says is checked by whoever opens it; what it signals can end its own pictures alone.
fn greet(program: UnixStream, device: &Device, strip: u64, to: &Sender<Window>) -> Result<()> {
    program.set_read_timeout(Some(TIMEOUT))?;
    writeln!(&program, "{strip}")?;
    let mut names = String::new();
    BufReader::new((&program).take(100)).read_line(&mut names)?;
    let names: Vec<_> =
        names.split_whitespace().map(str::parse).collect::<std::result::Result<_, _>>()?;
    let [picture, drawn, taken] = names[..] else { return Err("not three names".into()) };
    let picture = device.open_shared_allocation(NtHandle(picture))?;
    if picture.size() < strip {
        return Err("the picture is too small".into());
    }
    picture.make_resident()?;
    let picture = picture.map(Protection::empty())?;
    // Has a picture's number when the program's GPU work has drawn it.
    let drawn = device.open_fence(NtHandle(drawn))?;
    let taken = device.open_fence(NtHandle(taken))?;
    let (ready, (next, composed)) = (Arc::new(AtomicU64::new(0)), channel());
    let window = Window { picture, taken, ready: Arc::clone(&ready), next, composed: 0 };
    to.send(window)?;
    for number in 1.. {
        drawn.wait(number, HOUR)?;
        ready.store(number, Ordering::Release);
        composed.recv()?;
    }
    Ok(())
}

/// Draws pictures of one colour, which fades in and out, as fast as the compositor shows them.
fn client(colour: u32, socket: &str) -> Result<()> {
    let mut compositor = BufReader::new(UnixStream::connect(socket)?);
    let mut strip = String::new();
    compositor.read_line(&mut strip)?;
    let strip = strip.trim().parse::<u64>()?.next_multiple_of(4096);

    let device = Adapter::open_default()?.create_device()?;
    let mut queue = device.create_context(0)?.create_user_mode_queue(4096)?;
    let mut commands = CommandBuffer::new(&device, 4096)?;
    let shared = device.allocation(strip).segments(SegmentSet::PRIVATE).shared().create()?;
    shared.make_resident()?;
    let picture = shared.map(Protection::WRITE)?;
    let [drawn, taken] = [(); 2].map(|()| device.fence(0).shared().create());
    let (drawn, taken) = (drawn?, taken?);
    let names = (shared.share()?.0, drawn.share()?.0, taken.share()?.0);
    writeln!(compositor.get_mut(), "{} {} {}", names.0, names.1, names.2)?;

    let count = Arc::new(AtomicU64::new(0));
    let pictures = Arc::clone(&count);
    thread::spawn(move || {
        // The compositor says no more: this returns when it ends.
        let _ = compositor.read_to_end(&mut Vec::new());
        println!("{} pictures", pictures.load(Ordering::Relaxed));
        std::process::exit(0);
    });
    for number in 1.. {
        commands.reset();
        commands.wait_fence(&taken, number - 1)?;
        let shade = number as u32 % 16 * 0x0001_0101;
        commands.fill(picture.gpu_va(), strip, (colour & 0x00F0_F0F0) | shade)?;
        commands.signal_fence(&drawn, number)?;
        let value = queue.submit(&mut commands)?;
        queue.progress_fence().wait(value, HOUR)?;
        count.store(number, Ordering::Relaxed);
    }
    Ok(())
}
