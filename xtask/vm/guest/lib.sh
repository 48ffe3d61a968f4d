# What the scripts of all boots share. A line `@@ NAME: ok|FAILED DETAIL` on the console is a result; `@@ end` ends it.

NODE=/opt/node
GPU=0000:5d:00.0
LINE=/sys/module/nw_printk/parameters/line
CONSOLE=/dev/console

say() { echo "$*" >$CONSOLE; }
pass() { say "@@ $1: ok $2"; }

# The first failure ends the run: what comes after it would only repeat it.
fail() {
  say "@@ $1: FAILED $2"
  for log in /var/log/*.log /var/log/munge/*.log; do
    [ -f "$log" ] || continue
    say "--- $log"
    tail -n 40 "$log" >$CONSOLE
  done
  say "--- status"
  nodewarden status >$CONSOLE 2>&1
  scontrol show node >$CONSOLE 2>&1
  end
}

end() {
  say "@@ end"
  sync
  poweroff -f
  sleep 1000
}

# Hundredths of a second since boot.
now() {
  local up rest
  read -r up rest </proc/uptime
  echo "${up%.*}${up#*.}"
}

seconds() {
  cut -d' ' -f1 /proc/uptime
}

# within SECONDS COMMAND...: repeats the command until it succeeds.
within() {
  local end=$(($(now) + $1 * 100))
  shift
  until "$@"; do
    [ "$(now)" -lt $end ] || return 1
    usleep 50000
  done
}

# must NAME DETAIL SECONDS COMMAND...: a result that depends on the command's success within the time.
must() {
  local name=$1 detail=$2 limit=$3 begin
  shift 3
  begin=$(now)
  if within "$limit" "$@"; then
    pass "$name" "$detail ($((($(now) - begin) * 10)) ms)"
  else
    fail "$name" "not within $limit s: $*"
  fi
}

# must_not NAME DETAIL SECONDS COMMAND...: the command fails all the time.
must_not() {
  local name=$1 detail=$2 limit=$3
  shift 3
  if within "$limit" "$@"; then
    fail "$name" "$*"
  else
    pass "$name" "$detail"
  fi
}

# The driver's words for a GPU that does not answer; `xid79 PCI-ADDRESS`.
xid79() {
  echo "NVRM: Xid (PCI:${1%.*}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
}

nodewarden_start() {
  nodewarden run --sysroot $NODE "$@" >>/var/log/nodewarden.log 2>&1 &
  daemon=$!
}

nodewarden_stop() {
  kill $daemon
  within 30 gone $daemon || fail "$1" "nodewarden does not end"
  wait $daemon
}

# The pid of the process with these arguments behind its name; busybox has no pgrep here.
pid_of() {
  local dir
  for dir in /proc/[0-9]*; do
    case "$(tr '\0' ' ' <"$dir/cmdline" 2>/dev/null)" in
      *" $1 "*) echo "${dir#/proc/}" ;;
    esac
  done
}

gone() { ! kill -0 "$1" 2>/dev/null || grep -q '^State:.Z' "/proc/$1/status"; }

metrics() { wget -q -O - http://127.0.0.1:19190/metrics 2>/dev/null; }
# metric SERIES VALUE: whether it is served with this value.
metric() { metrics | grep -qxF "$1 $2"; }
xids() { metric "gpu_xid_errors_total{gpu=\"pci:$GPU\",xid=\"79\"}" "$1"; }
served() { metrics | grep -q "^$1"; }
collectors_up() {
  if gone $daemon; then fail "nodewarden" "it has ended"; fi
  metric 'nodewarden_collector_up{collector="kernel_log"}' 1 && metric 'nodewarden_collector_up{collector="host"}' 1
}
# said PART...: every part stands in the JSON of status.
said() {
  local status part
  status=$(nodewarden status --json) || return 1
  for part in "$@"; do
    echo "$status" | grep -qF -- "$part" || return 1
  done
}
check_says() {
  nodewarden check >/dev/null
  [ $? = "$1" ]
}

show() { scontrol show node node0; }
state() { show 2>/dev/null | sed -n 's/^ *State=\([^ ]*\).*/\1/p'; }
reason() { show 2>/dev/null | sed -n 's/^ *Reason=\(.*\) \[.*/\1/p'; }
state_is() { [ "$(state)" = "$1" ]; }
is_idle() { registered && state_is IDLE; }
is_idle_drained() { registered && state_is IDLE+DRAIN; }
# Whatever else is said of the state, such as NOT_RESPONDING.
drained() { state | grep -q DRAIN; }
undrained() { [ -n "$(state)" ] && ! drained; }
registered() { show 2>/dev/null | grep -q 'SlurmdStartTime=[0-9]'; }

slurm_start() {
  mkdir -p /run/munge /run/slurm
  chown -R munge:munge /run/munge /etc/munge /var/lib/munge /var/log/munge
  chmod 700 /etc/munge /var/lib/munge
  chmod 400 /etc/munge/munge.key
  start-stop-daemon -S -c munge:munge -x /usr/sbin/munged || fail "slurm" "munged does not start"
  slurmctld "$@" || fail "slurm" "slurmctld does not start"
  slurmd || fail "slurm" "slurmd does not start"
}

# slurm_stop NAME...: ends daemons of Slurm and waits until they have saved their state. slurmctld removes its pid file early.
slurm_stop() {
  local name pid
  for name in "$@"; do
    pid=$(cat "/run/$name.pid")
    kill "$pid"
    within 30 gone "$pid" || fail "slurm" "$name does not end"
  done
}
