use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use super::*;
use crate::Value;
use crate::netlink::Garbled;
use crate::netlink::message::Request;
use crate::netlink::nldev::tests::{answer, device};

const GUID: &str = "5054:00ff:fe12:3456";

type Answer = Result<Vec<Vec<u8>>, NetlinkError>;

/// A kernel with a script of answers, which must not receive further queries.
#[derive(Clone, Default)]
struct Script(Arc<Mutex<VecDeque<Answer>>>);

impl NetlinkTransport for Script {
    fn ask(
        &mut self,
        _: &mut Request,
        take: &mut dyn FnMut(&[u8]) -> Result<(), Garbled>,
    ) -> Result<(), NetlinkError> {
        let answer = self.0.lock().unwrap().pop_front();
        for payload in answer.expect("unexpected query")? {
            take(&payload)?;
        }
        Ok(())
    }
}

/// A port with its scripted kernel.
struct Asker {
    stats: NetlinkStats,
    script: Script,
    now: Instant,
}

impl Asker {
    fn new() -> Self {
        let script = Script::default();
        let known = DeviceKey {
            device: "mlx5_0".to_owned(),
            guid: Some(GUID.to_owned()),
        };
        Self {
            stats: NetlinkStats::new(known, 1, Words::of("mlx5_core"), Box::new(script.clone())),
            script,
            now: Instant::now(),
        }
    }

    /// A port whose device was found: index 3.
    fn found() -> Self {
        let mut asker = Self::new();
        asker.will_be_found();
        asker
    }

    fn will_be_found(&mut self) {
        let other = device(2, "mlx5_1", None);
        self.will(Ok(vec![other, vec![9, 0, 9, 0], device(3, "mlx5_0", None)]));
        self.will(Ok(vec![device(3, "mlx5_0", Some(0x5054_00ff_fe12_3456))]));
    }

    fn will(&mut self, answer: Answer) {
        self.script.0.lock().unwrap().push_back(answer);
    }

    fn will_tell(&mut self, counters: &[(&str, u64)]) {
        self.will(Ok(vec![answer(3, 1, counters)]));
    }

    fn will_refuse(&mut self, errno: Errno) {
        self.will(Err(NetlinkError::Kernel(errno)));
    }

    /// Sends a query after this number of seconds; all scripted answers must be consumed.
    #[track_caller]
    fn ask_after(&mut self, seconds: u64) -> StatsResult {
        self.now += Duration::from_secs(seconds);
        let asked = self.stats.ask(self.now, Duration::ZERO);
        assert!(self.script.0.lock().unwrap().is_empty(), "it was not asked");
        asked
    }

    fn values(&self) -> Vec<(&str, Result<Value, Reason>)> {
        let counters = self.stats.counters();
        counters.map(|(m, r)| (&*m.name, r.map(|r| r.value))).collect()
    }
}

#[test]
fn a_port_reports_all_its_counters_at_once() {
    let mut port = Asker::found();
    port.will_tell(&[("np_cnp_sent", 7), ("made_up", u64::MAX)]);
    assert_eq!(port.ask_after(0), StatsResult::Counters);
    let expected = [
        ("np_cnp_sent", Ok(Value::U64(7))),
        ("made_up", Err(Reason::AllOnes)),
    ];
    assert_eq!(port.values(), expected);
    // The device is not looked up again; other counters from the driver are accepted.
    port.will_tell(&[("np_cnp_sent", 8), ("out_of_buffer", 1)]);
    assert_eq!(port.ask_after(1), StatsResult::Counters);
    let names: Vec<_> = port.stats.counters().map(|(m, _)| m.metric.name).collect();
    assert_eq!(names, ["rdma_np_cnp_sent_total", "rdma_out_of_buffer_total"]);
}

#[test]
fn no_query_is_repeated_within_the_lifespan() {
    let mut port = Asker::found();
    port.will_tell(&[("np_cnp_sent", 7)]);
    assert_eq!(port.ask_after(0), StatsResult::Counters);
    for (lifespan, asked) in [(0, 9), (100, 99)] {
        let soon = port.now + Duration::from_millis(asked);
        assert_eq!(
            port.stats.ask(soon, Duration::from_millis(lifespan)),
            StatsResult::Counters
        );
    }
    port.will_tell(&[("np_cnp_sent", 8)]);
    port.now += Duration::from_millis(100);
    assert_eq!(
        port.stats.ask(port.now, Duration::from_millis(100)),
        StatsResult::Counters
    );
    assert_eq!(port.values(), [("np_cnp_sent", Ok(Value::U64(8)))]);
}

#[test]
fn a_driver_that_refuses_after_it_has_reported_is_left_alone_for_a_while_and_its_files_too() {
    let mut port = Asker::found();
    port.will_tell(&[("np_cnp_sent", 7)]);
    assert_eq!(port.ask_after(0), StatsResult::Counters);
    let refused = StatsResult::Refused(Reason::Rejected);
    port.will_refuse(Errno::EINVAL);
    assert_eq!(port.ask_after(1), refused);
    for _ in 0..2 {
        port.will_be_found();
        port.will_refuse(Errno::EINVAL);
        assert_eq!(port.ask_after(1), refused);
    }
    assert_eq!(port.ask_after(14), refused, "it has a rest");
    port.will_be_found();
    port.will_tell(&[("np_cnp_sent", 9)]);
    assert_eq!(port.ask_after(1), StatsResult::Counters);
    assert_eq!(port.values(), [("np_cnp_sent", Ok(Value::U64(9)))]);
}

#[test]
fn what_refuses_from_the_first_has_files_and_is_asked_again_ever_more_rarely() {
    let mut port = Asker::found();
    port.will_refuse(Errno::EINVAL);
    assert_eq!(port.ask_after(0), StatsResult::Files);
    for _ in 0..2 {
        port.will_be_found();
        port.will_refuse(Errno::EINVAL);
        assert_eq!(port.ask_after(1), StatsResult::Files);
    }
    assert_eq!(port.ask_after(14), StatsResult::Files, "it has a rest");
    port.will_be_found();
    port.will_tell(&[("np_cnp_sent", 1)]);
    assert_eq!(port.ask_after(1), StatsResult::Counters);
}

#[test]
fn what_is_no_fault_of_the_drivers_costs_no_counter() {
    for failed in [
        NetlinkError::Kernel(Errno::EPERM),
        NetlinkError::Kernel(Errno::ENOBUFS),
        NetlinkError::Kernel(Errno::EMFILE),
        NetlinkError::Garbled(Garbled("made up")),
    ] {
        let mut port = Asker::found();
        port.will_tell(&[("np_cnp_sent", 7)]);
        port.ask_after(0);
        for _ in 0..3 {
            port.will(Err(failed));
            assert_eq!(port.ask_after(1), StatsResult::Files, "{failed}");
        }
        assert_eq!(port.ask_after(14), StatsResult::Files, "it has a rest");
        port.will_tell(&[("np_cnp_sent", 8)]);
        assert_eq!(port.ask_after(1), StatsResult::Counters, "{failed}");
    }
}

#[test]
fn what_has_no_such_way_is_not_asked_again() {
    for errno in [Errno::EMSGSIZE, Errno::EOPNOTSUPP] {
        let mut port = Asker::found();
        port.will_refuse(errno);
        assert_eq!(port.ask_after(0), StatsResult::Files);
        assert_eq!(port.ask_after(3600), StatsResult::Files);
    }
    let mut port = Asker::new();
    port.will_refuse(Errno::EPROTONOSUPPORT);
    assert_eq!(
        [0, 3600].map(|after| port.ask_after(after)),
        [StatsResult::Files; 2]
    );
    // Files without a counter by netlink.
    let mut port = Asker::found();
    port.will_tell(&[]);
    assert_eq!(
        [0, 3600].map(|after| port.ask_after(after)),
        [StatsResult::Files; 2]
    );
}

#[test]
fn a_device_that_left_is_looked_for_and_another_one_of_its_name_is_not_it() {
    let mut port = Asker::found();
    port.will_tell(&[("np_cnp_sent", 7)]);
    port.ask_after(0);
    port.will_refuse(Errno::ENODEV);
    assert_eq!(port.ask_after(1), StatsResult::Files);
    port.will(Ok(vec![device(4, "mlx5_0", None)]));
    port.will(Ok(vec![device(4, "mlx5_0", Some(1))]));
    assert_eq!(port.ask_after(1), StatsResult::Files);
    port.will_be_found();
    port.will_tell(&[("np_cnp_sent", 1)]);
    assert_eq!(port.ask_after(1), StatsResult::Counters);
}

#[test]
fn an_answer_about_another_port_is_none_of_ours() {
    let mut port = Asker::found();
    let (other, ours) = (
        answer(3, 2, &[("np_cnp_sent", 1)]),
        answer(3, 1, &[("np_cnp_sent", 2)]),
    );
    port.will(Ok(vec![other, ours]));
    assert_eq!(port.ask_after(0), StatsResult::Counters);
    assert_eq!(port.values(), [("np_cnp_sent", Ok(Value::U64(2)))]);
}

/// The kernel reuses the index of a removed device.
#[test]
fn a_number_that_another_device_has_by_now_reports_nothing_and_is_looked_up_again() {
    let mut port = Asker::found();
    port.will_tell(&[("np_cnp_sent", 7)]);
    assert_eq!(port.ask_after(0), StatsResult::Counters);
    port.stats.known.device = "mlx5_7".to_owned();
    port.will_tell(&[("np_cnp_sent", 70_000)]);
    assert_eq!(port.ask_after(1), StatsResult::Files);
    assert_eq!(port.values(), [("np_cnp_sent", Ok(Value::U64(7)))]);
    port.will(Ok(vec![device(3, "mlx5_0", None)]));
    assert_eq!(
        port.ask_after(1),
        StatsResult::Files,
        "it is looked for by its name"
    );
}
