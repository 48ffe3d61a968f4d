//! Checks of RDMA error counters, and false alarms.

use collectors::Metric;
use collectors::rdma::metrics::{
    COUNTER_SATURATED, LINK_ERROR_RECOVERY, LOCAL_LINK_INTEGRITY_ERRORS, REQ_TRANSPORT_RETRIES_EXCEEDED,
    RNR_NAK_RETRY_ERR, RP_CNP_IGNORED,
};

use super::host::Port;
use super::sim::*;
use crate::verdict::Health;
use crate::{Mode, OrderVerb};

const HOUR: u64 = 3600;

/// A node with this number of ports with this counter, long after boot.
fn node(ports: usize, metric: &'static Metric) -> Sim {
    let mut sim = Sim::new(Mode::Drain);
    sim.host.ports = (0..ports).map(Port::new).collect();
    for port in &mut sim.host.ports {
        port.set(metric, &[], 7.0);
    }
    sim.pass(2000);
    sim
}

fn grows(sim: &mut Sim, port: usize, metric: &'static Metric) {
    sim.host.ports[port].add(metric, &[], 1.0);
}

fn evidence(sim: &Sim) -> String {
    sim.engine.view().incidents[0].findings[0].evidence[0].clone()
}

mod retries {
    use super::*;

    const ONCE: &str = "a queue pair gave up at 0000:13:00.0";
    const AGAIN: &str = "queue pairs give up again and again at 0000:13:00.0";
    const M: &Metric = &REQ_TRANSPORT_RETRIES_EXCEEDED;

    #[test]
    fn a_queue_pair_that_gave_up_is_shown_and_ends_after_an_hour() {
        let mut sim = node(8, M);
        grows(&mut sim, 3, M);
        sim.pass(165);
        assert_eq!(sim.incidents(), [format!("{ONCE} open")]);
        assert_eq!((sim.slurm.drains, sim.slurm.comment.clone()), (0, None));
        assert_eq!(
            evidence(&sim),
            "rdma_req_transport_retries_exceeded_total{device=\"mlx5_3\",port=\"1\"} 8, expected not to grow, \
             0.0 s old, grew in 1 readings; mlx5_3/1 at 0000:13:00.0: 1 times within 1 h, last 135 s ago, 0 more \
             shared with most peers ignored; 8 of 8 InfiniBand ports of mlx5_core up"
        );
        sim.pass(HOUR + 120);
        assert_eq!(sim.incidents(), [format!("{ONCE} cleared")]);
    }

    #[test]
    fn three_times_in_a_day_alone_are_the_nodes_and_comment() {
        let mut sim = node(8, M);
        for _ in 0..3 {
            assert_eq!(sim.slurm.comment, None);
            grows(&mut sim, 3, M);
            sim.pass(2 * HOUR);
        }
        let comment = sim.slurm.comment.clone().unwrap();
        assert!(
            comment.contains("rdma-retries-exceeded rdma_port mlx5_3/1"),
            "{comment}"
        );
        assert!(
            sim.incidents().contains(&format!("{AGAIN} open")),
            "{:?}",
            sim.incidents()
        );
        assert_eq!(sim.engine.view().verdict.health, Health::Healthy);
        sim.pass(5 * HOUR);
        assert!(sim.incidents().contains(&format!("{AGAIN} cleared")));
    }

    #[test]
    fn a_remote_node_that_dies_takes_all_of_a_job_and_is_shared() {
        let mut sim = node(8, M);
        for _ in 0..3 {
            for port in 0..4 {
                grows(&mut sim, port, M);
            }
            // The others fail a little later.
            sim.pass(15);
            for port in 4..8 {
                grows(&mut sim, port, M);
            }
            sim.pass(600);
        }
        assert_eq!(
            sim.incidents(),
            ["queue pairs gave up of most InfiniBand ports of mlx5_core together open"]
        );
        assert!(
            evidence(&sim).contains("8 of 8 InfiniBand ports of mlx5_core"),
            "{}",
            evidence(&sim)
        );
        assert_eq!((sim.slurm.drains, sim.slurm.comment.clone()), (0, None));
        sim.pass(2 * HOUR);
        assert_eq!(
            sim.incidents(),
            ["queue pairs gave up of most InfiniBand ports of mlx5_core together cleared"]
        );
    }

    #[test]
    fn a_port_without_the_counter_does_not_hold_up_the_end_of_what_the_others_share() {
        let mut sim = node(8, M);
        sim.host.ports.push(Port::new(8));
        sim.pass(60);
        for port in 0..8 {
            grows(&mut sim, port, M);
        }
        sim.pass(165);
        let together = "queue pairs gave up of most InfiniBand ports of mlx5_core together";
        assert_eq!(sim.incidents(), [format!("{together} open")]);
        sim.pass(2 * HOUR);
        assert_eq!(sim.incidents(), [format!("{together} cleared")]);
    }

    #[test]
    fn a_limit_that_was_not_exceeded_is_no_finding() {
        let mut sim = node(8, &RNR_NAK_RETRY_ERR);
        for _ in 0..20 {
            sim.host.ports[3].add(&RNR_NAK_RETRY_ERR, &[], 1000.0);
            sim.pass(60);
        }
        assert!(sim.incidents().is_empty());
    }

    #[test]
    fn a_reset_a_first_sight_and_a_reboot_are_no_growth() {
        let mut sim = node(8, M);
        sim.host.ports[3].set(M, &[], 0.0);
        sim.pass(600);
        sim.host.ports[3].set(M, &[], 5.0);
        sim.reboot();
        sim.pass(600);
        sim.host.ports.push(Port::new(8));
        sim.host.ports[8].set(M, &[], 99.0);
        sim.pass(600);
        assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
    }

    #[test]
    fn what_cannot_be_read_ends_nothing() {
        let mut sim = node(8, M);
        grows(&mut sim, 3, M);
        sim.pass(165);
        sim.host.ports[3].series.clear();
        sim.pass(3 * HOUR);
        assert_eq!(sim.incidents(), [format!("{ONCE} open")]);
        sim.host.ports[3].set(M, &[], 8.0);
        sim.pass(1800);
        assert_eq!(
            sim.incidents(),
            [format!("{ONCE} open")],
            "not watched for an hour yet"
        );
        sim.pass(1900);
        assert_eq!(sim.incidents(), [format!("{ONCE} cleared")]);
    }

    #[test]
    fn few_ports_tell_nothing_about_whose_fault_it_is() {
        let mut sim = node(2, M);
        for _ in 0..4 {
            grows(&mut sim, 1, M);
            sim.pass(HOUR);
        }
        assert!(!sim.incidents().is_empty());
        assert_eq!(sim.slurm.comment, None);
    }

    #[test]
    fn a_person_who_clears_it_hears_again_only_of_new_ones() {
        let mut sim = node(8, M);
        for _ in 0..3 {
            grows(&mut sim, 3, M);
            sim.pass(700);
        }
        assert!(
            sim.incidents().contains(&format!("{AGAIN} open")),
            "{:?}",
            sim.incidents()
        );
        let id = sim.engine.view().incidents[0].id.clone();
        sim.order(OrderVerb::Clear, &id).unwrap();
        sim.pass(600);
        assert!(
            sim.incidents().iter().all(|i| i.ends_with("cleared")),
            "{:?}",
            sim.incidents()
        );
        grows(&mut sim, 3, M);
        sim.pass(600);
        assert!(
            sim.incidents().contains(&format!("{ONCE} open")),
            "{:?}",
            sim.incidents()
        );
        for _ in 0..2 {
            sim.pass(700);
            grows(&mut sim, 3, M);
        }
        sim.pass(700);
        assert!(
            sim.incidents().contains(&format!("{AGAIN} open")),
            "three new ones: {:?}",
            sim.incidents()
        );
    }

    #[test]
    fn growth_before_the_first_reading_has_no_time() {
        let mut sim = node(8, M);
        sim.host.ports[3].series.clear();
        sim.pass(300);
        sim.host.ports[3].set(M, &[], 50.0);
        sim.pass(600);
        assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
    }

    #[test]
    fn peers_that_give_up_within_two_minutes_share_it() {
        let mut sim = node(8, M);
        grows(&mut sim, 3, M);
        sim.pass(105);
        for port in [0, 1, 2, 4, 5, 6, 7] {
            grows(&mut sim, port, M);
        }
        sim.pass(600);
        assert_eq!(
            sim.incidents(),
            ["queue pairs gave up of most InfiniBand ports of mlx5_core together open"]
        );
    }

    /// Few times of each port are kept, and different ones.
    #[test]
    fn what_goes_on_for_hours_at_all_ports_is_no_ports_own() {
        let mut sim = node(8, M);
        for tick in 0..4 * 240 {
            for port in 0..8 {
                if (tick + port) % (port + 3) != 0 {
                    grows(&mut sim, port, M);
                }
            }
            sim.pass(15);
        }
        let own: Vec<String> = sim
            .incidents()
            .into_iter()
            .filter(|i| i.contains(" at 0000:"))
            .collect();
        assert!(own.is_empty(), "{own:?}");
        assert!(!sim.incidents().is_empty(), "a shared fault is shown");
    }

    #[test]
    fn peers_that_are_out_of_sight_afterwards_shared_it_all_the_same() {
        let mut sim = node(8, M);
        for port in 0..8 {
            grows(&mut sim, port, M);
        }
        sim.pass(15);
        sim.host
            .ports
            .retain(|p| ["mlx5_3", "mlx5_4"].contains(&p.device.as_str()));
        sim.pass(900);
        assert!(
            !sim.incidents()
                .iter()
                .any(|i| i.starts_with("a queue pair gave up")),
            "{:?}",
            sim.incidents()
        );
    }

    #[test]
    fn a_job_that_dies_again_at_once_is_one_occasion() {
        let mut sim = node(8, M);
        for _ in 0..5 {
            grows(&mut sim, 3, M);
            sim.pass(300);
        }
        assert_eq!(sim.incidents(), [format!("{ONCE} open")]);
        assert_eq!(sim.slurm.comment, None);
    }

    #[test]
    fn what_another_port_had_part_in_is_not_counted_against_one() {
        let mut sim = node(8, M);
        for _ in 0..4 {
            grows(&mut sim, 3, M);
            grows(&mut sim, 4, M);
            sim.pass(2 * HOUR);
        }
        assert!(
            !sim.incidents().iter().any(|i| i.contains("again and again")),
            "{:?}",
            sim.incidents()
        );
        assert_eq!(sim.slurm.comment, None);
    }

    #[test]
    fn evidence_counts_within_the_time_of_its_own_rule() {
        let mut sim = node(8, M);
        grows(&mut sim, 3, M);
        sim.pass(3 * HOUR);
        grows(&mut sim, 3, M);
        sim.pass(165);
        let evidence = evidence(&sim);
        assert!(
            evidence.contains("grew in 1 readings") && evidence.contains("1 times within 1 h"),
            "{evidence}"
        );
    }

    #[test]
    fn a_virtual_function_has_none() {
        let mut sim = node(8, M);
        sim.host.ports[3].function = "virtual";
        grows(&mut sim, 3, M);
        sim.pass(600);
        assert!(sim.incidents().is_empty());
    }
}

mod integrity {
    use super::*;

    const LOST: &str = "link loses its integrity at 0000:13:00.0";
    const M: &Metric = &LOCAL_LINK_INTEGRITY_ERRORS;

    #[test]
    fn one_error_is_a_finding_that_comments_and_ends_after_six_hours() {
        let mut sim = node(8, M);
        grows(&mut sim, 3, M);
        sim.pass(165);
        assert_eq!(sim.incidents(), [format!("{LOST} open")]);
        assert!(sim.slurm.comment.clone().unwrap().contains("rdma-link-integrity"));
        sim.pass(6 * HOUR - 300);
        assert_eq!(sim.incidents(), [format!("{LOST} open")]);
        sim.pass(600);
        assert_eq!(sim.incidents(), [format!("{LOST} cleared")]);
    }

    #[test]
    fn a_link_is_the_ports_own_also_where_it_is_the_only_one() {
        let mut sim = node(1, M);
        grows(&mut sim, 0, M);
        sim.pass(165);
        assert!(sim.slurm.comment.is_some());
    }

    #[test]
    fn a_counter_that_stands_at_its_maximum_is_unknown_and_says_so() {
        let mut sim = node(8, M);
        sim.host.ports[3].set(M, &[], 15.0);
        sim.host.ports[3].set(&COUNTER_SATURATED, &["local_link_integrity_errors"], 1.0);
        sim.pass(165);
        assert!(evidence(&sim).contains("saturated"), "{}", evidence(&sim));
        sim.pass(7 * HOUR);
        assert_eq!(
            sim.incidents(),
            [format!("{LOST} open")],
            "a saturated counter proves nothing"
        );
        // The counter is reset.
        sim.host.ports[3].set(M, &[], 0.0);
        sim.host.ports[3].set(&COUNTER_SATURATED, &["local_link_integrity_errors"], 0.0);
        sim.pass(600);
        assert_eq!(sim.incidents(), [format!("{LOST} cleared")]);
    }

    #[test]
    fn a_counter_that_was_full_before_is_no_finding() {
        let mut sim = Sim::new(Mode::Drain);
        sim.host.ports = (0..8).map(Port::new).collect();
        sim.host.ports[3].set(M, &[], 15.0);
        sim.host.ports[3].set(&COUNTER_SATURATED, &["local_link_integrity_errors"], 1.0);
        sim.pass(7 * HOUR);
        assert!(sim.incidents().is_empty());
    }

    /// hfi1 counts replays of link packets, by which Omni-Path corrects bit errors.
    #[test]
    fn replays_of_an_omni_path_link_are_none() {
        for (driver, found) in [("hfi1", 0), ("mlx5_core", 1)] {
            for metric in [M, &LINK_ERROR_RECOVERY] {
                let mut sim = node(1, metric);
                sim.host.ports[0].driver = driver;
                sim.pass(60);
                sim.host.ports[0].add(metric, &[], 5.0);
                sim.pass(300);
                assert_eq!(sim.incidents().len(), found, "{driver} {}", metric.name);
            }
        }
    }

    #[test]
    fn five_recoveries_in_a_minute_are_one_and_five_in_an_hour_are_none() {
        let mut sim = node(8, &LINK_ERROR_RECOVERY);
        for _ in 0..5 {
            grows(&mut sim, 3, &LINK_ERROR_RECOVERY);
            sim.pass(600);
        }
        assert!(sim.incidents().is_empty());
        sim.host.ports[3].add(&LINK_ERROR_RECOVERY, &[], 3.0);
        sim.pass(30);
        sim.host.ports[3].add(&LINK_ERROR_RECOVERY, &[], 2.0);
        sim.pass(180);
        assert_eq!(sim.incidents(), [format!("{LOST} open")]);
    }

    #[test]
    fn what_a_link_counts_while_it_trains_is_none() {
        let mut sim = node(8, M);
        sim.host.ports[3].down();
        grows(&mut sim, 3, M);
        sim.pass(60);
        sim.host.ports[3].up();
        grows(&mut sim, 3, M);
        sim.pass(60);
        grows(&mut sim, 3, M);
        sim.pass(400);
        assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
        // It went down and came up between two readings.
        sim.host.ports[3].link_downed = Some(1);
        grows(&mut sim, 3, M);
        sim.pass(400);
        assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
        grows(&mut sim, 3, M);
        sim.pass(165);
        assert_eq!(sim.incidents(), [format!("{LOST} open")]);
    }

    #[test]
    fn links_that_train_after_boot_count_nothing() {
        let mut sim = node(8, M);
        sim.reboot();
        sim.host.ports[3].set(M, &[], 0.0);
        sim.pass(300);
        sim.host.ports[3].set(M, &[], 3.0);
        sim.pass(3000);
        assert!(sim.incidents().is_empty());
    }
}

mod notifications {
    use super::*;

    const M: &Metric = &RP_CNP_IGNORED;

    #[test]
    fn three_readings_with_ignored_notifications_are_a_finding_and_two_are_none() {
        let mut sim = node(8, M);
        for n in 1..=3 {
            assert!(sim.incidents().is_empty(), "{n}");
            grows(&mut sim, 3, M);
            sim.pass(120);
        }
        sim.pass(60);
        assert_eq!(
            sim.incidents(),
            ["congestion notifications ignored at 0000:13:00.0 open"]
        );
        sim.pass(HOUR + 120);
        assert_eq!(
            sim.incidents(),
            ["congestion notifications ignored at 0000:13:00.0 cleared"]
        );
    }

    #[test]
    fn all_ports_at_once_are_a_setting_of_the_fabric() {
        let mut sim = node(8, M);
        for _ in 0..5 {
            for port in 0..8 {
                grows(&mut sim, port, M);
            }
            sim.pass(60);
        }
        assert_eq!(
            sim.incidents(),
            ["congestion notifications ignored of most InfiniBand ports of mlx5_core together open"]
        );
        assert_eq!(sim.slurm.comment, None);
    }
}
