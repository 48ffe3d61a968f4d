//! The node's Extra: the copy of the drain's record under one key of a JSON object. Sites keep keys of their own there
//! (`--extra` of Slurm schedules by them): those stay as they are, and a text of another form is never changed.

use std::fmt;

use model::scheduler::mirror::{Mirror, MirrorSeen};
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::state::Node;

/// The key.
const KEY: &str = "nodewarden";
/// The longest Extra that is read or written, in bytes: it is one argument of a command.
const LONGEST: usize = 16 * 1024;

/// A member of a JSON object: the key, and key and value as they were written.
struct Member {
    key: String,
    text: [Box<RawValue>; 2],
}

/// All of them, in their order.
struct Members(Vec<Member>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut all: Vec<Member> = Vec::new();
                while let Some((written, value)) = map.next_entry::<Box<RawValue>, Box<RawValue>>()? {
                    let key: String = serde_json::from_str(written.get()).map_err(A::Error::custom)?;
                    if all.iter().any(|known| known.key == key) {
                        return Err(A::Error::custom("a key twice: its meaning is not known"));
                    }
                    let text = [written, value];
                    all.push(Member { key, text });
                }
                Ok(Members(all))
            }
        }
        from.deserialize_map(Object)
    }
}

/// The members of a text that may be changed: none, or a JSON object in which our key, if any, has our form.
fn members(text: Option<&str>) -> Option<(Members, Option<Mirror>)> {
    let Some(text) = text else {
        return Some((Members(Vec::new()), None));
    };
    let members: Members = serde_json::from_str(Some(text).filter(|text| text.len() <= LONGEST)?).ok()?;
    let own = members.0.iter().find(|member| member.key == KEY);
    let own = own.map(|member| serde_json::from_str(member.text[1].get()));
    Some((members, own.transpose().ok()?))
}

/// The copy that a node shows.
pub fn seen(node: &Node) -> MirrorSeen {
    if !node.has_extra {
        return MirrorSeen::NotRead;
    }
    match members(node.extra.as_deref()) {
        Some((_, own)) => MirrorSeen::Own(own),
        None => MirrorSeen::Foreign,
    }
}

/// The new Extra with this copy in place of the present one; empty where nothing is left. `None`: it must not be changed.
pub fn with(text: Option<&str>, mirror: Option<&Mirror>) -> Option<String> {
    let (Members(mut members), _) = members(text)?;
    members.retain(|member| member.key != KEY);
    let mut all: Vec<String> = members
        .iter()
        .map(
            |Member {
                 text: [key, value], ..
             }| format!("{}:{}", key.get(), value.get()),
        )
        .collect();
    if let Some(mirror) = mirror {
        all.push(format!("\"{KEY}\":{}", serde_json::to_string(mirror).ok()?));
    }
    let text = if all.is_empty() {
        String::new()
    } else {
        format!("{{{}}}", all.join(","))
    };
    (text.len() <= LONGEST).then_some(text)
}

/// Fuzz target: no panic; what is written is read again, and its removal leaves no key of ours.
pub fn fuzz(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mirror = Mirror::default();
    if let Some(written) = with(Some(&text), Some(&mirror)) {
        debug_assert_eq!(
            members(Some(&written)).and_then(|(_, own)| own),
            Some(mirror),
            "{written}"
        );
        let removed = with(Some(&written), None).unwrap_or_default();
        debug_assert!(with(Some(&removed).filter(|t| !t.is_empty()).map(String::as_str), None).is_some());
    }
}

#[cfg(test)]
mod tests {
    use model::scheduler::IncidentId;
    use model::scheduler::mirror::MirroredDrain;
    use proptest::prelude::*;

    use super::*;

    const OWN: &str = r#"{"nodewarden":{"drain":{"id":"abcdefg2","at":1795453520,"uid":0,"boot":"b-1","reboot":true,"gpus":["0000:3b:00.0"]},"lifts":[7]}}"#;

    fn mirror() -> Mirror {
        Mirror {
            drain: Some(MirroredDrain {
                id: IncidentId::parse("abcdefg2").unwrap(),
                at: 1_795_453_520,
                uid: 0,
                boot: "b-1".to_owned(),
                reboot: true,
                gpus: vec!["0000:3b:00.0".to_owned()],
            }),
            lifts: vec![7],
        }
    }

    fn seen_of(text: Option<&str>) -> MirrorSeen {
        seen(&Node {
            extra: text.map(str::to_owned),
            has_extra: true,
            ..Node::named("n0")
        })
    }

    #[test]
    fn an_empty_extra_takes_the_copy_and_is_empty_again_without_it() {
        assert_eq!(with(None, Some(&mirror())).as_deref(), Some(OWN));
        assert_eq!(seen_of(Some(OWN)), MirrorSeen::Own(Some(mirror())));
        assert_eq!(with(Some(OWN), None).as_deref(), Some(""));
        assert_eq!(seen_of(None), MirrorSeen::Own(None));
    }

    #[test]
    fn other_keys_keep_their_order_and_every_character_of_their_values() {
        let site =
            r#"{"zone":"a, b","n":12345678901234567890.1230,"deep":{"b":1, "a":[ 2 ]},"\u00e4\"":null}"#;
        let both = with(Some(site), Some(&mirror())).unwrap();
        assert!(both.starts_with(&site[..site.len() - 1]), "{both}");
        assert_eq!(with(Some(&both), None).as_deref(), Some(site));
    }

    #[test]
    fn a_text_of_another_form_is_never_changed() {
        for text in [
            "rack=7",
            "[1]",
            "7",
            "\"nodewarden\"",
            "{\"a\":1",
            "{\"a\":1} rest",
            "{\"a\":1,\"a\":2}",
            "{\"nodewarden\":7}",
            "{\"nodewarden\":{\"drain\":{\"id\":\"ABC\"}}}",
            &format!("{{\"a\":\"{}\"}}", "x".repeat(LONGEST)),
        ] {
            assert_eq!(with(Some(text), Some(&mirror())), None, "{text}");
            assert_eq!(seen_of(Some(text)), MirrorSeen::Foreign, "{text}");
        }
    }

    #[test]
    fn an_answer_without_extra_shows_no_copy_and_allows_none() {
        let node = Node {
            extra: Some(OWN.to_owned()),
            ..Node::named("n0")
        };
        assert_eq!(seen(&node), MirrorSeen::NotRead);
    }

    proptest! {
        #[test]
        fn any_text_is_left_alone_or_keeps_its_meaning(text in "[ -~]{0,40}|\\{(\"[a-c]\":[0-9.]{1,4},?){0,3}\\}") {
            fuzz(text.as_bytes());
            if let Some(written) = with(Some(&text), Some(&mirror())) {
                let mut value: serde_json::Value = serde_json::from_str(&written).unwrap();
                value.as_object_mut().unwrap().remove(KEY);
                let before: serde_json::Value = serde_json::from_str(&text).unwrap();
                prop_assert_eq!(before, value);
            }
        }
    }
}
