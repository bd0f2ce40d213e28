# The Python package pgsecurefile on psycopg alone: files, put, get, the type, transactions,
# cancel and lost connections, misuse, and the asynchronous twin (clients/python/tests).

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefilePython;
use Test::More;

my $python = $ENV{PYTHON} || '/usr/bin/python3';
plan skip_all => "$python has no psycopg 3" unless has_modules($python, 'psycopg');

try_package($python, undef, 'test_core', 'test_misuse', 'test_aio');
done_testing();
