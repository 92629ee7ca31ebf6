# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh disable=SC2034
# What the guest's scripts share. To be sourced; it does nothing by itself.

module=${MODULE:-/lib/modules/pmu_count.ko}

# How the module counts: where the boot says gate=0, by counters that run freely.
case ${BOOT-} in
*gate=0*) manner=gate=0 ;;
*) manner='' ;;
esac

# shellcheck disable=SC2086 # maybe none
insmod() { command insmod "$@" $manner; }

CYCLES=0x3c
INSTRUCTIONS=0xc0

fail() {
	echo "$*"
	exit 1
}

# equal WHAT GOT WANTED
equal() {
	[ "$2" = "$3" ] || fail "$1: $2 instead of $3"
}

# near WHAT GOT WANTED PERMILLE
near() {
	difference=$(($2 - $3))
	[ $((${difference#-} * 1000)) -le $(($3 * $4)) ] || fail "$1: $2 is not within $4/1000 of $3"
}

# --- Truth ------------------------------------------------------------------------------------------------------------
# The instructions that a program retires in user mode: the formula at the head of its source. NAME_truth is all of it, NAME_own
# what remains without other processes that it makes, for those that make some.

known_truth() { echo $((2 * $1 + 3)); }
syscalls_truth() { echo $((4 * $1 + 3)); }
naps_truth() { echo $((2007 * $1 + 3)); }
migrate_truth() { echo $(((2 * $3 + 12) * $2 + 3)); }
threads_truth() { echo $(((1 + $1 + $2) * (2005 * $3 + 4) + 5 + 11 * $2 + 2 * $1 + 2 * $2)); }
crew_truth() { echo $((2 * $2 + 8 + (2 * $2 + 5) * $1)); }
forks_truth() { echo $((4 * $1 + 18)); }
forks_own() { echo $((2 * $1 + 13)); }
execs_truth() { if [ "${1-}" ]; then echo 400025; else echo 400012; fi; }
chain_truth() { echo $((($1 + 1) * 20003 + 11 * $1 + 3)); }
tree_truth() {
	depth=$1 forking=0 last=1
	while [ "$depth" -gt 0 ]; do
		forking=$((forking + last)) last=$((last * $2)) depth=$((depth - 1))
	done
	echo $((forking * (2 * $3 + 14 * $2 + 14) + last * (2 * $3 + 12) - 4))
}
tree_own() { echo $((2 * $3 + 14 * $2 + 10)); }
pages_truth() { echo $(((11 * $1 + 110) * $2 + 3)); }
signals_truth() { echo $((55 * $1 + 3)); }
pingpong_truth() { echo $((39 * $2 + 24)); }
pingpong_own() { if [ "${3-}" ]; then echo $((27 * $2 + 19)); else pingpong_truth "$@"; fi; }
shorts_truth() { echo $(((28 * $2 + 4) * $1 + 3)); }
clones_own() { echo $((2 * $2 + 20)); }
clones_truth() { if [ "${3-}" ]; then echo $((2 * $2 + 20 + 200015)); else echo $((4 * $2 + 27)); fi; }
orphan_truth() { echo $((2 * $1 + 45)); }
orphan_own() { echo 26; }
remain_truth() { echo $((2 * $1 + 22)); }
remain_own() { echo 13; }
headless_truth() { echo $((2 * $1 + 31)); }
makers_truth() { echo $((8 * $1 + 50)); }
makers_own() { echo $((6 * $1 + 45)); }
crash_truth() { if [ "${2-}" ]; then echo $((2 * $1 + 29)); else echo $((2 * $1 + 23)); fi; }
rally_first() { echo $((26 * $1 + 9)); }
rally_second() { echo $((12 * $1 - 2)); }
block_truth() { echo $((2 * $2 + 5)); }

# truth [taskset MASK] PROGRAM ARGUMENTS...: of a program counted with "parameters", if that is set.
truth() {
	[ "$1" != taskset ] || shift 2
	program=$1
	shift
	case " ${parameters-} " in
	*' inherit=0 '*) if command -v "${program}_own" >/dev/null; then "${program}_own" "$@"; return; fi ;;
	esac
	"${program}_truth" "$@"
}

# --- Counting ---------------------------------------------------------------------------------------------------------

# parse LINE: takes the module's line apart into count, unit, overflows, event, modes and rest.
parse() {
	flaws='\(, disturbed on CPU [0-9,-]*\)\{0,1\}\(, incomplete on CPU [0-9,-]*\)\{0,1\}'
	# shellcheck disable=SC2046 # words are meant
	set -- "$1" $(printf '%s\n' "$1" |
		sed -n 's/^pmu_count: pid [0-9]* (.*): \([0-9]*\) \([a-z]*\), \([0-9]*\) overflows, event \(0x[0-9a-f]*\):\([uk]*\)\(\(, still running\)\{0,1\}'"$flaws"'\)$/\1 \2 \3 \4 \5 \6/p')
	[ $# -ge 6 ] || fail "this is not the module's line: '$1'"
	count=$2 unit=$3 overflows=$4 event=$5 modes=$6
	shift 6
	rest=$*
}

# attached BEFORE AFTER PROGRAM ARGUMENTS...: a run under attach; sets switches and line.
attached() {
	attach "$@" >/tmp/attach 2>&1 || fail "$(cat /tmp/attach)" "$(dmesg | grep pmu_count: | tail -n 1)"
	status='' switches='' line=''
	while read -r key value; do
		case $key in
		status) status=$value ;;
		switches) switches=$value ;;
		line) line=$line$value ;;
		esac
	done </tmp/attach
	[ "$status" = 0 ] || fail "$3 did not end well: $(cat /tmp/attach)"
}

# count_module PARAMETERS PROGRAM ARGUMENTS...: what the module counts; sets what parse does.
count_module() {
	load="insmod $module $manner pid=\$PID $1"
	shift
	attached "$load" : "$@"
	rmmod pmu_count
	parse "$line"
	equal 'the end of the line' "$rest" ''
}

# count_perf EVENTS PROGRAM ARGUMENTS...: what perf counts, in the order of EVENTS; sets counts.
count_perf() {
	events=$1
	shift
	attached "sh /tests/perf-start $events" "sh /tests/perf-stop" "$@"
	counts=$(sed -n 's/^\([^,#]*\),.*/\1/p' /tmp/perf.out | tr '\n' ' ')
	case $counts in
	*[!0-9\ ]* | '') fail "perf did not count: $(cat /tmp/perf.out)" ;;
	esac
}

# exact PARAMETERS PROGRAM ARGUMENTS...: in user mode the module's counts of the program are the truth.
exact() {
	parameters=$1
	shift
	count_module "$parameters user=Y kernel=N event=$INSTRUCTIONS" "$@"
	equal "instructions:u of '$*' with '$parameters'" "$count" "$(truth "$@")"
	instructions_overflows=$overflows
	count_module "$parameters user=Y kernel=N" "$@"
	equal "cycles:u of '$*' with '$parameters'" "$count" $((2 * $(truth "$@")))
}

# --- The module -------------------------------------------------------------------------------------------------------

# start PROGRAM ARGUMENTS...: starts it and waits until it has stopped itself; sets pid.
start() {
	"$@" &
	pid=$!
	wait_for_state "$pid" T
}

# wait_for_state PID STATE
wait_for_state() {
	tries=0
	until state=$(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null) && [ "$state" = "$2" ]; do
		tries=$((tries + 1))
		[ $tries -lt 1000 ] || fail "process $1 is not in state $2 but '${state-}'"
		usleep 10000
	done
}

# undead: a process that has exited, whose parent, by then another program, does not wait for it; sets zombie and parent.
undead() {
	rm -f /tmp/zombie
	# shellcheck disable=SC2016 # for the inner shells
	sh -c 'sh -c '\''until grep -qx sleep /proc/$PPID/comm; do usleep 10000; done'\'' & echo $! >/tmp/zombie; exec sleep 1000' &
	parent=$!
	until [ -s /tmp/zombie ]; do usleep 10000; done
	zombie=$(cat /tmp/zombie)
	wait_for_state "$zombie" Z
}

# log_of PID: the module's lines about the process.
log_of() {
	dmesg | sed -n "s/^\[[^]]*\] //; /^pmu_count: pid $1 (/p"
}

# said: all that the module has said (the kernel itself says once that a module from outside taints it).
said() {
	dmesg | sed -n '/taint[a-z]* kernel/d; /pmu_count:/p'
}

# complains COMMAND...: the command says "error", and one line in dmesg has the words of the pattern "words".
complains() {
	lines=$(said | wc -l)
	got=$("$@" || :)
	said >/tmp/complaints
	complaint=$(tail -n 1 /tmp/complaints)
	echo "$*: $got, $complaint"
	equal "the error of '$*'" "$got" "$error"
	equal "lines about '$*' in dmesg" $(($(wc -l </tmp/complaints) - lines)) 1
	echo "$complaint" | grep -Eqi "$words" || fail "the line about '$*' should have '$words': $complaint"
}

# loading PARAMETERS...: what a try to load the module says.
loading() {
	load "$module" "$@" || :
	[ ! -d /sys/module/pmu_count ] || rmmod pmu_count
}

# refused ERROR WORDS PARAMETERS...: loading fails with this error, and one line in dmesg has these words (a pattern).
refused() {
	error=$1 words=$2
	shift 2
	complains loading "$@"
}

# nmis CPU: how many it has taken since boot; without the watchdog each is a PMI.
nmis() {
	awk -v column=$(($1 + 2)) '$1 == "NMI:" { print $column }' /proc/interrupts
}

# msrs: the PMU's registers of every CPU, as they are now: PERFEVTSEL0, PMC0, GLOBAL_STATUS, GLOBAL_CTRL.
msrs() {
	for cpu in /dev/cpu/[0-9]*; do
		rdmsr "${cpu##*/}" 0x186 0xc1 0x38e 0x38f
	done
}

# --- The device -------------------------------------------------------------------------------------------------------

# ordered WORDS...: the device carries the command out.
ordered() {
	equal "'$*'" "$(order "$@" || :)" 'done'
}

# denied ERROR PATTERN WORDS...: the device refuses the command with this error, and says why in one line of dmesg.
denied() {
	error=$1 words=$2
	shift 2
	complains order "$@"
}

# shown [KEY=VALUE]...: the device's lines that have all of these fields, without the names, in which anything may stand.
shown() {
	sed '1d; s/ name="\([^"\\]\|\\.\)*"//' /dev/pmu_count | awk -v fields="$*" '{
		n = split(fields, field, " ")
		for (i = 1; i <= n; i++)
			if (!index(" " $0 " ", " " field[i] " "))
				next
		print
	}'
}

# value KEY [KEY=VALUE]...: what the line that has these fields says of KEY. There has to be one.
value() {
	key=$1
	shift
	shown "$@" | awk -v key="$key" -v fields="$*" '
		{
			for (i = 1; i <= NF; i++)
				if (index($i, key "=") == 1)
					value = substr($i, length(key) + 2)
		}
		END { print NR == 1 ? value : "(" NR " lines have " fields ")" }'
}

# add PID OPTIONS...: a target; sets id.
add() {
	target=$1
	shift
	ordered add pid="$target" "$@"
	id=$(shown | awk '{ split($1, part, "="); id = part[2] } END { print id }')
}

# on_device OPTIONS PROGRAM ARGUMENTS...: a target that runs from its stop to its end; sets id and pid.
on_device() {
	options=$1
	shift
	start "$@"
	# shellcheck disable=SC2086 # several
	add "$pid" $options
	kill -CONT "$pid"
	wait "$pid" || fail "$* has ended with $?"
	equal "lines of '$*' that has not exited" "$(shown id="$id" | grep -vc ' state=exited ')" 0
}

# has EVENT COUNT [KEY=VALUE]...: the target id has counted so much, undisturbed.
has() {
	what=$1 wanted=$2
	shift 2
	[ $# -gt 0 ] || set -- tid=all
	set -- id="$id" event="$what" disturbed=none incomplete=none "$@"
	equal "the count of $*" "$(value count "$@")" "$wanted"
}

# watched: the kernel looks at each access to memory (KASAN, KCSAN).
watched() {
	grep -Eq ' (kasan_report|__kcsan_check_access)$' /proc/kallsyms
}

# patched: the kernel has our patch, or the hooks are tracepoints.
patched() {
	grep -q ' sched_hook_register$' /proc/kallsyms
}

# varies: what the kernel executes for the same call differs by a percent, as it does if it looks at that, or at each lock (lockdep).
varies() {
	watched || grep -q ' lock_acquire$' /proc/kallsyms
}

# perf_counts: perf has the PMU, and counts with it. (The kernel's own driver makes nothing of a PMU of one counter.)
perf_counts() {
	[ -d /sys/bus/event_source/devices/cpu ] || return 0
	count_perf instructions:u,cycles:u known 1000
	equal 'what perf counts' "${counts% }" "$(known_truth 1000) $((2 * $(known_truth 1000)))"
}

# perf_is_out: perf does not get the PMU.
perf_is_out() {
	perf stat -e cycles true >/tmp/perf.busy 2>&1 || :
	grep -Eqi 'busy|not counted|not supported' /tmp/perf.busy || fail "perf counts beside the module: $(cat /tmp/perf.busy)"
}

# setting NAME DEFAULT: what the kernel's parameter NAME says, for tests that can be longer (make test APPEND=NAME=...).
setting() {
	tr ' ' '\n' </proc/cmdline | awk -v name="$1=" -v value="$2" '
		index($0, name) == 1 { value = substr($0, length(name) + 1) }
		END { print value }'
}

# long FULL SHORT: how much of it: FULL in `make stress`, else SHORT.
long() {
	if [ "$(setting stress '')" ]; then echo "$1"; else echo "$2"; fi
}

# --- Under load -------------------------------------------------------------------------------------------------------

# draw MOST: sets "drawn" to a number below that, by "seed", which it changes.
draw() {
	seed=$(((seed * 1103515245 + 12345) % 2147483648)) drawn=$((seed / 65536 % $1))
}

# begin OPTIONS PROGRAM ARGUMENTS...: one more target on the device, which has stopped itself; finish ends it. Sets id and pid.
begun=/tmp/begun
begin() {
	parameters=$1
	shift
	start "$@"
	# shellcheck disable=SC2086 # several
	add "$pid" event=instructions:u,cycles:u $parameters
	echo "$id $pid $(truth "$@") $*" >>$begun
}

# go: those that have begun go on.
go() {
	# shellcheck disable=SC2046 # several
	kill -CONT $(cut -d ' ' -f 2 $begun)
}

# finish: waits for those that have begun, each of which has counted exactly, and removes them.
finish() {
	while read -r id pid _ words; do
		wait "$pid" || fail "$words has ended with $?"
	done <$begun
	shown state=exited disturbed=none incomplete=none >/tmp/ended
	while read -r id pid true words; do
		for line in "instructions:u count=$true" "cycles:u count=$((2 * true))"; do
			grep -q "^id=$id pid=$pid tid=all .* event=$line " /tmp/ended || fail "$words has not $line:" "$(shown id="$id")"
		done
		ordered remove id="$id"
	done <$begun
	rm $begun
}

# cycle_cpus: all CPUs but the first go and come, one after the other; counted in "gone".
cycle_cpus() {
	for cpu in /sys/devices/system/cpu/cpu[1-9]*; do
		echo 0 >"$cpu/online"
		echo 1 >"$cpu/online"
		gone=$((gone + 1))
	done
}

# race DELAY PROGRAM ARGUMENTS...: counted from its start, and unloaded so many microseconds later: there is one line, whether it
# has ended by then or not; those that have not are counted in "still".
race() {
	delay=$1
	shift
	start "$@"
	insmod "$module" pid="$pid" kernel=N event=$INSTRUCTIONS n=10007
	kill -CONT "$pid"
	usleep "$delay"
	rmmod pmu_count
	wait "$pid"
	equal lines "$(log_of "$pid" | wc -l)" 1
	parse "$(log_of "$pid")"
	if [ "$rest" ]; then
		still=$((still + 1))
		[ "$count" -le "$(truth "$@")" ] || fail "too many: $line"
	else
		equal 'the count of a process that has ended' "$count" "$(truth "$@")"
	fi
}

# ticked FILE WORD...: the sum of these words of the file that is the input of "ticks".
ticked() {
	file=$1
	shift
	od -A n -t u8 -v -w8 "$file" | awk -v words=" $* " 'index(words, " " (NR - 1) " ") { sum += $1 } END { printf "%.0f", sum }'
}

# victim FILE: starts one that the OOM killer takes first; what it has done is noted in the file. Sets pid.
victim() {
	dd if=/dev/zero of="$1" bs=4096 count=1 2>/dev/null
	(
		echo 1000 >/proc/self/oom_score_adj
		exec ticks 2 1 <>"$1"
	) &
	pid=$!
	wait_for_state "$pid" T
}

# died FILE PID COUNT: the victim was killed, and has counted what it did: two instructions for each that its threads have added, the
# last of each maybe not noted yet, and as many as its head says to make them.
died() {
	status=0
	wait "$2" || status=$?
	equal 'the end of a victim' $status 137
	least=$((2 * $(ticked "$1" 0 1 3)))
	echo "killed: $3 instructions, $least noted"
	case $(($3 - least)) in
	-[1-3] | [0-9] | [12][0-9] | 3[0-5]) ;;
	*) fail "$3 is not what it has done" ;;
	esac
}

# hog: takes memory until the OOM killer ends it, which takes victims first. Sets hog.
hog() {
	echo 1 >/proc/sys/vm/overcommit_memory
	echo 0 >/proc/sys/vm/oom_dump_tasks
	(
		echo 0 >/proc/self/oom_score_adj
		exec dd if=/dev/zero of=/dev/null bs=1G count=1 2>/dev/null
	) &
	hog=$!
}

# put_log_away: where much is said, for the log holds only so much. "run" looks for complaints there, too.
log=/tmp/log
put_log_away() {
	dmesg -c >>$log
}

# forget_oom: the same without what the OOM killer has said, which looks like a complaint: each of its reports has one stack, and
# so has it when one that it kills cannot have any more. Sets reports.
forget_oom() {
	dmesg -c >/tmp/oom
	reports=$(grep -c ' invoked oom-killer: ' /tmp/oom) || :
	failures=$(grep -c '\] dd: page allocation failure: ' /tmp/oom) || :
	equal "stacks in the kernel's log" "$(grep -c 'Call Trace' /tmp/oom)" $((reports + failures))
	grep -v 'Call Trace' /tmp/oom >>$log || :
}

# footprint FILE: notes what the kernel holds, when it has given back what it can.
footprint() {
	sleep 1
	echo 3 >/proc/sys/vm/drop_caches
	awk '/^(MemAvailable|SUnreclaim|KernelStack|Percpu|VmallocUsed):/ { sub(/:/, ""); print $1, $2 }' /proc/meminfo >"$1"
	printf '%s\n' "zombies $(grep -l '^State:.*Z' /proc/[0-9]*/status 2>/dev/null | wc -l)" >>"$1"
}

# no_leak FILE KB: the kernel holds no more than it did when that was noted, but for so much in slabs, whose objects come to lie
# otherwise, some stacks and mappings that are kept for the next one, per-CPU memory where many have lived at a time, who each have
# some, and what is free, which is known less well. Where kmemleak is, freed memory is kept for long: that tells. Who calls this
# has the kernel boot with kmemleak=on.
no_leak() {
	grep -qw kmemleak=on /proc/cmdline || fail 'the guest has to be booted with kmemleak=on'
	if [ -e /sys/kernel/debug/kmemleak ]; then
		! sh /tests/leaked || fail 'it has leaked memory'
		return
	fi
	# What CPUs keep for their next pages they give back second by second; what has leaked stays.
	for _ in $(seq 10); do
		footprint /tmp/now
		if awk -v slabs="$2" '
			BEGIN { may["SUnreclaim"] = slabs; may["KernelStack"] = 64; may["VmallocUsed"] = 128; may["Percpu"] = slabs > 64 ? 128 : 0; may["MemAvailable"] = 16384 }
			NR == FNR { before[$1] = $2; next }
			{
				more = $1 == "MemAvailable" ? before[$1] - $2 : $2 - before[$1]
				printf "%s %+d; ", $1, $2 - before[$1]
				leak += more > may[$1]
			}
			END { print "in kB"; exit leak > 0 }' "$1" /tmp/now >/tmp/leak; then
			cat /tmp/leak
			return
		fi
	done
	fail "it has leaked: $(cat /tmp/leak)"
}

# --- The monitor ------------------------------------------------------------------------------------------------------

# monitor COMMAND: has QEMU's monitor (HMP) carry it out, and prints what it says. The command that follows it prints a number
# on a line of its own: that is the end. What is skipped is its greeting, and the echo of what it reads.
monitor() {
	# There is its file before it can be opened, just after the boot.
	until (: 9<>/dev/vport0p4) 2>/dev/null; do usleep 10000; done
	exec 9<>/dev/vport0p4
	printf '%s\nprint /d 20261\n' "$1" >&9
	while IFS= read -r answer <&9 && answer=${answer%?} && [ "$answer" != 20261 ]; do
		case $answer in *"type 'help'"* | *"$(printf '\033[K')"*) ;; *) printf '%s\n' "$answer" ;; esac
	done
	exec 9>&-
}

# --- Another kernel, and sleep ----------------------------------------------------------------------------------------

# rekernel: boots the same kernel by kexec, which runs the guest's command once more, with KEXECED=1. What that says comes out
# at its end, when the ports have been bound anew: over a suspend to RAM they lose their hosts.
rekernel() {
	mkdir -p /tmp/root/dev
	mknod /tmp/root/dev/console c 5 1
	cat >/tmp/root/command <<-E2
		export KEXECED=1
		( $(cat /command) ) >/root/out 2>&1
		status=\$?
		echo virtio0 >/sys/bus/virtio/drivers/virtio_console/unbind
		echo virtio0 >/sys/bus/virtio/drivers/virtio_console/bind
		until [ -c /dev/vport0p1 ] && [ -c /dev/vport0p3 ]; do usleep 10000; done
		cat /root/out >/dev/vport0p1
		exit \$status
	E2
	{
		(cd / && find . -xdev | cpio -o -H newc)
		(cd /tmp/root && find . | cpio -o -H newc)
	} >/tmp/initrd 2>/dev/null
	kexec /dev/vport0p5 /tmp/initrd "$(cat /proc/cmdline)"
	fail 'kexec has come back'
}

# nap: a suspend to RAM, and back by the alarm of the clock, which must not come before a slow host has come to it. Only in the kernel that rekernel has booted: see kexec.c. The
# bridge forgets where the ports for power management are (PMBASE and ACPI_CNTL), and the firmware does not tell it again.
nap() {
	bridge=/sys/bus/pci/devices/0000:00:1f.0/config
	dd if=$bridge of=/tmp/bridge bs=4 skip=16 count=2 2>/dev/null
	echo 0 >/sys/class/rtc/rtc0/wakealarm
	echo +8 >/sys/class/rtc/rtc0/wakealarm
	asleep=$(date +%s)
	echo mem >/sys/power/state
	dd if=/tmp/bridge of=$bridge bs=4 seek=16 count=2 conv=notrunc 2>/dev/null
	[ $(($(date +%s) - asleep)) -ge 2 ] || fail 'it has not slept'
}
