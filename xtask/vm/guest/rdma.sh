#!/usr/bin/dash
# The guest `rdma`: its only init. Two soft-RoCE devices on a pair of interfaces, and the agent beside them.
export PATH=/usr/sbin:/usr/bin:/opt/busybox
/usr/bin/busybox mkdir -p /opt/busybox
/usr/bin/busybox --install -s /opt/busybox
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t tmpfs -o mode=755 run /run
mount -t tmpfs -o mode=1777 tmp /tmp
CONSOLE=/dev/console
CLASS=/sys/class/infiniband
PAGE=http://127.0.0.1:19190/metrics

say() { echo "$*" >$CONSOLE; }
pass() { say "@@ $1: ok $2"; }

end() {
  say "@@ end"
  poweroff -f
  sleep 1000
}

# The first failure ends the run: what comes after it would only repeat it.
fail() {
  say "@@ $1: FAILED $2"
  say "--- nodewarden"
  tail -n 40 /tmp/nodewarden.log >$CONSOLE
  say "--- page"
  page | grep '^rdma_' >$CONSOLE
  say "--- sysfs"
  grep -r . $CLASS/*/ports/1/hw_counters/ >$CONSOLE
  say "--- kernel"
  dmesg | tail -n 20 >$CONSOLE
  end
}

# must NAME DETAIL SECONDS COMMAND...: a result that depends on the command's success within the time.
must() {
  local name=$1 detail=$2 limit=$3 tries=0
  shift 3
  until "$@"; do
    tries=$((tries + 1))
    [ $tries -lt $((limit * 5)) ] || fail "$name" "not within $limit s: $*"
    usleep 200000
  done
  pass "$name" "$detail"
}

page() { wget -q -O - "$PAGE?tier=detail&collect[]=rdma"; }
has() { page >/tmp/page && grep -qF "$1" /tmp/page; }
has_not() { page >/tmp/page && grep -q '^nodewarden_collector_up{collector="rdma"} 1' /tmp/page && ! grep -qF "$1" /tmp/page; }

# The value of a counter of a port on the page, by its own metric, by that of other drivers, or by its name.
counter() {
  local name=$2
  case $name in
    sent_pkts) name=port_xmit_packets ;;
    rcvd_pkts) name=port_rcv_packets ;;
    out_of_seq_request) name=out_of_sequence ;;
    rcvd_seq_err) name=packet_seq_err ;;
    rcvd_rnr_err) name=rnr_nak_retry_err ;;
    retry_exceeded_err) name=req_transport_retries_exceeded ;;
    retry_rnr_exceeded_err) name=req_rnr_retries_exceeded ;;
  esac
  awk -v port="{device=\"$1\",port=\"1\"" -v name="$name" '
    index($0, "rdma_" name "_total" port "} ") == 1 { print $2 }
    index($0, "rdma_hw_counter" port ",counter=\"" name "\"} ") == 1 { print $2 }' /tmp/page
}

# Each file of hw_counters is on the page with the same number.
same() {
  local file name files=0
  page >/tmp/page || return 1
  for file in $CLASS/$1/ports/1/hw_counters/*; do
    name=${file##*/}
    [ "$name" = lifespan ] && continue
    files=$((files + 1))
    [ "$(counter "$1" "$name")" = "$(cat "$file")" ] || return 1
  done
  [ $files -ge 10 ]
}

pid_of() {
  local dir
  for dir in /proc/[0-9]*; do
    if [ "$(cat $dir/comm 2>/dev/null)" = "$1" ]; then echo ${dir#/proc/}; fi
  done
}

is_by_netlink() { has "rdma_hw_counters_info{device=\"$1\",port=\"1\",source=\"netlink\"} 1"; }
state_is() { has "rdma_port_state{device=\"$1\",port=\"1\"} $2"; }

for module in /modules/*.ko; do
  insmod "$module" || fail kernel "insmod $module"
done
# There is no udev.
mkdir -p /dev/infiniband
nodes() {
  local file node
  for file in /sys/class/infiniband_verbs/*/dev /sys/class/misc/rdma_cm/dev; do
    node=${file%/dev}
    [ -e /dev/infiniband/${node##*/} ] || mknod /dev/infiniband/${node##*/} c $(tr ':' ' ' <"$file")
  done
}
ip link set lo up
ip link add ve0 type veth peer name ve1
ip address add 192.0.2.1/30 dev ve0
ip address add 192.0.2.5/30 dev ve1
ip link set ve0 up
ip link set ve1 up
rdma link add rxe0 type rxe netdev ve0 && rdma link add rxe1 type rxe netdev ve1 || fail kernel "no soft-RoCE"
nodes
pass kernel "$(uname -r), up $(cut -d' ' -f1 /proc/uptime) s"

nodewarden run --state-dir /tmp/state --run-dir /run/nodewarden >/tmp/nodewarden.log 2>&1 &
daemon=$!
must "start: two ports" "" 60 state_is rxe1 4
must "start: by netlink" "" 10 is_by_netlink rxe0
worker=$(pid_of nw-rdma)
grep -q '^CapEff:.0000000000000000' /proc/$worker/status && ! grep -q '^Uid:.0' /proc/$worker/status ||
  fail "start: rights of the worker" "$(grep -e ^Uid -e ^CapEff /proc/$worker/status)"
pass "start: rights of the worker" "none"

# Both ends are on one port: soft-RoCE sends to itself what is for its own address.
ibv_rc_pingpong -d rxe0 -g 1 -n 200 >/tmp/server.log 2>&1 &
server=$!
sleep 2
ibv_rc_pingpong -d rxe0 -g 1 -n 200 127.0.0.1 >/tmp/client.log 2>&1 || fail traffic "$(cat /tmp/client.log /tmp/server.log | tr "\n" ";")"
wait $server
sent=$(cat $CLASS/rxe0/ports/1/hw_counters/sent_pkts)
[ "$sent" -ge 200 ] || fail traffic "$sent packets sent"
pass traffic "$sent packets sent"
must "traffic: netlink says what sysfs says" "" 20 same rxe0

ip link set ve0 down
must "link down: state" "" 20 state_is rxe0 1
must "link down: counted" "" 20 has 'rdma_link_downed_total{device="rxe0",port="1"} 1'
ip link set ve0 up
must "link up: state" "" 20 state_is rxe0 4

rdma dev set rxe0 name storage0
must "renamed: by netlink still" "" 20 is_by_netlink storage0
rdma link delete storage0
must "removed: gone" "" 20 has_not 'device="storage0"'
rdma link add rxe0 type rxe netdev ve0
must "back: by netlink" "" 20 is_by_netlink rxe0
must "back: netlink says what sysfs says" "" 20 same rxe0

# The same numbers a file each, and what either way costs: files read and time on the processor for twenty readings.
cost() {
  local n
  page >/dev/null
  reads=$(files_read) time=$(spent)
  for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do page >/tmp/page; done
  reads=$(($(files_read) - reads)) time=$((($(spent) - time) / 20000))
}
files_read() { awk '/^syscr/ { print $2 }' /proc/$(pid_of nw-rdma)/io; }
spent() { cat /proc/$(pid_of nw-rdma)/task/*/schedstat | awk '{ sum += $1 } END { printf "%d", sum }'; }
cost
reads_netlink=$reads time_netlink=$time
printf '[rdma]\nsysfs_only = true\n' >/tmp/site.toml
kill $daemon
wait $daemon
nodewarden run --config /tmp/site.toml --state-dir /tmp/state --run-dir /run/nodewarden >>/tmp/nodewarden.log 2>&1 &
must "sysfs: two ports" "" 60 state_is rxe1 4
must "sysfs: no netlink" "" 10 has 'rdma_hw_counters_info{device="rxe0",port="1",source="sysfs"} 1'
cost
# Two ports of fifteen counters each.
[ $((reads - reads_netlink)) -ge 500 ] || fail "cost: files read" "$reads_netlink by netlink, $reads without"
pass "cost: files read" "$((reads_netlink / 20)) a reading by netlink, $((reads / 20)) without; $time_netlink and $time us"
end
