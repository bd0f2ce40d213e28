/*-------------------------------------------------------------------------
 *
 * secret.c
 *	  Memory for bytes that may have been decrypted, which is wiped in any case.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <sodium.h>

#include "utils/memutils.h"

/* What lies before the bytes: */
typedef struct Secret
{
	MemoryContextCallback at_end;
	Size		size;			/* of the bytes */
} Secret;

#define HEAD_BYTES	MAXALIGN(sizeof(Secret))

/* Never throws: called when the memory goes. */
static void
wipe(void *arg)
{
	sodium_memzero((char *) arg + HEAD_BYTES, ((Secret *) arg)->size);
}

char *
sf_base_secret_new(Size size)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "securefile secret",
												  ALLOCSET_SMALL_SIZES);
	Secret	   *secret = MemoryContextAlloc(context, HEAD_BYTES + size);

	secret->size = size;
	secret->at_end.func = wipe;
	secret->at_end.arg = secret;
	MemoryContextRegisterResetCallback(context, &secret->at_end);
	return (char *) secret + HEAD_BYTES;
}

void
sf_base_secret_free(char *bytes)
{
	if (bytes != NULL)
		MemoryContextDelete(GetMemoryChunkContext(bytes - HEAD_BYTES));
}
