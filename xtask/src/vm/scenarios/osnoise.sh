# The kernel's osnoise tracer and noised's programs count the same seconds on CPU 1, and must agree;
# then everything must be as it was before.
tracing=/sys/kernel/tracing

state() {
    for file in cpus options period_us runtime_us stop_tracing_us stop_tracing_total_us; do
        echo "$file $(cat $tracing/osnoise/$file)"
    done
    echo "tracing_thresh $(cat $tracing/tracing_thresh)"
    echo "current_tracer $(cat $tracing/current_tracer)"
    ls $tracing/instances
    # The tracer's threads are gone, too.
    ps | grep '\[osnoise/' | grep -v grep
}

failed=0
fail() {
    echo "FAILED: $*"
    failed=1
}

uname -r
# Other values than the defaults, to see them come back.
echo 7 >$tracing/tracing_thresh
echo 300000 >$tracing/osnoise/runtime_us
echo 800000 >$tracing/osnoise/period_us
state >/tmp/before

# A timer and a thread 50 times in a second, a device's interrupts with their thread, and a busy thread
# that gets a little of the CPU.
echo 2 >/proc/irq/3/smp_affinity
ping -i 0.02 127.0.0.1 >/dev/ttyS1 &
pinging=$!
taskset -p 2 $pinging >/dev/null
taskset 2 sh -c 'while :; do :; done' &
busy=$!
renice -n 19 -p $busy

/noised osnoise --backend kernel --cpus 1 --period 200ms --duration 5s --cross-check >/tmp/output 2>&1
result=$?
cat /tmp/output
[ $result = 0 ] || fail "the cross-check ended with $result"
for source in "irq local_timer" "irq ttyS1" "thread ping" "thread irq/3-ttyS1" "thread sh"; do
    grep -q "$source" /tmp/output || fail "nothing was seen of $source"
done
state >/tmp/after
diff /tmp/before /tmp/after || fail "something was left behind after the cross-check"

/noised osnoise --backend kernel --period 100ms --stop 200us >/tmp/output 2>&1
result=$?
kill $busy
[ $result = 4 ] || fail "--stop ended with $result: $(tail -n 1 /tmp/output)"
state >/tmp/after
diff /tmp/before /tmp/after || fail "something was left behind after --stop"

/noised osnoise --backend kernel --duration 600s >/dev/null &
measuring=$!
until ls $tracing/instances | grep -q noised; do usleep 100000; done
kill -TERM $measuring
wait $measuring || fail "a terminated measurement ended with $?"
state >/tmp/after
diff /tmp/before /tmp/after || fail "something was left behind after SIGTERM"

echo timerlat >$tracing/current_tracer
/noised osnoise --backend kernel --duration 1s >/tmp/output 2>&1 && fail "timerlat was disturbed"
grep -q "the timerlat tracer is in use" /tmp/output || fail "unclear: $(cat /tmp/output)"
echo nop >$tracing/current_tracer

kill $pinging
exit $failed
