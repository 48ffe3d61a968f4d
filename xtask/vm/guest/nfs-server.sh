#!/usr/bin/dash
# The NFS server of this network namespace. In a host name of its own: by it, a client knows whether two addresses are one
# server. It stays, because the kernel ends the threads of a server when its `nfsd` filesystem is unmounted.
hostname "$1"
mount -t nfsd nfsd /proc/fs/nfsd || exit 1
rpc.mountd -F -N 3 &
while read -r order <"/run/order-$1"; do
  case $order in
    start)
      # The time for clients to come back, in which others may open nothing.
      echo 10 >/proc/fs/nfsd/nfsv4leasetime
      echo 10 >/proc/fs/nfsd/nfsv4gracetime
      rpc.nfsd -p 2049 -N 3 2
      ;;
    stop) rpc.nfsd 0 ;;
  esac
  echo $? >"/run/result-$1.new"
  mv "/run/result-$1.new" "/run/result-$1"
done
