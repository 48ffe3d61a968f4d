//! Writes the scenario: without node identifiers, and with values that all GPUs share written once.

use anyhow::Result;
use fake_nvml::functions::NAMES;
use toml::{Table, Value};

use super::ask::{Nvml, set};
use super::system::System;

/// Replaces node identifiers: serial numbers, UUIDs, GUIDs. Process ids stay; process names are never recorded.
pub(super) fn anonymous(index: u32, table: &mut Table) {
    replace(
        table,
        "uuid",
        &format!("GPU-00000000-0000-4000-8000-00000000f0{index:02x}"),
    );
    replace(table, "serial", &format!("00000000{index:02}"));
    if let Some(Value::Table(platform)) = table.get_mut("platform") {
        replace(
            platform,
            "ib_guid",
            &format!("000000000000000000000000000000{index:02x}"),
        );
        replace(platform, "chassis_serial", "0000000000");
    }
    if let Some(Value::Table(fabric)) = table.get_mut("fabric")
        && fabric
            .get("uuid")
            .and_then(Value::as_str)
            .is_some_and(|u| u.bytes().any(|b| b != b'0'))
    {
        replace(fabric, "uuid", "000000000000400080000000000000fa");
    }
    let layouts = table.get_mut("mig").and_then(|m| m.get_mut("layouts"));
    let devices = layouts.and_then(|l| l.get_mut("recorded")?.as_array_mut());
    for (number, device) in devices.into_iter().flatten().enumerate() {
        if let Value::Table(device) = device {
            replace(
                device,
                "uuid",
                &format!("MIG-00000000-0000-5000-8000-0000f0{index:02x}{number:04x}"),
            );
        }
    }
}

fn replace(table: &mut Table, key: &str, value: &str) {
    if table.contains_key(key) {
        table.insert(key.to_owned(), value.into());
    }
}

/// The complete scenario.
pub(super) fn scenario(nvml: &Nvml, system: &System, mut gpus: Vec<Table>) -> Result<String> {
    for gpu in &mut gpus {
        fold_links(gpu);
    }
    let common = common(&mut gpus);
    let mut file = Table::new();
    set(&mut file, "clock", Ok("step"));
    let missing: Vec<&str> = NAMES
        .iter()
        .copied()
        .filter(|name| {
            let mut asked = nvml.asked.iter().filter(|a| a.function == *name).peekable();
            asked.peek().is_some() && asked.all(|a| matches!(a.code, None | Some(super::ask::NO_FUNCTION)))
        })
        .collect();
    set(&mut file, "missing", Ok(missing));
    set(&mut file, "system.driver", Ok(system.driver.as_str()));
    set(&mut file, "system.nvml", Ok(system.nvml.as_str()));
    set(&mut file, "system.cuda", Ok(i64::from(system.cuda)));
    if let Some(branch) = &system.branch {
        set(&mut file, "system.branch", Ok(branch.as_str()));
    }
    file.insert("gpu".to_owned(), common.into());
    file.insert("gpus".to_owned(), gpus.into());
    Ok(toml::to_string(&file)?)
}

/// Moves values that all links of a GPU share into one place.
fn fold_links(gpu: &mut Table) {
    let Some(Value::Table(nvlink)) = gpu.get_mut("nvlink") else {
        return;
    };
    let Some(Value::Table(link)) = nvlink.remove("link") else {
        return;
    };
    let (names, mut links): (Vec<String>, Vec<Table>) = link
        .into_iter()
        .filter_map(|(name, value)| Some((name, value.as_table()?.clone())))
        .unzip();
    let each = common(&mut links);
    let own = names.into_iter().zip(links).filter(|(_, l)| !l.is_empty());
    let own: Table = own.map(|(name, l)| (name, l.into())).collect();
    nvlink.insert("each".to_owned(), each.into());
    if !own.is_empty() {
        nvlink.insert("link".to_owned(), own.into());
    }
}

/// Removes and returns the values that are the same in all tables.
fn common(all: &mut [Table]) -> Table {
    let mut out = Table::new();
    let Some(keys) = all.first().map(|t| t.keys().cloned().collect::<Vec<_>>()) else {
        return out;
    };
    for key in keys {
        if !all.iter().all(|t| t.contains_key(&key)) {
            continue;
        }
        let first = all[0][&key].clone();
        if all.iter().all(|t| t[&key] == first) {
            out.insert(key.clone(), first);
            for table in all.iter_mut() {
                table.remove(&key);
            }
        } else if all.iter().all(|t| t[&key].is_table()) {
            let mut below: Vec<Table> = all
                .iter_mut()
                .map(|t| match t.remove(&key) {
                    Some(Value::Table(table)) => table,
                    _ => Table::new(),
                })
                .collect();
            let same = common(&mut below);
            if !same.is_empty() {
                out.insert(key.clone(), same.into());
            }
            for (table, own) in all.iter_mut().zip(below) {
                if !own.is_empty() {
                    table.insert(key.clone(), own.into());
                }
            }
        }
    }
    out
}
