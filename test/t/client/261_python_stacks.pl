# The Python package pgsecurefile as it is installed: sdist and wheel are built, and the wheel
# goes into an empty environment; the file system of fsspec, with pandas and pyarrow, the type
# of SQLAlchemy with Alembic, Django, Starlette, the programs of doc/drivers.md, a video in
# headless Chromium, where it is there, PgBouncer; the core again on psycopg's binary form;
# mypy and ruff.  In check-long, or where SECUREFILE_STACK is "python" or SECUREFILE_PAYLOADS
# is set.
# Takes long.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use PostgreSQL::Test::Utils;
use SecurefilePython;
use Test::More;

plan skip_all => 'a part of make check-long' unless $ENV{SECUREFILE_PAYLOADS} || ($ENV{SECUREFILE_STACK} // '') eq 'python';

my $where = PostgreSQL::Test::Utils::tempdir();
my @packages = ('psycopg[binary,pool]', qw(fsspec pandas pyarrow SQLAlchemy alembic Django starlette httpx2 python-multipart fastapi uvicorn mypy ruff));
local $ENV{HOME} = $where;
my $said = `"$FindBin::RealBin/../../../clients/python/tests/environment" "$where" @packages 2>&1`;
plan skip_all => $said if $? >> 8 == 2;
is($?, 0, 'the package is built and installed') or BAIL_OUT($said);
like($said, qr/pgsecurefile-[\d.]+-py3-none-any\.whl\n.*pgsecurefile-[\d.]+\.tar\.gz/, 'as wheel and sdist');

my @modules = qw(fsspec sqlalchemy django django_site starlette fastapi_app pgbouncer core misuse aio);
try_package("$where/venv/bin/python", "$where/source", map { "test_$_" } @modules);

local $ENV{MYPYPATH} = 'src';
for my $checked ([ 'mypy', 'src/pgsecurefile' ], [ 'ruff', 'check', '.' ], [ 'ruff', 'format', '--check', '.' ])
{
	my $command = join ' ', map { "'$_'" } @$checked;
	$said = `cd '$where/source' && '$where/venv/bin/'$command 2>&1`;
	is($?, 0, "@$checked[0, 1]: nothing is found") or diag($said);
}
done_testing();
