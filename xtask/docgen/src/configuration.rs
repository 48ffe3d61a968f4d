//! docs/configuration.md, from the table of keys.

use nodewarden::config::keys;

const HEAD: &str = r#"# Configuration

Made by `cargo xtask docs`; do not edit.

nodewarden needs no configuration. Hardware is detected, and drains are observed, not done.

The file is `/etc/nodewarden/nodewarden.toml`, then `/etc/nodewarden/conf.d/*.toml` in order of name; what comes later
wins. A key that does not exist is an error with file and line. While the daemon runs, a file that is wrong changes
nothing: the last good configuration stays.

## Example: drain, but only comment on memory errors

```toml
[health]
mode = "drain"
baseline = "0.1"
gpu_addresses = ["0000:1b:00.0", "0000:43:00.0"]

[health.checks]
edac-uncorrected = "comment"
```

## Example: how RDMA ports are meant to be

```toml
[health.rdma]
addresses = ["0000:19:00.0", "0000:3b:00.0"]  # must be there
pfc = [3]                                     # of RoCE ports: flow control for priority 3 and no other
trust = "dscp"
ecn = [3]                                     # DCQCN at both points
mtu = 9000
fec = "rs"
rate = 400                                    # Gb/s; or an array of what is allowed
firmware = ["28.43.1014", "28.43.2026"]       # one of these
exclude = ["mlx5_4", "mlx5_5/2"]              # not of these, which are for storage; `ports` names those it is of
```

What is not set is not compared. See the runbook of `rdma-configuration`.

## Every key

`nodewarden config example` prints the same as a file. Hardware that `[rdma]` or `[ethernet]` excludes is never touched.
"#;

/// The reference: one table for each TOML table, from the rows.
fn reference() -> String {
    let mut out = String::new();
    let mut section = None;
    for key in keys() {
        let (table, name) = key.split();
        if section != Some(table) {
            section = Some(table);
            let title = if table.is_empty() {
                "Top level".to_owned()
            } else {
                format!("`[{table}]`")
            };
            out.push_str(&format!(
                "\n### {title}\n\n| key | value | default | since | meaning |\n|---|---|---|---|---|\n"
            ));
        }
        let value = key.kind.describe();
        let default = key.default.map_or("not set".to_owned(), code);
        let example = key
            .example
            .map_or(String::new(), |example| format!(" Example: {}", code(example)));
        let help = key.help.replace('\n', " ").replace('|', "\\|");
        out.push_str(&format!(
            "| `{name}` | {value} | {default} | {} | {help}{example} |\n",
            key.since
        ));
    }
    out
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

pub(crate) fn page() -> String {
    format!("{HEAD}{}", reference())
}
