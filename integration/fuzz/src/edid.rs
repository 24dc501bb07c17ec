// SPDX-License-Identifier: MIT OR Apache-2.0

//! The EDID of a monitor, from a file.

use bellhop_device::monitor::edid::BLOCK;
use bellhop_device::monitor::of_edid;

/// Reads bytes as an EDID, as they are and with the sums right: modes that come of it can be scanned.
pub fn edid(data: &[u8]) {
    check(data);
    let mut sealed = data.to_vec();
    sealed.truncate(data.len() / BLOCK * BLOCK);
    let blocks = sealed.as_chunks_mut::<BLOCK>().0;
    let extensions = blocks.len().saturating_sub(1);
    if let Some(base) = blocks.first_mut() {
        base[..8].copy_from_slice(&[0, 255, 255, 255, 255, 255, 255, 0]);
        base[126] = extensions as u8;
    }
    for block in blocks {
        let sum = block[..BLOCK - 1].iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
        block[BLOCK - 1] = sum.wrapping_neg();
    }
    check(&sealed);
}

fn check(bytes: &[u8]) {
    let Ok(monitor) = of_edid(bytes, 48) else { return };
    assert_eq!(monitor.edid, bytes);
    assert!(!monitor.modes.is_empty());
    for mode in monitor.modes {
        assert!(mode.width > 0 && mode.total_width >= mode.width, "{mode:?}");
        assert!(mode.height > 0 && mode.total_height >= mode.height, "{mode:?}");
        assert!(mode.refresh_numerator > 0 && mode.refresh_denominator > 0, "{mode:?}");
        assert_ne!(mode.pixel_rate(), u64::MAX);
    }
}
