# xmsched: everything is built by go and gcc; this file only names the steps.
#
#   make help     lists the targets
#
# What is built lies in bin/ and lib/, and finds each other by that (../lib).

PREFIX  ?= /usr/local
DESTDIR ?=
GO      ?= go
ifeq ($(origin CC),default)
CC      := gcc
endif

VERSION := $(shell git describe --always --dirty --abbrev=8 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X xmsched/cmd/internal/cli.Version=$(VERSION)
LIB     := $(CURDIR)/lib
TOOL    := $(GO) tool -modfile=tools/go.mod
GENTOOLS := google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc

# protoc writes its version into what it generates, so another version would
# change every file without need.
PROTOC_VERSION := libprotoc 3.21.12
HAVE_PROTOC    := $(filter $(PROTOC_VERSION),$(shell protoc --version 2>/dev/null))

# The C rooms, each with its own Makefile, and where what they build goes.
C_ROOMS := shim/cuda/preload:$(LIB) hal/sim/libcuda:$(LIB)/sim bench/workloads:$(LIB)/bench
# The simulated driver is tested from Go, against a simulated device.
C_TESTED := $(filter-out hal/sim/%,$(C_ROOMS))
c_room   = $(MAKE) -s -j$(shell nproc) -C $(firstword $(subst :, ,$(1))) OUT=$(lastword $(subst :, ,$(1))) CC='$(CC)'

# These rooms start processes, load C libraries or measure time, or are pure and
# have nothing concurrent in them (which cmd/internal/house checks); the race
# detector adds nothing there but delay. All others run under it.
NO_RACE := ^xmsched/(hal/cuda|hal/sim|shim/cuda|shim/python|cmd|nvx/measure|preempt/examples|compute|memory|predictor|nvx/choose)(/|$$)
# Of plane, what goes through minutes on a virtual clock, in one goroutine: twelve times as long with it.
VIRTUAL := ^(TestShares|TestShortHostIsShared)
PLANE   := ^xmsched/xserver/internal/plane$$

PROGRAMS := xserver xcli xrun xbench
ROOMS    := $(filter-out bin/ lib/ dist/ demo-results/,$(wildcard */))

SHELL       := /bin/bash
.SHELLFLAGS := -o pipefail -c
export CGO_ENABLED := 1
.DEFAULT_GOAL := build
.NOTPARALLEL:
.PHONY: build libs demo test lint format vet staticcheck gen check-gen check-c check-go bench cases install uninstall clean help

build: libs ## build everything into bin/ and lib/
	$(GO) build -trimpath -ldflags='$(LDFLAGS)' -o bin/ $(PROGRAMS:%=./cmd/%)

libs:
	@mkdir -p bin $(LIB)/sim $(LIB)/bench
	$(foreach room,$(C_ROOMS),$(call c_room,$(room)) all &&) true
	$(GO) build -trimpath -ldflags='$(LDFLAGS)' -buildmode=c-shared -o $(LIB)/libxagent.so ./shim/cuda/agent
	$(GO) build -trimpath -ldflags='$(LDFLAGS) "-extldflags=-Wl,--version-script=$(CURDIR)/shim/api/exports.map"' -buildmode=c-shared -o $(LIB)/libxmsched_api.so ./shim/api
	@rm -f $(LIB)/libxagent.h $(LIB)/libxmsched_api.h

demo: build ## alone, shared and scheduled side by side, on the GPU or the simulated one
	bin/xbench demo

test: build lint check-gen check-c check-go ## everything that CI checks; ends with the counts

lint: format vet staticcheck ## formatting, go vet, staticcheck

format:
	@bad=$$(gofmt -l $(ROOMS)); if [ -n "$$bad" ]; then echo "gofmt wants changes in:"; echo "$$bad"; exit 1; fi

vet:
	$(GO) vet ./...

staticcheck:
	$(TOOL) staticcheck ./...

gen: ## write the generated files again
	@mkdir -p bin/tools
	$(GO) build -modfile=tools/go.mod -o bin/tools/ $(GENTOOLS)
	PATH='$(CURDIR)/bin/tools':"$$PATH" $(GO) generate $(if $(HAVE_PROTOC),./...,$$($(GO) list ./... | grep -v /xserver/api/))

# Compares the tree before and after, not with the last commit, so that it
# holds in the middle of a change as well.
tree = find $(ROOMS) -type f -print0 | sort -z | xargs -0 sha256sum
check-gen:
	@mkdir -p bin && $(tree) > bin/tree.before
	@$(MAKE) --no-print-directory gen
	@$(tree) > bin/tree.after
	@diff bin/tree.before bin/tree.after || { echo "generated files were out of date: commit what 'make gen' wrote"; exit 1; }
	@rm -f bin/tree.before bin/tree.after
	$(if $(HAVE_PROTOC),,@echo "protobuf files not checked: needs $(PROTOC_VERSION)")

check-c:
	@mkdir -p bin && : > bin/c-tests.log
	$(foreach room,$(C_TESTED),$(call c_room,$(room)) test 2>&1 | tee -a bin/c-tests.log &&) true

# One report of two runs, one after the other: at the same time they starve each
# other's programs. make check-go PACKAGES=./compute/... has a part of it.
PACKAGES ?= ./...
GOTEST    = $(GO) test -json -timeout 14m
check-go: build
	@mkdir -p bin && touch bin/c-tests.log && rm -f bin/go-tests.json
	@packages=$$($(GO) list $(PACKAGES)); status=0; export XMSCHED_TEST_FRESH='$(CURDIR)'; \
	 $(TOOL) gotestsum --format pkgname-and-test-fails --hide-summary skipped --jsonfile bin/go-tests.json --raw-command -- bash -c \
	  "status=0; test() { [ \$$# -eq 2 ] || $(GOTEST) \$$@ || status=1; }; \
	   test -race -run=. $$(grep -Ev '$(NO_RACE)|$(PLANE)' <<<"$$packages" | xargs); \
	   test -race '-skip=$(VIRTUAL)' $$(grep -E '$(PLANE)' <<<"$$packages" | xargs); \
	   test -race=false '-run=$(VIRTUAL)' $$(grep -E '$(PLANE)' <<<"$$packages" | xargs); \
	   test -race=false -run=. $$(grep -E '$(NO_RACE)' <<<"$$packages" | xargs); exit \$$status" || status=1; \
	 awk -f cmd/internal/house/count.awk bin/c-tests.log bin/go-tests.json; \
	 exit $$status

bench: build ## Go benchmarks, then what xbench measures on this machine's device
	$(GO) test -run '^$$' -bench . -benchmem ./compute/... ./preempt/...
	bin/xbench launch
	bin/xbench decision

cases: ## which cases of the list have a test
	@$(GO) run ./cmd/internal/house/cases

install: build ## into $(DESTDIR)$(PREFIX)/bin and .../lib/xmsched
	install -d '$(DESTDIR)$(PREFIX)/bin' '$(DESTDIR)$(PREFIX)/lib/xmsched/sim' '$(DESTDIR)$(PREFIX)/lib/xmsched/bench'
	install -m 755 $(PROGRAMS:%=bin/%) '$(DESTDIR)$(PREFIX)/bin'
	install -m 755 lib/libxmsched.so lib/libxagent.so '$(DESTDIR)$(PREFIX)/lib/xmsched'
	install -D -m 755 lib/libxmsched_api.so '$(DESTDIR)$(PREFIX)/lib/libxmsched_api.so'
	install -D -m 644 shim/include/xmsched.h '$(DESTDIR)$(PREFIX)/include/xmsched.h'
	install -m 755 lib/sim/libcuda.so.1 '$(DESTDIR)$(PREFIX)/lib/xmsched/sim'
	install -m 755 lib/bench/launchloop lib/bench/empty.so '$(DESTDIR)$(PREFIX)/lib/xmsched/bench'

uninstall: ## take away what install put there
	rm -f $(PROGRAMS:%='$(DESTDIR)$(PREFIX)/bin/%')
	rm -f '$(DESTDIR)$(PREFIX)/lib/libxmsched_api.so' '$(DESTDIR)$(PREFIX)/include/xmsched.h'
	rm -rf '$(DESTDIR)$(PREFIX)/lib/xmsched'

clean: ## remove what was built
	$(foreach room,$(C_ROOMS),$(call c_room,$(room)) clean;)
	rm -rf bin lib

help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
