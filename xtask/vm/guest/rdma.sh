#!/usr/bin/dash
# The guest `rdma`: two soft-RoCE devices on a pair of interfaces, and the agent beside them.
. /rdma-lib.sh

ip link add ve0 type veth peer name ve1
ip address add 192.0.2.1/30 dev ve0
ip address add 192.0.2.5/30 dev ve1
ip link set ve0 up
ip link set ve1 up
rdma link add rxe0 type rxe netdev ve0 && rdma link add rxe1 type rxe netdev ve1 || fail kernel "no soft-RoCE"
nodes
pass kernel "$(uname -r), up $(cut -d' ' -f1 /proc/uptime) s"

agent
must "start: two ports" "" 60 state_is rxe1 4
must "start: by netlink" "" 10 is_by_netlink rxe0
worker=$(pid_of nw-rdma)
grep -q '^CapEff:.0000000000000000' /proc/$worker/status && ! grep -q '^Uid:.0' /proc/$worker/status ||
  fail "start: rights of the worker" "$(grep -e ^Uid -e ^CapEff /proc/$worker/status)"
pass "start: rights of the worker" "none"

# Both ends are on one port: soft-RoCE sends to itself what is for its own address.
ibv_rc_pingpong -d rxe0 -g 1 -n 200 >/tmp/server.log 2>&1 &
server=$!
# Port 18515, and its state is LISTEN.
listens() { grep -q ':4853 .* 0A ' /proc/net/tcp /proc/net/tcp6 2>/dev/null; }
wait_for traffic 60 listens
ibv_rc_pingpong -d rxe0 -g 1 -n 200 127.0.0.1 >/tmp/client.log 2>&1 || fail traffic "$(cat /tmp/client.log /tmp/server.log | tr "\n" ";")"
wait $server
sent=$(cat $CLASS/rxe0/ports/1/hw_counters/sent_pkts)
[ "$sent" -ge 200 ] || fail traffic "$sent packets sent"
pass traffic "$sent packets sent"
must "traffic: netlink says what sysfs says" "" 20 same rxe0

ip link set ve0 down
must "link down: event" "" 20 event rxe0 link_down 1
must "link down: state" "" 20 state_is rxe0 1
must "link down: counted" "" 20 has 'rdma_link_downed_total{device="rxe0",port="1"} 1'
ip link set ve0 up
must "link up: state" "" 20 state_is rxe0 4
must "link up: event" "" 20 event rxe0 link_up 1

rdma dev set rxe0 name storage0
must "renamed: by netlink still" "" 20 is_by_netlink storage0
rdma link delete storage0
must "removed: gone" "" 20 has_not 'rdma_port_state{device="storage0"'
logged() { events "$1" | grep -q "event=\"$2\""; }
must "removed: event" "" 20 logged storage0 device_removed
rdma link add rxe0 type rxe netdev ve0
must "back: by netlink" "" 20 is_by_netlink rxe0
must "back: event" "" 20 logged rxe0 device_added
must "back: netlink says what sysfs says" "" 20 same rxe0

# As the drivers' own scripts do at a restart: once, and in this order. A socket to RDMA that is open is a user of ib_core.
rdma link delete rxe0
rdma link delete rxe1
must "unloaded: gone" "" 20 has_not 'rdma_port_state{'
DRIVERS="rdma_rxe rdma_ucm rdma_cm iw_cm ib_cm ib_uverbs ib_core"
rmmod $DRIVERS 2>/tmp/rmmod.log || fail "unloaded: while the agent runs" "$(cat /tmp/rmmod.log; grep ^ib_core /proc/modules)"
pass "unloaded: while the agent runs"
for module in /modules/*.ko; do insmod "$module" 2>/dev/null; done
rdma link add rxe0 type rxe netdev ve0 && rdma link add rxe1 type rxe netdev ve1 || fail "loaded: by netlink" "no soft-RoCE"
nodes
must "loaded: by netlink" "" 20 is_by_netlink rxe0
added_again() { events rxe0 | grep -q 'event="device_added"} 2$'; }
must "loaded: event" "" 20 added_again

# The same numbers a file each, and how many files are read for twenty readings. `bench rdma` measures times.
cost() {
  local n
  page >/dev/null
  reads=$(files_read)
  for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do page >/tmp/page; done
  reads=$(($(files_read) - reads))
}
files_read() { awk '/^syscr/ { print $2 }' /proc/$(pid_of nw-rdma)/io; }
cost
reads_netlink=$reads
printf '[rdma]\nsysfs_only = true\n' >/tmp/site.toml
kill $daemon
wait $daemon
agent --config /tmp/site.toml
must "sysfs: two ports" "" 60 state_is rxe1 4
must "sysfs: no netlink" "" 10 has 'rdma_hw_counters_info{device="rxe0",port="1",source="sysfs"} 1'
cost
# Two ports of fifteen counters each.
[ $((reads - reads_netlink)) -ge 500 ] || fail "cost: files read" "$reads_netlink by netlink, $reads without"
pass "cost: files read" "$((reads_netlink / 20)) a reading by netlink, $((reads / 20)) without"
end
