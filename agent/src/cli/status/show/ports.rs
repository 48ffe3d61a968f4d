//! The RDMA ports of `nodewarden status`: a line each.

use crate::http::control::PortView;
use crate::screen::{self, Cell, Paint, Screen, Table};

/// The table; empty if there are none.
pub(super) fn table(ports: &[PortView], screen: &Screen) -> String {
    if ports.is_empty() {
        return String::new();
    }
    let mut table = Table::headed(["port", "link", "rate", "interface", "state"]);
    for port in ports {
        let (paint, state) = match (port.up, port.trouble.is_empty()) {
            (Some(true), true) => (Paint::Good, port.state.clone()),
            (Some(false), _) => (Paint::Bad, port.trouble.join(", ")),
            // A port that was never in use may be down.
            _ => (Paint::Doubt, port.trouble.join(", ")),
        };
        table.row(vec![
            Cell::new(&port.port),
            Cell::new(&port.link_layer),
            Cell::number(port.rate.map(screen::bit_rate)),
            Cell::new(&port.netdev),
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
    fn a_port_is_one_line_and_what_is_not_known_is_empty() {
        let up = PortView {
            port: "mlx5_0/1".to_owned(),
            link_layer: "InfiniBand".to_owned(),
            netdev: "ib0".to_owned(),
            state: "active".to_owned(),
            rate: Some(50e9),
            up: Some(true),
            ..PortView::default()
        };
        let down = PortView {
            port: "mlx5_1/1".to_owned(),
            link_layer: "Ethernet".to_owned(),
            state: "down".to_owned(),
            up: Some(true),
            trouble: vec!["down".to_owned(), "polling".to_owned()],
            ..PortView::default()
        };
        let expected = "\
port      link            rate  interface  state
mlx5_0/1  InfiniBand  400 Gb/s  ib0        active
mlx5_1/1  Ethernet                         down, polling
";
        assert_eq!(table(&[up, down], &PLAIN), expected);
        assert_eq!(table(&[], &PLAIN), "");
    }
}
