//! The GPUs of `nodewarden status`: a line each, within 100 columns.

use crate::http::control::GpuView;
use crate::screen::{Cell, Paint, Screen, Table};

/// Digits of a UUID that are shown.
const UUID: usize = 8;
/// Length of a shown name, without the vendor.
const NAME: usize = 20;

/// The table; empty without GPUs.
pub(super) fn table(gpus: &[GpuView], screen: &Screen) -> String {
    if gpus.is_empty() {
        return String::new();
    }
    let mut table = Table::headed([
        "gpu",
        "uuid",
        "name",
        "util",
        "memory GiB",
        "temp",
        "power W",
        "state",
    ]);
    for gpu in gpus {
        let paint = match (gpu.up, gpu.trouble.is_empty()) {
            (Some(true), true) => Paint::Good,
            (Some(true), false) => Paint::Doubt,
            (Some(false), _) => Paint::Bad,
            (None, _) => Paint::Doubt,
        };
        let mut state = gpu.trouble.join(", ");
        if state.is_empty() {
            state = "ok".to_owned();
        }
        if gpu.instances > 0 {
            state = format!("{state}, {} instances", gpu.instances);
        }
        if let Some(jobs) = jobs(&gpu.jobs) {
            state = format!("{state}, {jobs}");
        }
        table.row(vec![
            Cell::number(Some(&gpu.index)),
            Cell::new(uuid(&gpu.gpu)),
            Cell::new(name(&gpu.name)),
            Cell::number(gpu.utilization.map(|u| format!("{:.0} %", u * 100.0))),
            Cell::number(of(
                gpu.memory_used.map(gibibytes),
                gpu.memory_total.map(gibibytes),
            )),
            Cell::number(gpu.temperature.map(|t| format!("{t:.0} C"))),
            Cell::number(of(gpu.power.map(whole), gpu.power_limit.map(whole))),
            Cell::painted(paint, state),
        ]);
    }
    table.shown(0, screen)
}

/// `job 4711`, or the first two of several and how many more.
fn jobs(jobs: &[String]) -> Option<String> {
    match jobs {
        [] => None,
        [one] => Some(format!("job {one}")),
        [one, two] => Some(format!("jobs {one} {two}")),
        [one, two, more @ ..] => Some(format!("jobs {one} {two} and {} more", more.len())),
    }
}

/// The first digits of a UUID, or the whole name of a GPU without one.
fn uuid(gpu: &str) -> String {
    let digits = gpu
        .strip_prefix("GPU-")
        .map(|uuid| uuid.chars().take(UUID).collect());
    digits.unwrap_or_else(|| gpu.to_owned())
}

fn name(name: &str) -> String {
    let short = name.strip_prefix("NVIDIA ").unwrap_or(name);
    short.chars().take(NAME).collect()
}

fn gibibytes(bytes: f64) -> String {
    format!("{:.1}", bytes / f64::from(1 << 30))
}

fn whole(number: f64) -> String {
    format!("{number:.0}")
}

/// `used / all`, or the known one of both.
fn of(used: Option<String>, all: Option<String>) -> Option<String> {
    match (used, all) {
        (Some(used), Some(all)) => Some(format!("{used} / {all}")),
        (used, all) => used.or(all),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::{PLAIN, columns};

    fn gpu(index: &str, uuid: &str) -> GpuView {
        GpuView {
            gpu: uuid.to_owned(),
            collector: "nvidia".to_owned(),
            pci: String::new(),
            index: index.to_owned(),
            name: "NVIDIA H100 80GB HBM3".to_owned(),
            utilization: Some(0.97),
            memory_used: Some(72_104_280_064.0),
            memory_total: Some(85_520_809_984.0),
            temperature: Some(61.0),
            power: Some(642.31),
            power_limit: Some(700.0),
            instances: 0,
            up: Some(true),
            trouble: Vec::new(),
            jobs: Vec::new(),
        }
    }

    #[test]
    fn a_gpu_names_its_jobs_as_far_as_there_is_room() {
        let line = |numbers: &[&str]| {
            let mut gpu = gpu("0", "GPU-6f1c2f0e-7a4d-4c55-9b7e-3d1a8e52c0f4");
            gpu.jobs = numbers.iter().map(|n| (*n).to_owned()).collect();
            table(&[gpu], &PLAIN)
                .trim_end()
                .rsplit("  ")
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        assert_eq!(line(&[]), "ok");
        assert_eq!(line(&["4711"]), "ok, job 4711");
        assert_eq!(line(&["4711", "4712"]), "ok, jobs 4711 4712");
        assert_eq!(line(&["1", "2", "3", "4"]), "ok, jobs 1 2 and 2 more");
    }

    #[test]
    fn a_gpu_is_one_line_and_what_is_not_known_is_empty() {
        let lost = GpuView {
            gpu: "GPU-6f1c2f0e-7a4d-4c55-9b7e-3d1a8e52c0f4".to_owned(),
            index: "1".to_owned(),
            name: "NVIDIA H100 80GB HBM3".to_owned(),
            up: Some(false),
            trouble: vec!["lost".to_owned(), "xid 79".to_owned()],
            ..GpuView::default()
        };
        let divided = GpuView {
            utilization: None,
            instances: 7,
            ..gpu("2", "GPU-00000000-0000-4000-8000-000000000102")
        };
        let first = gpu("0", "GPU-00000000-0000-4000-8000-000000000100");
        let found = table(&[first, lost, divided], &PLAIN);
        let expected = "\
gpu  uuid      name              util   memory GiB  temp    power W  state
  0  00000000  H100 80GB HBM3    97 %  67.2 / 79.6  61 C  642 / 700  ok
  1  6f1c2f0e  H100 80GB HBM3                                        lost, xid 79
  2  00000000  H100 80GB HBM3          67.2 / 79.6  61 C  642 / 700  ok, 7 instances
";
        let squeezed = |text: &str| {
            let lines = text
                .lines()
                .map(|l| l.split_whitespace().collect::<Vec<_>>().join(" "));
            lines.collect::<Vec<_>>()
        };
        assert_eq!(squeezed(&found), squeezed(expected), "\n{found}");
    }

    #[test]
    fn the_table_stays_within_its_width_whatever_a_driver_says() {
        let mut evil = gpu("12345678901234567890", &"GPU-\u{1b}[2J\u{202e}節".repeat(20));
        evil.name = "節\r\n\u{9b}".repeat(40);
        evil.trouble = vec!["w".repeat(200)];
        evil.memory_used = Some(f64::MAX);
        for width in [60, 100] {
            let text = table(&[evil.clone()], &Screen { width, ..PLAIN });
            for line in text.lines() {
                assert!(columns(line) <= width, "{width}: {line}");
                assert!(!line.chars().any(char::is_control), "{line:?}");
            }
        }
    }

    #[test]
    fn eight_gpus_take_at_most_100_columns() {
        let gpus: Vec<GpuView> = (0..8)
            .map(|n| gpu(&n.to_string(), "GPU-6f1c2f0e-7a4d-4c55-9b7e-3d1a8e52c0f4"))
            .collect();
        let text = table(&gpus, &Screen { width: 100, ..PLAIN });
        assert_eq!(text.lines().count(), 9, "{text}");
        assert!(text.lines().all(|l| columns(l) <= 100), "{text}");
    }

    #[test]
    fn without_gpus_there_is_no_table() {
        assert_eq!(table(&[], &PLAIN), "");
    }
}
