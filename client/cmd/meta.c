/*-------------------------------------------------------------------------
 *
 * meta.c
 *	  Times of modification, modes and link targets of files.
 *
 *-------------------------------------------------------------------------
 */
#include "local.h"

#define MODE_BITS	07777

const Meta	meta_unknown = {NO_MTIME, NO_MODE, NULL};

Meta
meta_of(const struct stat *st)
{
	return (Meta)
	{
		st->st_mtim.tv_sec * INT64_C(1000000) + st->st_mtim.tv_nsec / 1000,
			(int) (st->st_mode & MODE_BITS), NULL
	};
}
