# securefile: a column type for files.
#
#	make, make install, make installcheck	as with every PGXS extension; with the
#			client library, see client/Makefile
#	make check			all tests, in a private installation: no root needed
#	make check-long		the long loops
#	make demo			a throw-away server with real files in it (see demo/demo.sh)
#	make bench			speed beside bytea and large objects (see bench/run)
#	make lint			cheap checks of the sources
#	make FAULTS=1		with fault points, for tests (make clean first)
#	make SANITIZE=1		with the address and undefined behaviour sanitizers, for
#			servers that have their libraries preloaded (see doc/testing.md)

MODULE_big = securefile
OBJS = $(patsubst %.c,%.o,$(sort $(wildcard src/*.c src/*/*.c)))

EXTENSION = securefile
DATA = securefile--1.0.sql

# by name, in this order; they need shared_preload_libraries = 'securefile'
REGRESS = \
	type \
	type_options \
	stats \
	ddl_create \
	ddl_alter \
	ddl_triggers \
	ddl_refuse \
	gather \
	chunks \
	usage \
	security \
	edited
REGRESS_OPTS = --load-extension=securefile

ISOLATION = \
	snapshot_read \
	savepoint_read \
	writers \
	edits
ISOLATION_OPTS = --inputdir=test/isolation --load-extension=securefile

PG_CPPFLAGS = -I$(srcdir)/src
PG_CFLAGS = -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare \
	-Wno-missing-field-initializers -Wno-cast-function-type
ifdef FAULTS
PG_CPPFLAGS += -DSF_FAULTS
endif
SANITIZERS =
ifdef SANITIZE
SANITIZERS = -fsanitize=address,undefined -fno-sanitize-recover=undefined
PG_CFLAGS += -O1 -fno-omit-frame-pointer $(SANITIZERS)
endif
SHLIB_LINK = $(SANITIZERS) -laio -luring -lxxhash -lsodium \
	-Wl,--version-script=$(srcdir)/src/exports.map

# no function here is worth inlining into a JIT-compiled expression
override with_llvm = no

PG_CONFIG ?= pg_config

# PGXS has a check target that only says no, so goals of our own keep it out
OWN_GOALS = check check-long lint demo bench
.PHONY: $(OWN_GOALS)

ifeq ($(filter $(OWN_GOALS),$(MAKECMDGOALS)),)

PGXS := $(wildcard $(shell $(PG_CONFIG) --pgxs 2>/dev/null))
ifeq ($(PGXS),)
$(error $(PG_CONFIG) leads to no PGXS: install postgresql-server-dev-15, or set PG_CONFIG)
endif
include $(PGXS)

# PGXS follows no headers
$(OBJS): $(wildcard src/*.h src/*/*.h)
$(shlib): src/exports.map

# what is outside the server has a Makefile of its own
CLIENT_GOALS = client-all client-install client-uninstall client-clean
.PHONY: $(CLIENT_GOALS)
all: client-all
install: client-install
uninstall: client-uninstall
clean: client-clean
$(CLIENT_GOALS): client-%:
	$(MAKE) -C $(srcdir)/client $* PG_CONFIG='$(PG_CONFIG)'

else

$(filter-out $(OWN_GOALS),$(MAKECMDGOALS)):
	$(MAKE) $@

check check-long:
	@PG_CONFIG='$(PG_CONFIG)' REGRESS='$(REGRESS)' ISOLATION='$(ISOLATION)' test/run $@

lint:
	@test/lint

demo:
	@PG_CONFIG='$(PG_CONFIG)' demo/demo.sh

bench:
	@PG_CONFIG='$(PG_CONFIG)' bench/run; first=$$?; \
	PG_CONFIG='$(PG_CONFIG)' bench/run --stream && exit $$first

endif
