//! A GPU of a scenario, from its table.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use anyhow::{Context, Result, bail, ensure};
use serde::de::DeserializeOwned;

use super::gpm;
use super::keys::{KEYS, Key};
use super::part::{MigDevice, Process, Profile};
use super::value::{Time, Value};
use crate::field_ids::{self, FIELDS};

/// A GPU.
#[derive(Clone, Debug)]
pub struct Gpu {
    values: Vec<Option<Value>>,
    /// By the older number of the field.
    pub fields: BTreeMap<u32, Value>,
    /// By their number. Those without values of their own share one.
    pub links: Vec<Arc<Link>>,
    /// By the id of the metric.
    pub gpm: BTreeMap<u32, Value>,
    /// What uses it.
    pub processes: Vec<Process>,
    /// Addresses of pages that were retired for many single-bit errors.
    pub retired_sbe: Vec<u64>,
    /// Addresses of pages that were retired for a double-bit error.
    pub retired_dbe: Vec<u64>,
    /// MIG devices, by the name of the layout.
    pub layouts: BTreeMap<String, Vec<MigDevice>>,
    /// The layout at first.
    pub layout: Option<String>,
    /// What GPU instances can be.
    pub profiles: Vec<Profile>,
}

impl Gpu {
    /// From `[gpu]`, overridden by the GPU's own table.
    ///
    /// # Errors
    /// On an unknown key, or a value that cannot be.
    pub fn new(mut table: toml::Table) -> Result<Self> {
        let fields: BTreeMap<String, Value> = take(&mut table, &["fields"])?;
        let mut by_id = BTreeMap::new();
        for (name, value) in fields {
            let field = field_ids::by_name(&name).with_context(|| format!("fields: no field {name}"))?;
            by_id.insert(field.id, value);
        }
        let each: BTreeMap<String, Value> = take(&mut table, &["nvlink", "each"])?;
        let own: BTreeMap<String, BTreeMap<String, Value>> = take(&mut table, &["nvlink", "link"])?;
        let metrics: BTreeMap<String, Value> = take(&mut table, &["gpm", "metrics"])?;
        let mut gpu = Self {
            values: vec![None; KEYS.len()],
            fields: by_id,
            links: Vec::new(),
            gpm: metric_ids(metrics).context("gpm.metrics")?,
            processes: take(&mut table, &["processes"])?,
            retired_sbe: take(&mut table, &["retired", "sbe"])?,
            retired_dbe: take(&mut table, &["retired", "dbe"])?,
            layouts: take(&mut table, &["mig", "layouts"])?,
            layout: take(&mut table, &["mig", "layout"])?,
            profiles: take(&mut table, &["mig", "profiles"])?,
        };
        gpu.plain("", table)?;
        gpu.links(each, own).context("nvlink")?;
        for layout in gpu.layouts.values() {
            for device in layout {
                metric_ids(device.gpm.clone()).with_context(|| format!("{}: gpm", device.uuid))?;
            }
        }
        if let Some(layout) = &gpu.layout {
            ensure!(gpu.layouts.contains_key(layout), "mig.layout: no layout {layout}");
        }
        Ok(gpu)
    }

    fn plain(&mut self, before: &str, table: toml::Table) -> Result<()> {
        for (word, value) in table {
            let path = if before.is_empty() {
                word
            } else {
                format!("{before}.{word}")
            };
            match (Key::find(&path), value) {
                (Some(key), value) => {
                    let value: Value = value
                        .try_into()
                        .with_context(|| format!("{path}: no value that can be"))?;
                    ensure!(
                        value.text().is_some() == key.is_text(),
                        "{path}: expected {}, found {value:?}",
                        key.doc()
                    );
                    self.values[key as usize] = Some(value);
                }
                (None, toml::Value::Table(below)) => self.plain(&path, below)?,
                (None, _) => bail!("{path}: no such key"),
            }
        }
        Ok(())
    }

    fn links(
        &mut self,
        each: BTreeMap<String, Value>,
        own: BTreeMap<String, BTreeMap<String, Value>>,
    ) -> Result<()> {
        let count = self.int(Key::NvlinkLinks, Time::default()).unwrap_or(0);
        let each = Arc::new(Link::new(each)?);
        self.links = (0..usize::try_from(count)?).map(|_| Arc::clone(&each)).collect();
        for (number, values) in own {
            let link: usize = number.parse().with_context(|| format!("link.{number}"))?;
            let link = self.links.get_mut(link);
            let link = link.with_context(|| format!("link.{number}: there are {count} links"))?;
            Arc::make_mut(link).extend(values)?;
        }
        Ok(())
    }

    /// A plain value.
    #[must_use]
    pub fn value(&self, key: Key) -> Option<&Value> {
        self.values.get(key as usize)?.as_ref()
    }

    /// A plain value as a whole number.
    #[must_use]
    pub fn int(&self, key: Key, time: Time) -> Option<i64> {
        self.value(key)?.int(time)
    }

    /// A plain value that is a text.
    #[must_use]
    pub fn text(&self, key: Key) -> Option<&str> {
        self.value(key)?.text()
    }
}

/// Metrics by id.
///
/// # Errors
/// On a name that no metric has.
pub fn metric_ids(metrics: BTreeMap<String, Value>) -> Result<BTreeMap<u32, Value>> {
    metrics
        .into_iter()
        .map(|(name, value)| {
            Ok((
                gpm::id(&name).with_context(|| format!("no metric {name}"))?,
                value,
            ))
        })
        .collect()
}

/// The values of a link, in the order of their keys.
#[derive(Clone, Debug, Default)]
pub struct Link(Vec<(LinkKey, Value)>);

/// A value that a link can have: its place in [`LINK_KEYS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkKey(u16);

/// Every key of a link, sorted. Fields of a link are written without `DEV_NVLINK_`, without the link's number, in small letters.
static LINK_KEYS: LazyLock<Box<[String]>> = LazyLock::new(|| {
    let of_links = FIELDS.iter().filter_map(|f| f.name.strip_prefix("DEV_NVLINK_"));
    let fields = of_links.map(|rest| link_field(rest).0.to_ascii_lowercase());
    let all: BTreeSet<String> = fields
        .chain(OWN_LINK_KEYS.iter().map(|k| (*k).to_owned()))
        .collect();
    all.into_iter().collect()
});

impl LinkKey {
    /// The key that is written so.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        let at = LINK_KEYS.binary_search_by(|key| key.as_str().cmp(name)).ok()?;
        u16::try_from(at).ok().map(Self)
    }
}

impl Link {
    fn new(values: BTreeMap<String, Value>) -> Result<Self> {
        let mut link = Self::default();
        link.extend(values)?;
        Ok(link)
    }

    fn extend(&mut self, values: BTreeMap<String, Value>) -> Result<()> {
        for (name, value) in values {
            let key = LinkKey::find(&name).with_context(|| format!("{name}: no such key"))?;
            match self.0.binary_search_by_key(&key, |(known, _)| *known) {
                Ok(at) => self.0[at].1 = value,
                Err(at) => self.0.insert(at, (key, value)),
            }
        }
        Ok(())
    }

    /// Every value, with its name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        let named = self
            .0
            .iter()
            .filter_map(|(key, value)| Some((LINK_KEYS.get(usize::from(key.0))?, value)));
        named.map(|(name, value)| (name.as_str(), value))
    }

    /// One of them.
    #[must_use]
    pub fn get(&self, key: LinkKey) -> Option<&Value> {
        let at = self.0.binary_search_by_key(&key, |(known, _)| *known).ok()?;
        Some(&self.0.get(at)?.1)
    }
}

/// What a link can have besides the fields.
const OWN_LINK_KEYS: &[&str] = &[
    "state",
    "version",
    "speed_mbps",
    "power_state",
    "remote_type",
    "remote_pci",
    "capabilities",
];

/// A field's name without the number of the link, and that number: `None` for none, and for the sum of all.
#[must_use]
pub fn link_field(name: &str) -> (&str, Option<Of>) {
    if let Some(base) = name.strip_suffix("_TOTAL") {
        return (base, Some(Of::All));
    }
    if let Some((base, number)) = name.rsplit_once("_L")
        && let Ok(link) = number.parse()
    {
        return (base, Some(Of::Link(link)));
    }
    (name, None)
}

/// Which link a field is about by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// That one.
    Link(usize),
    /// The sum of all.
    All,
}

/// Removes and returns the value at a path of a table.
fn take<T: DeserializeOwned + Default>(table: &mut toml::Table, path: &[&str]) -> Result<T> {
    let Some((word, below)) = path.split_first() else {
        return Ok(T::default());
    };
    if below.is_empty() {
        return match table.remove(*word) {
            None => Ok(T::default()),
            Some(value) => value.try_into().with_context(|| (*word).to_owned()),
        };
    }
    match table.get_mut(*word) {
        None => Ok(T::default()),
        Some(toml::Value::Table(inner)) => take(inner, below).with_context(|| (*word).to_owned()),
        Some(other) => bail!("{word}: expected a table, found {other}"),
    }
}
