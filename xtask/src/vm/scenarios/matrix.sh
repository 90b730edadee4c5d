# What this kernel offers to noised, the live tests that mean something in a guest, and what the kernel
# leaves to processes without privileges. Results go to the second serial line, in sections.
results=/dev/ttyS1

section() {
    echo "@@ $1" >$results
}

# Memory of maps is counted against this before Linux 5.11; units set it so.
ulimit -l unlimited

section kernel
uname -r >$results

section check
/noised check --json >$results 2>&1

section check-nobody
# By its path: the shell prefers its own, which cannot do this.
/bin/setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all,+bpf,+perfmon \
    --ambient-caps=-all,+bpf,+perfmon --bounding-set=-all,+bpf,+perfmon \
    /noised check --json >$results 2>&1

section live
export NOISED_BIN=/noised NOISED_EMULATED=1
set --
while read -r argument; do
    set -- "$@" "$argument"
done </arguments
/live "$@" >$results 2>&1
echo "@@ live-exit $?" >$results

# Last: after the value 1 there is no way back.
section rights
/noise-rights 0 2 1 >$results 2>&1
# What the kernel said meanwhile, with what is not serious enough for its console.
section log
dmesg >$results
section end
exit 0
