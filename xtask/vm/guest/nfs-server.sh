#!/usr/bin/dash
# One order for the NFS server of this network namespace. In a host name of its own: by it, a client knows whether two
# addresses are one server.
hostname "$2"
mount -t nfsd nfsd /proc/fs/nfsd || exit 1
case $1 in
  start)
    # The time for clients to come back, in which others may open nothing.
    echo 10 >/proc/fs/nfsd/nfsv4leasetime
    echo 10 >/proc/fs/nfsd/nfsv4gracetime
    rpc.nfsd -p 2049 -N 3 2
    ;;
  stop) rpc.nfsd 0 ;;
esac
