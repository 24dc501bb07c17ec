// SPDX-License-Identifier: MIT OR Apache-2.0

use super::edid::{BLOCK, EdidError, MAX_MODES};
use super::*;
use proptest::prelude::*;

fn description(modes: &[&str]) -> Description {
    Description {
        name: "VIRTUAL-1".into(),
        connector: ConnectorKind::VIRTUAL,
        modes: modes.iter().map(|mode| Mode::parse(mode).unwrap()).collect(),
        size_mm: (598, 336),
        variable_refresh: 0,
    }
}

fn rates(monitor: &Monitor) -> Vec<(u32, u32, u32, u32)> {
    let rate = |mode: &TargetMode| {
        (mode.width, mode.height, mode.refresh_numerator, mode.refresh_denominator)
    };
    monitor.modes.iter().map(rate).collect()
}

#[test]
fn a_monitor_has_its_modes_and_the_one_that_all_have() {
    let monitor = description(&["1920x1080@59.94", "1280x720@60"]).make().unwrap();
    assert_eq!(
        rates(&monitor),
        [(1920, 1080, 60_000, 1001), (1280, 720, 60, 1), (640, 480, 60_000, 1001)]
    );
    assert_eq!(monitor.modes.iter().map(|mode| mode.flags).collect::<Vec<_>>(), [1, 0, 0]);
    assert_eq!(monitor.edid.len(), BLOCK);
    // 148.35 MHz, 1920 visible and 280 blank.
    assert_eq!(monitor.edid[54..59], [0xf3, 0x39, 0x80, 0x18, 0x71]);
}

#[test]
fn a_mode_that_is_too_fast_for_a_detailed_timing_is_in_a_block_of_display_id() {
    let monitor = description(&["3840x2160@144", "1920x1080@60"]).make().unwrap();
    assert_eq!((monitor.edid.len(), monitor.edid[126]), (2 * BLOCK, 1));
    assert_eq!(monitor.edid[BLOCK], 0x70);
    let read = of_edid(&monitor.edid, 0).unwrap();
    assert_eq!((read.modes[0].width, read.modes[0].flags), (3840, TARGET_MODE_PREFERRED));
}

#[test]
fn variable_refresh_is_of_modes_that_are_faster() {
    let variable =
        Description { variable_refresh: 60, ..description(&["1920x1080@144", "1920x1080@60"]) };
    let monitor = variable.make().unwrap();
    let variable: Vec<_> =
        monitor.modes.iter().map(|mode| (mode.flags, mode.min_refresh)).collect();
    assert_eq!(variable, [(3, 60_000), (0, 0), (0, 0)]);
}

#[test]
fn what_cannot_be_is_refused() {
    let many: Vec<_> = (0..=MAX_MODES).map(|more| format!("{}x600@60", 800 + more)).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    assert_eq!(description(&many).make(), Err(EdidError::TooMany(16).into()));
    assert!(description(&many[1..]).make().is_ok());
    let mut impossible = description(&[]);
    impossible.modes.push(Mode { width: 640, height: 480, numerator: 3000, denominator: 1 });
    let why = impossible.make().unwrap_err().to_string();
    assert!(why.starts_with("640x480@3000 is not possible"), "{why}");
}

#[test]
fn a_damaged_edid_says_what_is_wrong() {
    let edid = description(&["1920x1080@60"]).make().unwrap().edid;
    let wrong = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut edid = edid.clone();
        change(&mut edid);
        edid::parse(&edid).unwrap_err()
    };
    assert_eq!(wrong(&|edid| edid.truncate(127)), EdidError::Length(127));
    assert_eq!(wrong(&|edid| edid.clear()), EdidError::Length(0));
    assert_eq!(wrong(&|edid| edid.extend([0; BLOCK])), EdidError::Length(256));
    assert_eq!(wrong(&|edid| edid[1] = 0), EdidError::Header);
    assert_eq!(wrong(&|edid| edid[20] ^= 1), EdidError::Checksum(0));
}

/// What an EDID promises beyond 8 bits of sRGB, which is all that a display has.
fn promised(edid: &[u8]) -> Option<&'static str> {
    let (blocks, _) = edid.as_chunks::<BLOCK>();
    let [base, extensions @ ..] = blocks else { return Some("no block") };
    // E-EDID 1.4, table 3.11: bits 4 to 6 of a digital input. Earlier revisions say nothing there.
    if base[19] >= 4 && base[20] >> 4 & 7 != 2 {
        return Some("another depth than 8 bits");
    }
    for block in extensions {
        // CTA-861-H, section 7.5: blocks of data, each with its length; the extended ones have a tag of their own.
        let mut data = if block[0] == 2 { &block[4..usize::from(block[2])] } else { &[][..] };
        while let [head, rest @ ..] = data {
            let (own, next) = rest.split_at(usize::from(head & 0x1f));
            match (head >> 5, own.first()) {
                (7, Some(5)) => return Some("colorimetry"),
                (7, Some(6)) => return Some("high dynamic range"),
                _ => data = next,
            }
        }
        // DisplayID 1.3, section 4.9: the depths that an interface has, of which bit 1 is 8 bits.
        let interface =
            block[5..].windows(13).find(|data| block[0] == 0x70 && data[..3] == [0x0f, 0, 10]);
        if interface.is_some_and(|data| data[5] != 2) {
            return Some("another depth than 8 bits of RGB");
        }
    }
    None
}

/// Modes that a person could write.
fn any_mode() -> impl Strategy<Value = Mode> {
    (16u32..=8192, 16u32..=8192, 23u32..=240)
        .prop_map(|(width, height, rate)| Mode::parse(&format!("{width}x{height}@{rate}")).unwrap())
}

proptest! {
    #[test]
    fn an_edid_tells_all_modes_to_the_precision_of_its_clock(
        modes in proptest::collection::vec(any_mode(), 1..=MAX_MODES),
        hdmi: bool, width in 0u32..5000, variable_refresh in 0u32..100, name: String,
    ) {
        let connector = if hdmi { ConnectorKind::HDMI } else { ConnectorKind::DISPLAYPORT };
        let description = Description { name, connector, modes, size_mm: (width, 300), variable_refresh };
        let Ok(made) = description.make() else { return Ok(()) };
        let read = of_edid(&made.edid, variable_refresh).unwrap();
        prop_assert_eq!(made.edid.len() % BLOCK, 0);
        prop_assert_eq!(promised(&made.edid), None);
        let sides = |mode: &TargetMode| (mode.width, mode.height, mode.total_width, mode.total_height);
        for mode in &made.modes {
            let rate = |mode: &TargetMode| f64::from(mode.refresh_numerator) / f64::from(mode.refresh_denominator);
            let close = |other: &&TargetMode| {
                let unit = 10_000.0 / f64::from(mode.total_width) / f64::from(mode.total_height);
                sides(other) == sides(mode) && (rate(other) - rate(mode)).abs() <= unit.max(0.06)
            };
            prop_assert!(read.modes.iter().any(|other| close(&other)), "{:?} is not in {:?}", mode, read.modes);
        }
        let (first, read) = (&made.modes[0], &read.modes[0]);
        prop_assert_eq!(sides(first), sides(read), "the preferred one");
    }

    #[test]
    fn no_bytes_are_more_than_an_error(mut bytes in proptest::collection::vec(any::<u8>(), 0..=3 * BLOCK), tags: [u8; 2]) {
        // As they are, and with all that lets them pass for an EDID.
        let _ = edid::parse(&bytes);
        let blocks = bytes.len() / BLOCK;
        bytes.truncate(blocks * BLOCK);
        if let Some(base) = bytes.first_chunk_mut::<BLOCK>() {
            base[..8].copy_from_slice(&[0, 255, 255, 255, 255, 255, 255, 0]);
            base[126] = (blocks - 1) as u8;
        }
        for (block, place) in bytes.as_chunks_mut::<BLOCK>().0.iter_mut().zip(0..) {
            if place > 0 {
                block[0] = if tags[place - 1] % 2 == 0 { 2 } else { 0x70 };
            }
            let sum = block[..127].iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
            block[127] = sum.wrapping_neg();
        }
        for mode in of_edid(&bytes, 48).map(|monitor| monitor.modes).unwrap_or_default() {
            prop_assert!(mode.total_width >= mode.width && mode.refresh_numerator > 0);
        }
    }
}
