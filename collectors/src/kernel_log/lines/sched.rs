//! Scheduler, memory management and crashes: kernel/hung_task.c, kernel/watchdog.c, kernel/rcu/tree_stall.h,
//! mm/oom_kill.c, arch/*/mm/fault.c, arch/*/kernel/traps.c, lib/list_debug.c.

use super::form::{at, lustre, process};
use super::{Ends, Meaning, ROW, Row};
use crate::slurm::cgroup::SlurmCgroup;

const fn crash(ends: Ends) -> Meaning {
    Meaning::Fault {
        check: "kernel-crash",
        ends,
    }
}

const fn stall(ends: Ends) -> Meaning {
    Meaning::Fault {
        check: "kernel-stall",
        ends,
    }
}

/// Whether the cgroups are those of a job, and not the name of the process behind them.
fn is_of_a_job(text: &str) -> bool {
    let cgroups = text.split_once(",task=").map_or(text, |(cgroups, _)| cgroups);
    let of_task = cgroups.split_once(",task_memcg=").map(|(_, path)| path);
    !text.starts_with("oom-kill:")
        || text.starts_with("oom-kill:constraint=CONSTRAINT_MEMCG,")
        || cgroups.contains("/job_")
        || of_task.is_some_and(|path| SlurmCgroup::of(path).is_some())
}

pub(super) static ROWS: &[Row] = &[
    Row {
        id: "oops",
        what: "the kernel crashed and runs on",
        names_program: true,
        meaning: crash(Ends::Reboot),
        forms: &[
            at("BUG: unable to handle "),
            at("BUG: kernel NULL pointer dereference, address:"),
            at("Unable to handle kernel "),
            at("kernel BUG at *:%!"),
            at("general protection fault: %"),
            at("general protection fault, probably for "),
            at("divide error: % [#%"),
            at("stack segment: % [#%"),
            at("invalid opcode: % [#%"),
            at("int3: % [#%"),
            // Of the kernel's own stack, before Linux 6.10.
            at("BUG: *stack guard page was hit at "),
            at("stack guard page: % [#%"),
            at("kernel stack overflow (*): % [#%"),
            at("simd exception: % [#%"),
            at("Bad pagetable: % [#%"),
            at("Oops: "),
            at("Internal error: * [#%"),
            at("BUG: scheduling while atomic"),
            at("BUG: Bad page state"),
            at("BUG: Bad page map in process "),
        ],
        ..ROW
    },
    Row {
        id: "list-corruption",
        what: "the kernel's memory is overwritten",
        meaning: crash(Ends::Reboot),
        forms: &[at("list_add corruption"), at("list_del corruption")],
        ..ROW
    },
    Row {
        id: "hard-lockup",
        what: "a processor takes no interrupts",
        meaning: crash(Ends::Reboot),
        forms: &[
            at("Watchdog detected hard LOCKUP on cpu %"),
            at("CPU%: Watchdog detected hard LOCKUP on cpu %"),
        ],
        ..ROW
    },
    Row {
        id: "lustre-bug",
        what: "Lustre's client failed an assertion: its threads wait for ever",
        meaning: crash(Ends::Reboot),
        forms: &[lustre("ASSERTION( "), lustre("LBUG")],
        ..ROW
    },
    // From a crash dump: a kernel that panics prints to no reader.
    Row {
        id: "panic",
        what: "the kernel stopped",
        forms: &[at("Kernel panic - not syncing: ")],
        ..ROW
    },
    // The kernel stops printing these after ten: silence says nothing.
    Row {
        id: "hung-task",
        what: "a task has been blocked for minutes",
        names_program: true,
        meaning: stall(Ends::Reboot),
        follows: true,
        forms: &[
            at("INFO: task *:% blocked for more than % seconds"),
            at("INFO: task *:% blocked in I/O wait for more than % seconds"),
        ],
        ..ROW
    },
    Row {
        id: "soft-lockup",
        what: "a processor ran one task for a long time",
        names_program: true,
        meaning: stall(Ends::Quiet(6)),
        forms: &[at("BUG: soft lockup - CPU#% stuck for %s!")],
        ..ROW
    },
    Row {
        id: "rcu-stall",
        what: "a processor does not pass the scheduler",
        meaning: stall(Ends::Quiet(6)),
        forms: &[
            at("INFO: rcu_* self-detected stall on CPU"),
            at("INFO: rcu_* detected stalls on CPUs/tasks"),
            at("INFO: rcu_* detected expedited stalls on CPUs/tasks"),
            at("INFO: rcu_*_state detected stall on CPU %"),
            at("INFO: rcu_tasks* detected stalls on tasks:"),
        ],
        ..ROW
    },
    Row {
        id: "workqueue-lockup",
        what: "a work queue of the kernel does not move",
        meaning: stall(Ends::Quiet(6)),
        forms: &[at("BUG: workqueue lockup - pool")],
        ..ROW
    },
    Row {
        id: "clock-unstable",
        what: "the processors' clock was given up",
        meaning: stall(Ends::Reboot),
        forms: &[
            at("clocksource: timekeeping watchdog on CPU%: Marking clocksource '*' as unstable"),
            at("timekeeping watchdog on CPU%: Marking clocksource '*' as unstable"),
        ],
        not: &["'tsc-early'"],
        ..ROW
    },
    Row {
        id: "oom-cgroup",
        what: "a program exceeded the memory of its cgroup",
        names_program: true,
        forms: &[
            at("oom-kill:constraint=CONSTRAINT_MEMCG,"),
            at("oom-kill:constraint=CONSTRAINT_CPUSET,*/job_%"),
            at("oom-kill:constraint=CONSTRAINT_MEMORY_POLICY,*/job_%"),
            // Slurm 26.05 names the cgroup by the job's SLUID.
            at("oom-kill:constraint=CONSTRAINT_CPUSET,*slurmstepd.scope/s"),
            at("oom-kill:constraint=CONSTRAINT_MEMORY_POLICY,*slurmstepd.scope/s"),
            at("Memory cgroup out of memory: Kill"),
        ],
        when: is_of_a_job,
        ..ROW
    },
    Row {
        id: "oom",
        what: "the node has no memory left",
        names_program: true,
        meaning: Meaning::Fault {
            check: "memory-exhausted",
            ends: Ends::Quiet(6),
        },
        forms: &[
            at("oom-kill:constraint=CONSTRAINT_NONE,"),
            at("oom-kill:constraint=CONSTRAINT_CPUSET,"),
            at("oom-kill:constraint=CONSTRAINT_MEMORY_POLICY,"),
            at("Out of memory: Killed process %"),
            at("Out of memory: Kill process % "),
            at("Out of memory (oom_kill_allocating_task)"),
        ],
        echoes: &["oom-cgroup"],
        // Only `Out of memory: Kill` below the line of a job's processors or memory policy: neither a line that names its constraint,
        // nor one below that of a cgroup's limit.
        is_echo: |this, before| this >= 3 && matches!(before, 1..=4),
        ..ROW
    },
    Row {
        id: "segfault",
        what: "a program crashed",
        names_program: true,
        forms: &[
            process("[%]: segfault at "),
            process("[%] trap "),
            process("[%] general protection fault "),
        ],
        ..ROW
    },
    Row {
        id: "cgroup-pids",
        what: "a program exceeded the tasks of its cgroup",
        forms: &[at("cgroup: fork rejected by pids controller in ")],
        ..ROW
    },
    Row {
        id: "nmi",
        what: "an interrupt of the hardware for an unknown or bad reason",
        forms: &[
            at("Uhhuh. NMI received for unknown reason % on CPU %"),
            at("NMI: PCI system error (SERR) for reason %"),
            at("NMI: IOCK error (debug interrupt?) for reason %"),
        ],
        ..ROW
    },
    Row {
        id: "cpu-offline",
        what: "a processor went offline",
        forms: &[at("smpboot: CPU % is now offline")],
        ..ROW
    },
];
