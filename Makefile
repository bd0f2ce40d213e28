# securefile: a column type for files.
#
#	make, make install, make installcheck	as with every PGXS extension; with the
#			client library and the command, see client/Makefile
#	make install-server, make install-client	one of the two; NO_CLIENT=1 leaves
#			the client out of all targets
#	make -f DIR/Makefile	builds in the current directory, from the sources in DIR, where
#			nothing may have been built
#	make dist		the sources as an archive, as PGXN takes it
#	make check			all tests, in a private installation: no root needed
#	make check-long		the long loops
#	make demo			a throw-away server with real files in it (see demo/demo.sh)
#	make demo-scale		files on two workers of Citus, a move, the loss of a worker (see demo/scale.py)
#	make bench			speed beside bytea, large objects and files (see bench/run)
#	make bench QUICK=1	the same, in a quarter of an hour
#	make lint			cheap checks of the sources
#	make indent			puts the C files in the layout that make lint asks for
#	make COUNT=1		with every function as one that is called, for test/count
#	make FAULTS=1		with fault points, for tests (make clean first)
#	make NO_LZ4=1		without liblz4; NO_ZSTD=1: without libzstd; NO_OPENSSL=1: without libcrypto;
#			NO_CURL=1: without libcurl (the command fetches no URLs)
#	make NO_PYTHON=1	without the extension securefile_plpython3u, as where the headers of
#			Python are missing
#	make WERROR=1		warnings are errors
#	make SANITIZE=1		with the address and undefined behaviour sanitizers, for
#			servers that have their libraries preloaded (see doc/testing.md)

MODULE_big = securefile
OBJS = $(patsubst $(srcdir)/%.c,%.o,$(sort $(wildcard $(srcdir)/src/*.c $(srcdir)/src/*/*.c)))

EXTENSION = securefile securefile_citus
DATA = securefile--1.0.sql securefile_citus--1.0.sql

# by name, in this order; they need shared_preload_libraries = 'securefile'
REGRESS = \
	type \
	type_options \
	operators \
	stats \
	ddl_create \
	ddl_alter \
	ddl_triggers \
	ddl_refuse \
	ddl_taken \
	gather \
	chunks \
	digest \
	search \
	usage \
	storage \
	estimate \
	security \
	edited \
	lob
REGRESS_OPTS = --load-extension=securefile

ISOLATION = \
	snapshot_read \
	savepoint_read \
	writers \
	edits \
	appends
ISOLATION_OPTS = --inputdir=test/isolation --load-extension=securefile

# libraries of compression; without one, the option words that need it are refused
ifndef NO_LZ4
CODEC_FLAGS += -DSF_LZ4
CODEC_LIBS += -llz4
endif
ifndef NO_ZSTD
CODEC_FLAGS += -DSF_ZSTD
CODEC_LIBS += -lzstd
endif

# library of the faster cipher
ifndef NO_OPENSSL
CODEC_FLAGS += -DSF_OPENSSL
CODEC_LIBS += -lcrypto
endif

PG_CPPFLAGS = -I$(srcdir)/src $(CODEC_FLAGS) -DSF_VERSION='"$(version)"'
PG_CFLAGS = -Wextra -Wno-unused-parameter -Wno-sign-compare \
	-Wno-missing-field-initializers -Wno-cast-function-type
# the server may have been built with another compiler; its flags and headers tell
ifneq ($(findstring clang,$(CC)),)
PG_CFLAGS += -Wno-unknown-warning-option -Wno-ignored-optimization-argument \
	-Wno-ignored-attributes
endif
ifdef WERROR
PG_CFLAGS += -Werror
endif
ifdef FAULTS
PG_CPPFLAGS += -DSF_FAULTS
endif
# with fault points also what modules of tests call
exports = $(if $(FAULTS),test/modules/exports.map,src/exports.map)
SANITIZERS =
ifdef SANITIZE
SANITIZERS = -fsanitize=address,undefined -fno-sanitize-recover=undefined
PG_CFLAGS += -O1 -fno-omit-frame-pointer $(SANITIZERS)
endif
ifdef COUNT
PG_CFLAGS += -O1 -fno-inline
endif
SHLIB_LINK = $(SANITIZERS) -laio -luring -lxxhash -lsodium $(CODEC_LIBS) \
	-Wl,--version-script=$(srcdir)/$(exports)

# no function here is worth inlining into a JIT-compiled expression
override with_llvm = no

PG_CONFIG ?= pg_config

# where this file is, with a slash, or nothing
here := $(filter-out ./,$(dir $(firstword $(MAKEFILE_LIST))))

# of the library, and so of all: test/lint compares what else names a version
version := $(shell sed -n 's/^   "version": "\(.*\)",$$/\1/p' $(here)META.json)

# PGXS has a check target that only says no, so goals of our own keep it out
OWN_GOALS = check check-long lint indent demo demo-scale bench dist
.PHONY: $(OWN_GOALS)

ifeq ($(filter $(OWN_GOALS),$(MAKECMDGOALS)),)

PGXS := $(wildcard $(shell $(PG_CONFIG) --pgxs 2>/dev/null))
ifeq ($(PGXS),)
$(error $(PG_CONFIG) leads to no PGXS: install the headers of the server (on Debian postgresql-server-dev-15 and so on), or set PG_CONFIG)
endif
# a server that was configured in its source directory does not say so by itself
ifneq ($(here),)
VPATH = $(patsubst %/,%,$(here))
endif
include $(PGXS)
ifdef FAULTS
# 16 and later hide what the map has for modules of tests
override CFLAGS += -fvisibility=default
endif

# numbers of 64 bits are passed by value, and lengths are kept in size_t
ifeq ($(shell echo __SIZEOF_POINTER__ | $(CC) $(CFLAGS) -E -P - 2>/dev/null),4)
$(error securefile needs a 64-bit machine, and $(CC) compiles for one of 32 bits)
endif

# the transform for PL/Python: a library of its own, since only that one is to need Python's,
# and only where there are the headers of Python and of the server's PL/Python
PYTHON_HEADERS = $(and $(filter yes,$(with_python)),$(wildcard $(includedir_server)/plpython.h),$(wildcard $(patsubst -I%,%/Python.h,$(python_includespec))))
ifneq ($(if $(NO_PYTHON),,$(PYTHON_HEADERS)),)
EXTENSION += securefile_plpython3u
DATA += securefile_plpython3u--1.0.sql
PYTHON_LIB = plpython/securefile_plpython3$(DLSUFFIX)
.PHONY: install-python uninstall-python clean-python
all: $(PYTHON_LIB)
install: install-python
uninstall: uninstall-python
clean: clean-python
$(PYTHON_LIB): $(srcdir)/plpython/plpython.c
	$(MKDIR_P) $(@D)
	$(CC) $(CPPFLAGS) $(python_includespec) $(CFLAGS) $(CFLAGS_SL) -shared -o $@ $< $(LDFLAGS) $(LDFLAGS_SL) $(python_libspec)
install-python: $(PYTHON_LIB)
	$(MKDIR_P) '$(DESTDIR)$(pkglibdir)'
	$(INSTALL_SHLIB) $(PYTHON_LIB) '$(DESTDIR)$(pkglibdir)/'
uninstall-python:
	rm -f '$(DESTDIR)$(pkglibdir)/$(notdir $(PYTHON_LIB))'
clean-python:
	rm -f $(PYTHON_LIB)
endif

# make would take what was built there, with whatever options, for what is to be built here
ifneq ($(realpath $(srcdir)),$(realpath .))
BUILT := $(wildcard $(addprefix $(abspath $(srcdir))/,*.so plpython/*.so src/*.o src/*/*.o))
ifneq ($(BUILT),)
$(error the source directory was built in, it has $(firstword $(BUILT)): run make clean there first)
endif
endif

# PGXS follows no headers, and makes no directories
$(OBJS): $(wildcard $(srcdir)/src/*.h $(srcdir)/src/*/*.h)
$(shlib): $(srcdir)/$(exports)
$(shell mkdir -p $(sort $(dir $(OBJS))))

# as the sources have them, since they refer to each other
DOCUMENTS = README.md CHANGELOG.md LICENSE $(patsubst $(srcdir)/%,%, \
	$(wildcard $(srcdir)/doc/*.md $(srcdir)/doc/keys/*.sh $(srcdir)/client/examples/*.c $(srcdir)/client/examples/Makefile \
	$(srcdir)/client/lib/pgsecurefile.h $(srcdir)/src/io/README.md \
	$(srcdir)/bench/results/*/matrix.md $(srcdir)/bench/results/*/summary.svg))
documents = $(DESTDIR)$(docdir)/securefile
install: install-documents
uninstall: uninstall-documents
.PHONY: install-documents uninstall-documents
install-documents:
	cd '$(srcdir)' && for path in $(DOCUMENTS); do \
		$(INSTALL) -D -m 644 "$$path" '$(abspath $(documents))'/"$$path" || exit 1; done
uninstall-documents:
	rm -rf '$(documents)'

# what is outside the server has a Makefile of its own
CLIENT_GOALS = client-all client-install client-uninstall client-clean
.PHONY: $(CLIENT_GOALS) install-server install-client
ifndef NO_CLIENT
all: client-all
install: client-install
uninstall: client-uninstall
clean: client-clean
endif
$(CLIENT_GOALS): client-%:
	mkdir -p client
	$(MAKE) -C client -f '$(abspath $(srcdir))/client/Makefile' $* PG_CONFIG='$(PG_CONFIG)'
install-server:
	$(MAKE) -f $(firstword $(MAKEFILE_LIST)) install NO_CLIENT=1
install-client: client-install
# one after the other, since both build what is not built
client-install: client-all

else

$(filter-out $(OWN_GOALS),$(MAKECMDGOALS)):
	$(MAKE) $@

check check-long:
	@PG_CONFIG='$(PG_CONFIG)' REGRESS='$(REGRESS)' ISOLATION='$(ISOLATION)' $(here)test/run $@

lint:
	@$(here)test/lint

indent:
	@$(here)test/indent

demo:
	@PG_CONFIG='$(PG_CONFIG)' $(here)demo/demo.sh

demo-scale:
	@PG_CONFIG='$(PG_CONFIG)' $(here)demo/scale.py

bench:
	@PG_CONFIG='$(PG_CONFIG)' $(here)bench/run --all $(if $(QUICK),--quick)

# of what is committed
dist:
	git -C '$(or $(here),.)' archive --format=zip --prefix=securefile-$(version)/ HEAD >securefile-$(version).zip

endif
