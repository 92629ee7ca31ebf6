# shellcheck shell=sh disable=SC2034,SC2154  # what is set here and in lib.sh is used elsewhere
# The machine that the guest runs on: which accelerator, which QEMU, which devices. Sourced after lib.sh by the scripts that
# start it.

# choose_accel: sets accel to kvm or tcg, and why. KVM serves if it gives guests a PMU, and that only KVM knows.
choose_accel() {
	kvm='' accel=tcg
	if [ ! -e /dev/kvm ]; then
		why='this machine has no /dev/kvm'
	elif [ ! -r /dev/kvm ] || [ ! -w /dev/kvm ]; then
		why="$(id -un) may not use /dev/kvm"
	elif ! version=$("$BUILD/kvm-vpmu" 2>&1); then
		why="KVM does not answer: $version"
	elif [ "$version" = 0 ]; then
		why='KVM gives guests no PMU here'
	else
		why="KVM gives guests a PMU of version $version"
		kvm=1
	fi
	case ${ACCEL-} in
	'') [ -z "$kvm" ] || accel=kvm ;;
	kvm)
		[ "$kvm" ] || die "ACCEL=kvm cannot be: $why"
		accel=kvm
		;;
	tcg) why='ACCEL=tcg asks for it' ;;
	*) die "ACCEL is kvm or tcg, not '$ACCEL'" ;;
	esac
	case $accel in
	kvm) chosen="KVM ($why)" ;;
	tcg) chosen="TCG with an emulated PMU ($why)" ;;
	esac
}

# prepare_machine: what must be there before `machine`.
prepare_machine() {
	case $VARIANT in
	pristine) made_by='guest pristine-kernel' ;;
	*) made_by=guest$suffix ;;
	esac
	for f in "$cpio" "${folder}vmlinux" kvm-vpmu; do
		[ -f "$BUILD/$f" ] || die "the guest has not been built: make $made_by qemu"
	done
	choose_accel
	[ $accel = tcg ] || [ -z "${VPMU-}" ] || die "VPMU is for TCG's emulated PMU, but this guest would run with KVM: ACCEL=tcg"
	# KVM goes with the distribution's QEMU, which comes when it is needed.
	if [ $accel = kvm ] && [ -z "${QEMU-}" ] && [ ! -x "$BUILD/sdk/usr/bin/qemu-system-x86_64" ]; then
		QUIET=1 "$scripts/kvm-qemu"
	fi
}

# machine INITRD KERNEL_PARAMETERS OPTION...: becomes QEMU. QEMU_ARGS come last, so they win. The programs of the SDK run
# on the host's own root with the SDK's C library, so that files in QEMU_ARGS are the host's. DEVICES are more devices, parted by
# colons.
machine() {
	initrd=$1 parameters=$2 thread=''
	shift 2
	# To move memory byte by byte is fast where the CPU announces that, but not in the emulator: without these a process takes a third
	# less time, and to load the module half.
	bytewise=erms=off,fsrm=off,fsrs=off
	case $accel in
	kvm) cpu=${CPU:-host} qemu=$BUILD/sdk/usr/bin/qemu-system-x86_64 ;;
	tcg) cpu=${CPU:-max,vendor=GenuineIntel,pmu=on,$bytewise}${VPMU:+,$VPMU} qemu=$BUILD/qemu-system-x86_64 thread=${THREAD-} ;;
	esac
	qemu=${QEMU:-$qemu}
	# In the emulator each CPU would measure how fast it can wait, for a quarter of a second, and be disturbed by the others. A value
	# that is too high waits too long.
	[ "$accel" = kvm ] || [ "${ICOUNT-}" ] || parameters="lpj=40000000 $parameters"
	# It is also the host's clock that they all read. Who checks that can wait for another CPU with interrupts off before there is a
	# clock that ends it (watchdog_check_skew in 7.3): on a busy host one guest of eight CPUs in a hundred hung as it booted.
	[ "$accel" = kvm ] || parameters="tsc=nowatchdog $parameters"
	set -f
	# shellcheck disable=SC2046,SC2086  # the devices and QEMU_ARGS are several words
	set -- "$qemu" -nodefaults -no-user-config -display none -no-reboot ${ICOUNT:+-icount "shift=$ICOUNT"} \
		-L "$BUILD/sdk/usr/share/seabios" -L "$BUILD/sdk/usr/share/qemu" \
		-machine q35,i8042=off -accel "$accel${thread:+,thread=$thread}" -cpu "$cpu" -smp "${SMP:-2}" -m "${MEM:-512}" \
		-kernel "$BUILD/${folder}vmlinux" -initrd "$initrd" \
		-append "console=ttyS0 panic=-1 nmi_watchdog=0 kunit.enable=0 no_timer_check $parameters ${APPEND-}" \
		$(printf '%s' "${DEVICES:+:$DEVICES}" | sed 's/:/ -device /g') "$@" ${QEMU_ARGS-}
	set +f
	lib=$BUILD/sdk/usr/lib/x86_64-linux-gnu
	case $qemu in
	"$BUILD"/*) set -- "$lib/ld-linux-x86-64.so.2" --library-path "$lib" "$@" ;;
	esac
	# It ends with the script that has started it, and after TIMEOUT seconds, if that is set.
	exec setpriv --pdeathsig TERM timeout --foreground -s KILL "${TIMEOUT:-0}" "$@"
}
