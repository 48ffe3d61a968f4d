//! Tables that describe themselves (v1.9), packed: i32 number of attributes at 4, then for each a u64 code (type in
//! bits 23:20, id in 19:10, number of values in 9:0) and its values.

use super::{Field, HEADER, Place, Refused};

/// Where the attributes begin.
const FIRST: usize = 8;

/// The attributes whose id is known. Others are skipped by their size.
pub(super) fn places(bytes: &[u8]) -> Result<Vec<Place>, Refused> {
    let truncated = Refused::Truncated {
        have: bytes.len(),
        need: FIRST,
    };
    let number = array(bytes, HEADER).map(i32::from_le_bytes).ok_or(truncated)?;
    let number = usize::try_from(number).map_err(|_| Refused::BadAttribute(0))?;
    let mut places = Vec::new();
    let mut at = FIRST;
    for position in 0..number {
        let bad = Refused::BadAttribute(position);
        let code = array(bytes, at).map(u64::from_le_bytes).ok_or(bad)?;
        let width = width((code >> 20) & 0xF).ok_or(bad)?;
        let count = usize::from((code & 0x3FF) as u16);
        let offset = at + 8;
        at = offset + width * count;
        if at > bytes.len() {
            return Err(bad);
        }
        if let Some(field) = Field::of_attribute(((code >> 10) & 0x3FF) as u16) {
            places.push(Place {
                field,
                offset,
                width,
                count,
                stride: 0,
            });
        }
    }
    Ok(places)
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// Bytes of a value by its type: u8, s8, u16, s16, u32, s32, u64, s64.
const fn width(kind: u64) -> Option<usize> {
    match kind {
        0 | 1 => Some(1),
        2 | 3 => Some(2),
        4 | 5 => Some(4),
        6 | 7 => Some(8),
        _ => None,
    }
}
