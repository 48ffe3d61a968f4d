# After a reset, the GPU not on the bus: a reboot alone repairs nothing.

[ "$(cat /proc/sys/kernel/random/boot_id)" != "$(cat /var/lib/boot_id)" ] || fail "reset" "the boot id is the same"
slurm_start
must "reset: registered, still drained" "IDLE+DRAIN" 120 is_idle_drained
nodewarden_start
must "gpu absent: unhealthy" "check says 1" 120 check_says 1
must "gpu absent: known as ours" "by the record" 60 said '"state": "drained"' '"recorded": true'
must_not "gpu absent: stays drained" "20 s" 20 undrained
[ "$(reason)" = "$(cat /var/lib/reason)" ] || fail "gpu absent: reason" "$(reason)"
said '"state": "open"' '"detail": "xid79"' || fail "gpu absent: reason" "no incident"
pass "gpu absent: reason" "unchanged, the incident is open"

# This time in order, as a person would.
mv /opt/away $NODE/sys/bus/pci/devices/$GPU
cat /proc/sys/kernel/random/boot_id >/var/lib/boot_id
nodewarden_stop "gpu absent: reason"
slurm_stop slurmd slurmctld
sync
reboot -f
sleep 60
