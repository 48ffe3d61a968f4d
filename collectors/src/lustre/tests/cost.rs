//! What a client with 1,000 OSTs costs: opened files and series are counted, time is not.

use super::*;

/// Series that a filter takes, over one reading.
fn series(block: &Block, takes: impl Fn(Tier) -> bool) -> usize {
    block
        .iter()
        .filter(|(series, _)| takes(series.metric.tier))
        .count()
}

/// Opened files of one reading.
fn opened(device: &mut dyn Device) -> (Block, usize, usize) {
    count::take();
    let block = read(device);
    let (opens, reads) = count::take();
    (block, opens, reads)
}

#[test]
fn of_1000_osts_a_reading_opens_each_state_and_all_files_of_a_quarter() {
    let node = Node::with_osts(1000);
    let mut device = node.scan(false).remove(0);
    let (first, opens, _) = opened(&mut *device);
    println!("first reading: {opens} opens, {} series", first.iter().count());
    let mut counts = Vec::new();
    for _ in 0..4 {
        let (_, opens, reads) = opened(&mut *device);
        println!("1,000 OSTs: {opens} opens and closes, {reads} reads");
        counts.push(opens);
    }
    // 1,001 states; import, stats, timeouts, rpc_stats, dirty, grant, locks and unused locks (8 files) of 251 or fewer, and
    // those of the MDT. Files that are optional are looked for in 2 or 3 folders.
    let most = 1001 + 251 * (8 + 2 * 2 + 2) + 40;
    assert!(
        counts.iter().all(|opens| (1001..most).contains(opens)),
        "{counts:?}"
    );
    let turn: usize = counts.iter().sum();
    assert!(
        turn < 4 * 1001 + 1001 * 14 + 160,
        "each target once in 4 readings: {turn}"
    );
}

#[test]
fn the_series_of_1000_osts_are_as_many_as_those_of_2() {
    let count = |osts: u32| {
        let node = Node::with_osts(osts);
        let block = read(&mut *node.scan(false).remove(0));
        (series(&block, |tier| tier == Tier::Core), block.iter().count())
    };
    let (few, many) = (count(2), count(1000));
    println!(
        "2 OSTs: {} core series, {} in all; 1,000 OSTs: {} and {}",
        few.0, few.1, many.0, many.1
    );
    assert_eq!(few, many);
    assert!(few.0 < 120, "{}", few.0);
}

#[test]
fn of_200_osts_that_are_down_64_are_named_and_all_are_counted() {
    let node = Node::with_osts(0);
    for ost in 0..200 {
        node.target(ost, "DISCONN");
    }
    let mut device = node.scan(false).remove(0);
    for _ in 0..3 {
        let block = read(&mut *device);
        let all = lines(&block);
        let named = all
            .iter()
            .filter(|line| line.starts_with("lustre_client_target_state "))
            .count();
        assert_eq!(named, 64);
        assert_eq!(
            value(&block, "lustre_client_targets scratch ost DISCONN").as_deref(),
            Some("200")
        );
        assert_eq!(
            value(&block, "lustre_client_server_targets scratch 10.2.1.3@o2ib").as_deref(),
            Some("4")
        );
        assert_eq!(
            value(
                &block,
                "lustre_client_server_faulty_targets scratch 10.2.1.49@o2ib"
            )
            .as_deref(),
            Some("4")
        );
    }
}

/// Servers without any connection are found by their counts.
#[test]
fn targets_of_a_server_that_has_others_are_named_first() {
    let node = Node::with_osts(0);
    for ost in 0..200 {
        node.target(ost, if ost == 199 { "FULL" } else { "DISCONN" });
    }
    let mut device = node.scan(false).remove(0);
    for _ in 0..3 {
        let all = lines(&read(&mut *device));
        let named = |ost: &str| {
            let start = format!("lustre_client_target_state scratch scratch-OST{ost} ");
            all.iter().any(|line| line.starts_with(&start))
        };
        assert!(
            ["00c4", "00c5", "00c6", "0000"]
                .map(named)
                .iter()
                .all(|named| *named),
            "{all:?}"
        );
    }
}

#[test]
fn with_the_key_each_target_has_5_series_more() {
    let node = Node::with_osts(20);
    let count = |with: bool| read(&mut *node.scan(with).remove(0)).iter().count();
    assert_eq!(count(true), count(false) + 21 * 5);
}

/// What checks read comes first, also of other filesystems.
#[test]
fn figures_of_targets_that_have_no_room_are_counted_and_the_states_are_there() {
    let node = Node::with_osts(100);
    let read_with = |room| {
        let env = Env::with_sysroot(node.0.path());
        let state = Arc::new(Mutex::new(FilesystemState::new(&env, "scratch", true)));
        read(&mut FilesystemDevice::new(&env, "scratch", "", state, room))
    };
    let (bytes, all) = (1 << 20, read_with(TargetRoom::of(1)));
    assert_eq!(all.refused(), 0);
    let without = all.values().len() - 101 * 5;
    let few = read_with(TargetRoom {
        series: without + 52,
        bytes,
    });
    assert_eq!((few.values().len(), few.refused()), (without + 50, 91 * 5));
    let few = read_with(TargetRoom {
        series: 20_000,
        bytes: 1000,
    });
    assert!(
        few.refused() > 90 * 5 && few.values().len() > without,
        "{}",
        few.refused()
    );
    for block in [&all, &few] {
        let full = value(block, "lustre_client_targets scratch ost FULL");
        assert_eq!(full.as_deref(), Some("100"));
    }
    let three = TargetRoom::of(3);
    assert!(3 * three.series + 2000 <= crate::block::MAX_SERIES);
    assert!(3 * three.bytes < crate::block::MAX_LABEL_BYTES);
}

/// Each file that is opened is one of the table: a `ping` or `kbytesfree` beside them changes nothing.
#[test]
fn files_that_are_no_source_are_never_opened() {
    let node = Node::with_osts(2);
    let reading = || opened(&mut *node.scan(false).remove(0)).1;
    let before = reading();
    let osc = format!("proc/fs/lustre/osc/scratch-OST0000-osc-{ID}");
    for file in ["ping", "kbytesfree", "blocksize", "max_rpcs_in_flight"] {
        node.put(&format!("{osc}/{file}"), "1\n");
    }
    let llite = format!("proc/fs/lustre/llite/scratch-{ID}");
    for file in [
        "kbytestotal",
        "filesfree",
        "blocksize",
        "extents_stats",
        "offset_stats",
    ] {
        node.put(&format!("{llite}/{file}"), "1\n");
    }
    node.put(
        "proc/fs/lustre/osc/scratch-OST0000-osc-MDT0000/state",
        "current_state: DISCONN\n",
    );
    assert_eq!(reading(), before);
}
