//! docs/configuration.md, from the table of keys.

use nodewarden::config::keys;

const HEAD: &str = r#"# Configuration

Made by `cargo xtask docs`; do not edit.

nodewarden needs no configuration: it detects the hardware, and the default mode is observe.

nodewarden reads `/etc/nodewarden/nodewarden.toml`, then `/etc/nodewarden/conf.d/*.toml` in order of name; with `--config FILE`, FILE and `conf.d/*.toml` beside it. Later values
override earlier ones. An unknown key is an error with file and line. After a reload with an error, the last good
configuration stays in force.

## Example: drain, but only comment on memory errors

```toml
[health]
mode = "drain"
baseline = "0.1"
gpu_addresses = ["0000:1b:00.0", "0000:43:00.0"]

[health.checks]
edac-uncorrected = "comment"
```

## Example: expected state of RDMA ports

```toml
[health.rdma]
addresses = ["0000:19:00.0", "0000:3b:00.0"]  # must exist
pfc = [3]                                     # RoCE ports: PFC for priority 3 only
trust = "dscp"
ecn = [3]                                     # DCQCN, notification and reaction point
mtu = 9000
fec = "rs"
rate = 400                                    # Gb/s; or an array of allowed rates
firmware = ["28.43.1014", "28.43.2026"]       # one of these
exclude = ["mlx5_4", "mlx5_5/2"]              # do not check these; `ports` lists the ports to check
```

nodewarden compares only the keys that are set. See the runbook of
[rdma-configuration](runbooks/rdma-configuration.md). `nodewarden profile learn` prints these keys and `[health.expect]` as a good
node meets them: [profile of a node](operations/profile.md).

## Every key

`nodewarden config example` prints all keys as a file. Devices that `[rdma]` or `[ethernet]` excludes are never opened.
"#;

/// The reference: one Markdown table for each TOML table.
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
