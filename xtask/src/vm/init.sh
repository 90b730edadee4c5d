#!/bin/busybox sh
# The guest's first process: mounts what programs expect, loads modules, runs the script, tells how it
# ended. Commands of busybox stand behind those of their own packages.
/bin/busybox --install -s /busybox
export PATH=/bin:/busybox HOME=/root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tracefs tracefs /sys/kernel/tracing
mount -t bpf bpf /sys/fs/bpf
mount -t cgroup2 cgroup2 /sys/fs/cgroup
echo "+cpu +io +memory +pids +cpuset" >/sys/fs/cgroup/cgroup.subtree_control
# Whoever is not root reads and runs what is here.
chmod 755 /
ip link set lo up
while read -r module; do
    insmod "/modules/$module.ko" || echo "noised-vm: $module cannot be loaded"
done </modules/order
mount -t ext4 /dev/vda /tmp || mount -t tmpfs tmpfs /tmp
chmod 1777 /tmp
sh /script
echo "noised-vm: exit $?"
poweroff -f
