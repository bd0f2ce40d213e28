# The Python package pgsecurefile as it is installed: sdist and wheel are built, and the wheel
# goes into an empty environment; the file system of fsspec, with pandas and pyarrow, the type
# of SQLAlchemy with Alembic, Django, Starlette, PgBouncer; the core again on psycopg's binary
# form; mypy and ruff.  In check-long, or where SECUREFILE_STACK is "python" or
# SECUREFILE_PAYLOADS is set.
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
my @packages = qw(psycopg[binary] fsspec pandas pyarrow SQLAlchemy alembic Django starlette httpx2 python-multipart mypy ruff);
local $ENV{HOME} = $where;
my $said = `"$FindBin::RealBin/../../../clients/python/tests/environment" "$where" @packages 2>&1`;
plan skip_all => $said if $? >> 8 == 2;
is($?, 0, 'the package is built and installed') or BAIL_OUT($said);
like($said, qr/pgsecurefile-[\d.]+-py3-none-any\.whl\n.*pgsecurefile-[\d.]+\.tar\.gz/, 'as wheel and sdist');

try_package("$where/venv/bin/python", "$where/source", 'test_fsspec', 'test_sqlalchemy', 'test_django', 'test_starlette', 'test_pgbouncer',
	'test_core', 'test_misuse', 'test_aio');

local $ENV{MYPYPATH} = 'src';
for my $checked ([ 'mypy', 'src/pgsecurefile' ], [ 'ruff', 'check', '.' ], [ 'ruff', 'format', '--check', '.' ])
{
	my $command = join ' ', map { "'$_'" } @$checked;
	$said = `cd '$where/source' && '$where/venv/bin/'$command 2>&1`;
	is($?, 0, "@$checked[0, 1]: nothing is found") or diag($said);
}
done_testing();
