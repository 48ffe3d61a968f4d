//! `nodewarden bundle`: packs what a vendor or a developer needs to understand this node, and nothing about its users or its site.
//!
//! Its contents are listed, field by field and label by label. Nothing is searched for words that must not be in it.

mod ask;
mod labels;
mod names;
mod node;
mod output;
mod pack;
mod readings;
mod settings;

use std::path::PathBuf;
use std::process::ExitCode;

use collectors::Env;
use collectors::sys::root;
use jiff::Timestamp;
use serde_json::json;

use super::{dirs, screen};
use crate::http::control::{Reply, Request};
use names::Names;
use output::Output;
use pack::{Absent, Part};

pub(super) use ask::reader;

/// Parts that no bundle has, and why.
const LEFT_OUT: [(&str, &str); 6] = [
    (
        "log",
        "the texts of nodewarden's log hold paths, names and errors of programs; no list of fixed texts exists",
    ),
    (
        "kernel log",
        "its lines name processes, users and servers; events.json has what nodewarden made of them",
    ),
    (
        "jobs",
        "only their pseudonyms are in the readings and in the incidents",
    ),
    (
        "texts",
        "reasons, comments, acknowledgements, error texts, evidence other than a metric's value",
    ),
    ("audit trail", "it names operators and has their reasons"),
    (
        "devices other than RDMA",
        "the recording has files of /sys/class/infiniband only",
    ),
];

/// The arguments of `nodewarden bundle`.
#[derive(Debug, clap::Args)]
pub(super) struct BundleArgs {
    /// The file to write, which must not exist; - for standard output. Default: nodewarden-bundle-TIME.tar.gz.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The daemon's run directory.
    #[arg(long, value_name = "DIR")]
    run_dir: Option<PathBuf>,
    /// Read /sys and /proc below this directory.
    #[arg(long, value_name = "DIR", hide = true)]
    sysroot: Option<PathBuf>,
}

/// Gathers the parts, each with a bounded wait, and writes the archive.
pub(super) fn bundle(args: &BundleArgs) -> anyhow::Result<ExitCode> {
    let now = Timestamp::now();
    // Before the work: a wrong name costs no wait.
    let output = Output::new(args.output.clone(), now)?;
    let run_dir = dirs::to_read(args.run_dir.as_deref());
    let env = args.sysroot.as_ref().map_or_else(Env::default, Env::with_sysroot);
    let mut names = Names::default();
    let mut parts = Vec::new();
    let mut add = |part: Part| {
        report(&part);
        parts.push(part);
    };

    let status = ask::daemon(&run_dir, Request::Status, super::status::of);
    let of_status = status.as_ref().map_err(|why| *why);
    add(Part::json(
        "status",
        of_status.map(|s| node::status(s, &mut names)),
    ));
    add(Part::json(
        "incidents",
        of_status.map(|s| node::incidents(s, &mut names)),
    ));
    add(Part::json(
        "events",
        of_status.map(|s| node::events(s, &mut names)),
    ));
    let page = ask::daemon(&run_dir, Request::Readings, |reply| match reply {
        Reply::Readings(page) => Some(page),
        _ => None,
    });
    let readings = page.map(|page| readings::reduced(&page, &mut names));
    let read = readings.as_ref().map_err(|why| *why);
    add(Part::of(
        "readings",
        "readings.prom",
        read.map(|r| r.page.clone().into_bytes()),
    ));
    let versions = json!({
        "nodewarden": env!("CARGO_PKG_VERSION"),
        "daemon": of_status.ok().map(|s| names::word(&s.version)),
        "kernel": kernel(&env),
        "architecture": std::env::consts::ARCH,
        "gpu_drivers": read.ok().map(|r| &r.drivers),
    });
    add(Part::json("versions", Ok(versions)));
    let (configuration, from) = match ask::configuration(&run_dir) {
        Ok((settings, from)) => (Ok(settings), Some(from)),
        Err(why) => (Err(why), None),
    };
    let reduced = (configuration
        .as_ref()
        .map(|settings| settings::reduced(settings, &mut names)))
    .map_err(|why| *why);
    add(Part::json("configuration", reduced));
    let recording = ask::recording(&env.sysroot, &configuration, &mut names);
    add(Part {
        name: "recording",
        content: recording,
    });

    let manifest = json!({
        "format": 1,
        "made": now.as_second(),
        "made_by": env!("CARGO_PKG_VERSION"),
        "parts": pack::rows(&parts),
        "configuration_from": from,
        "left_out": LEFT_OUT.iter().map(|(what, why)| json!({ "what": what, "why": why })).collect::<Vec<_>>(),
        "pseudonyms": names.counts(),
        "labels": labels::described(),
        "lines_left_out_of_readings": read.ok().map(|r| r.left_out),
    });
    parts.insert(0, Part::json("manifest", Ok(manifest)));
    let made = u64::try_from(now.as_second()).unwrap_or(0);
    output.write(&pack::archive(parts, made)?)?;
    Ok(ExitCode::SUCCESS)
}

/// The release of the running kernel.
fn kernel(env: &Env) -> Option<String> {
    let text = root::read_text(&env.path("/proc/sys/kernel/osrelease")).ok()??;
    Some(names::word(text.trim()))
}

/// One line of progress.
fn report(part: &Part) {
    let outcome: Result<String, Absent> = part.content.as_ref().map(|_| size(part)).map_err(|why| *why);
    match outcome {
        Ok(size) => screen::note(&format!("{} ... {size}", part.name)),
        Err(why) => screen::note(&format!("{} ... absent: {why}", part.name)),
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown with few digits")]
fn size(part: &Part) -> String {
    screen::bytes(part.bytes() as f64)
}
