use proptest::prelude::*;

use super::*;
use crate::netlink::attribute::tests::written;
use crate::netlink::nldev;
use crate::netlink::nldev::tests::answer;

fn parse(text: &str) -> Result<Recording, String> {
    Recording::parse("netlink", text).map_err(|e| e.to_string())
}

/// The payload of the only message.
fn message(words: &str) -> Vec<u8> {
    let recording = parse(&format!("> rdma 1 1\n< {words}\n")).unwrap();
    recording.0[0].answer.messages[0].clone()
}

#[test]
fn an_answer_as_people_write_it_is_the_kernels() {
    let text = "\
# A port of mlx5.
> rdma 0x1411 0x5 1:u32=3 3:u32=1
< 1:u32=3 2:\"mlx5_0\" 3:u32=1
  0x8050{
    # The only one.
    0x8051{ 82:\"np_cnp_sent\" 83:u64=7 }
  }
";
    let recording = parse(text).unwrap();
    let mut request = nldev::counters(3, 1);
    request.numbered(9);
    let (kind, flags) = request.kind_and_flags();
    let answered = recording.answer(Protocol::Rdma, kind, flags, request.payload());
    let expected = RecordedReply {
        messages: vec![answer(3, 1, &[("np_cnp_sent", 7)])],
        refused: None,
    };
    assert_eq!(answered, Some(&expected));
    for other in [
        recording.answer(Protocol::Route, kind, flags, request.payload()),
        recording.answer(Protocol::Rdma, kind + 1, flags, request.payload()),
        recording.answer(Protocol::Rdma, kind, flags + 1, request.payload()),
        recording.answer(Protocol::Rdma, kind, flags, &[]),
    ] {
        assert_eq!(other, None);
    }
}

#[test]
fn every_kind_of_value() {
    for (words, kind, value) in [
        ("1:u8=255", 1, vec![255]),
        ("0x2:u16=0x102", 2, 0x102_u16.to_ne_bytes().to_vec()),
        ("3:u32=7", 3, 7_u32.to_ne_bytes().to_vec()),
        ("4:u64=18446744073709551615", 4, vec![255; 8]),
        ("5:\"a b\"", 5, b"a b\0".to_vec()),
        ("6:0a0B", 6, vec![10, 11]),
        ("7:", 7, vec![]),
        ("8{ 1:00 }", 8, written(1, &[0])),
    ] {
        assert_eq!(message(words), written(kind, &value), "{words}");
    }
    assert_eq!(message("00ff 10"), [0, 255, 16]);
    assert_eq!(message(""), [0; 0]);
}

#[test]
fn a_later_answer_counts_and_an_error_ends_one() {
    let recording = parse("> route 1 2\n< 01\n< 02\n! EINTR\n> route 1 2\n! EINVAL\n").unwrap();
    let expected = RecordedReply {
        messages: vec![],
        refused: Some(Errno::EINVAL),
    };
    assert_eq!(recording.answer(Protocol::Route, 1, 2, &[]), Some(&expected));
    assert_eq!(recording.0[0].answer.refused, Some(Errno::EINTR));
    assert_eq!(recording.0[0].answer.messages, [vec![1], vec![2]]);
}

#[test]
fn an_error_names_file_line_what_was_found_and_what_was_expected() {
    for (text, error) in [
        ("\nrdma 1 1", "netlink:2: found \"rdma 1 1\", expected `>`"),
        ("< 00", "netlink:1: found \"<\", expected `>` before"),
        (
            "> rdma 1 1\n! EIO\n< 00",
            "netlink:3: found \"<\", expected `>` before",
        ),
        ("> rdma 1", "netlink:1: found \">\", expected a protocol"),
        (
            "> infiniband 1 1",
            "netlink:1: found \"infiniband\", expected a protocol",
        ),
        (
            "> rdma 65536 1",
            "netlink:1: found \"65536\", expected a number below",
        ),
        ("> rdma 1 -1", "netlink:1: found \"-1\", expected a number below"),
        ("> rdma 1 1\n! 22", "netlink:2: found \"22\", expected one error"),
        ("> rdma 1 1\n!", "netlink:2: found \"!\", expected one error"),
        (
            "> rdma 1 1 1:u8=256",
            "netlink:1: found \"1:u8=256\", expected `\"text\"`",
        ),
        (
            "> rdma 1 1\n< 1:\"a",
            "netlink:2: found \"1:\\\"a\", expected `\"text\"`",
        ),
        ("> rdma 1 1\n< 1{\n00", "netlink:2: found \"1{\", expected a `}`"),
        ("> rdma 1 1\n< 00\n }", "netlink:3: found \"}\", expected a `{`"),
        ("> rdma 1 1\n< 0g", "netlink:2: found \"0g\", expected bytes"),
        ("> rdma 1 1\n< 000", "netlink:2: found \"000\", expected bytes"),
        ("> rdma 1 1\n< x{ }", "netlink:2: found \"x{\", expected a kind"),
        ("> rdma 1 1\n< x:00", "netlink:2: found \"x:00\", expected a kind"),
    ] {
        let found = parse(text).unwrap_err();
        assert!(found.starts_with(error), "{text:?}: {found}");
    }
}

#[test]
fn what_is_too_deep_or_too_long_is_an_error() {
    let deep = |n: usize| parse(&format!("> rdma 1 1 {}{}", "1{ ".repeat(n), "} ".repeat(n)));
    assert!(deep(16).is_ok() && deep(17).unwrap_err().contains("16 within"));
    let long = |bytes: usize| parse(&format!("> rdma 1 1 1:{}", "00".repeat(bytes)));
    assert!(long(65_531).is_ok() && long(65_532).unwrap_err().contains("64 KiB"));
}

fn any_exchange() -> impl Strategy<Value = Exchange> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..40);
    let protocol = prop::sample::select(Protocol::ALL.to_vec());
    let refused = prop::option::of((1..=40).prop_map(Errno::from_raw));
    let answer = (prop::collection::vec(bytes(), 0..4), refused);
    (protocol, any::<u16>(), any::<u16>(), bytes(), answer).prop_map(
        |(protocol, kind, flags, question, (messages, refused))| Exchange {
            protocol,
            kind,
            flags,
            question,
            answer: RecordedReply { messages, refused },
        },
    )
}

proptest! {
    #[test]
    fn what_was_written_is_read(all in prop::collection::vec(any_exchange(), 0..6)) {
        let recording = Recording(all);
        prop_assert_eq!(parse(&recording.to_string()), Ok(recording));
    }

    #[test]
    fn any_text_is_a_recording_or_an_error(text in "[><!# \n0-9a-f{}:\"=urdm]{0,80}") {
        check(text.as_bytes());
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a test reads the fixtures")]
fn every_recording_of_a_fixture_can_be_read() {
    use std::path::Path;
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures")];
    let mut read = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("fuzz") {
                folders.push(path);
            } else if path.ends_with("netlink") || path.extension().is_some_and(|e| e == "netlink") {
                let text = std::fs::read_to_string(&path).unwrap();
                Recording::parse(&path.display().to_string(), &text).unwrap();
                read += 1;
            }
        }
    }
    assert!(read > 0);
}
