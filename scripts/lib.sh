# shellcheck shell=sh
# What the scripts beside this file share: where things are, messages, and one step of the build with its lock, its stamp,
# its log and its progress. To be sourced; it does nothing by itself.

scripts=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
SRC=${scripts%/*}
BUILD=${BUILD:-$SRC/build}
case $BUILD in /*) ;; *) BUILD=$PWD/$BUILD ;; esac
state=$BUILD/.state

# VARIANT names another kernel for the guest, scripts/kernel-$VARIANT.config on top of scripts/kernel.config. What depends on
# the kernel is built by the same scripts in a folder of its own, as steps with the suffix.
# shellcheck disable=SC2034 # used by those scripts
VARIANT=${VARIANT-} suffix=${VARIANT:+-$VARIANT} folder=${VARIANT:+$VARIANT/}
fragment=scripts/kernel$suffix.config cpio=${folder}guest.cpio
# The kernel without our patches is built as one, too, but not listed with them: it can have no module, and boots the common guest.
# shellcheck disable=SC2034
[ "$VARIANT" != pristine ] || fragment=scripts/pristine.config cpio=guest.cpio
# Debian's own is not configured here at all.
[ "$VARIANT" != stock ] || fragment=scripts/stock

# variants: their names.
variants() { (cd "$scripts" && echo kernel-*.config | sed 's/kernel-//g; s/\.config//g'); }

say() { printf '%s\n' "$*" >&2; }

# The lines of a log, to be shown.
indent() { awk '{ print "    " substr($0, 1, 200) }' >&2; }

# The status may be chosen by the script.
die() {
	say "${0##*/}: $*"
	exit "${die_status:-1}"
}

# apart COMMAND...: in a shell of its own, which `set -e` ends even where the call is a condition.
apart() {
	(
		set -e
		"$@"
	) &
	wait $!
}

# The comment at the head of the script is its help.
help() {
	sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
	exit "${1:-0}"
}

# no_arguments "$@": for scripts that take none.
no_arguments() {
	case ${1-} in
	'') ;;
	-h | --help) help ;;
	*) help 2 >&2 ;;
	esac
}

# What to put before a command so that it is root over a mount and process namespace of its own, which ends with it.
namespace() {
	printf '%s' 'unshare --mount --pid --fork --kill-child'
	[ "$(id -u)" = 0 ] || printf '%s' ' --user --map-root-user --map-auto'
}

# can_namespace: says in one line what keeps `namespace` from working, if anything does.
can_namespace() {
	# shellcheck disable=SC2046  # several words are meant
	if $(namespace) true 2>/dev/null; then return; fi
	[ "$(id -u)" != 0 ] || die 'root may not make mount namespaces here (a container?); it needs CAP_SYS_ADMIN'
	command -v newuidmap >/dev/null || die 'an ordinary user needs newuidmap: apt install uidmap'
	unshare --user true 2>/dev/null || die 'user namespaces are off for ordinary users on this machine; run it as root'
	die "the user $(id -un) has no sub-ids; as root: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $(id -un)"
}

# install_missing COMMAND=PACKAGE...: COMMAND may be a file.
install_missing() {
	missing=''
	for w in "$@"; do
		command -v "${w%=*}" >/dev/null || [ -e "${w%=*}" ] || missing="$missing ${w#*=}"
	done
	[ "$missing" ] || return 0
	if [ "$(id -u)" != 0 ] || [ ! -x /usr/bin/apt-get ]; then
		die "this machine lacks what follows; install it first:$missing"
	fi
	say "installing on this machine:$missing"
	own_build
	# shellcheck disable=SC2086  # several packages
	if ! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing; } \
		>"$BUILD/log/host.log" 2>&1 </dev/null; then
		tail -n 20 "$BUILD/log/host.log" | indent
		die "could not install$missing; all of the log: $BUILD/log/host.log"
	fi
}

# The build folder is ours if we made it: anything else is left alone.
own_build() {
	[ -d "$state" ] && [ -w "$state" ] && return
	[ ! -d "$state" ] || die "$BUILD belongs to another user; choose another folder with BUILD="
	[ -z "$(ls -A "$BUILD" 2>/dev/null)" ] || die "$BUILD is not empty and not a build folder of this project"
	mkdir -p "$state" "$BUILD/log" 2>/dev/null || die "cannot make $BUILD; choose another folder with BUILD="
}

# lock NAME FD [-s]: waits for the lock NAME (-s: shared) and holds it on FD for the life of the script and of all that it
# started, so that what a killed script has left running keeps others out.
lock() {
	eval "exec $2>>\"\$state/\$1.lock\""
	# shellcheck disable=SC2086  # the option may be absent
	flock -n ${3-} "$2" && return
	say "${0##*/}: waiting for another run that works on $1"
	# shellcheck disable=SC2086
	flock ${3-} "$2"
}

# Minutes and seconds.
duration() {
	if [ "$1" -lt 60 ]; then printf '%ss' "$1"; else printf '%sm%02ds' $(($1 / 60)) $(($1 % 60)); fi
}

# guests_at_once: as many as there are CPUs, if the memory suffices.
guests_at_once() {
	awk -v cpus="$(nproc)" '/^MemAvailable/ { most = int($2 / 400000); print most < 1 ? 1 : most < cpus ? most : cpus }' /proc/meminfo
}

free_mb() { df -Pm "$BUILD" | awk 'NR == 2 { print $4 }'; }

# llvm CONFIGURATION...: what make must be told to build with the tools that such a kernel is built with.
llvm() { ! grep -qsx CONFIG_CC_IS_CLANG=y "$@" || echo LLVM=1; }

# make_options TREE: the same of a tree that is configured.
make_options() { cat "$1/.make" 2>/dev/null || llvm "$1/.config"; }

# --- Several runs that are one ----------------------------------------------------------------------------------------

# part WHAT RESULTS COMMAND...: one of them. What it has looked at is in the file RESULTS then, a line "ok" or "FAILED" for each.
# The others go on if it fails.
failed='' results=''
part() {
	what=$1 from=$2
	shift 2
	echo "--- $what"
	rm -f "$from"
	"$@" || failed="$failed${failed:+, }$what"
	results="$results $(cat "$from" 2>/dev/null || echo FAILED)"
}

# total SECONDS: the end of all, which began then.
total() {
	say "${0##*/}: took $(duration $(($(date +%s) - $1)))${failed:+; failed: $failed}"
	echo "$results" | tr ' ' '\n' | awk '{ n[$1]++ } END { print n["ok"] + 0 " passed, " n["FAILED"] + 0 " failed" }'
	[ -z "$failed" ]
}

# --- A step ---------------------------------------------------------------------------------------------------------
#
# A script that is a step sets some of these, defines `build`, and calls `step NAME` last, NAME being its own and a suffix:
#   after    steps that must have been done, and whose change makes this one due
#   inputs   files and folders of the project that make it due when they change (itself: the script; empty it if not wanted)
#   extra    any other text that makes it due when it changes
#   product  what must be there for it to count as done (below the build folder)
#   needs    MB of disk that it may take from nothing
#   lines    about how many lines its log has in the end, from nothing, if they tell how far it is
#   exclusive, shared   a lock to hold beside its own
#   outside  a file or folder of the user's, to be seen as /mnt/outside
# `build` runs inside the SDK, in the build folder, under `set -eu`, with `extra` set, and may be cut off anywhere: what it
# makes it must make under another name first. If `on_host` is set it runs outside. Lines of its output that begin with
# `NOTE: ` are shown when it is done. How long it took is in $state/NAME.seconds, and if its product was not there before, in
# NAME.seconds-from-nothing too.

outside='' after='' itself="scripts/${0##*/}" inputs='' extra='' product='' needs=0 lines=0 exclusive='' shared='' on_host=''

digest() {
	(
		cd "$SRC" || exit
		for s in $after; do cat "$state/$s"; done
		printf '%s\n' "$extra"
		# shellcheck disable=SC2086  # names of the project's own, without blanks
		[ -z "$itself$inputs" ] || find $itself $inputs -type f -exec sha256sum {} + 2>/dev/null | LC_ALL=C sort
	) | sha256sum
}

up_to_date() {
	[ -f "$state/$1" ] && [ -e "$BUILD/$product" ] && [ "$(cat "$state/$1")" = "$(digest "$1")" ] || return 1
	[ -n "${QUIET-}" ] || say "$1: up to date"
}

# progress NAME LOG START: tells how far the step is while its script lives. On a terminal one line shows all the steps
# that run; elsewhere each says a line now and then.
progress() {
	next=30
	while sleep 1 >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
		t=$(($(date +%s) - $3))
		last=$(tail -n 1 "$2" | tr -d '\r' | tr -s ' \t' ' ' | cut -c1-60)
		of=''
		[ "$lines" = 0 ] || of="$(wc -l <"$2") of about $lines: "
		now="$1 $(duration "$t") $of$last"
		if [ -t 2 ]; then
			printf '%s\n' "$now" >"$state/$1.now"
			all=$(find "$state" -name '*.now' -mmin -0.1 -exec cat {} + | paste -s -d '|' | cut -c1-"$(($(tput cols 2>/dev/null || echo 80) - 1))")
			printf '\r\033[K%s' "$all" >&2
		elif [ "$t" -ge "$next" ]; then
			say "$now"
			next=$((t + 30))
		fi
	done
}

# stop STATUS: ends what the step has started, and the step.
stop() {
	trap '' INT TERM HUP
	kill -KILL "$worker" "$watcher" 2>/dev/null
	[ ! -t 2 ] || printf '\r\033[K' >&2
	say "$step_name: interrupted; the next run takes it up again"
	rm -f "$state/$step_name.now"
	exit "$1"
}

# One line for the causes that are not the project's.
cause() {
	if grep -q 'No space left on device' "$1" || [ "$(free_mb)" -lt 20 ]; then
		say "$step_name: the disk of $BUILD is full ($(free_mb) MB free)"
	elif grep -qE 'Temporary failure resolving|Could not resolve|Could not connect|Unable to connect|onnection timed out|Network is unreachable|Connection failed|Failed to fetch' "$1"; then
		say "$step_name: the package mirror could not be reached: look at the network, at http_proxy, or choose one with MIRROR="
	elif grep -qE 'Cannot allocate memory|Killed signal|virtual memory exhausted' "$1"; then
		say "$step_name: the memory did not suffice"
	fi
}

step() {
	step_name=$1
	if [ "${IN_SDK_STEP-}" = "$1" ]; then
		extra=${STEP_EXTRA-}
		build
		exit
	fi
	own_build
	[ -f "$SRC/$fragment" ] || die "there is no variant $VARIANT"
	for s in $after; do
		[ -f "$state/$s" ] || die "the step $s has not been done: make $s"
	done
	if up_to_date "$1"; then exit; fi
	lock "$1" 9
	# In one order everywhere, or two steps that want the same two would wait for each other.
	eval "$({
		[ -z "$exclusive" ] || echo "lock $exclusive 8"
		[ -z "$shared" ] || echo "lock $shared 7 -s"
	} | LC_ALL=C sort)"
	if up_to_date "$1"; then exit; fi

	if [ ! -e "$BUILD/$product" ] && [ "$(free_mb)" -lt "$needs" ]; then
		die "needs $needs MB of disk in $BUILD, which has $(free_mb) MB free; choose another folder with BUILD="
	fi
	due=$(digest "$1")
	nothing=''
	[ -e "$BUILD/$product" ] || nothing=1
	log=$BUILD/log/$1.log
	start=$(date +%s)
	rm -f "$state/$1"
	say "$1: started"
	worker='' watcher=''
	trap 'stop 130' INT
	trap 'stop 143' TERM HUP
	if [ -n "$on_host" ]; then
		# shellcheck disable=SC2046  # several words are meant
		IN_SDK_STEP=$1 setpriv --pdeathsig KILL $(namespace) sh "$0" >"$log" 2>&1 </dev/null &
	else
		setpriv --pdeathsig KILL sh "$scripts/in-sdk" ${outside:+-b "$outside" /mnt/outside} \
			env IN_SDK_STEP="$1" STEP_EXTRA="$extra" VARIANT="$VARIANT" sh "/src/scripts/${0##*/}" >"$log" 2>&1 </dev/null &
	fi
	worker=$!
	progress "$1" "$log" "$start" 7>&- 8>&- 9>&- &
	watcher=$!
	status=0
	wait "$worker" || status=$?
	kill "$watcher" 2>/dev/null || :
	wait "$watcher" 2>/dev/null || :
	rm -f "$state/$1.now"
	[ ! -t 2 ] || printf '\r\033[K' >&2
	seconds=$(($(date +%s) - start))
	t=$(duration $seconds)
	if [ "$status" != 0 ]; then
		say "$1: failed after $t; the end of $log:"
		tail -n 20 "$log" | indent
		cause "$log"
		exit 1
	fi
	printf '%s\n' "$due" >"$state/$1.tmp"
	mv "$state/$1.tmp" "$state/$1"
	echo $seconds >"$state/$1.seconds"
	[ -z "$nothing" ] || echo $seconds >"$state/$1.seconds-from-nothing"
	sed -n "s/^NOTE: /$1: /p" "$log" >&2
	say "$1: done in $t"
	exit 0
}

# --- Inside the SDK: sources ------------------------------------------------------------------------------------------

# Package lists no older than an hour; two steps do not fetch them at once.
fresh_lists() {
	exec 6>>"$state/apt.lock"
	flock 6
	if [ -z "$(find /var/lib/apt/updated -mmin -60)" ]; then
		apt-get update
		touch /var/lib/apt/updated
	fi
	exec 6>&-
}

# add_to_sdk COMMAND PACKAGE...: what is only wanted sometimes, if its command is not there yet.
add_to_sdk() {
	! command -v "$1" >/dev/null || return 0
	shift
	fresh_lists
	# One at a time: dpkg does not wait.
	exec 6>>"$state/apt.lock"
	flock 6
	apt-get -y --no-install-recommends install "$@"
	exec 6>&-
}

# build_in FOLDER COMMAND...: runs a command that builds there as kbuild does, which takes a file for made if it is new. So when
# one was killed, the files of its last half minute are removed, as some may be half-written. Patched sources are not.
build_in() {
	where=$1
	shift
	if [ -e "$where/.unfinished" ]; then
		echo 'the last build was cut off: making its last files again'
		echo ./.source >/tmp/sources
		for d in files none; do
			[ ! -d "$where/.pristine/$d" ] || (cd "$where/.pristine/$d" && find . -type f) >>/tmp/sources
		done
		(cd "$where" && find . -path ./.pristine -prune -o -type f -newer .unfinished -printf '%T@ %p\n') |
			awk 'NR == FNR { sources[$0]; next }
				{ time = $1; sub(/^[^ ]* /, "") }
				!($0 in sources) { made[$0] = time; if (time > last) last = time }
				END { for (f in made) if (made[f] > last - 30) print f }' /tmp/sources - >/tmp/made
		(cd "$where" && xargs -d '\n' rm -f) </tmp/made
	fi
	: >"$where/.unfinished"
	failed=0
	apart "$@" || failed=$?
	rm "$where/.unfinished"
	return $failed
}

# download FOLDER PACKAGE...: those packages come to lie in FOLDER.deb; FOLDER is made, or emptied, for what is in them.
download() {
	rm -rf "$1" "$1.deb"
	mkdir -p "$1" "$1.deb"
	folder_of_packages=$1.deb
	shift
	echo "fetching $*"
	(cd "$folder_of_packages" && apt-get download "$@")
}

# unpack_source PACKAGE FOLDER: what is in that package of kernel source.
unpack_source() {
	download "$2" "$1"
	echo "unpacking $1"
	dpkg-deb --fsys-tarfile "$2.deb"/*.deb | tar -xO "./usr/src/$1.tar.xz" | tar -xJ --strip-components=1 -C "$2"
	dpkg-deb -f "$2.deb"/*.deb Package Version >"$2/.source"
	rm -r "$2.deb"
}

# patch_tree TREE [PATCH]...: makes TREE what it was when unpacked, and the patches applied to that, whatever was
# applied before. Only files that come out different are touched, so that only what depends on them is built again. The
# files as they were unpacked are kept in TREE/.pristine/files; those that did not exist are marked in TREE/.pristine/none.
patch_tree() { apart apply_series "$@"; }

apply_series() {
	kept=$1/.pristine
	mkdir -p "$kept/files" "$kept/none"
	tree=$1
	shift
	if [ $# -gt 0 ]; then
		sed -n 's,^diff --git a/\(.*\) b/\(.*\)$,\1\n\2,p' "$@" | sort -u >"$kept/touched"
	else
		: >"$kept/touched"
	fi
	while read -r f; do
		if [ -e "$kept/files/$f" ] || [ -e "$kept/none/$f" ]; then continue; fi
		where=none
		[ ! -e "$tree/$f" ] || where=files
		mkdir -p "$kept/$where/$(dirname "$f")"
		if [ $where = files ]; then cp -p "$tree/$f" "$kept/copy"; else : >"$kept/copy"; fi
		mv "$kept/copy" "$kept/$where/$f"
	done <"$kept/touched"
	rm -rf "$kept/patched"
	cp -a "$kept/files" "$kept/patched"
	for p in "$@"; do
		echo "applying ${p##*/}"
		(cd "$kept/patched" && GIT_CEILING_DIRECTORIES=$PWD/.. git apply -C1 "$p")
	done
	(cd "$kept/files" && find . -type f && cd ../none && find . -type f) | while read -r f; do
		if [ ! -e "$kept/patched/$f" ]; then
			rm -f "$tree/$f"
		elif ! cmp -s "$kept/patched/$f" "$tree/$f"; then
			echo "changing ${f#./}"
			mkdir -p "$(dirname "$tree/$f")"
			touch "$kept/patched/$f"
			mv "$kept/patched/$f" "$tree/$f"
		fi
	done
}

# linux_patches TREE: those for a kernel of its version: ours, and if it is older than the newest what this one has that we need.
linux_patches() {
	older=/src/patches/linux-$(sed -nE 's/^(VERSION|PATCHLEVEL) = //p' "$1/Makefile" | paste -s -d .)
	echo /src/patches/linux/*.patch
	[ ! -d "$older" ] || echo "$older"/*.patch
}

# patch_linux TREE: patch_tree with those.
patch_linux() {
	# shellcheck disable=SC2046 # several words
	patch_tree "$1" $(linux_patches "$1")
}
