// SPDX-License-Identifier: MIT OR Apache-2.0

//! EDID: what a monitor tells of itself.
//!
//! The base block is E-EDID 1.4. Signals that do not fit into it follow in a block of CTA-861, which also has what HDMI
//! needs, and signals that are too fast for both in blocks of DisplayID.

mod base;
pub(super) mod content;
mod cta;
mod display_id;
mod timing;

use super::mode::Mode;
use super::signal::Signal;
use bellhop_protocol::control::display::ConnectorKind;
pub use content::BLOCK;
use content::{Block, Edid};

/// Most modes of a monitor that is made here.
pub const MAX_MODES: usize = 16;

/// Why an EDID cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EdidError {
    /// Its length is wrong.
    #[error(
        "an EDID is 1 to 256 blocks of 128 bytes, as many as its byte 126 says and one more; this is {0} bytes"
    )]
    Length(usize),
    /// It is something else.
    #[error("it is no EDID: it does not begin with 00 ff ff ff ff ff ff 00")]
    Header,
    /// A block is damaged.
    #[error("the checksum of block {0} is wrong")]
    Checksum(usize),
    /// Too many modes.
    #[error("at most {0} modes fit into an EDID")]
    TooMany(usize),
    /// It has no mode that can be read.
    #[error("it has no detailed timing that can be scanned")]
    NoMode,
}

/// Which block tells of which signal.
struct Placement<'a> {
    base: Vec<&'a Signal>,
    cta: Vec<&'a Signal>,
    display_id: Vec<&'a Signal>,
}

impl Edid<'_> {
    pub(super) fn encode(&self) -> Result<Vec<u8>, EdidError> {
        // The one that every monitor has is among them.
        if self.signals.len() > MAX_MODES + 1 {
            return Err(EdidError::TooMany(MAX_MODES));
        }
        let placement = self.place();
        let needs_cta = self.connector == ConnectorKind::HDMI;
        let cta =
            (needs_cta || !placement.cta.is_empty()).then(|| cta::encode(self, &placement.cta));
        let display_id = placement.display_id.chunks(display_id::TIMINGS);
        let display_id = display_id.map(|signals| display_id::encode(self, signals));
        let mut extensions: Vec<_> = cta.into_iter().chain(display_id).collect();
        let mut blocks = vec![base::encode(self, &placement.base, extensions.len())];
        blocks.append(&mut extensions);
        blocks.iter_mut().for_each(seal);
        Ok(blocks.concat())
    }

    fn place(&self) -> Placement<'_> {
        let fail_safe = Signal::of(&Mode::FAIL_SAFE);
        let is_fail_safe = |signal: &&Signal| Some(**signal) == fail_safe;
        // That one is said with a bit, unless it is needed as the one that is preferred.
        let (fits, display_id): (Vec<&Signal>, Vec<&Signal>) =
            self.signals.iter().filter(|s| !is_fail_safe(s)).partition(|s| timing::fits(s));
        let display_id = display_id.into_iter().filter(|signal| !cta::has_code(self, signal));
        let mut fits = fits.into_iter();
        let mut base: Vec<_> = fits.by_ref().take(base::TIMINGS).collect();
        if base.is_empty() {
            base.extend(self.signals.iter().find(is_fail_safe));
        }
        let cta: Vec<_> = fits.by_ref().take(cta::room(self)).collect();
        let display_id = display_id.chain(fits).collect();
        Placement { base, cta, display_id }
    }
}

/// Writes the checksum.
fn seal(block: &mut Block) {
    let sum = block.iter().take(BLOCK - 1).fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    block[BLOCK - 1] = sum.wrapping_neg();
}

/// The signals of an EDID that can be scanned, the preferred one first.
///
/// # Errors
/// If it is damaged, or has none.
pub fn parse(bytes: &[u8]) -> Result<Vec<Signal>, EdidError> {
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    let [base, extensions @ ..] = blocks else { return Err(EdidError::Length(bytes.len())) };
    if !rest.is_empty() || extensions.len() != usize::from(base[126]) {
        return Err(EdidError::Length(bytes.len()));
    }
    if !base.starts_with(&base::HEADER) {
        return Err(EdidError::Header);
    }
    let is_wrong = |block: &Block| block.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)) != 0;
    if let Some(place) = blocks.iter().position(is_wrong) {
        return Err(EdidError::Checksum(place));
    }
    let mut signals = base::parse(base);
    for block in extensions {
        match block[0] {
            cta::TAG => signals.extend(cta::parse(block)),
            display_id::TAG => {
                for (signal, is_preferred) in display_id::parse(block) {
                    if is_preferred { signals.insert(0, signal) } else { signals.push(signal) }
                }
            }
            _ => {}
        }
    }
    signals.extend(base::established(base));
    let mut seen = Vec::new();
    signals.retain(|signal| {
        // Two blocks may tell of one mode, with the clock rounded or not.
        let mode =
            (signal.horizontal.active, signal.vertical.active, signal.total(), signal.clock());
        !seen.contains(&mode) && {
            seen.push(mode);
            true
        }
    });
    if signals.is_empty() { Err(EdidError::NoMode) } else { Ok(signals) }
}
