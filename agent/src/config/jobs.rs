//! What the collector of jobs is told besides its own table: which node is ours, and where hooks write.

use std::path::Path;

use collectors::Settings;
use collectors::slurm::{SPEC, hook};
use model::jobs::MaxJobs;

use super::Config;
use super::keys::quote;

impl Config {
    /// How many jobs have series of their own.
    pub fn max_jobs(&self) -> MaxJobs {
        let table = self.collectors.get(SPEC.name).cloned();
        MaxJobs::of(&Settings::new(table.unwrap_or_default()))
    }

    /// Fills in what `[slurm.jobs]` leaves open: the node of `slurm.node_name`, the gres.conf beside `slurm.conf`, and the
    /// folder in this run directory.
    pub fn tell_jobs(&mut self, run: &Path) {
        let node = self.slurm.node_name.as_deref().map(quote);
        let hooks = run.join(hook::FOLDER);
        let hooks = hooks.is_absolute().then(|| quote(&hooks.to_string_lossy()));
        let gres = self
            .slurm
            .conf
            .as_ref()
            .map(|conf| conf.with_file_name("gres.conf"));
        let gres = gres.map(|path| quote(&path.to_string_lossy()));
        let table = self.collectors.entry(SPEC.name.to_owned()).or_default();
        for (key, value) in [("node", node), ("hooks", hooks), ("gres_conf", gres)] {
            let is_set = table.lines().any(|line| line.starts_with(&format!("{key} = ")));
            if let (Some(value), false) = (value, is_set) {
                table.push_str(&format!("{key} = {value}\n"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(table: &str, node: Option<&str>) -> String {
        let mut config = Config::default();
        config.slurm.node_name = node.map(str::to_owned);
        config.collectors.insert("slurm".to_owned(), table.to_owned());
        config.tell_jobs(Path::new("/run/nw"));
        config.collectors.remove("slurm").unwrap_or_default()
    }

    #[test]
    fn what_is_not_set_is_filled_in() {
        assert_eq!(told("", None), "hooks = \"/run/nw/jobs\"\n");
        let both = "node = \"n1\"\nhooks = \"/run/nw/jobs\"\n";
        assert_eq!(told("", Some("n1")), both);
        assert_eq!(
            told("hooks = \"/x\"\nnode = \"n2\"\n", Some("n1")),
            "hooks = \"/x\"\nnode = \"n2\"\n"
        );
        let mut config = Config::default();
        config.slurm.conf = Some("/opt/slurm/slurm.conf".into());
        config.tell_jobs(Path::new("/run/nw"));
        let table = config.collectors.remove("slurm").unwrap_or_default();
        assert!(
            table.contains("gres_conf = \"/opt/slurm/gres.conf\"\n"),
            "{table}"
        );
        let text = told("user = \"off\"\n", Some("n1"));
        (SPEC.validate)(&Settings::new(text)).unwrap();
    }
}
