# Two commands are enough: `make bench` runs the main job, `make test` all tests.
# Both set up what they need; `make help` lists the rest.

CARGO ?= cargo
ONBEAT := target/release/onbeat
# What `make bench` passes on, such as: make bench ARGS="--for 10m --limit 100us"
ARGS ?=

.PHONY: help dist test-dist test-kernels test-vm fuzz inject-live causes outside bench test build setup-bench setup-test lint doc unit loom viewer generated bless peers clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

bench: setup-bench build ## the main job: which tuning keeps a control loop on time, idle and loaded? (two minutes)
	$(ONBEAT) bench $(ARGS)

build:
	$(CARGO) build --release --locked -p onbeat-cli

setup-bench:
	@sh scripts/setup.sh bench

setup-test:
	@sh scripts/setup.sh test

test: setup-test lint unit outside loom doc generated viewer ## all tests, with everything they need
	@echo "all tests passed"

lint: ## formatting and the limits that clippy holds
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

# What an onbeat that was killed on this machine has left changed would fail tests that have nothing to do with it.
unit: build ## tests of all crates
	$(ONBEAT) repair
	ONBEAT=$(abspath $(ONBEAT)) $(CARGO) test --locked --workspace --no-fail-fast

# In the same target directory: what the workspace has built is not built again.
outside: ## a program outside the workspace, with ethercrab and onbeat-segment alone
	cd tests/outside && $(CARGO) run --locked --target-dir ../../target

loom: ## every interleaving of the ring and of the latest value, and broken twins that must fail
	RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom $(CARGO) test --locked --release -p onbeat-rt --test ring_loom --test latest_loom

doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --workspace

generated: build ## man pages and completions are those of the command line
	rm -rf target/share && $(ONBEAT) generate target/share && diff -r share target/share

viewer: ## the page: its tests, and that the checked-in page is the built one
	cd viewer && npm ci --no-audit --no-fund && npm run check && npm test

bless: build ## rebuilds what is checked in built: man pages, completions, help texts, the page
	rm -rf share && $(ONBEAT) generate share
	ONBEAT_BLESS=1 $(CARGO) test --locked -p onbeat-cli --test help
	cd viewer && npm ci --no-audit --no-fund && npm run build

dist: ## a static binary and a Debian package, in target/dist
	@sh scripts/setup.sh dist
	CARGO="$(CARGO)" sh scripts/dist.sh

# In which Debian releases: make test-dist RELEASES="bullseye trixie".
RELEASES ?= trixie

test-dist: dist ## the package in a bare root of another Debian release: install, bench, uninstall
	sh scripts/test-dist.sh $(RELEASES)

peers: setup-test build ## ratios beside other tools, in runs taken in turns (wants a quiet machine)
	ONBEAT=$(abspath $(ONBEAT)) $(CARGO) bench --locked -p onbeat-cli --bench peers --features peer-on-io-uring -- $(ARGS)

inject-live: ## every fault of the injector takes place as logged (wants a quiet machine)
	ONBEAT_LIVE_INJECT=1 $(CARGO) test --locked --release -p onbeat --test inject_live -- --nocapture

causes: build ## plants each cause and prints what it was named (wants a quiet machine)
	$(CARGO) bench --locked -p onbeat-cli --bench causes -- $(ARGS)

# Kernels, cgroups and more: make test-kernels KERNELS="--kernels 6.1 --cgroups v2"; see docs/kernels.md.
KERNELS ?=

test-kernels: ## the main job on Debian's kernels, in guests under QEMU's software emulation (half an hour)
	@sh scripts/setup.sh kernels
	$(CARGO) rustc --release --locked -p onbeat-cli --bin onbeat -- -C target-feature=+crt-static
	python3 tests/kernels/run.py --onbeat $(ONBEAT) --work target/kernels $(KERNELS)

# One guest at a time: in virtual time each keeps a CPU of the host busy.
test-vm: ## guests in virtual time: kernels with and without PREEMPT_RT, the same figures twice (five minutes)
	@sh scripts/setup.sh kernels
	$(CARGO) rustc --release --locked -p onbeat-cli --bin onbeat -- -C target-feature=+crt-static
	mkdir -p target/vm && strip -o target/vm/onbeat $(ONBEAT)
	ONBEAT=$(abspath target/vm/onbeat) ONBEAT_VM_WORK=$(abspath target/vm) ONBEAT_VM_DOWNLOAD=1 \
		$(CARGO) test --locked -p onbeat-lab --test guests -- --nocapture --test-threads=1

# How long each fuzz target runs.
FUZZ_SECONDS ?= 20
FUZZ_FLAGS = -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
	-Cllvm-args=-sanitizer-coverage-pc-table -Clink-dead-code
FUZZ_HOST = $(shell rustc -vV | sed -n 's/^host: //p')

fuzz: ## every decoder on made-up input, each for FUZZ_SECONDS (20)
	cd fuzz && RUSTFLAGS="$(FUZZ_FLAGS)" $(CARGO) build --locked --release --target $(FUZZ_HOST)
	cd fuzz && for target in $$(sed -n 's|^path = "fuzz_targets/\(.*\).rs"|\1|p' Cargo.toml); do \
		mkdir -p artifacts target/found/$$target && echo "$$target" && \
		target/$(FUZZ_HOST)/release/$$target -max_total_time=$(FUZZ_SECONDS) -max_len=16384 -verbosity=0 -print_final_stats=1 \
			-artifact_prefix=artifacts/$$target- target/found/$$target corpus/$$target || exit 1; \
	done

clean:
	$(CARGO) clean
	rm -rf viewer/node_modules tests/java/target
