/*-------------------------------------------------------------------------
 *
 * key.c
 *	  The column of the names: its type, its values as text, and how they are compared.
 *
 * The owner of the table chooses the type of the column, and may have made functions,
 * operators, casts and checks for it.  A user who looks for a file, perhaps a superuser,
 * must call none of them.  So names are compared with the equality of the type's default
 * B-tree operator class, as a unique index does.  The statement names that operator with
 * its schema, and the arguments have exactly its types; for a domain the base type counts.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>

#include "answer.h"
#include "session.h"
#include "text.h"

/* columns of the statement below */
enum
{
	KEY_TYPE,
	KEY_TYPE_BUILT_IN,
	KEY_EQUALITY_TYPE,
	KEY_EQUALITY
};

/*
 * For the type with OID $1: its name (the base type of a domain); whether casts from it
 * are PostgreSQL's own; the argument type and the operator to compare with.
 *
 * The operator class is found as GetDefaultOpClass() does: it belongs to the type itself,
 * or to a type that it is binary coercible to, as varchar is to text.  Only superusers can
 * make operator classes, and casts without a function.  Classes of polymorphic types are
 * left out.  A built-in type without its own class (an array, a range) is compared with an
 * operator of pg_catalog, where no user can create one.  Enums, composites, arrays and
 * ranges of users have no equality here: their owner can make casts to the argument types
 * of other operators, and even the input of a value can run the check of a domain in it.
 */
static const char find_equality[] =
	"WITH RECURSIVE chain (oid, typbasetype, typtype) AS ("
	" SELECT t.oid, t.typbasetype, t.typtype FROM pg_catalog.pg_type t"
	"  WHERE t.oid OPERATOR(pg_catalog.=) $1::pg_catalog.oid"
	" UNION ALL SELECT t.oid, t.typbasetype, t.typtype FROM chain d"
	"  JOIN pg_catalog.pg_type t ON t.oid OPERATOR(pg_catalog.=) d.typbasetype"
	"  WHERE d.typtype OPERATOR(pg_catalog.=) 'd'),"
	" base (oid, name, built_in) AS ("
	" SELECT t.oid, pg_catalog.format('%I.%I', n.nspname, t.typname),"
	"  n.nspname OPERATOR(pg_catalog.=) 'pg_catalog'"
	" FROM chain d"
	"  JOIN pg_catalog.pg_type t ON t.oid OPERATOR(pg_catalog.=) d.oid"
	"  JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) t.typnamespace"
	" WHERE d.typtype OPERATOR(pg_catalog.<>) 'd'),"
	" equality (type, operator) AS ("
	" SELECT pg_catalog.format('%I.%I', tn.nspname, t.typname), pg_catalog.format('%I.%s', pn.nspname, p.oprname)"
	" FROM base b"
	"  JOIN pg_catalog.pg_opclass o ON o.opcdefault AND (o.opcintype OPERATOR(pg_catalog.=) b.oid OR EXISTS"
	"   (SELECT FROM pg_catalog.pg_cast c WHERE c.castsource OPERATOR(pg_catalog.=) b.oid"
	"    AND c.casttarget OPERATOR(pg_catalog.=) o.opcintype"
	"    AND c.castmethod OPERATOR(pg_catalog.=) 'b' AND c.castcontext OPERATOR(pg_catalog.=) 'i'))"
	"  JOIN pg_catalog.pg_am m ON m.oid OPERATOR(pg_catalog.=) o.opcmethod AND m.amname OPERATOR(pg_catalog.=) 'btree'"
	"  JOIN pg_catalog.pg_type t ON t.oid OPERATOR(pg_catalog.=) o.opcintype"
	"  JOIN pg_catalog.pg_namespace tn ON tn.oid OPERATOR(pg_catalog.=) t.typnamespace"
	"  JOIN pg_catalog.pg_amop a ON a.amopfamily OPERATOR(pg_catalog.=) o.opcfamily"
	"   AND a.amoplefttype OPERATOR(pg_catalog.=) t.oid AND a.amoprighttype OPERATOR(pg_catalog.=) t.oid"
	"   AND a.amopstrategy OPERATOR(pg_catalog.=) 3"	/* BTEqualStrategyNumber */
	"  JOIN pg_catalog.pg_operator p ON p.oid OPERATOR(pg_catalog.=) a.amopopr"
	"  JOIN pg_catalog.pg_namespace pn ON pn.oid OPERATOR(pg_catalog.=) p.oprnamespace"
	" ORDER BY t.oid OPERATOR(pg_catalog.=) b.oid DESC, t.typispreferred DESC LIMIT 1)"
	" SELECT b.name, b.built_in,"
	"  COALESCE(e.type, CASE WHEN b.built_in THEN b.name END), COALESCE(e.operator, 'pg_catalog.=')"
	" FROM base b LEFT JOIN equality e ON true";

/*
 * The name as text.  The owner of a type can make a cast from it to text; concat()
 * calls the output function, which only a superuser can make.
 */
static char *
text_of_key(const PGresult *found, const char *key)
{
	if (PQgetvalue(found, 0, KEY_TYPE_BUILT_IN)[0] == 't')
		return text_make("%s::pg_catalog.text", key);
	return text_make("CASE WHEN %s IS NULL THEN NULL ELSE pg_catalog.concat(%s) END", key, key);
}

/* The condition that the key is a text; compares as text if the type has no safe equality. */
static char *
compare_key(const PGresult *found, const char *key, const char *key_text, const char *text)
{
	const char *type = PQgetvalue(found, 0, KEY_EQUALITY_TYPE);

	if (PQgetisnull(found, 0, KEY_EQUALITY_TYPE))
		return text_make("%s OPERATOR(pg_catalog.=) %s::pg_catalog.text", key_text, text);
	return text_make("%s::%s OPERATOR(%s) %s::%s::%s", key, type,
					 PQgetvalue(found, 0, KEY_EQUALITY), text,
					 PQgetvalue(found, 0, KEY_TYPE), type);
}

/* The condition that the key is one of the array $1, compared likewise. */
static char *
compare_any(const PGresult *found, const char *key, const char *key_text)
{
	const char *type = PQgetvalue(found, 0, KEY_EQUALITY_TYPE);

	if (PQgetisnull(found, 0, KEY_EQUALITY_TYPE))
		return text_make("%s OPERATOR(pg_catalog.=) ANY ($1::pg_catalog.text[])", key_text);
	return text_make("%s::%s OPERATOR(%s) ANY ($1::%s[]::%s[])", key, type,
					 PQgetvalue(found, 0, KEY_EQUALITY), PQgetvalue(found, 0, KEY_TYPE), type);
}

/* They come from the server, and become a part of statements. */
static bool
names_are_names(const PGresult *found)
{
	return answer_is_name(PQgetvalue(found, 0, KEY_TYPE)) &&
		(PQgetisnull(found, 0, KEY_EQUALITY_TYPE) ||
		 answer_is_name(PQgetvalue(found, 0, KEY_EQUALITY_TYPE))) &&
		answer_is_operator(PQgetvalue(found, 0, KEY_EQUALITY));
}

/* Ask for the equality of a type; NULL after a failure. */
static PGresult *
ask_equality(Session *session, const char *type_oid, const char *key, Failure *failure)
{
	const char *const values[] = {type_oid};
	PGresult   *found = session_rows(session, failure, 4, find_equality, 1, values);

	if (found == NULL)
		return NULL;
	if (PQntuples(found) != 1)
		failure_say(failure, "the type of column %s is not there any more", key);
	else if (!names_are_names(found))
		failure_say(failure, "the server sent a name that cannot be one");
	else
		return found;
	PQclear(found);
	return NULL;
}

static KeyComparison
compare(const PGresult *found, const char *key, const char *text)
{
	bool		as_text = PQgetisnull(found, 0, KEY_EQUALITY_TYPE);
	KeyComparison comparison;

	comparison.text = text_of_key(found, key);
	comparison.condition = compare_key(found, key, comparison.text, text);
	comparison.type = text_make("%s", as_text ? "pg_catalog.text" :
								PQgetvalue(found, 0, KEY_TYPE));
	comparison.any = compare_any(found, key, comparison.text);
	return comparison;
}

bool
key_compare(Session *session, const char *type_oid, const char *key, const char *text,
			KeyComparison *comparison, Failure *failure)
{
	PGresult   *found = ask_equality(session, type_oid, key, failure);

	if (found == NULL)
		return false;
	*comparison = compare(found, key, text);
	PQclear(found);
	return true;
}

bool
key_describe(Session *session, const char *type_oid, Target *target, Failure *failure)
{
	PGresult   *found = ask_equality(session, type_oid, target->key, failure);
	KeyComparison one;
	KeyComparison many;

	if (found == NULL)
		return false;
	one = compare(found, target->key, "$1");
	many = compare(found, target->key, ASKED_NAME);
	PQclear(found);
	target->key_text = one.text;
	target->key_type = one.type;
	target->key_is_name = one.condition;
	target->key_is_any = one.any;
	target->key_is_asked = many.condition;
	free(many.any);
	free(many.type);
	free(many.text);
	return true;
}
