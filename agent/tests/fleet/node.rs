//! One node of the controller, with the code that the parent runs for it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use model::scheduler::{Action, IncidentId, LookError, NodeState, Outcome, Reason};
use nodewarden::parent::slurm::Slurm;
use nodewarden::parent::slurm::find::{Boot, LocalSlurmd};
use nodewarden::parent::slurm::here;
use nodewarden::parent::slurm::seen::SeenSlurmd;
use slurm::{Settings, guard};
use testkit::exec::which;

/// The pause of the engine after an act of unknown outcome.
const BACK_OFF: Duration = Duration::from_secs(2);

/// A node whose slurmd has registered it as this machine, and ended. This is a state of production: the node that was
/// proven in this boot stays, so that a drain does not wait for slurmd. So one machine can be every node, each proven
/// by its host name and boot time, by the code of production.
#[derive(Debug)]
pub struct Node {
    name: String,
    /// Drains of unknown outcome: no answer in time.
    pub unknown: usize,
    slurm: Slurm,
}

impl Node {
    /// With the machine's commands, and without a limit on drains.
    pub fn new(name: &str, conf: &Path) -> Self {
        Self::with(name, conf, which("scontrol").unwrap(), guard::Settings::default())
    }

    /// With this scontrol, the sinfo beside it, and this limit.
    pub fn with(name: &str, conf: &Path, scontrol: PathBuf, guard: guard::Settings) -> Self {
        let mut seen = SeenSlurmd::default();
        seen.set(&LocalSlurmd {
            node_name: name.to_owned(),
            conf: Some(conf.to_owned()),
            exe: None,
            process: None,
            boot: Boot::Machine,
        });
        let settings = Settings {
            node_name: Some(name.to_owned()),
            scontrol: Some(scontrol),
            conf: None,
            mirror: false,
            timeout: Duration::from_secs(10),
            guard,
        };
        // The processes of all nodes are not this one's: 500 nodes would read those of 500 nodes.
        let no_slurmd = conf.with_file_name("proc");
        let slurm = Slurm::new(settings, here::hostname(), here::boot_time())
            .with_seen(seen)
            .with_proc(no_slurmd);
        Self {
            name: name.to_owned(),
            unknown: 0,
            slurm,
        }
    }

    pub fn look(&mut self) -> Result<NodeState, LookError> {
        self.slurm.look()
    }

    pub fn act(&mut self, action: &Action) -> Outcome {
        self.slurm.act(action)
    }

    /// Drains the node; after an unknown outcome again, as the engine does.
    pub fn drain(&mut self) {
        let action = Action::Drain {
            incident: IncidentId::parse("abcdefg2").unwrap(),
            reason: Reason::new("nodewarden:xid.79 gpu3 off the bus act=reboot id=abcdefg2").unwrap(),
            in_maintenance: false,
            is_device: false,
        };
        loop {
            match self.slurm.act(&action) {
                Outcome::Done(_) | Outcome::Already(_) => return,
                Outcome::NotBegun(_) | Outcome::Unknown(_) => self.unknown += 1,
                other => panic!("{}: {other:?}", self.name),
            }
            std::thread::sleep(BACK_OFF);
        }
    }
}
