//! Entry points for fuzzing: plain functions that take any bytes and panic where something that must hold does not.
//! `fuzz/` runs them under libFuzzer, and its test over their seeds with any compiler.

use crate::{amd, gpfs, kernel_log, lustre, mounts, nvme, rdma, slurm};

/// One record of /dev/kmsg, prefix and message.
pub fn kmsg_record(data: &[u8]) {
    kernel_log::check_record(data);
}

/// One kernel message, escapes undone.
pub fn xid_line(data: &[u8]) {
    kernel_log::check_line(data);
}

/// One file of an RDMA port: a counter, a state or a rate.
pub fn rdma_attribute(data: &[u8]) {
    rdma::text::check(data);
}

/// Recorded questions and answers of netlink.
pub fn netlink_recording(data: &[u8]) {
    crate::netlink::recording::check(data);
}

/// What a kernel might send by netlink.
pub fn netlink_messages(data: &[u8]) {
    crate::netlink::check(data);
}

/// What an Ethernet port might say of itself by netlink, without the head of its message.
pub fn ethernet_answer(data: &[u8]) {
    crate::netlink::check_ethernet(data);
}

/// A recording of what `ethtool -S` prints.
pub fn ethtool_statistics(data: &[u8]) {
    crate::sys::ethtool::check(data);
}

/// The instructions of a cgroup's device program.
pub fn device_program(data: &[u8]) {
    slurm::program::check(data);
}

/// A gres.conf.
pub fn gres_conf(data: &[u8]) {
    slurm::gres::check(data);
}

/// The path of a cgroup.
pub fn cgroup_path(data: &[u8]) {
    slurm::cgroup::check(data);
}

/// A reply of GPFS's mmpmon.
pub fn mmpmon_reply(data: &[u8]) {
    gpfs::record::check(data);
}

/// Output of a GPFS command with `-Y`.
pub fn mm_output(data: &[u8]) {
    gpfs::replies::check(data);
}

/// /proc/PID/mountinfo.
pub fn mountinfo(data: &[u8]) {
    crate::mountinfo::check(data);
}

/// /proc/self/mountstats.
pub fn mountstats(data: &[u8]) {
    mounts::nfs::check(data);
}

/// One file of a Lustre client.
pub fn lustre_file(data: &[u8]) {
    lustre::check(data);
}

/// Texts of AMD's driver: RAS counts, speeds of links, the topology of KFD.
pub fn amd_text(data: &[u8]) {
    amd::check(data);
}

/// The file `gpu_metrics` of an AMD GPU.
pub fn gpu_metrics(data: &[u8]) {
    amd::gpu_metrics::check(data);
}

/// The SMART log of an NVMe drive.
pub fn smart_log(data: &[u8]) {
    nvme::smart::check(data);
}
