use std::time::{SystemTime, UNIX_EPOCH};

use testkit::tree::{Entry, put};

use super::*;
use crate::sys::boot;

/// A recording: device files are texts.
struct Node {
    dir: tempfile::TempDir,
}

impl Node {
    fn new(gres: &str) -> Self {
        let node = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        node.write("etc/slurm/gres.conf", gres);
        for minor in 0..4 {
            node.write(&format!("dev/nvidia{minor}"), &format!("195:{minor}\n"));
        }
        node
    }

    fn write(&self, path: &str, text: &str) {
        let file = Entry::File(text.as_bytes().to_vec());
        put(&self.dir.path().join("root").join(path), &file).unwrap();
    }

    fn find(&self, positions: &[usize]) -> Result<Vec<String>, String> {
        self.find_in(None, positions, None)
    }

    fn find_in(
        &self,
        configured: Option<&str>,
        positions: &[usize],
        conf: Option<&str>,
    ) -> Result<Vec<String>, String> {
        let env = Env::recorded(self.dir.path());
        let about = PositionContext {
            node: Some("n1"),
            conf,
            at: None,
        };
        let found = Positions::new(&env, configured.map(str::to_owned)).find(positions, about);
        found.map_err(|error| error.to_string())
    }
}

/// The order in gres.conf and the number of the device file decide; its name does not.
#[test]
fn a_position_is_a_place_in_gres_conf_and_no_number_of_a_device() {
    let node = Node::new("AutoDetect=off\nName=gpu File=/dev/nvidia[2-3],/dev/nvidia0,/dev/nvidia1\n");
    assert_eq!(node.find(&[0]).unwrap(), ["nvidia2"]);
    assert_eq!(node.find(&[3, 1]).unwrap(), ["nvidia3", "nvidia1"]);
    node.write("dev/nvidia2", "195:7\n");
    assert_eq!(node.find(&[0]).unwrap(), ["nvidia7"]);
    let error = node.find(&[0, 4]).unwrap_err();
    assert!(error.contains("found \"position 4\""), "{error}");
}

/// slurmd omits it at start, and numbers the others without it.
#[test]
fn behind_what_is_no_device_no_position_is_known() {
    let node = Node::new("Name=gpu File=/dev/nvidia[0-3]\n");
    node.write("dev/nvidia1", "a file\n");
    assert_eq!(node.find(&[0]).unwrap(), ["nvidia0"]);
    for positions in [[1], [2]] {
        let error = node.find(&positions).unwrap_err();
        assert_eq!(error, "/dev/nvidia1: found \"none\", expected a character device");
    }
    // A device of another kind has a position, but is no GPU with a minor number.
    node.write("dev/nvidia1", "226:0\n");
    assert_eq!(node.find(&[2]).unwrap(), ["nvidia2"]);
    assert!(node.find(&[1]).unwrap_err().contains("found \"226:0\""));
    node.write("dev/nvidia1", "195:255\n");
    assert!(node.find(&[1]).is_err(), "nvidiactl");
}

/// Numbered over all instances: position 1 is an instance of the first GPU, and position 2 one of the second.
#[test]
fn of_divided_gpus_a_position_is_an_instance_that_the_driver_knows() {
    let node = Node::new(
        "Name=gpu MultipleFiles=/dev/nvidia0,/dev/cap21,/dev/cap22\nName=gpu MultipleFiles=/dev/nvidia0,/dev/cap30,/dev/cap31\n\
         Name=gpu MultipleFiles=/dev/nvidia1,/dev/cap40,/dev/cap41\nName=gpu MultipleFiles=/dev/nvidia[2-3]\n",
    );
    for minor in [21, 22, 30, 31, 40, 41] {
        node.write(&format!("dev/cap{minor}"), &format!("237:{minor}\n"));
    }
    let unknown = |positions: &[usize]| {
        let error = node.find(positions).unwrap_err();
        assert!(error.contains("gives access to one instance"), "{error}");
    };
    unknown(&[0]);
    node.write(
        "proc/devices",
        "Character devices:\n195 nvidia\n237 nvidia-caps\n",
    );
    unknown(&[0]);
    let table = "gpu0/gi1/access 21\ngpu0/gi1/ci0/access 22\ngpu0/gi2/access 30\ngpu0/gi2/ci0/access 31\ngpu0/gi3/access 40\ngpu0/gi3/ci0/access 41\n";
    node.write("proc/driver/nvidia-caps/mig-minors", table);
    assert_eq!(node.find(&[0]).unwrap(), ["nvidia0/1/0"]);
    assert_eq!(node.find(&[1]).unwrap(), ["nvidia0/2/0"]);
    // Of a GPU that the line does not name, and of none.
    unknown(&[2]);
    unknown(&[3]);
}

/// Slurm's documentation and its plugin for AMD name render nodes. The card of the same GPU may stand beside it.
#[test]
fn a_position_of_an_amd_gpu_is_its_render_nodes() {
    let node = Node::new(
        "Name=gpu File=/dev/dri/renderD129\nName=gpu MultipleFiles=/dev/dri/card1,/dev/dri/renderD128\n\
         Name=gpu MultipleFiles=/dev/dri/renderD130,/dev/dri/renderD131\nName=gpu MultipleFiles=/dev/dri/card1,/dev/nvidia0\n",
    );
    for render in 128..132 {
        node.write(&format!("dev/dri/renderD{render}"), &format!("226:{render}\n"));
    }
    node.write("dev/dri/card1", "226:1\n");
    assert_eq!(node.find(&[0]).unwrap(), ["renderD129"]);
    assert_eq!(node.find(&[1]).unwrap(), ["renderD128"]);
    // The partitions of a GPU that is allocated as a whole.
    assert_eq!(node.find(&[2]).unwrap(), ["renderD130", "renderD131"]);
    assert!(node.find(&[3]).is_err(), "files of two drivers");
}

#[test]
fn gres_conf_is_the_configured_one_else_that_of_the_jobs_slurmd_else_the_usual_one() {
    let node = Node::new("Name=gpu File=/dev/nvidia0\n");
    node.write("opt/slurm/gres.conf", "Include more/gpus.conf\n");
    node.write("opt/slurm/more/gpus.conf", "Name=gpu File=/dev/nvidia1\n");
    node.write("site/gres.conf", "Name=gpu File=/dev/nvidia2\n");
    let conf = Some("/opt/slurm/slurm.conf");
    assert_eq!(node.find(&[0]).unwrap(), ["nvidia0"]);
    assert_eq!(node.find_in(None, &[0], conf).unwrap(), ["nvidia1"]);
    assert_eq!(
        node.find_in(Some("/site/gres.conf"), &[0], conf).unwrap(),
        ["nvidia2"]
    );
    let error = node.find_in(None, &[0], Some("/gone/slurm.conf")).unwrap_err();
    assert_eq!(error, "/gone/gres.conf: found \"no file\", expected a gres.conf");
    node.write("opt/slurm/fake_gpus.conf", "");
    assert!(
        node.find_in(None, &[0], conf)
            .unwrap_err()
            .contains("fake_gpus.conf")
    );
}

/// A slurmd that started at that time.
fn slurmd(env: &Env, at: f64) {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs_f64();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a test's own"
    )]
    let ticks = ((boot::boottime().as_secs_f64() + at - now) * boot::ticks_per_second() as f64) as u64;
    let stat = format!("77 (slurmd) S {0}{ticks} {0}", "0 ".repeat(18));
    for (file, text) in [
        ("comm", "slurmd\n"),
        ("cmdline", "slurmd\0-D\0"),
        ("stat", &stat),
        ("status", "Uid:\t0\t0\t0\t0\n"),
    ] {
        let file = env.path(&format!("/proc/77/{file}"));
        put(&file, &Entry::File(text.as_bytes().to_vec())).unwrap();
    }
}

/// Where the controller comes up after its nodes.
#[test]
fn a_gres_conf_that_slurmd_got_from_the_controller_may_be_a_minute_younger_than_it() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::with_sysroot(dir.path());
    put(&env.path("/dev/nvidia0"), &Entry::Link("/dev/null".to_owned())).unwrap();
    let found = |folder: &str, age: f64| {
        let file = env.path(&format!("{folder}/gres.conf"));
        put(&file, &Entry::File(b"Name=gpu File=/dev/nvidia0\n".to_vec())).unwrap();
        let changed = root::changed(&file).unwrap().unwrap();
        slurmd(&env, changed - age);
        let conf = format!("{folder}/slurm.conf");
        let about = PositionContext {
            at: Some(changed + 20.0),
            conf: Some(&conf),
            ..PositionContext::default()
        };
        let found = Positions::new(&env, None).find(&[0], about);
        found.unwrap_err().to_string()
    };
    let (is_read, is_late) = ("found \"1:3\"", "found \"changed after slurmd started");
    for folder in ["/var/spool/slurmd/conf-cache", "/run/slurm/conf"] {
        assert!(found(folder, 30.0).contains(is_read), "{folder}");
        assert!(found(folder, 90.0).contains(is_late), "{folder}");
    }
    assert!(found("/etc/slurm", 30.0).contains(is_late));
    // slurmd got another one after the job's begin.
    let file = env.path("/run/slurm/conf/gres.conf");
    let changed = root::changed(&file).unwrap().unwrap();
    slurmd(&env, changed - 30.0);
    let about = PositionContext {
        at: Some(changed - 10.0),
        conf: Some("/run/slurm/conf/slurm.conf"),
        ..PositionContext::default()
    };
    let error = Positions::new(&env, None)
        .find(&[0], about)
        .unwrap_err()
        .to_string();
    assert!(error.contains("changed after the job began"), "{error}");
}

/// The content that slurmd read, and when it assigned the positions, decides: the present content may be newer.
#[test]
fn a_gres_conf_that_slurmd_may_not_have_read_before_the_job_says_nothing_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::with_sysroot(dir.path());
    let file = env.path("/etc/slurm/gres.conf");
    let write = |text: &str| put(&file, &Entry::File(text.as_bytes().to_vec())).unwrap();
    let text = "Name=gpu File=/dev/nvidia0\n";
    write(text);
    // A live path: a device, but no GPU.
    put(&env.path("/dev/nvidia0"), &Entry::Link("/dev/null".to_owned())).unwrap();
    let changed = root::changed(&file).unwrap().unwrap();
    let find = |positions: &mut Positions, at: Option<f64>| {
        let about = PositionContext {
            at,
            ..PositionContext::default()
        };
        positions.find(&[0], about).unwrap_err().to_string()
    };
    let at_start = |at| find(&mut Positions::new(&env, None), at);
    let is_read = "found \"1:3\"";
    let later = Some(changed + 20.0);
    assert!(
        at_start(later).contains("found \"no running slurmd of this node"),
        "{}",
        at_start(later)
    );
    slurmd(&env, changed);
    assert!(at_start(later).contains(is_read), "{}", at_start(later));
    for at in [None, Some(changed - 5.0)] {
        assert!(
            at_start(at).contains("found \"a slurmd that started after the job"),
            "{at:?}"
        );
    }
    slurmd(&env, changed - 10.0);
    assert!(
        at_start(later).contains("found \"changed after slurmd started"),
        "{}",
        at_start(later)
    );

    // Rewritten with the same content, the file counts as unchanged.
    slurmd(&env, changed);
    let mut positions = Positions::new(&env, None);
    assert!(find(&mut positions, later).contains(is_read));
    let mut rewrite = |text: &str| {
        testkit::wait::until_true("another time of change", testkit::wait::PATIENCE, || {
            write(text);
            root::changed(&file).unwrap().unwrap() > changed + 2.0 * ROUGH
        })
        .unwrap();
        find(&mut positions, later)
    };
    assert!(rewrite(text).contains(is_read));
    let other = rewrite("Name=gpu File=/dev/nvidia0 # another\n");
    assert!(other.contains("found \"changed after slurmd started"), "{other}");
}

#[test]
fn of_two_files_in_slurms_places_neither_is_believed_where_they_differ() {
    let text = "Name=gpu File=/dev/nvidia[0-3]\n";
    let node = Node::new(text);
    node.write("run/slurm/conf/gres.conf", text);
    assert_eq!(node.find(&[0]).unwrap(), ["nvidia0"]);
    node.write("run/slurm/conf/gres.conf", "AutoDetect=nvml\n");
    let error = node.find(&[0]).unwrap_err();
    assert!(error.contains("two files that differ"), "{error}");
    let slurmds = node.find_in(Some("/etc/slurm/gres.conf"), &[0], None);
    assert_eq!(slurmds.unwrap(), ["nvidia0"]);
}

#[test]
fn unknown_positions_are_logged_once() {
    let node = Node::new("AutoDetect=nvml\nName=gpu File=/dev/nvidia0\n");
    let mut positions = Positions::new(&Env::recorded(node.dir.path()), None);
    for _ in 0..2 {
        assert_eq!(positions.devices(&[0], PositionContext::default()), None);
    }
    assert_eq!(positions.logged.len(), 1);
    assert!(
        positions
            .logged
            .iter()
            .all(|logged| logged.starts_with("/etc/slurm/gres.conf:1: found \"AutoDetect=nvml\""))
    );
}
