//! docs/xids.md, from the table of Xids.

use health::xids::{Class, Family, Response, Row, Table};

use health::finding::ends;

use crate::cell;

const HEAD: &str = "# Xids

Made by `cargo xtask docs` from `agent/health/src/xids.toml`; do not edit. A site replaces single rows with `health.xids`.

The driver's own verdict goes first (Xid 154); this table speaks where it is silent. A code without a row is counted and
never drains. `drain` and the remedies take the node out of service, as far as the mode of the check `xid` allows.

What is the program's fault by its class (`app`) is counted and does nothing by itself. Where it follows one GPU and not one
program, in jobs of several users or in a job that is requeued, the check `gpu-application-errors` says so
([runbook](runbooks/gpu-application-errors.md)).

The column 'ends by' says what nodewarden sees by itself. A GPU reset is seen by the driver's verdict, or by counters that go
back (energy, volatile memory errors) while persistence mode is on. A person can always end an incident with
`nodewarden clear`.

| Xid | meaning | class | what is done | ends by | families |
|---|---|---|---|---|---|
";

pub(crate) fn page() -> anyhow::Result<String> {
    let mut out = HEAD.to_owned();
    for xid in Table::built_in().map_err(|e| anyhow::anyhow!("{e}"))?.rows() {
        out.push_str(&row(xid));
    }
    Ok(out)
}

fn row(row: &Row) -> String {
    let class = match row.class {
        Class::App => "app",
        Class::Gpu => "gpu",
        Class::Link => "link",
        Class::Node => "node",
        Class::Info => "info",
    };
    let action = match row.action {
        Response::Observe => "observe",
        Response::DrainAtJobEnd => "drain, reset after the jobs",
        Response::DrainNow => "drain, inspect",
        Response::ResetGpu => "drain, reset the GPU",
        Response::Reboot => "drain, reboot",
    };
    let action = if row.by_verdict {
        "what the driver says"
    } else {
        action
    };
    let ends = if row.clears.is_empty() {
        "-".to_owned()
    } else {
        ends(&row.clears, &row.needs)
    };
    let families: Vec<&str> = row.families.iter().map(family).collect();
    format!(
        "| {} | {} | {class} | {action} | {} | {} |\n",
        row.code,
        cell(&row.meaning),
        ends,
        or(&families.join(", "), "all"),
    )
}

fn family(family: &Family) -> &'static str {
    match family {
        Family::Ampere => "Ampere",
        Family::Hopper => "Hopper",
        Family::Blackwell => "Blackwell",
        Family::GraceBlackwell => "Grace Blackwell",
    }
}

fn or(text: &str, empty: &str) -> String {
    if text.is_empty() {
        empty.to_owned()
    } else {
        text.to_owned()
    }
}
