# What the guests with soft-RoCE share.
. /ram-lib.sh
COLLECTOR=rdma
CLASS=/sys/class/infiniband

show_more() {
  say "--- page"
  page | grep '^rdma_' >$CONSOLE
  say "--- sysfs"
  grep -r . $CLASS/*/ports/1/hw_counters/ >$CONSOLE
}

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
    index($0, "rdma_hw_counter_total" port ",counter=\"" name "\"} ") == 1 { print $2 }' /tmp/page
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

is_by_netlink() { has "rdma_hw_counters_info{device=\"$1\",port=\"1\",source=\"netlink\"} 1"; }
# events: those of a device, which no page of one collector has.
events() { timeout 30 wget -q -O - $PAGE 2>/dev/null | grep "^rdma_events_total{device=\"$1\""; }
# event DEVICE EVENT COUNT: so often it has happened to a port.
event() { events "$1" | grep -q ",port=\"1\",event=\"$2\"} $3\$"; }
state_is() { has "rdma_port_state{device=\"$1\",port=\"1\"} $2"; }

# There is no udev.
mkdir -p /dev/infiniband
nodes() {
  local file node
  for file in /sys/class/infiniband_verbs/*/dev /sys/class/misc/rdma_cm/dev; do
    node=${file%/dev}
    [ -e /dev/infiniband/${node##*/} ] || mknod /dev/infiniband/${node##*/} c $(tr ':' ' ' <"$file")
  done
}

# join NUMBER: one port on the cable to the other guest, with the address 192.0.2.NUMBER.
join() {
  ip address add 192.0.2.$1/24 dev eth0 && ip link set eth0 up || fail "$2kernel" "no network device"
  rdma link add rxe0 type rxe netdev eth0 || fail "$2kernel" "no soft-RoCE"
  nodes
}

# The arguments of a transfer that both ends must agree on. One of them outlasts any loss: seven retries, which is the
# usual, are without end for soft-RoCE. The other gives up after three, and would last longer than the guest.
lasts() {
  local index=0
  until grep -q '^0000:0000:0000:0000:0000:ffff:' $CLASS/rxe0/ports/1/gids/$index; do
    index=$((index + 1))
    [ $index -lt 16 ] || return 1
  done
  LASTS="-d rxe0 -x $index -u 14 -s 65536 -n 200 -t 8 -F"
}
BREAKS="-d rxe0 -R --retry_count=3 -s 65536 -n 100000 -t 8 -F"
