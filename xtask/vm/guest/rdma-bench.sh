#!/usr/bin/dash
# The guest `rdma-bench`: what a reading of ten ports costs the worker, by netlink and by a file for each counter.
. /rdma-lib.sh

PORTS=10
PAGES=50
n=0
while [ $n -lt $PORTS ]; do
  ip link add d$n type dummy && ip link set d$n up && rdma link add rxe$n type rxe netdev d$n || fail kernel "no soft-RoCE"
  n=$((n + 1))
done
pass kernel "$(uname -r)"

pages() {
  local n=0
  while [ $n -lt $PAGES ]; do
    page >/tmp/page
    n=$((n + 1))
  done
}
files_read() { awk '/^syscr/ { print $2 }' /proc/$worker/io; }
# CPU time in nanoseconds, including ended threads. The kernel prints hundredths of a second, which are
# multiplied here: busybox's awk counts to 2^31.
spent() { echo $(($(awk '{ print $14 + $15 }' /proc/$worker/stat) * 10000000)); }
all_up() { page >/tmp/page && [ "$(grep -c '^rdma_port_state.* 4$' /tmp/page)" = $PORTS ]; }
traced() { grep -q '^TracerPid:.[1-9]' /proc/$worker/status; }

# measure SOURCE: what fifty pages cost, and then fifty more under strace.
measure() {
  local reads time calls asked
  wait_for "$1" 60 all_up
  [ "$(grep -c "^rdma_hw_counters_info.*source=\"$1\"} 1" /tmp/page)" = $PORTS ] || fail "$1" "$(grep hw_counters_info /tmp/page)"
  worker=$(pid_of nw-rdma)
  pages
  reads=$(files_read) time=$(spent)
  pages
  reads=$(($(files_read) - reads)) time=$(($(spent) - time))
  strace -f -c -o /tmp/strace -p $worker 2>/dev/null &
  local tracer=$!
  wait_for "$1" 60 traced
  pages
  kill -INT $tracer
  wait $tracer
  calls=$(awk '$NF == "total" { print $4 }' /tmp/strace)
  asked=$(awk '$NF == "sendto" { print $4 }' /tmp/strace)
  pass "$1" "ports=$PORTS pages=$PAGES ns=$time reads=$reads calls=$calls asked=${asked:-0}"
}

agent
measure netlink
kill $daemon
wait $daemon
printf '[rdma]\nsysfs_only = true\n' >/tmp/site.toml
agent --config /tmp/site.toml
measure sysfs
end
