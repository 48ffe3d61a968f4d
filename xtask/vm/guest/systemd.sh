# The guest `systemd`: installs the package and sees what the unit does. Started by guest.service at the end of the boot.
. /guest/lib.sh
usleep() { sleep 0.05; }

STATE=/var/lib/nodewarden
URL=http://127.0.0.1:19190/metrics

# The failure report of lib.sh shows these and the logs of this script.
rm -f /var/log/*.log
touch /var/log/journal.log /var/log/unit.log

show_logs() {
  journalctl -b --no-pager -o short-monotonic >/var/log/journal.log 2>&1
  systemctl status nodewarden --no-pager >/var/log/unit.log 2>&1
  systemctl show nodewarden >/var/log/show.log 2>&1
}
scontrol() { :; }
tail() { show_logs; command tail "$@"; }

metrics() { curl -sf --max-time 20 $URL; }
show() { systemctl show nodewarden -p "$1" --value; }
is() { [ "$(show "$1")" = "$2" ]; }
main() { show MainPID; }
# The process with this argument, by a pattern that does not find itself: one fork, where a fork for each process takes 3 s.
child() { grep -lzx "[${1%"${1#?}"}]${1#?}" /proc/[0-9]*/cmdline 2>/dev/null | cut -d / -f 3; }
answers() { metrics >/dev/null; }
kernel_log_up() { metrics | grep -qxF 'nodewarden_collector_up{collector="kernel_log"} 1'; }
in_state() { grep -q "^State:.$2" "/proc/$1/status" 2>/dev/null; }
another() { pid=$(child "$1") && [ -n "$pid" ] && [ "$pid" != "$2" ] && ! in_state "$pid" D; }
restarted() { is ActiveState active && [ "$(show NRestarts)" -gt "$1" ] && [ "$(main)" != 0 ]; }
ready() { is ActiveState active && is SubState running; }
times_fed() { journalctl -b -u nodewarden --no-pager | grep -c "$1"; }
# Microseconds of systemd's clock at which it last heard WATCHDOG=1.
fed_at() { show WatchdogTimestampMonotonic; }
fed_after() { [ "$(fed_at)" -gt "$1" ]; }
pass_or_fail() { if eval "$2"; then pass "$1" "$3"; else fail "$1" "$2"; fi; }
took() { echo "$((($(now) - $1) * 10)) ms"; }

systemctl is-system-running --wait >/dev/null
pass "boot" "$(systemctl --version | head -n 1), $(uname -r), up $(seconds) s, $(systemctl --failed --no-legend | wc -l) failed units"

# The folders by which the parent knows that a node has GPFS, Lustre and AMD GPUs: all processes run. The unit has a
# /proc of its own, in which nothing can be made.
mkdir -p /usr/lpp/mmfs/bin
mount -t tmpfs tmpfs /sys/module && mkdir /sys/module/lnet /sys/module/amdgpu || fail "install" "no modules"
# The worker of NVIDIA's driver also runs where a library is named.
NAMED=/etc/nodewarden/conf.d/10-guest.toml
mkdir -p "${NAMED%/*}" && printf '[nvidia]\nlibrary = "/usr/lib/libnvidia-ml.so.1"\n' >$NAMED || fail "install" "no $NAMED"

# A job of Slurm's, as the cgroup v2 shows it.
JOB=/sys/fs/cgroup/system.slice/slurmstepd.scope/job_7
mkdir -p $JOB/step_0/slurm $JOB/step_0/user/task_0 || fail "install" "no cgroup v2"
cp /usr/bin/sleep /run/slurmstepd
/run/slurmstepd 3000 &
echo $! >$JOB/step_0/slurm/cgroup.procs
sleep 3000 &
echo $! >$JOB/step_0/user/task_0/cgroup.procs

begin=$(now)
dpkg -i /guest/nodewarden.deb >/var/log/dpkg-install.log 2>&1 || fail "install" "dpkg -i"
systemctl is-enabled nodewarden.service >/dev/null || fail "install" "not enabled"
systemctl is-enabled nodewarden.socket >/dev/null && fail "install" "the socket is enabled"
pass "install" "enabled ($(took $begin))"

# start
within 60 ready || fail "start: ready" "$(show ActiveState)"
span=$((($(show ActiveEnterTimestampMonotonic) - $(show InactiveExitTimestampMonotonic)) / 1000))
pass "start: ready" "$span ms from start to READY, $(show StatusText)"
must "start: metrics" "kernel log is read" 60 kernel_log_up
must "start: status" "$(nodewarden status | head -n 1)" 30 nodewarden status
# Before Linux 6.9 only CAP_NET_ADMIN lists the programs of a cgroup: without it the reason is `denied`. This one has none.
must "start: device programs" "the kernel lists those of a cgroup" 60 metric 'slurm_job_devices_info{jobid="7",reason="none"}' 1
for group in $JOB/step_0/slurm $JOB/step_0/user/task_0; do echo 1 >$group/cgroup.kill; done
uid_of() { sed -n 's/^Uid:.\([0-9]*\).*/\1/p' "/proc/$1/status"; }
pass_or_fail "start: users" \
  '[ "$(uid_of "$(child daemon)")" = 60800 ] && [ "$(uid_of "$(child kernel)")" = 60801 ] && id nodewarden-rdma | grep -q 60803' \
  "$(id nodewarden)"
# Both can be opened only with what the unit leaves: CAP_SYSLOG to read the log, CAP_SYS_PTRACE to see another's program.
echo 1 >/proc/sys/kernel/dmesg_restrict || fail "start: rights" "dmesg_restrict cannot be set"
systemctl restart nodewarden || fail "start: rights" "no restart"
bounding() { sed -n 's/^CapBnd:.//p' "/proc/$1/status"; }
must "start: rights" "kernel.dmesg_restrict=1, bounding set of the parent $(bounding "$(main)"), of the daemon $(bounding "$(child daemon)")" \
  60 kernel_log_up

# Each process is what docs/security.md says: name, uid, CapEff; a filter; no_new_privs.
promised() { sed -n 's/^| \([a-z]*\) | `[^`]*` | \([0-9]*\) | `\([0-9a-f]*\)`.*/\1 \2 \3/p' /guest/security.md; }
status_of() { sed -n "s/^$2:.\([^[:space:]]*\).*/\1/p" "/proc/$1/status"; }
found() {
  promised | while read -r name _ _; do
    pid=$([ "$name" = parent ] && main || child "$name")
    echo "$name $(uid_of "$pid") $(status_of "$pid" CapEff) $(status_of "$pid" Seccomp) $(status_of "$pid" NoNewPrivs)"
  done
}
as_promised() { [ "$(promised | wc -l)" -gt 8 ] && [ "$(found)" = "$(promised | sed 's/$/ 2 1/')" ]; }
must "confined: table" "$(promised | wc -l) processes" 60 as_promised
rm $NAMED
# An attacker inside the parent must not start a unit. Both sockets answer outside, and inside one of nodewarden's does.
connects() { "$@" perl -MIO::Socket::UNIX -e 'exit !IO::Socket::UNIX->new($ARGV[0])' "$socket"; }
inside() { nsenter --target "$(main)" --mount "$@"; }
socket=/run/nodewarden/control.sock
connects inside || fail "confined: systemd" "the parent does not reach $socket"
for socket in /run/systemd/private /run/dbus/system_bus_socket; do
  connects || fail "confined: systemd" "root does not reach $socket"
  connects inside && fail "confined: systemd" "the parent reaches $socket"
done
pass "confined: systemd" "the parent reaches neither systemd's private socket nor D-Bus"
pass "confined: score" "$(systemd-analyze security nodewarden.service --no-pager | grep -o 'Overall exposure.*: [0-9.]*')"

# site commands
printf '[commands.hello]\ncommand = ["/bin/sh", "-c", "cat; grep -E ^Seccomp: /proc/self/status"]\ntimeout = "10s"\n' \
  >/etc/nodewarden/conf.d/30-commands.toml
systemctl enable --now nodewarden-act.socket 2>/dev/null || fail "commands: run" "the socket does not start"
command_runs() {
  perl -MIO::Socket::UNIX -e 'my $s = IO::Socket::UNIX->new("/run/nodewarden-act.sock") or exit 1;
    print $s "{\"name\":\"hello\",\"input\":7}\n"; $s->flush; print scalar <$s>' >/run/reply 2>&1
  grep -q '"code":0' /run/reply && grep -q '7Seccomp:.t0' /run/reply
}
within 30 command_runs || fail "commands: run" "$(cat /run/reply)"
pass "commands: run" "outside of the sandbox: $(cat /run/reply)"
systemctl disable --now nodewarden-act.socket 2>/dev/null
rm /etc/nodewarden/conf.d/30-commands.toml

# reload
echo '[health]' >/etc/nodewarden/conf.d/10-guest.toml
echo 'mode = "comment"' >>/etc/nodewarden/conf.d/10-guest.toml
systemctl reload nodewarden || fail "reload" "systemctl reload"
says_comment() { show StatusText | grep -q 'mode comment'; }
must "reload" "$(show StatusText)" 30 says_comment

# watchdog
mkdir -p /etc/systemd/system/nodewarden.service.d
printf '[Service]\nWatchdogSec=6s\n' >/etc/systemd/system/nodewarden.service.d/watchdog.conf
systemctl daemon-reload
systemctl restart nodewarden
within 60 answers || fail "watchdog: fed" "no answer after the restart"
before=$(fed_at)
must "watchdog: fed" "WATCHDOG=1 goes on while nothing happens" 30 fed_after "$before"
restarts=$(show NRestarts)
begin=$(now)
kill -STOP "$(child daemon)"
must "watchdog: stopped daemon" "WatchdogSec=6s, restarted" 90 restarted "$restarts"
must "watchdog: metrics again" "$(took $begin) after SIGSTOP, result was $(journalctl -b -u nodewarden --no-pager | grep -o "Failed with result '[a-z]*'" | command tail -n 1)" \
  60 kernel_log_up

# Time for a daemon that is started again, which has no heartbeat until it listens.
printf '[Service]\nWatchdogSec=60s\n' >/etc/systemd/system/nodewarden.service.d/watchdog.conf
systemctl daemon-reload
systemctl restart nodewarden
within 60 answers || fail "killed: started again" "no answer after the restart"

# killed
parent=$(main)
old=$(child daemon)
records() { ls $STATE | sort | tr '\n' ' '; }
before=$(records)
slots=$(ls -i /run/nodewarden/slots | tr '\n' ' ')
kill -9 "$old"
must "killed: started again" "by the parent" 60 another daemon "$old"
within 60 kernel_log_up || fail "killed: state kept" "no metrics"
pass_or_fail "killed: state kept" \
  '[ "$(main)" = "$parent" ] && [ "$(records)" = "$before" ] && [ "$(ls -i /run/nodewarden/slots | tr "\n" " ")" = "$slots" ]' "$before"

# socket
systemctl stop nodewarden
systemctl enable --now nodewarden.socket 2>/dev/null || fail "socket: one listener" "the socket does not start"
systemctl start nodewarden
within 60 answers || fail "socket: one listener" "no answer"
listeners() { grep -c ':4AF6 .* 0A ' /proc/net/tcp; }
pass_or_fail "socket: one listener" '[ "$(listeners)" = 1 ]' "$(listeners)"
# Requests one after the other while it restarts; none may be refused, however long it waits. One that the daemon has
# taken when it ends is cut.
asking() {
  asked=0 refused=0 cut=0
  while [ -e /run/asking ]; do
    asked=$((asked + 1))
    curl -sf --max-time 60 -o /dev/null $URL
    case $? in
      0) ;;
      52 | 56) cut=$((cut + 1)) ;;
      *) refused=$((refused + 1)) ;;
    esac
  done
  echo "$asked $refused $cut" >/run/asked
}
over() { # NAME COMMAND...: the command while requests come in
  name=$1
  shift
  touch /run/asking
  rm -f /run/asked
  asking &
  begin=$(now)
  "$@" || fail "$name" "$*"
  within 60 answers || fail "$name" "no answer"
  span=$(took $begin)
  sleep 1
  rm /run/asking
  within 90 test -e /run/asked || fail "$name" "requests without end"
  read -r asked refused cut </run/asked
  pass_or_fail "$name" '[ "$refused" = 0 ] && [ "$cut" -le 1 ] && [ "$asked" -gt 0 ]' "$asked requests, $refused refused, $cut cut, answered again after $span"
}
over "socket: restart" systemctl restart nodewarden
over "socket: killed" kill -9 "$(child daemon)"
systemctl disable --now nodewarden.socket 2>/dev/null
systemctl stop nodewarden

# stuck
/guest/victim mount /guest/mnt >/var/log/victim.log 2>&1 &
within 60 grep -q frozen /var/log/victim.log || fail "stuck: worker in D" "no dead mount"
printf '[kernel_log]\npath = "/guest/mnt/f"\n' >/etc/nodewarden/conf.d/20-dead.toml
systemctl start nodewarden || fail "stuck: worker in D" "no start beside a dead mount"
waits() { # a thread of the worker waits in the mount
  stuck=$(child kernel) && [ -n "$stuck" ] && grep -lq 'fuse\|request_wait' /proc/"$stuck"/task/*/wchan 2>/dev/null
}
must "stuck: worker in D" "started beside a dead mount" 60 waits
before=$(fed_at)
must "stuck: watchdog is fed" "although a worker hangs" 90 fed_after "$before"
restarts=$(show NRestarts)
begin=$(now)
systemctl restart nodewarden || fail "stuck: restart" "no restart"
span=$(took $begin)
pass_or_fail "stuck: restart" '[ "$(show NRestarts)" = "$restarts" ]' "$span until READY"
pass_or_fail "stuck: left alone" 'in_state $stuck "[DZ]" || grep -lq request_wait /proc/$stuck/task/*/wchan' \
  "pid $stuck: $(sed -n 's/^State:.//p' "/proc/$stuck/status")"
second() { another kernel "$stuck" || [ "$(pid_of kernel | wc -w)" -gt 1 ]; }
within 60 second || fail "stuck: second slot" "no other worker"
held() { grep -c FLOCK /proc/locks; }
pass "stuck: second slot" "workers for the kernel log: $(pid_of kernel | tr '\n' ' '), locks $(held)"
begin=$(now)
systemctl stop nodewarden
pass_or_fail "stuck: stop" 'is ActiveState inactive || is ActiveState failed' "$(took $begin), result $(show Result)"
rm /etc/nodewarden/conf.d/20-dead.toml

# dead disks
printf '[Mount]\nWhat=/no/such/image\nWhere=%s\nType=ext4\nOptions=loop\n' $STATE >/run/systemd/system/var-lib-nodewarden.mount
systemctl daemon-reload
systemctl start nodewarden || fail "disks: state directory" "no start after a mount that failed"
pass_or_fail "disks: state directory" 'ready && systemctl is-failed -q var-lib-nodewarden.mount' "started without its filesystem"
rm /run/systemd/system/var-lib-nodewarden.mount
systemctl daemon-reload
# Nothing can be created in a procfs.
for folder in /tmp /var/tmp; do mount -t proc proc $folder || fail "disks: temporary files" "no mount at $folder"; done
systemctl restart nodewarden || fail "disks: temporary files" "no start"
pass_or_fail "disks: temporary files" ready "started although nothing can be created in /tmp and /var/tmp"
umount /tmp /var/tmp
systemctl stop nodewarden

# upgrade, removal
systemctl start nodewarden
within 60 answers
echo '# changed by hand' >>/etc/nodewarden/nodewarden.toml
within 60 [ -s $STATE/state.json ]
before=$(sed -n 's/.*"origin": *\([0-9]*\).*/\1/p' $STATE/state.json)
dpkg -i /guest/nodewarden.deb >/var/log/dpkg-upgrade.log 2>&1 </dev/null || fail "upgrade: state kept" "dpkg -i"
within 60 ready || fail "upgrade: state kept" "not running afterwards"
pass_or_fail "upgrade: state kept" '[ -n "$before" ] && grep -q "\"origin\": *$before" $STATE/state.json && grep -q "changed by hand" /etc/nodewarden/nodewarden.toml' "$(ls $STATE | tr '\n' ' ')"
dpkg -r nodewarden >/var/log/dpkg-remove.log 2>&1 || fail "remove: stopped" "dpkg -r"
pass_or_fail "remove: stopped" '[ -z "$(child daemon)" ] && [ -e $STATE ] && [ -e /etc/nodewarden/nodewarden.toml ]' "state and configuration stay"
rm -f /etc/nodewarden/conf.d/10-guest.toml
dpkg -P nodewarden >/var/log/dpkg-purge.log 2>&1 || fail "purge: nothing kept" "dpkg -P"
pass_or_fail "purge: nothing kept" '[ ! -e $STATE ] && [ ! -e /etc/nodewarden ] && [ ! -e /usr/bin/nodewarden ]' \
  "left below /run/nodewarden: $(ls /run/nodewarden | tr '\n' ' ')"
end
