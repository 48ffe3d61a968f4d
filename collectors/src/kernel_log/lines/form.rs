//! The form of a line: literal text, `*` for any text, `%` for a number and `<>` for the name of the subject, from the
//! start of the line on. What follows is free.

use std::fmt;

use super::origin::Line;
use crate::inline::Text;

/// The longest name of a subject, in bytes.
pub(super) const MAX_CAPTURE: usize = 128;
/// The longest number.
const MAX_NUMBER: usize = 24;

/// Whose lines have the form.
#[derive(Clone, Copy, Debug)]
enum From {
    /// The message as a whole, behind the words of [`Line::text`].
    Any,
    /// What follows `driver address:`.
    Pci(Option<Text<15>>),
    /// What follows the head of a line of Lustre or LNet.
    Lustre,
    /// What follows `driver device `: the name of a network interface.
    Interface,
    /// What follows the name of a process.
    Process,
}

/// A form. Without a pointer: there are hundreds of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    from: From,
    text: Text<111>,
}

impl Form {
    const fn new(from: From, text: &str) -> Self {
        let text = Text::new(text);
        Self { from, text }
    }
}

/// A message.
pub(super) const fn at(text: &'static str) -> Form {
    Form::new(From::Any, text)
}

/// A message about a PCI function, behind its driver and address.
pub(super) const fn pci(text: &'static str) -> Form {
    Form::new(From::Pci(None), text)
}

/// The same, of one driver.
pub(super) const fn driver(name: &'static str, text: &'static str) -> Form {
    Form::new(From::Pci(Some(Text::new(name))), text)
}

/// A message about a network interface, behind its driver and device.
pub(super) const fn interface(text: &'static str) -> Form {
    Form::new(From::Interface, text)
}

/// A message that begins with the name of a process.
pub(super) const fn process(text: &'static str) -> Form {
    Form::new(From::Process, text)
}

/// A message of Lustre or LNet.
pub(super) const fn lustre(text: &'static str) -> Form {
    Form::new(From::Lustre, text)
}

impl Form {
    /// Whether a line has this form, and the name in it.
    pub(super) fn matches<'t>(&self, line: &Line<'t>) -> Option<Option<&'t str>> {
        let text = match &self.from {
            From::Any => Some(line.text),
            From::Pci(None) => line.message,
            From::Pci(Some(name)) => line.message.filter(|_| line.driver == &**name),
            From::Lustre => line.lustre,
            From::Interface => line.interface,
            From::Process => line.process,
        };
        let name = matches(self.text.as_bytes(), text?)?;
        Some(match self.from {
            From::Lustre => name.map(target),
            _ => name,
        })
    }

    #[cfg(test)]
    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.from {
            From::Any => {}
            From::Pci(None) => f.write_str("DRIVER ADDRESS: ")?,
            From::Pci(Some(driver)) => write!(f, "{driver} ADDRESS: ")?,
            From::Lustre => f.write_str("Lustre: ")?,
            From::Interface => f.write_str("DRIVER DEVICE ")?,
            From::Process => f.write_str("PROCESS")?,
        }
        f.write_str(&self.text)
    }
}

/// Characters of names: of devices, servers and addresses.
pub(super) fn is_name_char(c: u8) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-' | b'.' | b':' | b'@' | b'!')
}

/// The name at the start of a text. A colon or full stop behind it is not part of it.
fn name(text: &str) -> &str {
    let end = text.bytes().position(|c| !is_name_char(c));
    let name = text.get(..end.unwrap_or(text.len())).unwrap_or_default();
    name.trim_end_matches([':', '.'])
}

/// The target of a device of a mount, `scratch-OST0001` of `scratch-OST0001-osc-ffff880812345678`: the number is another at each
/// mount and on each node.
fn target(device: &str) -> &str {
    let of_mount = |kind: &str| {
        let (target, instance) = device.rsplit_once(kind)?;
        let is_instance = !instance.is_empty() && instance.bytes().all(|b| b.is_ascii_hexdigit());
        is_instance.then_some(target)
    };
    of_mount("-osc-").or_else(|| of_mount("-mdc-")).unwrap_or(device)
}

/// On bytes of the form: a line of no row is compared with each of hundreds.
fn matches<'t>(form: &[u8], text: &'t str) -> Option<Option<&'t str>> {
    let is_same = |(form, text): &(&u8, u8)| **form == *text && !matches!(form, b'*' | b'%' | b'<');
    let same = form.iter().zip(text.bytes()).take_while(is_same).count();
    let (form, text) = (form.get(same..)?, text.get(same..)?);
    match form {
        [] => Some(None),
        [b'<', b'>', form @ ..] => {
            let name = name(text);
            let behind = text.get(name.len()..)?;
            let is_name = !name.is_empty() && name.len() <= MAX_CAPTURE;
            is_name
                .then(|| matches(form, behind))
                .flatten()
                .map(|_| Some(name))
        }
        [b'%', form @ ..] => {
            let is_digit = |b: &u8| b.is_ascii_hexdigit() || *b == b'x';
            let digits = text.bytes().take(MAX_NUMBER).take_while(is_digit).count();
            // A digit of hexadecimal numbers may be a letter of the text behind.
            (1..=digits).rev().find_map(|end| matches(form, text.get(end..)?))
        }
        [b'*', form @ ..] => {
            let mut skipped = text.char_indices().map(|(at, _)| at).chain([text.len()]);
            skipped.find_map(|at| matches(form, text.get(at..)?))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_form_is_text_numbers_names_and_anything_from_the_start_on() {
        for (form, text, want) in [
            ("a b", "a b c", Some(None)),
            ("a b", "x a b", None),
            ("CPU#% stuck for %s!", "CPU#2 stuck for 22s! [x:1]", Some(None)),
            ("CPU#%", "CPU#", None),
            ("task *:% blocked", "task kworker/u8:2:77 blocked for", Some(None)),
            ("server <> OK", "server fe80::1 OK", Some(Some("fe80::1"))),
            ("<>: down", "nvme0: down", Some(Some("nvme0"))),
            ("on device <>.", "on device dm-4-8.", Some(Some("dm-4-8"))),
            ("on device <>.", "on device %s.", None),
            (
                "(device <>*): ro",
                "(device sda3: state E): ro",
                Some(Some("sda3")),
            ),
            ("* <>: end", "a b c: end", Some(Some("c"))),
            ("", "x", Some(None)),
            ("ab*", "ab", Some(None)),
            ("ab%", "ab", None),
            ("ab", "a", None),
            ("aé", "aè", None),
            ("a*", "aé", Some(None)),
            ("a*é%", "aé %é7", Some(None)),
        ] {
            assert_eq!(matches(form.as_bytes(), text), want, "{form:?} {text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_name_is_short_and_has_no_special_character(text in "\\PC{0,200}") {
            if let Some(Some(name)) = matches(b"*a<>", &text) {
                prop_assert!(!name.is_empty() && name.bytes().all(is_name_char) && name.len() <= MAX_CAPTURE);
            }
        }
    }
}
