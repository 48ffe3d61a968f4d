use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::*;
use crate::netlink::nldev::tests::{device, port_answer, resources_answer};

const GUID: &str = "5054:00ff:fe12:3456";
/// Kinds of requests: `RDMA_NL_NLDEV << 10` and a command.
const GET: u16 = 0x1401;
const PORT_GET: u16 = 0x1405;
const RES_GET: u16 = 0x1409;

type Answer = Result<Vec<Vec<u8>>, NetlinkError>;

/// A kernel that repeats an answer to a kind of query until the test sets another, and counts queries.
#[derive(Clone, Default)]
pub(crate) struct Answering(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    answers: BTreeMap<u16, Answer>,
    asked: BTreeMap<u16, usize>,
}

impl Answering {
    /// With `mlx5_0` under index 3, and this answer for its port 1.
    pub(crate) fn with_port(states: (u8, u8), netdev: Option<(u32, &str)>) -> Self {
        let kernel = Self::default();
        let resources = resources_answer(3, &[("pd", 2), ("qp", 70)]);
        kernel.will(GET, Ok(vec![device(3, "mlx5_0", Some(0x5054_00ff_fe12_3456))]));
        kernel.will(RES_GET, Ok(vec![resources]));
        kernel.will_tell(states, netdev);
        kernel
    }

    pub(crate) fn will_tell(&self, states: (u8, u8), netdev: Option<(u32, &str)>) {
        self.will(PORT_GET, Ok(vec![port_answer(3, 1, states, netdev)]));
    }

    /// A request of another port is stuck.
    pub(crate) fn will_be_busy(&self) {
        for kind in [GET, PORT_GET, RES_GET] {
            self.will(kind, Err(NetlinkError::Busy));
        }
    }

    pub(crate) fn will_refuse(&self, errno: Errno) {
        for kind in [PORT_GET, RES_GET] {
            self.will(kind, Err(NetlinkError::Kernel(errno)));
        }
    }

    fn will(&self, kind: u16, answer: Answer) {
        self.0.lock().unwrap().answers.insert(kind, answer);
    }

    /// The number of queries since the last call of this function.
    pub(crate) fn asked_in_all(&self) -> usize {
        std::mem::take(&mut self.0.lock().unwrap().asked).values().sum()
    }

    fn asked(&self, kind: u16) -> usize {
        self.0.lock().unwrap().asked.remove(&kind).unwrap_or(0)
    }
}

impl NetlinkTransport for Answering {
    fn ask(
        &mut self,
        request: &mut Request,
        take: &mut dyn FnMut(&[u8]) -> Result<(), Garbled>,
    ) -> Result<(), NetlinkError> {
        let bytes = request.numbered(1);
        let kind = u16::from_ne_bytes(bytes[4..6].try_into().unwrap());
        let mut state = self.0.lock().unwrap();
        *state.asked.entry(kind).or_default() += 1;
        let answer = state.answers.get(&kind).cloned();
        for payload in answer.unwrap_or(Err(NetlinkError::Kernel(Errno::EINVAL)))? {
            take(&payload)?;
        }
        Ok(())
    }
}

fn known() -> DeviceKey {
    DeviceKey {
        device: "mlx5_0".to_owned(),
        guid: Some(GUID.to_owned()),
    }
}

fn port_query(kernel: &Answering) -> NetlinkPort {
    NetlinkPort::new(known(), 1, kernel.clone())
}

#[test]
fn a_port_is_one_message_once_its_device_is_found() {
    let kernel = Answering::with_port((4, 5), Some((7, "ens1")));
    let mut port_query = port_query(&kernel);
    let now = Instant::now();
    let port = port_query.port(now).unwrap();
    assert_eq!((port.state, port.physical_state), (4, 5));
    assert_eq!(port.netdev, Some((7, "ens1".to_owned())));
    assert_eq!([RES_GET, GET, PORT_GET].map(|k| kernel.asked(k)), [1, 1, 1]);
    for second in 1..10 {
        port_query.port(now + Duration::from_secs(second)).unwrap();
    }
    assert_eq!([RES_GET, GET, PORT_GET].map(|k| kernel.asked(k)), [0, 0, 9]);
}

#[test]
fn resources_are_counted_once_a_minute() {
    let kernel = Answering::with_port((4, 5), None);
    let mut port_query = port_query(&kernel);
    let now = Instant::now();
    port_query.port(now);
    kernel.asked(RES_GET);
    for second in 0..120 {
        let resources = port_query.resources(now + Duration::from_secs(second)).unwrap();
        assert_eq!(resources, [("pd".to_owned(), 2), ("qp".to_owned(), 70)]);
    }
    assert_eq!(kernel.asked(RES_GET), 2);
}

#[test]
fn what_the_kernel_does_not_know_is_not_asked_again() {
    for errno in [Errno::EOPNOTSUPP, Errno::EPROTONOSUPPORT, Errno::EMSGSIZE] {
        let kernel = Answering::with_port((4, 5), None);
        let mut port_query = port_query(&kernel);
        let now = Instant::now();
        port_query.port(now).unwrap();
        kernel.asked(PORT_GET);
        kernel.will_refuse(errno);
        for hour in 1..10 {
            assert_eq!(port_query.port(now + Duration::from_secs(hour * 3600)), None);
        }
        assert_eq!(kernel.asked(PORT_GET), 1, "{errno}");
        // Resources are a separate query.
        kernel.asked(RES_GET);
        assert_eq!(port_query.resources(now), None);
        assert_eq!(kernel.asked(RES_GET), 1);
    }
}

#[test]
fn a_driver_that_refuses_is_given_a_rest_and_asked_again() {
    let kernel = Answering::with_port((4, 5), None);
    let mut port_query = port_query(&kernel);
    let now = Instant::now();
    port_query.port(now).unwrap();
    kernel.asked(PORT_GET);
    kernel.will(PORT_GET, Err(NetlinkError::Kernel(Errno::EINVAL)));
    for second in 1..10 {
        assert_eq!(port_query.port(now + Duration::from_secs(second)), None);
    }
    assert_eq!(kernel.asked(PORT_GET), 3);
    kernel.will_tell((1, 2), None);
    let port = port_query.port(now + Duration::from_secs(3600)).unwrap();
    assert_eq!((port.state, port.physical_state), (1, 2));
}

#[test]
fn a_port_that_could_not_be_asked_for_anothers_request_is_asked_as_soon_as_that_is_over() {
    let kernel = Answering::with_port((4, 5), None);
    let mut port_query = port_query(&kernel);
    let now = Instant::now();
    port_query.port(now).unwrap();
    kernel.will_be_busy();
    for second in 1..100 {
        assert_eq!(port_query.port(now + Duration::from_secs(second)), None);
    }
    assert_eq!(port_query.index(), Some(3), "it is the same device");
    kernel.will_tell((4, 5), None);
    assert!(port_query.port(now + Duration::from_secs(100)).is_some());
}

#[test]
fn a_device_that_came_back_is_looked_for_again() {
    let kernel = Answering::with_port((4, 5), None);
    let mut port_query = port_query(&kernel);
    let now = Instant::now();
    port_query.port(now).unwrap();
    kernel.will_refuse(Errno::ENODEV);
    assert_eq!((port_query.port(now), port_query.index()), (None, None));
    let resources = resources_answer(3, &[]);
    kernel.will(RES_GET, Ok(vec![resources]));
    kernel.will_tell((4, 5), None);
    kernel.asked(GET);
    assert!(port_query.port(now).is_some());
    assert_eq!(kernel.asked(GET), 1);
}

#[test]
fn another_device_by_that_name_reports_nothing() {
    let kernel = Answering::with_port((4, 5), None);
    kernel.will(GET, Ok(vec![device(3, "mlx5_0", Some(1))]));
    let mut port_query = port_query(&kernel);
    assert_eq!(port_query.port(Instant::now()), None);
    assert_eq!((kernel.asked(PORT_GET), port_query.index()), (0, None));
}

#[test]
fn an_answer_about_another_port_is_none() {
    let kernel = Answering::with_port((4, 5), None);
    kernel.will(PORT_GET, Ok(vec![port_answer(3, 2, (4, 5), None)]));
    assert_eq!(port_query(&kernel).port(Instant::now()), None);
}

/// The kernel reuses the index of a removed device, and returns EINVAL for one that is not assigned yet.
#[test]
fn a_number_that_is_another_devices_or_unassigned_is_looked_up_again() {
    let kernel = Answering::with_port((4, 5), None);
    let mut port_query = port_query(&kernel);
    let now = Instant::now();
    port_query.port(now).unwrap();
    port_query.known.device = "mlx5_7".to_owned();
    assert_eq!((port_query.port(now), port_query.index()), (None, None));
    port_query.known.device = "mlx5_0".to_owned();
    port_query.port(now).unwrap();
    kernel.will_refuse(Errno::EINVAL);
    assert_eq!((port_query.port(now), port_query.index()), (None, None));
}
