//! The collectors of a request or a reading.

/// The name by which the daemon's own families are chosen, beside the collectors'.
pub const OWN: &str = "nodewarden";

/// The selected collectors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Filter {
    /// All.
    #[default]
    All,
    /// These only.
    Only(Vec<String>),
    /// All but these.
    Except(Vec<String>),
}

impl Filter {
    /// Whether the collector of that name, or [`OWN`], is shown.
    pub fn takes(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.iter().any(|n| n == name),
            Self::Except(names) => names.iter().all(|n| n != name),
        }
    }
}
