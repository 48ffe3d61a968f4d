#!/usr/bin/dash
# The guest `nfs`: a server stops under its mounts and comes back. Its clock leaps over all waiting.
. /ram-lib.sh
COLLECTOR=mounts
show_more() {
  say "--- mountstats"
  grep -A 3 'fstype nfs' /proc/self/mountstats >$CONSOLE
  say "--- page"
  page | grep -e '^mount_' -e '^nodewarden_device' >$CONSOLE
}

# server NAME NUMBER: a server at 192.0.2.(NUMBER + 1), in a network namespace.
server() {
  ip netns add "$1" && ip link add "v-$1" type veth peer name net0 netns "$1" &&
    ip address add "192.0.2.$2/30" dev "v-$1" && ip link set "v-$1" up &&
    ip -n "$1" address add "192.0.2.$(($2 + 1))/30" dev net0 && ip -n "$1" link set net0 up && ip -n "$1" link set lo up || return 1
  mkfifo "/run/order-$1" || return 1
  ip netns exec "$1" unshare -u /nfs-server.sh "$1" >>"/tmp/$1.log" 2>&1 &
  order start "$1"
}
# order WORD NAME: whether that server did it.
order() {
  rm -f "/run/result-$2"
  echo "$1" >"/run/order-$2"
  wait_for "$2: $1" 60 [ -e "/run/result-$2" ]
  [ "$(cat "/run/result-$2")" = 0 ]
}

printf '127.0.0.1 localhost\n192.0.2.2 nas-a\n192.0.2.6 nas-b\n' >/etc/hosts
ln -s /proc/mounts /etc/mtab
mkdir -p /srv
mount -t tmpfs tmpfs /srv
echo '/srv *(rw,fsid=0,no_subtree_check,no_root_squash)' >/etc/exports
fsid=1
for name in home data scratch; do
  mkdir -p /srv/$name /$name
  mount -t tmpfs tmpfs /srv/$name
  echo "/srv/$name *(rw,fsid=$fsid,no_subtree_check,no_root_squash)" >>/etc/exports
  fsid=$((fsid + 1))
done
touch /var/lib/nfs/etab /var/lib/nfs/rmtab
exportfs -r >/tmp/exportfs.log 2>&1 || fail kernel "exportfs"
pass kernel "$(uname -r), up $(cut -d' ' -f1 /proc/uptime) s"
server nas-a 1 && server nas-b 5 || fail servers "no NFS server"
pass servers

# attach SOURCE POINT OPTIONS
attach() { timeout 120 mount.nfs "$1" "$2" -o "$3" >>/tmp/mount.log 2>&1; }
attach nas-a:/home /home vers=4.2,hard || fail mounts "/home"
attach nas-b:/data /data vers=4.2,hard || fail mounts "/data"
attach nas-b:/scratch /scratch vers=4.2,soft,timeo=20,retrans=2 || fail mounts "/scratch"
pass mounts "$(grep -c 'fstype nfs4' /proc/self/mountstats) of NFS"

# Hundredths of a second since boot.
now() {
  local up rest
  read -r up rest </proc/uptime
  echo "${up%.*}${up#*.}"
}
since() { echo "$((($(now) - $1) / 100)) s"; }
is_up() { has "nodewarden_device_up{collector=\"mounts\",subject_kind=\"mount\",subject=\"$1\"} 1"; }
all_up() { is_up /home && is_up /data && is_up /scratch; }
gone() { incidents | grep -q '"incidents": *\[\]'; }
# finding POINT TEXT: an incident of that mount, with this text.
finding() {
  found mount-unresponsive && echo "$why" | awk -v point="$1" -v text="$2" '
    function is() { return index(all, "mount-unresponsive: ") && index(all, text) && index(all, " mount " point "  since") }
    /^incident / { found += is(); all = "" }
    { sub(/^ +/, ""); all = all "  " $0 }
    END { exit !(found + is()) }'
}
status_says() { nodewarden status >/tmp/status 2>&1 && grep -q "$1" /tmp/status; }
worker() {
  local dir
  for dir in /proc/[0-9]*; do
    case "$(tr '\0' ' ' <"$dir/cmdline" 2>/dev/null)" in
      *"worker mounts "*) echo "${dir#/proc/}" ;;
    esac
  done
}
blocked() { grep -l '^State:.D' /proc/"$1"/task/*/status 2>/dev/null | wc -l; }

# figures POINT: operation, requests, retransmissions, milliseconds until the reply and in all, from mountstats.
figures() {
  awk -v point="$1" '
    /^device / { on = ($5 == point) }
    on && NF >= 9 && $1 ~ /^[A-Z0-9_]+:$/ && ($2 > 0 || $3 > 0) {
      printf "%s %d %d %d %d\n", substr($1, 1, length($1) - 1), $2, ($3 > $2 ? $3 - $2 : 0), $8, $9
    }' /proc/self/mountstats | sort | tr '\n' ';'
  echo
}
# shown POINT: the same from /tmp/page.
shown() {
  awk -v labels="{mountpoint=\"$1\",operation=\"" '
    index($0, "mount_nfs_operation_") == 1 && (at = index($0, labels)) {
      name = substr($0, 21, at - 21)
      operation = substr($0, at + length(labels))
      sub(/"}.*/, "", operation)
      value[operation, name] = $2
      all[operation] = 1
    }
    END {
      for (o in all)
        printf "%s %d %d %.0f %.0f\n", o, value[o, "requests_total"], value[o, "retransmissions_total"],
          1000 * value[o, "response_seconds_total"], 1000 * value[o, "request_seconds_total"]
    }' /tmp/page | sort | tr '\n' ';'
  echo
}
# same NAME POINT: the page has what mountstats said at one second of the last minute, in which it was read. The probe
# after that reading is an operation too.
same() {
  local second=0
  : >/tmp/mountstats
  while [ $second -lt 75 ]; do
    figures "$2" >>/tmp/mountstats
    sleep 1
    second=$((second + 1))
  done
  page >/tmp/page || fail "$1" "no page"
  shown "$2" >/tmp/shown
  grep -q 'READ .*WRITE ' /tmp/shown && grep -qxF "$(cat /tmp/shown)" /tmp/mountstats ||
    fail "$1" "$(cat /tmp/shown) is not $(tail -n 1 /tmp/mountstats)"
  pass "$1" "$(tr ';' '\n' </tmp/shown | grep -c .) operations"
}
requests() { of /tmp/page "mount_nfs_operation_requests_total{mountpoint=\"$1\",operation=\"$2\"}"; }
# counted POINT MORE: both have grown to more than that.
counted() {
  page >/tmp/page && [ "$(requests "$1" READ || echo 0)" -gt "$2" ] 2>/dev/null && [ "$(requests "$1" WRITE)" -gt "$2" ] 2>/dev/null
}
work() {
  local n=0
  timeout 60 dd if=/dev/zero of="$1/file" bs=65536 count=32 conv=fsync 2>/dev/null || return 1
  echo 3 >/proc/sys/vm/drop_caches
  timeout 60 dd if="$1/file" of=/dev/null bs=65536 2>/dev/null || return 1
  while [ $n -lt 20 ]; do
    echo $n >"$1/$n" && rm "$1/$n" || return 1
    n=$((n + 1))
  done
}

agent
after 180 all_up || fail "start: all answer" "$(grep device_up /tmp/page)"
pass "start: all answer" "$(since 0) after boot"
work /home && work /data || fail "traffic: counted" "no traffic"
after 120 counted /home 0 || fail "traffic: counted" "$(grep mount_nfs /tmp/page)"
pass "traffic: counted" "READ $(requests /home READ), WRITE $(requests /home WRITE)"
same "traffic: what mountstats says" /home

# A server stops, and its address is gone. Packets are lost.
stopped=$(now)
order stop nas-a && ip -n nas-a link set net0 down || fail "stopped: no answer" "it does not stop"
probes() { of /tmp/page "mount_probe_duration_seconds_count{mountpoint=\"$1\"}"; }
page >/tmp/page
before=$(probes /data)
no_answer() { status_says '^/home .* no answer'; }
after 180 no_answer || fail "stopped: no answer" "$(cat /tmp/status)"
pass "stopped: no answer" "$(since $stopped) after the stop"
worst=0
for n in 1 2 3 4 5 6 7 8 9 10; do
  begin=$(now)
  page >/tmp/page && nodewarden check >/dev/null || fail "stopped: pages" "page $n"
  took=$(($(now) - begin))
  [ $took -le $worst ] || worst=$took
  sleep 7
done
[ $worst -lt 500 ] || fail "stopped: pages" "one took $((worst * 10)) ms"
pass "stopped: pages" "each with a check within $((worst * 10)) ms"
pid=$(worker)
[ "$(blocked "$pid")" = 1 ] || fail "stopped: one thread" "$(blocked "$pid") threads of '$pid'"
pass "stopped: one thread" "in state D, in $(cat /proc/"$pid"/task/*/wchan | tr -d '\0' | grep -o 'rpc_wait[a-z_]*' | head -n 1)"
status_says '^/home .*no answer (nas-a:/home)' || fail "stopped: status" "$(cat /tmp/status)"
pass "stopped: status" "$(grep '^/home' /tmp/status)"
after 420 finding /home "server nas-a" || fail "stopped: finding" "$why"
found "an NFS server does not respond" || fail "stopped: finding" "$why"
pass "stopped: finding" "$(since $stopped) after the stop"
echo "$why" | grep -q 'nodewarden_device_late_seconds [0-9]*, state D in rpc_wait' || fail "stopped: evidence" "$why"
pass "stopped: evidence" "$(echo "$why" | grep -o 'nodewarden_device_late_seconds.*')"
is_up /data && is_up /scratch && [ "$(probes /data)" -gt "$before" ] || fail "stopped: others" "$(grep device_up /tmp/page)"
echo "$why" | grep -q -e /data -e /scratch && fail "stopped: others" "$why"
pass "stopped: others" "$(($(probes /data) - before)) more probes of /data"

begin=$(now)
kill $daemon
has_ended() { ! kill -0 $daemon 2>/dev/null || grep -q '^State:.Z' /proc/$daemon/status; }
must "restart: ends" "" 30 has_ended
agent
must "restart: answers" "" 30 page
after 180 is_up /data || fail "restart: answers" "$(cat /tmp/page)"
after 60 finding /home "server nas-a" || fail "restart: finding stays" "$why"
pass "restart: finding stays" "$(since "$begin") after the restart began"

begin=$(now)
ip -n nas-a link set net0 up && order start nas-a || fail "back: answers" "it does not start"
after 900 is_up /home || fail "back: answers" "$(cat /tmp/status)"
pass "back: answers" "$(since "$begin") after its start"
# The kernel also reported a time-out, which ends after an hour without another one.
after 4500 gone || fail "back: finding clears" "$(nodewarden why)"
pass "back: finding clears" "$(since "$begin") after its start"
page >/tmp/page
before=$(requests /home READ)
work /home || fail "back: figures go on" "no traffic"
after 120 counted /home "$before" || fail "back: figures go on" "$(grep mount_nfs /tmp/page)"
pass "back: figures go on" "READ $before, now $(requests /home READ); sent again: $(of /tmp/page 'mount_nfs_retransmissions_total{mountpoint="/home"}')"
same "back: what mountstats says" /home

# Two mounts of the other server: one waits, and one gives up.
begin=$(now)
ip -n nas-b link set net0 down
gives_up() { status_says '^/data .*no answer (nas-b:/data)' && grep '^/scratch .* io .*(nas-b:/scratch)' /tmp/status; }
after 420 gives_up || fail "server: hard and soft" "$(cat /tmp/status)"
pass "server: hard and soft" "$(grep '^/scratch' /tmp/status)"
all_fail="2 of 2 mounts of server nas-b fail"
both() { finding /data "$all_fail" && finding /scratch "$all_fail"; }
after 480 both || fail "server: findings" "$(nodewarden why)"
pass "server: findings" "$(since "$begin") after the loss"
ip -n nas-b link set net0 up
after 4500 gone || fail "server: findings clear" "$(nodewarden why)"
pass "server: findings clear"

# A probe holds its mount for milliseconds.
umount /home || { sleep 2 && umount /home; } || fail umount "$(cat /tmp/mount.log)"
is_unlisted() { page >/tmp/page && ! grep -q '^mount_info{mountpoint="/home"' /tmp/page && grep -q '^mount_info{mountpoint="/data"' /tmp/page; }
after 150 is_unlisted || fail umount "still listed"
pass umount "by the host, while nodewarden runs"
end
