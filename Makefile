# Shortcuts; Meson builds and tests. `make up` and `make check` are all a newcomer needs.

BUILD ?= build
PREFIX ?= /usr/local

.PHONY: all programs sanitized up down demo check check-quick check-kvm check-levels check-upgrade bench-kvm check-debian13 lint asan soak fuzz bench install deb dist-bin clean packages

all: $(BUILD)/build.ninja
	@ninja -C $(BUILD) --quiet

# Without tests and benches. On a terminal ninja shows how far it is.
PROGRAMS = cordon cordon-keeper cordon-init cordon-shim cordond cordon-egress cordon-storage cordon-pull cordon-cache cordon-notary cordon-client cordon-interpreter mcp-gateway
programs: $(BUILD)/build.ninja
	@ninja -C $(BUILD) -n $(PROGRAMS) | grep -q "no work to do" || echo "building (about a minute the first time)"
	@ninja -C $(BUILD) $$(test -t 1 || echo --quiet) $(PROGRAMS)

$(BUILD)/build.ninja:
	@tools/install-packages tools/packages-build
	@meson setup $(BUILD) --prefix $(PREFIX) >/dev/null

# Installs what is missing, builds, and starts the server. ARGS="--listen ..." for settings, DETACH=1 for the background.
up: packages programs
	@tools/install-packages tools/packages-demo
	@DETACH=$(DETACH) tools/up $(BUILD) $(ARGS)

# Ends the server of `make up`, its sessions continue. PURGE=1 also ends these and removes the server's folders and users.
down:
	@PURGE=$(PURGE) tools/down $(BUILD) $(ARGS)

# Shows what a cell is, without a server.
demo: packages all
	@tools/install-packages tools/packages-demo
	@tools/demo $(BUILD)/cordon

packages:
	@tools/install-packages tools/packages-build

# Everything that must hold. Ends with "N passed, N failed, N skipped".
check: packages all sanitized
	@tools/install-packages tools/packages-test tests/vm/packages
	@tools/check-banned
	@tools/check-layers
	@tools/check-size
	@tools/check-fds
	@tools/check-loops
	@tools/check-bounds
	@tools/check-docs
	@tools/check-words
	@tools/check-names
	@tools/check-programs
	@tools/run-tests $(BUILD)

# For daily work, in two minutes: unit and fuzz tests, and a few of each other suite (tests/quick). Prints what it leaves out.
check-quick: packages all
	@tools/install-packages tools/packages-test
	@tools/check-banned
	@tools/check-layers
	@tools/check-size
	@tools/check-fds
	@tools/check-loops
	@tools/check-bounds
	@tools/check-docs
	@tools/check-words
	@tools/check-names
	@tools/check-programs
	@tools/run-tests $(BUILD) --quick

# All tests that run at every level, at levels gvisor and microvm, as a whole: about an hour on two cores (by the sum of its programs).
check-levels: packages all
	@tools/install-packages tools/packages-test tests/vm/packages
	@tools/run-tests $(BUILD) levels levels-long

lint:
	@tools/install-packages tools/packages-build tools/packages-lint
	@tools/lint $(BUILD)

# cordond and cordon-egress with sanitizers, and with calls that fail on demand, for the tests that look for memory errors.
sanitized: $(BUILD)/build.ninja
	@ninja -C $(BUILD) --quiet cordond.sanitized cordon-egress.sanitized cordon-pull.sanitized cordon-cache.sanitized cordon-notary.sanitized cordon-interpreter.sanitized mcp-gateway.sanitized shim_fake.sanitized faults sanitized_edges

# Every suite that can run under AddressSanitizer and UndefinedBehaviorSanitizer (HACKING.md lists the others).
ASAN_SUITES ?= unit fuzz behaviour server conformance egress chaos sdk
asan:
	@tools/install-packages tools/packages-build tools/packages-lint tools/packages-test
	@test -f $(BUILD)-asan/build.ninja || CC=clang meson setup $(BUILD)-asan -Dmusl=false \
		-Db_sanitize=address,undefined -Db_lundef=false >/dev/null
	@ninja -C $(BUILD)-asan --quiet all faults sanitized_edges
	@tools/run-tests $(BUILD)-asan $(ASAN_SUITES)

# The model fuzz for SOAK_SECONDS, hostile servers, failing calls for FAULT_SECONDS and load: about three times as long
# in all.
SOAK_SECONDS ?= 1800
FAULT_SECONDS ?= 1800
soak: packages all sanitized
	@tools/install-packages tools/packages-test
	@FAULT_SECONDS=$(FAULT_SECONDS) tools/soak $(BUILD) $(SOAK_SECONDS) $(SEED)

# Cordon built and unit-tested in a session of a Debian 13, which mmdebstrap makes from the mirror (MIRROR: another one).
check-debian13: programs
	@tests/debian/test_debian13.py $(BUILD)/cordon

# A server of the version before is taken over, with all that it has: builds that version once, which takes some minutes.
check-upgrade: packages programs
	@tools/install-packages tools/packages-test
	@tests/upgrade/test_takeover.py $(BUILD)/cordon

# Guests under KVM, in an emulated machine whose processor has it: for machines without a good KVM. One to three minutes.
check-kvm: all
	@tests/levels/kvm_lane.py $(BUILD)/cordon $(BUILD)/tests/levels/kvm_check $(BUILD)/tests/levels/guest_probe

# Programs, forks and output of sessions in virtual machines, by this machine's KVM or emulated, whichever a server would use; and guests of check-kvm under KVM, with the times that they take.
bench-kvm: all
	@bench/run $(BUILD) --sections guests
	@tests/levels/kvm_lane.py $(BUILD)/cordon $(BUILD)/tests/levels/kvm_check $(BUILD)/tests/levels/guest_probe --here

# Each fuzz target for FUZZ_SECONDS.
FUZZ_SECONDS ?= 60
fuzz:
	@tools/install-packages tools/packages-build tools/packages-lint
	@test -f $(BUILD)-fuzz/build.ninja || CC=clang meson setup $(BUILD)-fuzz -Dmusl=false -Dfuzzers=true \
		-Db_sanitize=address,undefined -Db_lundef=false >/dev/null
	@ninja -C $(BUILD)-fuzz --quiet
	@tools/fuzz-all $(BUILD)-fuzz $(FUZZ_SECONDS)

bench: packages all
	@bench/run $(BUILD) --write bench/measurements.md

# The programs, the manual page, completion, systemd units and the server's users; doc/operate.md goes on from there.
# DESTDIR=DIR installs below DIR, for packages, and makes no users.
install: packages
	@test ! -f $(BUILD)/build.ninja || meson configure $(BUILD) -Dprefix=$(PREFIX)
	@$(MAKE) --no-print-directory programs
	@ninja -C $(BUILD) --quiet cordon.1
	@meson install -C $(BUILD) --quiet --no-rebuild
	@test -n "$(DESTDIR)" || test "$$(id -u)" != 0 || tools/make-users /var/lib/cordon.made-by-make-up /var/lib/cordon
	@echo "installed below $(DESTDIR)$(PREFIX). Next:"
	@echo "  systemctl daemon-reload && systemctl enable --now cordon     # the server; its first key: /var/lib/cordon/first.key"
	@echo "  cordon doctor                                                # what this machine can do; doc/operate.md"

# For machines without a compiler: a Debian package for the release that this machine has, and the same files as an archive.
deb dist-bin: packages programs
	@ninja -C $(BUILD) --quiet cordon.1
	@tools/package $(if $(filter deb,$@),deb,tar) $(BUILD) $(BUILD)/packages

clean:
	@rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-fuzz
