# Two commands are enough: `make bench` runs the main job, `make test` all tests.
# Both set up what they need; `make help` lists the rest.

CARGO ?= cargo
ONBEAT := target/release/onbeat
# The program as the tests run it.
TESTED := target/debug/onbeat
BESIDE := target/beside
# Options for `make bench`, such as: make bench ARGS="--for 10m --limit 100us"
ARGS ?=

.PHONY: help install fuzz-targets vm-onbeat dist test-dist test-python test-fleet test-interop test-interop-java firmware firmware-test load-speed command-speed test-kernels test-vm test-vm-repeat test-vm-own test-vm-tune test-vm-trace test-vm-kills test-vm-net test-vm-clocks causes-vm fuzz inject-live causes watch-plants worth outside test-view test-long deny matlab site bpf miri bench test build setup-bench setup-test setup-peers lint format clippy doc packages unit build-tests beside loom viewer generated vocabulary bless peers clean

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

setup-peers:
	@sh scripts/setup.sh peers

# One build serves the tests, `repair` and `generate`. Many tests wait for a loop, and leave the CPUs idle to what only compiles or
# computes: it runs beside them, where they leave it time, and in a directory of its own, because cargo lets one build into each.
# That begins with what the build of the tests has made: macros, build scripts and what they print are the same for clippy and
# rustdoc, and were most of their time.
test: setup-test format build-tests ## all tests, with everything they need
	@mkdir -p $(BESIDE)/debug
	@test -e $(BESIDE)/debug/.fingerprint || cp -al target/debug/.fingerprint target/debug/build target/debug/deps $(BESIDE)/debug
	@CARGO_TARGET_DIR=$(abspath $(BESIDE)) \
	setsid sh scripts/give-way.sh $(MAKE) beside >$(BESIDE)/log 2>&1 & \
	trap "kill -- -$$!" INT TERM; \
	$(MAKE) unit generated viewer; tests=$$?; \
	wait $$!; beside=$$?; cat $(BESIDE)/log; [ $$tests = 0 ] && [ $$beside = 0 ]
	@echo "all tests passed"

# Flags that differ would compile all that clippy and rustdoc share with the tests once more: those for a linker beside a shield are
# loom's alone, which shares nothing.
beside: clippy doc packages deny matlab bpf site fuzz-targets outside
	RUSTFLAGS="$(RUSTFLAGS) $$(sh scripts/link-flags.sh)" $(MAKE) loom

lint: format clippy ## formatting and the limits that clippy holds

format:
	$(CARGO) fmt --all --check

clippy:
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

build-tests: build-outside
	$(CARGO) test --locked --workspace --no-run

# Changes left by an interrupted onbeat on this machine would fail unrelated tests.
unit: build-tests ## tests of all crates
	$(TESTED) repair
	python3 -m doctest tests/runner/run.py
	python3 tests/runner/run.py

outside: build-outside ## a program outside the workspace, with ethercrab and onbeat-segment alone
	target/debug/outside

# In the same target directory, so that dependencies are not built again.
build-outside:
	cd tests/outside && $(CARGO) build --locked --target-dir ../../target

# Built for debugging, it runs as long and is built in half the time.
loom: ## every interleaving of the ring, of the latest value and of the delayed lock, and broken twins that must fail
	RUSTFLAGS="$(RUSTFLAGS) --cfg loom" RUST_TEST_THREADS=2 CARGO_TARGET_DIR=target/loom $(CARGO) test --locked -p onbeat-rt --test it

bpf: ## the checked-in BPF objects are what clang makes of their C
	@sh scripts/bpf.sh

# MkDocs in an environment of its own.
MKDOCS := target/site-venv/bin/mkdocs

$(MKDOCS):
	python3 -m venv target/site-venv && target/site-venv/bin/pip install --quiet --disable-pip-version-check mkdocs==1.6.1

site: $(MKDOCS) ## the documentation as a site, in target/site, with its links checked
	python3 -m doctest scripts/site.py scripts/words.py
	python3 scripts/site.py $(MKDOCS)

matlab: ## the .m files have MATLAB's grammar, by MISS_HIT
	@sh scripts/matlab-grammar.sh

doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --workspace

# Without building them once more: each crate is built by the tests, and tests/outside builds one from outside.
packages: ## the crates that are published can be packed for crates.io
	$(CARGO) package --quiet --locked --workspace --no-verify --allow-dirty \
		$(patsubst crates/%/Cargo.toml,--exclude %,$(shell grep -l "^publish = false" crates/*/Cargo.toml))

vocabulary: ## what is made from vocabulary/ and from doc comments is up to date: Rust, the page, the C header, tables of the documents
	cd vocabulary && python3 -m doctest notes.py
	python3 vocabulary/generate.py --check

generated: vocabulary build-tests ## man pages and completions match the command line
	rm -rf target/share && $(TESTED) generate target/share && diff -r share target/share

viewer: ## the page: its tests, and that the checked-in page is up to date
	cd viewer && npm ci --no-audit --no-fund && npm run check && npm test

test-view: build-tests ## a joint of a running robot, followed for 5 s in headless Chromium and compared with its ring
	cd viewer && npm ci --no-audit --no-fund && ONBEAT=$(abspath $(TESTED)) ONBEAT_LIVE_SECONDS=5 node test/run.mjs test live

bless: build ## rebuilds generated files: man pages, completions, help texts, tables, the page
	python3 vocabulary/generate.py
	rm -rf share && $(ONBEAT) generate share
	ONBEAT_BLESS=1 $(CARGO) test --locked -p onbeat-cli --test it -- help:: tables:: tune_machines::
	ONBEAT_BLESS=1 $(CARGO) test --locked -p onbeat-tune --test it -- catalogue::
	cd viewer && npm ci --no-audit --no-fund && npm run build

# Where `make install` puts things; DESTDIR is a root other than /.
PREFIX ?= /usr/local

install: ## program, man pages, completions, C library, headers and pkg-config file, below PREFIX (/usr/local)
	PREFIX="$(PREFIX)" CARGO="$(CARGO)" sh scripts/install.sh all

# For which machines: make dist TARGETS="x86_64-unknown-linux-musl aarch64-unknown-linux-musl".
TARGETS ?=

dist: ## release files in target/dist: packages, wheel, archive, image, repository for apt, bills of materials
	@sh scripts/setup.sh dist
	CARGO="$(CARGO)" sh scripts/dist.sh $(TARGETS)

# What is tried, all by default: make test-dist ROOTS="bullseye wheel". Alpine's root is given: ALPINE=alpine-minirootfs-VERSION-MACHINE.tar.gz.
ROOTS ?=
ALPINE ?=

test-dist: dist ## what `make dist` made, in bare roots of Debian, Ubuntu and others: one line installs, then a bench (minutes; root)
	CARGO="$(CARGO)" ALPINE="$(ALPINE)" sh scripts/test-dist.sh $(ROOTS)

test-python: setup-test ## `pip install ./python` in a clean virtual environment, and a bench from Python (minutes)
	ONBEAT_TEST_PIP=1 $(CARGO) test --locked -p onbeat-cli --test elsewhere -- python_installs::

test-fleet: ## the questions over a fleet on DuckDB and on Spark, equal to the last digit, and their times; alert rules (minutes)
	@CARGO="$(CARGO)" sh scripts/test-fleet.sh

test-interop: setup-test ## logs, LCM, ZeroMQ and ROS 2 with peers in Python, 10,000 random messages of each type (minutes)
	$(CARGO) build --locked -p onbeat-cli
	ONBEAT_INTEROP_MESSAGES=10000 $(CARGO) test --locked -p onbeat-gateway --features ros2

# Classes and native libraries of IHMC, from Maven Central.
IHMC := $(abspath target/ihmc)

test-interop-java: setup-test ## ROS 2 names with IHMC's Java on Fast-DDS as the peer, 10,000 random messages (fetches 27 MB)
	mvn -q -B -f tests/interop/ihmc/pom.xml dependency:copy-dependencies -DoutputDirectory=$(IHMC)
	javac -Xlint:none -cp "$(IHMC)/*" -d $(IHMC) tests/interop/ihmc/Echo.java
	ONBEAT_IHMC="$(IHMC):$(IHMC)/*" ONBEAT_INTEROP_MESSAGES=10000 $(CARGO) test --locked -p onbeat-gateway --features ros2 --test ros2_names_arrive -- java

firmware: ## the device of firmware/ as bare metal for QEMU's mps2-an385 (needs gcc-arm-none-eabi; fetches lwIP)
	@sh scripts/setup.sh firmware
	@$(MAKE) --no-print-directory -C firmware

firmware-test: ## firmware in QEMU: 10,000 packets, edges, measure rtt and chain --via, two boards in lockstep; PACKETS=100000 for the long form (root, qemu-system-arm)
	@sh scripts/setup.sh firmware
	@if ! command -v arm-none-eabi-gcc > /dev/null; then echo "skipped: arm-none-eabi-gcc is not installed (packages gcc-arm-none-eabi, libnewlib-arm-none-eabi)"; \
	else $(MAKE) --no-print-directory -C firmware test PACKETS=$(or $(PACKETS),10000) && $(CARGO) build --locked -p onbeat-cli && \
	python3 firmware/test.py target/firmware $(TESTED) $(or $(PACKETS),10000); fi

load-speed: setup-test ## onbeat.load on a log of a million messages, in Python and Octave, beside the package mcap (a minute)
	sh tests/interop/load_speed.sh

command-speed: setup-test build ## commands over the loopback until the cycle that follows them, beside local ones (a minute)
	sh tests/interop/command_latency.sh $(abspath $(ONBEAT))

peers: setup-peers build ## ratios beside other tools, in runs taken in turns (needs a quiet machine)
	ONBEAT=$(abspath $(ONBEAT)) $(CARGO) bench --locked -p onbeat-cli --bench peers --features peer-on-io-uring -- $(ARGS)

inject-live: ## every fault of the injector takes place as logged (needs a quiet machine)
	ONBEAT_LIVE_INJECT=1 $(CARGO) test --locked --release -p onbeat --test it -- --nocapture inject_live::

causes: build ## plants each cause and prints the reported one (needs a quiet machine)
	$(CARGO) bench --locked -p onbeat-cli --bench causes -- $(ARGS)

# The benchmark as a static program, which the guest runs; its crate does not build the rest of onbeat.
CAUSES_IN_GUEST = --require 95 --longer 5 --count 12 $(ARGS)

causes-vm: ## the same in a PREEMPT_RT guest in virtual time, twice, at least 95 % right (ten minutes)
	@sh scripts/setup.sh kernels
	mkdir -p target/vm
	$(CARGO) rustc --release --locked -p onbeat-cli --bench causes --message-format=json-render-diagnostics -- -C target-feature=+crt-static | \
	sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | xargs strip -o target/vm/causes
	ONBEAT=$(abspath target/vm/causes) ONBEAT_CAUSES=$(abspath target/vm/causes) ONBEAT_CAUSES_ARGS="$(CAUSES_IN_GUEST)" \
	ONBEAT_VM_WORK=$(abspath target/vm) ONBEAT_VM_DOWNLOAD=1 \
	$(CARGO) test --locked --workspace --test it -- --nocapture planted_causes::

watch-plants: ## thirty of each defect in a foreign loop: what `onbeat watch` says first (needs a quiet machine, half an hour)
	ONBEAT_PLANTS=30 $(CARGO) test --locked -p onbeat-cli --test it -- --nocapture --test-threads 1 watch_plants_live::

worth: build ## what four settings of a loop are worth here, and a placebo (needs a quiet machine, ten minutes)
	python3 tests/worth/run.py --onbeat $(ONBEAT) $(ARGS)

# Kernels, cgroups and more: make test-kernels KERNELS="--kernels 6.1 --cgroups v2"; see tests/kernels/README.md.
KERNELS ?=

test-kernels: ## the main job on Debian's kernels, in guests under QEMU's software emulation (half an hour)
	@sh scripts/setup.sh kernels
	$(CARGO) rustc --release --locked -p onbeat-cli --bin onbeat -- -C target-feature=+crt-static
	python3 tests/kernels/run.py --onbeat $(ONBEAT) --work target/kernels $(KERNELS)

# One guest at a time: in virtual time each keeps a CPU of the host busy. With --workspace, crates have the features that `make test` builds.
VM_TEST = ONBEAT=$(abspath target/vm/onbeat) ONBEAT_VM_WORK=$(abspath target/vm) ONBEAT_VM_DOWNLOAD=1 \
	$(CARGO) test --locked --workspace --test it -- --nocapture --test-threads=1 $(1:%=%::)

vm-onbeat:
	@sh scripts/setup.sh kernels
	$(CARGO) rustc --release --locked -p onbeat-cli --bin onbeat -- -C target-feature=+crt-static
	mkdir -p target/vm && strip -o target/vm/onbeat $(ONBEAT)
	CARGO="$(CARGO)" sh scripts/agent.sh target/vm

test-vm: vm-onbeat ## guests in virtual time: kernels with and without PREEMPT_RT, the same figures twice (five minutes)
	$(call VM_TEST,guests study)

test-vm-own: vm-onbeat ## guests of the user's, from a script and a libvirt definition: jobs, a study, disks as before (ten minutes; needs root)
	@sh scripts/setup.sh dist
	$(call VM_TEST,own_guests)

test-vm-repeat: vm-onbeat ## forty guests beside a loaded host: the same bytes (ten minutes)
	$(call VM_TEST,repeated_guests)

test-vm-tune: vm-onbeat ## tunings in a PREEMPT_RT guest: applied, checked after a reboot, undone (five minutes)
	$(call VM_TEST,tuned_guests)

test-vm-trace: vm-onbeat ## host and guest on one clock: delays planted on the host are named, a killed trace leaves nothing (needs root)
	$(call VM_TEST,joined_traces killed_traces)

# Kills of each command.
KILLS ?= 50

test-vm-kills: vm-onbeat ## kill -9 of laboratories and studies at drawn moments: the same tables in the end (a quarter of an hour; needs root)
	ONBEAT_KILLS=$(KILLS) $(call VM_TEST,killed_campaigns)

test-vm-net: vm-onbeat ## two boards in virtual time: three tests and their load sweep, the same figures twice (three minutes)
	$(call VM_TEST,board_tests)

test-vm-clocks: vm-onbeat ## two boards in two guests whose clocks differ: the stated bound holds (a minute)
	$(call VM_TEST,joined_boards)

# Time for each fuzz target, in seconds.
FUZZ_SECONDS ?= 20

fuzz-targets: ## the fuzz targets compile
	cd fuzz && $(CARGO) check --quiet --locked --all-targets

fuzz: ## every decoder on random input, each for FUZZ_SECONDS (20)
	FUZZ_SECONDS=$(FUZZ_SECONDS) CARGO="$(CARGO)" sh fuzz/run.sh

deny: setup-test ## licences, sources and advisories of all dependencies, by cargo deny (deny.toml)
	@sh scripts/deny.sh

# The quarter of an hour of `make test` as a day, and all that property tests draw, of which `make test` draws a part.
LONG_TESTS = verdict_holds ratio_holds verdict_of_a_day pure
test-long: setup-test ## a day of a robot in virtual time, and property tests at full length (about two hours)
	ONBEAT_LONG=1 $(CARGO) test --locked -p onbeat --test it -- --nocapture $(LONG_TESTS:%=%::)
	ONBEAT_LONG=1 $(CARGO) test --locked -p onbeat-message --test messages_match
	ONBEAT_SOAK_HOURS=24 $(CARGO) test --locked -p onbeat-robot --test robot_memory -- --nocapture
	ONBEAT_KILLS=50 $(CARGO) test --locked -p onbeat-cli --test it -- --nocapture bench_resume_live:: loads_live::a_sweep_killed
	ONBEAT_LONG=1 $(CARGO) test --locked -p onbeat-cli --test it -- --nocapture commands_shown::
	ONBEAT_CAMERA_KILLS=1000 $(CARGO) test --locked -p onbeat-camera --test it -- --nocapture camera::kill
	$(MAKE) --no-print-directory firmware-test PACKETS=100000
	$(CARGO) test --locked -p onbeat-cli --test elsewhere -- camera_interrupted::

# A nightly toolchain with miri: rustup toolchain install nightly --component miri,rust-src
miri: ## onbeat-rt and the pure parts of onbeat-control under Miri (needs a nightly toolchain)
	@sh scripts/miri.sh

clean:
	$(CARGO) clean
	rm -rf viewer/node_modules tests/java/target
