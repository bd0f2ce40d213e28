/*-------------------------------------------------------------------------
 *
 * load.c
 *	  Loading the master keys: at start, and when somebody asks for it.
 *
 * All keys of the command's output are taken, or none.  A failure keeps its reason as a
 * kind and a number, not as a text, so that no message can have a byte of the output.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "keys/keys_internal.h"
#include "miscadmin.h"
#include "storage/ipc.h"

/* What is said of each failure; the detail takes its number. */
typedef struct FailureText
{
	int			sqlstate;
	const char *detail;
} FailureText;

#define LINE_DETAIL(text)	gettext_noop("Line %d of its output " text)

static const FailureText texts[] = {
	[SF_KEY_NO_COMMAND] = {ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
		gettext_noop("The setting securefile.key_command is empty.")},
	[SF_KEY_NOT_STARTED] = {ERRCODE_SYSTEM_ERROR, gettext_noop("It could not be started: %s.")},
	[SF_KEY_NOT_READ] = {ERRCODE_SYSTEM_ERROR, gettext_noop("It could not be read from: %s.")},
	[SF_KEY_TIMEOUT] = {ERRCODE_EXTERNAL_ROUTINE_EXCEPTION,
		gettext_noop("It had not ended after %d s (securefile.key_timeout), and was killed.")},
	[SF_KEY_EXIT] = {ERRCODE_EXTERNAL_ROUTINE_EXCEPTION,
		gettext_noop("It ended with exit status %d.")},
	[SF_KEY_SIGNAL] = {ERRCODE_EXTERNAL_ROUTINE_EXCEPTION,
		gettext_noop("It was ended by signal %d.")},
	[SF_KEY_TOO_LONG] = {ERRCODE_PROGRAM_LIMIT_EXCEEDED,
		gettext_noop("Its output is longer than %d bytes.")},
	[SF_KEY_TOO_MANY] = {ERRCODE_PROGRAM_LIMIT_EXCEEDED,
		gettext_noop("Its output has more than %d keys.")},
	[SF_KEY_NONE] = {ERRCODE_INVALID_TEXT_REPRESENTATION, gettext_noop("Its output has no key.")},
	[SF_KEY_BAD_LINE] = {ERRCODE_INVALID_TEXT_REPRESENTATION,
		LINE_DETAIL("is not a name, a blank, and 64 hexadecimal digits.")},
	[SF_KEY_BAD_NAME] = {ERRCODE_INVALID_NAME,
		LINE_DETAIL("has a name of more than 31 bytes, or of other characters than A-Z, a-z, 0-9, \"_\", \".\", \":\" and \"-\".")},
	[SF_KEY_ZEROS] = {ERRCODE_INVALID_TEXT_REPRESENTATION,
		LINE_DETAIL("has a key of all zeros.")},
	[SF_KEY_TWICE] = {ERRCODE_DUPLICATE_OBJECT,
		LINE_DETAIL("has a name that an earlier line has.")},
};

StaticAssertDecl(lengthof(texts) == SF_KEY_FAILURES, "a text for every failure");

/* The detail of a failure, with its number or, where that is an errno, what it means. */
static int
explain(const SfKeyFailure *failure)
{
	const char *detail = _(texts[failure->kind].detail);

	if (failure->kind == SF_KEY_NOT_STARTED || failure->kind == SF_KEY_NOT_READ)
		return errdetail_internal(detail, strerror(failure->number));
	return errdetail_internal(detail, failure->number);
}

static int
advise(const SfKeyFailure *failure)
{
	if (failure->kind == SF_KEY_NO_COMMAND)
		return errhint("Set it in postgresql.conf, and reload the configuration.");
	if (failure->kind < SF_KEY_TOO_LONG)
		return errhint("What the command has said on standard error is in the server log.");
	errhint("The command must print lines \"name key\", each key as 64 hexadecimal digits, and no other lines but empty ones and those that begin with #.");
	return 0;
}

/* ---- loading ---- */

static void
end_command(int code, Datum arg)
{
	sfi_keys_command_end((SfKeyCommand *) DatumGetPointer(arg));
}

/* Put the keys of the output in the place of those that are loaded. */
static bool
take_output(const SfKeyCommand *command, int *count, SfKeyFailure *failure)
{
	SfKeySet   *set = sfi_keys_replace_begin();
	bool		taken = sfi_keys_parse(command->output, command->len_bytes, set, failure);

	*count = set->count;
	sfi_keys_replace_end(taken);
	return taken;
}

/*
 * Run the command and take its keys.  However this ends, also by a session's end, the
 * command's processes are gone then, and its output is wiped.
 */
static bool
load(int *count, SfKeyFailure *failure)
{
	SfKeyCommand command = {.fd = -1};
	volatile bool loaded = false;

	PG_ENSURE_ERROR_CLEANUP(end_command, PointerGetDatum(&command));
	{
		loaded = sfi_keys_command_run(&command, failure) &&
			take_output(&command, count, failure);
	}
	PG_END_ENSURE_ERROR_CLEANUP(end_command, PointerGetDatum(&command));
	sfi_keys_command_end(&command);
	return loaded;
}

int
sf_keys_load(void)
{
	SfKeyFailure failure;
	int			count;

	sf_base_require_preload();
	if (!load(&count, &failure))
		ereport(ERROR,
				(errcode(texts[failure.kind].sqlstate),
				 errmsg("could not load master keys from the key command"),
				 explain(&failure), advise(&failure)));
	return count;
}

/*
 * Not in _PG_init: a postmaster that is only to print a setting (postgres -C) comes there,
 * too, but not here.
 */
void
sf_keys_load_at_start(void)
{
	static bool done = false;
	SfKeyFailure failure;
	int			count;

	if (done || IsUnderPostmaster || !IsPostmasterEnvironment)
		return;
	done = true;
	if (sf_key_command[0] == '\0' || load(&count, &failure))
		return;
	sfi_keys_note_failed();
	ereport(LOG,
			(errcode(texts[failure.kind].sqlstate),
			 errmsg("could not load master keys from the key command"),
			 explain(&failure),
			 errhint("The server starts without master keys.  Call securefile_load_keys() when the command works.")));
}
