//! The text after the options in `--help` and in the manual pages: exit codes and examples.

/// Of the program.
pub(super) const PROGRAM: &str = "\
Exit codes:
  0  success; for `check`: the node is healthy
  1  failure, or refused by the daemon; for `check`: the node is unhealthy
  2  invalid command line, or no answer from the daemon; for `check`: unknown
  `release` exits with the code of its command, and with 125 for its own failures

Files:
  /etc/nodewarden/nodewarden.toml  configuration; optional
  /run/nodewarden/                 verdict and control socket (--run-dir)
  /var/lib/nodewarden/             incidents, nodewarden's drain (--state-dir)
  /usr/share/doc/nodewarden/       the package's documents: begin with operations/first-alert.md

Examples:
  nodewarden run                          the daemon; needs no configuration, default mode: observe
  nodewarden status --watch               refreshed every 2 s
  nodewarden why                          open incidents, their evidence and remedy
  nodewarden clear ID --reason 'new board'";

/// Of `run`.
pub(super) const RUN: &str = "\
Exit codes:
  0  stopped by SIGTERM or SIGINT
  1  start-up failed: configuration, directories, listen address, or another instance

SIGHUP reloads the configuration. If it has an error, the last good configuration stays in force.

Examples:
  nodewarden run
  nodewarden run --listen 0.0.0.0:19190 --set 'log.level=\"debug\"'
  nodewarden run --recorded DIR     a recorded node: reads DIR/root and nothing of this machine";

/// Of `check`.
pub(super) const CHECK: &str = "\
Reads one file. Does not contact the daemon and starts no process, so it cannot hang.

Exit codes:
  0  healthy
  1  unhealthy
  2  unknown: the verdict is missing, expired, or of an earlier boot

With --format nagios: 0 OK, 1 WARNING (healthy, with open incidents), 2 CRITICAL (unhealthy), 3 UNKNOWN.

Examples:
  nodewarden check
  nodewarden check --format nagios    NODEWARDEN OK - healthy, ... | incidents=0
  exec nodewarden check     last line of the script set as HealthCheckProgram in slurm.conf";

/// Of `hook`.
pub(super) const HOOK: &str = "\
The exit code is always 0, because Slurm drains a node whose prolog or epilog fails.
Errors go to standard error. The hook runs no Slurm command and does not need the daemon.

Examples:
  /usr/bin/nodewarden hook prolog || true    in the script set as Prolog, with PrologFlags=Alloc
  /usr/bin/nodewarden hook epilog || true    in the script set as Epilog
Use the path of your installation. `|| true` keeps a missing program from failing the script.";

/// Of `status`.
pub(super) const STATUS: &str = "\
Exit codes:
  0  success, whatever the verdict is; `check` returns the verdict as its exit code
  2  the daemon did not answer

Examples:
  nodewarden status
  nodewarden status --watch=5
  nodewarden status --json | jq .view.verdict.health";

/// Of `why`.
pub(super) const WHY: &str = "\
Exit codes:
  0  success, also without incidents
  1  unknown incident or subject, or no incident of a check
  2  the daemon did not answer

Examples:
  nodewarden why                              all open incidents
  nodewarden why k3v7qzpa                     one incident, open or closed
  nodewarden why xid                          incidents with a finding of a check
  nodewarden why GPU-6f1c2f0e                 incidents of a GPU; a prefix of its UUID is enough
  nodewarden why --all                        also closed incidents";

/// Of `job`.
pub(super) const JOB: &str = "\
Totals cover this node only, from the job's first reading to its last. Port counters are
node-wide, not per job.

Exit codes:
  0  success, also without jobs
  1  unknown job: not running and not among the last jobs that ended
  2  the daemon did not answer

Examples:
  nodewarden job                   running jobs, and the last jobs that ended
  nodewarden job 4711              one job, with each of its GPUs
  nodewarden job 4711 --json | jq .gpu_energy_joules";

/// Of `ack` and `clear`.
pub(super) const ORDER: &str = "\
For root and the users in health.operators.

Exit codes:
  0  success
  1  refused: unknown incident, or permission denied; or carried out and not stored
  2  the daemon did not answer

Examples:
  nodewarden ack k3v7qzpa --reason 'board ordered, ticket 4711'
  nodewarden clear k3v7qzpa --reason 'board replaced'";

/// Of `pause` and `resume`.
pub(super) const PAUSE: &str = "\
During a pause nodewarden still judges, but writes nothing to Slurm: no drain, no lift, no
comment. `nodewarden clear` still lifts. A pause ends automatically. On this node: for root and
the users in health.operators. --cluster makes the reservation nodewarden-pause, which every
node reads before it writes: for operators of Slurm, who can also show, extend and delete it
with scontrol.

Exit codes:
  0  success
  1  refused: permission denied, or no pause to end; or carried out and not stored
  2  the daemon did not answer (without --cluster)

Examples:
  nodewarden pause --for 4h --reason 'driver upgrade'
  nodewarden resume --reason 'upgrade done'
  nodewarden pause --cluster --for 2h --reason 'network work'
  scontrol show reservation nodewarden-pause";

/// Of `release`.
pub(super) const RELEASE: &str = "\
nodewarden's worker closes the driver, so that a command can reset a GPU, unload the driver or change MIG.
Other processes that have the driver open are listed. Then the command runs; after it, the worker opens the
driver and lists its devices again. Checks that need the driver are unknown during the release.
Releases of one driver follow each other: one waits at most 10 min for those before it. The driver is opened
after the last. If no daemon runs, the command runs after 6 s.
For root and the users in health.operators.

Exit codes:
  0..124        exit code of the command
  125           refused, invalid command line, or no answer from a daemon that runs: the command was not run
  126           the command cannot be executed
  127           command not found
  128 and more  the command was ended by signal (code - 128), or exited with this code

Examples:
  nodewarden release nvidia -- nvidia-smi --gpu-reset -i 3
  nodewarden release nvidia -- nvidia-smi mig -i 0 -cgi 9,9 -C
  nodewarden release --limit 10m nvidia -- sh -c 'modprobe -r nvidia_uvm nvidia && modprobe nvidia'";

/// Of `metrics`.
pub(super) const METRICS: &str = "\
Exit codes:
  0  success; unreadable values are omitted, and nodewarden_collector_up is 0
  1  failure: unknown collector or page, invalid configuration, or no such directory
  3  a collector or a device did not answer in time: stderr names it, and the rest is printed
  130  interrupted by a signal: stderr names the collectors that had not answered

A child process reads. If a driver does not let it end, it is left behind, and ends when the driver answers.

Examples:
  nodewarden metrics --only host --tier detail";

/// Of `config`.
pub(super) const CONFIG: &str = "\
Exit codes:
  0  valid
  1  invalid; every error is listed with file and line

Examples:
  nodewarden config check
  nodewarden config example > /etc/nodewarden/nodewarden.toml";

/// Of `profile`.
pub(super) const PROFILE: &str = "\
Prints TOML with comments: the keys of [health], [health.rdma] and [health.expect] that this node
meets now. Nothing is written, and nothing is learned automatically: place the file on the nodes
of the same kind with your configuration management.

Exit codes:
  0  success
  1  refused: an incident is open, a collector has no current reading, or the node booted less
     than 10 min ago
  2  the daemon did not answer

Examples:
  nodewarden profile learn > 50-profile.toml
  nodewarden config check --config 50-profile.toml";

/// Of `bundle`.
pub(super) const BUNDLE: &str = "\
Writes one .tar.gz, readable by its owner only. Run it as root: readings and configuration need it.
In it: versions, configuration (numbers and known words), verdict, incidents, counts of events,
readings, and files of RDMA ports that `nodewarden metrics --sysroot` reads back.
Not in it: logs, texts, and names of users, jobs, hosts, networks, mounts and files. GPUs, jobs and
mounts have numbers instead, such as gpu-271. manifest.json lists the parts, what is left out, and why.
A part that does not answer in time is absent; the others are written.

Exit codes:
  0  the bundle is written, even if parts are absent
  1  the file exists or cannot be written

Examples:
  nodewarden bundle
  nodewarden bundle --output - | ssh desk 'cat > node.tar.gz'
  tar -xzOf nodewarden-bundle-*.tar.gz nodewarden-bundle/manifest.json";

/// Of `completions`.
pub(super) const COMPLETIONS: &str = "\
Examples:
  nodewarden completions bash > /usr/share/bash-completion/completions/nodewarden
  nodewarden completions zsh > /usr/share/zsh/vendor-completions/_nodewarden
  nodewarden completions fish > /usr/share/fish/vendor_completions.d/nodewarden.fish";
