#!/usr/bin/dash
# The guest `rdma-loss-receiver`: takes what the sender writes, as often as it does. Its agent is asked by the sender.
. /rdma-lib.sh
join 2 "receiver: " && lasts || fail "receiver: kernel" "no GID"
agent --listen 192.0.2.2:19190
pass "receiver: kernel" "up $(cut -d' ' -f1 /proc/uptime) s"
# serve ARGUMENT...: the other end of a transfer, again and again.
serve() {
  while :; do
    ib_write_bw "$@" >/dev/null 2>&1
    usleep 100000
  done
}
serve $LASTS &
serve $BREAKS -p 18516 &
wait
