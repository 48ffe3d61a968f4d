use proptest::prelude::*;

use super::*;

fn of(text: &str, node: Option<&str>) -> Result<String, String> {
    let mut read = |_: &str, name: &str| match name {
        "gpus.conf" => Ok((
            "gpus.conf".to_owned(),
            "Name=gpu File=/dev/nvidia[4-5]\n".to_owned(),
        )),
        "round.conf" => Ok(("round.conf".to_owned(), "Include round.conf\n".to_owned())),
        _ => Err(Error::parse(name, "none", "a file")),
    };
    let all = positions("gres.conf", text, node, &mut read).map_err(|e| e.to_string())?;
    let word = |position: Position| match position {
        Position::One(file) => file,
        Position::Several(files) => files.join("+"),
    };
    Ok(all
        .into_iter()
        .map(word)
        .collect::<Vec<_>>()
        .join(" ")
        .replace("/dev/nvidia", ""))
}

fn ok(text: &str) -> String {
    of(text, Some("n1")).unwrap()
}

#[test]
fn devices_have_the_order_in_which_they_are_written() {
    assert_eq!(ok("Name=gpu File=/dev/nvidia[0-3]"), "0 1 2 3");
    assert_eq!(
        ok(
            "AutoDetect=off\nname=GPU type=h100 FILES=/dev/nvidia2,/dev/nvidia3,/dev/nvidia[0-1] Cores=0-7 # all\n"
        ),
        "2 3 0 1"
    );
    assert_eq!(
        ok(
            "Name=gpu File=/dev/nvidia3\nName=nic File=/dev/hfi0\nName=gpu Count=2 \\\n File=/dev/nvidia[1-2]\n"
        ),
        "3 1 2"
    );
}

#[test]
fn lines_of_other_nodes_do_not_count_and_those_of_all_come_first() {
    let text = "NodeName=n[0-1] Name=gpu File=/dev/nvidia1\nNodeName=n2,x[1-3] Name=gpu File=/dev/nvidia7\nName=gpu File=/dev/nvidia0\n";
    assert_eq!(ok(text), "0 1");
    assert_eq!(of(text, Some("x2")).unwrap(), "0 7");
    assert_eq!(of(text, Some("n10")).unwrap(), "0");
    let error = of(text, None).unwrap_err();
    assert!(error.contains("slurm.node_name"), "{error}");
}

#[test]
fn an_included_file_stands_in_the_place_of_its_line() {
    let text = "Name=gpu File=/dev/nvidia9\nInclude gpus.conf\nName=gpu File=/dev/nvidia0\n";
    assert_eq!(ok(text), "9 4 5 0");
    for (text, found) in [
        ("Include round.conf\n", "four levels"),
        ("Include %c.conf\n", "found \"%c.conf\""),
        ("Include gone.conf\n", "gone.conf"),
    ] {
        let error = of(text, Some("n1")).unwrap_err();
        assert!(error.contains(found), "{text}: {error}");
    }
}

/// Slurm sorts detected GPUs. The node's own line takes precedence over the one for all.
#[test]
fn where_slurm_looks_for_gpus_itself_the_order_is_unknown() {
    let gpu = "Name=gpu File=/dev/nvidia[0-1]\n";
    for text in [
        "AutoDetect=nvml\n",
        "AUTODETECT = Nvidia\n",
        "NodeName=n1 AutoDetect=nvml\n",
        "AutoDetect=off\nNodeName=n1 AutoDetect=rsmi\n",
        "AutoDetect=nvml\nNodeName=n2 AutoDetect=off\n",
    ] {
        let error = of(&format!("{gpu}{text}"), Some("n1")).unwrap_err();
        assert!(error.contains("expected AutoDetect=off"), "{text}: {error}");
        assert!(error.starts_with("gres.conf:"), "{error}");
    }
    for text in [
        "AutoDetect=OFF\n",
        "AutoDetect=nvml\nNodeName=n[1-2] AutoDetect=off\n",
        "NodeName=n2 AutoDetect=nvml\n",
    ] {
        assert_eq!(ok(&format!("{gpu}{text}")), "0 1", "{text}");
    }
}

/// slurmd orders them by type, as slurm.conf lists the types.
#[test]
fn of_several_types_the_order_is_unknown() {
    let error = of(
        "Name=gpu Type=a100 File=/dev/nvidia0\nName=gpu Type=h100 File=/dev/nvidia1\n",
        None,
    )
    .unwrap_err();
    assert!(
        error.contains("a100, h100") && error.contains("slurm.conf"),
        "{error}"
    );
    assert_eq!(
        ok("Name=gpu Type=H100 File=/dev/nvidia1\nName=gpu Type=h100 File=/dev/nvidia0\n"),
        "1 0"
    );
    assert_eq!(
        ok("Name=gpu Type=a100 File=/dev/nvidia0\nNodeName=n2 Name=gpu Type=h100 File=/dev/nvidia1\n"),
        "0"
    );
}

#[test]
fn several_files_have_one_position() {
    let text = "Name=gpu MultipleFiles=/dev/nvidia0,/dev/cap[21-22]\nName=gpu MultipleFiles=/dev/nvidia0,/dev/cap30\n";
    assert_eq!(ok(text), "0+/dev/cap21+/dev/cap22 0+/dev/cap30");
}

#[test]
fn shards_share_the_gpus_and_have_no_position_of_their_own() {
    assert_eq!(ok("Name=gpu File=/dev/nvidia[0-1]\nName=shard Count=32\n"), "0 1");
    let error = of(
        "Name=gpu File=/dev/nvidia[0-1]\nName=shard Count=8 File=/dev/nvidia1\n",
        None,
    )
    .unwrap_err();
    assert!(error.starts_with("gres.conf:2: "), "{error}");
}

#[test]
fn what_is_not_understood_is_named_with_its_line_and_nothing_is_guessed() {
    for (line, found) in [
        ("Name=gpu File=/dev/nvidia[0-1]x[2-3]", "one range of numbers"),
        ("Name=gpu File=nvidia0", "absolute path"),
        ("Name=gpu Count=4", "either File or MultipleFiles"),
        ("Name=gpu File=/dev/a MultipleFiles=/dev/b,/dev/c", "either File"),
        ("Name=gpu File=/dev/nvidia[0-1] Count=3", "found \"3\""),
        (
            "Name=gpu File=/dev/nvidia0 Flags=CountOnly",
            "found \"countonly\"",
        ),
        ("Name=gpu File=/dev/nvidia0 Colour=red", "found \"colour\""),
        (
            "Name=gpu NodeName=n1 File=/dev/nvidia0",
            "NodeName at the beginning",
        ),
        ("Type=h100 Name=gpu File=/dev/nvidia0", "found \"type\""),
        ("NodeName=n[1 Name=gpu File=/dev/nvidia0", "names of nodes"),
        ("gpu", "key=value"),
    ] {
        let error = of(&format!("Name=gpu File=/dev/nvidia7\n\n{line}\n"), Some("n1")).unwrap_err();
        assert!(
            error.starts_with("gres.conf:3: found ") && error.contains(found),
            "{line}: {error}"
        );
    }
    let twice = of("Name=gpu File=/dev/nvidia[0-1],/dev/nvidia1\n", None).unwrap_err();
    assert!(twice.contains("each device file once"), "{twice}");
    for none in ["", "NodeName=n2 Name=gpu File=/dev/nvidia0\n"] {
        assert!(
            of(none, Some("n1")).unwrap_err().contains("found \"none\""),
            "{none}"
        );
    }
}

proptest! {
    /// For any distribution over lines, ranges and letter cases, positions follow the written order.
    #[test]
    fn any_order_is_read_as_it_is_written(order in Just((0_u32..16).collect::<Vec<_>>()).prop_shuffle(), cuts in prop::collection::vec(any::<bool>(), 16)) {
        let mut text = String::from("# all\nAutoDetect=off");
        for (minor, cut) in order.iter().zip(cuts.iter().chain([&true])) {
            let is_new = *cut || text.ends_with("off");
            text.push_str(if is_new { "\nnodename=n[0-3] NAME=gpu Type=x File=" } else { "," });
            text.push_str(&format!("/dev/nvidia{minor}"));
        }
        let expected = order.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
        prop_assert_eq!(ok(&text), expected);
    }

    #[test]
    fn no_text_upsets_it(text in "(Name|NodeName|File|AutoDetect|gpu|[=\\[\\]0-9,/# \\\\\n])*") {
        check(text.as_bytes());
    }
}
