// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a bitstream begins with. Source: AV1, sections 5.3 (OBUs) and 7.5 (their order).

/// `obu_type` of a sequence header, and of what may come before it in a temporal unit.
const SEQUENCE_HEADER: u8 = 1;
const TEMPORAL_DELIMITER: u8 = 2;
const PADDING: u8 = 15;

/// Whether data begins a coded video sequence, so that a decoder needs nothing of what was before.
pub fn begins_sequence(data: &[u8]) -> bool {
    let mut rest = data;
    while let Some((kind, after)) = skip(rest) {
        match kind {
            SEQUENCE_HEADER => return true,
            TEMPORAL_DELIMITER | PADDING => rest = after,
            _ => return false,
        }
    }
    false
}

/// The type of the first OBU, and what follows it. `None` if it has no size, or is not whole.
fn skip(data: &[u8]) -> Option<(u8, &[u8])> {
    let (header, rest) = data.split_first()?;
    let [has_extension, has_size] = [2, 1].map(|bit| header >> bit & 1 == 1);
    let mut rest = if has_extension { rest.get(1..)? } else { rest };
    let mut size = 0_u64;
    for shift in (0..56).step_by(7) {
        let (byte, after) = rest.split_first().filter(|_| has_size)?;
        rest = after;
        size |= u64::from(byte & 0x7F) << shift;
        if *byte < 0x80 {
            let after = rest.get(usize::try_from(size).ok()?..)?;
            return Some((header >> 3 & 0xF, after));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::begins_sequence;

    #[test]
    fn a_sequence_header_is_found_behind_delimiters_and_nothing_else() {
        for (data, begins) in [
            (&[0x12, 0, 0x0A, 1, 9, 0x32, 0][..], true),
            (&[0x0A, 0], true),
            // With an extension, padding in front, a size in two bytes.
            (&[0x12, 0, 0x7A, 2, 7, 7, 0x0E, 0x08, 0x81, 0x00, 5], true),
            // A frame comes first.
            (&[0x12, 0, 0x32, 1, 9, 0x0A, 0], false),
            // Cut off, without a size, with one that never ends.
            (&[0x12, 0, 0x0A, 2, 9], false),
            (&[0x12, 0, 0x08, 9], false),
            (&[0x0A, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0], false),
            (&[0x0A, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F], false),
            (&[0x0A], false),
            (&[], false),
        ] {
            assert_eq!(begins_sequence(data), begins, "{data:x?}");
        }
    }
}
