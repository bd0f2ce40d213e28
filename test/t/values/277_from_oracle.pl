# doc/from-oracle.md: every statement of the page works, and prints what the comment behind it
# says; the page has each routine of DBMS_LOB that Oracle documents, and the columns of views
# that it names are there.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SecurefileTest;
use Test::More;

my $page = slurp("$FindBin::RealBin/../../../doc/from-oracle.md");
my $node = new_cluster('from_oracle');

# ---- statements ----
my $blocks = 0;
foreach my $part (split /^(?=#)/m, $page)
{
	my ($section) = $part =~ /^#+ (.*)$/m;
	while ($part =~ /^```sql\n(.*?)^```/msg)
	{
		my $code = $1;
		my ($rc, $out, $err) = $node->psql('postgres', $code);
		is($rc ? $err : $out, join("\n", $code =~ /  -- (.*)$/mg), "$section: block " . ++$blocks);
	}
}
cmp_ok($blocks, '>=', 7, 'the page has statements');

# ---- routines ----
my @routines = qw(APPEND CLOB2FILE CLOSE COMPARE CONVERTTOBLOB CONVERTTOCLOB COPY COPY_DBFS_LINK COPY_FROM_DBFS_LINK
  CREATETEMPORARY DBFS_LINK_GENERATE_PATH ERASE FILECLOSE FILECLOSEALL FILEEXISTS FILEGETNAME FILEISOPEN FILEOPEN
  FRAGMENT_DELETE FRAGMENT_INSERT FRAGMENT_MOVE FRAGMENT_REPLACE FREETEMPORARY GETCHUNKSIZE GETCONTENTTYPE GETLENGTH
  GETOPTIONS GET_DBFS_LINK GET_DBFS_LINK_STATE GET_DEDUPLICATE_REGIONS GET_STORAGE_LIMIT INSTR ISOPEN ISREMOTE ISSECUREFILE ISTEMPORARY
  LOADBLOBFROMFILE LOADCLOBFROMFILE LOADFROMFILE MOVE_TO_DBFS_LINK OPEN READ SETCONTENTTYPE SETOPTIONS SET_DBFS_LINK
  SUBSTR TRIM WRITE WRITEAPPEND);
my $tables = join '', $page =~ /^## (DBMS_LOB.*?)(?=^## )/msg;
is(join(' ', grep { my $name = $_; $tables !~ /^\|[^|]*`$name\b/m } @routines), '', 'each routine of DBMS_LOB has a row');

# ---- columns ----
foreach my $view ([ 'column of `securefile_stat`', 'securefile_stat' ], [ '`securefile_usage\(\)`', "securefile_usage('docs', 'document')" ])
{
	my ($head, $relation) = @$view;
	my ($rows) = $page =~ /^\|[^|\n]*\| $head \|\n\|[-|]*\n(.*?)\n\n/ms;
	my %named = map { $_ => 1 } map { /^\|[^|]*\|(.*)$/ ? $1 =~ /`([a-z_]+)`/g : () } split /\n/, $rows // '';
	delete $named{pg_stat_statements};
	my %there = map { $_ => 1 } split /\n/, $node->safe_psql('postgres', "SELECT jsonb_object_keys(to_jsonb(s)) FROM $relation s WHERE true LIMIT 1000");
	cmp_ok(scalar(keys %named), '>', 3, "the page has columns of $relation");
	is(join(' ', grep { !$there{$_} } sort keys %named), '', "they are there");
}
$node->stop;
done_testing();
