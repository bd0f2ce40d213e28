/*-------------------------------------------------------------------------
 *
 * adapt.c
 *	  Encode what is worth it (SecureFiles paper: compression turns itself off for
 *	  objects that do not compress).
 *
 * What an object was so far tells what its next units are like:
 *
 *	a unit gained		the next one is tried
 *	a unit did not		1, 3, 7, 15, 31, then always 63 units are stored as they are,
 *						without a try
 *
 * So an archive costs a 64th of its tries, and a file that turns into text half-way
 * is compressed again after at most 8 MB.  A try that fails is cheap, too: the codec
 * gets no more room than what would be a gain, and gives up when it is used up.
 *
 * No table of file types is asked, since an archive may hold what is not compressed,
 * and no statistics of bytes: base64 looks like random data, and gives 1.33.
 *
 *-------------------------------------------------------------------------
 */
#include "transform/transform.h"

#define MOST_PASSED_OVER	63

/*
 * A level that can use the dictionary uses it for all units of the object.  A caller gives
 * one for small objects only: a larger one has enough of its own that repeats, and the
 * dictionary would only keep the first units from being like the others.
 */
void
sf_transform_begin(SfEncoder *encoder, SfCompression level, SfDictionary *dictionary)
{
	*encoder = (SfEncoder) {.level = level, .codec = sf_transform_codec(level)};
	if (dictionary != NULL && sf_transform_is_trainable(level))
	{
		encoder->codec = sf_transform_find(SF_CODEC_TRAINED);
		encoder->dictionary = dictionary;
	}
}

/*
 * Is a unit worth the highest level?  That takes ten times the time of the medium one,
 * whether something is gained or not.  So as long as the last unit was stored as it is,
 * the medium level looks first; and also at the first unit of what may be a large object.
 * A value of less than a unit is not looked at: the look would take a sixth of its time.
 */
static bool
is_promising(const SfEncoder *encoder, const char *plain, uint32_t plain_bytes, char *dst,
			 uint32_t room)
{
	bool		is_known = encoder->plain_bytes > 0 || plain_bytes < SF_UNIT_SIZE;

	return encoder->level != SF_COMPRESSION_HIGH || (encoder->step == 0 && is_known) ||
		sf_transform_encode_bytes(encoder, SF_COMPRESSION_MEDIUM, plain, plain_bytes, dst,
								  room) > 0;
}

/* Stored bytes of a unit that is tried; 0: it is stored as it is. */
static uint32_t
try_unit(SfEncoder *encoder, const char *plain, uint32_t plain_bytes, char *dst)
{
	uint32_t	room = sf_transform_room(plain_bytes);
	uint32_t	stored_bytes = 0;

	if (is_promising(encoder, plain, plain_bytes, dst, room))
		stored_bytes = sf_transform_encode_bytes(encoder, encoder->level, plain, plain_bytes,
												 dst, room);
	if (stored_bytes > 0)
		encoder->step = 0;
	else
	{
		encoder->step = 2 * encoder->step + 1;
		if (encoder->step > MOST_PASSED_OVER)
			encoder->step = MOST_PASSED_OVER;
		encoder->skip = encoder->step;
	}
	return stored_bytes;
}

const char *
sf_transform_encode(SfEncoder *encoder, const char *plain, uint32_t plain_bytes, char *dst,
					SfUnit *unit)
{
	uint32_t	stored_bytes = 0;

	if (encoder->skip > 0)
		encoder->skip--;
	else if (encoder->codec != NULL)
		stored_bytes = try_unit(encoder, plain, plain_bytes, dst);
	unit->flags = stored_bytes > 0 ? encoder->codec->id : SF_CODEC_RAW;
	unit->stored_bytes = stored_bytes > 0 ? stored_bytes : plain_bytes;
	encoder->plain_bytes += plain_bytes;
	encoder->stored_bytes += unit->stored_bytes;
	return stored_bytes > 0 ? dst : plain;
}

/* Not before a unit was encoded: a guess that is too small costs a second region. */
uint64_t
sf_transform_expect(const SfEncoder *encoder, uint64_t plain_bytes)
{
	if (encoder->stored_bytes == encoder->plain_bytes)
		return plain_bytes;
	return (uint64_t) ((double) plain_bytes / (double) encoder->plain_bytes *
					   (double) encoder->stored_bytes) + 1;
}
