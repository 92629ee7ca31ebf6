# SPDX-License-Identifier: GPL-2.0
# Builds all that is needed, and starts it; `make help` tells what there is. Each target is a script of the same name in
# scripts/, which knows by itself whether anything is to be done.
#
# With KDIR=<built kernel tree> only the module is built, with this machine's own tools.

# A value with $ in it reaches the scripts as it was typed.
override CMD := $(value CMD)
override KVER := $(value KVER)
export CMD KVER

ifdef KDIR
MAKEFLAGS += --no-print-directory
llvm = $(if $(shell grep -sx CONFIG_CC_IS_CLANG=y '$(KDIR)/.config'),LLVM=1)
modules:
	@scripts/check-kdir '$(KDIR)'
	@$(MAKE) -C '$(KDIR)' $(llvm) M='$(CURDIR)' modules
module: modules
clean:
	@$(MAKE) -C '$(KDIR)' M='$(CURDIR)' clean
.PHONY: modules module clean
else

# Steps that do not depend on each other run at the same time.
MAKEFLAGS += -j

steps := sdk source kernel qemu perf module pmu-stat guest plain-qemu deb
variants := $(patsubst scripts/kernel-%.config,%,$(wildcard scripts/kernel-*.config))

help:
	@sed -n 's/^## \{0,1\}//p' Makefile

## Counting a process's cycles with the PMU, and everything that it takes to see it done:
##
##   make demo        build all that is needed, count some processes with pmu_count and with perf, show both
##   make test        the tests; the last line is "N passed, N failed"
##   make test-all    the same on each variant of the kernel, and the whole exactness suite, which the tests have a part of
##   make test-deb    Debian's package: whether it builds the module in a clean Debian, and goes without a trace
##   make stress      load, faults, bad input, sudden death in full, and the tests on kernels that watch themselves (T=PART...)
##   make exact       that suite alone: programs of known length on every PMU; the table is in build/exact.json as well
##   make shell       a guest with everything in it to play with (Ctrl-A x ends it)
##   make run CMD='...'   boot the guest, run the shell command in it as root, print its output
##   make fuzz        only its fuzzer for the parsers, for a minute
##   make check       formatting, lints, patches, and whether docs/unsafe.md has all unsafe code
##   make bench       what counting costs, with the module and with perf: a table, build/bench.json, build/bench.svg
##   make bench-vpmu  what the emulated PMU costs
##   make times       how long the steps and the boot take, how large the guest is, what the emulated PMU costs; build/times.json
##   make disasm      the instructions that a context switch and a PMI execute because of the module
##
## Steps, each made when needed:
##
##   sdk      a Debian root file system with the toolchain      qemu     QEMU with an emulated PMU for TCG
##   source   the kernel's source, patched                      module   pmu_count.ko
##   kernel   the guest's kernel                                guest    the guest's root file system
##   deb      Debian's package, the module by DKMS
##   perf     perf, from the same tree                          pmu-stat perf stat's like, for the module (crates.io)
##
##   pristine-kernel  the same kernel without patches/linux (VARIANT=pristine scripts/run COMMAND)
##
##   make clean       remove the module, the guest, and results
##   make distclean   remove all that was built
##
##   make KDIR=<tree>     only the module, against a built kernel 7.2 or newer; best one that carries patches/linux
##   make module-for KVER=<release>   only the module, for Debian's own kernel 7.3 or newer, with this machine's packages
##
## Variables:
##
##   BUILD=<folder>      where everything is built (default: build)
##   MIRROR=<URL>        Debian mirror            LINUX_SOURCE=<tarball or tree>   another kernel source
##   For demo, test, shell, run, and STOCK=1 also bench:
##   STOCK=1             Debian's own kernel in the guest, without our patches
##   VARIANT=rt|nohz|debug|kcsan|7.2   another kernel there: PREEMPT_RT, with nohz_full, with KASAN and more, with KCSAN, Linux 7.2
##   SMP=2 MEM=512       CPUs, memory in MB       CPU=<model>        QEMU's -cpu
##   VPMU=<properties>   of the emulated PMU, such as pmu-version=3,pmu-counters=8
##   ACCEL=kvm|tcg       default: kvm if it gives guests a PMU (test: tcg)   QEMU=<binary>
##   QEMU_ARGS=...       more options for QEMU    APPEND=...         more kernel parameters
##   EXTRA=<folder>      run: its files are in /extra                TIMEOUT=<seconds>  run: when to give up

# A step that has nothing to do says so only if it was asked for by name.
$(steps):
	@VARIANT= $(if $(filter $@,$(MAKECMDGOALS)),,QUIET=1) exec scripts/$@

source qemu pmu-stat: sdk
kernel perf: source
module: kernel
guest: perf module pmu-stat
plain-qemu: qemu
deb: pmu-stat

# The kernel without our patches, to compare with.
pristine-kernel: source
	@export VARIANT=pristine; QUIET=1 scripts/variant && \
		$(if $(filter $@,$(MAKECMDGOALS)),,QUIET=1) exec scripts/kernel

# STOCK=1 is Debian's own kernel, which has its steps as a variant has, but is not built.
ifneq ($(filter-out 0,$(STOCK)),)
override VARIANT := stock
export VARIANT
$(if $(filter exact stress test-all disasm,$(MAKECMDGOALS)),$(error STOCK=1 is for demo, test, bench, run and shell))
endif

# A variant's own steps: STEP-VARIANT.
define variant_steps
variant-$(1) kernel-$(1) module-$(1) guest-$(1):
	@VARIANT=$(1) $$(if $$(filter $$@,$$(MAKECMDGOALS)),,QUIET=1) exec scripts/$$(@:-$(1)=)
variant-$(1): source
kernel-$(1): variant-$(1)
module-$(1): kernel-$(1)
guest-$(1): guest module-$(1)
.PHONY: variant-$(1) kernel-$(1) module-$(1) guest-$(1)
endef
$(foreach v,$(variants) stock,$(eval $(call variant_steps,$(v))))

ifneq ($(filter run,$(MAKECMDGOALS)),)
$(if $(CMD),,$(error say what to run: make run CMD='...'))
endif

exact: guest qemu
	@VARIANT= exec scripts/$@

# The tests have some on Debian's own kernel, which belongs to Debian's source.
source_is_own := $(or $(LINUX_SOURCE),$(shell f="$(or $(BUILD),build)/linux/.source"; [ ! -f "$$f" ] || grep -q ^Package: "$$f" || echo own))
test: $(if $(VARIANT)$(source_is_own),,guest-stock)

demo test shell: guest$(VARIANT:%=-%) qemu
	@exec scripts/$@

test-deb: guest-stock qemu deb
	@VARIANT= exec scripts/$@

test-all: guest qemu $(if $(source_is_own),,deb guest-stock) $(variants:%=guest-%)
	@VARIANT= exec scripts/$@

# The kernels that it needs: those that are asked for, or all.
watching := debug kcsan rt
stress: guest qemu $(addprefix guest-,$(if $(T),$(filter $(variants),$(T)),$(watching)))
	@VARIANT= exec scripts/$@

run: guest$(VARIANT:%=-%) qemu
	@exec scripts/run "$$CMD"

disasm: guest qemu
	@VARIANT= exec scripts/$@

fuzz: sdk
	@exec scripts/$@

bench: guest-stock qemu $(if $(VARIANT),,guest pristine-kernel)
	@exec scripts/$@

bench-vpmu times: guest plain-qemu
	@exec scripts/$@

check: guest qemu
	@exec scripts/$@

module-for:
	$(if $(KVER),,$(error say for which kernel: make $@ KVER=$$(uname -r)))
	@exec scripts/$@ "$$KVER"

clean distclean:
	@exec scripts/$@

.PHONY: help demo test test-all test-deb stress fuzz exact shell run bench bench-vpmu times disasm check clean distclean pristine-kernel module-for $(steps)
endif
