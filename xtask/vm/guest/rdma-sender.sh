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

# 200 messages of 64 packets each.
transfer() { ib_write_bw $LASTS 192.0.2.2 >/tmp/transfer.log 2>&1; }
rate() { awk '$1 == 65536 { print $4 }' /tmp/transfer.log; }

look || fail "clean: traffic" "no pages"
sent=$(here_is port_xmit_packets)
wait_for "clean: traffic" 120 transfer
pass "clean: traffic" "$(rate) MB/s"
look || fail "clean: traffic" "no pages"
clean=$(($(here_is port_xmit_packets) - sent))
counts="$(here_is packet_seq_err) $(there_is out_of_sequence) $(here_is req_transport_retries_exceeded)"
[ "$counts" = "0 0 0" ] && [ $clean -ge 12800 ] || fail "clean: nothing sent twice" "$clean packets, $counts"
pass "clean: nothing sent twice" "$clean packets"
found rdma- && fail "clean: no finding" "$(nodewarden why)"
pass "clean: no finding"

sent=$(here_is port_xmit_packets)
tc qdisc add dev eth0 root netem loss 2% || fail "loss: traffic" "no netem"
wait_for "loss: traffic" 180 transfer
pass "loss: traffic" "$(rate) MB/s"
look || fail "loss: traffic" "no pages"
[ "$(here_is packet_seq_err)" -gt 20 ] || fail "loss: sender counts" "$(here_is packet_seq_err)"
pass "loss: sender counts" "$(here_is packet_seq_err) sequence errors told to it"
[ "$(there_is out_of_sequence)" -gt 20 ] || fail "loss: receiver counts" "$(there_is out_of_sequence)"
pass "loss: receiver counts" "$(there_is out_of_sequence) packets out of sequence"
lossy=$(($(here_is port_xmit_packets) - sent))
[ $lossy -gt $((clean * 11 / 10)) ] || fail "loss: more packets than the work needs" "$lossy, $clean without loss"
pass "loss: more packets than the work needs" "$lossy, $clean without loss"
[ "$(here_is req_transport_retries_exceeded)" = 0 ] || fail "loss: nobody gave up" "$(here_is req_transport_retries_exceeded)"
pass "loss: nobody gave up"

# A transfer that nothing but the cut can end in time.
tc qdisc change dev eth0 root netem loss 0%
ib_write_bw $BREAKS -p 18516 192.0.2.2 >/tmp/transfer.log 2>&1 &
transfer=$!
sent=$(here_is port_xmit_packets)
moving() { page >/tmp/page && [ "$(here_is port_xmit_packets)" -gt $((sent + 2000)) ]; }
wait_for "cut: the transfer breaks" 120 moving
tc qdisc change dev eth0 root netem loss 100%
gave_up() { page >/tmp/page && [ "$(here_is req_transport_retries_exceeded)" -gt 0 ]; }
must "cut: retries exceeded" "" 60 gave_up
tc qdisc change dev eth0 root netem loss 0%
# It wants to part from its peer in good order, which the cut has made a matter of minutes.
kill $transfer
wait $transfer
grep -q 'Failed status 12' /tmp/transfer.log || fail "cut: the transfer breaks" "$(tail -n 3 /tmp/transfer.log | tr "\n" ";")"
pass "cut: the transfer breaks" "transport retry counter exceeded"

# Either is believed when it has been seen for a minute.
since() { echo "$(($(cut -d. -f1 /proc/uptime) - $1)) s"; }
now=$(cut -d. -f1 /proc/uptime)
wait_for "loss: finding" 240 found rdma-packet-loss
pass "loss: finding" "rdma-packet-loss $(since $now) after the cut"
wait_for "cut: finding" 240 found rdma-retries-exceeded
pass "cut: finding" "rdma-retries-exceeded $(since $now) after the cut"
nodewarden why | grep -q 'rdma_packet_seq_err_total{device="rxe0",port="1"}' || fail "loss: evidence" "$(nodewarden why)"
pass "loss: evidence"
end
