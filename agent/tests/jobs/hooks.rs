//! Prolog and epilog of a cluster that run our hooks, each node's with the run directory of its own daemon.

use std::fs;
use std::os::unix::fs::symlink;

use tempfile::TempDir;
use testkit::slurm::SlurmOptions;

use crate::cluster::Cluster;
use crate::common::{open_to_all, program};

pub struct Hooks {
    /// Links to run directories, by node: they are known later than the hooks are written.
    links: TempDir,
}

impl Hooks {
    /// Lets the cluster run them.
    pub fn of(options: SlurmOptions) -> (Self, SlurmOptions) {
        let links = tempfile::Builder::new().prefix("nw-hooks-").tempdir().unwrap();
        open_to_all(links.path());
        let ours = options.installation.outside(program());
        let hook = |verb: &str| {
            let links = links.path().display();
            Some(format!(
                "#!/bin/sh\n{ours} hook {verb} --run-dir {links}/$SLURMD_NODENAME 2>>{links}/errors\n"
            ))
        };
        let options = SlurmOptions {
            prolog: hook("prolog"),
            epilog: hook("epilog"),
            ..options
        };
        (Self { links }, options)
    }

    /// Connects hooks and daemons: the hooks reach the daemons, and the daemons read the hooks' files.
    pub fn link(&self, cluster: &Cluster) {
        for (name, node) in &cluster.nodes {
            symlink(node.run_dir(), self.links.path().join(name)).unwrap();
            // The worker finds it below the node's own root.
            let seen = node.path("root").join(node.run_dir().strip_prefix("/").unwrap());
            fs::create_dir_all(seen.parent().unwrap()).unwrap();
            symlink(node.run_dir(), seen).unwrap();
        }
    }

    /// What they complained of.
    pub fn errors(&self) -> String {
        fs::read_to_string(self.links.path().join("errors")).unwrap_or_default()
    }
}
