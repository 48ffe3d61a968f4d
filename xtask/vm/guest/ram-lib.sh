# What the guests that run from their initramfs share: each script is its guest's only init, and sources this first, or
# rdma-lib.sh. It names the collector that it looks at in COLLECTOR, and what a failure shows besides in `show_more`.
export PATH=/usr/sbin:/usr/bin:/opt/busybox
/usr/bin/busybox mkdir -p /opt/busybox
/usr/bin/busybox --install -s /opt/busybox
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t tmpfs -o mode=755 run /run
mount -t tmpfs -o mode=1777 tmp /tmp
CONSOLE=/dev/console
PAGE=http://127.0.0.1:19190/metrics

COLLECTOR=
show_more() { :; }
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
  nodewarden status >$CONSOLE 2>&1
  for log in /tmp/*.log; do
    say "--- $log"
    tail -n 40 "$log" >$CONSOLE
  done
  show_more
  say "--- kernel"
  dmesg | tail -n 20 >$CONSOLE
  end
}

# wait_for NAME SECONDS COMMAND...: repeats the command until it succeeds.
wait_for() {
  local name=$1 limit=$2 tries=0
  shift 2
  until "$@"; do
    tries=$((tries + 1))
    [ $tries -lt $((limit * 5)) ] || fail "$name" "not within $limit s: $*"
    usleep 200000
  done
}

# must NAME DETAIL SECONDS COMMAND...: a result that depends on the command's success within the time.
must() {
  local name=$1 detail=$2
  shift 2
  wait_for "$name" "$@"
  pass "$name" "$detail"
}

# after SECONDS COMMAND...: the same for what takes minutes. It looks every 15 s, as the checks do.
after() {
  local tries=$(($1 / 15))
  shift
  until "$@"; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] || return 1
    sleep 15
  done
}

page() { timeout 30 wget -q -O - "$PAGE?tier=detail&collect[]=$COLLECTOR" 2>/dev/null; }
# found CHECK: whether it has a finding, wherever it stands in an incident. Neither this nor its opposite is true of an
# agent that does not answer.
found() { why=$(nodewarden why 2>&1) && echo "$why" | grep -q "$1"; }
not_found() { why=$(nodewarden why 2>&1) && ! echo "$why" | grep -q "$1"; }
incidents() { timeout 30 wget -q -O - http://127.0.0.1:19190/api/v1/status; }
# has LINE: a whole one, as ...} 1 begins ...} 10 too.
has() { page >/tmp/page && grep -qxF "$1" /tmp/page; }

pid_of() {
  local dir
  for dir in /proc/[0-9]*; do
    if [ "$(cat $dir/comm 2>/dev/null)" = "$1" ]; then echo ${dir#/proc/}; fi
  done
}

for module in /modules/*.ko; do
  insmod "$module" || fail kernel "insmod $module"
done
ip link set lo up

# agent ARGUMENT...: starts it.
agent() {
  nodewarden run --state-dir /tmp/state --run-dir /run/nodewarden "$@" >>/tmp/nodewarden.log 2>&1 &
  daemon=$!
}

# of FILE SERIES: the series' value on a page.
of() { awk -v series="$2" 'index($0, series " ") == 1 { print $NF }' "$1"; }
