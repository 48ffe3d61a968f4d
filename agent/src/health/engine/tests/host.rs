//! The host as a snapshot shows it.

use std::sync::Arc;
use std::time::Duration;

use collectors::host::metrics::{EDAC_UNCORRECTED, PCI_FUNCTION_RESPONDING, PCI_GPU_INFO, PCI_GPUS};
use collectors::{Block, Subject, SubjectKind, Value};

use crate::core::snapshot::{DeviceState, Prepared, Presence, Snapshot};

/// The node as the next snapshot shows it.
#[derive(Clone, Debug)]
pub(super) struct Host {
    /// Address, driver, whether it answers.
    pub(super) gpus: Vec<(String, &'static str, Option<bool>)>,
    pub(super) readable: bool,
    pub(super) edac: Option<u64>,
    pub(super) kernel_log: bool,
}

pub(super) fn snapshot(host: &Host, at: Duration) -> Snapshot {
    let mut snapshot = Snapshot::empty(at);
    for collector in &mut snapshot.collectors {
        collector.presence = Presence::Open;
        match collector.spec.name {
            "kernel_log" => {
                collector.watcher = Some(if host.kernel_log {
                    Ok(())
                } else {
                    Err(("denied".to_owned(), "no CAP_SYSLOG".to_owned()))
                });
            }
            "host" => {
                collector.devices.push(bus(host, at));
                if let Some(count) = host.edac {
                    let mut block = Block::default();
                    block.u64(&EDAC_UNCORRECTED, &["mc0"], count);
                    let subject = Subject::new(SubjectKind::MemoryController, "mc0");
                    collector.devices.push(device(subject, &block, at));
                }
            }
            _ => {}
        }
    }
    snapshot
}

fn bus(host: &Host, at: Duration) -> DeviceState {
    let mut block = Block::default();
    let count = u64::try_from(host.gpus.len()).unwrap();
    block.u64(&PCI_GPUS, &["nvidia"], count);
    block.u64(&PCI_GPUS, &["amd"], 0);
    for (address, driver, responding) in &host.gpus {
        block.info(
            &PCI_GPU_INFO,
            &[
                address, "nvidia", "0x10de", "0x2330", "0x030200", "physical", driver, "0",
            ],
        );
        let value = responding.map_or(Value::Absent, |r| Value::U64(u64::from(r)));
        block.push(&PCI_FUNCTION_RESPONDING, &[address], value);
    }
    let mut device = device(Subject::new(SubjectKind::Pci, "bus"), &block, at);
    if !host.readable {
        device.error = Some(("io".to_owned(), "cannot be listed".to_owned()));
    }
    device
}

fn device(subject: Subject, block: &Block, at: Duration) -> DeviceState {
    DeviceState {
        subject,
        layout: Arc::new(Prepared::new(block.layout().to_vec())),
        values: Arc::new(block.values().to_vec()),
        refused: block.refused(),
        at,
        took: Duration::from_millis(1),
        error: None,
        late: None,
    }
}
