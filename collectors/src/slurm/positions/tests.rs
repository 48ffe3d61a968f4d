use std::time::{SystemTime, UNIX_EPOCH};

use testkit::tree::{Entry, put};

use super::*;

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
        let about = About {
            node: Some("n1"),
            conf,
            at: None,
        };
        let found = Positions::new(&env, configured.map(str::to_owned)).find(positions, about);
        found.map_err(|error| error.to_string())
    }
}

/// The order of gres.conf decides, and the number of the device file; its name does not.
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

/// slurmd leaves it out when it begins, and counts on without it.
#[test]
fn behind_what_is_no_device_no_position_is_known() {
    let node = Node::new("Name=gpu File=/dev/nvidia[0-3]\n");
    node.write("dev/nvidia1", "a file\n");
    assert_eq!(node.find(&[0]).unwrap(), ["nvidia0"]);
    for positions in [[1], [2]] {
        let error = node.find(&positions).unwrap_err();
        assert_eq!(error, "/dev/nvidia1: found \"none\", expected a character device");
    }
    // A device of another kind has a position, and is no GPU that is joined by number.
    node.write("dev/nvidia1", "226:128\n");
    assert_eq!(node.find(&[2]).unwrap(), ["nvidia2"]);
    assert!(node.find(&[1]).unwrap_err().contains("found \"226:128\""));
    node.write("dev/nvidia1", "195:255\n");
    assert!(node.find(&[1]).is_err(), "nvidiactl");
}

/// Flat over all instances: position 1 is a part of the first GPU, and position 2 one of the second.
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
    // Of a GPU that the line does not name, and of none at all.
    unknown(&[2]);
    unknown(&[3]);
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

/// The positions of a job that began before are those of the file before.
#[test]
fn a_gres_conf_that_is_newer_than_the_job_says_nothing_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::with_sysroot(dir.path());
    let write = |text: &str| {
        let file = Entry::File(text.as_bytes().to_vec());
        put(&env.path("/etc/slurm/gres.conf"), &file).unwrap();
    };
    let text = "Name=gpu File=/dev/nvidia0\n";
    write(text);
    // What is live: a device, and no GPU.
    put(&env.path("/dev/nvidia0"), &Entry::Link("/dev/null".to_owned())).unwrap();
    let now = || {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs_f64()
    };
    let mut positions = Positions::new(&env, None);
    let mut find = |at: Option<f64>| {
        let about = About {
            at,
            ..About::default()
        };
        positions.find(&[0], about).unwrap_err().to_string()
    };
    let began = now() + 1.0;
    assert!(
        find(Some(began)).contains("found \"1:3\""),
        "{}",
        find(Some(began))
    );
    for at in [None, Some(now() - 3600.0)] {
        assert!(find(at).contains("found \"changed since\""), "{at:?}");
    }
    // Written anew with what it held is no other file.
    let file = env.path("/etc/slurm/gres.conf");
    let before = root::changed(&file).unwrap().unwrap();
    let rewrite = |text: &str| {
        testkit::wait::until_true("another time of change", testkit::wait::PATIENCE, || {
            write(text);
            root::changed(&file).unwrap().unwrap() > before
        })
        .unwrap();
    };
    let between = before + 1e-6;
    rewrite(text);
    assert!(find(Some(between)).contains("found \"1:3\""));
    rewrite("Name=gpu File=/dev/nvidia0 # another\n");
    assert!(find(Some(between)).contains("found \"changed since\""));
}

#[test]
fn what_cannot_be_told_is_said_once() {
    let node = Node::new("AutoDetect=nvml\nName=gpu File=/dev/nvidia0\n");
    let mut positions = Positions::new(&Env::recorded(node.dir.path()), None);
    for _ in 0..2 {
        assert_eq!(positions.devices(&[0], About::default()), None);
    }
    assert_eq!(positions.told.len(), 1);
    assert!(
        positions
            .told
            .iter()
            .all(|told| told.starts_with("/etc/slurm/gres.conf:1: found \"AutoDetect=nvml\""))
    );
}
