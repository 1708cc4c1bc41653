# enter ROOT UID GID DIRECTORY COMMAND…: runs a command in another root, in a mount namespace that
# `unshare --mount` has made and that ends with the command. The root is exchanged by pivot_root:
# in a chroot the kernel refuses the user namespaces that the sandbox needs.
set -eu
root=$1 uid=$2 gid=$3 directory=$4
shift 4
mount --bind "$root" "$root"
for part in proc sys dev; do
    mount --rbind "/$part" "$root/$part"
done
cd "$root"
pivot_root . .
umount -l .
cd "$directory"
exec setpriv --reuid="$uid" --regid="$gid" --clear-groups "$@"
