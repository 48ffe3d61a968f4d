//! docs/xids.md, from the table of Xids.

use health::xids::{Class, Family, Response, Row, Table};

use health::finding::ends;

use crate::cell;

const HEAD: &str = "# Xids

Made by `cargo xtask docs` from `agent/health/src/xids.toml`; do not edit. A site replaces whole rows with `health.xids`:
[Rows of the site](#rows-of-the-site).

The driver's own verdict (Xid 154) has precedence over this table. nodewarden counts codes without a row; they never drain.
The responses that begin with `drain` take the node out of service, if the mode of the check `xid` allows it.
`comment` opens an incident that never drains; so do NVLink 5 errors (144 to 150) whose line says `Fatal`.

Errors of the class `app` are usually caused by the program; alone they never drain. If they follow a GPU and not a program,
in jobs of several users or in a requeued job, the check `gpu-application-errors` reports the GPU
([runbook](runbooks/gpu-application-errors.md)).

The column `ends by` lists what ends the incident. nodewarden detects a GPU reset by the driver's verdict. It also detects
one by counters that decrease while persistence mode is on: energy, or volatile memory errors where the driver shows no energy. Xid 74 counts
errors that act only when repeated; they start again after `nodewarden clear`, a GPU reset or a reboot. An operator can always end an
incident with `nodewarden clear`.

| Xid | meaning | class | response | ends by | families |
|---|---|---|---|---|---|
";

const TAIL: &str = "
## Rows of the site

The package has an example in `/usr/share/doc/nodewarden/examples` (`packaging/examples` in the source): a drop-in, and a file of rows. The
built-in rows with the meaning of each key are in `/usr/share/doc/nodewarden/xids.toml` (`agent/health/src/xids.toml`).

```sh
cd /usr/share/doc/nodewarden/examples
cp xids.toml /etc/nodewarden/
cp 20-xids.toml /etc/nodewarden/conf.d/
editor /etc/nodewarden/xids.toml
nodewarden config check            # names file and line of an error
systemctl reload nodewarden
```

A row of the file replaces the whole built-in row of its code, and adds one for a code without a row. nodewarden reads the file at the start
and at each reload. `nodewarden why` shows the meaning of the site's row.
";

pub(crate) fn page() -> anyhow::Result<String> {
    let mut out = HEAD.to_owned();
    for xid in Table::built_in().map_err(|e| anyhow::anyhow!("{e}"))?.rows() {
        out.push_str(&row(xid));
    }
    out.push_str(TAIL);
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
        Response::Comment => "comment",
        Response::DrainAtJobEnd => "drain, reset after the jobs",
        Response::DrainNow => "drain, inspect",
        Response::ResetGpu => "drain, reset the GPU",
        Response::Reboot => "drain, reboot",
    };
    let action = if row.by_verdict {
        "the driver's verdict"
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
