# A line of the kernel's own becomes a metric and an incident, and with mode drain a drain in Slurm.

release=$(cat /guest/release)
[ "$(uname -r)" = "$release" ] || fail "kernel" "not $release"
[ "$(cat /proc/sys/kernel/dmesg_restrict)" = 1 ] || fail "kernel" "dmesg_restrict is not Debian's default"
if su -s /bin/sh nobody -c 'head -c 1 /dev/kmsg' >/dev/null 2>&1; then
  fail "kernel" "everybody may read the log"
fi
insmod /guest/nw_printk.ko || fail "kernel" "the module does not load"
pass "kernel" "$release, the log is closed to users"

# As installed: no configuration, so drains are observed.
nodewarden_start
must "defaults: up" "kernel_log and host" 120 collectors_up
worker=$(pid_of 'worker kernel')
rights=$(sed -n 's/^\(Uid\|CapEff\):[[:space:]]*//p' "/proc/$worker/status" | tr '\t\n' '  ')
if [ "$rights" != "60801 60801 60801 60801 0000000400000000 " ]; then
  fail "defaults: rights of the worker" "$rights"
fi
pass "defaults: rights of the worker" "uid 60801, CAP_SYSLOG alone"

# A program says the same words, once as itself and once as if it were the kernel: both are known and not believed.
xid79 $GPU >/dev/kmsg
echo "<3>$(xid79 $GPU)" >/dev/kmsg
must "user space: not believed" "2 lines" 30 metric 'nodewarden_kernel_log_ignored_total{reason="user_space"}' 2
if served "gpu_xid_errors_total{gpu=\"pci:$GPU\""; then
  fail "user space: nothing is counted" "$(metrics | grep ^gpu_xid_errors_total)"
fi
said '"incidents": []' || fail "user space: nothing is counted" "there is an incident"
pass "user space: nothing is counted" "no series, no incident"

xid79 $GPU >$LINE
must "kernel line: counted once" "gpu_xid_errors_total 1" 30 xids 1
must "kernel line: an incident" "xid79" 30 said '"state": "open"' '"detail": "xid79"' "$(xid79 $GPU)"
must "kernel line: unhealthy" "check says 1" 30 check_says 1
nodewarden_stop "kernel line: unhealthy"
rm -r /var/lib/nodewarden /run/nodewarden

slurm_start -i
must "slurm: registered and idle" "IDLE" 120 is_idle

# The line from before this first start is history: the GPU is there, so it is counted and drains nothing.
mkdir /etc/nodewarden
cat >/etc/nodewarden/nodewarden.toml <<'TOML'
[health]
mode = "drain"
baseline = "0.1"

[slurm]
watch = "1s"
hold = "0"
TOML
nodewarden_start
must "history: counted" "gpu_xid_errors_total 1" 120 xids 1
must "history: healthy" "check says 0" 60 check_says 0
said '"incidents": []' || fail "history: healthy" "there is an incident"
if drained; then fail "history: healthy" "the node is drained"; fi

begin=$(now)
xid79 $GPU >$LINE
within 60 drained || fail "drain" "not within 60 s"
pass "drain" "$((($(now) - begin) * 10)) ms from the kernel's line to DRAIN as scontrol shows it"
case $(reason) in
  "nodewarden:xid gpu pci:$GPU xid79 act=reboot id="*) pass "drain: reason" "$(reason)" ;;
  *) fail "drain: reason" "$(reason)" ;;
esac
must "drain: recorded" "ours" 30 said '"state": "drained"' '"recorded": true'
xids 2 || fail "drain: recorded" "not counted twice"

# A node that hangs is reset and not shut down. Slurm's own state is not what is tested: it is saved before.
mv $NODE/sys/bus/pci/devices/$GPU /opt/away
reason >/var/lib/reason
cat /proc/sys/kernel/random/boot_id >/var/lib/boot_id
slurm_stop slurmctld
sync
echo b >/proc/sysrq-trigger
sleep 60
