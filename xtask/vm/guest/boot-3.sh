# After a reboot, the GPU on the bus: the incident is over. No test has verified the GPU, so a person lifts our drain.

[ "$(cat /proc/sys/kernel/random/boot_id)" != "$(cat /var/lib/boot_id)" ] || fail "reboot" "the boot id is the same"
slurm_start
must "reboot: registered, still drained" "IDLE+DRAIN" 120 is_idle_drained
begin=$(now)
nodewarden_start
must "gpu back: kept" "drained until a person clears it" 120 said '"state": "cleared"' 'no test has verified it'
drained || fail "gpu back: kept" "the drain was lifted"
nodewarden clear "$(reason | sed -n 's/.* id=\([a-z2-7]*\).*/\1/p')" --reason "tested" || fail "gpu back: clear" "refused"
within 60 undrained || fail "gpu back: undrained" "not within 60 s"
pass "gpu back: undrained" "$((($(now) - begin) * 10)) ms after the daemon's start"
must "gpu back: idle" "no DRAIN, no reason" 60 eval 'is_idle && [ -z "$(reason)" ]'
must "gpu back: by us" "incident cleared, one undrain" 60 said '"state": "cleared"' '"undrains": 1' '"overrides": 0'
must "gpu back: healthy" "check says 0" 60 check_says 0
xids 2 || fail "gpu back: counters" "$(metrics | grep ^gpu_xid_errors_total)"
pass "gpu back: counters" "go on over boots"
end
