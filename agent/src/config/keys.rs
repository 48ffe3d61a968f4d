//! The daemon's configuration keys, and what each part reads from them. The keys of collectors are beside each collector.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use collectors::host::mounts;
use collectors::settings::{Key, Kind, duration, nearest, size};
use collectors::slurm::settings::{NODE_NAME, labels as job_labels};
use collectors::{Error, PciAddress, Settings, Tier, rdma};

use slurm::guard;
use slurm::guard::limits::{Standing, is_stop_file};

use super::{Config, HealthCommand, Listen, Notify, SiteCommand, check_name};
use super::{health_command, listen, notify};
use crate::own;

pub(super) const MODE: Kind = Kind::Choice(&["observe", "comment", "drain"]);

const PCI: Kind = Kind::List {
    what: "an array of PCI addresses",
    of: &Kind::Text {
        what: "a PCI address such as \"0000:3b:00.0\"",
        fits: |text| PciAddress::parse(text).is_some(),
    },
    empty: true,
};

const PRIORITIES: Kind = Kind::List {
    what: "an array of priorities from 0 to 7",
    of: &Kind::Integer {
        what: "a priority",
        from: 0,
        to: 7,
    },
    empty: true,
};

const METRICS: Kind = Kind::List {
    what: "an array of metric names",
    of: &Kind::Name {
        what: "a metric name",
        find: metric,
    },
    empty: true,
};

const NAMES: Kind = Kind::List {
    what: "an array of names or versions",
    of: &Kind::Text {
        what: "a name or version of up to 96 plain characters",
        fits: |text| plain(text, 96, b" ._-+/()"),
    },
    empty: true,
};

const STANDING: &str = "a number of nodes such as \"20\", or a part of the partition such as \"5%\"";
const WINDOW: &str = "a time from \"2m\" to \"24h\"";

/// A slot that ends before a write does protects nothing.
fn window(text: &str) -> Option<Duration> {
    let window = duration::parse(text)?;
    (Duration::from_secs(120)..=Duration::from_secs(24 * 3600))
        .contains(&window)
        .then_some(window)
}

/// A slot must not end during a write, which takes up to four commands after the two that create and show the slot. Two more are
/// room for a clock of slurmctld that is ahead, and for its whole minutes.
fn write_fits_slot(set: &Settings) -> Result<(), Error> {
    let timeout = set.duration(&TIMEOUT)?;
    let has_slots = set.get::<String>(&GUARD)? == "on" && set.get::<String>(&HEALTH_MODE)? == "drain";
    match window(&set.get::<String>(&GUARD_WINDOW)?) {
        Some(window) if has_slots && timeout > window / 8 => Err(Error::Settings(format!(
            "slurm.timeout: found {:?}, expected at most an eighth of health.guard.window, {:?}",
            duration::show(timeout),
            duration::show(window / 8)
        ))),
        _ => Ok(()),
    }
}

/// The addresses of a key.
fn addresses(set: &Settings, key: &Key) -> Result<Vec<PciAddress>, Error> {
    let texts: Vec<String> = set.get(key)?;
    Ok(texts.iter().filter_map(|text| PciAddress::parse(text)).collect())
}

/// A repeated address stands where another device was meant, which no check would miss.
fn each_once(set: &Settings, key: &Key) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    match addresses(set, key)?.into_iter().find(|a| !seen.insert(a.clone())) {
        Some(address) => Err(Error::Settings(format!(
            "{}: found {:?} twice, expected each address once",
            key.name, address.0
        ))),
        None => Ok(()),
    }
}

/// `major.minor` or `major.minor.patch`.
fn version(text: &str) -> bool {
    let number = |part: &str| (1..=5).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    (2..=3).contains(&text.split('.').count()) && text.split('.').all(number)
}

/// Whether a text has 1 to `most` characters, and only letters, digits and these.
fn plain(text: &str, most: usize, others: &[u8]) -> bool {
    let known = |b: u8| b.is_ascii_alphanumeric() || others.contains(&b);
    (1..=most).contains(&text.len()) && text.bytes().all(known)
}

fn metric(name: &str) -> Result<(), String> {
    let known = || own::all_metrics().filter(|m| m.tier != Tier::Private);
    if known().any(|m| m.name == name) {
        return Ok(());
    }
    if own::all_metrics().any(|m| m.name == name) {
        return Err(format!("{name} is read by health checks only and never served"));
    }
    let hint = nearest(name, known().map(|m| m.name)).map_or_else(
        || "expected a name of docs/metrics.md".to_owned(),
        |meant| format!("did you mean {meant}?"),
    );
    Err(format!("unknown metric {name:?}, {hint}"))
}

collectors::keys! {
    pub(super) KEYS;
    LISTEN = "listen": Kind::List { what: "an array of at least one address", of: &Kind::Text {
            what: listen::EXPECTED,
            fits: |text| text.parse::<Listen>().is_ok(),
        }, empty: false }, default "[\"127.0.0.1:19190\"]", since "0.1.0",
        "Listen on addresses (\"127.0.0.1:19190\", \"[::]:19190\"), interfaces (\"ib0:19190\": all its\n\
         addresses) and networks (\"10.20.0.0/16:19190\", \"[fd00::]/8:19190\": every local address\n\
         inside); of both at most 64 addresses. Missing addresses are bound when they appear; an address already in\n\
         use is a start-up error in a terminal, and a service waits for it. Port 0 picks a free port.";
    WEB = "web_config_file": Kind::Path, example "\"/etc/nodewarden/web.config.yml\"", since "0.1.0",
        "TLS, client certificates and users of these addresses: a file in the format of Prometheus' exporter-toolkit. It is read\n\
         again when it or a file that it names has changed. Not set: plain HTTP without authentication.";
    COMMANDS = "commands": Kind::Map {
            what: "a table of name = { command, timeout }",
            of: &Kind::Record {
                what: "a table with command and timeout",
                fields: &[
                    ("command", Kind::List {
                        what: "an array of program and arguments",
                        of: &Kind::Text { what: "a string", fits: |_| true },
                        empty: false,
                    }),
                    ("timeout", Kind::Duration { zero: false }),
                ],
                optional: &[],
            },
        }, default "{}", example "{ pager = { command = [\"/usr/local/sbin/pager\"], timeout = \"10s\" } }", since "0.1.0",
        "Programs of the site, each with a time limit. They run as root outside of nodewarden's sandbox, by name only,\n\
         with JSON as standard input. notify.command and health.command name them. The first command of a configuration that had\n\
         none needs a restart.";
    NOTIFY = "notify.command": Kind::Text {
            what: "the name of a command",
            fits: |name| name.is_empty() || check_name(name).is_ok(),
        }, default "\"\"", example "\"pager\"", rule notify::known, since "0.1.0",
        "Command of [commands] that gets each act on this node and each order as JSON, at most 10 in an hour. Empty:\n\
         none.";
    ACCESS_JOBS = "access.jobs": Kind::Choice(&["all", "own", "operators"]), default "\"own\"", since "0.1.0",
        "Whose jobs a user sees with `nodewarden job`, `why` and `status`: all, own, or none (operators). Root and\n\
         health.operators always see all. Pages know no user: see slurm.jobs.labels.";
    LOG_LEVEL = "log.level": Kind::Choice(&["error", "warn", "info", "debug", "trace"]), default "\"info\"", since "0.1.0",
        "Log level: error, warn, info, debug or trace. Workers take a new one at their next start.";
    HEALTH_MODE = "health.mode": MODE, default "\"observe\"", since "0.1.0",
        "Highest mode of any check: observe (count suppressed drains), comment (write the finding into\n\
         the node's Comment) or drain (drain the node).";
    MAINTENANCE = "health.maintenance": Kind::Choice(&["drain", "hold"]), default "\"drain\"", since "0.1.0",
        "During a Slurm maintenance: drain (a condition that is read as bad drains at once, an event waits for the end)\n\
         or hold (nothing drains before the end).";
    CHECKS = "health.checks": Kind::Map { what: "a table of check = mode", of: &MODE }, default "{}",
        example "{ xid = \"observe\" }", since "0.1.0",
        "The mode of single checks, never above health.mode.";
    HEALTH_COMMANDS = "health.command": Kind::List { what: "an array of tables with name and command", of: &health_command::ROW, empty: true },
        default "[]", example "[{ name = \"scratch\", command = \"check-scratch\", every = \"10m\" }]", since "0.1.0",
        "Commands of [commands] that check the node, as [[health.command]]: exit code 0 healthy, 1 unhealthy, others unknown.\n\
         every (\"5m\"), mode (\"observe\"), scope (\"shared\"; drain needs \"node\"), after (2 consecutive results). The check's\n\
         id is site-NAME. A later file adds rows, and replaces those of the same name.";
    BASELINE = "health.baseline": Kind::Text { what: "a version such as \"0.1\" or \"0.1.0\"", fits: version },
        example "\"0.1\"", since "0.1.0",
        "Only checks of this version or earlier may drain; checks of later versions observe. Not set: 0.1.0.";
    SETTLE = "health.settle": Kind::Duration { zero: false }, default "\"30s\"", since "0.1.0",
        "Findings on one subject within this time are one incident. Only the drain for an event of an earlier boot waits for it.";
    GPU_ADDRESSES = "health.gpu_addresses": PCI, default "[]", example "[\"0000:1b:00.0\"]",
        rule |set| each_once(set, &GPU_ADDRESSES), since "0.1.0",
        "PCI addresses of the GPUs that must exist. Empty: no per-address check.";
    XIDS = "health.xids": Kind::Path, example "\"/etc/nodewarden/xids.toml\"", since "0.1.0",
        "File whose rows replace rows of the built-in table of Xids. An example is in\n/usr/share/doc/nodewarden/examples.";
    OPERATORS = "health.operators": Kind::List { what: "an array of user names", of: &Kind::Text {
            what: "a user name or uid",
            fits: |text| plain(text, 64, b"_.-@$\\") && !text.starts_with('-'),
        }, empty: true }, default "[]", example "[\"ops\"]", since "0.1.0",
        "Users besides root who may acknowledge and clear incidents, pause and resume nodewarden on the node, and release\n\
         drivers: names of /etc/passwd, or uids, as for users of a directory server (LDAP). They see all jobs.";
    RDMA_ADDRESSES = "health.rdma.addresses": Kind::List { what: "an array of PCI addresses", of: &Kind::Text {
            what: "a PCI address such as \"0000:19:00.0\"",
            fits: |text| PciAddress::parse(text).is_some(),
        }, empty: true }, default "[]", example "[\"0000:19:00.0\"]",
        rule |set| each_once(set, &RDMA_ADDRESSES), since "0.1.0",
        "PCI addresses of the RDMA adapters that must exist. Empty: those seen since boot.";
    RDMA_PORTS = "health.rdma.ports": rdma::NAMES, default "[]", example "[\"mlx5_*\"]", since "0.1.0",
        "Devices or ports that checks of RDMA judge, with the wildcards * and ?. Empty: all. While the node has no port of such a\n\
         name, the log has a warning, and incidents of ports stay open.";
    RDMA_EXCLUDE = "health.rdma.exclude": rdma::NAMES, default "[]", example "[\"mlx5_4\", \"mlx5_5/2\"]", since "0.1.0",
        "Devices or ports that no check of RDMA judges. Their series are still served.";
    RDMA_STORAGE = "health.rdma.storage": rdma::NAMES, default "[]", example "[\"mlx5_4\", \"mlx5_5/2\"]", since "0.1.0",
        "Devices or ports of the storage fabric. They are compared with each other only, never with the other ports.";
    PFC = "health.rdma.pfc": PRIORITIES, example "[3]", since "0.1.0",
        "Priorities with priority flow control on a RoCE port; all others must have none. Not set: not compared.";
    TRUST = "health.rdma.trust": Kind::Choice(&["dscp", "pcp"]), example "\"dscp\"", since "0.1.0",
        "Source of a RoCE packet's priority (trust mode): dscp or pcp. Not set: not compared.";
    ECN = "health.rdma.ecn": PRIORITIES, example "[3]", since "0.1.0",
        "Priorities with DCQCN on a RoCE port, at notification and reaction point. Not set: not compared.";
    MTU = "health.rdma.mtu": Kind::Integer { what: "a number of bytes", from: 68, to: 65_535 }, example "9000", since "0.1.0",
        "MTU of a RoCE port's network interface, in bytes. Not set: not compared.";
    FEC = "health.rdma.fec": Kind::Choice(&["off", "rs", "baser", "llrs"]), example "\"rs\"", since "0.1.0",
        "Forward error correction (FEC) of a RoCE port: off, rs, baser or llrs. Not set: not compared.";
    RATE = "health.rdma.rate": Kind::OneOrMore(&Kind::Integer {
            what: "a number of gigabits per second", from: 1, to: 10_000,
        }), example "400", since "0.1.0",
        "Link rate of a port, in Gbit/s, or an array of allowed rates. Not set: not compared.";
    FIRMWARE = "health.rdma.firmware": Kind::List { what: "an array of firmware versions", of: &Kind::Text {
            what: "a firmware version such as \"28.43.1014\"",
            fits: |text| plain(text, 64, b"._-/ ()"),
        }, empty: true }, default "[]", example "[\"28.43.1014\"]", since "0.1.0",
        "Allowed firmware versions of RDMA adapters. Empty: any.";
    EXPECT_GPUS = "health.expect.gpus": Kind::Integer { what: "a number of GPUs", from: 1, to: 64 }, example "8", since "0.1.0",
        "GPUs that the PCI bus must show, with any driver. Not needed beside health.gpu_addresses with as many GPUs.\n\
         `nodewarden profile learn` prints this table for the node. Keys that are not set are not judged.";
    EXPECT_MODELS = "health.expect.gpu_models": NAMES, default "[]", example "[\"NVIDIA H100 80GB HBM3\"]", since "0.1.0",
        "Allowed GPU models, as the label name of gpu_info. Empty: any.";
    EXPECT_DRIVERS = "health.expect.gpu_drivers": NAMES, default "[]", example "[\"580.82.07\"]", since "0.1.0",
        "Allowed versions of the GPU driver, as the label driver of gpu_info. Empty: any.";
    EXPECT_VBIOS = "health.expect.gpu_vbios": NAMES, default "[]", example "[\"96.00.9F.00.01\"]", since "0.1.0",
        "Allowed VBIOS versions of GPUs, as the label vbios of gpu_info. Empty: any.";
    EXPECT_NVLINKS = "health.expect.nvlinks": Kind::Integer { what: "a number of links", from: 1, to: 64 }, example "18", since "0.1.0",
        "NVLinks of each GPU that must be up.";
    EXPECT_PORTS = "health.expect.rdma_ports": Kind::Integer { what: "a number of ports", from: 1, to: 256 }, example "8", since "0.1.0",
        "RDMA ports that must be up, of those that health.rdma.ports and exclude select.";
    EXPECT_MEMORY = "health.expect.memory": Kind::Text { what: size::EXPECTED, fits: |text| size::parse(text).is_some() },
        example "\"2 TiB\"", since "0.1.0",
        "Memory of the node. At least 97 % of it must be usable (MemTotal): kernel and firmware keep up to 2 %, and one of\n\
         32 equal DIMMs is more than 3 %.";
    EXPECT_CPUS = "health.expect.cpus": Kind::Integer { what: "a number of CPUs", from: 1, to: 8192 }, example "224", since "0.1.0",
        "Logical CPUs that must be online.";
    EXPECT_MOUNTS = "health.expect.mounts": Kind::List { what: "an array of mount points", of: &Kind::Text {
            what: "an absolute path without `.`, `..` and a final slash, not below /dev, /proc, /run, /snap, /sys or a folder of containers",
            fits: mounts::is_listed,
        }, empty: true }, default "[]", example "[\"/gpfs\", \"/home\"]", since "0.1.0",
        "Mount points that must have a filesystem. Only the mount table is read, so a hung filesystem counts as mounted.";
    EXPECT_MODULES = "health.expect.modules": Kind::List { what: "an array of kernel modules", of: &Kind::Text {
            what: "the name of a kernel module such as \"nvidia_peermem\"",
            fits: |text| plain(text, 56, b"_-"),
        }, empty: true }, default "[]", example "[\"nvidia_peermem\"]", since "0.1.0",
        "Kernel modules that must be loaded, as lsmod shows them. A driver that is built into the kernel is not listed.";
    GUARD = "health.guard.mode": Kind::Choice(&["on", "off"]), default "\"on\"", since "0.1.0",
        "Whether a drain needs a drain slot, which limits drains over the whole cluster: on or off. A slot is a\n\
         reservation without nodes. The other keys of this table must be the same on all nodes.";
    GUARD_DRAINS = "health.guard.drains": Kind::Integer { what: "a number of nodes", from: 1, to: 9000 },
        default "10", since "0.1.0",
        "Most nodes of a partition that drain within health.guard.window; never under 2. A node in several partitions\n\
         counts in the largest. Faults that prove one device broken have four times as many.";
    GUARD_PERCENT = "health.guard.percent": Kind::Integer { what: "a percentage", from: 1, to: 100 },
        default "5", since "0.1.0",
        "The same, in percent of the partition's nodes. The lower limit counts.";
    GUARD_PER_CODE = "health.guard.per_code": Kind::Integer { what: "a number of nodes", from: 1, to: 9000 },
        default "3", since "0.1.0",
        "Most nodes of a partition that drain for one cause (a check, or one Xid) within health.guard.window.";
    GUARD_STANDING = "health.guard.standing": Kind::Text { what: STANDING, fits: |text| Standing::parse(text).is_ok() },
        default "\"5%\"", since "0.1.0",
        "Drains of nodewarden that may stand in a partition, never under 2, and four times as many for faults that prove one\n\
         device broken: at this number a further one waits for a person.";
    GUARD_WINDOW = "health.guard.window": Kind::Text { what: WINDOW, fits: |text| window(text).is_some() },
        default "\"10m\"", since "0.1.0",
        "Time of a drain slot. Slurm counts whole minutes.";
    STOP_FILES = "health.guard.stop_files": Kind::List { what: "an array of absolute paths", of: &Kind::Text {
            what: "an absolute path such as \"/etc/nodewarden/stop\"",
            fits: is_stop_file,
        }, empty: true }, default "[\"/etc/nodewarden/stop\"]", since "0.1.0",
        "While one of these files exists, nodewarden writes nothing to Slurm, except what a person orders. One may lie on a\n\
         shared filesystem: if it cannot be looked for within 5 s, nothing is written either.";
    TIER = "metrics.tier": Kind::Choice(&["core", "detail", "debug"]), default "\"core\"", since "0.1.0",
        "Default tier of /metrics: core, detail or debug. A request may select another.";
    INCLUDE = "metrics.include": METRICS, default "[]", since "0.1.0",
        "Metrics of higher tiers to serve too, by name.";
    EXCLUDE = "metrics.exclude": METRICS, default "[]", since "0.1.0",
        "Metrics that are never served, by name. Health checks still read them.";
    NODE_NAMED = "slurm.node_name": NODE_NAME, example "\"gpu017\"", since "0.1.0",
        "Node name of this machine's slurmd, if several slurmds run on this host, or if slurmd runs without -N and its node does\n\
         not have the short host name.";
    SCONTROL = "slurm.scontrol": Kind::Path, example "\"/usr/bin/scontrol\"", since "0.1.0",
        "Path of scontrol. Not set: found automatically.";
    CONF = "slurm.conf": Kind::Path, example "\"/etc/slurm/slurm.conf\"", since "0.1.0",
        "Path of slurm.conf. Not set: the running slurmd's own.";
    TIMEOUT = "slurm.timeout": Kind::Duration { zero: false }, default "\"10s\"", rule write_fits_slot, since "0.1.0",
        "Time-out of one scontrol call; where drains need slots, at most an eighth of health.guard.window.";
    POLL = "slurm.poll": Kind::Duration { zero: true }, default "\"0\"", since "0.1.0",
        "Interval of reading this node from the controller while nothing is wrong, up to twice as long. 0: only when needed.";
    WATCH = "slurm.watch": Kind::Duration { zero: false }, default "\"5m\"", since "0.1.0",
        "Interval of reading it while nodewarden's drain stands, up to twice as long: how soon a lift by others is seen.";
    HOLD = "slurm.hold": Kind::Duration { zero: true }, default "\"10m\"", since "0.1.0",
        "Least time of a drain before nodewarden lifts it; the last minute of it without a further finding.";
    UNDRAIN = "slurm.undrain": Kind::Boolean, default "true", since "0.1.0",
        "Lift nodewarden's drain when its incident is cleared.";
    MIRROR = "slurm.mirror": Kind::Boolean, default "true", since "0.1.0",
        "Copy the record of nodewarden's drain into the node's Extra, for nodes that lose their state directory.";
}

/// The devices and ports that no check judges. No reading of a port that is never read could end its findings.
fn not_judged(set: &Settings) -> Result<Vec<rdma::Pattern>, Error> {
    let mut names: Vec<rdma::Pattern> = set.get(&RDMA_EXCLUDE)?;
    names.append(&mut rdma::excluded(set)?);
    Ok(names)
}

/// `[health.expect]`.
fn expect(set: &Settings) -> Result<health::settings::Expect, Error> {
    let memory: Option<String> = set.find(&EXPECT_MEMORY)?;
    let modules: Vec<String> = set.get(&EXPECT_MODULES)?;
    Ok(health::settings::Expect {
        gpus: set.find(&EXPECT_GPUS)?,
        gpu_models: set.get(&EXPECT_MODELS)?,
        gpu_drivers: set.get(&EXPECT_DRIVERS)?,
        gpu_vbios: set.get(&EXPECT_VBIOS)?,
        nvlinks: set.find(&EXPECT_NVLINKS)?,
        rdma_ports: set.find(&EXPECT_PORTS)?,
        memory: memory.as_deref().and_then(size::parse),
        cpus: set.find(&EXPECT_CPUS)?,
        mounts: set.get(&EXPECT_MOUNTS)?,
        // modprobe takes both; the kernel writes underscores.
        modules: modules.iter().map(|name| name.replace('-', "_")).collect(),
    })
}

impl Config {
    /// The settings of each part; those of collectors stay as they are.
    pub(super) fn of(set: &Settings, collectors: Settings) -> Result<Self, Error> {
        let priorities = |key| -> Result<Option<Vec<u64>>, Error> {
            let mut found: Option<Vec<u64>> = set.find(key)?;
            if let Some(found) = &mut found {
                found.sort_unstable();
                found.dedup();
            }
            Ok(found)
        };
        let listen: Vec<String> = set.get(&LISTEN)?;
        let tier: String = set.get(&TIER)?;
        let commands: BTreeMap<String, SiteCommand> = set.get(&COMMANDS)?;
        let health_commands = HealthCommand::all(set, &commands)?;
        let timeout = set.duration(&TIMEOUT)?;
        Ok(Self {
            web_config_file: set.find(&WEB)?,
            listen: listen.iter().filter_map(|entry| entry.parse().ok()).collect(),
            health: health::Settings {
                mode: set.get(&HEALTH_MODE)?,
                checks: set.get(&CHECKS)?,
                baseline: set.find(&BASELINE)?,
                settle: set.duration(&SETTLE)?,
                maintenance: set.get(&MAINTENANCE)?,
                gpu_addresses: addresses(set, &GPU_ADDRESSES)?,
                rdma: health::settings::Rdma {
                    ports: set.get(&RDMA_PORTS)?,
                    exclude: not_judged(set)?,
                    storage: set.get(&RDMA_STORAGE)?,
                    addresses: addresses(set, &RDMA_ADDRESSES)?,
                    pfc: priorities(&PFC)?,
                    trust: set.find(&TRUST)?,
                    ecn: priorities(&ECN)?,
                    mtu: set.find(&MTU)?,
                    fec: set.find(&FEC)?,
                    rate: set.find(&RATE)?.unwrap_or_default(),
                    firmware: set.get(&FIRMWARE)?,
                },
                expect: expect(set)?,
                xids: set.find(&XIDS)?,
                commands: health_commands.iter().map(|row| row.check.clone()).collect(),
                operators: set.get(&OPERATORS)?,
                scheduler: health::settings::Scheduler {
                    timeout,
                    poll: set.duration(&POLL)?,
                    watch: set.duration(&WATCH)?,
                    undrain: set.get(&UNDRAIN)?,
                    hold: set.duration(&HOLD)?,
                },
            },
            slurm: slurm::Settings {
                node_name: set.find(&NODE_NAMED)?,
                scontrol: set.find(&SCONTROL)?,
                conf: set.find(&CONF)?,
                timeout,
                mirror: set.get(&MIRROR)?,
                guard: guard::Settings {
                    on: set.get::<String>(&GUARD)? == "on",
                    drains: set.get(&GUARD_DRAINS)?,
                    percent: set.get(&GUARD_PERCENT)?,
                    per_code: set.get(&GUARD_PER_CODE)?,
                    standing: Standing::parse(&set.get::<String>(&GUARD_STANDING)?).unwrap_or_default(),
                    window: window(&set.get::<String>(&GUARD_WINDOW)?).unwrap_or_default(),
                    stop_files: set.get(&STOP_FILES)?,
                },
            },
            metrics: exposition::Defaults {
                tier: exposition::tier(&tier).unwrap_or(Tier::Core),
                include: set.get(&INCLUDE)?,
                exclude: set.get(&EXCLUDE)?,
                labels: job_labels(&collectors)?,
            },
            notify: Notify::of(set, &commands)?,
            commands,
            health_commands,
            access: set.get(&ACCESS_JOBS)?,
            log_level: set.get(&LOG_LEVEL)?,
            collectors,
        })
    }
}
