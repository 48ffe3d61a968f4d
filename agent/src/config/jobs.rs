//! What the collector of jobs is given besides its own table: which node is ours, and where hooks write.

use std::path::Path;

use collectors::slurm::hook;
use collectors::slurm::settings::{GRES_CONF, HOOKS, NODE};
use model::jobs::MaxJobs;
use toml::Value;

use super::Config;

impl Config {
    /// How many jobs have series of their own.
    pub fn max_jobs(&self) -> MaxJobs {
        MaxJobs::of(&self.collectors)
    }

    /// Fills in what `[slurm.jobs]` leaves open: the node of `slurm.node_name`, the gres.conf beside `slurm.conf`, and the
    /// folder in this run directory.
    pub fn tell_jobs(&mut self, run: &Path) {
        let path = |path: &Path| Value::from(path.to_string_lossy().as_ref());
        let hooks = run.join(hook::FOLDER);
        let gres = self.slurm.conf.as_ref();
        let gres = gres.map(|conf| path(&conf.with_file_name("gres.conf")));
        for (key, value) in [
            (&NODE, self.slurm.node_name.as_deref().map(Value::from)),
            (&HOOKS, hooks.is_absolute().then(|| path(&hooks))),
            (&GRES_CONF, gres),
        ] {
            if let Some(value) = value {
                self.collectors.fill(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use collectors::slurm::SPEC;

    use super::*;

    fn told(table: &str, node: Option<&str>) -> Config {
        let mut config = Config::default();
        config.slurm.node_name = node.map(str::to_owned);
        config.slurm.conf = Some("/opt/slurm/slurm.conf".into());
        config.collectors = SPEC.settings(table).unwrap();
        config.tell_jobs(Path::new("/run/nw"));
        config
    }

    #[test]
    fn what_is_not_set_is_filled_in() {
        let text = |config: &Config, key| config.collectors.find::<String>(key).unwrap();
        let config = told("", None);
        assert_eq!(text(&config, &NODE), None);
        assert_eq!(text(&config, &HOOKS).unwrap(), "/run/nw/jobs");
        assert_eq!(text(&config, &GRES_CONF).unwrap(), "/opt/slurm/gres.conf");
        assert_eq!(text(&told("", Some("n1")), &NODE).unwrap(), "n1");
        let config = told("hooks = \"/x\"\nnode = \"n2\"\n", Some("n1"));
        assert_eq!(text(&config, &NODE).unwrap(), "n2");
        assert_eq!(text(&config, &HOOKS).unwrap(), "/x");
    }
}
