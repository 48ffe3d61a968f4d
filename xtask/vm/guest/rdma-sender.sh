#!/usr/bin/dash
# The guest `rdma-loss`: writes into the receiver's memory over a cable that is clean, loses packets, and is cut.
. /rdma-lib.sh
THERE=http://192.0.2.2:19190/metrics

join 1 && lasts || fail kernel "no GID"
pass kernel "$(uname -r), up $(cut -d' ' -f1 /proc/uptime) s"
agent

there() { timeout 30 wget -q -O /tmp/there "$THERE?tier=detail&collect[]=rdma" 2>/dev/null; }
# look: both pages as they are now.
look() { page >/tmp/page && there; }
both() { look && grep -q '^rdma_port_state{device="rxe0",port="1"} 4' /tmp/page && grep -q '^rdma_port_state{device="rxe0",port="1"} 4' /tmp/there; }
PORT='{device="rxe0",port="1"}'
here_is() { of /tmp/page "rdma_$1_total$PORT"; }
there_is() { of /tmp/there "rdma_$1_total$PORT"; }
must "start: both agents" "" 120 both

# cable NAME VERB SHARE: what share of our packets it loses from now on.
cable() { tc qdisc "$2" dev eth0 root netem loss "$3" || fail "$1" "tc cannot $2 a loss of $3"; }
# 200 messages of 64 packets each, after `sent` packets. An attempt that fails is no part of the work.
transfer() {
  page >/tmp/page && sent=$(here_is port_xmit_packets) && timeout 100 ib_write_bw $LASTS 192.0.2.2 >/tmp/transfer.log 2>&1
}
rate() { awk '$1 == 65536 { print $4 }' /tmp/transfer.log; }

wait_for "clean: traffic" 120 transfer
pass "clean: traffic" "$(rate) MB/s"
look || fail "clean: traffic" "no pages"
clean=$(($(here_is port_xmit_packets) - sent))
counts="$(here_is packet_seq_err) $(there_is out_of_sequence) $(here_is req_transport_retries_exceeded)"
[ "$counts" = "0 0 0" ] && [ $clean -ge 12800 ] || fail "clean: nothing sent twice" "$clean packets, $counts"
pass "clean: nothing sent twice" "$clean packets"
# One of packet loss would come after a minute.
sleep 90
not_found rdma- || fail "clean: no finding" "$why"
pass "clean: no finding"

cable "loss: traffic" add 2%
wait_for "loss: traffic" 180 transfer
pass "loss: traffic" "$(rate) MB/s"
look || fail "loss: traffic" "no pages"
[ "$(here_is packet_seq_err)" -gt 20 ] || fail "loss: sender counts" "$(here_is packet_seq_err)"
pass "loss: sender counts" "$(here_is packet_seq_err) sequence errors reported to it"
[ "$(there_is out_of_sequence)" -gt 20 ] || fail "loss: receiver counts" "$(there_is out_of_sequence)"
pass "loss: receiver counts" "$(there_is out_of_sequence) packets out of sequence"
lossy=$(($(here_is port_xmit_packets) - sent))
[ $lossy -gt $((clean * 11 / 10)) ] || fail "loss: more packets than the work needs" "$lossy, $clean without loss"
pass "loss: more packets than the work needs" "$lossy, $clean without loss"
[ "$(here_is req_transport_retries_exceeded)" = 0 ] || fail "loss: no retries exceeded" "$(here_is req_transport_retries_exceeded)"
pass "loss: no retries exceeded"

# A transfer that nothing but the cut can end in time.
cable "cut: the transfer breaks" change 0%
ib_write_bw $BREAKS -p 18516 192.0.2.2 >/tmp/transfer.log 2>&1 &
transfer=$!
sent=$(here_is port_xmit_packets)
moving() { page >/tmp/page && [ "$(here_is port_xmit_packets)" -gt $((sent + 2000)) ]; }
wait_for "cut: the transfer breaks" 120 moving
cable "cut: retries exceeded" change 100%
gave_up() { page >/tmp/page && [ "$(here_is req_transport_retries_exceeded)" -gt 0 ]; }
must "cut: retries exceeded" "" 60 gave_up
broken() { grep -q 'Failed status 12' /tmp/transfer.log; }
wait_for "cut: the transfer breaks" 60 broken
cable "cut: the transfer breaks" change 0%
# It wants to part from its peer in good order, which the cut has made a matter of minutes.
kill $transfer
wait $transfer
pass "cut: the transfer breaks" "transport retry counter exceeded"

# Either is believed when it has been seen for a minute.
since() { echo "$(($(cut -d. -f1 /proc/uptime) - $1)) s"; }
now=$(cut -d. -f1 /proc/uptime)
wait_for "loss: finding" 240 found rdma-packet-loss
pass "loss: finding" "rdma-packet-loss $(since $now) after the cut"
wait_for "cut: finding" 240 found rdma-retries-exceeded
pass "cut: finding" "rdma-retries-exceeded $(since $now) after the cut"
found 'rdma_packet_seq_err_total{device="rxe0",port="1"}' || fail "loss: evidence" "$why"
pass "loss: evidence"
end
