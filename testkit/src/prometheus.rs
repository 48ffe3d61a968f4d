//! A real Prometheus that scrapes given targets.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::daemon::Daemon;
use crate::ports::Port;
use crate::{exec, http, wait};

/// What to scrape.
#[derive(Clone, Debug)]
pub struct Target {
    /// `job` of its series.
    pub job: String,
    /// Such as `127.0.0.1:9000`.
    pub address: String,
    /// Such as `/metrics`.
    pub path: String,
    /// Parameters of the query, such as `collect[]`.
    pub params: BTreeMap<String, Vec<String>>,
    /// Further keys of its scrape configuration, such as `tls_config`.
    pub client: serde_json::Map<String, Value>,
}

impl Target {
    /// `/metrics` of `address`.
    pub fn new(job: &str, address: &str) -> Self {
        Self {
            job: job.into(),
            address: address.into(),
            path: "/metrics".into(),
            params: BTreeMap::new(),
            client: serde_json::Map::new(),
        }
    }
}

/// Configuration of Prometheus.
#[derive(Clone, Debug)]
pub struct PrometheusOptions {
    /// Scrape targets.
    pub targets: Vec<Target>,
    /// Interval of scrapes and of rule evaluation.
    pub interval: Duration,
    /// Rule files.
    pub rules: Vec<PathBuf>,
    /// Addresses of Alertmanagers.
    pub alertmanagers: Vec<String>,
}

impl Default for PrometheusOptions {
    fn default() -> Self {
        Self {
            targets: Vec::new(),
            interval: Duration::from_secs(1),
            rules: Vec::new(),
            alertmanagers: Vec::new(),
        }
    }
}

/// Labels of a series, `__name__` among them.
pub type Labels = BTreeMap<String, String>;

/// A running Prometheus; dropping it ends it and removes its data.
#[derive(Debug)]
pub struct Prometheus {
    daemon: Daemon,
    port: Port,
    _dir: TempDir,
}

impl Prometheus {
    /// Starts it and returns when it is ready.
    pub fn start(options: &PrometheusOptions) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let interval = format!("{}ms", options.interval.as_millis());
        let jobs: Vec<Value> = options
            .targets
            .iter()
            .map(|t| {
                let mut job = json!({
                    "job_name": t.job,
                    "metrics_path": t.path,
                    "params": t.params,
                    "static_configs": [{ "targets": [t.address] }],
                });
                if let Value::Object(job) = &mut job {
                    job.extend(t.client.clone());
                }
                job
            })
            .collect();
        let config = json!({
            "global": {
                "scrape_interval": interval,
                "scrape_timeout": interval,
                "evaluation_interval": interval,
            },
            "alerting": { "alertmanagers": [{ "static_configs": [{ "targets": options.alertmanagers }] }] },
            "rule_files": options.rules,
            "scrape_configs": jobs,
        });
        // JSON is YAML.
        let file = dir.path().join("prometheus.yml");
        std::fs::write(&file, config.to_string())?;
        let port = Port::reserve()?;
        let mut command = Command::new(exec::which("prometheus")?);
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                dir.path().join("data").display()
            ))
            .arg(format!("--web.listen-address=127.0.0.1:{}", port.number()))
            .current_dir(dir.path());
        let prometheus = Self {
            daemon: Daemon::start(command)?,
            port,
            _dir: dir,
        };
        prometheus
            .daemon
            .wait_ready("Prometheus", &prometheus.address())?;
        Ok(prometheus)
    }

    /// Its listen address.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port.number())
    }

    /// Its log.
    pub fn log(&self) -> String {
        self.daemon.stderr()
    }

    /// Queries its API; returns `data` of the answer.
    pub fn api(&self, target: &str) -> Result<Value> {
        let response = http::get(&self.address(), target, &[], wait::PATIENCE)?;
        let answer: Value = serde_json::from_slice(&response.body)
            .with_context(|| String::from_utf8_lossy(&response.body).into_owned())?;
        ensure!(answer["status"] == "success", "{target}: {answer}");
        Ok(answer["data"].clone())
    }

    /// Evaluates an expression now. A scalar has no labels.
    pub fn query(&self, expr: &str) -> Result<Vec<(Labels, f64)>> {
        let data = self.api(&format!("/api/v1/query?query={}", http::encode(expr)))?;
        let value = |pair: &Value| -> Result<f64> {
            let text = pair[1].as_str().with_context(|| format!("no value in {pair}"))?;
            text.parse().with_context(|| text.to_owned())
        };
        match data["resultType"].as_str() {
            Some("scalar") => Ok(vec![(Labels::new(), value(&data["result"])?)]),
            Some("vector") => {
                let list = data["result"].as_array().context("no result")?;
                list.iter()
                    .map(|s| Ok((serde_json::from_value(s["metric"].clone())?, value(&s["value"])?)))
                    .collect()
            }
            other => bail!("{expr}: result of type {other:?}"),
        }
    }

    /// Waits until the result of an expression satisfies `predicate`.
    pub fn wait_query(
        &self,
        expr: &str,
        predicate: impl Fn(&[(Labels, f64)]) -> bool,
        timeout: Duration,
    ) -> Result<Vec<(Labels, f64)>> {
        let mut last = Vec::new();
        let found = wait::until(expr, timeout, || {
            last = self.query(expr)?;
            Ok(predicate(&last).then(|| last.clone()))
        });
        found.with_context(|| format!("last: {last:?}"))
    }

    /// The result of each target's last scrape, with the error if it failed. Targets not yet scraped are omitted.
    pub fn targets_up(&self) -> Result<Vec<(String, Result<(), String>)>> {
        let data = self.api("/api/v1/targets?state=active")?;
        let list = data["activeTargets"].as_array().context("no targets")?;
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        Ok(list
            .iter()
            .filter(|t| t["health"] != "unknown")
            .map(|t| {
                let state = if t["health"] == "up" {
                    Ok(())
                } else {
                    Err(text(&t["lastError"]))
                };
                (text(&t["labels"]["instance"]), state)
            })
            .collect())
    }

    /// Waits until `count` targets are up; the error names the failed targets and their errors.
    pub fn wait_up(&self, count: usize, timeout: Duration) -> Result<()> {
        let mut last = Vec::new();
        let up = wait::until(&format!("{count} targets up"), timeout, || {
            last = self.targets_up()?;
            Ok((last.iter().filter(|(_, state)| state.is_ok()).count() >= count).then_some(()))
        });
        up.with_context(|| format!("{last:?}"))
    }

    /// Type and unit of a family in the last scrape.
    pub fn metadata(&self, family: &str) -> Result<(String, String)> {
        let data = self.api(&format!(
            "/api/v1/targets/metadata?metric={}",
            http::encode(family)
        ))?;
        let text = |key: &str| data[0][key].as_str().map(str::to_owned);
        let kind = text("type").with_context(|| format!("{family}: {data}"))?;
        Ok((kind, text("unit").unwrap_or_default()))
    }

    /// Names of the alerts that fire now.
    pub fn firing(&self) -> Result<Vec<Labels>> {
        let data = self.api("/api/v1/alerts")?;
        let list = data["alerts"].as_array().context("no alerts")?;
        list.iter()
            .filter(|a| a["state"] == "firing")
            .map(|a| Ok(serde_json::from_value(a["labels"].clone())?))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;
    use crate::wait::PATIENCE;

    #[test]
    fn scrapes_a_target_and_reports_one_that_is_down() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let good = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            let body = "# TYPE kit gauge\nkit{gpu=\"a\"} 1.5\nkit{gpu=\"b\"} 2\n";
            for mut stream in listener.incoming().flatten() {
                let mut request = [0; 4096];
                let n = stream.read(&mut request).unwrap_or(0);
                assert!(String::from_utf8_lossy(&request[..n]).starts_with("GET /own?p=1 "));
                let length = body.len();
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
                );
                stream.write_all((head + body).as_bytes()).ok();
            }
        });
        let bad = Port::reserve().unwrap();
        let bad = format!("127.0.0.1:{}", bad.number());
        let dir = tempfile::tempdir().unwrap();
        let rules = dir.path().join("r.yml");
        std::fs::write(
            &rules,
            "groups: [{name: g, rules: [{alert: Kit, expr: 'kit > 1.7'}]}]",
        )
        .unwrap();
        let mut target = Target::new("good", &good);
        target.path = "/own".into();
        target.params.insert("p".into(), vec!["1".into()]);
        let prometheus = Prometheus::start(&PrometheusOptions {
            targets: vec![target, Target::new("bad", &bad)],
            rules: vec![rules],
            ..PrometheusOptions::default()
        })
        .unwrap();
        prometheus.wait_up(1, PATIENCE).unwrap();
        let series = prometheus
            .wait_query("sort(kit)", |s| s.len() == 2, PATIENCE)
            .unwrap();
        assert_eq!((series[0].0["gpu"].as_str(), series[0].1), ("a", 1.5));
        assert_eq!(series[1].0["job"], "good");
        assert_eq!(prometheus.query("1 + 1").unwrap(), [(Labels::new(), 2.0)]);
        assert!(
            prometheus
                .query("1 +")
                .unwrap_err()
                .to_string()
                .contains("parse error")
        );
        let states = wait::until("both scraped", PATIENCE, || {
            Ok(Some(prometheus.targets_up()?).filter(|states| states.len() == 2))
        })
        .unwrap();
        let refused = states.iter().find(|(instance, _)| *instance == bad).unwrap();
        assert!(refused.1.as_ref().unwrap_err().contains("refused"), "{states:?}");
        let firing = wait::until("alert", PATIENCE, || Ok(prometheus.firing()?.pop())).unwrap();
        assert_eq!(
            (firing["alertname"].as_str(), firing["gpu"].as_str()),
            ("Kit", "b")
        );
    }
}
