//! The NVLinks or XGMI links of each GPU: how many are up, and how many usually are. Some boards leave links unused.

use collectors::Metric;
use collectors::amd::metrics as a;
use collectors::gpu::metrics as m;
use collectors::nvidia::metrics as n;

use super::gpu::{Gpu, whole};
use super::known::Known;

/// The links of one maker's GPUs.
#[derive(Debug)]
pub struct Kind {
    /// The number of links that are up.
    pub up: &'static Metric,
    all: &'static Metric,
    /// Their name, for output.
    pub name: &'static str,
}

static NVLINK: Kind = Kind {
    up: &n::NVLINK_LINKS_UP,
    all: &n::NVLINK_LINKS,
    name: "NVLinks",
};

static XGMI: Kind = Kind {
    up: &a::XGMI_LINKS_UP,
    all: &a::XGMI_LINKS,
    name: "XGMI links",
};

/// The links of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Links {
    /// How many are up.
    pub up: u64,
    /// How many usually are: the highest number so far, the number of at least 3 peers that all agree, or what the site
    /// expects.
    pub usual: u64,
    /// All that the GPU has.
    all: u64,
    /// The usual number is that of peers or of the site, not only of this GPU.
    is_common: bool,
}

impl Links {
    /// Whether the usual number is that of peers or of the site, not only of this GPU.
    pub const fn is_common(&self) -> bool {
        self.is_common
    }

    /// Whether every link that the board uses is up. The earlier state of the GPU alone does not show which those are.
    pub const fn is_whole(&self) -> bool {
        self.up > 0 && self.up >= self.usual && (self.up == self.all || self.is_common)
    }
}

/// The kind of links of a GPU.
pub fn kind(gpu: &Gpu<'_>) -> &'static Kind {
    if gpu.one(XGMI.all).is_some() {
        &XGMI
    } else {
        &NVLINK
    }
}

/// The number of links that the site expects of a GPU. `nvlinks`: of each GPU that may have NVLinks.
pub fn wanted(gpu: &Gpu<'_>, nvlinks: Option<u64>) -> u64 {
    let is_nvlink = std::ptr::eq(kind(gpu), &NVLINK);
    nvlinks.filter(|_| is_nvlink).unwrap_or(0)
}

/// Whether a GPU was read and has no link.
pub fn has_none(gpu: &Gpu<'_>) -> bool {
    gpu.is_up() == Some(true) && whole(gpu.one(kind(gpu).all)) == Some(0)
}

/// Whether MIG has taken every link down, as of an A100; later GPUs keep them.
pub fn are_off(gpu: &Gpu<'_>) -> bool {
    let is_ampere = gpu.architecture() == Some("ampere");
    is_ampere && gpu.value(&m::MIG_MODE) == Some(1.0) && whole(gpu.one(kind(gpu).up)) == Some(0)
}

/// Whether MIG may have taken down the other end of links of this GPU: on a board without NVSwitches, those to an A100 with MIG.
fn may_lead_to_off(gpus: &[Gpu<'_>]) -> bool {
    let is_switched = |gpu: &Gpu<'_>| {
        gpu.with(&n::NVLINK_LINK_INFO, &[("remote_kind", "switch")])
            .is_some()
    };
    gpus.iter().any(are_off) && !gpus.iter().any(is_switched)
}

/// Links up and all links. `None`: unreadable, or taken down by MIG.
fn count(gpu: &Gpu<'_>) -> Option<(u64, u64)> {
    let up = whole(gpu.one(kind(gpu).up))?;
    let all = whole(gpu.one(kind(gpu).all))?;
    (gpu.is_up() == Some(true) && up <= all && !are_off(gpu)).then_some((up, all))
}

/// As many other GPUs say what is usual.
pub const PEERS: usize = 3;

/// The number of at least [`PEERS`] GPUs that all agree.
fn agreed(mut counts: impl Iterator<Item = u64> + Clone) -> Option<u64> {
    let (seen, first) = (counts.clone().count(), counts.next()?);
    (seen >= PEERS && counts.all(|count| count == first)).then_some(first)
}

/// Notes the links of each GPU. Returns whether a highest number changed.
pub fn note(gpus: &mut [Gpu<'_>], known: &mut Known, nvlinks: Option<u64>) -> bool {
    if may_lead_to_off(gpus) {
        return false;
    }
    let counts: Vec<Option<(u64, u64)>> = gpus.iter().map(count).collect();
    let products = gpus.iter().map(|gpu| gpu.product().map(str::to_owned));
    let products: Vec<Option<String>> = products.collect();
    let mut changed = false;
    for (at, gpu) in gpus.iter_mut().enumerate() {
        let Some((up, all)) = counts.get(at).copied().flatten() else {
            continue;
        };
        let (place, wanted) = (gpu.place().to_owned(), wanted(gpu, nvlinks));
        // A GPU without links is compared only with its own kind.
        let is_same = |other: usize| products.get(other) == products.get(at);
        let is_alike = |other: usize| all > 0 || is_same(other);
        let others = counts
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != at && is_alike(*other));
        let peers = others
            .filter_map(|(other, count)| Some((other, (*count)?)))
            .filter(|(_, (_, all))| *all > 0 || wanted > 0);
        let peers: Vec<(bool, u64)> = peers.map(|(other, (up, _))| (is_same(other), up)).collect();
        let common = agreed(peers.iter().map(|(_, up)| *up));
        let best = known.links.get(&place).copied().unwrap_or(0).max(up);
        let usual = best.max(common.unwrap_or(0));
        // A board without links, unless it had some, its peers have, or the site expects some.
        if all == 0 && usual == 0 && wanted == 0 {
            continue;
        }
        changed |= known.links.raise(place, up);
        // A board with fewer links in the place of another, unless those of its product have more.
        let of_product = agreed(peers.iter().filter(|(is_same, _)| *is_same).map(|(_, up)| *up));
        let usual = if all > 0 {
            usual.min(all).max(of_product.unwrap_or(0))
        } else {
            usual
        };
        gpu.links = Some(Links {
            up,
            usual: usual.max(wanted),
            all,
            is_common: common.is_some() || wanted > 0,
        });
    }
    changed
}
