/*-------------------------------------------------------------------------
 *
 * unfilled.h
 *	  UNFILLED values: what is known of a value whose bytes a dump has left out.  format.h has
 *	  their bytes.
 *
 * In a dump such a value is a marker, a text that is no text form of a bytea:
 *
 *	 \securefile-unfilled:1:<length>:<SHA-256 in hex, or nothing>
 *
 * The number before the length is the version of the marker.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_FORMAT_UNFILLED_H
#define SF_FORMAT_UNFILLED_H

#include "format/format.h"

typedef struct SfUnfilled
{
	uint64_t	length_bytes;	/* of the value that is missing; 1 to 2^63 - 1 */
	bool		has_hash;
	uint8_t		digest[32];		/* its SHA-256, if has_hash */
} SfUnfilled;

#define SF_UNFILLED_SIZE		16	/* bytes from the form on, without hash */
#define SF_UNFILLED_HASHED_SIZE	48

/* Room for a marker with its terminating zero. */
#define SF_MARKER_SIZE			128

/*
 * Decode a value (data: its bytes from the form on).  NULL when sound, else a static text that
 * says what is wrong.
 */
extern const char *sf_format_unfilled_decode(const uint8_t *data, size_t len, SfUnfilled *unfilled);

/* Encode one into SF_UNFILLED_HASHED_SIZE bytes; returns how many it has. */
extern size_t sf_format_unfilled_encode(uint8_t *data, const SfUnfilled *unfilled);

/* Does a text begin as each marker does, of any version? */
extern bool sf_format_is_marker(const char *text);

/* Read a marker, which begins as one.  NULL when it is one, else as above. */
extern const char *sf_format_marker_read(const char *text, SfUnfilled *unfilled);

/* Write a marker into SF_MARKER_SIZE bytes. */
extern void sf_format_marker_write(char *text, const SfUnfilled *unfilled);

#endif							/* SF_FORMAT_UNFILLED_H */
