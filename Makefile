# Two commands are enough: `make bench` runs the main job, `make test` all tests.
# Both set up what they need; `make help` lists the rest.

CARGO ?= cargo
ONBEAT := target/release/onbeat
# What `make bench` passes on, such as: make bench ARGS="--for 10m --limit 100us"
ARGS ?=

.PHONY: help inject-live causes bench test build setup-bench setup-test lint doc unit loom viewer generated bless peers clean

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

test: setup-test lint unit loom doc generated viewer ## all tests, with everything they need
	@echo "all tests passed"

lint: ## formatting and the limits that clippy holds
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

unit: build ## tests of all crates
	ONBEAT=$(abspath $(ONBEAT)) $(CARGO) test --locked --workspace --no-fail-fast

loom: ## every interleaving of the ring, and a broken twin that must fail
	RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom $(CARGO) test --locked --release -p onbeat-rt --test ring_loom

doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --workspace

generated: build ## man pages and completions are those of the command line
	rm -rf target/share && $(ONBEAT) generate target/share && diff -r share target/share

viewer: ## the page: its tests, and that the checked-in page is the built one
	cd viewer && npm ci --no-audit --no-fund && npm run check && npm test

bless: build ## rebuilds what is checked in built: man pages, completions, the page
	rm -rf share && $(ONBEAT) generate share
	cd viewer && npm ci --no-audit --no-fund && npm run build

peers: setup-test build ## ratios beside other tools, in runs taken in turns (wants a quiet machine)
	ONBEAT=$(abspath $(ONBEAT)) $(CARGO) bench --locked -p onbeat-cli --bench peers -- $(ARGS)

inject-live: ## every fault of the injector takes place as logged (wants a quiet machine)
	ONBEAT_LIVE_INJECT=1 $(CARGO) test --locked --release -p onbeat --test inject_live -- --nocapture

causes: build ## plants each cause and prints what it was named (wants a quiet machine)
	$(CARGO) bench --locked -p onbeat-cli --bench causes -- $(ARGS)

clean:
	$(CARGO) clean
	rm -rf viewer/node_modules tests/java/target
