//! What `/metrics` and the checks say while a GPU or its driver has a fault, and after it. A read that blocks:
//! `agent/tests/faults/amd.rs`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::{Node, fixture};

const PCI: &str = "0000:05:00.0";
const GPU: &str = "GPU-5d0e0000aa000001";
const OTHER: &str = "GPU-5d0e0000aa000002";

/// The families that show the state of a GPU.
const STATE: [&str; 4] = [
    "gpu_up{",
    "gpu_unavailable_info{",
    "gpu_metrics_table_info{",
    "gpu_power_watts{",
];

impl Node {
    fn of_gpu(&self, name: &str) -> PathBuf {
        self.path(&format!("sys/bus/pci/devices/{PCI}/{name}"))
    }

    /// The lines about the first GPU, without its label.
    fn said(&self) -> Vec<String> {
        let page = self.page(None);
        let label = format!("gpu=\"{GPU}\"");
        let lines = page
            .lines()
            .filter(|l| STATE.iter().any(|name| l.starts_with(name)));
        let of_gpu = lines.filter(|l| l.contains(&label));
        let short = of_gpu.map(|l| l.replace(&format!("{label},"), "").replace(&label, ""));
        short.map(|l| l.replace("{}", "")).collect()
    }

    /// The verdict, and the checks of the open incidents.
    fn judged(&self) -> String {
        let view = self.engine.view();
        let open = view.incidents.iter().filter(|i| i.closed.is_none());
        let open: Vec<String> = open.map(|i| format!("{} {}", i.check, i.subject_name)).collect();
        format!("{:?}: {}", view.verdict.health, open.join(", "))
    }

    /// The partitions that the page shows.
    fn partitions(&self) -> usize {
        let page = self.page(None);
        page.lines()
            .filter(|l| l.starts_with("gpu_instance_info{"))
            .count()
    }
}

/// A node on which nothing is wrong.
fn sound() -> Node {
    let mut node = Node::of(&fixture("mi300x"));
    node.ticks();
    assert_eq!(node.said(), SOUND);
    assert_eq!(node.judged(), "Healthy: ");
    node
}

const SOUND: [&str; 3] = [
    "gpu_up 1",
    "gpu_power_watts 141",
    "gpu_metrics_table_info{revision=\"v1.8\",state=\"read\"} 1",
];

#[test]
fn a_table_that_is_cut_is_replaced_by_single_files_and_is_no_finding() {
    let mut node = sound();
    let file = node.of_gpu("gpu_metrics");
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() - 1]).unwrap();
    node.ticks();
    assert_eq!(
        node.said(),
        [
            "gpu_up 1",
            "gpu_power_watts 141",
            "gpu_metrics_table_info{revision=\"\",state=\"truncated\"} 1"
        ]
    );
    assert!(
        !node
            .page(None)
            .contains(&format!("gpu_energy_joules_total{{gpu=\"{GPU}\""))
    );
    assert_eq!(node.judged(), "Healthy: ");
    fs::write(&file, &whole).unwrap();
    node.ticks();
    assert_eq!(node.said(), SOUND);
}

#[test]
fn a_table_of_a_newer_driver_is_named_and_not_guessed_at() {
    let mut node = sound();
    let file = node.of_gpu("gpu_metrics");
    let mut bytes = fs::read(&file).unwrap();
    bytes[3] = 10;
    fs::write(&file, bytes).unwrap();
    node.ticks();
    assert_eq!(
        node.said(),
        [
            "gpu_up 1",
            "gpu_power_watts 141",
            "gpu_metrics_table_info{revision=\"v1.10\",state=\"unknown_revision\"} 1"
        ]
    );
    assert_eq!(node.judged(), "Healthy: ");
}

#[test]
fn a_gpu_that_falls_off_the_bus_is_a_finding_and_its_return_after_a_reset_ends_it() {
    let mut node = sound();
    let (folder, away) = (node.of_gpu(""), node.path("away"));
    let link = node.path(&format!("sys/bus/pci/drivers/amdgpu/{PCI}"));
    fs::remove_file(&link).unwrap();
    fs::rename(&folder, &away).unwrap();
    node.ticks();
    assert_eq!(
        node.said(),
        ["gpu_up 0", "gpu_unavailable_info{reason=\"lost\"} 1"]
    );
    assert_eq!(node.judged(), format!("Healthy: gpu-down {GPU}"), "it comments");
    let page = node.page(None);
    assert!(page.contains(&format!("gpu_up{{gpu=\"{OTHER}\"}} 1")), "{page}");
    // Back: counters of the driver begin again, and the kernel has a new topology.
    fs::rename(&away, &folder).unwrap();
    symlink(format!("../../../../devices/pci0000:00/{PCI}"), &link).unwrap();
    let file = node.of_gpu("gpu_metrics");
    let mut bytes = fs::read(&file).unwrap();
    bytes[24..32].copy_from_slice(&65_536_u64.to_le_bytes());
    fs::write(&file, bytes).unwrap();
    fs::write(node.path("sys/class/kfd/kfd/topology/generation_id"), "4\n").unwrap();
    node.ticks();
    assert_eq!(node.said(), SOUND);
    assert_eq!(node.judged(), "Healthy: ");
    let energy = format!("gpu_energy_joules_total{{gpu=\"{GPU}\"}} 1\n");
    assert!(node.page(None).contains(&energy));
}

#[test]
fn a_gpu_that_is_given_away_leaves_the_page_and_is_no_finding_of_the_driver() {
    let mut node = sound();
    let link = node.path(&format!("sys/bus/pci/drivers/amdgpu/{PCI}"));
    fs::remove_file(&link).unwrap();
    node.ticks();
    assert!(node.said().is_empty(), "{:?}", node.said());
    symlink(format!("../../../../devices/pci0000:00/{PCI}"), &link).unwrap();
    node.ticks();
    assert_eq!(node.said(), SOUND);
}

#[test]
fn a_gpu_that_is_divided_while_it_runs_has_eight_partitions_and_the_same_name() {
    let mut node = sound();
    assert_eq!(node.partitions(), 0);
    let nodes = node.path("sys/class/kfd/kfd/topology/nodes");
    let old = fs::read_to_string(nodes.join("1/properties")).unwrap();
    let put = |number: usize, minor: usize| {
        let folder = nodes.join(number.to_string());
        fs::create_dir_all(&folder).unwrap();
        // KFD numbers a partition by its dies and its memory.
        fs::write(folder.join("gpu_id"), format!("{}\n", 50_000 + number)).unwrap();
        let text = old.replace("drm_render_minor 128", &format!("drm_render_minor {minor}"));
        fs::write(folder.join("properties"), text).unwrap();
    };
    put(1, 128);
    (1..8).for_each(|at| put(10 + at, 128 + at));
    fs::write(node.of_gpu("current_compute_partition"), "CPX\n").unwrap();
    fs::write(node.path("sys/class/kfd/kfd/topology/generation_id"), "4\n").unwrap();
    node.tick();
    let page = node.page(None);
    assert_eq!(node.partitions(), 8, "{page}");
    let first = format!(
        "gpu_instance_info{{gpu=\"{GPU}\",gpu_instance=\"0\",profile=\"CPX\",uuid=\"renderD128\"}} 1"
    );
    assert!(page.contains(&first), "the new mode, at once: {page}");
    node.ticks();
    assert_eq!(node.said(), SOUND);
    assert_eq!(node.judged(), "Healthy: ");
    // The sum of memory is that of the GPU, whatever its partitions.
    let memory = format!("gpu_memory_total_bytes{{gpu=\"{GPU}\"");
    assert_eq!(page.lines().filter(|l| l.starts_with(&memory)).count(), 1);
    // And back.
    (1..8).for_each(|at| fs::remove_dir_all(nodes.join((10 + at).to_string())).unwrap());
    fs::write(node.of_gpu("current_compute_partition"), "SPX\n").unwrap();
    fs::write(node.path("sys/class/kfd/kfd/topology/generation_id"), "5\n").unwrap();
    node.tick();
    assert_eq!(node.partitions(), 0);
}

/// As the limit of the core tier for eight GPUs and ten adapters.
const CORE: usize = 1500;

#[test]
fn eight_gpus_in_sixty_four_partitions_stay_within_the_core_tier() {
    let dir = tempfile::tempdir().unwrap();
    let case = fixture("mi300x-cpx");
    testkit::mi300x::divided(&case, &dir.path().join("root"), 8).unwrap();
    let mut node = Node::open(dir);
    // Some series need two readings.
    node.tick();
    node.tick();
    assert_eq!(node.partitions(), 64);
    let series = |tier: collectors::Tier| {
        let all = node.last.all_shown();
        all.filter(|s| s.metric.tier == tier && s.value != collectors::Value::Absent)
            .count()
    };
    let [core, detail, debug] = [
        collectors::Tier::Core,
        collectors::Tier::Detail,
        collectors::Tier::Debug,
    ]
    .map(series);
    println!(
        "8 MI300X in 64 partitions: {core} series in the core tier, {detail} in detail, {debug} in debug"
    );
    // Half of the limit: the other half is for adapters, the host and jobs.
    assert!(core <= CORE / 2, "{core}");
    assert!(detail <= 2 * CORE, "{detail}");
}
