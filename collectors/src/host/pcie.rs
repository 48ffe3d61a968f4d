//! Generations of PCIe.

/// Transfers per second and lane by generation, from the first (PCI Express Base Specification).
const SPEEDS: [u64; 7] = [
    2_500_000_000,
    5_000_000_000,
    8_000_000_000,
    16_000_000_000,
    32_000_000_000,
    64_000_000_000,
    128_000_000_000,
];

/// The first generation whose links may turn lanes off while no transfer needs them (L0p), at full speed.
pub const L0P_GENERATION: u32 = 6;

/// The speed of such a link, in 10^9 transfers per second, and in transfers per second.
pub const L0P_GIGATRANSFERS: u32 = 64;
pub(crate) const L0P_SPEED: u64 = 64_000_000_000;

/// The generation of a link of this speed, in transfers per second.
pub fn generation(speed: u64) -> Option<u64> {
    let at = SPEEDS.iter().position(|s| *s == speed)?;
    u64::try_from(at + 1).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_speed_of_a_link_names_its_generation() {
        for (tenths, expected) in [
            (25, Some(1)),
            (320, Some(5)),
            (640, Some(6)),
            (1280, Some(7)),
            (0, None),
            (33, None),
        ] {
            assert_eq!(generation(tenths * 100_000_000), expected, "{tenths}");
        }
        assert_eq!(generation(L0P_SPEED), Some(u64::from(L0P_GENERATION)));
        assert_eq!(L0P_SPEED, 1_000_000_000 * u64::from(L0P_GIGATRANSFERS));
    }
}
