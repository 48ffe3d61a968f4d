#!/usr/bin/dash
# The guest `rdma-link`: one port of four loses its link for minutes and gets it back. Its clock leaps over all waiting.
. /rdma-lib.sh

# An interface without a plugged-in peer has no carrier; the other ends stay up.
for n in 0 1 2 3; do
  ip link add d$n type veth peer name e$n && ip link set e$n up && ip link set d$n up && rdma link add rxe$n type rxe netdev d$n || fail kernel "no soft-RoCE"
done
pass kernel "$(uname -r), up $(cut -d' ' -f1 /proc/uptime) s"
agent
must "start: four ports" "" 60 state_is rxe3 4

gone() { incidents | grep -q '"incidents": *\[\]'; }
minutes() { echo "$(($(cut -d. -f1 /proc/uptime) / 60)) minutes after boot"; }

# Nothing is found in the first ten minutes after boot, and there is nothing to be found.
after 900 false
gone || fail "in use: no finding" "$(incidents)"
pass "in use: no finding" "$(minutes)"

ip link set d1 down
must "link down: event" "" 20 event rxe1 link_down 1
must "link down: state" "" 20 state_is rxe1 1
must "link down: counted" "" 20 has 'rdma_link_downed_total{device="rxe1",port="1"} 1'
sleep 120
not_found rdma-port-down || fail "link down: finding" "before four minutes: $why"
after 600 found rdma-port-down || fail "link down: finding" "$(incidents)"
pass "link down: finding" "$(minutes)"
case $why in *rdma-port-down*rxe1/1*"3 of 4"*) ;; *) fail "link down: evidence" "$why" ;; esac
pass "link down: evidence" "3 of 4 ports up"

ip link set d1 up
must "link up: event" "" 20 event rxe1 link_up 1
must "link up: state" "" 20 state_is rxe1 4
# The finding stands until the port was up for ten minutes.
sleep 300
found rdma-port-down || fail "link up: held" "$why"
pass "link up: held" "$(minutes)"
after 1800 gone || fail "link up: finding clears" "$(incidents)"
pass "link up: finding clears" "$(minutes)"
has 'rdma_link_downed_total{device="rxe1",port="1"} 1' || fail "link up: counted once" "$(grep link_downed /tmp/page)"
pass "link up: counted once"
end
