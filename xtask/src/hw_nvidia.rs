//! `cargo xtask hw-nvidia`: the answers of this machine's NVIDIA driver, by call, and as a scenario for the stand-in.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use testkit::nvml::record::{Asked, record};

/// The arguments of `cargo xtask hw-nvidia`.
#[derive(clap::Args)]
pub(crate) struct HwNvidiaArgs {
    /// The library to ask.
    #[arg(long, value_name = "FILE", default_value = "libnvidia-ml.so.1")]
    library: PathBuf,
    /// Where the scenario goes. Serial numbers and UUIDs are made up in it, and names of processes left out.
    #[arg(long, value_name = "FILE", default_value = "target/hw-nvidia.toml")]
    out: PathBuf,
    /// Print a line for each function alone.
    #[arg(long)]
    brief: bool,
}

/// Asks, prints, writes.
pub(crate) fn run(args: &HwNvidiaArgs) -> Result<()> {
    let recording = record(&args.library)?;
    if !args.brief {
        for asked in &recording.calls {
            println!("{}", line(asked));
        }
        println!();
    }
    for summary in summaries(&recording.calls) {
        println!("{summary}");
    }
    let out = crate::cmd::root().join(&args.out);
    std::fs::write(&out, &recording.scenario).with_context(|| out.display().to_string())?;
    println!("\n{} calls; {}", recording.calls.len(), out.display());
    Ok(())
}

fn result(code: Option<u32>) -> String {
    match code {
        Some(0) => "ok".to_owned(),
        Some(code) => format!("error {code}"),
        None => "not there".to_owned(),
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn line(asked: &Asked) -> String {
    format!(
        "{:48} {:10} {:10.1} us  {}",
        asked.function,
        result(asked.code),
        micros(asked.took),
        asked.what
    )
}

/// For each function: how often which result, and the middle and the longest time.
fn summaries(calls: &[Asked]) -> Vec<String> {
    let mut by_function: BTreeMap<&str, Vec<&Asked>> = BTreeMap::new();
    for asked in calls {
        by_function.entry(asked.function).or_default().push(asked);
    }
    let summary = |(function, asked): (&str, Vec<&Asked>)| {
        let mut results: BTreeMap<String, usize> = BTreeMap::new();
        for one in &asked {
            *results.entry(result(one.code)).or_default() += 1;
        }
        let results: Vec<String> = results.iter().map(|(r, n)| format!("{r} x {n}")).collect();
        let mut times: Vec<Duration> = asked.iter().map(|a| a.took).collect();
        times.sort_unstable();
        let middle = times.get(times.len() / 2).copied().unwrap_or_default();
        let longest = times.last().copied().unwrap_or_default();
        format!(
            "{function:48} {:10.1} us {:10.1} us  {}",
            micros(middle),
            micros(longest),
            results.join(", ")
        )
    };
    by_function.into_iter().map(summary).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_has_one_line_with_its_results_and_times() {
        let asked = |code, micros| Asked {
            function: "nvmlDeviceGetPowerUsage",
            what: "GPU 0".to_owned(),
            code,
            took: Duration::from_micros(micros),
        };
        let calls = [
            asked(Some(0), 5),
            asked(Some(0), 7),
            asked(Some(15), 900),
            asked(None, 0),
        ];
        let lines = summaries(&calls);
        assert_eq!(lines.len(), 1);
        for part in ["7.0 us", "900.0 us", "ok x 2", "error 15 x 1", "not there x 1"] {
            assert!(lines[0].contains(part), "{part}: {}", lines[0]);
        }
        assert!(line(&calls[2]).contains("error 15"));
    }
}
