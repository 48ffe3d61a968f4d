//! docs/configuration.md, from the table of keys.

const HEAD: &str = r#"# Configuration

Made by `cargo xtask docs`; do not edit.

nodewarden needs no configuration. Hardware is detected, and drains are observed, not done.

The file is `/etc/nodewarden/nodewarden.toml`, then `/etc/nodewarden/conf.d/*.toml` in order of name; what comes later
wins. A key that does not exist is an error with file and line. While the daemon runs, a file that is wrong changes
nothing: the last good configuration stays. Each collector has a table of its own name, such as `[kernel_log]`.

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

## Tables of collectors

```toml
[rdma]
include = ["mlx5_*"]                  # these devices only; names, or name/port, with * and ?
exclude = ["mlx5_bond_0", "mlx5_4/2"] # not these
exclude_netdevs = ["eno*"]            # not those behind these network interfaces or their bonds
exclude_pci = ["0000:c1:00.*"]        # not those at these PCI addresses
virtual_functions = false             # virtual functions and subfunctions too
nccl_gid_index = 3                    # NCCL_IB_GID_INDEX as the jobs set it; leave it out where they do not
sysfs_only = false                    # hw_counters a file each, also where netlink tells all at once

[ethernet]                            # PFC, FEC and link errors of the ports that [rdma] takes
enabled = true                        # ask the drivers of network interfaces, every 30 s

[nvidia]
library = "libnvidia-ml.so.1"         # the driver's library, by name or path
gpm = true                            # what the parts of a GPU do; Hopper and newer
processes = false                     # a series for each process on a GPU

[slurm.jobs]
node = "gpu017"                       # whose jobs are ours; slurm.node_name where that is set
user = "uid"                          # or name, hash (with a salt), off
salt = ""                             # of the hash: the same on the whole site, and secret
hooks = "/run/nodewarden/jobs"        # what `nodewarden hook prolog` writes; below the run directory
gres_conf = "/etc/slurm/gres.conf"    # where it is neither beside slurm.conf nor in one of Slurm's usual places
mapping = [{ dir = "/run/gpustat", names = "position" }]  # other tools' files; or minor, uuid
max_jobs = 1024                       # so many have series of their own on a page, the oldest; at most 1024

[tasks]                               # processes of jobs that nothing can end
enabled = true                        # look at the processes of jobs, every 30 s

[kernel_log]
path = "/dev/kmsg"
accept_user = false                   # believe lines that programs wrote; for tests only
```

What is excluded is not touched. All of it may be left out: every device is read, but virtual functions.

## Every key of the daemon with its default

The collectors' tables stand above.

```toml
"#;

pub(crate) fn page() -> String {
    format!("{HEAD}{}```\n", nodewarden::config::render_default())
}
