use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;

use collectors::{Env, domain};

use super::*;

#[allow(clippy::disallowed_methods, reason = "tests make the files that they read")]
fn write(file: &Path, text: &str) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

/// What the ports of a worker are, by collector, under these rules of `rdma`.
fn ports(rules: &str) -> BTreeMap<&'static str, Vec<String>> {
    let node = tempfile::tempdir().unwrap();
    for device in ["mlx5_0", "mlx5_1"] {
        let device = node.path().join("sys/class/infiniband").join(device);
        write(&device.join("ports/1/link_layer"), "Ethernet\n");
    }
    let (mut daemon, worker) = UnixStream::pair().unwrap();
    let worker = thread::spawn(move || run(&domain::RDMA, &[], worker, |_, _| {}));
    let all = (0..).zip(COLLECTORS).filter(|(_, s)| s.domain.name == "rdma");
    let begin = all.map(|(number, _)| Begin {
        number,
        cursor: None,
        notes: None,
    });
    let start = ToWorker::Start {
        build: crate::BUILD.to_owned(),
        log_level: "info".to_owned(),
        env: Env::with_sysroot(node.path()),
        settings: collectors::rdma::SPEC.settings(rules).unwrap(),
        collectors: begin.collect(),
    };
    daemon.write_all(&proto::encode(&start)).unwrap();
    let (mut decoder, mut opened) = (Decoder::default(), BTreeMap::new());
    while opened.len() < 2 {
        let frame = proto::read_frame(&mut daemon, &mut decoder).unwrap().unwrap();
        if let FromWorker::Opened(number, result) = frame {
            let subjects = result.unwrap().unwrap();
            let names = subjects.into_iter().map(|s| s.name).collect();
            opened.insert(COLLECTORS[usize::from(number)].name, names);
        }
    }
    drop(daemon);
    worker.join().unwrap().unwrap();
    opened
}

#[test]
fn what_the_rules_of_rdma_leave_out_no_other_collector_of_its_worker_takes() {
    let both = vec!["mlx5_0/1".to_owned(), "mlx5_1/1".to_owned()];
    assert_eq!(
        ports(""),
        BTreeMap::from([("rdma", both.clone()), ("ethernet", both)])
    );
    let one = vec!["mlx5_1/1".to_owned()];
    let expected = BTreeMap::from([("rdma", one.clone()), ("ethernet", one)]);
    assert_eq!(ports("exclude = [\"mlx5_0\"]"), expected);
}
