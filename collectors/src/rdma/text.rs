//! What a port's files hold. Any bytes give a value or the reason why not.

/// No file of a port that holds one value is as long as this; what fills it is not one.
pub(super) const LONGEST: usize = 128;

/// Why a file gave no value: a word for the `reason` label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// EACCES or EPERM.
    Denied,
    /// Not there any more.
    Gone,
    /// EINVAL: the driver or its firmware refused.
    Rejected,
    /// EOPNOTSUPP, or `N/A (no PMA)` as older kernels say.
    Unsupported,
    /// Any other error.
    Io,
    /// Nothing in it.
    Empty,
    /// Not what it should be: binary, negative, hexadecimal, too long, too large.
    Malformed,
    /// All ones: the driver's firmware gave a counter that it could not decode.
    AllOnes,
}

impl Reason {
    pub(super) const ALL: [Self; 8] = [
        Self::Denied,
        Self::Gone,
        Self::Rejected,
        Self::Unsupported,
        Self::Io,
        Self::Empty,
        Self::Malformed,
        Self::AllOnes,
    ];

    /// Whether a driver was asked and said no.
    pub(crate) const fn is_refusal(self) -> bool {
        matches!(self, Self::Rejected | Self::Unsupported | Self::Io)
    }

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::Gone => "gone",
            Self::Rejected => "rejected",
            Self::Unsupported => "unsupported",
            Self::Io => "io",
            Self::Empty => "empty",
            Self::Malformed => "malformed",
            Self::AllOnes => "all_ones",
        }
    }
}

/// The text without the white space around it.
fn content(bytes: &[u8]) -> Result<&[u8], Reason> {
    if bytes.len() >= LONGEST {
        return Err(Reason::Malformed);
    }
    match bytes.trim_ascii() {
        [] => Err(Reason::Empty),
        b"N/A (no PMA)" => Err(Reason::Unsupported),
        text => Ok(text),
    }
}

/// Any number of this many decimal digits fits into 64 bits.
const FIT: usize = 19;

/// The decimal digits at the beginning, and what follows them.
#[inline]
fn digits(text: &[u8]) -> Result<(u64, &[u8]), Reason> {
    let (mut number, mut rest) = (0_u64, text);
    while let [byte, after @ ..] = rest
        && byte.is_ascii_digit()
    {
        number = number.wrapping_mul(10).wrapping_add(u64::from(byte - b'0'));
        rest = after;
    }
    match text.len() - rest.len() {
        1..=FIT => Ok((number, rest)),
        // The last of 20 digits may not fit.
        20 => {
            let mut digits = text.iter().take(20).map(|byte| u64::from(byte - b'0'));
            let exact = digits.try_fold(0_u64, |n, digit| n.checked_mul(10)?.checked_add(digit));
            exact.map(|number| (number, rest)).ok_or(Reason::Malformed)
        }
        _ => Err(Reason::Malformed),
    }
}

/// A counter: decimal digits alone.
#[inline]
pub(super) fn number(bytes: &[u8]) -> Result<u64, Reason> {
    // Nearly always the digits and the end of the line, which needs no other look.
    let (number, rest) = match digits(bytes) {
        Ok((number, b"\n")) => (number, &[][..]),
        _ => digits(content(bytes)?)?,
    };
    match (number, rest) {
        (u64::MAX, []) => Err(Reason::AllOnes),
        (number, []) => Ok(number),
        _ => Err(Reason::Malformed),
    }
}

/// A state such as `4: ACTIVE`: its number.
pub(super) fn state(bytes: &[u8]) -> Result<u64, Reason> {
    match digits(content(bytes)?)? {
        (number, [b':', b' ', _, ..]) if number < 256 => Ok(number),
        _ => Err(Reason::Malformed),
    }
}

/// The state of a network interface: whether it is up. `None`: its driver does not tell.
pub(super) fn operstate(bytes: &[u8]) -> Result<Option<bool>, Reason> {
    match content(bytes)? {
        b"up" => Ok(Some(true)),
        b"unknown" => Ok(None),
        b"down" | b"lowerlayerdown" | b"notpresent" | b"dormant" | b"testing" => Ok(Some(false)),
        _ => Err(Reason::Malformed),
    }
}

/// What a link can carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PortRate {
    pub(super) bytes_per_second: u64,
    pub(super) lanes: u64,
}

/// A rate such as `400 Gb/sec (4X NDR)` or `2.5 Gb/sec (1X SDR)`.
pub(super) fn rate(bytes: &[u8]) -> Result<PortRate, Reason> {
    let (whole, rest) = digits(content(bytes)?)?;
    let (tenths, rest) = match rest {
        [b'.', tenths @ b'0'..=b'9', rest @ ..] => (u64::from(tenths - b'0'), rest),
        _ => (0, rest),
    };
    let width = rest.strip_prefix(b" Gb/sec (").ok_or(Reason::Malformed)?;
    let (lanes, rest) = digits(width)?;
    let is_width = rest.starts_with(b"X") && rest.ends_with(b")") && (1..=64).contains(&lanes);
    if !is_width || whole > 1_000_000 {
        return Err(Reason::Malformed);
    }
    // A tenth of a gigabit is 12.5 megabytes.
    let bytes_per_second = (whole * 10 + tenths) * 12_500_000;
    Ok(PortRate {
        bytes_per_second,
        lanes,
    })
}

/// Takes bytes through every reader and checks what must hold for any bytes. For fuzzing.
pub(crate) fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(n) = number(bytes) {
        assert_eq!(text.trim().parse(), Ok(n));
        assert_ne!(n, u64::MAX);
    }
    if let Ok(n) = state(bytes) {
        assert!(n < 256 && text.contains(':'));
    }
    assert!(operstate(bytes).is_err() || number(bytes).is_err());
    if let Ok(rate) = rate(bytes) {
        assert!((1..=64).contains(&rate.lanes) && rate.bytes_per_second < 126_000_000_000_000);
        assert!(text.contains(" Gb/sec ("));
    }
}

#[cfg(test)]
mod tests;
