/*-------------------------------------------------------------------------
 *
 * transform.c
 *	  The table of codecs.
 *
 *-------------------------------------------------------------------------
 */
#include "transform/transform.h"

static const SfTransform *const transforms[] = {
	&sf_transform_identity,
#ifdef SF_FAULTS
	&sf_transform_trial,
#endif
};

#define NTRANSFORMS	(sizeof(transforms) / sizeof(transforms[0]))

const SfTransform *
sf_transform_find(uint32_t id)
{
	for (size_t i = 0; i < NTRANSFORMS; i++)
		if (transforms[i]->id == id)
			return transforms[i];
	return NULL;
}

bool
sf_transform_decode(const SfUnit *unit, const char *stored, char *dst, uint32_t plain_bytes)
{
	const SfTransform *codec = sf_transform_find(unit->flags);

	return codec != NULL && codec->decode(stored, unit->stored_bytes, dst, plain_bytes);
}
