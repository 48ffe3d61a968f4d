//! From checked values to the settings of each part of the daemon: the one place that knows both.

use collectors::{Error, PciAddress, Settings};

use super::Config;
use super::keys as k;

impl Config {
    /// The settings of each part; those of collectors stay as they are.
    pub(super) fn of(set: &Settings, collectors: Settings) -> Result<Self, Error> {
        let addresses = |key| -> Result<Vec<PciAddress>, Error> {
            let texts: Vec<String> = set.get(key)?;
            Ok(texts.iter().filter_map(|text| PciAddress::parse(text)).collect())
        };
        let priorities = |key| -> Result<Option<Vec<u64>>, Error> {
            let mut found: Option<Vec<u64>> = set.find(key)?;
            if let Some(found) = &mut found {
                found.sort_unstable();
                found.dedup();
            }
            Ok(found)
        };
        let default = Self::default();
        let listen: Vec<String> = set.get(&k::LISTEN)?;
        let tier: String = set.get(&k::TIER)?;
        let timeout = set.duration(&k::TIMEOUT)?;
        Ok(Self {
            listen: listen.iter().filter_map(|entry| entry.parse().ok()).collect(),
            health: health::Settings {
                mode: set.get(&k::HEALTH_MODE)?,
                checks: set.get(&k::CHECKS)?,
                baseline: set.find(&k::BASELINE)?,
                settle: set.duration(&k::SETTLE)?,
                gpu_addresses: addresses(&k::GPU_ADDRESSES)?,
                rdma: health::settings::Rdma {
                    ports: set.get(&k::RDMA_PORTS)?,
                    exclude: set.get(&k::RDMA_EXCLUDE)?,
                    addresses: addresses(&k::RDMA_ADDRESSES)?,
                    pfc: priorities(&k::PFC)?,
                    trust: set.find(&k::TRUST)?,
                    ecn: priorities(&k::ECN)?,
                    mtu: set.find(&k::MTU)?,
                    fec: set.find(&k::FEC)?,
                    rate: set.find(&k::RATE)?.unwrap_or_default(),
                    firmware: set.get(&k::FIRMWARE)?,
                },
                xids: set.find(&k::XIDS)?,
                operators: set.get(&k::OPERATORS)?,
                scheduler: health::settings::Scheduler {
                    timeout,
                    poll: set.duration(&k::POLL)?,
                    watch: set.duration(&k::WATCH)?,
                    undrain: set.get(&k::UNDRAIN)?,
                },
            },
            slurm: slurm::Settings {
                node_name: set.find(&k::NODE_NAMED)?,
                scontrol: set.find(&k::SCONTROL)?,
                conf: set.find(&k::CONF)?,
                timeout,
            },
            metrics: exposition::Defaults {
                tier: exposition::tier(&tier).unwrap_or(default.metrics.tier),
                include: set.get(&k::INCLUDE)?,
                exclude: set.get(&k::EXCLUDE)?,
            },
            log_level: set.get(&k::LOG_LEVEL)?,
            collectors,
        })
    }
}
