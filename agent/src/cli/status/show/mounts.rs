//! The filesystems of `nodewarden status`: a line each.

use crate::http::control::MountView;
use crate::screen::{self, Cell, Paint, Screen, Table};

/// The table; empty if none is probed.
pub(super) fn table(mounts: &[MountView], screen: &Screen) -> String {
    if mounts.is_empty() {
        return String::new();
    }
    let mut table = Table::headed(["filesystem", "type", "size", "used", "state"]);
    for mount in mounts {
        let paint = match (mount.up, mount.trouble.is_empty()) {
            (Some(true), true) => Paint::Good,
            (Some(false), _) => Paint::Bad,
            _ => Paint::Doubt,
        };
        let state = if mount.trouble.is_empty() {
            "ok".to_owned()
        } else {
            mount.state()
        };
        table.row(vec![
            Cell::new(&mount.mountpoint),
            Cell::new(&mount.fstype),
            Cell::number(mount.size.map(screen::bytes)),
            Cell::number(mount.used().map(|used| format!("{:.0} %", used * 100.0))),
            Cell::painted(paint, state),
        ]);
    }
    table.shown(0, screen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::PLAIN;

    #[test]
    fn a_filesystem_is_one_line_and_what_is_not_known_is_empty() {
        let scratch = MountView {
            mountpoint: "/scratch".to_owned(),
            fstype: "lustre".to_owned(),
            source: "10.2.0.40@o2ib:/scratch".to_owned(),
            class: "parallel".to_owned(),
            size: Some(2.0 * f64::from(1 << 30) * 1024.0 * 1024.0),
            free: Some(0.5 * f64::from(1 << 30) * 1024.0 * 1024.0),
            available: Some(0.5 * f64::from(1 << 30) * 1024.0 * 1024.0),
            up: Some(true),
            trouble: Vec::new(),
        };
        let home = MountView {
            mountpoint: "/home".to_owned(),
            fstype: "nfs4".to_owned(),
            source: "nas:/home".to_owned(),
            up: Some(false),
            trouble: vec!["no answer".to_owned()],
            ..MountView::default()
        };
        let expected = "\
filesystem  type       size  used  state
/scratch    lustre  2.0 PiB  75 %  ok
/home       nfs4                   no answer (nas:/home)
";
        assert_eq!(table(&[scratch, home], &PLAIN), expected);
        assert_eq!(table(&[], &PLAIN), "");
    }
}
