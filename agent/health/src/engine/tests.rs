//! The engine as a specification: one situation each, with Slurm and the disk played by a small model.

mod host;
mod sim;
mod slurm;

mod application_errors;
mod clearing;
mod faults;
mod findings;
mod gpus;
mod history;
mod job_blocked;
mod jobs;
mod keeping;
mod late;
mod lifts;
mod log;
mod looks;
mod main_path;
mod maintenance;
mod modes;
mod pcie;
mod people;
mod ports_blocked;
mod ports_down;
mod ports_flapping;
mod ports_seen;
mod properties;
mod rdma_counters;
mod rdma_links;
mod rdma_missing;
mod rdma_pauses;
mod rdma_quirks;
mod rdma_setup;
mod record;
mod sources;
mod unseen;
