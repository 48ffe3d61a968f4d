#!/usr/bin/dash
# The guest `rdma-siw`: a port without statistics is shown without them, and no message is logged at every reading.
. /rdma-lib.sh

for n in 0 1; do
  ip link add d$n type dummy && ip address add 192.0.2.$((4 * n + 1))/30 dev d$n && ip link set d$n up || fail kernel "no interface"
done
rdma link add siw0 type siw netdev d0 || fail kernel "no soft-iWARP"
rdma link add rxe0 type rxe netdev d1 || fail kernel "no soft-RoCE"
pass kernel "$(uname -r), up $(cut -d' ' -f1 /proc/uptime) s"
# Else this guest would show nothing.
[ ! -e $CLASS/siw0/ports/1/hw_counters ] && ! said=$(rdma statistic show link siw0/1 2>&1) ||
  fail "kernel: no statistics of siw" "$said"
pass "kernel: no statistics of siw" "$said"

agent
must "start: both ports" "" 60 state_is siw0 4
is_up() { page >/tmp/page && grep -q '^nodewarden_collector_up{collector="rdma"} 1' /tmp/page; }
must "start: collector up" "" 20 is_up
is_by_netlink rxe0 || fail "siw: shown without counters" "rxe0 has none"
grep -q '^rdma_hw_counter.*siw0' /tmp/page && fail "siw: shown without counters" "$(grep siw0 /tmp/page)"
grep 'rdma_port_unreadable_files{device="siw0"' /tmp/page | grep -qv ' 0$' &&
  fail "siw: shown without counters" "$(grep siw0 /tmp/page)"
pass "siw: shown without counters"

lines=$(wc -l </tmp/nodewarden.log)
for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  page >/tmp/page
  sleep 1
done
is_up || fail "siw: nothing is said at each reading" "the collector is not up"
more=$(($(wc -l </tmp/nodewarden.log) - lines))
[ $more = 0 ] || fail "siw: nothing is said at each reading" "$more lines in twenty readings"
pass "siw: nothing is said at each reading" "no line in twenty readings"
warned=$(grep -e WARN -e ERROR /tmp/nodewarden.log | grep -e siw -e 'collector="rdma"' -e rdma)
[ -z "$warned" ] || fail "siw: no warning" "$warned"
pass "siw: no warning"
end
