//! Is the node that Slurm knows by our name this machine? Without proof nothing is written.

use super::state::Node;

/// The tolerance of a boot time, in seconds: slurmd computes it from the uptime.
const TOLERANCE: i64 = 120;

/// The identity of this machine.
#[derive(Clone, Copy, Debug)]
pub struct Own<'a> {
    /// The node name of its slurmd.
    pub name: &'a str,
    /// Its host name.
    pub hostname: &'a str,
    /// When it was booted, as its slurmd reports it, in seconds since the epoch. `None`: it cannot be read.
    pub boot_time: Option<i64>,
    /// Whether the boot time of this node matched before, in this boot: UNDRAIN makes slurmctld forget it until the
    /// next registration.
    pub proven: bool,
}

/// Why a node is not taken for this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// The first mismatch.
    pub why: String,
    /// The node was booted at another time: what was proven before is no longer true.
    pub is_other_boot: bool,
}

impl From<String> for Doubt {
    fn from(why: String) -> Self {
        Self {
            why,
            is_other_boot: false,
        }
    }
}

/// Compares the node of slurmctld with this machine.
///
/// # Errors
/// The first mismatch.
pub fn prove(state: &Node, own: Own<'_>) -> Result<(), Doubt> {
    let Own {
        name,
        hostname,
        boot_time,
        proven,
    } = own;
    if state.name != name {
        return Err(format!("requested node {name}, got {}", state.name).into());
    }
    if !same_host(&state.hostname, hostname) {
        return Err(format!("node {name} is on host {}, this is {hostname}", state.hostname).into());
    }
    match state.boot_time {
        None if proven => Ok(()),
        None => Err(format!("slurmctld has no boot time of node {name}").into()),
        Some(known) => {
            let own = boot_time.ok_or_else(|| "the boot time of this machine cannot be read".to_owned())?;
            let apart = known.abs_diff(own);
            if apart <= TOLERANCE.unsigned_abs() {
                return Ok(());
            }
            Err(Doubt {
                why: format!("boot times of node {name} and this machine differ by {apart} s"),
                is_other_boot: true,
            })
        }
    }
}

/// The host name up to its first dot.
pub fn short(hostname: &str) -> &str {
    hostname.split('.').next().unwrap_or(hostname)
}

/// Equal, or equal without the domain of one.
fn same_host(one: &str, two: &str) -> bool {
    if one.is_empty() || two.is_empty() {
        return false;
    }
    if one.contains('.') && two.contains('.') {
        one.eq_ignore_ascii_case(two)
    } else {
        short(one).eq_ignore_ascii_case(short(two))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names() {
        assert!(same_host("n0", "n0"));
        assert!(same_host("n0", "n0.cluster.example"));
        assert!(same_host("N0.cluster.example", "n0"));
        assert!(same_host("n0.a", "n0.a"));
        assert!(!same_host("n0.a", "n0.b"));
        assert!(!same_host("n0", "n1"));
        assert!(!same_host("", ""));
    }
}
