//! Where a scenario has the value of a field. Looked up once: programs ask for the same fields again and again, and
//! measurements must not show the stand-in's own search.

use std::ffi::c_uint;
use std::sync::LazyLock;

use crate::field_ids::{FIELDS, Field};
use crate::scenario::keys::Key;
use crate::scenario::same::SAME;
use crate::scenario::{LinkKey, Of, link_field};

/// Where the value of a field is.
pub(super) enum Place {
    /// The value of this key.
    Plain(Key),
    /// The same, if ECC is on.
    Ecc(Key),
    /// The number of retired pages.
    Retired {
        /// For double-bit errors.
        is_double: bool,
    },
    /// A value of links.
    Link(LinkValue),
    /// A scenario cannot have it elsewhere.
    Nowhere,
}

/// A value of links.
pub(super) struct LinkValue {
    /// Its key; `None`: a scenario cannot have it.
    pub(super) key: Option<LinkKey>,
    /// Its other key.
    pub(super) older: Option<LinkKey>,
    /// A bit error ratio: the greatest stands for all links.
    pub(super) is_ratio: bool,
    /// `None`: as the caller says.
    pub(super) of: Option<Of>,
}

impl Of {
    /// As the caller of a field says.
    pub(super) fn scope(scope: c_uint) -> Self {
        match scope {
            c_uint::MAX => Self::All,
            link => Self::Link(link as usize),
        }
    }
}

static PLACES: LazyLock<Box<[Place]>> = LazyLock::new(|| FIELDS.iter().map(find).collect());

/// That of a field.
pub(super) fn of(field: &Field) -> &'static Place {
    // The field with id n is at n - 1.
    let place = (field.id as usize).checked_sub(1).and_then(|at| PLACES.get(at));
    place.unwrap_or(&Place::Nowhere)
}

fn find(field: &Field) -> Place {
    let name = field.name.strip_prefix("DEV_").unwrap_or(field.name);
    match name {
        "NVLINK_LINK_COUNT" => return Place::Plain(Key::NvlinkLinks),
        "RETIRED_SBE" => return Place::Retired { is_double: false },
        "RETIRED_DBE" => return Place::Retired { is_double: true },
        _ => {}
    }
    if let Some(rest) = name.strip_prefix("NVLINK_") {
        return Place::Link(link(rest));
    }
    if let Some(path) = name.strip_prefix("ECC_").and_then(ecc_path) {
        return Key::find(&path).map_or(Place::Nowhere, Place::Ecc);
    }
    let same = SAME.iter().find(|(n, _)| *n == name);
    same.map_or(Place::Nowhere, |(_, key)| Place::Plain(*key))
}

/// `SBE_VOL_L1`.
fn ecc_path(rest: &str) -> Option<String> {
    let mut words = rest.split('_');
    let error = match words.next()? {
        "SBE" => "corrected",
        "DBE" => "uncorrected",
        _ => return None,
    };
    let counter = match words.next()? {
        "VOL" => "volatile",
        "AGG" => "aggregate",
        _ => return None,
    };
    let location = match words.next()? {
        "TOTAL" => "total",
        "L1" => "l1",
        "L2" => "l2",
        "DEV" => "device",
        "REG" => "register",
        "TEX" => "texture",
        "CBU" => "cbu",
        _ => return None,
    };
    Some(format!("ecc.{counter}.{error}.{location}"))
}

fn link(rest: &str) -> LinkValue {
    let (base, of) = link_field(rest);
    let base = base.to_ascii_lowercase();
    let of = of.or((base == "speed_mbps_common").then_some(Of::Link(0)));
    let name = match base.as_str() {
        "get_speed" | "speed_mbps_common" => "speed_mbps",
        "get_state" => "state",
        "get_version" => "version",
        "get_power_state" => "power_state",
        other => other,
    };
    let older = match name {
        "error_dl_replay" => Some("replay_error_count"),
        "error_dl_recovery" => Some("recovery_error_count"),
        "error_dl_crc" => Some("crc_flit_error_count"),
        _ => None,
    };
    LinkValue {
        key: LinkKey::find(name),
        older: older.and_then(LinkKey::find),
        is_ratio: name.ends_with("_ber"),
        of,
    }
}
