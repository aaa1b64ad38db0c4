# Every task of the project, for a fresh Debian or Ubuntu machine (as root or with sudo) and for one that has the tools.
# `make` alone lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
KAFKA_VERSION := $(shell sed -n 's:.*<kafka.version>\(.*\)</kafka.version>.*:\1:p' tests/java/pom.xml)
KAFKA_JARS := .cache/kafka-$(KAFKA_VERSION)
SUITE_JARS := .cache/kafka-suite-$(KAFKA_VERSION)
ZOOKEEPER_VERSION := $(shell sed -n 's:.*<zookeeper.version>\(.*\)</zookeeper.version>.*:\1:p' tests/java/zookeeper/pom.xml)
ZOOKEEPER_JARS := .cache/zookeeper-$(ZOOKEEPER_VERSION)
CONNECTOR_VERSION := $(shell sed -n 's:.*<connector.version>\(.*\)</connector.version>.*:\1:p' tests/java/spark/pom.xml)
CONNECTOR_JARS := .cache/spark-connector-$(CONNECTOR_VERSION)
PYSPARK_OLDEST := 4.1.4
PYSPARK_RELEASES := $(PYSPARK_OLDEST) 4.2.1
TABLE_FORMATS := src/moldau/spark/pipeline/table_formats.py
DELTA_VERSION := $(shell sed -n 's:^DELTA.* = "\(.*\)":\1:p' $(TABLE_FORMATS))
ICEBERG_VERSION := $(shell sed -n 's:^ICEBERG.* = "\(.*\)":\1:p' $(TABLE_FORMATS))
LAKEHOUSE_JARS := .cache/lakehouse-$(basename $(PYSPARK_OLDEST))-$(DELTA_VERSION)-$(ICEBERG_VERSION)
KAFKAJS := tests/node/node_modules/.installed
COMPILED := $(shell grep -o '"src/moldau/[a-z0-9_/]*\.py"' setup.py | tr -d '"')
COMPAT_REPORT := .cache/compat-report.json
PYTHON_PATHS := src tests bench tools setup.py

# How many processes `make test` divides the tests among; each starts brokers and JVMs of its own.
PROCESSES ?= 2

# Options for `make run` and `make test`, e.g. make run ARGS="--port 9192", make test ARGS="-k compat".
ARGS ?=

# Every broker, command and Spark worker starts from bytecode, as an installed package does, whatever the shell has set.
unexport PYTHONDONTWRITEBYTECODE

PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.PHONY: help
help: ## Show this list
	@echo "Moldau: make <target>"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 26

# --- Installing ------------------------------------------------------------------------------------------------------

.PHONY: install
install: $(VENV)/.dev ## Create .venv with Moldau and everything for development

.PHONY: run
run: $(VENV)/.runtime ## Install what a broker needs, then start one (ARGS="--port 9192")
	@exec $(BIN)/moldau up $(ARGS)

$(BIN)/python:
	@tools/system-packages python
	@echo "Creating $(VENV)"
	@"$$(tools/find-python)" -m venv $(VENV)
	@$(PIP) install --upgrade pip

$(VENV)/.runtime: pyproject.toml setup.py | $(BIN)/python
	@echo "Installing Moldau into $(VENV); a C compiler, if there is one, makes it fast, which takes a minute or two"
	@$(PIP) install --editable .
	@touch $@

.PHONY: spark
spark: $(VENV)/.spark ## Install what pipelines need: PySpark, and Java if there is none

# What is installed is extended, not built again.
$(VENV)/.spark: $(VENV)/.runtime
	@tools/system-packages java
	@echo "Installing PySpark into $(VENV)"
	@$(PIP) install 'moldau[spark]'
	@touch $@

# The compiler comes first, so that the per-record modules are compiled and the tests cover both ways of running them.
$(VENV)/.dev: pyproject.toml setup.py | $(BIN)/python
	@tools/system-packages compiler
	@echo "Installing Moldau and its development tools into $(VENV)"
	@$(PIP) install --editable '.[dev]'
	@touch $(VENV)/.runtime $(VENV)/.compiled $@

# A compiled module hides its source: build again when the source is newer.
$(VENV)/.compiled: $(COMPILED) | $(VENV)/.dev
	@echo "Compiling the per-record modules"
	@$(PIP) install --no-deps --editable .
	@touch $@

# Copies the jars that the pom $(2) lists into $(1).
define copy_jars
	@tools/system-packages java maven
	@echo "Copying the jars of $(2) into $(1)"
	@rm -rf $(1) && mkdir -p .cache
	@mvn --quiet --batch-mode --file $(2) \
	    org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies \
	    -DoutputDirectory="$(CURDIR)/$(1)" -DincludeScope=runtime -Dkafka.version=$(KAFKA_VERSION) \
	    -Ddelta.version=$(DELTA_VERSION) -Diceberg.version=$(ICEBERG_VERSION) \
	    -Dspark.release=$(basename $(PYSPARK_OLDEST)) \
	    > .cache/maven.log 2>&1 || { cat .cache/maven.log; exit 1; }
	@touch $@
endef

.PHONY: kafka
kafka: $(KAFKA_JARS)/.complete ## Copy Apache Kafka's jars into .cache, for tests and benchmarks

$(KAFKA_JARS)/.complete: tests/java/pom.xml
	$(call copy_jars,$(KAFKA_JARS),tests/java/pom.xml)

.PHONY: kafka-suite-jars
kafka-suite-jars: $(SUITE_JARS)/.complete ## Copy Apache Kafka's own integration tests into .cache

$(SUITE_JARS)/.complete: tests/kafka_suite/pom.xml tests/java/pom.xml
	$(call copy_jars,$(SUITE_JARS),tests/kafka_suite/pom.xml)

.PHONY: zookeeper
zookeeper: $(ZOOKEEPER_JARS)/.complete ## Copy Apache ZooKeeper's jars into .cache, for tests

$(ZOOKEEPER_JARS)/.complete: tests/java/zookeeper/pom.xml
	$(call copy_jars,$(ZOOKEEPER_JARS),tests/java/zookeeper/pom.xml)

.PHONY: spark-connector
spark-connector: $(CONNECTOR_JARS)/.complete ## Copy the jars of Spark's own Kafka connector into .cache, for benchmarks

$(CONNECTOR_JARS)/.complete: tests/java/spark/pom.xml
	$(call copy_jars,$(CONNECTOR_JARS),tests/java/spark/pom.xml)

.PHONY: lakehouse
lakehouse: $(LAKEHOUSE_JARS)/.complete ## Copy the jars of Delta Lake and Apache Iceberg into .cache, for tests

$(LAKEHOUSE_JARS)/.complete: tests/java/lakehouse/pom.xml
	$(call copy_jars,$(LAKEHOUSE_JARS),tests/java/lakehouse/pom.xml)

# Releases of PySpark beside the one in .venv, each in a folder of its own.
.cache/pyspark-%/.complete: | $(BIN)/python
	@echo "Installing PySpark $* into .cache"
	@rm -rf .cache/pyspark-$* && mkdir -p .cache
	@$(PIP) install --no-deps --target .cache/pyspark-$* pyspark==$*
	@touch $@

# Without it the JVMs of Spark start more slowly, and nothing else.
.cache/spark-classes.jsa: tests/spark/class_archive.py | install
	@tools/system-packages java
	@echo "Archiving the classes of Spark"
	@mkdir -p .cache
	@$(BIN)/python -m tests.spark.class_archive > .cache/spark-classes.log 2>&1 || touch $@

# No lock file: it would pin download addresses. package.json pins the versions.
$(KAFKAJS): tests/node/package.json
	@tools/system-packages node
	@echo "Installing kafkajs"
	@cd tests/node && npm install --silent --no-package-lock --no-audit --no-fund --no-update-notifier
	@touch $@

.PHONY: test-tools
test-tools: install $(VENV)/.compiled kafka kafka-suite-jars zookeeper lakehouse $(KAFKAJS) .cache/pyspark-$(PYSPARK_OLDEST)/.complete .cache/spark-classes.jsa
	@tools/system-packages java node kcat postgresql openssl chromium

# Clients of others that are tried on a cluster, too: by `make test` what takes seconds, by `make test-three-brokers` all.
# The other files of tests/compat look at what one broker answers, or into its directory. One file is much longer than the
# others, and they share nothing but the cluster of their process: `make test` divides single tests.
GROUPS_TOGETHER := tests/compat/test_groups_members.py::test_members_share_the_partitions_and_consume_everything_once
ON_THREE_BROKERS := tests/compat/test_records.py tests/compat/test_admin.py tests/compat/test_groups_commands.py $(GROUPS_TOGETHER)
ALL_ON_THREE_BROKERS := $(addprefix tests/compat/test_, $(addsuffix .py, records admin client_quotas java_tools offsets_answers \
    group_configs groups_answers groups_commands groups_directory groups_members groups_migration groups_tools))

# --- Checking --------------------------------------------------------------------------------------------------------

.PHONY: test
test: test-tools check ## Install the test tools, then run all checks and all tests
	@$(BIN)/pytest -n $(PROCESSES) --dist loadfile --no-loadscope-reorder --compat-report=$(COMPAT_REPORT) $(ARGS)
	@test -n "$(ARGS)" || $(BIN)/python tools/compat_table.py --check $(COMPAT_REPORT)
	@test -n "$(ARGS)" || $(BIN)/pytest -n $(PROCESSES) --dist worksteal $(ON_THREE_BROKERS) --target=cluster

.PHONY: test-three-brokers
test-three-brokers: test-tools ## Run all clients, with groups that live long, on three brokers with three replicas
	@$(BIN)/pytest -n $(PROCESSES) --dist loadfile $(ALL_ON_THREE_BROKERS) --target=cluster $(ARGS)

.PHONY: test-pyspark-releases
test-pyspark-releases: test-tools $(PYSPARK_RELEASES:%=.cache/pyspark-%/.complete) ## Run the data source on every release of PySpark that it is for
	@$(BIN)/pytest tests/spark/test_pyspark_releases.py $(ARGS)

.PHONY: check
check: install ## Formatting, lint, types, layers, known vulnerabilities of what a release installs
	@$(BIN)/ruff format --quiet --check $(wildcard $(PYTHON_PATHS))
	@$(BIN)/ruff check --quiet $(wildcard $(PYTHON_PATHS))
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo > .lint-imports.log || { cat .lint-imports.log; exit 1; }
	@rm -f .lint-imports.log
	@echo "Checks passed"
	@$(BIN)/python tools/audit.py

# What a release is installed with: every extra that users have, each file by its hash, for all platforms.
RELEASED_EXTRAS := arrow claim-check mailalert postgresql spark tls

.PHONY: constraints
constraints: install ## Write constraints.txt anew: the newest versions of all dependencies, with hashes
	@$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	    $(addprefix --extra ,$(RELEASED_EXTRAS)) --custom-compile-command "make constraints" \
	    --output-file constraints.txt pyproject.toml

.PHONY: format
format: install ## Rewrite the sources in the project's format
	@$(BIN)/ruff format --quiet $(wildcard $(PYTHON_PATHS))
	@$(BIN)/ruff check --quiet --fix $(wildcard $(PYTHON_PATHS))

.PHONY: bench
bench: test-tools spark-connector ## Compare with Apache Kafka on this machine; writes docs/benchmarks.md (ARGS="broker --quick")
	@$(BIN)/python -m bench $(ARGS)

.PHONY: flamegraph
flamegraph: install $(VENV)/.compiled ## Draw where a broker's time goes when it takes and gives records, into docs/pictures
	@$(BIN)/python -m bench.flame $(ARGS)

# Lists of tests/kafka_suite/lists, or classes and methods of Kafka's tests.
LISTS ?= core

.PHONY: kafka-suite
kafka-suite: install $(VENV)/.compiled kafka-suite-jars ## Apache Kafka's own integration tests on Moldau (LISTS="core streams"; ARGS="--control": on Kafka)
	@$(BIN)/python -m tests.kafka_suite $(ARGS) $(LISTS)

.PHONY: soak
soak: test-tools ## The long runs: fuzzing, every crash round, all of Kafka's tests that can run, more examples of every property
	@$(MAKE) fuzz ARGS=
	@MOLDAU_SOAK=1 $(BIN)/pytest tests/cluster tests/kafka_suite tests/spark tests/unit/replication $(ARGS)

# There is no wheel of atheris for every machine that Moldau is for: only who fuzzes needs one.
FUZZ_TOOLS = $(shell sed -n 's/^fuzz = \["\(.*\)"\].*/\1/p' pyproject.toml)

$(VENV)/.fuzz: pyproject.toml | $(VENV)/.dev
	@echo "Installing $(FUZZ_TOOLS) into $(VENV)"
	@$(PIP) install --only-binary :all: '$(FUZZ_TOOLS)'
	@touch $@

# For each target of tests/fuzz, with what earlier runs found worth keeping.
FUZZ_MINUTES ?= 10

.PHONY: fuzz
fuzz: $(VENV)/.fuzz $(VENV)/.compiled ## Bytes that nobody thought of, guided by what they reach (FUZZ_MINUTES=10, ARGS="batches")
	@$(BIN)/python -m tests.fuzz --minutes $(FUZZ_MINUTES) $(ARGS)

# Lives on all cores: for MINUTES, or so many as LIVES says. A life that breaks a promise is told by its seed.
MINUTES ?= 10
FIRST ?= $(shell date +%s)

.PHONY: simulate
simulate: install $(VENV)/.compiled ## Lives of a broker, then of clusters, in virtual time, seed after seed (MINUTES=10 for each, or LIVES=1000; FIRST=seed)
	@$(BIN)/python -m moldau.testing.simulation --first $(FIRST) $(if $(LIVES),--lives $(LIVES),--minutes $(MINUTES)) $(ARGS)
	@$(BIN)/python -m moldau.testing.simulation --cluster --first $(FIRST) $(if $(LIVES),--lives $(LIVES),--minutes $(MINUTES)) $(ARGS)

.PHONY: docs
docs: test-tools ## Run the compatibility tests and write the generated pages
	@$(BIN)/python -m moldau.config.docs > docs/configuration.md
	@$(BIN)/python -m moldau.client.settings.docs > docs/client-settings.md
	@$(BIN)/pytest tests/compat --compat-report=$(COMPAT_REPORT) $(ARGS)
	@$(BIN)/python tools/compat_table.py $(COMPAT_REPORT)

.PHONY: clean
clean: ## Remove everything that make created, but no data directory
	@rm -rf $(VENV) .cache build dist tests/node/node_modules
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find src -name '*.so' -delete
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
