//! Against a scontrol that is a shell script and a slurmd that is a folder. The script keeps the node in files, counts
//! its calls and writes down how it was called.

#![allow(clippy::disallowed_methods, reason = "tests write the stand-ins")]

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use tempfile::TempDir;
use testkit::wait::until_true;

use super::*;
use model::scheduler::mirror::Note;
use model::scheduler::{IncidentId, Reason};

const BOOT: i64 = 1_795_225_274; // 2026-11-21T01:41:14
const ID: &str = "abcdefg2";
pub(super) const REASON: &str = "nodewarden:xid.79 gpu3 off the bus act=reboot id=abcdefg2";

pub(in crate::parent::slurm) struct Cluster {
    folder: TempDir,
    pub(in crate::parent::slurm) slurm: Slurm,
}

impl Cluster {
    pub(in crate::parent::slurm) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let scontrol = folder.path().join("scontrol");
        let process = folder.path().join("proc/8");
        std::fs::create_dir_all(&process).unwrap();
        std::fs::create_dir_all(folder.path().join("proc/self")).unwrap();
        for process in [process, folder.path().join("proc/self")] {
            symlink("/", process.join("root")).unwrap();
        }
        // A link, not a copy: a file just written may be busy in a child that another test has just forked.
        let stand_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/scontrol/stand-in/scontrol");
        symlink(stand_in, &scontrol).unwrap();
        let mut slurm = Slurm::new(
            Settings {
                scontrol: Some(scontrol),
                timeout: Duration::from_secs(60),
                ..Settings::default()
            },
            "host1.cluster.example".to_owned(),
            Some(BOOT),
        );
        slurm.proc = folder.path().join("proc");
        let cluster = Self { folder, slurm };
        let uid = nix::unistd::geteuid();
        for (file, text) in [
            ("proc/8/comm", "slurmd\n"),
            ("proc/8/cmdline", "slurmd\0-N\0n0\0-f\0/srv/slurm.conf\0"),
            ("proc/8/status", &format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n")),
            ("name", "n0"),
            ("host", "host1"),
            ("state", "MIXED"),
            ("boot", "2026-11-21T01:41:30"),
            ("size", "100"),
            ("calls", "0"),
        ] {
            cluster.set(file, text);
        }
        cluster
    }

    /// sinfo lies beside scontrol, and the process of slurmd has a start time.
    pub(in crate::parent::slurm) fn with_sinfo(self) -> Self {
        let stand_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/scontrol/stand-in/sinfo");
        symlink(stand_in, self.folder.path().join("sinfo")).unwrap();
        self.slurmd_started(100);
        self
    }

    pub(in crate::parent::slurm) fn slurmd_started(&self, ticks: u64) {
        let rest = "0 ".repeat(30);
        let stat = format!("8 (slurmd) S 1 8 8 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {ticks} {rest}");
        self.set("proc/8/stat", &stat);
    }

    pub(in crate::parent::slurm) fn sinfo_calls(&self) -> u32 {
        self.get("calls.sinfo").trim().parse().unwrap_or(0)
    }

    pub(in crate::parent::slurm) fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    pub(in crate::parent::slurm) fn set(&self, file: &str, text: &str) {
        std::fs::write(self.folder.path().join(file), text).unwrap();
    }

    pub(in crate::parent::slurm) fn get(&self, file: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(file)).unwrap_or_default()
    }

    /// Shell that the n-th call begins with.
    pub(in crate::parent::slurm) fn hook(&self, call: u32, script: &str) {
        self.set(&format!("hook.{call}"), script);
    }

    pub(in crate::parent::slurm) fn drain(&mut self) -> Outcome {
        self.slurm.act(&Action::Drain {
            incident: IncidentId::parse(ID).unwrap(),
            reason: Reason::new(REASON).unwrap(),
            in_maintenance: false,
            is_device: false,
        })
    }

    pub(in crate::parent::slurm) fn undrain(&mut self) -> Outcome {
        self.slurm.act(&Action::Undrain {
            incident: IncidentId::parse(ID).unwrap(),
            is_ordered: false,
            lifts: Vec::new(),
        })
    }

    pub(in crate::parent::slurm) fn drained(&self, reason: &str) {
        self.set("state", "IDLE+DRAIN");
        self.set("reason", reason);
    }

    pub(in crate::parent::slurm) fn calls(&self) -> u32 {
        self.get("calls").trim().parse().unwrap()
    }

    pub(in crate::parent::slurm) fn wrote(&self) -> bool {
        self.get("argv").lines().any(|arg| arg == "update")
    }
}

/// The copy of the drain that stands.
pub(super) fn mirror(cluster: &mut Cluster, lifts: &[i64]) -> Outcome {
    cluster.slurm.act(&Action::Mirror {
        incident: IncidentId::parse(ID).unwrap(),
        note: Note {
            boot: "b-1".to_owned(),
            reboot: true,
            gpus: vec!["0000:3b:00.0".to_owned()],
            lifts: lifts.to_vec(),
        },
    })
}

const COPY: &str = r#""nodewarden":{"drain":{"id":"abcdefg2","at":1795231200,"uid":0,"boot":"b-1","reboot":true,"gpus":["0000:3b:00.0"]},"lifts":[]}"#;

pub(super) fn with_mirror() -> Cluster {
    let mut cluster = Cluster::new().with_sinfo();
    cluster.slurm.config.mirror = true;
    cluster.slurm.look().unwrap();
    cluster
}

#[test]
fn the_record_of_a_drain_is_copied_beside_the_keys_of_others_and_its_lift_leaves_only_those() {
    for (site, with, after) in [
        ("", format!("{{{COPY}}}"), ""),
        (
            r#"{"rack": 7.50}"#,
            format!(r#"{{"rack":7.50,{COPY}}}"#),
            r#"{"rack":7.50}"#,
        ),
    ] {
        let mut cluster = with_mirror();
        cluster.set("extra", site);
        assert!(matches!(cluster.drain(), Outcome::Done(_)));
        let Outcome::Done(node) = mirror(&mut cluster, &[]) else {
            panic!()
        };
        assert_eq!(cluster.get("extra"), with);
        assert!(node.proof().is_some_and(|copy| copy.reboot));
        assert!(matches!(mirror(&mut cluster, &[]), Outcome::Already(_)));
        assert!(matches!(cluster.undrain(), Outcome::Done(_)));
        assert_eq!(cluster.get("extra"), after);
    }
}

#[test]
fn an_automatic_lift_leaves_the_times_of_lifts() {
    let mut cluster = with_mirror();
    cluster.drain();
    mirror(&mut cluster, &[7]);
    let lift = Action::Undrain {
        incident: IncidentId::parse(ID).unwrap(),
        is_ordered: false,
        lifts: vec![7, 8],
    };
    assert!(matches!(cluster.slurm.act(&lift), Outcome::Done(_)));
    assert_eq!(
        cluster.get("extra"),
        r#"{"nodewarden":{"drain":null,"lifts":[7,8]}}"#
    );
}

#[test]
fn no_copy_is_written_where_it_must_not_be() {
    let untouched = |cluster: &Cluster| !cluster.get("argv").contains("Extra=");
    // A text of the site.
    let mut cluster = with_mirror();
    cluster.set("extra", "rack=7");
    cluster.drain();
    assert!(matches!(mirror(&mut cluster, &[]), Outcome::Foreign(_)));
    cluster.undrain();
    assert!(untouched(&cluster));
    // The site turned it off.
    let mut cluster = with_mirror();
    cluster.slurm.config.mirror = false;
    cluster.drain();
    assert!(matches!(mirror(&mut cluster, &[]), Outcome::Withheld(word, _) if word == "no_extra"));
    cluster.undrain();
    assert!(untouched(&cluster));
    // Slurm without Extra: sinfo does not know the field.
    let mut cluster = with_mirror();
    cluster.set("fails", "");
    assert!(matches!(cluster.drain(), Outcome::Done(_)));
    assert!(matches!(mirror(&mut cluster, &[]), Outcome::Withheld(word, _) if word == "no_extra"));
    cluster.undrain();
    assert!(untouched(&cluster));
    // No drain of ours, and texts that are not ours.
    let mut cluster = with_mirror();
    cluster.drained("RMA 4711");
    assert!(matches!(mirror(&mut cluster, &[]), Outcome::Foreign(_)));
    assert!(matches!(mirror(&mut cluster, &[0; 9]), Outcome::Failed(_)));
    assert!(untouched(&cluster));
}

#[test]
fn drain_and_undrain() {
    let mut cluster = Cluster::new();
    let state = cluster.slurm.look().unwrap();
    assert_eq!((state.drained, cluster.calls()), (Some(false), 1));
    let Outcome::Done(state) = cluster.drain() else {
        panic!()
    };
    assert!(state.is_drained());
    assert_eq!(state.reason.unwrap().text, REASON);
    assert_eq!(cluster.calls(), 5, "reservations, show, update, show");
    assert!(matches!(cluster.drain(), Outcome::Already(_)));
    assert_eq!(cluster.calls(), 7, "reservations, show");
    let Outcome::Done(state) = cluster.undrain() else {
        panic!()
    };
    assert!(!state.is_drained());
    assert_eq!(cluster.calls(), 11);
    assert!(matches!(cluster.undrain(), Outcome::Already(_)));
    let update = "update\nNodeName=n0\nState=DRAIN\n";
    assert!(
        cluster
            .get("argv")
            .contains(&format!("4\n{update}Reason={REASON}\n3\n"))
    );
    assert!(
        cluster
            .get("argv")
            .contains("4\nupdate\nNodeName=n0\nState=UNDRAIN\nReason=none\n3\n")
    );
}

/// Of slurmrestd, which asks for no reason: Slurm 24.11 then keeps the one that it has.
#[test]
fn a_drain_without_a_reason_after_our_lift_is_a_persons() {
    let mut cluster = Cluster::new();
    assert!(matches!(cluster.drain(), Outcome::Done(_)));
    assert!(matches!(cluster.undrain(), Outcome::Done(_)));
    cluster.set("state", "IDLE+DRAIN");
    assert!(matches!(cluster.undrain(), Outcome::Foreign(_)));
    assert!(matches!(cluster.drain(), Outcome::Foreign(_)));
    assert_eq!(cluster.get("state").trim(), "IDLE+DRAIN");
    // A node that went down is drained, whatever an earlier lift left.
    for left in ["none", "nodewarden: lifted abcdefg2"] {
        cluster.set("state", "DOWN");
        cluster.set("reason", &format!("{left} : Not responding"));
        assert!(matches!(cluster.drain(), Outcome::Done(_)), "{left}");
    }
}

#[test]
fn scontrol_proves_the_node_once_and_sinfo_reads_it_from_then_on() {
    let mut cluster = Cluster::new().with_sinfo();
    cluster.slurm.look().unwrap();
    assert_eq!((cluster.calls(), cluster.sinfo_calls()), (1, 0));
    assert!(matches!(cluster.drain(), Outcome::Done(_)));
    assert_eq!(
        (cluster.calls(), cluster.sinfo_calls()),
        (3, 2),
        "reservations, sinfo, update, sinfo"
    );
    let node = cluster.slurm.look().unwrap();
    assert_eq!(node.incident().map(|id| id.0.as_str()), Some(ID));
    assert_eq!((cluster.calls(), cluster.sinfo_calls()), (3, 3));
    // Another slurmd: another proof.
    cluster.slurmd_started(200);
    cluster.slurm.look().unwrap();
    assert_eq!((cluster.calls(), cluster.sinfo_calls()), (4, 3));
    cluster.set("host", "host2");
    cluster.slurmd_started(300);
    assert!(matches!(cluster.slurm.look(), Err(LookError::NotOurs(_))));
    assert!(matches!(cluster.undrain(), Outcome::NotOurs(_)));
}

#[test]
fn scontrol_shows_a_node_that_sinfo_does_not_until_it_does_again() {
    for file in ["nowhere", "fails"] {
        let mut cluster = Cluster::new().with_sinfo();
        cluster.slurm.look().unwrap();
        cluster.set(file, "");
        for looks in 1..6 {
            cluster.slurm.look().unwrap();
            assert_eq!(
                (cluster.calls(), cluster.sinfo_calls()),
                (1 + looks, looks),
                "{file}"
            );
        }
        std::fs::remove_file(cluster.path(file)).unwrap();
        assert_eq!(cluster.slurm.look().unwrap().drained, Some(false));
        assert_eq!((cluster.calls(), cluster.sinfo_calls()), (6, 6), "{file}");
    }
}

#[test]
fn a_slurmctld_that_was_away_does_not_cost_the_copy_of_the_record() {
    let mut cluster = with_mirror();
    cluster.set("fails", "");
    for call in 2..6 {
        cluster.hook(call, "exit 1");
        cluster.slurm.look().unwrap_err();
    }
    std::fs::remove_file(cluster.path("fails")).unwrap();
    assert!(matches!(cluster.drain(), Outcome::Done(_)));
    assert!(matches!(mirror(&mut cluster, &[]), Outcome::Done(_)));
    assert_ne!(cluster.get("extra"), "");
}

#[test]
fn a_node_that_was_proven_in_this_boot_is_drained_while_no_slurmd_runs() {
    let mut cluster = Cluster::new().with_sinfo();
    cluster.set("proc/8/comm", "other\n");
    assert!(matches!(cluster.drain(), Outcome::NotOurs(_)), "never proven");
    cluster.set("proc/8/comm", "slurmd\n");
    cluster.slurm.look().unwrap();
    cluster.set("proc/8/comm", "other\n");
    assert!(matches!(cluster.drain(), Outcome::Done(_)));
    cluster.slurm.config.node_name = Some("n1".to_owned());
    assert!(
        matches!(cluster.undrain(), Outcome::NotOurs(_)),
        "the site names another node"
    );
}

#[test]
fn a_drain_that_is_gone_comes_with_the_start_of_slurmctld() {
    let mut cluster = Cluster::new().with_sinfo();
    cluster.set("started", "2026-11-21T03:21:00");
    cluster.slurm.look().unwrap();
    assert!(matches!(cluster.drain(), Outcome::Done(_)));
    cluster.set("state", "IDLE");
    let node = cluster.slurm.look().unwrap();
    assert_eq!(node.controller_started, Some(1_795_231_260));
    let calls = cluster.calls();
    let node = cluster.slurm.look().unwrap();
    assert_eq!(
        node.controller_started,
        Some(1_795_231_260),
        "every later look shows it"
    );
    assert_eq!(cluster.calls(), calls, "asked once");
}

pub(super) const COUNT_LOWER: &str = "gres/gpu count reported lower than configured (7 < 8)";

#[test]
fn slurmctlds_own_text_is_lifted_only_where_we_remember_the_drain() {
    let mut cluster = Cluster::new();
    cluster.drained(COUNT_LOWER);
    assert!(
        matches!(cluster.undrain(), Outcome::Foreign(_)),
        "never ours, whatever the daemon says"
    );
    assert!(!cluster.wrote());

    let mut cluster = Cluster::new();
    assert!(matches!(cluster.drain(), Outcome::Done(_)));
    cluster.drained(COUNT_LOWER);
    assert!(matches!(cluster.undrain(), Outcome::Done(_)));
}

#[test]
fn the_memory_of_a_drain_outlives_the_parent_and_ends_with_the_drain() {
    let folder = tempfile::tempdir().unwrap();
    let (state, id) = (folder.path(), IncidentId::parse(ID).unwrap());
    DrainMemory::of(state).drained(&id);
    let mut memory = DrainMemory::of(state);
    assert!(memory.is(&id));
    memory.over();
    assert!(!memory.is(&id) && !DrainMemory::of(state).is(&id));
}

/// Before 0.1.0 the file lay where the daemon may create files: its claim would lift slurmctld's own drains.
#[test]
fn the_memory_of_a_drain_is_taken_over_from_a_file_of_the_parent_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (state, id) = (folder.path(), IncidentId::parse(ID).unwrap());
    let old = state.join("own-drain");
    let remembers = || DrainMemory::of(state).is(&id);
    let put = |mode: u32| {
        std::fs::write(&old, format!("{ID}\n")).unwrap();
        std::fs::set_permissions(&old, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    put(0o620);
    assert!(!remembers());
    put(0o600);
    std::fs::hard_link(&old, state.join("second")).unwrap();
    assert!(!remembers());
    std::fs::remove_file(&old).unwrap();
    symlink(state.join("second"), &old).unwrap();
    assert!(!remembers());
    std::fs::remove_file(&old).unwrap();
    nix::unistd::mkfifo(&old, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(!remembers(), "nor does a FIFO block");
    std::fs::remove_file(&old).unwrap();
    if nix::unistd::geteuid().is_root() {
        put(0o600);
        std::os::unix::fs::chown(&old, Some(1), None).unwrap();
        assert!(!remembers());
        std::fs::remove_file(&old).unwrap();
    }
    put(0o600);
    assert!(remembers() && !old.exists());
    assert!(remembers(), "it lies in the parent's folder now");
}

#[test]
fn who_is_given_up_writes_nothing_any_more() {
    let mut cluster = Cluster::new();
    let given_up = Arc::new(AtomicBool::new(true));
    cluster.slurm.set_given_up(given_up);
    assert!(matches!(cluster.drain(), Outcome::NotBegun(_)));
    assert!(!cluster.wrote());
}

/// As slurmctld does: after UNDRAIN it knows no boot time until slurmd has registered again.
#[test]
fn a_boot_time_that_slurmctld_forgot() {
    let mut cluster = Cluster::new();
    cluster.drained(REASON);
    cluster.hook(4, "echo None > boot");
    assert!(matches!(cluster.undrain(), Outcome::Done(_)));
    assert!(matches!(cluster.drain(), Outcome::Done(_)));
    cluster.set("boot", "2026-11-20T01:41:14");
    assert!(matches!(cluster.undrain(), Outcome::NotOurs(_)));
    cluster.set("boot", "None");
    assert!(matches!(cluster.undrain(), Outcome::NotOurs(_)));
}

/// Of a parent that starts after the lift.
#[test]
fn a_boot_time_that_slurmctld_forgot_is_not_needed_where_an_earlier_parent_proved_the_slurmd_that_runs() {
    let record = tempfile::tempdir().unwrap();
    let restarted = |file: &str, text: &str| {
        let mut cluster = Cluster::new().with_sinfo();
        cluster.slurm.seen = SeenSlurmd::of(record.path());
        cluster.set(file, text);
        cluster
    };
    assert!(
        matches!(restarted("boot", "None").drain(), Outcome::NotOurs(_)),
        "never proven"
    );
    restarted("state", "MIXED").slurm.look().unwrap();
    assert!(matches!(restarted("boot", "None").drain(), Outcome::Done(_)));
    let mut without_slurmd = restarted("boot", "None");
    without_slurmd.set("proc/8/comm", "other\n");
    assert!(matches!(without_slurmd.drain(), Outcome::NotOurs(_)));
    // No evidence against it: a host name that comes late, a boot time of ours that cannot be read.
    assert!(restarted("host", "host2").slurm.look().is_err());
    let mut unreadable = restarted("state", "MIXED");
    unreadable.slurm.boot_time = None;
    assert!(unreadable.slurm.look().is_err());
    assert!(matches!(restarted("boot", "None").drain(), Outcome::Done(_)));
    // Another machine has the name.
    assert!(restarted("boot", "2026-11-20T01:41:14").slurm.look().is_err());
    assert!(matches!(restarted("boot", "None").drain(), Outcome::NotOurs(_)));
}

#[test]
fn comments() {
    let mut cluster = Cluster::new();
    let incident = IncidentId::parse(ID).unwrap();
    let comment = Action::Comment {
        incident: incident.clone(),
        text: Reason::new(REASON).unwrap(),
    };
    let Outcome::Done(state) = cluster.slurm.act(&comment) else {
        panic!()
    };
    assert_eq!(state.comment.as_deref(), Some(REASON));
    assert!(matches!(cluster.slurm.act(&comment), Outcome::Already(_)));
    let uncomment = Action::Uncomment { incident };
    let Outcome::Done(state) = cluster.slurm.act(&uncomment) else {
        panic!()
    };
    assert_eq!(state.comment, None);
    cluster.set("comment", "asset 4711");
    assert!(matches!(cluster.slurm.act(&comment), Outcome::Foreign(_)));
    assert!(matches!(cluster.slurm.act(&uncomment), Outcome::Foreign(_)));
    assert_eq!(cluster.get("comment"), "asset 4711");
}

#[test]
fn a_persons_reason_is_left_alone() {
    let mut cluster = Cluster::new();
    for state in ["IDLE+DRAIN", "DOWN", "IDLE+FAIL"] {
        cluster.set("state", state);
        cluster.set("reason", "bob: fan tray");
        assert!(matches!(cluster.drain(), Outcome::Foreign(_)), "{state}");
    }
    cluster.drained("bob: fan tray");
    assert!(matches!(cluster.undrain(), Outcome::Foreign(_)));
    assert!(!cluster.wrote());
}

#[test]
fn a_person_who_comes_between_write_and_reading_back() {
    let mut cluster = Cluster::new();
    cluster.hook(4, "echo 'bob: fan tray' > reason");
    let Outcome::Foreign(state) = cluster.drain() else {
        panic!()
    };
    assert_eq!(state.reason.unwrap().text, "bob: fan tray");
    let mut cluster = Cluster::new();
    cluster.drained(REASON);
    cluster.hook(4, "echo IDLE+DRAIN > state; echo 'bob: fan tray' > reason");
    assert!(matches!(cluster.undrain(), Outcome::Foreign(_)));
}

#[test]
fn withheld() {
    let mut cluster = Cluster::new();
    for (state, word) in [
        ("IDLE+MAINTENANCE", "maint"),
        ("IDLE+DRAIN+INVALID_REG", "invalid_reg"),
        ("IDLE+REBOOT_ISSUED", "reboot_issued"),
        ("IDLE+QUARANTINED", "unknown_state"),
    ] {
        cluster.set("state", state);
        let Outcome::Withheld(why, _) = cluster.drain() else {
            panic!("{state}")
        };
        assert_eq!(why, word);
    }
    cluster.set("state", "DOWN+DRAIN");
    cluster.set("reason", REASON);
    let Outcome::Withheld(why, _) = cluster.undrain() else {
        panic!()
    };
    assert_eq!(why, "down");
    assert!(!cluster.wrote());
}

#[test]
fn not_proven_to_be_ours() {
    for (file, text) in [
        ("name", "n1"),
        ("host", "host2"),
        ("boot", "2026-11-21T01:45:00"),
        ("boot", "None"),
        ("name", "n0\nNodeName=n1"),
    ] {
        let mut cluster = Cluster::new();
        cluster.set(file, text);
        let outcome = cluster.drain();
        assert!(
            matches!(outcome, Outcome::NotOurs(_) | Outcome::Failed(_)),
            "{file}: {outcome:?}"
        );
        assert!(matches!(outcome, Outcome::NotOurs(_)) || file == "name");
        assert!(cluster.slurm.look().is_err());
        assert!(!cluster.wrote());
    }
    let mut cluster = Cluster::new();
    cluster.set("proc/8/comm", "bash\n");
    assert!(matches!(cluster.drain(), Outcome::NotOurs(_)));
    assert_eq!(cluster.calls(), 0);
}

#[test]
fn a_node_that_slurmctld_does_not_know_is_not_proven_and_the_key_is_named() {
    let unknown = "echo 'Node n0 not found'; exit 1";
    let mut cluster = Cluster::new();
    cluster.hook(1, unknown);
    let Err(LookError::NotOurs(why)) = cluster.slurm.look() else {
        panic!()
    };
    assert!(why.contains("node n0 not found; set slurm.node_name"), "{why}");
    // After the reservations.
    cluster.hook(3, unknown);
    assert!(matches!(cluster.drain(), Outcome::NotOurs(_)));
    assert!(!cluster.wrote());
    // One that was proven comes back.
    cluster.slurm.look().unwrap();
    cluster.hook(5, unknown);
    assert!(matches!(cluster.slurm.look(), Err(LookError::Failed(_))));
}

#[test]
fn slurmctld_refuses() {
    let mut cluster = Cluster::new();
    cluster.hook(3, "echo 'slurm_update error: Invalid user id' >&2; exit 1");
    let Outcome::Failed(why) = cluster.drain() else {
        panic!()
    };
    assert_eq!(why, "exit code 1, slurm_update error: Invalid user id");
    // 22.05 and 24.11 without munged begin with a hint about one that runs.
    let munge = "for line in \
        'scontrol: error: If munged is up, restart with --num-threads=10' \
        'scontrol: error: Munge encode failed: Failed to access \"/run/munge/munge.socket.2\": No such file or directory' \
        'scontrol: error: slurm_send_node_msg: auth_g_create: REQUEST_NODE_INFO has authentication error' \
        'slurm_load_node error: Protocol authentication error'; do echo \"$line\" >&2; done; exit 1";
    cluster.hook(5, munge);
    let Err(LookError::Failed(why)) = cluster.slurm.look() else {
        panic!()
    };
    assert!(
        why.contains("exit code 1, scontrol: error: Munge encode failed: Failed to access"),
        "{why}"
    );
}

#[test]
fn slurmctld_says_yes_and_does_nothing() {
    let mut cluster = Cluster::new();
    cluster.hook(3, "exit 0");
    let Outcome::Failed(why) = cluster.drain() else {
        panic!()
    };
    assert_eq!(why, "slurmctld said yes but the node did not change");
    assert_eq!(cluster.calls(), 4);
}

#[test]
fn slurmctld_answers_too_late_for_scontrol() {
    let late = "echo 'slurm_update error: Socket timed out on send/recv operation' >&2";
    let mut cluster = Cluster::new();
    cluster.hook(3, &format!("{late}; exit 1"));
    assert!(matches!(cluster.drain(), Outcome::Unknown(_)));
    let mut cluster = Cluster::new();
    cluster.hook(
        3,
        &format!("echo IDLE+DRAIN > state; echo '{REASON}' > reason; {late}; exit 1"),
    );
    assert!(matches!(cluster.drain(), Outcome::Done(_)));
}

/// A script that ignores TERM, with a grandchild that ignores it too and keeps the output open.
const HANG: &str = "trap '' TERM; sleep 300 & echo $! >> pids; echo $$ >> pids; while :; do sleep 300; done";

#[test]
fn scontrol_hangs() {
    for call in [1, 2, 3, 4] {
        let mut cluster = Cluster::new();
        cluster.slurm.config.timeout = Duration::from_secs(5);
        cluster.hook(call, HANG);
        match cluster.drain() {
            Outcome::NotBegun(_) if call <= 2 => {}
            Outcome::Unknown(_) if call > 2 => {}
            other => panic!("call {call}: {other:?}"),
        }
        let pids = cluster.get("pids");
        assert_eq!(pids.lines().count(), 2, "{pids}");
        for pid in pids.lines() {
            until_true(&format!("{pid} has ended"), Duration::from_secs(10), || {
                let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
                stat.is_empty() || stat.contains(") Z ")
            })
            .unwrap();
        }
    }
}

#[test]
fn scontrol_is_missing_or_talks_nonsense() {
    let mut cluster = Cluster::new();
    cluster.slurm.config.scontrol = Some("/nonexistent/scontrol".into());
    let Outcome::Failed(why) = cluster.drain() else {
        panic!()
    };
    assert!(why.contains("/nonexistent/scontrol: no such program"), "{why}");
    for script in [
        "echo hello; exit 0",
        "exit 0",
        "head -c 10000000 /dev/zero; exit 0",
        "head -c 3000 /dev/urandom; exit 0",
        "kill -9 $$",
        "echo 'Unable to contact slurm controller (connect failure)' >&2; exit 1",
    ] {
        // The reservations, and the node.
        for call in [1, 2] {
            let mut cluster = Cluster::new();
            cluster.hook(call, script);
            let Outcome::Failed(why) = cluster.drain() else {
                panic!("{script}")
            };
            assert!(why.starts_with("nothing was written: "), "{why}");
            assert!(!cluster.wrote());
        }
    }
}

#[test]
fn scontrol_gets_an_environment_of_its_own() {
    let mut cluster = Cluster::new();
    cluster.slurm.look().unwrap();
    let environ = cluster.get("environ");
    for line in [
        "SLURM_CONF=/srv/slurm.conf",
        "TZ=UTC0",
        "LC_ALL=C",
        "PATH=/usr/bin:/bin",
        "SLURM_TIME_FORMAT=standard",
        "SINFO_LOCAL=1",
    ] {
        assert!(environ.lines().any(|l| l == line), "{line} in {environ}");
    }
    for line in environ.lines() {
        let name = line.split('=').next().unwrap();
        let known = [
            "SLURM_CONF",
            "TZ",
            "LC_ALL",
            "PATH",
            "SLURM_TIME_FORMAT",
            "SINFO_LOCAL",
            "PWD",
            "OLDPWD",
            "SHLVL",
            "_",
        ];
        assert!(known.contains(&name), "{line}");
    }
    cluster.slurm.config.conf = Some("/other/slurm.conf".into());
    cluster.slurm.look().unwrap();
    assert!(cluster.get("environ").contains("SLURM_CONF=/other/slurm.conf\n"));
}

#[test]
fn words_that_are_not_ours_never_reach_scontrol() {
    let mut cluster = Cluster::new();
    let other = Action::Drain {
        incident: IncidentId::parse("zzzzzzz7").unwrap(),
        reason: Reason::new(REASON).unwrap(),
        in_maintenance: false,
        is_device: false,
    };
    let forged = Action::Undrain {
        incident: IncidentId("x NodeName=ALL".to_owned()),
        is_ordered: false,
        lifts: Vec::new(),
    };
    for action in [other, forged] {
        assert!(matches!(cluster.slurm.act(&action), Outcome::Failed(_)));
    }
    assert_eq!(cluster.calls(), 0);
}

proptest! {
    /// Frames come from an unprivileged process: what they hold is valid or refused.
    #[test]
    fn any_frame(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        if let Ok(Action::Drain { incident, reason, .. } | Action::Comment { incident, text: reason }) =
            postcard::from_bytes::<Action>(&bytes)
        {
            prop_assert!(IncidentId::parse(&incident.0).is_some());
            prop_assert!(Reason::new(reason.as_str()).is_some());
        }
    }

    #[test]
    fn any_text_in_a_frame(id in "[a-z2-7]{7,9}|[a-z2-9]{8}", text in "(nodewarden:)?([ -~\n]{0,220}|[a-z0-9 =]{0,220})") {
        #[derive(serde::Serialize)]
        enum Raw { Drain { incident: String, reason: String, in_maintenance: bool, is_device: bool } }
        let (incident, reason) = (id.clone(), text.clone());
        let raw = Raw::Drain { incident, reason, in_maintenance: false, is_device: true };
        let bytes = postcard::to_stdvec(&raw).unwrap();
        let good = IncidentId::parse(&id).is_some() && Reason::new(&text).is_some();
        prop_assert_eq!(postcard::from_bytes::<Action>(&bytes).is_ok(), good);
        let json = serde_json::json!({"Drain": {"incident": id, "reason": text, "in_maintenance": false, "is_device": true}});
        prop_assert_eq!(serde_json::from_value::<Action>(json).is_ok(), good);
    }

    #[test]
    fn composed_reasons_are_ours(check in "\\PC{0,40}", subject in "\\PC{0,40}", detail in "\\PC{0,300}", act in "[ -~]{0,250}") {
        let id = IncidentId::parse(ID).unwrap();
        let reason = Reason::compose(&check, &subject, &detail, &act, &id);
        prop_assert!(Reason::new(reason.as_str()).is_some());
        prop_assert_eq!(texts::incident_of(reason.as_str()), Some(ID));
    }
}
