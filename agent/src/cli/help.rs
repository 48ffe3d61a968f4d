//! What `--help` says beyond the options: exit codes and examples. It is also a part of the manual pages.

/// Of the program.
pub(super) const PROGRAM: &str = "\
Exit codes:
  0  done; for `check`: the node is healthy
  1  failed, or refused by the daemon; for `check`: the node is unhealthy
  2  the command line was not understood, or the daemon did not answer; for `check`: nobody knows
  `release` exits with the code of the command that it runs, and with 125 for failures of its own

Files:
  /etc/nodewarden/nodewarden.toml  configuration; may be absent
  /run/nodewarden/                 verdict and control socket (--run-dir)
  /var/lib/nodewarden/             incidents, our drain (--state-dir)

Examples:
  nodewarden run                          the daemon; no configuration is needed, drains are only observed
  nodewarden status --watch               what it sees, as it changes
  nodewarden why                          what is wrong, the evidence, and what to do
  nodewarden clear ID --reason 'new board'";

/// Of `run`.
pub(super) const RUN: &str = "\
Exit codes:
  0  it was asked to end (SIGTERM, SIGINT) and has ended
  1  it could not begin: configuration, directories, another instance

SIGHUP reads the configuration again. One with an error leaves the last good one in force.

Examples:
  nodewarden run
  nodewarden run --listen 0.0.0.0:19190 --set 'log.level=\"debug\"'
  nodewarden run --recorded DIR     a recorded node, its tree in DIR/root; nothing of this machine is read";

/// Of `check`.
pub(super) const CHECK: &str = "\
One file is read; nothing is asked and nothing is started, so it cannot hang.

Exit codes:
  0  healthy
  1  unhealthy
  2  unknown: no verdict, one of an earlier boot, or one that has expired

Examples:
  nodewarden check
  exec nodewarden check     as the last line of the script that HealthCheckProgram in slurm.conf names";

/// Of `hook`.
pub(super) const HOOK: &str = "\
The exit code is always 0, since Slurm drains a node whose prolog or epilog fails;
what goes wrong is said on standard error. No command of Slurm's is run, and the
daemon need not run.

Examples:
  /usr/bin/nodewarden hook prolog || true    in the script that Prolog names, with PrologFlags=Alloc
  /usr/bin/nodewarden hook epilog || true    in the script that Epilog names
The path is that of your installation; a program that is not found would fail the script.";

/// Of `status`.
pub(super) const STATUS: &str = "\
Exit codes:
  0  shown, whatever the verdict is; `check` tells the verdict by its exit code
  2  the daemon did not answer

Examples:
  nodewarden status
  nodewarden status --watch=5
  nodewarden status --json | jq .view.verdict.health";

/// Of `why`.
pub(super) const WHY: &str = "\
Exit codes:
  0  shown; also where nothing is wrong
  1  there is no such incident or subject
  2  the daemon did not answer

Examples:
  nodewarden why                              all open incidents
  nodewarden why k3v7qzpa                     one incident, open or closed
  nodewarden why GPU-6f1c2f0e                 what is wrong with a GPU; the beginning of its name is enough
  nodewarden why --all                        closed ones too";

/// Of `job`.
pub(super) const JOB: &str = "\
Sums are from a job's first reading on this node to its last. Other nodes of the job
have their own. What ports count is of the whole node.

Exit codes:
  0  shown; also where there is no job
  1  there is no such job: neither running nor among the last that ended
  2  the daemon did not answer

Examples:
  nodewarden job                   those that run, and the last that ended
  nodewarden job 4711              one of them, with each of its GPUs
  nodewarden job 4711 --json | jq .gpu_energy_joules";

/// Of `ack` and `clear`.
pub(super) const ORDER: &str = "\
For root and the users in health.operators.

Exit codes:
  0  done
  1  refused: no such incident, or not permitted
  2  the daemon did not answer

Examples:
  nodewarden ack k3v7qzpa --reason 'board ordered, ticket 4711'
  nodewarden clear k3v7qzpa --reason 'board replaced'";

/// Of `release`.
pub(super) const RELEASE: &str = "\
The worker leaves its driver, so that nothing of ours keeps a GPU from being reset, a driver from being
unloaded, or MIG from being changed. Who else has the driver open is listed. Then the command runs; after
it the driver is opened and its devices are listed anew. Checks that need the driver know nothing meanwhile.
For root and the users in health.operators.

Exit codes:
  0..124     the command's own
  125        refused, the command line was not understood, or the daemon did not answer: nothing was run
  126, 127   the command cannot be run; there is no such command
  128 and more  a signal ended the command, or its own

Examples:
  nodewarden release nvidia -- nvidia-smi --gpu-reset -i 3
  nodewarden release nvidia -- nvidia-smi mig -i 0 -cgi 9,9 -C
  nodewarden release --limit 10m nvidia -- sh -c 'modprobe -r nvidia_uvm nvidia && modprobe nvidia'";

/// Of `metrics`.
pub(super) const METRICS: &str = "\
Exit codes:
  0  printed; what could not be read is left out, and nodewarden_collector_up says so
  1  nothing could be read

Examples:
  nodewarden metrics --only host --tier detail";

/// Of `config`.
pub(super) const CONFIG: &str = "\
Exit codes:
  0  the configuration is good
  1  it is not; every problem is listed with file and line

Examples:
  nodewarden config check
  nodewarden config example > /etc/nodewarden/nodewarden.toml";

/// Of `completions`.
pub(super) const COMPLETIONS: &str = "\
Examples:
  nodewarden completions bash > /usr/share/bash-completion/completions/nodewarden
  nodewarden completions zsh > /usr/share/zsh/vendor-completions/_nodewarden
  nodewarden completions fish > /usr/share/fish/vendor_completions.d/nodewarden.fish";
