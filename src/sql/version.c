/*-------------------------------------------------------------------------
 *
 * version.c
 *	  What runs here: the library, the SQL objects, the formats they write.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "ddl/ddl.h"
#include "fmgr.h"
#include "format/format.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(securefile_version);

/* How the library was built: what is not as for a release, and the libraries that it has. */
static const char build_options[] = ""
#ifdef SF_FAULTS
	"faults "
#endif
#ifdef __SANITIZE_ADDRESS__
	"sanitizers "
#endif
#ifdef USE_ASSERT_CHECKING
	"assertions "
#endif
#ifdef SF_LZ4
	"lz4 "
#endif
#ifdef SF_ZSTD
	"zstd "
#endif
#ifdef SF_OPENSSL
	"openssl "
#endif
		   ;

/*
 * securefile_version()
 * returns (library text, extension text, locator_format integer, page_format integer,
 *			built_for text, build_options text)
 */
	Datum
	securefile_version(PG_FUNCTION_ARGS)
	{
		char	   *objects = sf_ddl_objects_version();
	size_t		len = strlen(build_options);
	Datum		values[6];
	bool		nulls[6] = {false};

	values[0] = CStringGetTextDatum(SF_VERSION);
	nulls[1] = objects == NULL;
	values[1] = nulls[1] ? (Datum) 0 : CStringGetTextDatum(objects);
	values[2] = Int32GetDatum(SF_LOCATOR_VERSION);
	values[3] = Int32GetDatum(SF_PAGE_VERSION);
	values[4] = CStringGetTextDatum("PostgreSQL " PG_VERSION);
	/* without the space at the end */
	values[5] = PointerGetDatum(cstring_to_text_with_len(build_options, len > 0 ? len - 1 : 0));
	PG_RETURN_DATUM(sf_base_row(fcinfo, values, nulls));
}
